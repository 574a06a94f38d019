// SPDX-License-Identifier: MIT OR Apache-2.0

//! `wire`: `tc qdisc … wire …`.

use crate::args::{Args, Complaint};
use crate::qdisc::{Qdisc, TooShort};
use crate::size;
use crate::tc::{Output, Units};
use std::ffi::CStr;
use weft_core::common::nla::{NoRoom, Refusal, Sink};
use weft_core::wire::options::{Config, LATENESS_BUCKETS, Options, Stats};

/// What `help` prints.
pub const USAGE: &str = "\
Usage: ... wire rate RATE [ delay TIME ] [ overhead BYTES ] [ mpu BYTES ]
                [ slack TIME ]
";

/// The `wire` qdisc.
#[derive(Clone, Copy, Debug)]
pub struct Wire;

impl Qdisc for Wire {
    const KIND: &'static CStr = c"wire";

    type Options = Options;

    fn options(words: &[&str], units: &impl Units) -> Result<Options, Complaint> {
        const BYTES: &str = "a number of bytes";
        let mut options = Options::default();
        let mut args = Args::new(words);
        while let Some(option) = args.option() {
            match option {
                "rate" => {
                    let expected = "a rate, for example 10gbit";
                    args.value("rate", &mut options.rate, expected, |text| units.rate(text))?;
                }
                "delay" => {
                    let expected = "a time, for example 200us";
                    args.value("delay", &mut options.delay, expected, |text| {
                        units.time(text)
                    })?;
                }
                "overhead" => {
                    args.value("overhead", &mut options.overhead, BYTES, |text| {
                        units.size(text)
                    })?;
                }
                "mpu" => {
                    args.value("mpu", &mut options.mpu, BYTES, |text| units.size(text))?;
                }
                "slack" => {
                    let expected = "a time, for example 60us";
                    args.value("slack", &mut options.slack, expected, |text| {
                        // Out of range in the kernel's words, not cut off.
                        let time = units.time(text)?;
                        Some(u32::try_from(time).unwrap_or(u32::MAX))
                    })?;
                }
                "help" => return Err(Complaint::help(USAGE)),
                word => return Err(Complaint::unknown(word, USAGE)),
            }
        }
        options.check()?;
        Ok(options)
    }

    fn put(options: &Options, sink: &mut impl Sink) -> Result<(), NoRoom> {
        options.put(sink)
    }

    fn print_options(dump: &[u8], output: &impl Output) -> Result<(), Refusal> {
        let config = Config::parse(dump)?;
        output.text("rate ");
        output.rate(c"rate", config.rate.get());
        output.number(c"delay", config.delay);
        output.text(&format!(" delay {} ", output.time(config.delay)));
        output.number(c"overhead", config.overhead.into());
        if config.overhead != 0 {
            output.text(&format!("overhead {} ", config.overhead));
        }
        output.number(c"mpu", config.mpu.into());
        if config.mpu != 0 {
            output.text(&format!("mpu {} ", size::text(config.mpu.into())));
        }
        output.number(c"slack", config.slack.into());
        if config.slack != 0 {
            output.text(&format!("slack {} ", output.time(config.slack.into())));
        }
        Ok(())
    }

    fn print_statistics(dump: &[u8], output: &impl Output) -> Result<(), TooShort> {
        let stats = Stats::from_bytes(dump).ok_or(TooShort {
            needed: Stats::SIZE,
        })?;
        output.number(c"busy_ns", stats.busy_ns);
        output.number(c"in_flight", stats.in_flight.into());
        output.number(c"in_flight_bytes", stats.in_flight_bytes.into());
        output.text(&format!(
            "  busy {} in_flight {} {}p",
            output.time(stats.busy_ns),
            size::text(stats.in_flight_bytes.into()),
            stats.in_flight,
        ));
        output.new_line();

        let mean = stats.late_sum_ns.checked_div(stats.late_count).unwrap_or(0);
        output.number(c"late_count", stats.late_count);
        output.number(c"late_sum_ns", stats.late_sum_ns);
        output.number(c"late_mean_ns", mean);
        output.number(c"late_max_ns", stats.late_max_ns);
        output.array(c"late_histogram", &stats.late_histogram);
        output.text(&format!(
            "  lateness count {} mean {} max {}",
            stats.late_count,
            output.time(mean),
            output.time(stats.late_max_ns),
        ));
        for (bucket, count) in stats.late_histogram.iter().enumerate() {
            if *count != 0 {
                output.text(&format!(" {} {count}", bucket_name(bucket, output)));
            }
        }
        Ok(())
    }
}

/// Which lateness a bucket counts: `0ns`, `<2ns`, `<4ns`, …, `>=1.07s`.
fn bucket_name(bucket: usize, output: &impl Output) -> String {
    match bucket {
        0 => output.time(0),
        bucket if bucket == LATENESS_BUCKETS - 1 => format!(">={}", output.time(1 << (bucket - 1))),
        bucket => format!("<{}", output.time(1 << bucket)),
    }
}
