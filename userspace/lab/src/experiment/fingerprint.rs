// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether the present source would give the kept results.
//!
//! A run is a function of its inputs: the kernel, the modules and programs that its scheme loads,
//! the engine that sends, the scheme, the topology, the flows, the options. Its fingerprint has a
//! hash of each. It is kept with the run's results (`fingerprints/NAME.json`) and compared with the
//! present one, which does not require running anything.
//!
//! A part may have changed without changing the results. `cargo xtask kept --rerun` repeats such
//! runs; one that gives the same bytes receives the present fingerprint, and nothing else of it
//! changes. If enough of them, drawn at random, give the same bytes, the others can receive it too,
//! with the size of this sample.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use weft_net::Plan;

use super::description::BUILT_IN;
use super::judge::{Judgement, RunState};
use super::kept::place;
use super::made::{Fingerprint, Made, RELEASE, Sample, place_of};
use super::plan::Planned;
use crate::inputs::hex;
use crate::run::Checked;
use crate::scheme::Spray;
use crate::testbed;

/// Hashes of the source's parts, by their names.
pub type Sources = BTreeMap<String, String>;

const RELEASE_VARIABLE: &str = "WEFT_KERNEL_RELEASE";

/// Parts of the source that every run has.
const EVERYWHERE: [&str; 6] = ["kernel", "guest", "engine", "measuring", "gates", "weaving"];
/// The guest's programs and libraries: a run in which processes start depends on how long their
/// loader takes.
const IMAGE: &str = "image";

/// Computes fingerprints; parts that runs share are computed once.
pub struct Fingerprints<'a> {
    sources: &'a Sources,
    /// For a fabric: its plan, and the programs that run on it.
    fabrics: BTreeMap<*const Checked, Fingerprint>,
    /// For the flows, by all inputs that decide them, without the scheme.
    flows: BTreeMap<(Vec<String>, u64), String>,
}

impl<'a> Fingerprints<'a> {
    /// With the present parts of the source.
    pub fn new(sources: &'a Sources) -> Self {
        Self {
            sources,
            fabrics: BTreeMap::new(),
            flows: BTreeMap::new(),
        }
    }

    /// The fingerprint of a run. `None` if nothing is known about the source.
    ///
    /// # Errors
    ///
    /// If its fabric cannot be planned or its flows cannot be drawn.
    pub fn of(&mut self, planned: &Planned) -> Result<Option<Fingerprint>> {
        if self.sources.is_empty() {
            return Ok(None);
        }
        let key = Rc::as_ptr(&planned.run);
        if !self.fabrics.contains_key(&key) {
            let fabric = self.of_fabric(&planned.run)?;
            self.fabrics.insert(key, fabric);
        }
        let mut fingerprint = self.fabrics[&key].clone();
        let run = planned.run.run();
        // Flows are drawn for packets without a tag, under every scheme.
        let key = (without_scheme(&run.words), planned.seed);
        let flows = match self.flows.get(&key) {
            Some(flows) => flows.clone(),
            None => {
                let mut short = planned.run.flows(planned.seed)?;
                short.truncate(16);
                self.flows.insert(key, short.clone());
                short
            }
        };
        fingerprint.insert("flows", flows);
        let options = format!("{:?} {}", run.words, planned.seed);
        fingerprint.insert("options", short(options));
        Ok(Some(fingerprint))
    }

    fn of_fabric(&self, checked: &Checked) -> Result<Fingerprint> {
        let fabric = checked.fabric();
        let plan = testbed::plan("inputs", fabric)?;
        let (commands, processes) = (
            plan.commands().to_string(),
            plan.process_commands().to_string(),
        );
        let description = &fabric.scheme.description;
        let rest = (
            &description.tag,
            &description.routing,
            description.flow_sizes,
        );
        let mut names: Vec<String> = EVERYWHERE.map(str::to_owned).to_vec();
        names.extend(modules(&commands, self.sources));
        if description.declares() || description.routing.spray != Spray::Off {
            names.push("ebpf".to_owned());
        }
        names.extend(programs(&plan, self.sources));
        let faults = &checked.run().faults;
        if !plan.processes().is_empty() || !faults.is_empty() {
            names.push(IMAGE.to_owned());
        }
        let mut parts: BTreeMap<String, String> = names
            .into_iter()
            .map(|name| {
                let hash = self.sources.get(&name).cloned().unwrap_or_default();
                (name, hash)
            })
            .collect();
        let scheme = format!("{commands}\n{processes}\n{rest:?}");
        parts.insert("scheme".to_owned(), short(scheme));
        let release = self.sources.get(RELEASE).cloned();
        let release = release.or_else(|| std::env::var(RELEASE_VARIABLE).ok());
        parts.extend(release.map(|release| (RELEASE.to_owned(), release)));
        parts.insert("topology".to_owned(), short(debug(&fabric.topology)));
        Ok(Fingerprint::new(parts))
    }
}

fn debug<T: Debug>(value: &T) -> String {
    format!("{value:?}")
}

/// The first digits of a text's hash.
fn short(text: String) -> String {
    hex(&Sha256::digest(text)[..8])
}

/// Words without a scheme's parameters.
fn without_scheme(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--set" | "--scheme" => _ = words.next(),
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// The kernel modules of weft that commands of `ip`, `tc` and `sysctl` use.
fn modules(commands: &str, sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for line in commands.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (place, word) in words.iter().enumerate() {
            let before = place.checked_sub(1).map_or("", |place| words[place]);
            let control = match word.split_once('=') {
                Some((key, value)) if key.ends_with("tcp_congestion_control") => Some(value),
                _ if before == "congctl" => Some(*word),
                // A variable of the congestion control itself.
                _ => word.split('.').find_map(|it| it.strip_prefix("tcp_")),
            };
            found.extend(control.map(|name| format!("tcp_{}", name.trim_matches(['"', '\'']))));
            if words.contains(&"qdisc") {
                found.push(format!("sch_{word}"));
            }
        }
    }
    found.sort();
    found.dedup();
    found.retain(|name| sources.contains_key(name));
    found
}

/// The programs of weft that run on nodes.
fn programs(plan: &Plan, sources: &Sources) -> Vec<String> {
    let all = plan.processes().iter();
    let names = all.filter_map(|process| process.words.first());
    let name = |path: &String| Path::new(path).file_name()?.to_str().map(str::to_owned);
    let names = names.filter_map(name);
    names.filter(|name| sources.contains_key(name)).collect()
}

/// Runs with one fingerprint, in the form of a file of `fingerprints`.
#[derive(Debug, Serialize, Deserialize)]
struct Alike {
    parts: Fingerprint,
    #[serde(default)]
    sample: Option<Sample>,
    /// By the place of their results: the hash of these, and the time of the run in seconds.
    runs: BTreeMap<String, (String, u64)>,
}

/// The known origins of an experiment's kept runs, by the place of their results.
pub type Known = BTreeMap<String, Made>;

/// The name of a run's results among those of its experiment.
pub fn name(run: &RunState) -> String {
    place(run).map_or_else(String::new, |(folder, file)| format!("{folder}/{file}"))
}

/// The same for a file of results.
pub fn name_of(file: &Path) -> Option<String> {
    let (folder, file) = place_of(file.to_str()?)?;
    Some(format!("{folder}/{file}"))
}

/// The known origins of the kept runs of an experiment that weft brings.
///
/// # Errors
///
/// If the file is not in this version's format.
pub fn known(experiment: &str) -> Result<Known> {
    let path = format!("fingerprints/{experiment}.json");
    let Some(file) = BUILT_IN.get_file(&path) else {
        return Ok(Known::new());
    };
    read(file.contents()).with_context(|| path)
}

/// Parses such a file.
///
/// # Errors
///
/// If it is not one.
pub fn read(text: &[u8]) -> Result<Known> {
    let all: Vec<Alike> = serde_json::from_slice(text)?;
    let alike = |Alike {
                     parts,
                     sample,
                     runs,
                 }| {
        let made = move |(name, (sha256, seconds))| {
            let fingerprint = parts.clone();
            let made = Made {
                sha256,
                fingerprint,
                seconds,
                machine: None,
                sample,
            };
            (name, made)
        };
        runs.into_iter().map(made).collect::<Vec<_>>()
    };
    Ok(all.into_iter().flat_map(alike).collect())
}

/// The text of such a file.
///
/// # Errors
///
/// None are known.
pub fn text(known: &Known) -> Result<String> {
    type Runs = BTreeMap<String, (String, u64)>;
    let mut all: BTreeMap<(&Fingerprint, Option<Sample>), Runs> = BTreeMap::new();
    for (name, made) in known {
        let runs = all.entry((&made.fingerprint, made.sample)).or_default();
        runs.insert(name.clone(), (made.sha256.clone(), made.seconds));
    }
    let all = all.into_iter().map(|((parts, sample), runs)| Alike {
        parts: parts.clone(),
        sample,
        runs,
    });
    let mut text = String::from("[");
    for (place, alike) in all.enumerate() {
        text += if place > 0 { ",\n" } else { "\n" };
        text += &format!("{{\"parts\": {},\n", serde_json::to_string(&alike.parts)?);
        if let Some(sample) = alike.sample {
            text += &format!("\"sample\": {},\n", serde_json::to_string(&sample)?);
        }
        text += "\"runs\": {";
        let run = |(name, it): (&String, &(String, u64))| {
            Ok(format!(
                "\n{}: {}",
                serde_json::to_string(name)?,
                serde_json::to_string(it)?
            ))
        };
        text += &alike
            .runs
            .iter()
            .map(run)
            .collect::<Result<Vec<_>>>()?
            .join(",");
        text += "}}";
    }
    Ok(text + "\n]\n")
}

/// Whether the present source would give a kept run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// None of its inputs has changed, or it was repeated since.
    Current,
    /// Others whose inputs changed alike were repeated, and gave the same bytes.
    Sampled,
    /// These parts have changed.
    Stale(Vec<String>),
    /// It has no fingerprint.
    Unknown,
}

impl State {
    /// Whether the present source gives it, as far as is known.
    pub fn is_current(&self) -> bool {
        matches!(self, Self::Current | Self::Sampled)
    }
}

/// The state of each run of a kept judgement. `plan` contains the experiment's runs.
///
/// # Errors
///
/// If a fabric cannot be planned or flows cannot be drawn.
pub fn states(
    kept: &Judgement,
    known: &Known,
    plan: &[Planned],
    fingerprints: &mut Fingerprints<'_>,
) -> Result<Vec<State>> {
    let mut today = BTreeMap::new();
    for planned in plan {
        today.extend(name_of(&planned.file).map(|name| (name, planned)));
    }
    let mut states = Vec::new();
    for run in &kept.runs {
        let name = name(run);
        let made = known.get(&name).filter(|made| made.sha256 == run.sha256);
        let state = match (made, today.get(&name)) {
            (None, _) => State::Unknown,
            (Some(_), None) => State::Stale(vec!["options".to_owned()]),
            (Some(made), Some(planned)) => match fingerprints.of(planned)? {
                None => State::Unknown,
                Some(now) => match made.fingerprint.changed(&now) {
                    changed if !changed.is_empty() => State::Stale(changed),
                    _ if made.sample.is_some() => State::Sampled,
                    _ => State::Current,
                },
            },
        };
        states.push(state);
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(names: &[&str]) -> Sources {
        let hash = |name: &&str| ((*name).to_owned(), "0".to_owned());
        names.iter().map(hash).collect()
    }

    #[test]
    fn a_fingerprint_has_the_modules_that_the_commands_name() {
        let sources = sources(&[
            "sch_wire",
            "sch_pfabric",
            "sch_bfc",
            "tcp_pfabric",
            "tcp_bfc",
            "tcp_pase",
            "tcp_d2tcp",
        ]);
        for (line, expected) in [
            (
                "tc qdisc add dev x root handle 1: wire rate 1gbit",
                vec!["sch_wire"],
            ),
            (
                "qdisc add dev x parent 1: handle 10: pfabric limit 34",
                vec!["sch_pfabric"],
            ),
            (
                "ip route add 10.0.0.0/8 via 10.0.0.1 congctl pfabric initcwnd 12",
                vec!["tcp_pfabric"],
            ),
            (
                "sysctl -w net.ipv4.tcp_congestion_control=d2tcp",
                vec!["tcp_d2tcp"],
            ),
            ("sysctl -w net.ipv4.tcp_pase.queues=8", vec!["tcp_pase"]),
            ("sysctl -w net.ipv4.tcp_rmem='4096 1 2'", vec![]),
            ("ip route add 10.0.0.0/8 congctl dctcp", vec![]),
            ("ip link add bfc type veth", vec![]),
        ] {
            assert_eq!(modules(line, &sources), expected, "{line}");
        }
    }

    #[test]
    fn a_part_in_only_one_fingerprint_counts_as_changed() {
        let of = |parts: &[(&str, &str)]| {
            let parts = parts
                .iter()
                .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()));
            Fingerprint::new(parts.collect())
        };
        let one = of(&[("kernel", "1"), ("sch_bfc", "1"), ("flows", "1")]);
        assert_eq!(one.changed(&one), Vec::<String>::new());
        let other = of(&[("kernel", "1"), ("sch_bfc", "2"), ("tcp_bfc", "1")]);
        assert_eq!(one.changed(&other), ["flows", "sch_bfc", "tcp_bfc"]);
        let [old, new] = ["7.2.12", "7.2.13"].map(|it| of(&[("kernel", "1"), ("release", it)]));
        assert_eq!(old.changed(&new), ["release"]);
        assert_eq!(old.changed(&of(&[("kernel", "1")])), Vec::<String>::new());
    }

    #[test]
    fn flows_do_not_depend_on_a_schemes_parameters() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let plain = words("rack:hosts=2 --load 0.5");
        assert_eq!(
            without_scheme(&words("rack:hosts=2 --set mark=1 --load 0.5 --set x=2")),
            plain
        );
    }

    #[test]
    fn a_fingerprint_is_written_and_read_back() {
        let made = |sha256: &str, part: &str, of| Made {
            sha256: sha256.to_owned(),
            fingerprint: Fingerprint::new([("kernel".to_owned(), part.to_owned())].into()),
            seconds: 3,
            machine: None,
            sample: (of > 0).then_some(Sample {
                runs: 1,
                of,
                day: 20_000,
            }),
        };
        let runs = [
            ("a/x.jsonl", "1", "k", 0),
            ("a/y.jsonl", "2", "l", 0),
            ("b/x.jsonl", "3", "k", 0),
            ("b/y.jsonl", "4", "k", 2),
        ];
        let known: Known = runs
            .map(|(name, hash, part, of)| (name.to_owned(), made(hash, part, of)))
            .into();
        let text = text(&known).unwrap();
        // Runs with the same inputs and the same sample have one fingerprint.
        assert_eq!(text.matches("parts").count(), 3, "{text}");
        assert_eq!(text.matches("sample").count(), 1, "{text}");
        assert_eq!(read(text.as_bytes()).unwrap(), known);
        assert_eq!(super::text(&Known::new()).unwrap(), "[\n]\n");
    }
}
