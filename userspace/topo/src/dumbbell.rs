// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dumbbell: two racks and one link between their switches, the bottleneck.
//!
//! By default the bottleneck is as fast as a host link, so that two flows across it compete. Other
//! rates and delays are those of [`crate::leaf_spine`].
//!
//! | option | range | default |
//! |---|---|---|
//! | `left`, `right`: hosts | 1–253 | 4 |
//! | `host-rate`, `host-delay` | 1kbit–400gbit, 0ns–10s | 10gbit, 2700ns |
//! | `bottleneck-rate`, `bottleneck-delay`; also `fabric-…` | likewise | 10gbit, 200ns |
//! | `rate`, `delay`: all links | likewise |  |
//! | `oversubscription=N`: the bottleneck has 1/N of the smaller side's host links | 1–1000 |  |

use std::fmt;

use crate::address::{Address, MAX_HOSTS_PER_SWITCH};
use crate::error::Error;
use crate::leaf_spine::{HOST, WIRE_DELAY};
use crate::options::{Options, Specification};
use crate::topology::{Bisection, Builder, Topology, Wire};
use crate::units::Rate;

pub(crate) const KIND: &str = "dumbbell";
const BOTTLENECK: Wire = Wire {
    rate: Rate::gbit(10),
    delay: WIRE_DELAY,
};

/// `dumbbell:left=L,right=R`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    left: u32,
    right: u32,
    host: Wire,
    bottleneck: Wire,
}

impl Dumbbell {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let options = Options::parse(
            KIND,
            text,
            &[
                "left",
                "right",
                "rate",
                "delay",
                "host-rate",
                "host-delay",
                "bottleneck-rate",
                "bottleneck-delay",
                "fabric-rate",
                "fabric-delay",
                "oversubscription",
            ],
        )?;
        let left = options.number("left", 4, 1..=MAX_HOSTS_PER_SWITCH)?;
        let right = options.number("right", 4, 1..=MAX_HOSTS_PER_SWITCH)?;
        let host = options.wire(&["host"], HOST)?;
        let mut bottleneck = options.wire(&["bottleneck", "fabric"], BOTTLENECK)?;
        if let Some(ratio) = options.oversubscription(&["bottleneck-rate", "fabric-rate"])? {
            let side = u64::from(left.min(right)) * host.rate.bits_per_second();
            bottleneck.rate = options.share(side, 1, ratio)?;
        }
        Ok(Self {
            left,
            right,
            host,
            bottleneck,
        })
    }

    pub(crate) fn topology(&self) -> Topology {
        let mut b = Builder::new(self.to_string());
        let left: Vec<_> = (0..self.left)
            .map(|i| b.host(Address::host(0, 0, i)))
            .collect();
        let right: Vec<_> = (0..self.right)
            .map(|i| b.host(Address::host(0, 1, i)))
            .collect();
        let tors = [0, 1].map(|i| b.switch("tor", i, Address::switch(0, i)));
        for (hosts, tor) in [(&left, tors[0]), (&right, tors[1])] {
            for &host in hosts {
                b.link("host", host, tor, self.host);
            }
        }
        b.link("bottleneck", tors[0], tors[1], self.bottleneck);
        b.group("left", &left);
        b.group("right", &right);
        let hosts = u64::from(self.left.min(self.right));
        b.build(Some(Bisection {
            offered: hosts * self.host.rate.bits_per_second(),
            carried: self.bottleneck.rate.bits_per_second(),
        }))
    }
}

impl fmt::Display for Dumbbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Specification::new()
            .always("left", self.left)
            .always("right", self.right)
            .wire("host", self.host, HOST)
            .wire("bottleneck", self.bottleneck, BOTTLENECK)
            .write(KIND, f)
    }
}
