// SPDX-License-Identifier: MIT OR Apache-2.0

//! A topology, how much slower it is, and a scheme: what `up` and `run` weave.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Context as _, Result};
use weft_load::framing::Framing;
use weft_topo::{Delay, Topology};

use crate::scheme::{Fabric as FabricVariables, Scheme, Variables};
use crate::topology;

/// Of all links: Ethernet's.
pub(crate) const MTU: u32 = 1500;

/// Which fabric.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// KIND[:OPTION=VALUE,…] or a TOML file; see `weft topology --help`
    pub(crate) topology: String,
    /// The fabric runs so many times slower: rates are divided, delays and the scheme's times
    /// multiplied, and results are given in the fabric's own time
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) dilation: NonZeroU32,
    /// How late the timer of a wire may be, in time of the fabric, so that several fire together: a
    /// run in a VM is faster, and each packet up to so much late where it leaves the fabric
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = time)]
    pub(crate) slack: Duration,
    /// Sets one of the scheme's parameters (repeatable); `weft schemes` names them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
}

/// A time of the fabric.
fn time(text: &str) -> Result<Duration, &'static str> {
    let time = text.parse::<Delay>().ok();
    let time = time.map(|time| Duration::from_nanos(time.ns()));
    time.ok_or("expected a time up to 10s, such as 60ns")
}

/// A fabric and its scheme.
pub(crate) struct Fabric {
    /// As the command line names it.
    pub(crate) title: String,
    /// The fabric that is meant.
    pub(crate) topology: Topology,
    /// The one that is woven.
    pub(crate) slowed: Topology,
    pub(crate) dilation: NonZeroU32,
    /// Of the wires' timers, in the machine's time.
    pub(crate) slack: Duration,
    pub(crate) scheme: Scheme,
    pub(crate) variables: Variables,
    known: FabricVariables,
}

impl Fabric {
    /// # Errors
    ///
    /// If topology, scheme, or one of their options is not as it must be.
    pub(crate) fn new(args: &Args, scheme: &str) -> Result<Self> {
        let topology = topology::parse(&args.topology)?;
        let slowed = topology::dilate(topology.clone(), args.dilation)?;
        let mut scheme = Scheme::find(scheme)?;
        for setting in &args.settings {
            scheme.set(setting)?;
        }
        let slack = args.slack * args.dilation.get();
        let known = FabricVariables {
            bdp_packets: topology::bdp_packets(&slowed),
            rtt_ns: topology::base_rtt_ns(&slowed),
            slack_ns: u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX),
            dilation: args.dilation.get(),
        };
        let variables = Variables::of_fabric(&scheme.description.parameters, &known)?;
        Ok(Self {
            title: args.topology.clone(),
            topology,
            slowed,
            dilation: args.dilation,
            slack,
            scheme,
            variables,
            known,
        })
    }

    /// The scheme's parameters, times being the fabric's.
    pub(crate) fn parameters(&self) -> BTreeMap<String, String> {
        let parameters = self.scheme.description.parameters.iter();
        parameters
            .map(|(name, it)| (name.clone(), it.value.told(&self.known)))
            .collect()
    }

    /// What packets are like on its wires.
    ///
    /// # Errors
    ///
    /// Never: Ethernet's MTU holds headers.
    pub(crate) fn framing(&self, ipv6: bool) -> Result<Framing> {
        let tagged = self.scheme.description.tag.is_some();
        let framing = match ipv6 {
            false => Framing::ethernet_tcp(MTU, tagged),
            true => Framing::ethernet_tcp_ipv6(MTU, tagged),
        };
        framing.context("the MTU holds no payload")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(slack: Duration, dilation: u32) -> Args {
        Args {
            topology: "fat-tree:k=4".to_owned(),
            dilation: NonZeroU32::new(dilation).unwrap(),
            slack,
            settings: Vec::new(),
        }
    }

    #[test]
    fn the_slack_is_slowed_with_the_fabric() {
        for (slack, dilation, expected) in [(0, 1000, "0ns"), (60, 1, "60ns"), (60, 1000, "60us")] {
            let args = args(Duration::from_nanos(slack), dilation);
            let fabric = Fabric::new(&args, "droptail").unwrap();
            assert_eq!(fabric.variables.fill("$slack").unwrap(), expected);
        }
    }

    #[test]
    fn a_slack_is_a_time() {
        assert_eq!(time("60ns"), Ok(Duration::from_nanos(60)));
        assert_eq!(time("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(time("0ns"), Ok(Duration::ZERO));
        for text in ["", "60", "-1ns", "soon", "11s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
