// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options of `fastpass`: accepted, refused in words, shown again.

use anyhow::{Result, ensure};
use nix::errno::Errno;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::fastpass::QDISC;
use weft_mechanisms::fastpass::options::{Config, MIN_PERIOD, Options, attr};

use super::options::{Kind, Why, attribute};
use crate::netlink::{Nest, Verb};
use crate::port::Port;
use weft_ktap::{Context, tests};

tests![
    given_and_default_options_are_shown_again,
    missing_mandatory_options_are_refused,
    values_out_of_range_are_refused,
    an_address_that_is_not_an_endpoint_is_refused,
    malformed_options_are_refused,
    options_agreed_with_the_arbiter_cannot_be_changed,
];

const FASTPASS: Kind = Kind::of::<Config>(QDISC);

fn payload(options: &Options) -> Vec<u8> {
    Nest::of(|nest| options.put(nest))
}

const NEEDED: Options = Options {
    address: Some(0x0a00_0003),
    first: Some(0x0a00_0002),
    hosts: Some(3),
    racks: None,
    pods: None,
    arbiter: Some(0x0a00_0002),
    port: None,
    rate: Some(1_250_000),
    timeslot: None,
    overhead: None,
    mpu: None,
    limit: None,
    late: None,
    interval: None,
    timeout: None,
    standby: None,
    skew: None,
    paths: None,
    report: None,
    gather: None,
    small_queue: None,
    hold: None,
    order: None,
    classes: None,
    urgent: None,
};

fn given_and_default_options_are_shown_again(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let shown = Config::parse(&FASTPASS.accepts(&mut port, &payload(&NEEDED))?);
    ensure!(shown == Config::new(&NEEDED), "{shown:?}");
    // The most endpoints, the longest and shortest times, and much memory.
    for (timeslot, time, limit) in [(1_000_000_000, 100_000_000_000, 1_000_000), (800, 1, 1)] {
        let all = Options {
            hosts: Some(256),
            racks: Some(4),
            pods: Some(4),
            port: Some(65_535),
            timeslot: Some(timeslot),
            overhead: Some(1000),
            mpu: Some(2000),
            limit: Some(limit),
            late: Some(time),
            interval: Some(time),
            timeout: Some(time.max(MIN_PERIOD)),
            paths: Some(256),
            report: Some(time.max(MIN_PERIOD)),
            gather: Some(time),
            small_queue: Some(time),
            hold: Some(time),
            urgent: Some(1),
            ..NEEDED
        };
        let shown = Config::parse(&FASTPASS.accepts(&mut port, &payload(&all))?);
        ensure!(shown == Config::new(&all), "{shown:?}");
    }
    Ok(())
}

fn missing_mandatory_options_are_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let attrs = [
        (attr::ADDRESS, "Address is required: the host's own"),
        (attr::FIRST, "First is required: the address of endpoint 0"),
        (attr::HOSTS, "Hosts is required: how many a rack has"),
        (attr::ARBITER, "Arbiter is required: its address"),
        (attr::RATE, "Rate is required, for example rate 10gbit"),
    ];
    for (attr, message) in attrs {
        let mut without = NEEDED;
        match attr {
            attr::ADDRESS => without.address = None,
            attr::FIRST => without.first = None,
            attr::HOSTS => without.hosts = None,
            attr::ARBITER => without.arbiter = None,
            _ => without.rate = None,
        }
        let why = Why {
            errno: Errno::EINVAL,
            message,
            attr: None,
        };
        why.check(FASTPASS.request(&mut port, Verb::Add, &payload(&without)))?;
        ensure!(FASTPASS.dumped(&mut port)?.is_none(), "a qdisc was left");
    }
    Ok(())
}

fn values_out_of_range_are_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let u32 = |value: u32| value.to_ne_bytes().to_vec();
    let u64 = |value: u64| value.to_ne_bytes().to_vec();
    for (attr, value, sentence) in [
        (
            attr::HOSTS,
            u32(257),
            "Hosts of a rack must be between 1 and 256",
        ),
        (
            attr::RACKS,
            u32(0),
            "Racks of a pod must be between 1 and 256",
        ),
        (attr::PODS, u32(257), "Pods must be between 1 and 256"),
        (attr::PORT, u32(65_536), "Port must be between 1 and 65535"),
        (
            attr::RATE,
            u64(124),
            "Rate must be between 1 kbit/s and 400 Gbit/s",
        ),
        (
            attr::TIMESLOT,
            u64(9),
            "Timeslot must be between 10 ns and 1 s",
        ),
        (
            attr::OVERHEAD,
            u32(1001),
            "Overhead must be at most 1000 bytes",
        ),
        (attr::MPU, u32(2001), "MPU must be at most 2000 bytes"),
        (
            attr::LIMIT,
            u32(0),
            "Limit must be between 1 and 1000000 packets",
        ),
        (attr::LATE, u64(u64::MAX), "Late must be at most 100 s"),
        (
            attr::INTERVAL,
            u64(u64::MAX),
            "Interval must be at most 100 s",
        ),
        (
            attr::TIMEOUT,
            u64(0),
            "Timeout must be between 10 us and 100 s",
        ),
    ] {
        let why = Why::of(Errno::ERANGE, sentence, attr);
        FASTPASS.refuses(&mut port, &payload(&NEEDED), &attribute(attr, &value), &why)?;
    }
    Ok(())
}

fn an_address_that_is_not_an_endpoint_is_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let stranger = Options {
        address: Some(0x0a00_0005),
        ..NEEDED
    };
    let sentence = "Address must be that of an endpoint, by first, hosts, racks and pods";
    let why = Why::of(Errno::ERANGE, sentence, attr::ADDRESS);
    why.check(FASTPASS.request(&mut port, Verb::Add, &payload(&stranger)))?;
    let alone = Options {
        hosts: Some(1),
        address: NEEDED.first,
        ..NEEDED
    };
    let sentence = "Hosts times racks times pods must be between 2 and 4096";
    let why = Why::of(Errno::ERANGE, sentence, attr::HOSTS);
    why.check(FASTPASS.request(&mut port, Verb::Add, &payload(&alone)))
}

fn malformed_options_are_refused(_: &Context) -> Result<()> {
    FASTPASS.refuses_malformed(&mut Port::new()?, &payload(&NEEDED))
}

fn options_agreed_with_the_arbiter_cannot_be_changed(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    FASTPASS.request(&mut port, Verb::Add, &payload(&NEEDED))?;
    let before = FASTPASS.dumped(&mut port)?;
    let why = Why {
        errno: Errno::EINVAL,
        message: "Only limit, late, gather, interval, timeout, skew, report, smallqueue, hold and urgent can be changed",
        attr: None,
    };
    let rate = attribute(attr::RATE, &1_250_001_u64.to_ne_bytes());
    why.check(FASTPASS.request(&mut port, Verb::Change, &rate))?;
    ensure!(
        FASTPASS.dumped(&mut port)? == before,
        "a refused change changed it"
    );
    let allowed = Options {
        limit: Some(7),
        late: Some(8),
        ..Options::default()
    };
    FASTPASS.request(&mut port, Verb::Change, &payload(&allowed))?;
    let shown = FASTPASS.dumped(&mut port)?.map(|dump| Config::parse(&dump));
    let expected = Options {
        limit: Some(7),
        late: Some(8),
        ..NEEDED
    };
    ensure!(shown == Some(Config::new(&expected)), "{shown:?}");
    Ok(())
}
