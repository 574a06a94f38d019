// SPDX-License-Identifier: MIT OR Apache-2.0

//! `hold`: `tc qdisc … hold …`, for tests and benchmarks.

use crate::args::{Args, Complaint};
use crate::qdisc::{Qdisc, TooShort};
use crate::tc::{Output, Units};
use std::ffi::CStr;
use weft_core::common::nla::{NoRoom, Refusal, Sink};
use weft_core::hold::options::{Config, Options};

/// What `help` prints.
pub const USAGE: &str = "\
Usage: ... hold [ backlog PACKETS ] [ random_priority MASK ] [ txtime TIME ]
";

/// The `hold` qdisc.
#[derive(Clone, Copy, Debug)]
pub struct Hold;

impl Qdisc for Hold {
    const KIND: &'static CStr = c"hold";

    type Options = Options;

    fn options(words: &[&str], units: &impl Units) -> Result<Options, Complaint> {
        let mut options = Options::default();
        let mut args = Args::new(words);
        while let Some(option) = args.option() {
            match option {
                "backlog" => {
                    let expected = "a number of packets";
                    args.value("backlog", &mut options.backlog, expected, |text| {
                        units.number(text)?.try_into().ok()
                    })?;
                }
                "random_priority" => {
                    let expected = "a mask of 32 bits";
                    args.value(
                        "random_priority",
                        &mut options.random_priority,
                        expected,
                        |text| units.number(text)?.try_into().ok(),
                    )?;
                }
                "txtime" => {
                    let expected = "a time";
                    args.value("txtime", &mut options.txtime, expected, |text| {
                        units.time(text)
                    })?;
                }
                "help" => return Err(Complaint::help(USAGE)),
                word => return Err(Complaint::unknown(word, USAGE)),
            }
        }
        Ok(options)
    }

    fn put(options: &Options, sink: &mut impl Sink) -> Result<(), NoRoom> {
        options.put(sink)
    }

    fn print_options(dump: &[u8], output: &impl Output) -> Result<(), Refusal> {
        let config = Config::default().updated(&Options::parse(dump)?);
        output.number(c"backlog", config.backlog.into());
        output.number(c"random_priority", config.random_priority.into());
        output.number(c"txtime", config.txtime);
        output.text(&format!("backlog {}p ", config.backlog));
        if config.random_priority != 0 {
            output.text(&format!("random_priority {:#x} ", config.random_priority));
        }
        if config.txtime != 0 {
            output.text(&format!("txtime {} ", output.time(config.txtime)));
        }
        Ok(())
    }

    /// `hold` has no statistics of its own.
    fn print_statistics(_dump: &[u8], _output: &impl Output) -> Result<(), TooShort> {
        Ok(())
    }
}
