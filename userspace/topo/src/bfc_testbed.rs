// SPDX-License-Identifier: MIT OR Apache-2.0

//! The testbed of P. Goyal et al., "Backpressure flow control", NSDI 2022, Figure 6 and §6.1:
//!
//! ```text
//! sender1 ─┐                        ┌─ receiver1
//!          ├─ switch1 ─── switch2 ──┤
//! sender2 ─┘                 │      └─ receiver2
//! sender3 ─── switch3 ───────┘
//! ```
//!
//! Groups 1 and 2 share the link between switches 1 and 2; groups 2 and 3 share receiver 2. All
//! ports are 100 Gbit/s. The paper does not state the testbed's delays; the default of 1 µs per
//! link is that of its simulations (§6.2.1). A sender group is one host unless an option says
//! otherwise; in the paper it is the switch's packet generator.
//!
//! | option | range | default |
//! |---|---|---|
//! | `sender1`, `sender2`, `sender3`: hosts of a group | 1–126 | 1 |
//! | `host-rate`, `host-delay` | 1kbit–400gbit, 0ns–10s | 100gbit, 1us |
//! | `fabric-rate`, `fabric-delay`: between switches | likewise | 100gbit, 1us |
//! | `third-rate`, `third-delay`: of switches 3 and 2 | likewise | those of `fabric` |
//! | `rate`, `delay`: all links | likewise |  |

use std::fmt;

use crate::address::Address;
use crate::error::Error;
use crate::options::{Options, Specification};
use crate::topology::{Builder, Topology, Wire};
use crate::units::{Delay, Rate};

pub(crate) const KIND: &str = "bfc-testbed";
const WIRE: Wire = Wire {
    rate: Rate::gbit(100),
    delay: Delay::of_ns(1_000),
};
/// Two groups share a switch's addresses.
const MAX_SENDERS: u32 = crate::address::MAX_HOSTS_PER_SWITCH / 2;

/// `bfc-testbed`, or `bfc-testbed:sender1=A,sender2=B,sender3=C` for groups of more than one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BfcTestbed {
    senders: [u32; 3],
    host: Wire,
    fabric: Wire,
    third: Wire,
}

impl BfcTestbed {
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, Error> {
        let options = Options::parse(
            KIND,
            text,
            &[
                "sender1",
                "sender2",
                "sender3",
                "rate",
                "delay",
                "host-rate",
                "host-delay",
                "fabric-rate",
                "fabric-delay",
                "third-rate",
                "third-delay",
            ],
        )?;
        let senders = |name| options.number(name, 1, 1..=MAX_SENDERS);
        Ok(Self {
            senders: [
                senders("sender1")?,
                senders("sender2")?,
                senders("sender3")?,
            ],
            host: options.wire(&["host"], WIRE)?,
            fabric: options.wire(&["fabric"], WIRE)?,
            third: options.wire(&["third", "fabric"], WIRE)?,
        })
    }

    pub(crate) fn topology(&self) -> Topology {
        let mut b = Builder::new(self.to_string());
        // Switches are numbered from 1, as in the figure.
        let [first, second, third] = self.senders;
        let mut hosts = |switch, from, count| -> Vec<_> {
            (from..from + count)
                .map(|i| b.host(Address::host(0, switch, i)))
                .collect()
        };
        let groups = [
            ("sender1", 1, hosts(1, 0, first)),
            ("sender2", 1, hosts(1, first, second)),
            ("sender3", 3, hosts(3, 0, third)),
            ("receiver1", 2, hosts(2, 0, 1)),
            ("receiver2", 2, hosts(2, 1, 1)),
        ];
        let switches = [1, 2, 3].map(|i| b.switch("switch", i, Address::switch(0, i)));
        for (name, switch, hosts) in &groups {
            for &host in hosts {
                b.link("host", host, switches[switch - 1], self.host);
            }
            b.group(*name, hosts);
        }
        b.link("fabric", switches[0], switches[1], self.fabric);
        b.link("fabric", switches[2], switches[1], self.third);
        b.build(None)
    }
}

impl fmt::Display for BfcTestbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["sender1", "sender2", "sender3"];
        let several = names
            .into_iter()
            .zip(self.senders)
            .filter(|&(_, hosts)| hosts != 1);
        several
            .fold(Specification::new(), |shown, (name, hosts)| {
                shown.always(name, hosts)
            })
            .wire("host", self.host, WIRE)
            .wire("fabric", self.fabric, WIRE)
            .wire("third", self.third, self.fabric)
            .write(KIND, f)
    }
}
