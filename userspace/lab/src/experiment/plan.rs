// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment's runs: each combination of values gives a command line of `weft run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result};
use weft_words::shell::quoted;

use super::description::{Experiment, IDEAL, Runs, Value};
use super::selected;
use crate::error::usage;
use crate::run::{self, Checked, Run};
use crate::words::split;

/// A run.
pub struct Planned {
    /// Its values, including `scheme`.
    pub(crate) values: BTreeMap<String, Value>,
    /// Shared by all seeds.
    pub run: Rc<Checked>,
    /// The seed of its workload.
    pub seed: u64,
    /// The folder of its results,
    pub folder: PathBuf,
    /// and their file.
    pub file: PathBuf,
    /// Whether the ideal schedule of its flows is also computed.
    pub(crate) ideal: bool,
    /// Whether its flows have no end.
    pub(crate) endless: bool,
    /// Whether the run depends on the seed.
    pub(crate) random: bool,
    /// Exceptional limits of gates, by their names.
    pub(crate) allow: BTreeMap<String, f64>,
    /// The memory that its guest needs, in MiB, if it is more than usual.
    pub memory: Option<u32>,
}

impl Planned {
    /// The command in a form for a shell.
    pub fn command(&self) -> String {
        self.command_to(&self.folder.display().to_string())
    }

    /// The same command, under a kind of clock. A guest has the workload's seed, and the memory
    /// that the experiment requests.
    pub fn command_under(&self, clock: Option<&str>) -> String {
        let clock = clock.unwrap_or("real");
        let mut command = self.command() + " --clock " + clock;
        if let Some(memory) = self.memory.filter(|_| clock != "real") {
            command += &format!(" --memory {memory}");
        }
        command
    }

    /// The values of its ideal, if it has one.
    pub(crate) fn values_of_ideal(&self) -> Option<BTreeMap<String, Value>> {
        let mut values = self.values.clone();
        values.insert("scheme".to_owned(), Value(IDEAL.to_owned()));
        self.ideal.then_some(values)
    }

    fn command_to(&self, folder: &str) -> String {
        let run = self.run.run();
        let seed = self.seed.to_string();
        let own = [
            "--scheme",
            &run.fabric.scheme,
            "--seed",
            &seed,
            "--out",
            folder,
        ];
        let words = run.words.iter().map(String::as_str).chain(own);
        words.fold("weft run".to_owned(), |text, word| {
            text + " " + &quoted(word)
        })
    }
}

/// The options of an experiment.
#[derive(Clone, Debug)]
pub struct Asked {
    /// A factor for the number of flows.
    pub scale: Option<f64>,
    /// Seeds in place of its own.
    pub seeds: Option<Vec<u64>>,
    /// The folder of the results' folders.
    pub out: PathBuf,
    /// The name of the testbeds that are created and removed.
    pub testbed: String,
}

/// All runs, in an order that depends only on the description. `read` parses the words after `weft
/// run`, the form in which descriptions and results describe a run.
///
/// # Errors
///
/// If a run is not a valid command line of `weft run`, or sets an option that the experiment sets
/// itself: the run, and the mistake.
pub fn plan(
    experiment: &Experiment,
    asked: &Asked,
    read: &dyn Fn(&[String]) -> Result<Run>,
) -> Result<Vec<Planned>> {
    let description = &experiment.description;
    let scale = asked.scale.unwrap_or(1.0);
    if !(scale > 0.0 && scale <= 1e6) {
        return usage(format!(
            "--scale {scale}: expected a factor above 0 to 1000000"
        ));
    }
    if asked.scale.is_some() && description.scaled.is_empty() {
        return usage(format!("--scale: {} has nothing to scale", experiment.name));
    }
    let scaled = description.scaled.iter().map(|(name, number)| {
        let number = (*number as f64 * scale).round().max(1.0);
        (name.clone(), Value(number.to_string()))
    });
    let scaled: BTreeMap<String, Value> = scaled.collect();
    let said = asked.seeds.as_ref().or(description.seeds.as_ref());
    let seeds = match said {
        Some(seeds) => Seeds::Said(seeds.clone()),
        None => Seeds::First((1..=SEEDS).collect()),
    };
    let (Seeds::Said(all) | Seeds::First(all)) = &seeds;
    run::each_once("--seed", all)?;
    let mut plan: Vec<Planned> = Vec::new();
    for runs in &description.runs {
        let first = plan.len();
        for values in combinations(runs) {
            for planned in planned(experiment, asked, read, runs, &values, &scaled, &seeds)? {
                if plan.iter().any(|other| other.file == planned.file) {
                    return usage(format!(
                        "{}: two runs would be {}",
                        experiment.name,
                        planned.file.display()
                    ));
                }
                plan.push(planned);
            }
        }
        if let Some(scheme) = &runs.ideal
            && !plan[first..].iter().any(|planned| planned.ideal)
        {
            return usage(format!(
                "{}: ideal = \"{scheme}\", but no run has that scheme",
                experiment.name
            ));
        }
    }
    for (name, measure) in &description.measures {
        let lacking = |planned: &Planned| measure.lacking(&planned.run.fabric().topology);
        // Runs may be on different fabrics: a part that one of them has can be measured there.
        if let Some(Some(sentence)) = plan.iter().map(lacking).reduce(Option::and) {
            return usage(format!("{}: measure {name}: {sentence}", experiment.name));
        }
    }
    let groups = plan.iter().flat_map(|planned| {
        std::iter::once(planned.values.clone()).chain(planned.values_of_ideal())
    });
    match selected::fault(description, groups.collect()) {
        Some(sentence) => usage(format!("{}: {sentence}", experiment.name)),
        None => Ok(plan),
    }
}

/// The default number of seeds.
const SEEDS: u64 = 5;

enum Seeds {
    /// Given by the description or by the caller.
    Said(Vec<u64>),
    First(Vec<u64>),
}

/// Every combination of the values; the values of the last name change first.
fn combinations(runs: &Runs) -> Vec<BTreeMap<String, Value>> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in &runs.each {
        let with = |value: &Value, known: &BTreeMap<String, Value>| {
            let mut known = known.clone();
            known.insert(name.clone(), value.clone());
            known
        };
        let each = |known: &BTreeMap<_, _>| values.iter().map(|value| with(value, known)).collect();
        all = all
            .iter()
            .flat_map(|known| -> Vec<_> { each(known) })
            .collect();
    }
    all
}

/// A combination's runs, one for each seed.
fn planned(
    experiment: &Experiment,
    asked: &Asked,
    read: &dyn Fn(&[String]) -> Result<Run>,
    runs: &Runs,
    values: &BTreeMap<String, Value>,
    scaled: &BTreeMap<String, Value>,
    seeds: &Seeds,
) -> Result<Vec<Planned>> {
    let with = values.values().filter_map(|value| runs.with.get(&value.0));
    let texts = std::iter::once(&runs.options).chain(with);
    let split: Vec<Vec<String>> = texts
        .map(|text| split(text))
        .collect::<Result<_>>()
        .with_context(|| experiment.name.clone())?;
    let words: Vec<String> = split
        .concat()
        .iter()
        .map(|word| fill(word, values, scaled))
        .collect::<Result<_>>()
        .with_context(|| experiment.name.clone())?;
    let wrong = || format!("{}: weft run {}", experiment.name, words.join(" "));
    let mut run = read(&words).with_context(wrong)?;
    run.testbed.clone_from(&asked.testbed);
    let scheme = run.fabric.scheme.clone();
    // If nothing is random, one run is enough, unless the seeds are given: a guest's seed also
    // decides its kernel's hashes.
    let (seeds, random) = match seeds {
        Seeds::Said(seeds) => (seeds.as_slice(), true),
        Seeds::First(seeds) if run.traffic.is_random() => (seeds.as_slice(), true),
        Seeds::First(seeds) => (&seeds[..1], false),
    };
    let run = Rc::new(run.checked(seeds).with_context(wrong)?);
    let allow = runs.allowed(values);
    let mut values = values.clone();
    values.extend(
        runs.name
            .clone()
            .map(|name| ("runs".to_owned(), Value(name))),
    );
    let mut out = asked.out.join(&experiment.name);
    out.extend(folder(&values));
    values.insert("scheme".to_owned(), Value(scheme.clone()));
    let planned = seeds.iter().map(|&seed| Planned {
        random,
        memory: experiment.description.memory,
        file: run::file(&out, &run.fabric().scheme.name, seed),
        folder: out.clone(),
        ideal: runs.ideal.as_ref() == Some(&scheme),
        endless: runs.endless,
        allow: allow.clone(),
        values: values.clone(),
        run: Rc::clone(&run),
        seed,
    });
    Ok(planned.collect())
}

/// Replaces `{name}` by values.
fn fill(
    word: &str,
    values: &BTreeMap<String, Value>,
    scaled: &BTreeMap<String, Value>,
) -> Result<String> {
    let mut pieces = word.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let Some((name, rest)) = piece.split_once('}') else {
            return usage(format!("`{word}`: a {{ without }}"));
        };
        let Some(value) = values.get(name).or_else(|| scaled.get(name)) else {
            let known: Vec<&str> = values
                .keys()
                .chain(scaled.keys())
                .map(String::as_str)
                .collect();
            return usage(match known.as_slice() {
                [] => format!("`{{{name}}}` is not known: there is no value in each or [scaled]"),
                known => format!(
                    "`{{{name}}}` is not known: expected one of {}",
                    known.join(", ")
                ),
            });
        };
        filled += &value.0;
        filled += rest;
    }
    Ok(filled)
}

/// The folder of runs that differ only in scheme and seed: `leaf-spine-load-0.6`. `None` if all do.
pub(super) fn folder(values: &BTreeMap<String, Value>) -> Option<String> {
    let runs = values.get("runs").map(|value| value.0.clone());
    let others = values
        .iter()
        .filter(|(name, _)| !["runs", "scheme"].contains(&name.as_str()));
    let others = others.map(|(name, value)| format!("{name}-{value}"));
    let name = runs.into_iter().chain(others).collect::<Vec<_>>().join("-");
    (!name.is_empty()).then(|| file_name(&name))
}

/// A text as part of a file's name: every letter that may have a meaning for a shell or a file
/// system becomes `-`.
pub fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
    text.replace(|c: char| !plain(c), "-")
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::num::NonZeroU32;
    use std::time::Duration;

    use weft_load::engine::{Connections, Since};
    use weft_load::generate::Until;

    use super::*;
    use crate::fabric::FabricOptions;
    use crate::traffic::Traffic;

    const EXPERIMENT: &str = r#"
title = "t"
source = "s"
about = "a"
seeds = [1, 2, 3]
[[runs]]
options = "{hosts} '{scheme}'"
each.hosts = [2, 3]
each.scheme = ["droptail", "dctcp"]
[measures]
loss = { of = "loss" }
[[claims]]
says = "none"
paper = "0"
measure = "loss"
at_most = 0
"#;

    /// The words may mean whatever the caller of `plan` makes of them.
    pub(in crate::experiment) fn run(words: &[String]) -> Run {
        Run {
            fabric: FabricOptions {
                topology: format!("rack:hosts={}", words[0]),
                dilation: NonZeroU32::MIN,
                slack: Duration::ZERO,
                scheme: words[1].clone(),
                settings: Vec::new(),
                modules: Vec::new(),
            },
            traffic: Traffic {
                background: None,
                incasts: None,
                added: vec!["h0-h1:1kB".to_owned()],
                deadlines: None,
                priorities: None,
                until: Until::Flows(1),
                warm_up: Some(0.0),
                no_cool_down: false,
            },
            connections: Connections::PerFlow,
            since: Since::FirstByte,
            sample: None,
            sample_all: false,
            hops: false,
            pump: false,
            follow: None,
            patience: None,
            faults: Vec::new(),
            ipv6: false,
            testbed: String::new(),
            words: words.to_vec(),
        }
    }

    #[test]
    fn a_run_is_prepared_once_for_all_its_seeds() {
        let experiment = Experiment::parse("mine", "mine.toml", EXPERIMENT).unwrap();
        let asked = Asked {
            scale: None,
            seeds: None,
            out: "out".into(),
            testbed: "t".to_owned(),
        };
        let made = Cell::new(0);
        let read = |words: &[String]| {
            made.set(made.get() + 1);
            Ok(run(words))
        };
        let plan = plan(&experiment, &asked, &read).unwrap();
        assert_eq!((plan.len(), made.get()), (12, 4));
        for seeds in plan.chunks(3) {
            let numbers: Vec<u64> = seeds.iter().map(|planned| planned.seed).collect();
            assert_eq!(numbers, [1, 2, 3]);
            assert!(seeds.iter().all(|it| Rc::ptr_eq(&it.run, &seeds[0].run)));
        }
        assert_eq!(
            plan[3].command(),
            "weft run 2 dctcp --scheme dctcp --seed 1 --out out/mine/hosts-2"
        );
        assert_eq!(plan[0].run.run().testbed, "t");
    }
}
