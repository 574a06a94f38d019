// SPDX-License-Identifier: MIT OR Apache-2.0

//! `scheme.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::parameter::Parameter;

/// What it says.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// One sentence.
    pub about: String,
    /// Where the values come from.
    #[serde(default)]
    pub source: String,
    /// By name.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// `None`: packets carry no tag.
    #[serde(default)]
    pub tag: Option<Tag>,
    /// Which paths packets take.
    #[serde(default)]
    pub routing: Routing,
}

/// What packets carry.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// What is the rank.
    pub policy: Policy,
    /// What is the rank where the flow's size is not known.
    #[serde(default)]
    pub fallback: Fallback,
}

/// A packet's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The bytes that remain of the flow.
    Remaining,
    /// The flow's size.
    Size,
    /// The bytes that were sent of it.
    Sent,
    /// The flow's deadline.
    Deadline,
    /// The same for all.
    Fixed,
}

/// A packet's rank if its flow's size is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// The bytes that were sent of it.
    #[default]
    Sent,
    /// The bytes that wait to be sent.
    Queued,
}

/// Which of the shortest paths a packet takes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// What decides about it.
    #[serde(default)]
    pub spray: Spray,
}

/// What decides about the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spray {
    /// The flow (ECMP).
    #[default]
    Off,
    /// Chance, for each packet.
    Random,
    /// A turn, for each packet.
    RoundRobin,
}
