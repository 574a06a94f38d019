// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options of `wire`: accepted, refused in words, shown again.

use anyhow::{Result, ensure};
use nix::errno::Errno;
use weft_mechanisms::common::options::Configuration as _;
use weft_mechanisms::wire::QDISC;
use weft_mechanisms::wire::options::{
    Config, KIND, MAX_DELAY, MAX_LIMIT, MAX_MPU, MAX_OVERHEAD, MAX_RATE, MAX_SLACK, MIN_RATE,
    Options, attr,
};

use super::options::{HANDLE, Kind, Why, attribute};
use crate::netlink::{Handle, Nest, QdiscRequest, Verb};
use crate::port::{INDEX, Port};
use weft_ktap::{Context, tests};

tests![
    every_option_is_accepted_at_its_bounds_and_shown_again,
    a_rate_is_required,
    omitted_options_are_zero,
    a_change_keeps_the_options_that_it_omits,
    values_out_of_range_are_refused,
    more_in_flight_than_the_largest_limit_needs_a_limit,
    malformed_options_are_refused,
    an_option_given_twice_is_refused,
];

const WIRE: Kind = Kind::of::<Config>(QDISC);

fn payload(options: &Options) -> Vec<u8> {
    Nest::of(|nest| options.put(nest))
}

fn good() -> Vec<u8> {
    payload(&Options {
        rate: Some(1_250_000),
        ..Options::default()
    })
}

fn every_option_is_accepted_at_its_bounds_and_shown_again(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    for rate in [MIN_RATE, 1_250_000, MAX_RATE] {
        for delay in [0, 1, MAX_DELAY] {
            for overhead in [0, 24, MAX_OVERHEAD] {
                for mpu in [0, 84, MAX_MPU] {
                    for slack in [0, 60_000, MAX_SLACK] {
                        // Without a limit where that is allowed.
                        let long = rate == MAX_RATE && (delay == MAX_DELAY || slack == MAX_SLACK);
                        let limit = if long { MAX_LIMIT } else { 0 };
                        let options = Options {
                            rate: Some(rate),
                            delay: Some(delay),
                            overhead: Some(overhead),
                            mpu: Some(mpu),
                            slack: Some(slack),
                            limit: Some(limit),
                        };
                        let shown = Config::parse(&WIRE.accepts(&mut port, &payload(&options))?);

                        let said = Config {
                            rate,
                            delay,
                            overhead,
                            mpu,
                            slack,
                            limit,
                        };
                        ensure!(shown == Ok(said), "{said:?} is shown as {shown:?}");
                    }
                }
            }
        }
    }
    Ok(())
}

fn a_rate_is_required(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let why = Why {
        errno: Errno::EINVAL,
        message: "Rate is required, for example rate 10gbit",
        attr: None,
    };
    for bad in [vec![], attribute(attr::DELAY, &[0; 8])] {
        why.check(WIRE.request(&mut port, Verb::Add, &bad))?;
        ensure!(
            WIRE.dumped(&mut port)?.is_none(),
            "a refused add left a qdisc"
        );
    }
    let request = QdiscRequest {
        index: INDEX,
        parent: Handle::ROOT,
        handle: HANDLE,
        kind: KIND,
        options: None,
    };
    why.check(port.netlink.qdisc(Verb::Add, &request))
}

fn omitted_options_are_zero(_: &Context) -> Result<()> {
    let shown = Config::parse(&WIRE.accepts(&mut Port::new()?, &good())?);
    let rate = 1_250_000;
    ensure!(
        shown
            == Ok(Config {
                rate,
                delay: 0,
                overhead: 0,
                mpu: 0,
                slack: 0,
                limit: 0,
            }),
        "{shown:?}"
    );
    Ok(())
}

fn a_change_keeps_the_options_that_it_omits(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let all = Options {
        rate: Some(1000),
        delay: Some(2),
        overhead: Some(3),
        mpu: Some(4),
        slack: Some(5),
        limit: Some(6),
    };
    WIRE.request(&mut port, Verb::Add, &payload(&all))?;
    let rate = 1000;
    let mut config = Config {
        rate,
        delay: 2,
        overhead: 3,
        mpu: 4,
        slack: 5,
        limit: 6,
    };
    let mut change = |options: Options, config: Config| {
        WIRE.request(&mut port, Verb::Change, &payload(&options))?;
        let shown = port.wire(HANDLE)?.0;
        ensure!(
            shown == config,
            "{options:?} gives {shown:?}, not {config:?}"
        );
        anyhow::Ok(())
    };
    change(Options::default(), config)?;
    config.rate = MAX_RATE;
    change(
        Options {
            rate: Some(MAX_RATE),
            ..Options::default()
        },
        config,
    )?;
    config.delay = 0;
    change(
        Options {
            delay: Some(0),
            ..Options::default()
        },
        config,
    )?;
    config.overhead = 0;
    change(
        Options {
            overhead: Some(0),
            ..Options::default()
        },
        config,
    )?;
    config.mpu = 0;
    change(
        Options {
            mpu: Some(0),
            ..Options::default()
        },
        config,
    )?;
    config.slack = 0;
    change(
        Options {
            slack: Some(0),
            ..Options::default()
        },
        config,
    )?;
    config.limit = 0;
    change(
        Options {
            limit: Some(0),
            ..Options::default()
        },
        config,
    )
}

fn values_out_of_range_are_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let mut refuse = |attr, value: &[u8], sentence| {
        let why = Why::of(Errno::ERANGE, sentence, attr);
        WIRE.refuses(&mut port, &good(), &attribute(attr, value), &why)
    };
    for rate in [0, MIN_RATE - 1, MAX_RATE + 1, u64::MAX] {
        let sentence = "Rate must be between 1 kbit/s and 400 Gbit/s";
        refuse(attr::RATE, &rate.to_ne_bytes(), sentence)?;
    }
    for delay in [MAX_DELAY + 1, u64::MAX] {
        refuse(
            attr::DELAY,
            &delay.to_ne_bytes(),
            "Delay must be at most 10 s",
        )?;
    }
    for overhead in [MAX_OVERHEAD + 1, u32::MAX] {
        let sentence = "Overhead must be at most 1000 bytes";
        refuse(attr::OVERHEAD, &overhead.to_ne_bytes(), sentence)?;
    }
    for mpu in [MAX_MPU + 1, u32::MAX] {
        refuse(
            attr::MPU,
            &mpu.to_ne_bytes(),
            "MPU must be at most 2000 bytes",
        )?;
    }
    for slack in [MAX_SLACK + 1, u32::MAX] {
        refuse(
            attr::SLACK,
            &slack.to_ne_bytes(),
            "Slack must be at most 1 s",
        )?;
    }
    for limit in [MAX_LIMIT + 1, u32::MAX] {
        let sentence = "Limit must be at most 4000000000 bytes";
        refuse(attr::LIMIT, &limit.to_ne_bytes(), sentence)?;
    }
    Ok(())
}

fn more_in_flight_than_the_largest_limit_needs_a_limit(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let why = Why {
        errno: Errno::EINVAL,
        message: "More than 4 GB would be in flight: lower rate, delay or slack, or set a limit",
        attr: None,
    };
    let long = Options {
        rate: Some(MAX_RATE),
        delay: Some(MAX_DELAY),
        ..Options::default()
    };
    WIRE.refuses(&mut port, &good(), &payload(&long), &why)?;
    let limited = Options {
        limit: Some(1_000_000),
        ..long
    };
    WIRE.accepts(&mut port, &payload(&limited)).map(drop)
}

fn malformed_options_are_refused(_: &Context) -> Result<()> {
    WIRE.refuses_malformed(&mut Port::new()?, &good())
}

fn an_option_given_twice_is_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    for (attr, size) in WIRE.attributes() {
        let mut value = vec![0; size];
        value[1] = 1;
        let bad = [attribute(attr, &value), attribute(attr, &value)].concat();
        let why = Why::of(Errno::EINVAL, "Attribute given twice", attr);
        WIRE.refuses(&mut port, &good(), &bad, &why)?;
    }
    Ok(())
}
