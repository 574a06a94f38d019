// SPDX-License-Identifier: MIT OR Apache-2.0

//! The words of a parsed command line, to repeat it in a guest.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// The options and arguments that were given, except those in `left_out`. An option with its
/// default value was not given.
pub(crate) fn words<T: clap::Args>(matches: &ArgMatches, left_out: &[&str]) -> Vec<OsString> {
    let command = T::augment_args(clap::Command::new("said"));
    let (mut options, mut arguments) = (Vec::new(), Vec::new());
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let is_said = matches.value_source(id) == Some(ValueSource::CommandLine);
        if !is_said || left_out.contains(&id) {
            continue;
        }
        let option = arg
            .get_long()
            .map(|long| OsString::from(format!("--{long}")));
        if !arg.get_action().takes_values() {
            options.extend(option);
            continue;
        }
        let values = matches.get_raw_occurrences(id).into_iter().flatten();
        for values in values {
            match &option {
                Some(option) => {
                    options.push(option.clone());
                    options.extend(values.map(OsString::from));
                }
                None => arguments.push(values.map(OsString::from).collect::<Vec<_>>()),
            }
        }
    }
    // The first argument comes before the options, because a command's own options follow its name.
    let mut arguments = arguments.into_iter();
    let mut words = arguments.next().unwrap_or_default();
    words.extend(options);
    words.extend(arguments.flatten());
    words
}
