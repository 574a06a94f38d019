// SPDX-License-Identifier: MIT OR Apache-2.0

//! A topology, how much slower it is, and a scheme: what `up` and `run` weave.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use anyhow::{Context as _, Result};
use weft_load::framing::Framing;
use weft_topo::Topology;

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
    /// Sets one of the scheme's parameters (repeatable); `weft schemes` names them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
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
        let known = FabricVariables {
            bdp_packets: topology::bdp_packets(&slowed),
            rtt_ns: topology::base_rtt_ns(&slowed),
            dilation: args.dilation.get(),
        };
        let variables = Variables::of_fabric(&scheme.description.parameters, &known)?;
        Ok(Self {
            title: args.topology.clone(),
            topology,
            slowed,
            dilation: args.dilation,
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
    pub(crate) fn framing(&self) -> Result<Framing> {
        let tagged = self.scheme.description.tag.is_some();
        Framing::ethernet_tcp(MTU, tagged).context("the MTU holds no payload")
    }
}
