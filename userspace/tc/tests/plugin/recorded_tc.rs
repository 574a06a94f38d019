// SPDX-License-Identifier: MIT OR Apache-2.0

//! A `tc` that records its output, and knows a few quantities.

use std::cell::RefCell;
use std::ffi::CStr;
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::nla::{HEADER, NoRoom, Sink};
use weft_tc::args::Complaint;
use weft_tc::statistics::TooShort;
use weft_tc::tc::{Output, Units};

/// A `tc` that parses numbers with one of a few suffixes.
pub(crate) struct KnownUnits;

fn scaled(text: &str, suffixes: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, suffix) = text.split_at(digits.unwrap_or(text.len()));
    let (_, scale) = suffixes.iter().find(|(name, _)| *name == suffix)?;
    number.parse::<u64>().ok()?.checked_mul(*scale)
}

impl Units for KnownUnits {
    fn rate(&self, text: &str) -> Option<u64> {
        scaled(
            text,
            &[("mbit", 125_000), ("gbit", 125_000_000), ("bps", 1)],
        )
    }

    fn time(&self, text: &str) -> Option<u64> {
        scaled(text, &[("", 1), ("us", 1_000), ("s", 1_000_000_000)])
    }

    fn size(&self, text: &str) -> Option<u64> {
        scaled(text, &[("", 1), ("kb", 1024)])
    }

    fn number(&self, text: &str) -> Option<u64> {
        scaled(text, &[("", 1)])
    }

    fn device(&self, name: &str) -> Option<u32> {
        scaled(name.strip_prefix("eth")?, &[("", 1)])?
            .try_into()
            .ok()
    }
}

/// The output as text and as JSON. Rates and times in the text have their smallest unit, because
/// `tc` chooses the unit.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    text: RefCell<String>,
    json: RefCell<Vec<String>>,
}

impl Printed {
    pub(crate) fn as_text(&self) -> String {
        self.text.borrow().clone()
    }

    pub(crate) fn as_json(&self) -> String {
        format!("{{{}}}", self.json.borrow().join(","))
    }

    fn field(&self, key: &CStr, value: String) {
        let key = key.to_str().unwrap();
        self.json.borrow_mut().push(format!("\"{key}\":{value}"));
    }
}

impl Output for Printed {
    fn text(&self, text: &str) {
        self.text.borrow_mut().push_str(text);
    }

    fn new_line(&self) {
        self.text("\n");
    }

    fn time(&self, nanoseconds: u64) -> String {
        format!("{nanoseconds}ns")
    }

    fn rate(&self, key: &CStr, bytes_per_second: u64) {
        self.text(&format!("{}bit", u128::from(bytes_per_second) * 8));
        self.number(key, bytes_per_second);
    }

    fn number(&self, key: &CStr, value: u64) {
        self.field(key, value.to_string());
    }

    fn boolean(&self, key: &CStr, value: bool) {
        self.field(key, value.to_string());
    }

    fn string(&self, key: &CStr, value: &str) {
        self.field(key, format!("\"{value}\""));
    }

    fn strings(&self, key: &CStr, values: &[String]) {
        self.field(key, format!("{values:?}"));
    }

    fn device(&self, index: u32) -> String {
        format!("eth{index}")
    }

    fn array(&self, key: &CStr, values: &[u64]) {
        let values: Vec<String> = values.iter().map(u64::to_string).collect();
        self.field(key, format!("[{}]", values.join(",")));
    }
}

/// A message: attributes one after the other.
#[derive(Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Sink for Message {
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), NoRoom> {
        let length = u16::try_from(HEADER + payload.len()).map_err(|_| NoRoom)?;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(attr.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        Ok(())
    }
}

/// The request of a command line.
pub(crate) fn request(qdisc: &'static Qdisc, command: &str) -> Result<Vec<u8>, Complaint> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let options = weft_tc::options::read(qdisc, &words, &KnownUnits)?;
    let mut message = Message::default();
    options.put(&mut message).unwrap();
    Ok(message.0)
}

/// The error of a wrong command line.
pub(crate) fn complaint(qdisc: &'static Qdisc, command: &str) -> String {
    match request(qdisc, command) {
        Err(complaint) => complaint
            .lines(&weft_tc::options::usage(qdisc))
            .unwrap_or_else(|| panic!("{command}: {complaint:?}")),
        Ok(request) => panic!("{command}: {request:?}"),
    }
}

/// The output for a dump of options: text and JSON.
pub(crate) fn shown(qdisc: &'static Qdisc, dump: &[u8]) -> (String, String) {
    let printed = Printed::default();
    weft_tc::options::print(qdisc, dump, &printed).unwrap();
    (printed.as_text(), printed.as_json())
}

/// The output for a dump of statistics: text and JSON.
pub(crate) fn statistics(qdisc: &'static Qdisc, dump: &[u8]) -> Result<(String, String), TooShort> {
    let printed = Printed::default();
    let result = weft_tc::statistics::print(qdisc, dump, &printed);
    if result.is_err() {
        assert_eq!(
            (printed.as_text().as_str(), printed.as_json().as_str()),
            ("", "{}")
        );
    }
    result.map(|()| (printed.as_text(), printed.as_json()))
}
