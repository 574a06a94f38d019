// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options by their table: parses a command line into a request, and prints a dump as words and
//! JSON.

use crate::args::{Args, Complaint};
use crate::size;
use crate::tc::{Output, Units};
use std::ffi::CString;
use std::net::Ipv4Addr;
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::nla::{Attributes, NoRoom, Refusal, Sink};
use weft_mechanisms::common::options::{Row, Unit};

/// Width of a usage text in columns.
const COLUMNS: usize = 80;

/// Parsed options, by their rows of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedOptions {
    payloads: Vec<(u16, Vec<u8>)>,
}

impl ParsedOptions {
    /// Removes the payload of an attribute and returns it, if there is one.
    pub fn take(&mut self, attr: u16) -> Option<Vec<u8>> {
        let place = self.payloads.iter().position(|(it, _)| *it == attr)?;
        Some(self.payloads.remove(place).1)
    }

    /// Writes the request.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the message is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        let mut said = self.payloads.iter();
        said.try_for_each(|(attr, payload)| sink.put(*attr, payload))
    }

    fn of(&mut self, row: &Row) -> Option<&mut Vec<u8>> {
        let mut said = self.payloads.iter_mut();
        said.find(|(attr, _)| *attr == row.attr)
            .map(|(_, payload)| payload)
    }

    /// Adds a value that `row` may have only once, given as `word` of `option`.
    fn once(
        &mut self,
        row: &'static Row,
        option: &'static str,
        word: &str,
        payload: Vec<u8>,
    ) -> Result<(), Complaint> {
        if self.of(row).is_some() {
            return Err(Complaint::Duplicate {
                option,
                value: word.to_owned(),
            });
        }
        self.payloads.push((row.attr, payload));
        Ok(())
    }
}

/// Collects a message, which is checked before it is sent.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Sink for Bytes {
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), NoRoom> {
        let header = weft_mechanisms::common::nla::HEADER;
        let length = u16::try_from(header + payload.len()).map_err(|_| NoRoom)?;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(attr.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        Ok(())
    }
}

/// Parses the words after the qdisc's name.
///
/// Refuses values out of range, like the kernel. It does not check for missing options, because a
/// `change` needs fewer than an `add`; the kernel does.
///
/// # Errors
///
/// The error of a wrong command line.
pub fn read(
    qdisc: &'static Qdisc,
    words: &[&str],
    units: &impl Units,
) -> Result<ParsedOptions, Complaint> {
    let mut said = ParsedOptions::default();
    let mut args = Args::new(words);
    while let Some(word) = args.option() {
        if word == "help" {
            return Err(Complaint::Help);
        }
        let Some((row, meant)) = find(qdisc, word) else {
            return Err(Complaint::Unknown(word.to_owned()));
        };
        match meant {
            Meant::Value => value(row, &mut args, &mut said, units)?,
            Meant::Switch(option, on) => said.once(row, option, word, vec![u8::from(on)])?,
            Meant::NoDevices(option) => said.once(row, option, word, Vec::new())?,
        }
    }
    // In the order of the table, whatever the order of the words.
    let place = |attr| qdisc.options.iter().position(|row| row.attr == attr);
    said.payloads.sort_by_key(|(attr, _)| place(*attr));
    let mut request = Bytes::default();
    let too_long = Refusal::invalid(c"The options are too long");
    said.put(&mut request).map_err(|NoRoom| too_long)?;
    (qdisc.check)(&request.0)?;
    Ok(said)
}

/// The meaning of an option's word within its row.
enum Meant {
    /// A value follows.
    Value,
    /// The word is the value, of the row with this first word.
    Switch(&'static str, bool),
    /// An empty list.
    NoDevices(&'static str),
}

fn find(qdisc: &'static Qdisc, word: &str) -> Option<(&'static Row, Meant)> {
    qdisc.options.iter().find_map(|row| {
        let meant = match row.unit {
            Unit::Switch(on, off) if word == on || word == off => Meant::Switch(on, word == on),
            Unit::Switch(..) => return None,
            Unit::Devices(_, none, _) if word == none => Meant::NoDevices(none),
            _ if word == row.name => Meant::Value,
            _ => return None,
        };
        Some((row, meant))
    })
}

/// Parses the value of a row's option.
fn value(
    row: &'static Row,
    args: &mut Args<'_>,
    said: &mut ParsedOptions,
    units: &impl Units,
) -> Result<(), Complaint> {
    let (word, number) = args.value(row.name, row.expected, |text| quantity(row, text, units))?;
    let payload = payload(row, number);
    let Unit::Devices(most, _, too_many) = row.unit else {
        return said.once(row, row.name, word, payload);
    };
    match said.of(row) {
        None => said.payloads.push((row.attr, payload)),
        Some(devices) if devices.len() < most * row.width => devices.extend(payload),
        Some(_) => return Err(Complaint::from(Refusal::range(too_many, row.attr))),
    }
    Ok(())
}

/// Parses a number; `None` if it is not one, or does not fit the payload of a row without a range.
fn quantity(row: &Row, text: &str, units: &impl Units) -> Option<u64> {
    let most = match row.width {
        8 => u64::MAX,
        width => (1 << (8 * width)) - 1,
    };
    let number = match row.unit {
        Unit::Number | Unit::Mask => units.number(text)?,
        // Accepts the printed form, too.
        Unit::Packets => units.number(text.strip_suffix('p').unwrap_or(text))?,
        Unit::Percent => units.number(text.strip_suffix('%').unwrap_or(text))?,
        Unit::Bytes | Unit::Size => units.size(text)?,
        Unit::Rate => units.rate(text)?,
        Unit::TimeOr(word, value) if text == word => value,
        Unit::Time | Unit::TimeOr(..) => units.time(text)?,
        Unit::Parts(_, none) if text == none => 0,
        Unit::Parts(one, _) => {
            let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
            let parts = units.number(numerator)?.saturating_mul(one.into());
            let denominator = units.number(denominator)?;
            (parts.checked_rem(denominator)? == 0).then_some(parts / denominator)?
        }
        Unit::Choice(words) => words.iter().position(|&word| word == text)? as u64,
        Unit::Switch(..) => return None,
        Unit::Address => u32::from(text.parse::<Ipv4Addr>().ok()?).into(),
        Unit::Devices(..) => device(text, units)?.into(),
    };
    // If the row has a range, the largest payload is out of range as well, so larger values become
    // that.
    (number <= most || row.ranged).then(|| number.min(most))
}

/// A device by its name, or by the form in which a missing device is printed: `if7`.
fn device(name: &str, units: &impl Units) -> Option<u32> {
    let index = || name.strip_prefix("if")?.parse().ok();
    let found = units.device(name).or_else(index);
    found.filter(|index| *index != 0)
}

/// `value` as a fraction with denominator `one`, in lowest terms.
fn parts(value: u64, one: u32, none: &str) -> String {
    let common = value.trailing_zeros().min(one.trailing_zeros());
    match (value >> common, one >> common) {
        (0, _) => none.to_owned(),
        (numerator, 1) => numerator.to_string(),
        (numerator, denominator) => format!("{numerator}/{denominator}"),
    }
}

/// The payload of a row for a number.
fn payload(row: &Row, number: u64) -> Vec<u8> {
    match row.width {
        1 => vec![number as u8],
        4 => (number as u32).to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes().to_vec(),
    }
}

/// The text of `help`.
pub fn usage(qdisc: &Qdisc) -> String {
    let start = format!("Usage: ... {} ", qdisc.kind);
    let mut usage = start.clone();
    let mut column = start.len();
    for item in qdisc.options.iter().flat_map(items) {
        if column > start.len() {
            if column + 1 + item.len() > COLUMNS {
                usage.push('\n');
                usage.push_str(&" ".repeat(start.len()));
                column = start.len();
            } else {
                usage.push(' ');
                column += 1;
            }
        }
        usage.push_str(&item);
        column += item.len();
    }
    usage.push('\n');
    usage
}

/// The words of all options, in the order of the table.
pub fn words(qdisc: &Qdisc) -> Vec<&'static str> {
    let words = qdisc.options.iter().flat_map(|row| match row.unit {
        Unit::Switch(on, off) => vec![on, off],
        Unit::Devices(_, none, _) => vec![row.name, none],
        _ => vec![row.name],
    });
    words.collect()
}

/// The forms of an option in a usage text.
fn items(row: &Row) -> Vec<String> {
    let Row {
        name, metavariable, ..
    } = row;
    match row.unit {
        Unit::Switch(on, off) => vec![format!("[ {on} | {off} ]")],
        Unit::Devices(_, none, _) => {
            vec![
                format!("[ {name} {metavariable} ]..."),
                format!("[ {none} ]"),
            ]
        }
        Unit::Choice(words) => vec![format!("[ {name} {} ]", words.join(" | "))],
        Unit::TimeOr(word, _) | Unit::Parts(_, word) => {
            vec![format!("[ {name} {metavariable} | {word} ]")]
        }
        _ if row.needed => vec![format!("{name} {metavariable}")],
        _ => vec![format!("[ {name} {metavariable} ]")],
    }
}

/// Prints dumped options, the payload of `TCA_OPTIONS`, after `qdisc KIND 1: root …`. The text
/// makes the same qdisc again: a value that `tc` would round is printed with all digits, in its
/// smallest unit.
///
/// # Errors
///
/// A [`Refusal`] if the dump is malformed; nothing is printed then.
pub fn print(qdisc: &Qdisc, dump: &[u8], output: &impl Output) -> Result<(), Refusal> {
    (qdisc.check_dump)(dump)?;
    let payload = |row: &Row| {
        let mut attributes = Attributes::new(dump).flatten();
        attributes.find_map(|(attr, payload)| (attr == row.attr).then_some(payload))
    };
    for row in qdisc.options {
        if let Some(payload) = payload(row) {
            print_row(row, payload, output);
        }
    }
    Ok(())
}

fn print_row(row: &Row, payload: &[u8], output: &impl Output) {
    let Row { name, .. } = row;
    let key = CString::new(*name).unwrap_or_default();
    let value = number(payload);
    match row.unit {
        Unit::Devices(..) => {
            let indices = payload.chunks_exact(row.width).map(number);
            let names: Vec<String> = indices.map(|it| output.device(it as u32)).collect();
            output.strings(&key, &names);
            for device in names {
                output.text(&format!("{name} {device} "));
            }
            return;
        }
        Unit::Switch(on, off) => {
            output.boolean(&key, value != 0);
            output.text(&format!("{} ", if value != 0 { on } else { off }));
            return;
        }
        Unit::Choice(words) => {
            let word = words.get(value as usize).unwrap_or(&"unknown");
            output.string(&key, word);
            if row.silent != Some(value) {
                output.text(&format!("{name} {word} "));
            }
            return;
        }
        Unit::Address => {
            let address = Ipv4Addr::from(value as u32).to_string();
            output.string(&key, &address);
            output.text(&format!("{name} {address} "));
            return;
        }
        Unit::Rate if row.silent != Some(value) => {
            output.text(&format!("{name} "));
            match is_rate_exact(value) {
                true => output.rate(&key, value),
                false => {
                    output.text(&format!("{}bit", bits(value)));
                    output.number(&key, value);
                }
            }
            output.text(" ");
            return;
        }
        // JSON numbers cannot represent this value.
        Unit::TimeOr(word, u64::MAX) if value == u64::MAX => output.string(&key, word),
        Unit::Parts(one, none) => output.string(&key, &parts(value, one, none)),
        _ => output.number(&key, value),
    }
    if row.silent == Some(value) {
        return;
    }
    let text = match row.unit {
        Unit::Packets => format!("{value}p"),
        Unit::Mask => format!("{value:#x}"),
        Unit::Size => size::exact(value),
        Unit::TimeOr(word, silent) if value == silent => word.to_owned(),
        Unit::Time | Unit::TimeOr(..) if is_time_exact(value) => output.time(value),
        Unit::Time | Unit::TimeOr(..) => format!("{value}ns"),
        Unit::Parts(one, none) => parts(value, one, none),
        Unit::Percent => format!("{value}%"),
        _ => value.to_string(),
    };
    output.text(&format!("{name} {text} "));
}

/// A rate in bits per second.
fn bits(bytes_per_second: u64) -> u128 {
    u128::from(bytes_per_second) * 8
}

/// Whether iproute2's `tc_print_rate()` prints all digits of a rate: it drops those below a
/// thousandth from a million on.
fn is_rate_exact(bytes_per_second: u64) -> bool {
    let mut rate = bits(bytes_per_second);
    while rate > 0 && rate.is_multiple_of(1000) {
        rate /= 1000;
    }
    rate < 1_000_000
}

/// Whether iproute2's `sprint_time64()` prints all digits of a time: it prints three. Times are
/// below 1000 s.
fn is_time_exact(mut nanoseconds: u64) -> bool {
    while nanoseconds > 0 && nanoseconds.is_multiple_of(10) {
        nanoseconds /= 10;
    }
    nanoseconds < 1000
}

/// Reads a payload of 1, 4 or 8 bytes as a number.
fn number(payload: &[u8]) -> u64 {
    match *payload {
        [byte] => byte.into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => payload.try_into().map_or(0, u64::from_ne_bytes),
    }
}
