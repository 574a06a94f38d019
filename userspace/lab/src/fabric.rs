// SPDX-License-Identifier: MIT OR Apache-2.0

//! A topology, its dilation, and a scheme: the input of `up` and `run`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use weft_load::framing::Framing;
use weft_mechanisms::common::records::{self, HOPS};
use weft_topo::{Spec, Topology};

use crate::error::usage;
use crate::parameter::FabricFigures;
use crate::scheme::{Policy, Scheme};
use crate::shape::Shape;
use crate::topology::{self, PathMaxima};
use crate::variables::Variables;

/// The MTU of all links: Ethernet's.
pub const MTU: u32 = 1500;

/// The options that choose a fabric and its scheme.
#[derive(Clone, Debug)]
pub struct FabricOptions {
    /// `KIND[:OPTION=VALUE,…]`, or a TOML file's path.
    pub topology: String,
    /// The dilation: the fabric runs this many times slower.
    pub dilation: NonZeroU32,
    /// The maximum delay of a wire's timer, in time of the fabric.
    pub slack: Duration,
    /// The name of a scheme that weft brings, or a folder.
    pub scheme: String,
    /// `NAME=VALUE`, overriding the scheme's parameters.
    pub settings: Vec<String>,
    /// Files of kernel modules to load.
    pub modules: Vec<PathBuf>,
}

impl FabricOptions {
    /// The files and folders that it names, except those that weft brings.
    ///
    /// # Errors
    ///
    /// If the scheme is invalid.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let topology = Spec::is_file(&self.topology).then(|| PathBuf::from(&self.topology));
        let scheme = Scheme::find(&self.scheme)?;
        let mut files: Vec<PathBuf> = topology.into_iter().collect();
        files.extend_from_slice(scheme.folders());
        files.extend_from_slice(&self.modules);
        Ok(files)
    }
}

/// A fabric and its scheme.
pub struct Fabric {
    /// The fabric's name in the command line.
    pub title: String,
    /// The simulated fabric.
    pub topology: Topology,
    /// The fabric that is woven.
    pub slowed: Topology,
    /// The dilation: times of the machine are this many times those of the fabric.
    pub dilation: NonZeroU32,
    /// The maximum delay of the wires' timers, in the machine's time.
    pub slack: Duration,
    /// The settings of its ports, hosts and routing.
    pub scheme: Scheme,
    /// The variables for the scheme's files, without a port's.
    pub variables: Variables,
    /// Files of kernel modules to load.
    pub modules: Vec<PathBuf>,
    figures: FabricFigures,
}

impl Fabric {
    /// # Errors
    ///
    /// If the topology, the scheme, or one of their options is invalid.
    pub fn new(options: &FabricOptions) -> Result<Self> {
        let topology = topology::parse(&options.topology)?;
        let slowed = topology::dilate(topology.clone(), options.dilation)?;
        let mut scheme = Scheme::find(&options.scheme)?;
        for setting in &options.settings {
            scheme.set(setting)?;
        }
        if scheme.description.full_bisection
            && let Some(switch) = topology::oversubscribed(&topology)
        {
            return usage(format!(
                "{} is for a fabric with full bisection bandwidth, but {switch}: use a topology \
                 with faster links or more switches above it (weft topology {} prints its \
                 oversubscription)",
                scheme.name, options.topology
            ));
        }
        let maxima = PathMaxima::of(&slowed);
        let policy = scheme.description.tag.map(|tag| tag.policy);
        let links = maxima.links;
        if policy == Some(Policy::Records) && links > HOPS as u64 {
            return usage(format!(
                "scheme {}: packets have room for the records of {HOPS} links, but paths of {} have \
                 up to {links}: use hpcc-pint or powertcp, whose packets have none",
                scheme.name, options.topology
            ));
        }
        let slack = options.slack * options.dilation.get();
        let slack_ns = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
        let figures = FabricFigures::of(&slowed, maxima, slack_ns, options.dilation.get());
        let mut variables = Variables::of_fabric(&scheme.description.parameters, &figures)?;
        variables.set("topology", options.topology.clone());
        variables.set("dilation", options.dilation.to_string());
        Shape::of(&slowed).set(&mut variables);
        Ok(Self {
            title: options.topology.clone(),
            topology,
            slowed,
            dilation: options.dilation,
            slack,
            scheme,
            variables,
            modules: options.modules.clone(),
            figures,
        })
    }

    /// The scheme's parameters, with times in the fabric's time.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let parameters = self.scheme.description.parameters.iter();
        parameters
            .map(|(name, it)| (name.clone(), it.value.told(&self.figures)))
            .collect()
    }

    /// The framing of packets on its wires.
    ///
    /// # Errors
    ///
    /// Never: Ethernet's MTU has room for the headers.
    pub fn framing(&self, ipv6: bool) -> Result<Framing> {
        match self.scheme.description.tag {
            Some(tag) if tag.policy == Policy::Records => {
                let size = match ipv6 {
                    false => records::IPV4_SIZE,
                    true => records::IPV6_SIZE,
                };
                let framing = framing(ipv6, false)?.with_option(size as u32);
                framing.context("the MTU holds no payload")
            }
            tag => framing(ipv6, tag.is_some()),
        }
    }

    /// The framing without the scheme's tag, which is the same for any two schemes.
    ///
    /// # Errors
    ///
    /// As [`framing`](Self::framing).
    pub(crate) fn untagged_framing(ipv6: bool) -> Result<Framing> {
        framing(ipv6, false)
    }
}

fn framing(ipv6: bool, tagged: bool) -> Result<Framing> {
    let framing = match ipv6 {
        false => Framing::ethernet_tcp(MTU, tagged),
        true => Framing::ethernet_tcp_ipv6(MTU, tagged),
    };
    framing.context("the MTU holds no payload")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(slack: Duration, dilation: u32) -> FabricOptions {
        FabricOptions {
            topology: "fat-tree:k=4".to_owned(),
            dilation: NonZeroU32::new(dilation).unwrap(),
            slack,
            scheme: "droptail".to_owned(),
            settings: Vec::new(),
            modules: Vec::new(),
        }
    }

    #[test]
    fn packets_with_records_are_longer() {
        let framing = |scheme: &str| {
            let mut options = options(Duration::ZERO, 1);
            options.scheme = scheme.to_owned();
            let fabric = Fabric::new(&options).unwrap();
            [false, true].map(|ipv6| fabric.framing(ipv6).unwrap().mss.get())
        };
        assert_eq!(framing("hpcc"), [1448 - 40, 1428 - 48]);
        assert_eq!(framing("hpcc-pint"), [1448 - 8, 1428 - 8]);
    }

    #[test]
    fn a_path_with_more_links_than_records_is_refused() {
        let file = std::env::temp_dir().join(format!("weft-chain-{}.toml", std::process::id()));
        let nodes = ["h0", "s0", "s1", "s2", "s3", "s4", "s5", "h1"];
        let mut text = format!(
            "hosts = [\"h0\", \"h1\"]\nswitches = {:?}\nrate = \"10gbit\"\n",
            &nodes[1..7]
        );
        for ends in nodes.windows(2) {
            text += &format!("[[link]]\nends = {ends:?}\n");
        }
        std::fs::write(&file, text).unwrap();
        let mut options = options(Duration::ZERO, 1);
        options.topology = file.display().to_string();
        assert!(Fabric::new(&options).is_ok());
        options.scheme = "hpcc".to_owned();
        let error = Fabric::new(&options).err().unwrap().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(
            error.contains("6 links") && error.contains("up to 7"),
            "{error}"
        );
    }

    #[test]
    fn the_slack_is_dilated_with_the_fabric() {
        for (slack, dilation, expected) in [(0, 1000, "0ns"), (60, 1, "60ns"), (60, 1000, "60us")] {
            let options = options(Duration::from_nanos(slack), dilation);
            let fabric = Fabric::new(&options).unwrap();
            assert_eq!(fabric.variables.fill("$slack").unwrap(), expected);
        }
    }
}
