// SPDX-License-Identifier: MIT OR Apache-2.0

//! `pfabric`: `tc qdisc … pfabric …`.

use crate::args::{Args, Complaint, say_once};
use crate::qdisc::{Qdisc, TooShort};
use crate::size;
use crate::tc::{Output, Units};
use std::ffi::CStr;
use weft_core::common::nla::{NoRoom, Refusal, Sink};
use weft_core::pfabric::options::{Config, Options, Stats};

/// What `help` prints.
pub const USAGE: &str = "\
Usage: ... pfabric [ limit PACKETS ] [ limit_bytes BYTES ]
                   [ starvation | nostarvation ]
";

/// The `pfabric` qdisc.
#[derive(Clone, Copy, Debug)]
pub struct PFabric;

impl Qdisc for PFabric {
    const KIND: &'static CStr = c"pfabric";

    type Options = Options;

    fn options(words: &[&str], units: &impl Units) -> Result<Options, Complaint> {
        let mut options = Options::default();
        let mut args = Args::new(words);
        while let Some(option) = args.option() {
            match option {
                "limit" => {
                    let expected = "a number of packets";
                    args.value("limit", &mut options.limit, expected, |text| {
                        let packets = units.number(text)?;
                        // More than 32 bits hold is as much out of range as the most they hold.
                        Some(packets.try_into().unwrap_or(u32::MAX))
                    })?;
                }
                "limit_bytes" => {
                    let expected = "a size of at most 4294967295 bytes";
                    args.value("limit_bytes", &mut options.limit_bytes, expected, |text| {
                        units.size(text)
                    })?;
                }
                "starvation" | "nostarvation" => {
                    let on = option == "starvation";
                    say_once(&mut options.starvation_prevention, "starvation", option, on)?;
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
        output.number(c"limit", config.limit.into());
        output.text(&format!("limit {}p ", config.limit));
        output.number(c"limit_bytes", config.limit_bytes.into());
        if config.limit_bytes != 0 {
            let limit = size::text(config.limit_bytes.into());
            output.text(&format!("limit_bytes {limit} "));
        }
        output.boolean(c"starvation_prevention", config.starvation_prevention);
        output.text(if config.starvation_prevention {
            "starvation "
        } else {
            "nostarvation "
        });
        Ok(())
    }

    fn print_statistics(dump: &[u8], output: &impl Output) -> Result<(), TooShort> {
        let stats = Stats::from_bytes(dump).ok_or(TooShort {
            needed: Stats::SIZE,
        })?;
        output.number(c"evicted", stats.evicted);
        output.number(c"evicted_bytes", stats.evicted_bytes);
        output.number(c"rejected", stats.rejected);
        output.number(c"rejected_bytes", stats.rejected_bytes);
        output.number(c"overtaken", stats.overtaken);
        output.text(&format!(
            "  evicted {} {}p rejected {} {}p overtaken {}p",
            size::text(stats.evicted_bytes),
            stats.evicted,
            size::text(stats.rejected_bytes),
            stats.rejected,
            stats.overtaken,
        ));
        output.new_line();
        output.number(c"flows", stats.flows.into());
        output.number(c"highest_backlog", stats.highest_backlog.into());
        output.number(c"highest_backlog_bytes", stats.highest_backlog_bytes);
        output.text(&format!(
            "  flows {} highest_backlog {} {}p",
            stats.flows,
            size::text(stats.highest_backlog_bytes),
            stats.highest_backlog,
        ));
        Ok(())
    }
}
