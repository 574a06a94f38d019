// SPDX-License-Identifier: MIT OR Apache-2.0

//! The contents of one `scheme.toml`, which may extend another scheme.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::description::{Description, Fallback, Packets, Policy, Process, Routing, Spray, Tag};
use crate::parameter::{Parameter, Value};

/// Every field may be missing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Own {
    /// The scheme that supplies everything missing here.
    pub(super) extends: Option<String>,
    /// Files that are those of another scheme: the file's name, and the scheme.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Parameters of that scheme that this one removes.
    #[serde(default)]
    without: Vec<String>,
    about: Option<String>,
    source: Option<String>,
    #[serde(default)]
    parameters: BTreeMap<String, OwnParameter>,
    tag: Option<OwnTag>,
    flow_sizes: Option<bool>,
    full_bisection: Option<bool>,
    #[serde(default)]
    allow: BTreeMap<String, f64>,
    routing: Option<OwnRouting>,
    /// The complete list; the parent's processes are not added.
    process: Option<Vec<Process>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnParameter {
    value: Option<Value>,
    words: Option<Vec<String>>,
    about: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnTag {
    policy: Option<Policy>,
    fallback: Option<Fallback>,
    packets: Option<Packets>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnRouting {
    spray: Option<Spray>,
}

impl Own {
    /// The parameters that it sets.
    pub(super) fn parameters(&self) -> Vec<String> {
        self.parameters.keys().cloned().collect()
    }

    /// Combines both: this one's fields, and the parent's where this one has none.
    ///
    /// # Errors
    ///
    /// If something is missing in both, or a parameter is to be removed that the parent does not
    /// have: one sentence.
    pub(super) fn over(self, parent: Description) -> Result<Description, String> {
        let mut parameters = parent.parameters;
        for name in self.without {
            if parameters.remove(&name).is_none() {
                return Err(format!(
                    "without: there is no parameter `{name}` to leave out"
                ));
            }
        }
        for (name, own) in self.parameters {
            let inherited = parameters.remove(&name);
            let whole = own
                .over(inherited)
                .ok_or_else(|| format!("parameter {name}: it needs a value"))?;
            parameters.insert(name, whole);
        }
        let tag = match (self.tag, parent.tag) {
            (None, inherited) => inherited,
            (Some(own), inherited) => Some(Tag {
                policy: own
                    .policy
                    .or(inherited.map(|it| it.policy))
                    .ok_or("a tag needs a policy")?,
                fallback: own
                    .fallback
                    .or(inherited.map(|it| it.fallback))
                    .unwrap_or_default(),
                packets: own
                    .packets
                    .or(inherited.map(|it| it.packets))
                    .unwrap_or_default(),
            }),
        };
        let spray = self.routing.and_then(|own| own.spray);
        Ok(Description {
            extends: self.extends,
            about: self.about.unwrap_or(parent.about),
            source: self.source.unwrap_or(parent.source),
            parameters,
            tag,
            flow_sizes: self.flow_sizes.unwrap_or(parent.flow_sizes),
            full_bisection: self.full_bisection.unwrap_or(parent.full_bisection),
            allow: parent.allow.into_iter().chain(self.allow).collect(),
            routing: Routing {
                spray: spray.unwrap_or(parent.routing.spray),
            },
            process: self.process.unwrap_or(parent.process),
        })
    }
}

impl OwnParameter {
    fn over(self, inherited: Option<Parameter>) -> Option<Parameter> {
        let (value, words, about) = match inherited {
            Some(it) => (Some(it.value), it.words, it.about),
            None => (None, Vec::new(), String::new()),
        };
        Some(Parameter {
            value: self.value.or(value)?,
            words: self.words.unwrap_or(words),
            about: self.about.unwrap_or(about),
        })
    }
}
