// SPDX-License-Identifier: MIT OR Apache-2.0

//! Statistics by their table, as `tc -s` prints them.

use crate::size;
use crate::tc::Output;
use std::ffi::CString;
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::statistics::{Figure, Table, Unit};

/// Error: dumped statistics lack figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// The number of bytes required.
    pub needed: usize,
}

/// Prints dumped statistics, the payload of `TCA_STATS_APP`, after ` backlog 0b 0p …`.
///
/// # Errors
///
/// [`TooShort`] if the dump lacks figures; nothing is printed then.
pub fn print(qdisc: &Qdisc, dump: &[u8], output: &impl Output) -> Result<(), TooShort> {
    let Some(first) = qdisc.statistics.first() else {
        return Ok(());
    };
    let tag = dump.first_chunk().map(|tag| u32::from_ne_bytes(*tag));
    let mut tables = qdisc.statistics.iter();
    let table = tables
        .find(|table| table.tag.is_none() || table.tag == tag)
        .unwrap_or(first);
    if dump.len() < table.size() {
        let needed = table.size();
        return Err(TooShort { needed });
    }
    let mut page = Page {
        values: values(table, dump),
        shown: Vec::new(),
        output,
    };
    for (index, line) in table.lines.iter().enumerate() {
        if index > 0 {
            output.new_line();
        }
        page.line(line);
    }
    Ok(())
}

/// The figures with their values.
fn values(table: &'static Table, dump: &[u8]) -> Vec<(&'static Figure, Vec<u64>)> {
    let mut rest = &dump[if table.tag.is_some() { 4 } else { 0 }..];
    let figures = table.figures.iter().map(|figure| {
        let (bytes, after) = rest.split_at(figure.width * figure.values);
        rest = after;
        let value = |bytes: &[u8]| match *bytes {
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => bytes.try_into().map_or(0, u64::from_ne_bytes),
        };
        (
            figure,
            bytes.chunks_exact(figure.width).map(value).collect(),
        )
    });
    figures.collect()
}

struct Page<'a, O> {
    values: Vec<(&'static Figure, Vec<u64>)>,
    /// Keys that were printed as JSON.
    shown: Vec<&'static str>,
    output: &'a O,
}

impl<O: Output> Page<'_, O> {
    /// Prints a line; see [`Table::lines`].
    fn line(&mut self, line: &str) {
        let text = self.fill(line);
        self.output.text(&text);
    }

    fn filled(&mut self, inside: &str) -> String {
        if let Some(name) = inside.strip_prefix('!') {
            let (figure, _) = self.figure(name);
            self.json(figure);
            return String::new();
        }
        if let Some((name, choice)) = inside.split_once('?') {
            let (figure, value) = self.figure(name);
            // A figure that appears elsewhere in its line, or only as true or false.
            if !choice.contains(&format!("{{{name}}}")) {
                self.truth(figure, value != 0);
            } else {
                self.json(figure);
            }
            let (this, that) = choice.rsplit_once('|').unwrap_or((choice, ""));
            // Both alternatives are printed as JSON.
            let this = self.fill(this);
            return if value != 0 { this } else { that.to_owned() };
        }
        if let Some((key, (sum, count))) = inside
            .split_once('=')
            .and_then(|(key, mean)| Some((key, mean.split_once('/')?)))
        {
            let (sum, total) = self.figure(sum);
            let (_, count) = self.figure(count);
            self.json(sum);
            let mean = total.checked_div(count).unwrap_or(0);
            let key = CString::new(key).unwrap_or_default();
            self.output.number(&key, mean);
            return self.text(sum.unit, mean);
        }
        let (figure, value) = self.figure(inside);
        self.json(figure);
        if figure.unit == Unit::Times {
            return self.times(figure);
        }
        self.text(figure.unit, value)
    }

    /// Replaces the parts in braces of a text.
    fn fill(&mut self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, inside, after)) = braces(rest) {
            filled.push_str(before);
            filled.push_str(&self.filled(inside));
            rest = after;
        }
        filled + rest
    }

    /// A figure and its first value. Tests check that a line names only figures of its table.
    fn figure(&self, name: &str) -> (&'static Figure, u64) {
        let mut figures = self.values.iter();
        let (figure, values) = figures
            .find(|(figure, _)| figure.name == name)
            .unwrap_or(&self.values[0]);
        (figure, values.first().copied().unwrap_or(0))
    }

    fn text(&self, unit: Unit, value: u64) -> String {
        match unit {
            Unit::Size => size::text(value),
            Unit::Time | Unit::Times => self.output.time(value),
            Unit::Number => value.to_string(),
        }
    }

    /// Prints a figure as JSON, once.
    fn json(&mut self, figure: &'static Figure) {
        if self.shown.contains(&figure.key) {
            return;
        }
        self.shown.push(figure.key);
        let key = CString::new(figure.key).unwrap_or_default();
        let values = self.values.iter().find(|(it, _)| it.name == figure.name);
        match values.map(|(_, values)| values.as_slice()) {
            Some([value]) => self.output.number(&key, *value),
            values => self.output.array(&key, values.unwrap_or_default()),
        }
    }

    fn truth(&mut self, figure: &'static Figure, value: bool) {
        self.shown.push(figure.key);
        let key = CString::new(figure.key).unwrap_or_default();
        self.output.boolean(&key, value);
    }

    /// The counts of a histogram: ` 0ns 12 <2ns 3 … >=1.07s 1`.
    fn times(&self, figure: &Figure) -> String {
        let mut text = String::new();
        let counts = self.values.iter().find(|(it, _)| it.name == figure.name);
        let counts = counts.map_or(&[][..], |(_, values)| values);
        for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count != 0) {
            let name = match bucket {
                0 => self.output.time(0),
                bucket if bucket == counts.len() - 1 => {
                    format!(">={}", self.output.time(1 << (bucket - 1)))
                }
                bucket => format!("<{}", self.output.time(1 << bucket)),
            };
            text.push_str(&format!(" {name} {count}"));
        }
        text
    }
}

/// The first part in braces, which may contain braces: the text before, inside and after.
fn braces(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find('{')?;
    let mut depth = 0;
    for (index, c) in text[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let end = start + index;
            return Some((&text[..start], &text[start + 1..end], &text[end + 1..]));
        }
    }
    None
}
