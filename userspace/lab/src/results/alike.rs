// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which runs may be compared, what differs between them, and what distinguishes their columns.

use anyhow::Result;
use weft_load::record::{Header, Recorded};

use crate::error::usage;

/// Options that [`conditions`] describes, or that are a scheme's parameters: they are not named
/// twice.
const TOLD: [&str; 21] = [
    "--dilation",
    "--set",
    "--workload",
    "--load",
    "--load-of",
    "--count",
    "--arrivals",
    "--pairs",
    "--trace",
    "--incast",
    "--incast-to",
    "--incast-senders",
    "--incast-arrivals",
    "--only-incast",
    "--add",
    "--only-added",
    "--deadline",
    "--priorities",
    "--flows",
    "--time",
    "--warm-up",
];

/// Whether two runs differ in nothing but the seed.
pub fn same_but_for_the_seed(a: &Header, b: &Header) -> bool {
    let (mut a, mut b) = (a.clone(), b.clone());
    (a.seed, b.seed) = (0, 0);
    // The number of flows and the warm-up may depend on the seed.
    (a.workload.flows, b.workload.flows) = (0, 0);
    (a.workload.warm_up, b.workload.warm_up) = (0.0, 0.0);
    for header in [&mut a, &mut b] {
        header.inputs.remove("flows");
    }
    a == b
}

/// The conditions of a run, except seed and scheme: names and values.
pub fn conditions(header: &Header) -> Vec<(&'static str, String)> {
    let workload = &header.workload;
    let text = |text: &str| match text {
        "" => "none".to_owned(),
        text => text.to_owned(),
    };
    let optional = |it: &Option<String>| text(it.as_deref().unwrap_or_default());
    vec![
        ("topology", header.topology.clone()),
        ("flow sizes", text(&workload.sizes)),
        ("load", optional(&workload.load)),
        ("arrivals", text(&workload.arrivals)),
        ("pairs", text(&workload.pairs)),
        ("incasts", optional(&workload.incast)),
        ("flows added", text(&workload.added.join(", "))),
        ("deadlines", optional(&workload.deadline)),
        (
            "priorities",
            optional(&workload.priorities.map(|count| count.to_string())),
        ),
        ("warm-up", format!("{} %", round(100.0 * workload.warm_up))),
        (
            "cool-down",
            (if workload.no_cool_down {
                "none"
            } else {
                "load"
            })
            .to_owned(),
        ),
        ("dilation", header.dilation.to_string()),
        ("weft", header.weft.clone()),
        (
            "kernel",
            header.kernel.clone().unwrap_or("not recorded".into()),
        ),
        (
            "clock",
            header.clock.clone().unwrap_or("not recorded".into()),
        ),
    ]
}

/// Without the digits that the binary form of a fraction adds.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// The command line's options with their values; the topology is first.
pub(super) fn options(header: &Header) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for word in &header.options {
        match options.last_mut() {
            // A value: an option without a value is followed only by another option.
            Some(option) if option.starts_with("--") && !word.starts_with("--") => {
                option.push(' ');
                option.push_str(word);
            }
            _ => options.push(word.clone()),
        }
    }
    options
}

/// Options that neither [`conditions`] nor the scheme's parameters describe.
pub(super) fn others(header: &Header) -> Vec<String> {
    let mut options = options(header);
    options.retain(|option| {
        let name = option.split(' ').next().unwrap_or_default();
        name.starts_with("--") && !TOLD.contains(&name)
    });
    options
}

/// Texts that may distinguish columns of one scheme.
fn marks(header: &Header) -> Vec<String> {
    let mut marks = options(header);
    let told = !marks.is_empty();
    for (what, value) in conditions(header) {
        let software = matches!(what, "weft" | "kernel" | "clock");
        if software || !told {
            marks.push(format!("{what} {value}"));
        }
    }
    let parameters = header.parameters.iter();
    marks.extend(parameters.map(|(name, value)| format!("{name}={value}")));
    // The parameters contain the same as `--set`.
    marks.retain(|mark| !mark.starts_with("--set "));
    marks
}

/// The names of columns: the scheme, and if it is not unique, whatever is not the same in all
/// columns of the scheme.
pub(super) fn names(headers: &[&Header]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for header in headers {
        let twins = headers.iter().filter(|it| it.scheme == header.scheme);
        let twins: Vec<Vec<String>> = twins.map(|it| marks(it)).collect();
        let own = marks(header);
        let differing = own
            .into_iter()
            .filter(|mark| !twins.iter().all(|twin| twin.contains(mark)));
        let mut words = vec![header.scheme.clone()];
        words.extend(differing);
        let name = words.join(" ");
        let namesakes = names.iter().filter(|it| **it == name).count();
        names.push(match namesakes {
            0 => name,
            more => format!("{name} ({})", more + 1),
        });
    }
    names
}

/// Refuses runs that cannot be compared.
///
/// # Errors
///
/// If two files are of one run, or, unless `mixed`, topologies differ.
pub fn check(files: &[String], runs: &[Recorded], mixed: bool) -> Result<()> {
    let all: Vec<_> = files.iter().zip(runs).collect();
    for (place, (file, run)) in all.iter().enumerate() {
        let header = &run.header;
        for (other_file, other) in &all[..place] {
            let other = &other.header;
            if header.seed == other.seed && same_but_for_the_seed(header, other) {
                return usage(format!(
                    "{other_file} and {file} are both {} with seed {}: an interval over seeds takes each seed once",
                    header.scheme, header.seed
                ));
            }
            let differ = |input: &str| {
                let (a, b) = (header.inputs.get(input), other.inputs.get(input));
                a.zip(b).is_some_and(|(a, b)| a != b)
            };
            if !mixed && header.topology == other.topology && differ("topology") {
                return usage(format!(
                    "{other_file} and {file} are of different topologies, which are both called {}",
                    header.topology
                ));
            }
            let same_options = header.options == other.options && header.seed == other.seed;
            if same_options && header.weft == other.weft && differ("flows") {
                return usage(format!(
                    "{other_file} and {file} have the same options and seed, but not the same flows: did a file change?"
                ));
            }
            if !mixed && header.topology != other.topology {
                return usage(format!(
                    "{other_file} is of {}, {file} of {}: compare runs on one topology, or say --mixed",
                    other.topology, header.topology
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, sample};

    #[test]
    fn different_inputs_of_one_name_are_refused() {
        let run = |scheme: &str, input: &str, hash: &str| {
            let Sample {
                mut header,
                flows,
                ports,
                ..
            } = sample(scheme, 1, 10, 2.0);
            header.inputs.insert(input.to_owned(), hash.to_owned());
            Recorded {
                header,
                flows,
                ports,
                path: None,
                summary: None,
            }
        };
        let files = ["a".to_owned(), "b".to_owned()];
        let refused = |input: &str, hashes: [&str; 2]| {
            let runs = [
                run("dctcp", input, hashes[0]),
                run("pfabric", input, hashes[1]),
            ];
            check(&files, &runs, false).map_err(|error| error.to_string())
        };
        assert_eq!(refused("topology", ["1", "1"]), Ok(()));
        assert_eq!(refused("scheme", ["1", "2"]), Ok(()));
        let said = refused("topology", ["1", "2"]).unwrap_err();
        assert_eq!(
            said,
            "a and b are of different topologies, which are both called fat-tree:k=4"
        );
        let said = refused("flows", ["1", "2"]).unwrap_err();
        assert!(
            said.ends_with("but not the same flows: did a file change?"),
            "{said}"
        );
        // Runs with different seeds have different flows, but form one column.
        let (a, b) = (
            run("dctcp", "flows", "1").header,
            run("dctcp", "flows", "2").header,
        );
        assert!(same_but_for_the_seed(&a, &b));
    }

    #[test]
    fn warm_ups_may_differ_between_seeds_if_pairs_determine_the_rate() {
        let words = "fat-tree:k=4 --load 0.6 --load-of core --pairs permutation";
        let (one, mut other) = (header(words), header(words));
        (other.seed, other.workload.warm_up) = (2, one.workload.warm_up + 0.02);
        assert!(same_but_for_the_seed(&one, &other));
        other
            .options
            .extend(["--warm-up", "0.2"].map(str::to_owned));
        assert!(!same_but_for_the_seed(&one, &other));
    }

    fn header(words: &str) -> Header {
        let mut header = sample("dctcp", 1, 10, 2.0).header;
        header.options = words.split(' ').map(str::to_owned).collect();
        header
    }

    #[test]
    fn options_are_parsed_with_their_values() {
        let header = header("rack:hosts=4 --ipv6 --load 0.6 --set a=1 --set b=2");
        let expected = [
            "rack:hosts=4",
            "--ipv6",
            "--load 0.6",
            "--set a=1",
            "--set b=2",
        ];
        assert_eq!(options(&header), expected);
    }

    #[test]
    fn a_column_is_named_by_its_scheme_and_its_differences_from_the_others() {
        let headers = [
            header("rack:hosts=4 --load 0.6"),
            header("rack:hosts=4 --load 0.8 --ipv6"),
            header("rack:hosts=4 --load 0.8"),
        ];
        let all: Vec<&Header> = headers.iter().collect();
        let expected = [
            "dctcp --load 0.6",
            "dctcp --load 0.8 --ipv6",
            "dctcp --load 0.8",
        ];
        assert_eq!(names(&all), expected);
        assert_eq!(names(&all[..1]), ["dctcp"]);
        // No name distinguishes them.
        assert_eq!(names(&[all[0], all[0]]), ["dctcp", "dctcp (2)"]);
    }

    #[test]
    fn columns_of_different_kernels_have_different_names() {
        let (one, mut other) = (header("rack:hosts=4"), header("rack:hosts=4"));
        other.kernel = Some("7.3.4".into());
        assert!(!same_but_for_the_seed(&one, &other));
        let expected = ["dctcp kernel 7.2.12+deb14-amd64", "dctcp kernel 7.3.4"];
        assert_eq!(names(&[&one, &other]), expected);
    }

    #[test]
    fn columns_of_different_clocks_have_different_names() {
        let (mut one, mut other) = (header("rack:hosts=4"), header("rack:hosts=4"));
        one.clock = Some("model".into());
        other.clock = Some("instructions".into());
        assert!(!same_but_for_the_seed(&one, &other));
        let expected = ["dctcp clock model", "dctcp clock instructions"];
        assert_eq!(names(&[&one, &other]), expected);
    }
}
