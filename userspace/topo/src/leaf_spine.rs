// SPDX-License-Identifier: MIT OR Apache-2.0

//! Leaf-spine: each leaf (top-of-rack) switch has a link to each spine switch.
//!
//! The defaults are the fabric of M. Alizadeh et al., "pFabric: minimal near-optimal datacenter
//! transport", SIGCOMM 2013, §5.1 and Figure 3: 9 leaves, 4 spines, 16 hosts a leaf; 10 Gbit/s
//! host links and 40 Gbit/s fabric links, so not oversubscribed.
//!
//! That section gives round-trip latencies instead of delays: 14.6 µs across the spine, 13.3 µs
//! under a leaf, and 10 µs of each in the hosts. Serializing a frame of 1500 bytes and an
//! acknowledgement of 40 bytes at each hop takes 3.1 and 2.5 µs, which leaves 0.2 µs per link. A
//! round trip passes a host four times, so its 10 µs in hosts are 2.5 µs per pass. Here they are
//! part of the host link's delay: 2.7 µs.
//!
//! | option | range | default |
//! |---|---|---|
//! | `leaves` | 2–256 | 9 |
//! | `spines` | 1–256 | 4 |
//! | `hosts`: of each leaf | 1–253 | 16 |
//! | `host-rate`, `host-delay`: host to leaf | 1kbit–400gbit, 0ns–10s | 10gbit, 2700ns |
//! | `fabric-rate`, `fabric-delay`: leaf to spine | likewise | 40gbit, 200ns |
//! | `rate`, `delay`: all links | likewise |  |
//! | `oversubscription=N`: a leaf's uplinks have 1/N of its host links' sum | 1–1000 |  |

use std::fmt;

use crate::address::{Address, MAX_HOSTS_PER_SWITCH};
use crate::error::Error;
use crate::options::{Options, Specification};
use crate::topology::{Bisection, Builder, MAX_NODES, Topology, Wire};
use crate::units::{Delay, Rate};

pub(crate) const KIND: &str = "leaf-spine";
/// The delay of a link in the pFabric paper.
pub(crate) const WIRE_DELAY: Delay = Delay::of_ns(200);
/// A host link: [`WIRE_DELAY`] and a quarter of the 10 µs that a round trip spends in hosts.
pub(crate) const HOST: Wire = Wire {
    rate: Rate::gbit(10),
    delay: Delay::of_ns(2_700),
};
const FABRIC: Wire = Wire {
    rate: Rate::gbit(40),
    delay: WIRE_DELAY,
};

/// `leaf-spine:leaves=L,spines=S,hosts=H`, with H hosts per leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpine {
    leaves: u32,
    spines: u32,
    hosts: u32,
    host: Wire,
    fabric: Wire,
}

impl LeafSpine {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let options = Options::parse(
            KIND,
            text,
            &[
                "leaves",
                "spines",
                "hosts",
                "rate",
                "delay",
                "host-rate",
                "host-delay",
                "fabric-rate",
                "fabric-delay",
                "oversubscription",
            ],
        )?;
        let leaves = options.number("leaves", 9, 2..=256)?;
        let spines = options.number("spines", 4, 1..=256)?;
        let hosts = options.number("hosts", 16, 1..=MAX_HOSTS_PER_SWITCH)?;
        let nodes = leaves * (hosts + 1) + spines;
        if nodes as usize > MAX_NODES {
            return Err(Error::new(format!(
                "{KIND}: {nodes} nodes are more than {MAX_NODES}; give fewer leaves, or fewer \
                 hosts a leaf"
            )));
        }
        let host = options.wire(&["host"], HOST)?;
        let mut fabric = options.wire(&["fabric"], FABRIC)?;
        if let Some(ratio) = options.oversubscription(&["fabric-rate"])? {
            let rack = u64::from(hosts) * host.rate.bits_per_second();
            fabric.rate = options.share(rack, spines.into(), ratio)?;
        }
        Ok(Self {
            leaves,
            spines,
            hosts,
            host,
            fabric,
        })
    }

    pub(crate) fn topology(&self) -> Topology {
        let mut b = Builder::new(self.to_string());
        let hosts: Vec<Vec<_>> = (0..self.leaves)
            .map(|leaf| {
                (0..self.hosts)
                    .map(|i| b.host(Address::host(0, leaf, i)))
                    .collect()
            })
            .collect();
        let leaves: Vec<_> = (0..self.leaves)
            .map(|leaf| b.switch("leaf", leaf, Address::switch(0, leaf)))
            .collect();
        let spines: Vec<_> = (0..self.spines)
            .map(|spine| b.switch("spine", spine, Address::switch(1, spine)))
            .collect();
        for (rack, &leaf) in hosts.iter().zip(&leaves) {
            for &host in rack {
                b.link("host", host, leaf, self.host);
            }
        }
        for &leaf in &leaves {
            for &spine in &spines {
                b.link("fabric", leaf, spine, self.fabric);
            }
        }
        for (i, rack) in hosts.iter().enumerate() {
            b.group(format!("rack{i}"), rack);
        }
        let [leaves, spines, hosts] = [self.leaves, self.spines, self.hosts].map(u64::from);
        // Half of the sum over all leaves, which is also defined for an odd number of leaves.
        b.build(Some(Bisection {
            offered: leaves * hosts * self.host.rate.bits_per_second() / 2,
            carried: leaves * spines * self.fabric.rate.bits_per_second() / 2,
        }))
    }
}

impl fmt::Display for LeafSpine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Specification::new()
            .always("leaves", self.leaves)
            .always("spines", self.spines)
            .always("hosts", self.hosts)
            .wire("host", self.host, HOST)
            .wire("fabric", self.fabric, FABRIC)
            .write(KIND, f)
    }
}
