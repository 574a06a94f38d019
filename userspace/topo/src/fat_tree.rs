// SPDX-License-Identifier: MIT OR Apache-2.0

//! The three-layer fat-tree of M. Al-Fares, A. Loukissas, A. Vahdat, "A scalable, commodity data
//! center network architecture", SIGCOMM 2008, §3.1.
//!
//! With switches of k ports: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core switches,
//! k³/4 hosts. Edge switch E of a pod has k/2 hosts and a link to each aggregation switch of the
//! pod; aggregation switch A of every pod has links to core switches A·k/2 to A·k/2 + k/2 − 1.
//! There are (k/2)² shortest paths between hosts of different pods, k/2 within a pod, and 1 under
//! an edge switch.
//!
//! All links have the same rate (10 Gbit/s, the pFabric paper's host rate) and the same delay,
//! except that host links have a longer delay, see [`crate::leaf_spine`].
//!
//! | option | range | default |
//! |---|---|---|
//! | `k` | even, 2–32 | 4 |
//! | `host-rate`, `host-delay`: host to edge | 1kbit–400gbit, 0ns–10s | 10gbit, 2700ns |
//! | `edge-rate`, `edge-delay`: edge to aggregation | likewise | 10gbit, 200ns |
//! | `core-rate`, `core-delay`: aggregation to core | likewise | 10gbit, 200ns |
//! | `fabric-rate`, `fabric-delay`: both of these | likewise |  |
//! | `rate`, `delay`: all links | likewise |  |
//! | `oversubscription=N`: edge and core links have 1/N of the host rate | 1–1000 |  |

use std::fmt;

use crate::address::Address;
use crate::error::Error;
use crate::leaf_spine::{HOST, WIRE_DELAY};
use crate::options::{Options, Specification};
use crate::topology::{Bisection, Builder, Topology, Wire};
use crate::units::Rate;

pub(crate) const KIND: &str = "fat-tree";
/// 8192 hosts and 1280 switches.
const MAX_K: u32 = 32;
const FABRIC: Wire = Wire {
    rate: Rate::gbit(10),
    delay: WIRE_DELAY,
};

/// `fat-tree:k=K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    k: u32,
    host: Wire,
    edge: Wire,
    core: Wire,
}

impl FatTree {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let options = Options::parse(
            KIND,
            text,
            &[
                "k",
                "rate",
                "delay",
                "host-rate",
                "host-delay",
                "fabric-rate",
                "fabric-delay",
                "edge-rate",
                "edge-delay",
                "core-rate",
                "core-delay",
                "oversubscription",
            ],
        )?;
        let k = options.number("k", 4, 2..=MAX_K)?;
        if !k.is_multiple_of(2) {
            return Err(Error::new(format!(
                "{KIND}: k must be even, for half of a switch's ports go up; write k={} or k={}",
                k - 1,
                k + 1
            )));
        }
        let host = options.wire(&["host"], HOST)?;
        let mut edge = options.wire(&["edge", "fabric"], FABRIC)?;
        let mut core = options.wire(&["core", "fabric"], FABRIC)?;
        let rates = ["fabric-rate", "edge-rate", "core-rate"];
        if let Some(ratio) = options.oversubscription(&rates)? {
            edge.rate = options.share(host.rate.bits_per_second(), 1, ratio)?;
            core.rate = edge.rate;
        }
        Ok(Self {
            k,
            host,
            edge,
            core,
        })
    }

    /// The number of ports of a switch; even.
    pub fn k(&self) -> u32 {
        self.k
    }

    pub(crate) fn topology(&self) -> Topology {
        let half = self.k / 2;
        let pods = || 0..self.k;
        let switches = || pods().flat_map(move |pod| (0..half).map(move |at| (pod, at)));
        let mut b = Builder::new(self.to_string());
        let hosts: Vec<Vec<_>> = switches()
            .map(|(pod, at)| {
                (0..half)
                    .map(|i| b.host(Address::host(pod, at, i)))
                    .collect()
            })
            .collect();
        let edges: Vec<_> = switches()
            .map(|(pod, at)| b.switch("edge", pod * half + at, Address::switch(pod, at)))
            .collect();
        let aggs: Vec<_> = switches()
            .map(|(pod, at)| b.switch("agg", pod * half + at, Address::switch(pod, half + at)))
            .collect();
        let cores: Vec<_> = (0..half * half)
            .map(|core| {
                let (j, i) = (core / half + 1, core % half + 1);
                b.switch("core", core, Address::new(self.k as u8, j as u8, i as u8))
            })
            .collect();
        for (rack, &edge) in hosts.iter().zip(&edges) {
            for &host in rack {
                b.link("host", host, edge, self.host);
            }
        }
        let half = half as usize;
        for (edges, aggs) in edges.chunks(half).zip(aggs.chunks(half)) {
            for &edge in edges {
                for &agg in aggs {
                    b.link("edge", edge, agg, self.edge);
                }
            }
        }
        for aggs in aggs.chunks(half) {
            for (&agg, cores) in aggs.iter().zip(cores.chunks(half)) {
                for &core in cores {
                    b.link("core", agg, core, self.core);
                }
            }
        }
        for (i, rack) in hosts.iter().enumerate() {
            b.group(format!("rack{i}"), rack);
        }
        for (i, racks) in hosts.chunks(half).enumerate() {
            b.group(format!("pod{i}"), &racks.concat());
        }
        let crossing = u64::from(self.k.pow(3) / 8);
        b.build(Some(Bisection {
            offered: crossing * self.host.rate.bits_per_second(),
            carried: crossing * self.edge.rate.min(self.core.rate).bits_per_second(),
        }))
    }
}

impl fmt::Display for FatTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Specification::new()
            .always("k", self.k)
            .wire("host", self.host, HOST);
        if self.edge == self.core {
            shown.wire("fabric", self.edge, FABRIC)
        } else {
            shown
                .wire("edge", self.edge, FABRIC)
                .wire("core", self.core, FABRIC)
        }
        .write(KIND, f)
    }
}
