// SPDX-License-Identifier: MIT OR Apache-2.0

//! Between which hosts flows are.

use std::fmt;
use std::str::FromStr;

use anyhow::Result;
use weft_load::pairs::Pairs;
use weft_topo::Topology;

use super::{between, host, racks, read, refuse};
use crate::error::usage;
use crate::topology::{self, file_hint, is_file};

/// The pairs of sender and receiver. It is read from, and written as, `uniform`, `permutation`,
/// `intra-rack`, `local:FRACTION`, `all-to-one[:HOST]`, `without:HOST`, `FROM-TO`, or the path of a
/// file.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// From any host to any other.
    Uniform,
    /// From each host to one other, which is the same in the whole run.
    Permutation,
    /// From any host to any other of its rack.
    IntraRack,
    /// From any host: this fraction of flows, above 0 and below 1, to any other of its rack, the
    /// rest to any of another rack.
    Local(f64),
    /// From all hosts to this one; `None` for the first.
    AllToOne(Option<String>),
    /// From any host to any other, except this one, which has no flows.
    Without(String),
    /// `FROM-TO`: from any host of a group to any of another; either may be a single host.
    Between(String),
    /// Any pair in a file.
    List(String),
}

impl FromStr for Pattern {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        // Before files: the fraction looks like a file's extension.
        if let Some(fraction) = text.strip_prefix("local:") {
            let fraction = fraction.parse().ok();
            return match fraction.filter(|it| *it > 0.0 && *it < 1.0) {
                Some(fraction) => Ok(Self::Local(fraction)),
                None => usage(format!(
                    "--pairs {text}: expected a fraction above 0 and below 1, such as local:0.5"
                )),
            };
        }
        Ok(match text {
            "uniform" => Self::Uniform,
            "permutation" => Self::Permutation,
            "intra-rack" => Self::IntraRack,
            "all-to-one" => Self::AllToOne(None),
            _ => match text.strip_prefix("all-to-one:") {
                Some(name) => Self::AllToOne(Some(name.to_owned())),
                None if text.starts_with("without:") => {
                    Self::Without(text.trim_start_matches("without:").to_owned())
                }
                None if is_file(text) => Self::List(text.to_owned()),
                None if text.contains('-') => Self::Between(text.to_owned()),
                None => {
                    return usage(format!(
                        "--pairs {text}: expected uniform, permutation, all-to-one[:hN], without:hN, intra-rack, local:FRACTION, FROM-TO or a file{}",
                        file_hint(text, is_file)
                    ));
                }
            },
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Permutation => f.write_str("permutation"),
            Self::IntraRack => f.write_str("intra-rack"),
            Self::Local(fraction) => write!(f, "local:{fraction}"),
            Self::AllToOne(None) => f.write_str("all-to-one"),
            Self::AllToOne(Some(host)) => write!(f, "all-to-one:{host}"),
            Self::Without(host) => write!(f, "without:{host}"),
            Self::Between(text) | Self::List(text) => f.write_str(text),
        }
    }
}

impl Pattern {
    pub(super) fn on(&self, topology: &Topology, seed: u64) -> Result<Pairs> {
        let hosts = topology.hosts().count() as u32;
        if let Self::IntraRack | Self::AllToOne(None) = self {
            self.ensure_is_no_pair(topology)?;
        }
        refuse(match self {
            Self::Uniform => Pairs::uniform(hosts),
            Self::Permutation => Pairs::permutation(hosts, seed),
            Self::IntraRack => Pairs::intra_group(&racks(topology)),
            Self::Local(fraction) => Pairs::local(&racks(topology), *fraction),
            Self::AllToOne(None) => Pairs::all_to_one(hosts, 0),
            Self::AllToOne(Some(name)) => Pairs::all_to_one(hosts, host(topology, name)?),
            Self::Without(name) => {
                let idle = host(topology, name)?;
                let others = || (0..hosts).filter(move |it| *it != idle);
                let pairs = others().flat_map(|src| {
                    let others = others().filter(move |dst| *dst != src);
                    others.map(move |dst| (src, dst))
                });
                Pairs::listed(&self.to_string(), pairs.collect(), hosts)
            }
            Self::Between(text) => {
                let (senders, receivers) = between(topology, text)?;
                let pairs = senders.iter().flat_map(|src| {
                    let others = receivers.iter().filter(move |dst| *dst != src);
                    others.map(move |dst| (*src, *dst))
                });
                Pairs::listed(text, pairs.collect(), hosts)
            }
            Self::List(file) => Pairs::from_list(
                file,
                &read("--pairs", file, super::PAIRS)?,
                &topology::names(topology),
            ),
        })
    }

    /// Refuses the name of a pattern that is also `FROM-TO` in this fabric.
    fn ensure_is_no_pair(&self, topology: &Topology) -> Result<()> {
        let text = self.to_string();
        let is = |name: &str| !topology::hosts(topology, name).is_empty();
        let mut hyphens = text.match_indices('-');
        let pair = hyphens.find_map(|(place, _)| {
            let (from, to) = (&text[..place], &text[place + 1..]);
            (is(from) && is(to)).then_some((from, to))
        });
        let Some((from, to)) = pair else {
            return Ok(());
        };
        usage(format!(
            "--pairs {text} is a pattern as well as from {from} to {to} in this fabric: give one of them another name"
        ))
    }
}
