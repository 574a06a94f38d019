// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options with several values: one run for each combination.

use anyhow::Result;
use weft_lab::experiment::file_name;
use weft_lab::run::each_once;

/// One combination of values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// The folder of its results, below the requested one; `None`: the requested one.
    pub(crate) folder: Option<String>,
    /// The words after `weft run`, without scheme, seed and folder.
    pub(crate) words: Vec<String>,
}

/// The name of the factor for the topology,
const TOPOLOGY: &str = "";
/// and of a word with a single value.
const WORD: &str = " ";

/// An option with its values; each run has one of them.
struct Factor {
    /// Its name in folders; empty for the topology.
    name: String,
    /// The option before the value.
    option: Option<String>,
    /// The text before the value in the same word.
    prefix: String,
    values: Vec<String>,
}

/// All combinations of the values in `words`; the last option changes fastest.
///
/// # Errors
///
/// If an option has a value twice: one sentence.
pub(crate) fn variants(words: &[String]) -> Result<Vec<Variant>> {
    let mut factors: Vec<Factor> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let first = factors.is_empty();
        let (name, option, prefix, values) = match word.as_str() {
            "--load" | "--also" => {
                let value = words.next().cloned().unwrap_or_default();
                let name = if word == "--load" { "load" } else { TOPOLOGY };
                if let Some(factor) = factors.iter_mut().find(|it| it.name == name) {
                    factor.values.push(value);
                    continue;
                }
                (name, Some(word.clone()), String::new(), vec![value])
            }
            "--set" => {
                let setting = words.next().cloned().unwrap_or_default();
                let (name, values) = setting.split_once('=').unwrap_or((&setting, ""));
                let prefix = setting[..setting.len() - values.len()].to_owned();
                let values = values.split(',').map(str::to_owned).collect();
                factors.push(Factor {
                    name: name.to_owned(),
                    option: Some(word.clone()),
                    prefix,
                    values,
                });
                continue;
            }
            // The first word is the topology.
            _ if first => (TOPOLOGY, None, String::new(), vec![word.clone()]),
            _ => (WORD, None, String::new(), vec![word.clone()]),
        };
        factors.push(Factor {
            name: name.to_owned(),
            option,
            prefix,
            values,
        });
    }
    for factor in &factors {
        let option = factor.option.as_deref().unwrap_or("--also");
        each_once(option, &factor.values)?;
        // 0.6 and 0.60 are the same load. Values that are no numbers are refused elsewhere.
        let numbers = factor.values.iter().map(|value| value.parse::<f64>());
        if factor.name == "load"
            && let Ok(numbers) = numbers.collect::<Result<Vec<_>, _>>()
        {
            each_once(option, &numbers)?;
        }
    }
    let mut all: Vec<(Vec<String>, Vec<String>)> = vec![Default::default()];
    for factor in &factors {
        let with = |(folder, words): &(Vec<String>, Vec<String>), value: &String| {
            let (mut folder, mut words) = (folder.clone(), words.clone());
            words.extend(factor.option.clone());
            words.push(format!("{}{value}", factor.prefix));
            if factor.values.len() > 1 {
                let name = match factor.name.as_str() {
                    TOPOLOGY => String::new(),
                    name => format!("{name}-"),
                };
                folder.push(format!("{name}{value}"));
            }
            (folder, words)
        };
        all = all
            .iter()
            .flat_map(|known| factor.values.iter().map(move |value| with(known, value)))
            .collect();
    }
    let named = all.into_iter().map(|(folder, words)| Variant {
        folder: (!folder.is_empty()).then(|| file_name(&folder.join("-"))),
        words,
    });
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<(Option<String>, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let all = variants(&words).unwrap().into_iter();
        all.map(|it| (it.folder, it.words.join(" "))).collect()
    }

    #[test]
    fn single_values_make_one_run_with_its_words_unchanged() {
        let line = "rack:hosts=4 --ipv6 --set a=1 --load 0.6 --set b=2us";
        assert_eq!(of(line), [(None, line.to_owned())]);
    }

    #[test]
    fn each_combination_of_values_is_a_run_in_its_own_folder() {
        let found = of("rack:hosts=4 --also rack:hosts=8 --set a=1,2 --ipv6 --load 0.2 --load 0.4");
        let folders: Vec<String> = found.iter().filter_map(|it| it.0.clone()).collect();
        assert_eq!(found.len(), 8);
        assert_eq!(folders[0], "rack-hosts=4-a-1-load-0.2");
        assert_eq!(folders[7], "rack-hosts=8-a-2-load-0.4");
        assert_eq!(found[1].1, "rack:hosts=4 --set a=1 --ipv6 --load 0.4");
        let mut different = folders.clone();
        different.dedup();
        assert_eq!(different, folders);
        let twice = ["x", "--load", "1", "--load", "1"].map(str::to_owned);
        assert!(variants(&twice).is_err());
    }
}
