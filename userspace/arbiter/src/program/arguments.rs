// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};
use weft_arbiter::fabric::Ways;
use weft_arbiter::service::{Policy, Settings};
use weft_arbiter::{Lags, MAX_AHEAD, MAX_BATCH, MAX_CLASSES};
use weft_arguments::whole;
use weft_mechanisms::fastpass::address::{Addresses, MAX_ENDPOINTS};
use weft_mechanisms::fastpass::options::{DEFAULT_PORT, MAX_OF_EACH};
use weft_mechanisms::fastpass::timing;
use weft_words::quantity;

/// The most ways up from a switch: a packet's path has a number of 8 bits.
const MAX_WAYS: usize = 256;

const EXAMPLES: &str = "\
Examples:
  # Of a fat-tree with switches of 4 ports: two hosts at each of two switches of four pods, two ways up
  # from each switch. Run it on the host 10.0.0.2.
  weft-arbiter --first 10.0.0.2 --hosts 2 --racks 2 --pods 4 --edge-ways 2 --core-ways 2

  # Of one rack, whose links are a thousand times slower than 10 Gbit/s; all times are, too.
  weft-arbiter --first 10.0.0.2 --hosts 5 --timeslot 1.27ms --lead 65ms --timeout 315ms

  # Two of them, on the hosts 10.0.0.2 and 10.3.1.3.
  weft-arbiter --first 10.0.0.2 --hosts 2 --racks 2 --pods 4 --peer 10.3.1.3
  weft-arbiter --first 10.0.0.2 --hosts 2 --racks 2 --pods 4 --peer 10.0.0.2 --second

  # Of 256 hosts, where one processor is not enough and there are three to spare.
  weft-arbiter --first 10.0.0.2 --hosts 16 --racks 16 --edge-ways 16 --threads 3

  # What was found to be faulty is repaired: packets go there again.
  kill -USR1 $(pidof weft-arbiter)

  # Figures every second, as a line of JSON each; once more at the end (SIGTERM, SIGINT).
  weft-arbiter --first 10.0.0.2 --hosts 5 --statistics figures.json --every 1s";

/// Fastpass arbiter: assigns each host's packets a timeslot and a path
#[derive(Debug, Parser)]
#[command(name = "weft-arbiter", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The address of endpoint 0
    #[arg(long, value_name = "ADDRESS")]
    first: Ipv4Addr,
    /// Hosts per rack; their addresses are consecutive
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = whole(1..=MAX_OF_EACH))]
    hosts: u32,
    /// Racks per pod, 256 addresses apart
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1..=MAX_OF_EACH))]
    racks: u32,
    /// Pods, 65536 addresses apart
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1..=MAX_OF_EACH))]
    pods: u32,
    /// Ways up from a host's switch
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1..=MAX_WAYS))]
    edge_ways: usize,
    /// Ways up from each of those switches to other pods
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1..=MAX_WAYS))]
    core_ways: usize,
    /// The time that a full frame takes from one switch to the next: its serialization time plus
    /// the link's delay. Without it all paths count as equally long
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time_or_none)]
    hop: Option<Duration>,
    /// The time that a full frame takes to the farthest endpoint on an idle fabric; no timeslot is
    /// given that begins earlier. By default 12 timeslots; if --lead is given, that lead less a
    /// timeslot for each 8 endpoints
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time_or_none)]
    travel: Option<Duration>,
    /// The endpoint on whose host the arbiter runs, if any: it keeps timeslots of its link free for
    /// its own packets
    #[arg(long, value_name = "ADDRESS")]
    own: Option<Ipv4Addr>,
    /// The host of another arbiter, at the same port: one of the two is active
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) peer: Option<Ipv4Addr>,
    /// This is the second of the two arbiters: the other one starts active
    #[arg(long, requires = "peer")]
    pub(crate) second: bool,
    /// How long the other arbiter may be silent
    #[arg(long, value_name = "TIME", default_value = "1ms", allow_hyphen_values = true, value_parser = time, requires = "peer")]
    pub(crate) window: Duration,
    /// The address and port on which to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, DEFAULT_PORT as u16))]
    pub(crate) listen: SocketAddrV4,
    /// Which pair gets a timeslot first: the one that has waited longest, or the one that needs the
    /// fewest
    #[arg(long, value_enum, default_value_t = Order::MaxMin)]
    policy: Order,
    /// Classes of urgency of the hosts' packets; the most urgent class gets timeslots first. The
    /// hosts must use the same number
    #[arg(long, value_name = "NUMBER", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(1..=MAX_CLASSES))]
    classes: u16,
    /// Length of a timeslot; the hosts must use the same
    #[arg(long, value_name = "TIME", default_value = "1231ns", allow_hyphen_values = true, value_parser = time)]
    pub(crate) timeslot: Duration,
    /// Timeslots that are allocated together; 0: a fifth of the endpoints, and at least 16
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true, value_parser = whole(0..=MAX_BATCH))]
    batch: usize,
    /// How long before its beginning a batch is allocated; 0: the time of --travel, and a timeslot
    /// for each 8 endpoints
    #[arg(long, value_name = "TIME", default_value = "0", allow_hyphen_values = true, value_parser = time_or_none)]
    lead: Duration,
    /// The most timeslots that are allocated ahead of the lead, a 32nd of the time for which no
    /// request has had to wait: a datagram then carries more of them; 0: none. With --peer, at most
    /// half of --window
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_AHEAD, allow_negative_numbers = true, value_parser = whole(0..=MAX_AHEAD))]
    ahead: u64,
    /// How long to wait for an endpoint's acknowledgement before repeating a message
    #[arg(long, value_name = "TIME", default_value = "315us", allow_hyphen_values = true, value_parser = time)]
    timeout: Duration,
    /// With 3, allocation and path selection have their own threads. This helps if one thread does
    /// not keep up, which the figure skipped_timeslots shows, and if three processors are free; a
    /// batch then needs more of its lead for two more hand-overs
    #[arg(long, value_enum, value_name = "NUMBER", default_value_t = Threads::One)]
    pub(crate) threads: Threads,
    /// Accept endpoints at ports from 1024 on too, which any process can use
    #[arg(long)]
    pub(crate) any_port: bool,
    /// Append figures to a file, one line of JSON each time
    #[arg(long, value_name = "FILE")]
    pub(crate) statistics: Option<PathBuf>,
    /// Append figures at this interval, besides at the end
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time, requires = "statistics")]
    pub(crate) every: Option<Duration>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    MaxMin,
    MinFct,
}

/// The number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Threads {
    #[value(name = "1")]
    One,
    #[value(name = "3")]
    Three,
}

/// `1231ns`, `1.27ms`.
fn time(text: &str) -> Result<Duration, String> {
    match quantity::read(text, quantity::TIMES) {
        Ok(ns @ 1..) => Ok(Duration::from_nanos(ns)),
        _ => Err("expected a time above 0, for example 65us".to_owned()),
    }
}

/// Like `time`, or 0.
fn time_or_none(text: &str) -> Result<Duration, String> {
    match quantity::read(text, quantity::TIMES) {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(_) if text == "0" => Ok(Duration::ZERO),
        Err(_) => Err("expected a time, for example 65us, or 0".to_owned()),
    }
}

pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Arguments {
    /// # Errors
    ///
    /// If the fabric is invalid.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let addresses = Addresses {
            first: self.first.into(),
            hosts: self.hosts,
            racks: self.racks,
            pods: self.pods,
        };
        let last = addresses.count().saturating_sub(1);
        ensure!(
            (2..=MAX_ENDPOINTS).contains(&addresses.count()),
            "--hosts times --racks times --pods must be between 2 and {MAX_ENDPOINTS}, not {}",
            addresses.count()
        );
        ensure!(
            addresses.address(last as u16).is_some(),
            "--first: the last endpoint would be beyond 255.255.255.255"
        );
        let own = self.own.map(|own| {
            let endpoint = addresses.endpoint(own.into());
            endpoint.with_context(|| format!("--own {own} is no endpoint's address"))
        });
        Ok(Settings {
            addresses,
            ways: Ways {
                edge: self.edge_ways,
                core: self.core_ways,
            },
            policy: match self.policy {
                Order::MaxMin => Policy::MaxMin,
                Order::MinFct => Policy::MinFct,
            },
            classes: self.classes,
            batch: self.batch(),
            timeslot: ns(self.timeslot),
            lead: self.lead(),
            travel: self.travel(),
            ahead: self.ahead(),
            timeout: ns(self.timeout),
            lags: self.lags(),
            own: own.transpose()?,
            any_port: self.any_port,
        })
    }

    /// Timeslots that may be allocated ahead. They are over before another arbiter takes over.
    fn ahead(&self) -> u64 {
        match self.peer {
            Some(_) => self.ahead.min(ns(self.window) / 2 / ns(self.timeslot)),
            None => self.ahead,
        }
    }

    /// Timeslots of a batch.
    pub(crate) fn batch(&self) -> usize {
        match self.batch {
            // With the timeslots of four hops, it must fit the bits of a word.
            0 => (timing::batch(self.endpoints()) as usize)
                .min(MAX_BATCH.saturating_sub(self.lags().far as usize)),
            batch => batch,
        }
    }

    /// How long before its beginning a batch is allocated, in ns.
    pub(crate) fn lead(&self) -> u64 {
        match ns(self.lead) {
            0 => {
                let timeslots = |number: u64| number.saturating_mul(ns(self.timeslot));
                let travel = self.travel.map_or(timeslots(timing::TRAVEL), ns);
                travel.saturating_add(timeslots(timing::lead(self.endpoints())))
            }
            lead => lead,
        }
    }

    /// How long an ALLOC takes to the farthest endpoint, in ns. A lead that is stated includes that
    /// time.
    fn travel(&self) -> u64 {
        let sent = timing::lead(self.endpoints()).saturating_mul(ns(self.timeslot));
        match self.travel {
            Some(travel) => ns(travel),
            None => self.lead().saturating_sub(sent),
        }
    }

    fn endpoints(&self) -> u32 {
        self.hosts
            .saturating_mul(self.racks)
            .saturating_mul(self.pods)
    }

    /// A path to another switch of the pod has two links more, a path to another pod four.
    fn lags(&self) -> Lags {
        let (hop, timeslot) = (self.hop.map_or(0, ns), ns(self.timeslot));
        let timeslots = |links: u64| {
            let rounded = links.saturating_mul(hop).saturating_add(timeslot / 2) / timeslot;
            u32::try_from(rounded).unwrap_or(u32::MAX)
        };
        Lags {
            near: timeslots(2),
            far: timeslots(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_error_for_a_number_has_its_range() {
        let faults = weft_arguments::number::faults(&Arguments::command());
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
