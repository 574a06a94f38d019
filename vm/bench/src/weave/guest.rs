// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft in the guest, in virtual time: with weft's qdiscs and programs, and reproducible figures.

use anyhow::{Context, Result};
use serde::Serialize;
use weft_build::base::progress;
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::ClockKind;
use weft_build::stages::chain::Built;
use weft_machine::{Guest, transfer};

use super::Args;

/// One with programs at the ports, one without.
const SCHEMES: [&str; 2] = ["droptail", "pfabric"];
/// The file of the guest's figures in `/out`.
const FIGURES: &str = "weave";

/// In virtual seconds: at 1 ns per instruction, plus the time in which the guest waits.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct GuestFigure {
    pub(crate) k: u32,
    pub(crate) scheme: String,
    pub(crate) up: f64,
    pub(crate) down: f64,
}

/// Runs the measurement.
///
/// # Errors
/// If the guest cannot be run, or weft fails in it.
pub(crate) fn measure(built: &Built, options: &Args) -> Result<Vec<GuestFigure>> {
    let script: String = options
        .k
        .iter()
        .flat_map(|k| SCHEMES.map(|scheme| format!("weave {k} {scheme}\n")))
        .collect();
    // bash reads the time in µs without starting a process.
    let script = format!(
        "set -e\nweave() {{\n\
         a=$EPOCHREALTIME\nweft up fat-tree:k=$1 --dilation 1000 --scheme $2\n\
         b=$EPOCHREALTIME\nweft down\nc=$EPOCHREALTIME\n\
         echo $1 $2 $((${{b/./}} - ${{a/./}})) $((${{c/./}} - ${{b/./}})) >> /out/{FIGURES}\n}}\n{script}"
    );
    let machine = machine::build(built, ClockKind::Instructions, &options.figures.hardware)?;
    let run = Guest::new(
        machine,
        ["bash", "-c", &script],
        options.figures.hardware.timeout(),
    );
    let outcome = progress::step("weft in virtual time", || {
        guests::succeed(built, &run, "weft")
    })?;
    let figures = transfer::file(&outcome.tar, FIGURES)?.context("weft left no figures")?;
    let text = String::from_utf8(figures)?;
    text.lines()
        .map(|line| figure(line).with_context(|| format!("the guest said `{line}`")))
        .collect()
}

/// Parses k, scheme, and microseconds up and down.
fn figure(line: &str) -> Option<GuestFigure> {
    let mut words = line.split(' ');
    let (k, scheme) = (words.next()?.parse().ok()?, words.next()?.to_owned());
    let mut seconds = || Some(words.next()?.parse::<u64>().ok()? as f64 / 1e6);
    Some(GuestFigure {
        k,
        scheme,
        up: seconds()?,
        down: seconds()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_guest_is_a_figure() {
        let expected = GuestFigure {
            k: 4,
            scheme: "pfabric".into(),
            up: 1.5,
            down: 0.25,
        };
        assert_eq!(figure("4 pfabric 1500000 250000"), Some(expected));
        assert_eq!(figure("4 pfabric 1500000 x"), None);
    }
}
