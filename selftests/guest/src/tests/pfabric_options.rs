// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options of `pfabric`: accepted, refused in words, shown again.

use std::time::Duration;

use anyhow::{Result, ensure};
use nix::errno::Errno;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::pfabric::QDISC;
use weft_mechanisms::pfabric::options::{Config, DEFAULT_LIMIT, KIND, MAX_LIMIT, Options, attr};

use super::options::{HANDLE, Kind, Why, attribute};
use crate::model::Packet;
use crate::netlink::{Handle, Nest, QdiscRequest, Verb};
use crate::port::{INDEX, Port, rate};
use weft_ktap::{Context, tests};

tests![
    every_option_is_accepted_at_its_bounds_and_shown_again,
    omitted_options_have_their_defaults,
    a_change_keeps_the_options_that_it_omits,
    values_out_of_range_are_refused,
    malformed_options_are_refused,
    an_option_given_twice_is_refused,
    a_refused_change_loses_no_packet,
];

const PFABRIC: Kind = Kind::of::<Config>(QDISC);

fn payload(options: &Options) -> Vec<u8> {
    Nest::of(|nest| options.put(nest))
}

fn good() -> Vec<u8> {
    payload(&Options {
        limit: Some(7),
        limit_bytes: Some(9000),
        starvation_prevention: Some(false),
    })
}

fn every_option_is_accepted_at_its_bounds_and_shown_again(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    for limit in [1, 2, DEFAULT_LIMIT, MAX_LIMIT - 1, MAX_LIMIT] {
        for limit_bytes in [0, 1, 36_000, u32::MAX] {
            for on in [false, true] {
                let options = Options {
                    limit: Some(limit),
                    limit_bytes: Some(limit_bytes),
                    starvation_prevention: Some(on),
                };
                let dumped = PFABRIC.accepts(&mut port, &payload(&options))?;
                let shown = Config::parse(&dumped);
                let said = Config {
                    limit,
                    limit_bytes,
                    starvation_prevention: on,
                };
                ensure!(shown == Ok(said), "{said:?} is shown as {shown:?}");
            }
        }
    }
    Ok(())
}

fn omitted_options_have_their_defaults(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let default = Config {
        limit: 24,
        limit_bytes: 0,
        starvation_prevention: true,
    };
    ensure!(Config::parse(&PFABRIC.accepts(&mut port, &[])?) == Ok(default));
    // Nor need there be any options at all.
    let request = QdiscRequest {
        index: INDEX,
        parent: Handle::ROOT,
        handle: HANDLE,
        kind: KIND,
        options: None,
    };
    port.netlink.qdisc(Verb::Add, &request)?;
    ensure!(port.pfabric(HANDLE)?.0 == default);
    port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
    // With a byte limit only, as many packets as can fill it: of 60 bytes, the shortest frame.
    for (limit_bytes, limit) in [(36_000, 600), (59, 1), (u32::MAX, MAX_LIMIT)] {
        let options = Options {
            limit_bytes: Some(limit_bytes),
            ..Options::default()
        };
        let shown = Config::parse(&PFABRIC.accepts(&mut port, &payload(&options))?);
        ensure!(
            shown
                == Ok(Config {
                    limit,
                    limit_bytes,
                    starvation_prevention: true
                })
        );
    }
    Ok(())
}

fn a_change_keeps_the_options_that_it_omits(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    PFABRIC.request(&mut port, Verb::Add, &good())?;
    let mut config = Config {
        limit: 7,
        limit_bytes: 9000,
        starvation_prevention: false,
    };
    let mut change = |options: Options, config: Config| {
        PFABRIC.request(&mut port, Verb::Change, &payload(&options))?;
        let shown = port.pfabric(HANDLE)?.0;
        ensure!(
            shown == config,
            "{options:?} gives {shown:?}, not {config:?}"
        );
        anyhow::Ok(())
    };
    change(Options::default(), config)?;
    config.limit = MAX_LIMIT;
    change(
        Options {
            limit: Some(MAX_LIMIT),
            ..Options::default()
        },
        config,
    )?;
    config.limit_bytes = 0;
    change(
        Options {
            limit_bytes: Some(0),
            ..Options::default()
        },
        config,
    )?;
    config.starvation_prevention = true;
    change(
        Options {
            starvation_prevention: Some(true),
            ..Options::default()
        },
        config,
    )
}

fn values_out_of_range_are_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    for limit in [0, MAX_LIMIT + 1, u32::MAX] {
        let bad = attribute(attr::LIMIT, &limit.to_ne_bytes());
        let sentence = "Limit must be between 1 and 65536 packets";
        let why = Why::of(Errno::ERANGE, sentence, attr::LIMIT);
        PFABRIC.refuses(&mut port, &good(), &bad, &why)?;
    }
    for on in [2, 255] {
        let bad = attribute(attr::STARVATION_PREVENTION, &[on]);
        let sentence = "Starvation prevention must be 0 or 1";
        let why = Why::of(Errno::ERANGE, sentence, attr::STARVATION_PREVENTION);
        PFABRIC.refuses(&mut port, &good(), &bad, &why)?;
    }
    Ok(())
}

fn malformed_options_are_refused(_: &Context) -> Result<()> {
    PFABRIC.refuses_malformed(&mut Port::new()?, &good())
}

fn an_option_given_twice_is_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    for (attr, value) in [
        (attr::LIMIT, &[5, 0, 0, 0][..]),
        (attr::LIMIT_BYTES, &[0; 4]),
        (attr::STARVATION_PREVENTION, &[1]),
    ] {
        let bad = [attribute(attr, value), attribute(attr, value)].concat();
        let why = Why::of(Errno::EINVAL, "Attribute given twice", attr);
        PFABRIC.refuses(&mut port, &good(), &bad, &why)?;
    }
    Ok(())
}

fn a_refused_change_loses_no_packet(_: &Context) -> Result<()> {
    const PFABRIC_HANDLE: Handle = Handle::new(2, 0);
    const PACKETS: u64 = 20;
    let mut port = Port::new()?;
    let options = Options {
        limit: Some(20),
        ..Options::default()
    };
    // The first packet takes 0.8 s: nothing else leaves meanwhile, also where the clock is real.
    port.add_wire_and_pfabric(&rate(1_000), &options)?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..PACKETS {
        // Later packets are more urgent, each of a flow of its own.
        sender.send(&Packet {
            id,
            rank: 100 - id as u32,
            flow: id as u32,
            len: 100,
        })?;
    }
    let before = port.find(PFABRIC_HANDLE)?;
    for bad in [
        attribute(attr::LIMIT, &[0; 4]),
        attribute(attr::LIMIT, &[1; 2]),
        attribute(99, &[]),
        [
            attribute(attr::LIMIT, &[1, 0, 0, 0]),
            attribute(attr::STARVATION_PREVENTION, &[7]),
        ]
        .concat(),
        vec![1, 2, 3, 4, 5],
    ] {
        let result = port.qdisc(Verb::Change, KIND, Handle::new(1, 1), PFABRIC_HANDLE, bad);
        ensure!(result.is_err(), "a bad change was accepted");
    }
    let after = port.find(PFABRIC_HANDLE)?;
    ensure!(
        (before.qlen, before.backlog, before.drops) == (after.qlen, after.backlog, after.drops)
            && before.options == after.options
            && before.qlen == PACKETS as u32 - 1,
        "a refused change left its mark: {before:?}, {after:?}"
    );
    port.tc("qdisc change dev {v} root handle 1: wire rate 100kbit")?;
    let arrived = receiver.expect(PACKETS as usize, Duration::from_secs(2))?;
    let arrived: Vec<u64> = arrived.iter().map(|arrival| arrival.id).collect();
    let expected: Vec<u64> = [0].into_iter().chain((1..PACKETS).rev()).collect();
    ensure!(arrived == expected, "{arrived:?} arrived, not {expected:?}");
    Ok(())
}
