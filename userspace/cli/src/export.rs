// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft export`: flows as a table for other programs.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use weft_lab::error::usage;
use weft_lab::results;
use weft_load::record::{Class, Flow, Recorded};

use crate::output::STDOUT;

/// Print the flows of results as a table, one line per flow
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Unknown values are empty. Flows of the warm-up and cool-down are included, with measured = 0.

Example:
  weft export --csv results/*.jsonl > flows.csv")]
pub(crate) struct Args {
    /// Result files of `weft run`; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Comma-separated values, the only format so far
    #[arg(long, required = true)]
    csv: bool,
}

const HEAD: &str = "topology,scheme,parameters,load,seed,weft,kernel,clock,valid,id,src,dst,class,incast,measured,start_ns,size,\
                    fct_ns,slowdown,retransmissions,spurious,timeouts,deadline_ns,priority";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let runs = results::read(&args.files)?;
    require_each_once(&args.files, &runs)?;
    write(&runs).context(STDOUT)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a result that is named twice, as by two patterns of a shell: its flows would count twice
/// in every figure of the table.
fn require_each_once(files: &[String], runs: &[Recorded]) -> Result<()> {
    let mut seen = BTreeMap::new();
    for (file, run) in files.iter().zip(runs) {
        let content = serde_json::to_string(&(&run.header, &run.summary))?;
        if let Some(other) = seen.insert(content, file) {
            return usage(format!(
                "{other} and {file} are the same result: name it once"
            ));
        }
    }
    Ok(())
}

fn write(runs: &[Recorded]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(out, "{HEAD}")?;
    for run in runs {
        let header = &run.header;
        let parameters = header.parameters.iter();
        let parameters: Vec<String> = parameters
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let asked = run
            .summary
            .as_ref()
            .and_then(|it| it.load)
            .map(|it| it.asked);
        let valid = run.summary.as_ref().is_some_and(|it| it.valid);
        let of_run = [
            field(&header.topology),
            field(&header.scheme),
            field(&parameters.join(" ")),
            known(asked),
            header.seed.to_string(),
            field(&header.weft),
            field(header.kernel.as_deref().unwrap_or_default()),
            field(header.clock.as_deref().unwrap_or_default()),
            u8::from(valid).to_string(),
        ];
        let of_run = of_run.join(",");
        for flow in &run.flows {
            writeln!(out, "{of_run},{}", of_flow(flow))?;
        }
    }
    out.flush()
}

fn of_flow(flow: &Flow) -> String {
    let (class, event) = match flow.class {
        Class::Background => ("background", None),
        Class::Incast { event } => ("incast", Some(event)),
        Class::Round { round } => ("round", Some(round)),
        Class::Added => ("added", None),
    };
    [
        flow.id.to_string(),
        flow.src.to_string(),
        flow.dst.to_string(),
        class.to_owned(),
        known(event),
        u8::from(!flow.warm_up).to_string(),
        flow.start_ns.to_string(),
        flow.size.to_string(),
        known(flow.fct_ns),
        known(flow.slowdown),
        flow.retransmissions.to_string(),
        known(flow.spurious),
        known(flow.timeouts),
        known(flow.deadline_ns),
        known(flow.priority),
    ]
    .join(",")
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |it| it.to_string())
}

/// A field in the syntax of RFC 4180.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_comma_or_a_quote_is_quoted() {
        assert_eq!(field("rack:hosts=4"), "rack:hosts=4");
        assert_eq!(
            field("rack:hosts=4,rate=1gbit"),
            "\"rack:hosts=4,rate=1gbit\""
        );
        assert_eq!(field("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
