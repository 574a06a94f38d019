// SPDX-License-Identifier: MIT OR Apache-2.0

//! `bfc`: `tc qdisc … bfc …`, and its queues in `tc -s class show`.

use crate::args::{Args, Complaint, say_once};
use crate::qdisc::{Qdisc, TooShort};
use crate::size;
use crate::tc::{Output, Units};
use std::ffi::CStr;
use weft_core::bfc::options::{Assign, Config, Devices, Options, STICKY_AUTO, Scheduler};
use weft_core::bfc::stats::{QueueStats, Stats};
use weft_core::common::nla::{NoRoom, Refusal, Sink};

/// What `help` prints.
pub const USAGE: &str = "\
Usage: ... bfc rate RATE hrtt TIME [ th BYTES ]
               [ queues NUMBER ] [ factor NUMBER ]
               [ assign dynamic | stochastic | single ] [ scheduler fq | srf ]
               [ classes NUMBER ] [ incast RANK ] [ sample PERCENT ]
               [ sticky TIME | auto ] [ limit BYTES ] [ buffer BYTES ]
               [ refresh TIME ] [ quantum BYTES ] [ elide DEV ]... [ noelide ]
";

/// The `bfc` qdisc.
#[derive(Clone, Copy, Debug)]
pub struct Bfc;

const ASSIGN: [(&str, Assign); 3] = [
    ("dynamic", Assign::Dynamic),
    ("stochastic", Assign::Stochastic),
    ("single", Assign::Single),
];

const SCHEDULER: [(&str, Scheduler); 2] = [("fq", Scheduler::Fq), ("srf", Scheduler::Srf)];

fn of_name<T: Copy>(choices: &[(&str, T)], name: &str) -> Option<T> {
    let choice = choices.iter().find(|(known, _)| *known == name)?;
    Some(choice.1)
}

fn name_of<T: PartialEq>(choices: &[(&'static str, T)], choice: &T) -> &'static str {
    let known = choices.iter().find(|(_, known)| known == choice);
    known.map_or("unknown", |(name, _)| name)
}

/// A whole number. More than its type holds is as much out of range as the most it holds.
fn number<T: TryFrom<u64>>(units: &impl Units, text: &str, most: T) -> Option<T> {
    Some(units.number(text)?.try_into().unwrap_or(most))
}

fn elide(args: &mut Args<'_>, options: &mut Options, units: &impl Units) -> Result<(), Complaint> {
    let mut index = None;
    args.value("elide", &mut index, "a device", |name| units.device(name))?;
    let devices = options.elide.get_or_insert(Devices::NONE);
    if index.is_some_and(|index| !devices.push(index)) {
        let words = "Error: At most 64 devices can be elided.\n";
        return Err(Complaint::Message(words.to_owned()));
    }
    Ok(())
}

impl Qdisc for Bfc {
    const KIND: &'static CStr = c"bfc";

    type Options = Options;

    fn options(words: &[&str], units: &impl Units) -> Result<Options, Complaint> {
        const BYTES: &str = "a size of at most 4294967295 bytes";
        const TIME: &str = "a time, for example 20us";
        let mut options = Options::default();
        let mut args = Args::new(words);
        while let Some(option) = args.option() {
            let said = &mut options;
            match option {
                "rate" => {
                    args.value("rate", &mut said.rate, "a rate, for example 10gbit", |it| {
                        units.rate(it)
                    })?
                }
                "hrtt" => args.value("hrtt", &mut said.hrtt, TIME, |it| units.time(it))?,
                "th" => args.value("th", &mut said.th, BYTES, |it| units.size(it))?,
                "queues" => args.value("queues", &mut said.queues, "a number of queues", |it| {
                    number(units, it, u32::MAX)
                })?,
                "factor" => args.value("factor", &mut said.factor, "a number", |it| {
                    number(units, it, u32::MAX)
                })?,
                "assign" => {
                    let expected = "dynamic, stochastic or single";
                    let read = |name: &str| of_name(&ASSIGN, name);
                    args.value("assign", &mut said.assign, expected, read)?;
                }
                "scheduler" => {
                    let read = |name: &str| of_name(&SCHEDULER, name);
                    args.value("scheduler", &mut said.scheduler, "fq or srf", read)?;
                }
                "classes" => args.value("classes", &mut said.classes, "a number", |it| {
                    number(units, it, u8::MAX)
                })?,
                "incast" => args.value("incast", &mut said.incast, "a rank", |it| {
                    units.number(it)?.try_into().ok()
                })?,
                "sample" => args.value("sample", &mut said.sample, "a percentage", |it| {
                    number(units, it.strip_suffix('%').unwrap_or(it), u8::MAX)
                })?,
                "sticky" => {
                    let expected = "a time, for example 20us, or auto";
                    args.value("sticky", &mut said.sticky, expected, |it| match it {
                        "auto" => Some(STICKY_AUTO),
                        it => units.time(it),
                    })?;
                }
                "limit" => args.value("limit", &mut said.limit, BYTES, |it| units.size(it))?,
                "buffer" => args.value("buffer", &mut said.buffer, BYTES, |it| units.size(it))?,
                "refresh" => {
                    args.value("refresh", &mut said.refresh, TIME, |it| units.time(it))?;
                }
                "quantum" => {
                    args.value("quantum", &mut said.quantum, BYTES, |it| units.size(it))?
                }
                "elide" => elide(&mut args, said, units)?,
                "noelide" => say_once(&mut said.elide, "noelide", option, Devices::NONE)?,
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
        threshold(&config, output);
        shape(&config, output);
        limits(&config, output);
        let names: Vec<String> = config
            .elide
            .indices()
            .iter()
            .map(|i| output.device(*i))
            .collect();
        output.strings(c"elide", &names);
        for name in names {
            output.text(&format!("elide {name} "));
        }
        Ok(())
    }

    fn print_statistics(dump: &[u8], output: &impl Output) -> Result<(), TooShort> {
        if let Some(queue) = QueueStats::from_bytes(dump) {
            print_queue(&queue, output);
            return Ok(());
        }
        let needed = Stats::SIZE;
        let stats = Stats::from_bytes(dump).ok_or(TooShort { needed })?;
        print_queues(&stats, output);
        output.new_line();
        print_drops(&stats, output);
        output.new_line();
        print_upstream(&stats, output);
        output.new_line();
        print_downstream(&stats, output);
        Ok(())
    }
}

fn threshold(config: &Config, output: &impl Output) {
    if config.rate == 0 {
        output.number(c"rate", 0);
    } else {
        output.text("rate ");
        output.rate(c"rate", config.rate);
        output.text(" ");
    }
    output.number(c"hrtt", config.hrtt);
    if config.hrtt != 0 {
        output.text(&format!("hrtt {} ", output.time(config.hrtt)));
    }
    output.number(c"th", config.th.into());
    if config.th != 0 {
        output.text(&format!("th {} ", size::text(config.th.into())));
    }
}

fn shape(config: &Config, output: &impl Output) {
    output.number(c"queues", config.queues.into());
    output.number(c"factor", config.factor.into());
    let assign = name_of(&ASSIGN, &config.assign);
    output.string(c"assign", assign);
    let scheduler = name_of(&SCHEDULER, &config.scheduler);
    output.string(c"scheduler", scheduler);
    output.text(&format!(
        "queues {} factor {} assign {assign} scheduler {scheduler} ",
        config.queues, config.factor,
    ));
    output.number(c"classes", config.classes.into());
    if config.classes != 1 {
        output.text(&format!("classes {} ", config.classes));
    }
    if let Some(incast) = config.incast {
        output.number(c"incast", incast.into());
        output.text(&format!("incast {incast} "));
    }
    output.number(c"sample", config.sample.into());
    if config.sample != 100 {
        output.text(&format!("sample {}% ", config.sample));
    }
    if config.sticky == STICKY_AUTO {
        output.string(c"sticky", "auto");
    } else {
        output.number(c"sticky", config.sticky);
        output.text(&format!("sticky {} ", output.time(config.sticky)));
    }
}

fn limits(config: &Config, output: &impl Output) {
    output.number(c"limit", config.limit.into());
    if config.limit != 0 {
        output.text(&format!("limit {} ", size::text(config.limit.into())));
    }
    output.number(c"buffer", config.buffer.into());
    output.number(c"refresh", config.refresh);
    output.text(&format!(
        "buffer {} refresh {} ",
        size::text(config.buffer.into()),
        output.time(config.refresh),
    ));
    output.number(c"quantum", config.quantum.into());
    if config.quantum != 0 {
        output.text(&format!("quantum {} ", size::text(config.quantum.into())));
    }
}

fn print_queues(stats: &Stats, output: &impl Output) {
    output.number(c"occupied", stats.occupied.into());
    output.number(c"active", stats.active.into());
    output.number(c"paused", stats.paused.into());
    output.number(c"paused_ns", stats.paused_ns);
    output.number(c"activations", stats.activations);
    output.number(c"collisions", stats.collisions);
    output.text(&format!(
        "  queues occupied {} active {} paused {} for {} flows {} collisions {}",
        stats.occupied,
        stats.active,
        stats.paused,
        output.time(stats.paused_ns),
        stats.activations,
        stats.collisions,
    ));
    output.new_line();
    output.number(c"longest", stats.longest);
    output.number(c"threshold", stats.threshold);
    output.number(c"largest_hrtt", stats.hrtt);
    output.number(c"congested", stats.congested);
    output.number(c"elided", stats.elided);
    output.number(c"unmarked", stats.unmarked);
    output.text(&format!(
        "  longest {} threshold {} hrtt {} congested {}p elided {}p unmarked {}p",
        size::text(stats.longest),
        size::text(stats.threshold),
        output.time(stats.hrtt),
        stats.congested,
        stats.elided,
        stats.unmarked,
    ));
}

fn print_drops(stats: &Stats, output: &impl Output) {
    output.number(c"dropped_limit", stats.dropped_limit);
    output.number(c"dropped_buffer", stats.dropped_buffer);
    output.number(c"dropped_memory", stats.dropped_memory);
    output.number(c"dropped_control", stats.dropped_control);
    output.number(c"highest_backlog", stats.highest_backlog);
    output.number(c"buffer_backlog", stats.buffer_backlog);
    output.number(c"highest_buffer_backlog", stats.highest_buffer_backlog);
    output.text(&format!(
        "  dropped limit {}p buffer {}p memory {}p control {}p",
        stats.dropped_limit, stats.dropped_buffer, stats.dropped_memory, stats.dropped_control,
    ));
    output.text(&format!(
        " highest_backlog {} buffer {} highest {}",
        size::text(stats.highest_backlog),
        size::text(stats.buffer_backlog),
        size::text(stats.highest_buffer_backlog),
    ));
}

fn print_upstream(stats: &Stats, output: &impl Output) {
    output.number(c"pausing", stats.pausing.into());
    output.number(c"pauses_sent", stats.pauses_sent);
    output.number(c"resumes_sent", stats.resumes_sent);
    output.number(c"bitmaps_sent", stats.bitmaps_sent);
    output.number(c"unsent", stats.unsent);
    output.text(&format!(
        "  upstream pausing {} sent pauses {} resumes {} bitmaps {} unsent {}",
        stats.pausing, stats.pauses_sent, stats.resumes_sent, stats.bitmaps_sent, stats.unsent,
    ));
}

fn print_downstream(stats: &Stats, output: &impl Output) {
    output.number(c"pauses_received", stats.pauses_received);
    output.number(c"resumes_received", stats.resumes_received);
    output.number(c"bitmaps_received", stats.bitmaps_received);
    output.number(c"lapsed", stats.lapsed);
    output.number(c"malformed", stats.malformed);
    output.number(c"foreign", stats.foreign);
    output.number(c"replayed", stats.replayed);
    output.text(&format!(
        "  downstream received pauses {} resumes {} bitmaps {} lapsed {}",
        stats.pauses_received, stats.resumes_received, stats.bitmaps_received, stats.lapsed,
    ));
    output.text(&format!(
        " ignored malformed {} foreign {} replayed {}",
        stats.malformed, stats.foreign, stats.replayed,
    ));
}

fn print_queue(queue: &QueueStats, output: &impl Output) {
    output.number(c"number", queue.number.into());
    output.number(c"class", queue.class.into());
    output.boolean(c"paused", queue.paused != 0);
    output.number(c"paused_ns", queue.paused_ns);
    output.text(&match queue.number {
        0 => "  control frames".to_owned(),
        number => format!("  queue {number} class {}", queue.class),
    });
    let paused = if queue.paused != 0 { " paused" } else { "" };
    output.text(&format!(
        "{paused} paused_for {}",
        output.time(queue.paused_ns)
    ));
}
