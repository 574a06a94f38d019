// SPDX-License-Identifier: MIT OR Apache-2.0

//! The words that `tc qdisc show` prints make the same qdisc again.

use crate::recorded_tc::{KnownUnits, Message};
use std::cell::RefCell;
use std::ffi::CStr;
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::nla::Sink as _;
use weft_mechanisms::common::options::{Configuration, Row};
use weft_tc::tc::{Output, Units};

/// Rounds like iproute2, and parses what that prints.
#[derive(Default)]
struct Rounding(RefCell<String>);

/// A number, possibly with decimals, with one of a few suffixes.
fn scaled(text: &str, suffixes: &[(&str, f64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (_, scale) = suffixes.iter().find(|(name, _)| *name == suffix)?;
    Some((number.parse::<f64>().ok()? * scale).round() as u64)
}

impl Units for Rounding {
    fn rate(&self, text: &str) -> Option<u64> {
        let bits = scaled(
            text,
            &[
                ("bit", 1.0),
                ("Kbit", 1e3),
                ("Mbit", 1e6),
                ("Gbit", 1e9),
                ("Tbit", 1e12),
            ],
        )?;
        Some(bits / 8)
    }

    fn time(&self, text: &str) -> Option<u64> {
        scaled(text, &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
    }

    fn size(&self, text: &str) -> Option<u64> {
        let binary = |power| f64::from(1 << power);
        scaled(
            text,
            &[
                ("", 1.0),
                ("b", 1.0),
                ("Kb", binary(10)),
                ("Mb", binary(20)),
                ("Gb", binary(30)),
            ],
        )
    }

    fn number(&self, text: &str) -> Option<u64> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    fn device(&self, name: &str) -> Option<u32> {
        KnownUnits.device(name)
    }
}

impl Output for Rounding {
    fn text(&self, text: &str) {
        self.0.borrow_mut().push_str(text);
    }

    fn new_line(&self) {}

    /// As `sprint_time64()`.
    fn time(&self, nanoseconds: u64) -> String {
        let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
        let value = nanoseconds as f64;
        let unit = units.into_iter().find(|(scale, _)| value >= *scale);
        let Some((scale, unit)) = unit else {
            return format!("{nanoseconds}ns");
        };
        // C's `%.3g` for values from 1 to 999.
        let value = value / scale;
        let decimals = 2 - value.log10().floor() as usize;
        let text = format!("{value:.decimals$}");
        let text = match decimals {
            0 => text.as_str(),
            _ => text.trim_end_matches('0').trim_end_matches('.'),
        };
        format!("{text}{unit}")
    }

    /// As `tc_print_rate()`.
    fn rate(&self, _: &CStr, bytes_per_second: u64) {
        let mut rate = u128::from(bytes_per_second) * 8;
        let mut units = ["K", "M", "G", "T"].into_iter();
        let mut unit = "";
        while rate >= 1000 && (rate.is_multiple_of(1000) || rate >= 1_000_000) {
            let Some(larger) = units.next() else { break };
            rate /= 1000;
            unit = larger;
        }
        self.text(&format!("{rate}{unit}bit"));
    }

    fn number(&self, _: &CStr, _: u64) {}
    fn boolean(&self, _: &CStr, _: bool) {}
    fn string(&self, _: &CStr, _: &str) {}
    fn array(&self, _: &CStr, _: &[u64]) {}
    fn strings(&self, _: &CStr, _: &[String]) {}

    fn device(&self, index: u32) -> String {
        format!("eth{index}")
    }
}

/// Numbers that a default, a bound, or a printed unit may turn on.
const VALUES: [u64; 24] = [
    0,
    1,
    2,
    3,
    7,
    64,
    100,
    1000,
    1023,
    1025,
    1231,
    1500,
    10_000,
    36_864,
    65_535,
    1_048_575,
    1_250_000,
    3_297_600,
    12_000_000,
    154_320_987,
    1_000_000_000,
    u32::MAX as u64,
    30_000_000_001,
    u64::MAX,
];

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn payload(row: &Row, value: u64) -> Vec<u8> {
    match row.width {
        1 => vec![value as u8],
        4 => (value as u32).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    }
}

/// A request that makes a qdisc: the example's options, some of them replaced, and others.
fn request(qdisc: &'static Qdisc, random: &mut Random) -> Vec<u8> {
    let words: Vec<&str> = qdisc.example.split_whitespace().collect();
    let mut example = weft_tc::options::read(qdisc, &words, &KnownUnits).unwrap();
    let mut options: Vec<(u16, Vec<u8>)> = Vec::new();
    for row in qdisc.options {
        options.extend(example.take(row.attr).map(|payload| (row.attr, payload)));
    }
    let bytes = |options: &[(u16, Vec<u8>)]| {
        let mut message = Message::default();
        for (attr, payload) in options {
            message.put(*attr, payload).unwrap();
        }
        message.0
    };
    for _ in 0..2 * qdisc.options.len() {
        let row = &qdisc.options[random.below(qdisc.options.len())];
        let value = VALUES[random.below(VALUES.len())];
        let mut other = options.clone();
        other.retain(|(attr, _)| *attr != row.attr);
        if random.below(4) != 0 {
            other.push((row.attr, payload(row, value)));
        }
        if (qdisc.check_new)(&bytes(&other)).is_ok() {
            options = other;
        }
    }
    bytes(&options)
}

fn dump<C: Configuration>(payload: &[u8]) -> Vec<u8> {
    let config = C::requested(None, payload).unwrap();
    let mut message = Message::default();
    config.put(&mut message).unwrap();
    message.0
}

/// A dump of a qdisc by its words.
fn reread<C: Configuration>(qdisc: &'static Qdisc, dumped: &[u8]) -> (String, Vec<u8>) {
    let tc = Rounding::default();
    weft_tc::options::print(qdisc, dumped, &tc).unwrap();
    let text = tc.0.borrow().clone();
    let words: Vec<&str> = text.split_whitespace().collect();
    let options = weft_tc::options::read(qdisc, &words, &tc)
        .unwrap_or_else(|complaint| panic!("{} {text}: {complaint:?}", qdisc.kind));
    let mut message = Message::default();
    options.put(&mut message).unwrap();
    (text.clone(), dump::<C>(&message.0))
}

fn round_trips<C: Configuration>(qdisc: &'static Qdisc) {
    let mut random = Random(1);
    let mut printed = 0;
    for _ in 0..5_000 {
        let request = request(qdisc, &mut random);
        let dumped = dump::<C>(&request);
        let (text, again) = reread::<C>(qdisc, &dumped);
        assert_eq!(again, dumped, "{} {text}", qdisc.kind);
        printed += text.len();
    }
    assert!(printed > 0, "{}", qdisc.kind);
}

macro_rules! each {
    ($($mechanism:ident),*) => {
        #[test]
        fn the_words_that_are_printed_make_the_same_qdisc() {
            $( round_trips::<weft_mechanisms::$mechanism::options::Config>(
                &weft_mechanisms::$mechanism::QDISC,
            ); )*
        }
    };
}
weft_mechanisms::for_qdiscs!(each);
