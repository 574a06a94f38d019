// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft capture`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Result;
use weft_arguments::whole;
use weft_lab::error::usage;
use weft_lab::testbed;
use weft_net::Testbed;

use crate::exec;

/// Print or save the packets at a port
#[derive(Debug, clap::Args)]
#[command(after_help = "\
weft runs tcpdump on the node. tcpdump sees a departing packet after the qdisc: when the packet has crossed
its wire, hence at both ends at the same time. It does not see packets that the qdisc drops. Timestamps are
this machine's; divide by the dilation for fabric time.

Exit status: tcpdump's.

Examples:
  weft capture h3:edge1                         the names of ports are those of `weft topology`
  weft capture h3:edge1 -w h3.pcap tcp port 6379
  weft capture agg0 -c 10                       all ports of a node; ten packets, then end
  weft capture h3 -w h3.pcap & … ; kill -INT $!   in a script")]
pub(crate) struct Args {
    /// A port, or a node for all of its ports
    #[arg(value_name = "NODE[:PORT]")]
    place: Place,
    /// Name of the testbed (default: as for weft exec)
    #[arg(long, value_name = "NAME")]
    testbed: Option<String>,
    /// Write a pcap file with timestamps in ns instead of printing
    #[arg(long, short, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Exit after N packets
    #[arg(long, short, value_name = "N", allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    count: Option<u64>,
    /// Expression that selects packets, see pcap-filter(7) (default: all)
    #[arg(trailing_var_arg = true, value_name = "FILTER")]
    filter: Vec<OsString>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    node: String,
    port: Option<String>,
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (node, port) = match text.split_once(':') {
            Some((node, port)) => (node, Some(port.to_owned())),
            None => (text, None),
        };
        if node.is_empty() || port.as_deref() == Some("") {
            return Err("expected NODE or NODE:PORT, for example h3:edge1");
        }
        let node = node.to_owned();
        Ok(Self { node, port })
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let testbed = testbed::open(args.testbed.as_deref())?;
    check(&testbed, &args.place)?;
    if !is_installed("tcpdump") {
        return usage("tcpdump is not installed: `apt install tcpdump`");
    }
    exec::on_node(
        &testbed,
        &args.place.node,
        OsStr::new("tcpdump"),
        &words(args),
    )
}

fn check(testbed: &Testbed, place: &Place) -> Result<()> {
    let ports = testbed.ports(&place.node).map_err(testbed::explain)?;
    match &place.port {
        Some(port) if !ports.contains(port) => usage(format!(
            "{} has no port `{port}`; its ports: {}",
            place.node,
            ports.join(", ")
        )),
        _ => Ok(()),
    }
}

/// The arguments of tcpdump.
fn words(args: &Args) -> Vec<OsString> {
    let port = args.place.port.as_deref().unwrap_or("any");
    // The nodes have no name server, so tcpdump must not resolve names.
    let mut words: Vec<OsString> = ["-n", "-i", port].map(OsString::from).to_vec();
    words.push("--time-stamp-precision=nano".into());
    match &args.write {
        // Otherwise tcpdump as root would switch to another user, who may not be allowed to write
        // here. Unbuffered, so that every packet is in the file however tcpdump ends.
        Some(file) => words.extend([
            "-U".into(),
            "-Z".into(),
            "root".into(),
            "-w".into(),
            file.into(),
        ]),
        None => words.push("-l".into()),
    }
    if let Some(count) = args.count {
        words.extend(["-c".into(), count.to_string().into()]);
    }
    words.extend(args.filter.iter().cloned());
    words
}

/// Whether the path has this program.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_node_or_one_of_its_ports() {
        let place = |node: &str, port: Option<&str>| {
            Ok(Place {
                node: node.to_owned(),
                port: port.map(str::to_owned),
            })
        };
        assert_eq!("h3".parse(), place("h3", None));
        assert_eq!("agg0:core1".parse(), place("agg0", Some("core1")));
        for text in ["", ":", "h3:", ":eth0"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
