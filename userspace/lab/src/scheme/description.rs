// SPDX-License-Identifier: MIT OR Apache-2.0

//! `scheme.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::parameter::{Parameter, Value};

/// The contents of the file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The scheme that supplies everything missing in its files.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    /// One sentence.
    pub about: String,
    /// The source of the values.
    #[serde(default)]
    pub source: String,
    /// By name.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// `None` if packets carry no tag.
    #[serde(default)]
    pub tag: Option<Tag>,
    /// Flows declare their sizes although packets carry no tag: a host's congestion control reads
    /// them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flow_sizes: bool,
    /// The scheme is for fabrics whose switches can send up all that their hosts send: see
    /// [`oversubscribed`](crate::topology::oversubscribed).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub full_bisection: bool,
    /// Other limits of validity gates, by name: what the scheme does by design makes no run
    /// invalid.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allow: BTreeMap<String, f64>,
    /// The choice of packets' paths.
    #[serde(default)]
    pub routing: Routing,
    /// Processes on nodes from `up` to `down`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process: Vec<Process>,
}

/// A command on some nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// A node's name, `hosts`, `switches`, `first-host`, or a layer such as `core`.
    pub on: String,
    /// A command line, as a shell splits it; `$name` is a variable.
    pub run: String,
}

/// The tag of packets.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// The meaning of the rank.
    pub policy: Policy,
    /// The rank if the flow's size is not known.
    #[serde(default)]
    pub fallback: Fallback,
    /// The packets that have a tag.
    #[serde(default)]
    pub packets: Packets,
}

/// A packet's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The bytes that remain of the flow.
    Remaining,
    /// The flow's size.
    Size,
    /// The bytes of the flow that were already sent.
    Sent,
    /// The flow's deadline.
    Deadline,
    /// The same for all.
    Fixed,
    /// None: the tag carries the utilisation of the path and sends it back.
    Echo,
    /// None: packets have room for the records of their links in place of a tag.
    Records,
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

/// The packets of a host that carry a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packets {
    /// Those with payload.
    #[default]
    Data,
    /// All, because switches read a field of the tag other than the rank.
    All,
}

/// The choice among shortest paths.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// The basis of the choice.
    #[serde(default)]
    pub spray: Spray,
}

/// The basis of the choice of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spray {
    /// The flow (ECMP).
    #[default]
    Off,
    /// A random choice for each packet.
    Random,
    /// The next path for each packet.
    RoundRobin,
    /// The path in the packet's tag, see [`weft_ebpf::Spray::Path`].
    Path,
}

impl Description {
    /// Whether flows declare their sizes.
    pub fn declares(&self) -> bool {
        self.flow_sizes || self.tag.is_some()
    }

    /// A `scheme.toml` with the same contents that extends no other scheme.
    pub(super) fn text(&self, name: &str) -> String {
        let mut text = String::new();
        if let Some(parent) = &self.extends {
            text += &format!("# What {name} comes to, which extends {parent}.\n");
        }
        text += &format!("about = {}\n", quoted(&self.about));
        if !self.source.is_empty() {
            text += &format!("source = {}\n", quoted(&self.source));
        }
        if self.flow_sizes {
            text += "flow_sizes = true\n";
        }
        if self.full_bisection {
            text += "full_bisection = true\n";
        }
        if !self.parameters.is_empty() {
            text += "\n[parameters]\n";
        }
        for (name, parameter) in &self.parameters {
            text += &format!("{} = {}\n", key(name), inline(parameter));
        }
        if !self.allow.is_empty() {
            text += "\n[allow]\n";
        }
        for (gate, limit) in &self.allow {
            text += &format!("{} = {limit}\n", key(gate));
        }
        if let Some(tag) = self.tag {
            let (policy, fallback) = (tag.policy.name(), tag.fallback.name());
            text += &format!("\n[tag]\npolicy = \"{policy}\"\nfallback = \"{fallback}\"\n");
            if tag.packets == Packets::All {
                text += "packets = \"all\"\n";
            }
        }
        if self.routing.spray != Spray::Off {
            let spray = self.routing.spray.name();
            text += &format!("\n[routing]\nspray = \"{spray}\"\n");
        }
        for Process { on, run } in &self.process {
            let (on, run) = (quoted(on), quoted(run));
            text += &format!("\n[[process]]\non = {on}\nrun = {run}\n");
        }
        text
    }
}

fn inline(parameter: &Parameter) -> String {
    let mut fields = vec![match &parameter.value {
        Value::Number(number) => format!("value = {number}"),
        Value::Text(text) => format!("value = {}", quoted(text)),
    }];
    if !parameter.words.is_empty() {
        let words: Vec<String> = parameter.words.iter().map(|it| quoted(it)).collect();
        fields.push(format!("words = [{}]", words.join(", ")));
    }
    if !parameter.about.is_empty() {
        fields.push(format!("about = {}", quoted(&parameter.about)));
    }
    format!("{{ {} }}", fields.join(", "))
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A key of TOML.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::Remaining => "remaining",
            Self::Size => "size",
            Self::Sent => "sent",
            Self::Deadline => "deadline",
            Self::Fixed => "fixed",
            Self::Echo => "echo",
            Self::Records => "records",
        }
    }
}

impl Fallback {
    fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Queued => "queued",
        }
    }
}

impl Spray {
    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
            Self::Path => "path",
        }
    }
}
