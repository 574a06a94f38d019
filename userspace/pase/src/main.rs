// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft-pase`: PASE's arbitrators at a switch.

mod listener;
mod random;
mod serve;
mod show;
mod socket;

use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, Subcommand};
use weft_arguments::whole;
use weft_pase::arbitrators::Rules;
use weft_topo::Spec;

const EXAMPLES: &str = "\
Examples:
  weft-pase serve --topology rack:hosts=10,rate=1gbit --node tor0
  weft-pase serve --topology fat-tree:k=4 --dilation 1000 --node edge0 --lifetime-us 1500000
  weft-pase show --json";

/// PASE's arbitrators of the links other than hosts' own (SIGCOMM 2014).
///
/// In the network namespace of each switch with hosts, one `weft-pase serve` answers the hosts'
/// kernels (tcp-pase(7)), and asks the arbitrators of other racks. See weft-pase(8).
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Arbitrate until the process is ended
    #[command(after_help = EXAMPLES)]
    Serve(Serve),
    /// Print links, flows and counters of the server in this network namespace
    #[command(after_help = EXAMPLES)]
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
struct Serve {
    /// The fabric, `KIND[:OPTION=VALUE,…]` or a TOML file
    #[arg(long)]
    topology: String,
    /// Time dilation: how many times slower the fabric runs
    #[arg(long, default_value = "1", allow_negative_numbers = true, value_parser = whole(NonZeroU32::MIN..=NonZeroU32::MAX))]
    dilation: NonZeroU32,
    /// The switch in whose network namespace this runs
    #[arg(long)]
    node: String,
    /// Number of queues in each port
    #[arg(long, default_value_t = 8, allow_negative_numbers = true, value_parser = whole(1..=8_u8))]
    queues: u8,
    /// Forward flows in this many top queues to arbitrators further up
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1..=8_u8))]
    ask_queues: u8,
    /// How long a flow is known without asking again, and how long an answer counts
    #[arg(long, default_value_t = 25_000, allow_negative_numbers = true, value_parser = whole(1..=60_000_000_u32))]
    lifetime_us: u32,
    /// Maximum of flows per link, and of remembered flows per sender at it
    #[arg(long, default_value_t = 1 << 14, allow_negative_numbers = true, value_parser = whole(1..=1_u32 << 20))]
    flows: u32,
    /// 1: divide a trunk of several racks among them; each rack arbitrates its share
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = whole(0..=1_u8))]
    delegate: u8,
}

fn main() -> ExitCode {
    let command = match weft_arguments::parse::<Cli>() {
        Ok((cli, _)) => cli.command,
        Err(status) => return status,
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft-pase: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Serve(serve) => {
            let spec = Spec::named(&serve.topology).context("--topology")?;
            let topology = spec.topology().dilated(serve.dilation)?;
            let rules = Rules {
                queues: serve.queues,
                ask_queues: serve.ask_queues,
                lifetime_us: serve.lifetime_us,
                flows: serve.flows,
                delegate: serve.delegate == 1,
            };
            serve::run(&topology, &serve.node, rules)
        }
        Command::Show { json } => show::print(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_error_for_a_number_has_its_range() {
        let faults = weft_arguments::number::faults(&Cli::command());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    /// The manual page names each option and each printed field.
    #[test]
    fn the_manual_page_names_every_option_and_every_field() {
        let page = include_str!("../weft-pase.8").replace("\\-", "-");
        let command = Cli::command();
        for sub in command.get_subcommands() {
            for option in sub.get_opts().filter_map(|it| it.get_long()) {
                let long = format!("--{option}");
                assert!(page.contains(&long), "{long} is missing");
            }
        }
        let told = show::fields();
        assert!(told.len() > 15, "{told:?}");
        for field in told {
            let mut words = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            assert!(words.any(|word| word == field), "{field} is missing");
        }
    }
}
