// SPDX-License-Identifier: MIT OR Apache-2.0

//! Below parents of all kinds qdiscs come, change, move and go, under packets and pause frames,
//! while somebody lists them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use weft_ktap::Namespace;
use weft_mechanisms::bfc::options::MAX_QUEUES;

use super::{Example, Tally, pause};
use crate::blaster::Blaster;
use crate::netlink::{Handle, Netlink, QdiscRequest, Verb};
use crate::pause::{Neighbour, bitmap};
use crate::port::{FAR_MAC, INDEX};
use crate::random::Random;
use crate::tree::{TREES, Tree};

/// The first of the handles that qdiscs are given.
const FIRST: u16 = 0x10;
const HANDLES: u32 = 4;

pub(super) fn turn(examples: &[Example], random: &mut Random, tally: &mut Tally) -> Result<()> {
    let (_, make) = random.choose(&TREES);
    let Some(mut tree) = tally.count(make()) else {
        return Ok(());
    };
    let blaster = Blaster::start(&tree.port)?;
    let mut neighbour = Neighbour::new(&tree.port.far, INDEX, FAR_MAC)?;
    let near = Namespace::open(tree.port.near.path())?;
    let stop = AtomicBool::new(false);
    let listed = std::thread::scope(|scope| {
        let lister = scope.spawn(|| list(&near, &stop));
        for _ in 0..random.between(5, 40) {
            step(&mut tree, &mut neighbour, examples, random, tally);
            pause(random);
        }
        stop.store(true, Ordering::Relaxed);
        lister.join().expect("who lists does not panic")
    });
    blaster.finish()?;
    listed
}

/// Asks what there is, with all statistics.
fn list(near: &Namespace, stop: &AtomicBool) -> Result<()> {
    let mut netlink = Netlink::open(near)?;
    while !stop.load(Ordering::Relaxed) {
        netlink.qdiscs(INDEX)?;
        netlink.classes(INDEX)?;
        std::thread::sleep(Duration::from_micros(700));
    }
    Ok(())
}

fn step(
    tree: &mut Tree,
    neighbour: &mut Neighbour,
    examples: &[Example],
    random: &mut Random,
    tally: &mut Tally,
) {
    let leaf = random.choose(&tree.leaves);
    let result = match random.below(12) {
        0..=3 => {
            let verb = random.choose(&[Verb::Add, Verb::Replace]);
            let handle = Handle::new(FIRST + random.below(HANDLES) as u16, 0);
            let Example { kind, options, .. } = random.one_of(examples);
            request(tree, verb, leaf, handle, kind, Some(options.clone()))
        }
        4..=5 => change(tree, examples, random),
        6 => tree.port.netlink.delete_qdisc(INDEX, leaf),
        7 => grafted(tree, leaf, random),
        8 => {
            let netlink = &mut tree.port.netlink;
            netlink
                .set_up(INDEX, false)
                .and_then(|()| netlink.set_up(INDEX, true))
        }
        9 => tree.port.netlink.set_mtu(INDEX, random.between(1500, 9000)),
        _ => {
            let queues = (0..MAX_QUEUES as u16).filter(|_| random.one_in(3));
            let paused: Vec<u16> = queues.collect();
            neighbour.hold = random.below(20_000);
            neighbour.say(bitmap(paused))
        }
    };
    tally.count(result);
}

fn request(
    tree: &mut Tree,
    verb: Verb,
    parent: Handle,
    handle: Handle,
    kind: &str,
    options: Option<Vec<u8>>,
) -> Result<()> {
    let request = QdiscRequest {
        index: INDEX,
        parent,
        handle,
        kind,
        options,
    };
    tree.port.netlink.qdisc(verb, &request)
}

/// One of ours that is there, with its place.
fn there(tree: &mut Tree, examples: &[Example], random: &mut Random) -> Result<Option<There>> {
    let mut there = Vec::new();
    for qdisc in tree.port.qdiscs()? {
        let example = examples.iter().find(|example| example.kind == qdisc.kind);
        there.extend(example.map(|example| There {
            kind: example.kind,
            handle: Handle(qdisc.handle),
            parent: Handle(qdisc.parent),
            options: example.options.clone(),
        }));
    }
    let count = there.len() as u32;
    Ok((count > 0).then(|| there.swap_remove(random.below(count.max(1)) as usize)))
}

struct There {
    kind: &'static str,
    handle: Handle,
    parent: Handle,
    /// Of the example.
    options: Vec<u8>,
}

/// Options that are right, or of which a byte is another one.
fn change(tree: &mut Tree, examples: &[Example], random: &mut Random) -> Result<()> {
    let Some(mut it) = there(tree, examples, random)? else {
        return Ok(());
    };
    let length = it.options.len() as u32;
    if length > 0 && random.one_in(2) {
        it.options[random.below(length) as usize] ^= 1 << random.below(8);
    }
    let options = Some(it.options);
    request(tree, Verb::Change, it.parent, it.handle, it.kind, options)
}

/// One that is somewhere moves, or is in two places from then on.
fn grafted(tree: &mut Tree, to: Handle, random: &mut Random) -> Result<()> {
    let qdiscs = tree.port.qdiscs()?;
    let at = random.below(qdiscs.len().max(1) as u32) as usize;
    let Some(it) = qdiscs.get(at) else {
        return Ok(());
    };
    let (handle, kind) = (Handle(it.handle), it.kind.clone());
    request(tree, Verb::Replace, to, handle, &kind, None)
}
