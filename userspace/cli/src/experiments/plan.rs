// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment's runs: each combination of values makes a command line of `weft run`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::description::{Experiment, Runs, Value};
use crate::error::usage;
use crate::fabric::Fabric;
use crate::output::quoted;
use crate::run;

/// A run.
pub(crate) struct Planned {
    /// The values that it has, `scheme` among them.
    pub(crate) values: BTreeMap<String, Value>,
    /// One scheme, one seed.
    pub(crate) args: run::Args,
    pub(crate) fabric: Fabric,
    /// Where its results go.
    pub(crate) file: PathBuf,
    /// Whether its flows get the ideal schedule, too.
    pub(crate) ideal: bool,
    /// Whether its flows are not meant to end.
    pub(crate) endless: bool,
    /// Other limits of gates, by their names.
    pub(crate) allow: BTreeMap<String, f64>,
}

impl Planned {
    pub(crate) fn seed(&self) -> u64 {
        self.args.seed[0]
    }

    /// As a shell takes it.
    pub(crate) fn command(&self) -> String {
        let folder = self.args.out.display().to_string();
        let seed = self.seed().to_string();
        let own = [
            "--scheme",
            &self.args.scheme[0],
            "--seed",
            &seed,
            "--out",
            &folder,
        ];
        let words = self.args.words.iter().map(String::as_str).chain(own);
        words.fold("weft run".to_owned(), |text, word| {
            text + " " + &quoted(word)
        })
    }
}

/// All runs, in an order that does not depend on anything but the description.
///
/// # Errors
///
/// If a run is no command line of `weft run`, or says what an experiment says itself: which, and what
/// is wrong.
pub(crate) fn plan(experiment: &Experiment, asked: &run::Args) -> Result<Vec<Planned>> {
    let description = &experiment.description;
    let scale = asked.experiment.scale.unwrap_or(1.0);
    if !(scale > 0.0 && scale <= 1e6) {
        return usage(format!(
            "--scale {scale}: expected a factor above 0 to 1000000"
        ));
    }
    if asked.experiment.scale.is_some() && description.scaled.is_empty() {
        return usage(format!("--scale: {} has nothing to scale", experiment.name));
    }
    let scaled = description.scaled.iter().map(|(name, number)| {
        let number = (*number as f64 * scale).round().max(1.0);
        (name.clone(), Value(number.to_string()))
    });
    let scaled: BTreeMap<String, Value> = scaled.collect();
    let seeds = match asked.said.iter().any(|id| id == "seed") {
        true => &asked.seed,
        false => &description.seeds,
    };
    run::each_once("--seed", seeds)?;
    let mut plan: Vec<Planned> = Vec::new();
    for runs in &description.runs {
        let first = plan.len();
        for values in combinations(runs) {
            for &seed in seeds {
                let planned = planned(experiment, asked, runs, &values, &scaled, seed)?;
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
        let lacking = |planned: &Planned| measure.lacking(&planned.fabric.topology);
        // Runs may be on different fabrics: what one of them has can be measured there.
        if let Some(Some(sentence)) = plan.iter().map(lacking).reduce(Option::and) {
            return usage(format!("{}: measure {name}: {sentence}", experiment.name));
        }
    }
    Ok(plan)
}

/// Every combination of the values; the last name's change first.
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

fn planned(
    experiment: &Experiment,
    asked: &run::Args,
    runs: &Runs,
    values: &BTreeMap<String, Value>,
    scaled: &BTreeMap<String, Value>,
    seed: u64,
) -> Result<Planned> {
    let with = values
        .get("scheme")
        .and_then(|scheme| runs.with.get(&scheme.0));
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
    let mut args = run::Args::parse(&words).with_context(wrong)?;
    if let Some(option) = args.said_of(&run::OF_EXPERIMENTS) {
        return usage(format!("{}: --{option} is not a run's own", wrong()));
    }
    let [scheme] = args.scheme.as_slice() else {
        return usage(format!(
            "{}: one scheme a run; several are values of each.scheme",
            wrong()
        ));
    };
    let scheme = scheme.clone();
    let mut values = values.clone();
    values.extend(
        runs.name
            .clone()
            .map(|name| ("runs".to_owned(), Value(name))),
    );
    args.out = asked.out.join(&experiment.name);
    args.out.extend(folder(&values));
    values.insert("scheme".to_owned(), Value(scheme.clone()));
    args.seed = vec![seed];
    args.testbed.clone_from(&asked.testbed);
    args.quiet = asked.quiet;
    let fabric = run::checked(&args, &scheme).with_context(wrong)?;
    Ok(Planned {
        file: run::file(&args.out, &fabric.scheme.name, seed),
        ideal: runs.ideal.as_ref() == Some(&scheme),
        endless: runs.endless,
        allow: runs.allow.clone(),
        values,
        args,
        fabric,
    })
}

/// The words of a command line; between `'` and `'` space is of the word.
fn split(text: &str) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let (mut quoted, mut within) = (false, false);
    for letter in text.chars() {
        if letter == '\'' {
            quoted = !quoted;
        } else if letter.is_whitespace() && !quoted {
            within = false;
            continue;
        }
        if !within {
            words.push(String::new());
            within = true;
        }
        if letter != '\''
            && let Some(word) = words.last_mut()
        {
            word.push(letter);
        }
    }
    match quoted {
        true => usage(format!("`{}`: a ' without another", text.trim())),
        false => Ok(words),
    }
}

/// Puts values in place of `{name}`.
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
            return usage(format!(
                "`{{{name}}}` is not known: expected one of {}",
                known.join(", ")
            ));
        };
        filled += &value.0;
        filled += rest;
    }
    Ok(filled)
}

/// The folder of runs that differ in scheme and seed only: `leaf-spine-load-0.6`. `None`: all do.
fn folder(values: &BTreeMap<String, Value>) -> Option<String> {
    let runs = values.get("runs").map(|value| value.0.clone());
    let others = values
        .iter()
        .filter(|(name, _)| !["runs", "scheme"].contains(&name.as_str()));
    let others = others.map(|(name, value)| format!("{name}-{value}"));
    let name = runs.into_iter().chain(others).collect::<Vec<_>>().join("-");
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
    let name = name.replace(|c: char| !plain(c), "-");
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_has_its_space() {
        let words = split(" rack  --fault '1us tor0 ip link'\n--load 0.5 '' a'b c'd ").unwrap();
        let expected = [
            "rack",
            "--fault",
            "1us tor0 ip link",
            "--load",
            "0.5",
            "",
            "ab cd",
        ];
        assert_eq!(words, expected);
        assert_eq!(split("  \n ").unwrap(), Vec::<String>::new());
        let error = split("rack --fault '1us tor0").unwrap_err().to_string();
        assert!(error.ends_with("a ' without another"), "{error}");
    }
}
