// SPDX-License-Identifier: MIT OR Apache-2.0

//! One rack: hosts under one switch.
//!
//! The defaults are the testbed of A. Munir et al., "Friends, not foes: synthesizing existing
//! transport strategies for data center networks" (PASE), SIGCOMM 2014, §4.4: 10 hosts, 1 Gbit/s
//! links and a round trip of 250 µs, which is four times a host link's delay.
//!
//! | option | range | default |
//! |---|---|---|
//! | `hosts` | 2–253 | 10 |
//! | `host-rate`, `host-delay`; also `rate`, `delay` | 1kbit–400gbit, 0ns–10s | 1gbit, 62500ns |

use std::fmt;

use crate::address::{Address, MAX_HOSTS_PER_SWITCH};
use crate::error::Error;
use crate::options::{Options, Specification};
use crate::topology::{Bisection, Builder, Topology, Wire};
use crate::units::{Delay, Rate};

pub(crate) const KIND: &str = "rack";
const HOST: Wire = Wire {
    rate: Rate::gbit(1),
    delay: Delay::of_ns(62_500),
};

/// `rack:hosts=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rack {
    hosts: u32,
    host: Wire,
}

impl Rack {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let known = ["hosts", "rate", "delay", "host-rate", "host-delay"];
        let options = Options::parse(KIND, text, &known)?;
        let hosts = options.number("hosts", 10, 2..=MAX_HOSTS_PER_SWITCH)?;
        Ok(Self {
            hosts,
            host: options.wire(&["host"], HOST)?,
        })
    }

    pub(crate) fn topology(&self) -> Topology {
        let mut b = Builder::new(self.to_string());
        let hosts: Vec<_> = (0..self.hosts)
            .map(|i| b.host(Address::host(0, 0, i)))
            .collect();
        let tor = b.switch("tor", 0, Address::switch(0, 0));
        for &host in &hosts {
            b.link("host", host, tor, self.host);
        }
        b.group("rack0", &hosts);
        let half = u64::from(self.hosts / 2) * self.host.rate.bits_per_second();
        b.build(Some(Bisection {
            offered: half,
            carried: half,
        }))
    }
}

impl fmt::Display for Rack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Specification::new()
            .always("hosts", self.hosts)
            .wire("host", self.host, HOST)
            .write(KIND, f)
    }
}
