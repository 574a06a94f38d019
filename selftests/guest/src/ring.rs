// SPDX-License-Identifier: MIT OR Apache-2.0

//! A ring of switches, whose pauses can form a cycle.

use std::ops::Range;
use std::time::Duration;

use anyhow::Result;

use crate::network::{Link, Network, ip};
use crate::packets::Sender;

/// Three switches in a ring, with one host each.
///
/// What a host sends goes two switches on, so each link of the ring carries packets that leave the
/// ring at its end and packets that go on.
pub(crate) struct Ring {
    pub(crate) network: Network,
    /// The link of each switch's host.
    pub(crate) hosts: Vec<Link>,
    /// The link from each switch to the next one.
    pub(crate) ring: Vec<Link>,
}

impl Ring {
    pub(crate) const SWITCHES: usize = 3;

    /// A switch's host.
    pub(crate) fn host(switch: usize) -> usize {
        Self::SWITCHES + switch % Self::SWITCHES
    }

    /// The switch after another one.
    pub(crate) fn next(switch: usize) -> usize {
        (switch + 1) % Self::SWITCHES
    }

    /// The link that ends at a switch.
    pub(crate) fn link_to(&self, switch: usize) -> Link {
        self.ring[(switch + Self::SWITCHES - 1) % Self::SWITCHES]
    }

    /// A ring with links and routes, without qdiscs.
    pub(crate) fn new() -> Result<Self> {
        let mut network = Network::new(2 * Self::SWITCHES)?;
        let (mut hosts, mut ring) = (Vec::new(), Vec::new());
        for switch in 0..Self::SWITCHES {
            network.forward(switch)?;
            hosts.push(network.link(switch, Self::host(switch))?);
            ring.push(network.link(switch, Self::next(switch))?);
        }
        for switch in 0..Self::SWITCHES {
            network.route(switch, &hosts[switch], ip(Self::host(switch)))?;
            for hops in 1..Self::SWITCHES {
                network.route(switch, &ring[switch], ip(Self::host(switch + hops)))?;
            }
        }
        Ok(Self {
            network,
            hosts,
            ring,
        })
    }

    /// Each host sends a number of packets at once. Returns how many arrive in 2 s, and how many
    /// in the 3 s after that.
    ///
    /// `send` sends packets with these numbers on a host's link, from one node to another one.
    pub(crate) fn exchange<F>(&mut self, packets: u64, send: F) -> Result<[u64; 2]>
    where
        F: Fn(&mut Sender, &Link, (usize, usize), Range<u64>) -> Result<()>,
    {
        let mut receivers = Vec::new();
        for switch in 0..Self::SWITCHES {
            receivers.push(self.network.receiver(Self::host(switch))?);
        }
        for switch in 0..Self::SWITCHES {
            let (host, link) = (Self::host(switch), self.hosts[switch]);
            let mut sender = self.network.sender(host, &link)?;
            let first = switch as u64 * packets;
            let way = (host, Self::host(switch + 2));
            send(&mut sender, &link, way, first..first + packets)?;
        }
        let mut arrived = [0; 2];
        for (count, seconds) in arrived.iter_mut().zip([2, 3]) {
            std::thread::sleep(Duration::from_secs(seconds));
            for receiver in &receivers {
                *count += receiver.arrivals()?.len() as u64;
            }
        }
        Ok(arrived)
    }
}
