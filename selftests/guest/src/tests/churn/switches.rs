// SPDX-License-Identifier: MIT OR Apache-2.0

//! A switch whose ports get other qdiscs while packets cross it, whose neighbours pause it, and
//! whose links and neighbours go.
//!
//! ```text
//!   1, a host ──▶ 0, the switch ──▶ 2, a host
//!                       │
//!                       3, a switch, which sends back what it gets
//! ```

use anyhow::Result;
use weft_mechanisms::common::tag::Tag;

use super::{Example, Tally, pause};
use crate::model::Packet;
use crate::network::{Link, Network};
use crate::packets::{MIN_FRAME, Sender};
use crate::pause::{Neighbour, bitmap};
use crate::random::Random;

const SWITCH: usize = 0;
const SENDER: usize = 1;
const RECEIVER: usize = 2;
const OTHER: usize = 3;
const TO: [u8; 4] = [10, 9, 0, 2];

struct Star {
    network: Network,
    links: [Link; 3],
    sender: Sender,
    neighbours: Vec<Neighbour>,
}

pub(super) fn turn(examples: &[Example], random: &mut Random, tally: &mut Tally) -> Result<()> {
    let mut star = Star::new()?;
    for link in star.links {
        tally.count(star.qdisc(&link, "root handle 1:", "wire", "rate 10mbit delay 200us"));
    }
    for _ in 0..random.between(10, 60) {
        let result = star.step(examples, random);
        tally.count(result);
        pause(random);
    }
    // One of them goes before the others, with its link, under packets.
    star.network
        .delete(random.choose(&[SENDER, RECEIVER, OTHER]));
    Ok(())
}

impl Star {
    fn new() -> Result<Self> {
        let mut network = Network::new(4)?;
        let links = [
            network.link(SWITCH, SENDER)?,
            network.link(SWITCH, RECEIVER)?,
            network.link(SWITCH, OTHER)?,
        ];
        let [to_sender, to_receiver, to_other] = links;
        for (node, link) in [(SWITCH, &to_receiver), (OTHER, &to_other)] {
            network.forward(node)?;
            network.route(node, link, TO)?;
        }
        // It has spoken to the other switch before.
        network.route(SWITCH, &to_other, [10, 9, 0, 3])?;
        let sender = network.sender(SENDER, &to_sender)?;
        let mut neighbours = Vec::new();
        for (node, link) in [(RECEIVER, to_receiver), (OTHER, to_other)] {
            let address = link.address(node);
            let namespace = network.namespace(node)?;
            neighbours.push(Neighbour::new(namespace, link.index, address)?);
        }
        Ok(Self {
            network,
            links,
            sender,
            neighbours,
        })
    }

    /// Puts a qdisc at one of the switch's ports.
    fn qdisc(&mut self, link: &Link, place: &str, kind: &str, words: &str) -> Result<()> {
        let name = link.name();
        let words = format!("qdisc replace dev {name} {place} {kind} {words}");
        self.network.tc(SWITCH, &words).map(drop)
    }

    fn step(&mut self, examples: &[Example], random: &mut Random) -> Result<()> {
        let link = random.choose(&self.links);
        match random.below(10) {
            0..=1 => {
                let Example { kind, words, .. } = random.one_of(examples);
                self.qdisc(&link, "parent 1:1 handle 2:", kind, words)
            }
            2 => {
                let name = link.name();
                let words = format!("-s -d qdisc show dev {name}");
                self.network.tc(SWITCH, &words).map(drop)
            }
            3 => {
                self.network.set_up(SWITCH, &link, false)?;
                self.network.set_up(SWITCH, &link, true)
            }
            4..=5 => {
                let count = self.neighbours.len() as u32;
                let neighbour = &mut self.neighbours[random.below(count) as usize];
                neighbour.hold = random.below(20_000);
                neighbour.say(bitmap((0..32).filter(|_| random.one_in(2))))
            }
            _ => self.burst(random),
        }
    }

    fn burst(&mut self, random: &mut Random) -> Result<()> {
        let to = self.links[0].destination(SENDER, TO);
        for id in 0..60 {
            let packet = Packet {
                id,
                rank: random.below(100),
                flow: random.below(20),
                len: random.between(MIN_FRAME, 1400),
            };
            let tag = random.one_in(2).then(Tag::default);
            self.sender.send_to(&packet, &to, tag)?;
        }
        Ok(())
    }
}
