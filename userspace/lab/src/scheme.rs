// SPDX-License-Identifier: MIT OR Apache-2.0

//! Schemes: what ports, hosts and routing get. The folders of `tc-configs` are in the binary; a
//! person's own is read from a path. `tc-configs/README.md` describes the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Serialize};

use crate::error::usage;
use crate::parameter::{self, Parameter, Value};
use crate::variables::Variables;

static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../tc-configs");

/// The files of a scheme, in the order in which they are shown.
pub const FILES: [&str; 6] = [
    "scheme.toml",
    "switch.tc",
    "host.tc",
    "host.sysctl",
    "switch.sysctl",
    "host.route",
];
/// Those that a scheme must have.
const NEEDED: [&str; 3] = ["scheme.toml", "switch.tc", "host.tc"];

/// A scheme as its folder says.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// The folder's name.
    pub name: String,
    /// What `scheme.toml` says.
    pub description: Description,
    /// The files' contents, by name.
    pub files: BTreeMap<String, String>,
}

/// `scheme.toml`.
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

/// The names of the schemes that weft brings.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = BUILT_IN
        .dirs()
        .filter_map(|folder| folder.path().to_str())
        .collect();
    names.sort_unstable();
    names
}

impl Scheme {
    /// The scheme of that name, or in that folder: what has a `/` or is a folder here is a path.
    ///
    /// # Errors
    ///
    /// If there is none, or its files are not as they must be: which file, and what is wrong.
    pub fn find(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if let Some(folder) = BUILT_IN.get_dir(name) {
            let files = folder.files().filter_map(|file| {
                let name = file.path().file_name()?.to_str()?;
                Some((name.to_owned(), file.contents_utf8()?.to_owned()))
            });
            return Self::new(name, files.collect());
        }
        if !name.contains('/') && !path.is_dir() {
            return usage(format!(
                "there is no scheme `{name}`: expected one of {}, or a folder such as ./{name}",
                names().join(", ")
            ));
        }
        let mut files = BTreeMap::new();
        for file in FILES {
            match fs::read_to_string(path.join(file)) {
                Ok(content) => drop(files.insert(file.to_owned(), content)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("reading {name}/{file}"));
                }
            }
        }
        let title = path.file_name().and_then(|name| name.to_str());
        Self::new(title.unwrap_or(name), files)
    }

    fn new(name: &str, files: BTreeMap<String, String>) -> Result<Self> {
        if let Some(missing) = NEEDED.iter().find(|file| !files.contains_key(**file)) {
            return usage(format!(
                "{name} is no scheme: it has no file {missing} (a scheme to start from: weft schemes export droptail DIR)"
            ));
        }
        let description: Description = match toml::from_str(&files["scheme.toml"]) {
            Ok(description) => description,
            Err(error) => return usage(format!("{name}/scheme.toml: {error}")),
        };
        Ok(Self {
            name: name.to_owned(),
            description,
            files,
        })
    }

    /// Takes `NAME=VALUE` in place of a parameter's value.
    ///
    /// # Errors
    ///
    /// If there is no such parameter, or the value is neither a number, nor a time, nor a fabric
    /// variable; of a parameter that is a word, none of its words.
    pub fn set(&mut self, setting: &str) -> Result<()> {
        let Some((name, value)) = setting.split_once('=') else {
            return usage(format!("--set {setting}: expected NAME=VALUE"));
        };
        let known: Vec<String> = self.description.parameters.keys().cloned().collect();
        let Some(parameter) = self.description.parameters.get_mut(name) else {
            return usage(format!(
                "scheme {} has no parameter `{name}`: it has {}",
                self.name,
                known.join(", ")
            ));
        };
        parameter.value = match value.parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Text(value.to_owned()),
        };
        parameter::check(name, parameter)
    }

    /// Fills in a `tc` batch: one command a line, without comments.
    ///
    /// # Errors
    ///
    /// A variable that nobody knows, with its line.
    pub fn batch(&self, file: &str, variables: &Variables) -> Result<Vec<String>> {
        self.lines(file, variables)
    }

    /// Fills in a file of `key = value` lines.
    ///
    /// # Errors
    ///
    /// As [`Scheme::batch`], and lines of another form.
    pub fn sysctls(&self, file: &str, variables: &Variables) -> Result<Vec<(String, String)>> {
        let pair = |line: String| match line.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => usage(format!(
                "{}/{file}: `{line}`: expected KEY = VALUE",
                self.name
            )),
        };
        self.lines(file, variables)?.into_iter().map(pair).collect()
    }

    /// What hosts' routes get, in the words of `ip route`.
    ///
    /// # Errors
    ///
    /// As [`Scheme::batch`].
    pub fn route(&self, variables: &Variables) -> Result<Vec<String>> {
        let lines = self.lines("host.route", variables)?;
        let words = lines.iter().flat_map(|line| line.split_whitespace());
        Ok(words.map(str::to_owned).collect())
    }

    fn lines(&self, file: &str, variables: &Variables) -> Result<Vec<String>> {
        let content = self.files.get(file).map_or("", String::as_str);
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(content.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let filled = variables.fill(line);
            lines.push(filled.with_context(|| format!("{}/{file}, line {number}", self.name))?);
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::FabricFigures;

    fn fabric() -> FabricFigures {
        FabricFigures {
            bdp_packets: 12,
            rtt_ns: 14_600_000,
            slack_ns: 60_000,
            dilation: 1000,
        }
    }

    fn wire(rate: &str, delay: &str) -> weft_topo::Wire {
        weft_topo::Wire {
            rate: rate.parse().unwrap(),
            delay: delay.parse().unwrap(),
        }
    }

    #[test]
    fn the_readme_has_a_row_for_every_scheme_that_weft_brings() {
        let readme = BUILT_IN
            .get_file("README.md")
            .and_then(|it| it.contents_utf8());
        let readme = readme.unwrap();
        for name in names() {
            assert!(readme.contains(&format!("\n| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn every_scheme_that_weft_brings_can_be_filled_in() {
        assert!(names().contains(&"droptail"), "{:?}", names());
        for name in names() {
            let scheme = Scheme::find(name).unwrap();
            let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
            let variables =
                variables
                    .unwrap()
                    .port("eth0", &wire("10mbit", "200us"), ["eth1"].into_iter());
            for file in ["switch.tc", "host.tc"] {
                let lines = scheme.batch(file, &variables).unwrap();
                assert!(lines.len() >= 2, "{name}/{file}");
                assert!(lines.iter().all(|line| !line.contains('$')), "{lines:?}");
                let wire = "qdisc add dev eth0 root handle 1: wire rate 10mbit delay 200us";
                assert!(lines[0].starts_with(wire), "{name}/{file}: {lines:?}");
                assert!(
                    lines[0].ends_with(" slack 60us"),
                    "{name}/{file}: {lines:?}"
                );
            }
            for file in ["host.sysctl", "switch.sysctl"] {
                scheme.sysctls(file, &variables).unwrap();
            }
            scheme.route(&variables).unwrap();
            assert!(!scheme.description.about.is_empty() && !scheme.description.source.is_empty());
        }
    }

    #[test]
    fn times_of_the_fabric_are_slowed_with_it() {
        let scheme = Scheme::find("pfabric-tcp").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric()).unwrap();
        let words = scheme.route(&variables).unwrap().join(" ");
        assert!(
            words.contains("cwnd lock 24 quickack 1 rto_min 45"),
            "{words}"
        );
        assert!(words.contains("initcwnd 12"), "{words}");
    }

    #[test]
    fn pfabrics_rate_control_is_the_routes_and_set_in_the_slowed_fabrics_time() {
        let scheme = Scheme::find("pfabric").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric()).unwrap();
        let sysctls = scheme.sysctls("host.sysctl", &variables).unwrap();
        let pair = |key: &str, value: &str| (format!("net.ipv4.tcp_{key}"), value.to_owned());
        let expected = [
            pair("pfabric.init_cwnd", "12"),
            pair("pfabric.max_cwnd", "24"),
            pair("pfabric.rto_us", "43800"),
            pair("pfabric.probe_threshold", "5"),
        ];
        assert_eq!(sysctls[..4], expected);
        let route = scheme.route(&variables).unwrap();
        assert_eq!(route[..2], ["congctl", "pfabric"]);
    }

    #[test]
    fn a_parameter_is_set_and_a_wrong_one_refused() {
        let mut scheme = Scheme::find("pfabric").unwrap();
        scheme.set("buffer=48").unwrap();
        scheme.set("rto=60us").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
        let variables = variables
            .unwrap()
            .port("p", &wire("1gbit", "0ns"), [].into_iter());
        let lines = scheme.batch("switch.tc", &variables).unwrap();
        assert!(lines[1].ends_with("pfabric limit 48"), "{lines:?}");
        for (setting, expected) in [
            (
                "bufer=48",
                "has no parameter `bufer`: it has buffer, initcwnd, maxcwnd, probes, rto",
            ),
            ("buffer", "expected NAME=VALUE"),
            (
                "buffer=many",
                "`many` is neither a number, nor a time such as 45us, nor one of $bdp, $rtt",
            ),
        ] {
            let error = format!("{:#}", scheme.set(setting).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_word_is_one_of_those_that_it_may_be() {
        let mut scheme = Scheme::find("bfc").unwrap();
        scheme.set("assign=stochastic").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
        let variables = variables
            .unwrap()
            .port("p", &wire("1gbit", "0ns"), [].into_iter());
        let lines = scheme.batch("switch.tc", &variables).unwrap();
        assert!(lines[1].contains(" assign stochastic "), "{lines:?}");
        for setting in ["assign=random", "assign=1", "assign=1us", "assign=$rtt"] {
            let error = format!("{:#}", scheme.set(setting).unwrap_err());
            let expected = "expected one of dynamic, stochastic, single";
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_answered_with_those_there_are() {
        let error = format!("{:#}", Scheme::find("pfabrik").unwrap_err());
        assert!(
            error.contains("dctcp, droptail, fq_codel, ideal-fq, pfabric"),
            "{error}"
        );
    }

    #[test]
    fn an_unknown_variable_is_named_with_its_line() {
        let mut scheme = Scheme::find("droptail").unwrap();
        let file = scheme.files.get_mut("switch.tc").unwrap();
        *file = file.replace("$buffer", "$bufer");
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
        let variables = variables
            .unwrap()
            .port("p", &wire("1gbit", "0ns"), [].into_iter());
        let error = format!("{:#}", scheme.batch("switch.tc", &variables).unwrap_err());
        assert!(error.contains("droptail/switch.tc, line 3"), "{error}");
        assert!(error.contains("`$bufer`"), "{error}");
    }
}
