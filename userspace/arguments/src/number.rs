// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers in a range: an error names the option, the text and the range.
//!
//! An option whose value is a number also has `allow_negative_numbers`, and one whose value is a
//! time `allow_hyphen_values`: otherwise clap takes `-1` and `-1ns` for options that do not exist.

use std::any::TypeId;
use std::fmt::Display;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, Command};

/// Seconds of a time limit: few enough to be added to an [`Instant`](std::time::Instant).
pub const TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=u32::MAX as u64;

/// Parses a whole number of this range.
pub fn whole<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("expected a whole number from {least} to {most}")
        })
    }
}

/// Parses a decimal number of this range. Infinity is in no range.
pub fn real(
    range: impl RangeBounds<f64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|it: &f64| it.is_finite() && range.contains(it));
        number.ok_or_else(|| {
            let least = match range.start_bound() {
                Bound::Included(least) => format!(" of at least {least}"),
                Bound::Excluded(least) => format!(" above {least}"),
                Bound::Unbounded => String::new(),
            };
            let most = match range.end_bound() {
                Bound::Included(most) => format!(" and at most {most}"),
                Bound::Excluded(most) => format!(" and below {most}"),
                Bound::Unbounded => String::new(),
            };
            format!("expected a number{least}{most}")
        })
    }
}

/// The options of a command and its subcommands that do not hand each text to a parser of this
/// module, for tests of command lines: one sentence each.
///
/// It tries options whose values have the type of a number or of a time.
pub fn faults(command: &Command) -> Vec<String> {
    let root = command.clone();
    let mut faults = Vec::new();
    of_command(&root, command, &mut Vec::new(), &mut faults);
    faults
}

fn of_command(root: &Command, command: &Command, path: &mut Vec<String>, faults: &mut Vec<String>) {
    let options = command.get_arguments().filter(|arg| is_number(arg));
    for (option, arg) in options.filter_map(|arg| Some((arg.get_long()?, arg))) {
        let option = format!("--{option}");
        let negative = match arg.get_value_parser().type_id() == TypeId::of::<Duration>() {
            true => "-1ns",
            false => "-1",
        };
        for text in [negative, "x"] {
            let words = path.iter().cloned();
            let words = std::iter::once("program".to_owned()).chain(words);
            let words = words.chain([option.clone(), text.to_owned()]);
            let error = match root.clone().try_get_matches_from(words) {
                Ok(_) => "it is accepted".to_owned(),
                Err(error) => error.to_string(),
            };
            let begin = format!("error: invalid value '{text}' for '{option} <");
            if !error.starts_with(&begin) || !error.contains(">': expected a") {
                faults.push(format!("{} {option} {text}: {error}", path.join(" ")));
            }
        }
    }
    for subcommand in command.get_subcommands() {
        path.push(subcommand.get_name().to_owned());
        of_command(root, subcommand, path, faults);
        path.pop();
    }
}

fn is_number(arg: &Arg) -> bool {
    let parsed = arg.get_value_parser().type_id();
    [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<NonZeroU32>(),
        TypeId::of::<NonZeroU64>(),
        TypeId::of::<NonZeroUsize>(),
        TypeId::of::<f64>(),
        TypeId::of::<Duration>(),
    ]
    .into_iter()
    .any(|number| parsed == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_in_its_range() {
        let few = whole(1..=8_u8);
        assert_eq!((few("1"), few("8")), (Ok(1), Ok(8)));
        let expected = Err("expected a whole number from 1 to 8".to_owned());
        for text in [
            "", "0", "9", "300", "-1", "1.0", "x", "1x", "٣", "NaN", " 1",
        ] {
            assert_eq!(few(text), expected, "{text}");
        }
        let dilation = whole(NonZeroU32::MIN..=NonZeroU32::MAX);
        assert_eq!(dilation("7"), Ok(NonZeroU32::new(7).unwrap()));
        let expected = Err("expected a whole number from 1 to 4294967295".to_owned());
        assert_eq!(dilation("0"), expected);
        assert_eq!(dilation("4294967296"), expected);
    }

    #[test]
    fn a_real_number_is_finite_and_in_its_range() {
        let load = real((Bound::Excluded(0.0), Bound::Included(1.0)));
        assert_eq!(
            (load("0.6"), load("1"), load("1e-9")),
            (Ok(0.6), Ok(1.0), Ok(1e-9))
        );
        let expected = Err("expected a number above 0 and at most 1".to_owned());
        for text in ["", "0", "-0", "1.1", "-1", "NaN", "inf", "1e-999", "x"] {
            assert_eq!(load(text), expected, "{text}");
        }
        let fraction = real(0.0..1.0);
        assert_eq!(fraction("0"), Ok(0.0));
        assert_eq!(
            fraction("1"),
            Err("expected a number of at least 0 and below 1".to_owned())
        );
        let factor = real((Bound::Excluded(0.0), Bound::Unbounded));
        assert_eq!(factor("1e300"), Ok(1e300));
        for text in ["inf", "1e999", "nan", "0"] {
            assert_eq!(
                factor(text),
                Err("expected a number above 0".to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn an_option_that_keeps_a_text_from_its_parser_is_found() {
        let number = |name: &'static str| Arg::new(name).long(name).value_name("N");
        let command = Command::new("program").subcommand(
            Command::new("inner")
                .arg(
                    number("good")
                        .allow_negative_numbers(true)
                        .value_parser(whole(1..=2_u8)),
                )
                .arg(number("negative").value_parser(whole(1..=2_u8)))
                .arg(
                    number("rust")
                        .allow_negative_numbers(true)
                        .value_parser(clap::value_parser!(u8)),
                )
                .arg(number("text")),
        );
        let faults = faults(&command);
        let of = |option: &str| faults.iter().filter(|it| it.starts_with(option)).count();
        assert_eq!(
            (of("inner --negative"), of("inner --rust")),
            (1, 2),
            "{faults:?}"
        );
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
