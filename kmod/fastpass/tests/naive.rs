// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The naive calendar, a sorted map.
//!
//! A scenario is made by a property test, or from a fuzzer's bytes ([`Scenario::decode`]).
#![allow(dead_code, reason = "tests, fuzz targets and examples each use a part")]

use std::collections::BTreeMap;
use weft_mechanisms::fastpass::calendar::{Calendar, Entry, HORIZON};
use weft_mechanisms::heap::Heap;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// This many timeslots from now, to this destination.
    Insert(i64, u16),
    Pop,
    Pass(u64),
    Clear,
}

/// A sequence of operations on a calendar.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The first timeslot.
    pub(crate) begin: u64,
    pub(crate) operations: Vec<Operation>,
}

impl Scenario {
    /// Every sequence of bytes is a scenario.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut rest = bytes.iter().copied();
        let begin = match rest.next().unwrap_or(0) {
            byte @ 0..=99 => byte.into(),
            byte @ 100..=199 => 900 + u64::from(byte),
            _ => u64::MAX / 2,
        };
        let mut operations = Vec::new();
        while let Some(code) = rest.next() {
            let mut next = || rest.next().unwrap_or(0);
            operations.push(match code {
                0..=119 => Operation::Insert(i64::from(next()) - 60, next().into()),
                // Around the horizon.
                120..=149 => Operation::Insert(i64::from(next()) + 900, next().into()),
                150..=219 => Operation::Pop,
                220..=244 => Operation::Pass((next() % 100).into()),
                245..=252 => Operation::Pass(u64::from(next()) * 20),
                253..=255 => Operation::Clear,
            });
        }
        Self { begin, operations }
    }

    /// Runs the scenario on the calendar and on the map.
    ///
    /// # Panics
    ///
    /// If they differ.
    pub(crate) fn run(&self) {
        let Ok(mut calendar) = Calendar::<Heap>::new();
        let mut map = BTreeMap::new();
        let (mut now, mut from) = (self.begin, 0);
        for &operation in &self.operations {
            match operation {
                Operation::Insert(at, destination) => {
                    let timeslot = now.saturating_add_signed(at);
                    if map.is_empty() {
                        from = now;
                    }
                    let near = (from..from + HORIZON).contains(&timeslot);
                    let expected = near && !map.contains_key(&timeslot);
                    let path = destination as u8;
                    let entry = Entry { destination, path };
                    assert_eq!(calendar.insert(now, timeslot, entry), expected);
                    if expected {
                        map.insert(timeslot, entry);
                    }
                }
                Operation::Pop => {
                    let first = map.pop_first();
                    assert_eq!(calendar.pop(), first);
                    from = first.map_or(from, |(timeslot, _)| timeslot + 1);
                }
                Operation::Pass(slots) => now += slots,
                Operation::Clear => {
                    calendar.clear();
                    map.clear();
                }
            }
            assert_eq!(calendar.first(), map.keys().next().copied());
            assert_eq!(calendar.len() as usize, map.len());
        }
    }
}
