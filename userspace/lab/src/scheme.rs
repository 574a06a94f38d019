// SPDX-License-Identifier: MIT OR Apache-2.0

//! Schemes: the settings of ports, hosts and routing. The folders of `tc-configs` are in the
//! binary; a person's own folder is read from a path. `tc-configs/README.md` describes the files.

mod description;
mod folder;
mod own;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use weft_words::near::meant;

use crate::error::usage;
use crate::gates;
use crate::parameter::{self, Value};
use crate::variables::Variables;
use folder::Folder;
use own::Own;

pub use description::{Description, Fallback, Packets, Policy, Process, Routing, Spray, Tag};
pub use folder::names;
pub use source::{Line, Source};

/// The files of a scheme, in the order in which they are shown.
pub const FILES: [&str; 6] = [
    "scheme.toml",
    "switch.tc",
    "host.tc",
    "host.sysctl",
    "switch.sysctl",
    "host.route",
];
/// The files that a scheme must have.
const NEEDED: [&str; 3] = ["scheme.toml", "switch.tc", "host.tc"];

/// A scheme from its folder, combined with those that it extends.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// The folder's name.
    pub name: String,
    /// The content of `scheme.toml`.
    pub description: Description,
    /// The files, by name.
    files: BTreeMap<String, Source>,
    /// Its folder and those of the schemes that it extends, without those that weft brings.
    folders: Vec<PathBuf>,
}

impl Scheme {
    /// The scheme of that name, or in that folder: a word that has a `/` or is a folder here is a
    /// path.
    ///
    /// # Errors
    ///
    /// If there is none, or its files are invalid: the file, and the mistake.
    pub fn find(name: &str) -> Result<Self> {
        Self::read(&Folder::find(name)?, &[])
    }

    /// The scheme of a folder; `children` are the schemes that extend it, and the first one is the
    /// requested scheme.
    fn read(folder: &Folder, children: &[&Folder]) -> Result<Self> {
        let name = folder.name();
        let place = |file: &str| format!("{name}/{file}");
        let Some(text) = folder.read("scheme.toml")? else {
            return lacks(name, "scheme.toml");
        };
        let wrong = |error: toml::de::Error| format!("{}: {error}", place("scheme.toml"));
        let own: Own = toml::from_str(&text).map_err(wrong).or_else(usage)?;
        // The parameters that the other scheme does not have.
        let mut new = Vec::new();
        let (description, text, mut files, mut folders) = match own.extends.clone() {
            None => {
                let description = toml::from_str(&text).map_err(wrong).or_else(usage)?;
                (description, text, BTreeMap::new(), Vec::new())
            }
            Some(parent) => {
                let line = [children, &[folder]].concat();
                let other = |word: &str, setting: &str| {
                    let context = || format!("{}: {setting}", place("scheme.toml"));
                    let other = folder.parent(word).with_context(context)?;
                    if line.iter().any(|child| child.is(&other)) {
                        let names = line.iter().copied().chain([&other]).map(Folder::name);
                        let names: Vec<&str> = names.collect();
                        return usage(names.join(" extends ")).with_context(context);
                    }
                    Self::read(&other, &line)
                };
                let mut parent = other(&parent, &format!("extends = \"{parent}\""))?;
                for (file, word) in &own.files {
                    let setting = format!("files: \"{file}\" = \"{word}\"");
                    let other = other(word, &setting)?;
                    let Some(source) = other.files.get(file).filter(|_| file != FILES[0]) else {
                        return usage(format!("{word} has no such file"))
                            .with_context(|| format!("{}: {setting}", place("scheme.toml")));
                    };
                    parent.files.insert(file.clone(), source.clone());
                    parent.folders.extend(other.folders);
                }
                new = own.parameters();
                new.retain(|name| !parent.description.parameters.contains_key(name));
                let description = own
                    .over(parent.description)
                    .map_err(|wrong| format!("{}: {wrong}", place("scheme.toml")))
                    .or_else(usage)?;
                let text = description.text(name);
                (description, text, parent.files, parent.folders)
            }
        };
        if let Some(fault) = gates::fault(&description.allow) {
            return usage(format!("{}: allow: {fault}", place("scheme.toml")));
        }
        let source = |file: &str, text: String| Source::new(place(file), text);
        files.insert("scheme.toml".to_owned(), source("scheme.toml", text));
        for file in &FILES[1..] {
            if let Some(text) = folder.read(file)? {
                files.insert((*file).to_owned(), source(file, text));
            }
        }
        if let Some(missing) = NEEDED.iter().find(|file| !files.contains_key(**file)) {
            return lacks(name, missing);
        }
        // A mistyped name would add a parameter, and leave the inherited one as it was.
        let unused = |name: &&String| {
            let mut processes = description.process.iter();
            !(files.values().any(|file| file.uses(name))
                || processes.any(|process| source::uses(&process.run, name)))
        };
        if let Some(name) = new.iter().find(unused) {
            let others = description.parameters.keys().filter(|it| *it != name);
            let known: Vec<&str> = others.map(String::as_str).collect();
            return usage(format!(
                "{}: parameter {name}: no file of the scheme uses ${name}{}",
                place("scheme.toml"),
                meant(name, &known)
            ));
        }
        folders.extend(folder.path().map(Path::to_owned));
        Ok(Self {
            name: name.to_owned(),
            description,
            files,
            folders,
        })
    }

    /// Its folder and those of the schemes that it extends, without those that weft brings.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Its files, by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.files
            .iter()
            .map(|(name, source)| (name.as_str(), source))
    }

    /// Sets a parameter, given as `NAME=VALUE`.
    ///
    /// # Errors
    ///
    /// If there is no such parameter, or the value is not a number, a time or a fabric variable; if
    /// the parameter is a word, also if the value is none of its words.
    pub fn set(&mut self, setting: &str) -> Result<()> {
        let Some((name, value)) = setting.split_once('=') else {
            return usage(format!("--set {setting}: expected NAME=VALUE"));
        };
        let known: Vec<String> = self.description.parameters.keys().cloned().collect();
        let Some(parameter) = self.description.parameters.get_mut(name) else {
            let known = match known.as_slice() {
                [] => "none".to_owned(),
                known => known.join(", "),
            };
            return usage(format!(
                "scheme {} has no parameter `{name}`: it has {known}",
                self.name
            ));
        };
        let value = match value.parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Text(value.to_owned()),
        };
        let before = std::mem::replace(&mut parameter.value, value);
        parameter::check(name, parameter)?;
        match parameter::differs(&before, &parameter.value) {
            Some(expected) => usage(format!("--set {setting}: expected {expected}")),
            None => Ok(()),
        }
    }

    /// Fills in a `tc` batch: the commands, and the file's name in messages.
    ///
    /// # Errors
    ///
    /// An unknown variable, with its line.
    pub fn batch(&self, file: &str, variables: &Variables) -> Result<(&str, Vec<Line>)> {
        match self.files.get(file) {
            Some(source) => Ok((source.place(), source.filled(variables)?)),
            None => Ok(("", Vec::new())),
        }
    }

    /// Fills in a file for `sysctl -p`; `make` parses a line.
    ///
    /// # Errors
    ///
    /// As for [`Scheme::batch`], and errors of `make`: with the line.
    pub fn sysctls<T>(
        &self,
        file: &str,
        variables: &Variables,
        make: impl Fn(&str) -> Result<T>,
    ) -> Result<Vec<T>> {
        let Some(source) = self.files.get(file) else {
            return Ok(Vec::new());
        };
        let make = |Line { number, text }: Line| make(&text).with_context(|| source.at(number));
        source.filled(variables)?.into_iter().map(make).collect()
    }

    /// The attributes of hosts' routes, from the words of `ip route`.
    ///
    /// # Errors
    ///
    /// As for [`Scheme::batch`], and errors of `make`: with the file.
    pub fn route<T>(
        &self,
        variables: &Variables,
        make: impl Fn(&[String]) -> Result<T>,
    ) -> Result<T> {
        let Some(source) = self.files.get("host.route") else {
            return make(&[]);
        };
        let lines = source.filled(variables)?;
        let words = lines.iter().flat_map(|line| line.text.split_whitespace());
        let words: Vec<String> = words.map(str::to_owned).collect();
        make(&words).with_context(|| source.place().to_owned())
    }
}

fn lacks<T>(name: &str, file: &str) -> Result<T> {
    usage(format!(
        "{name} is no scheme: it has no file {file} (a scheme to start from: weft schemes export droptail DIR)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::FabricFigures;
    use crate::shape::Shape;

    fn fabric() -> FabricFigures {
        FabricFigures {
            slack_ns: 60_000,
            ..FabricFigures::pfabric(1000)
        }
    }

    fn wire(rate: &str, delay: &str) -> weft_topo::Wire {
        weft_topo::Wire {
            rate: rate.parse().unwrap(),
            delay: delay.parse().unwrap(),
        }
    }

    fn batch(scheme: &Scheme, file: &str, variables: &Variables) -> Vec<String> {
        let (_, lines) = scheme.batch(file, variables).unwrap();
        lines.into_iter().map(|line| line.text).collect()
    }

    fn pair(line: &str) -> Result<(String, String)> {
        let (key, value) = line.split_once('=').unwrap();
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    }

    fn words(scheme: &Scheme, variables: &Variables) -> String {
        let joined = scheme.route(variables, |words| Ok(words.join(" ")));
        joined.unwrap()
    }

    #[test]
    fn the_readme_has_a_row_for_each_built_in_scheme() {
        let readme = folder::BUILT_IN
            .get_file("README.md")
            .and_then(|it| it.contents_utf8());
        let readme = readme.unwrap();
        for name in names() {
            assert!(readme.contains(&format!("\n| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn each_built_in_scheme_can_be_filled_in() {
        assert!(names().contains(&"droptail"), "{:?}", names());
        for name in names() {
            let scheme = Scheme::find(name).unwrap();
            let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
            let mut variables =
                variables
                    .unwrap()
                    .port("eth0", &wire("10mbit", "200us"), ["eth1"].into_iter());
            let fat_tree = crate::topology::parse("fat-tree:k=4").unwrap();
            Shape::of(&fat_tree).set(&mut variables);
            variables.set("address", "10.0.1.2".to_owned());
            for file in ["switch.tc", "host.tc"] {
                let lines = batch(&scheme, file, &variables);
                assert!(lines.len() >= 2, "{name}/{file}");
                assert!(lines.iter().all(|line| !line.contains('$')), "{lines:?}");
                // The root, but where something passes the link beside its capacity.
                let wire = lines.iter().find(|line| line.contains(" handle 1: wire "));
                let wire = wire.unwrap_or_else(|| panic!("{name}/{file}: {lines:?}"));
                assert!(
                    wire.contains(" rate 10mbit delay 200us"),
                    "{name}/{file}: {wire}"
                );
                assert!(wire.ends_with(" slack 60us"), "{name}/{file}: {wire}");
            }
            for file in ["host.sysctl", "switch.sysctl"] {
                scheme.sysctls(file, &variables, pair).unwrap();
            }
            words(&scheme, &variables);
            assert!(!scheme.description.about.is_empty() && !scheme.description.source.is_empty());
        }
    }

    #[test]
    fn each_port_of_a_scheme_with_a_band_for_each_class_has_the_same_filters() {
        let filters = |name: &str, file: &str| -> Vec<String> {
            let scheme = Scheme::find(name).unwrap();
            let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
            let variables =
                variables
                    .unwrap()
                    .port("eth0", &wire("10mbit", "200us"), [].into_iter());
            let mut lines = batch(&scheme, file, &variables);
            let prio = lines.iter().find(|line| line.contains(" prio bands 5 "));
            let (_, handle) = prio.unwrap().split_once("handle ").unwrap();
            let handle = handle.split(' ').next().unwrap().to_owned();
            lines.retain(|line| line.starts_with("filter "));
            lines
                .iter()
                .map(|line| line.replace(&handle, "H:"))
                .collect()
        };
        let expected = filters("dctcp-classes", "switch.tc");
        let classids = |band: u8| {
            let end = format!(" classid H:{band}");
            expected.iter().filter(|line| line.ends_with(&end)).count()
        };
        // Pause frames have the first band, and what has no class selector has the second.
        let counts = [1, 2, 3, 4, 5].map(classids);
        assert_eq!(counts, [1, 0, 2, 2, 4], "{expected:?}");
        for (name, file) in [
            ("dctcp-classes", "host.tc"),
            ("hpcc-classes", "switch.tc"),
            ("hpcc-classes", "host.tc"),
        ] {
            assert_eq!(filters(name, file), expected, "{name}/{file}");
        }
    }

    #[test]
    fn times_of_the_fabric_are_dilated() {
        let scheme = Scheme::find("pfabric-tcp").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric()).unwrap();
        let words = words(&scheme, &variables);
        assert!(
            words.contains("initrwnd 1000 quickack 1 rto_min 45"),
            "{words}"
        );
        assert!(words.contains("initcwnd 12"), "{words}");
    }

    #[test]
    fn pfabrics_settings_are_in_dilated_time_and_its_route_selects_it() {
        let scheme = Scheme::find("pfabric").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric()).unwrap();
        let sysctls = scheme.sysctls("host.sysctl", &variables, pair).unwrap();
        let pair = |key: &str, value: &str| (format!("net.ipv4.tcp_{key}"), value.to_owned());
        let expected = [
            pair("pfabric.init_cwnd", "12"),
            pair("pfabric.max_cwnd", "24"),
            pair("pfabric.rto_us", "43800"),
            pair("pfabric.probe_threshold", "5"),
        ];
        assert_eq!(sysctls[..4], expected);
        let route = scheme
            .route(&variables, |words| Ok(words.to_vec()))
            .unwrap();
        assert_eq!(route[..2], ["congctl", "pfabric"]);
    }

    #[test]
    fn a_parameter_is_set_and_a_wrong_value_is_refused() {
        let mut scheme = Scheme::find("pfabric").unwrap();
        scheme.set("buffer=48").unwrap();
        scheme.set("rto=60us").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
        let variables = variables
            .unwrap()
            .port("p", &wire("1gbit", "0ns"), [].into_iter());
        let lines = batch(&scheme, "switch.tc", &variables);
        assert!(lines[1].ends_with("pfabric limit 48"), "{lines:?}");
        for (setting, expected) in [
            (
                "bufer=48",
                "has no parameter `bufer`: it has buffer, initcwnd, maxcwnd, probes, rto",
            ),
            ("buffer", "expected NAME=VALUE"),
            (
                "buffer=many",
                "`many` is neither a number, nor a time such as 45us, nor a rate such as 5gbit, nor one of $bdp",
            ),
        ] {
            let error = format!("{:#}", scheme.set(setting).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        scheme.description.parameters.clear();
        let error = scheme.set("buffer=48").unwrap_err().to_string();
        assert_eq!(
            error,
            "scheme pfabric has no parameter `buffer`: it has none"
        );
    }

    #[test]
    fn a_parameter_takes_only_its_own_words() {
        let mut scheme = Scheme::find("bfc").unwrap();
        scheme.set("assign=stochastic").unwrap();
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
        let variables = variables
            .unwrap()
            .port("p", &wire("1gbit", "0ns"), [].into_iter());
        let lines = batch(&scheme, "switch.tc", &variables);
        assert!(lines[1].contains(" assign stochastic "), "{lines:?}");
        for setting in ["assign=random", "assign=1", "assign=1us", "assign=$rtt"] {
            let error = format!("{:#}", scheme.set(setting).unwrap_err());
            let expected = "expected one of dynamic, stochastic, single";
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_refused_with_a_list_of_all_schemes() {
        let error = format!("{:#}", Scheme::find("pfabrik").unwrap_err());
        let all = names();
        assert!(all.contains(&"pfabric") && all.is_sorted(), "{all:?}");
        assert!(error.contains(&all.join(", ")), "{error}");
    }

    #[test]
    fn an_error_names_an_unknown_variable_and_its_line() {
        let mut scheme = Scheme::find("droptail").unwrap();
        let file = scheme.files.get_mut("switch.tc").unwrap();
        let text = file.text().replace("$buffer", "$bufer");
        *file = Source::new(file.place().to_owned(), text);
        let variables = Variables::of_fabric(&scheme.description.parameters, &fabric());
        let variables = variables
            .unwrap()
            .port("p", &wire("1gbit", "0ns"), [].into_iter());
        let error = format!("{:#}", scheme.batch("switch.tc", &variables).unwrap_err());
        assert!(error.contains("droptail/switch.tc, line 3"), "{error}");
        assert!(error.contains("`$bufer`"), "{error}");
    }
}
