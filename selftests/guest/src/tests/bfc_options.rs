// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options of `bfc`: accepted, refused in words, shown again.

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use weft_ktap::{Context, tests};
use weft_mechanisms::bfc::options::{
    Assign, Config, DEFAULT_ALPHA, DEFAULT_BUFFER, DEFAULT_HOLD, Devices, Options, Pushback,
    STICKY_AUTO, Scheduler, attr,
};
use weft_mechanisms::bfc::{KIND, QDISC};
use weft_mechanisms::common::options::Configuration as _;

use super::options::{HANDLE, Kind, Why, attribute};
use crate::netlink::{Handle, Nest, QdiscRequest, Verb};
use crate::port::{INDEX, Port, threshold};

tests![
    every_option_is_accepted_at_its_bounds_and_shown_again,
    omitted_options_have_their_defaults,
    a_change_keeps_the_options_that_it_omits,
    fixed_options_cannot_be_changed,
    values_out_of_range_are_refused,
    options_that_exclude_each_other_are_refused,
    malformed_options_are_refused,
    an_option_given_twice_is_refused,
    the_queues_of_a_device_are_at_most_1023,
    shown_options_are_accepted_even_after_an_elided_device_is_gone,
];

const BFC: Kind = Kind::of::<Config>(QDISC);

fn payload(options: &Options) -> Vec<u8> {
    Nest::of(|nest| options.put(nest))
}

fn devices(indices: impl IntoIterator<Item = u32>) -> Option<Devices> {
    let mut devices = Devices::NONE;
    indices
        .into_iter()
        .all(|index| devices.push(index))
        .then_some(devices)
}

fn good() -> Options {
    Options {
        queues: Some(40),
        factor: Some(7),
        rate: Some(1_250_000),
        hrtt: Some(2_000_000),
        elide: devices([1, 5]),
        ..Options::default()
    }
}

fn every_option_is_accepted_at_its_bounds_and_shown_again(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let with = |options: Options| Options {
        queues: options.queues.or(Some(20)),
        th: options.th.or(Some(1)),
        ..options
    };
    let of = Options::default;
    for options in [
        Options {
            queues: Some(2),
            ..of()
        },
        Options {
            queues: Some(1024),
            ..of()
        },
        Options {
            factor: Some(1),
            ..of()
        },
        Options {
            factor: Some(1000),
            ..of()
        },
        Options {
            assign: Some(Assign::Stochastic),
            ..of()
        },
        Options {
            assign: Some(Assign::Single),
            ..of()
        },
        Options {
            scheduler: Some(Scheduler::Srf),
            ..of()
        },
        Options {
            classes: Some(8),
            ..of()
        },
        Options {
            classes: Some(8),
            incast: Some(u32::MAX),
            ..of()
        },
        Options {
            incast: Some(0),
            ..of()
        },
        Options {
            sample: Some(1),
            ..of()
        },
        Options {
            rate: Some(125),
            hrtt: Some(1),
            th: Some(0),
            ..of()
        },
        Options {
            rate: Some(50_000_000_000),
            hrtt: Some(10_000_000_000),
            th: Some(0),
            ..of()
        },
        Options {
            th: Some(u32::MAX),
            ..of()
        },
        Options {
            sticky: Some(0),
            ..of()
        },
        Options {
            sticky: Some(10_000_000_000),
            ..of()
        },
        Options {
            limit: Some(u32::MAX),
            buffer: Some(0),
            ..of()
        },
        Options {
            limit: Some(1),
            buffer: Some(u32::MAX),
            ..of()
        },
        Options {
            refresh: Some(10_000),
            ..of()
        },
        Options {
            refresh: Some(10_000_000_000),
            ..of()
        },
        Options {
            quantum: Some(1 << 20),
            ..of()
        },
        Options {
            elide: devices(1..=64),
            ..of()
        },
        Options {
            alpha: Some(1),
            hold: Some(10_000),
            watchdog: Some(0),
            ..of()
        },
        Options {
            alpha: Some(16_384),
            hold: Some(60_000_000_000),
            watchdog: Some(60_000_000_000),
            ..of()
        },
        Options {
            alpha: Some(0),
            ..of()
        },
        Options {
            pushback: Some(Pushback::Backlogged),
            scale: Some(1),
            control: Some(0),
            ..of()
        },
        Options {
            scale: Some(10_000),
            control: Some(u32::MAX),
            incast: Some(0),
            ..of()
        },
        // All of the largest: 131,072 entries of the flow table.
        Options {
            queues: Some(1024),
            factor: Some(128),
            scheduler: Some(Scheduler::Srf),
            ..of()
        },
    ] {
        BFC.accepts(&mut port, &payload(&with(options)))?;
    }
    Ok(())
}

fn omitted_options_have_their_defaults(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let least = Options {
        rate: Some(12_500_000_000),
        hrtt: Some(2_000),
        ..Options::default()
    };
    let default = Config {
        queues: 32,
        factor: 100,
        assign: Assign::Dynamic,
        scheduler: Scheduler::Fq,
        classes: 1,
        incast: None,
        sample: 100,
        rate: 12_500_000_000,
        hrtt: 2_000,
        th: 0,
        sticky: STICKY_AUTO,
        limit: 0,
        buffer: DEFAULT_BUFFER,
        refresh: 20_000,
        quantum: 0,
        elide: Devices::NONE,
        alpha: DEFAULT_ALPHA,
        hold: DEFAULT_HOLD,
        watchdog: 0,
        pushback: Pushback::All,
        scale: 100,
        control: None,
    };
    let shown = Config::parse(&BFC.accepts(&mut port, &payload(&least))?);
    ensure!(shown == Ok(default), "{shown:?}");
    // A threshold cannot be guessed.
    let request = QdiscRequest {
        index: INDEX,
        parent: Handle::ROOT,
        handle: HANDLE,
        kind: KIND,
        options: None,
    };
    let why = Why {
        errno: Errno::EINVAL,
        message: "A threshold is required: rate and hrtt, or th",
        attr: None,
    };
    why.check(port.netlink.qdisc(Verb::Add, &request))
}

fn a_change_keeps_the_options_that_it_omits(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    BFC.request(&mut port, Verb::Add, &payload(&good()))?;
    let of = Options::default;
    for options in [
        of(),
        Options {
            sample: Some(50),
            ..of()
        },
        Options {
            rate: Some(125_000),
            ..of()
        },
        Options {
            hrtt: Some(5),
            ..of()
        },
        Options {
            th: Some(9_000),
            ..of()
        },
        Options {
            sticky: Some(3),
            ..of()
        },
        Options {
            limit: Some(10),
            ..of()
        },
        Options {
            buffer: Some(0),
            ..of()
        },
        Options {
            refresh: Some(50_000),
            ..of()
        },
        Options {
            quantum: Some(3),
            ..of()
        },
        Options {
            elide: devices([]),
            ..of()
        },
        Options {
            alpha: Some(0),
            ..of()
        },
        Options {
            hold: Some(30_000),
            ..of()
        },
        Options {
            watchdog: Some(9),
            ..of()
        },
        Options {
            pushback: Some(Pushback::Backlogged),
            ..of()
        },
        Options {
            scale: Some(150),
            ..of()
        },
        // What is fixed may be said again.
        good(),
    ] {
        let before = BFC.dumped(&mut port)?.unwrap_or_default();
        let expected = (BFC.expect)(Some(&before), &payload(&options));
        let expected = expected.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
        BFC.request(&mut port, Verb::Change, &payload(&options))?;
        let after = BFC.dumped(&mut port)?.unwrap_or_default();
        ensure!(after == expected, "{options:?} gives {after:02x?}");
    }
    Ok(())
}

fn fixed_options_cannot_be_changed(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let why = Why {
        errno: Errno::EINVAL,
        message: "Queues, factor, assign, scheduler, classes, incast and control cannot be \
                  changed",
        attr: None,
    };
    let of = Options::default;
    BFC.request(&mut port, Verb::Add, &payload(&good()))?;
    for options in [
        Options {
            queues: Some(41),
            ..of()
        },
        Options {
            factor: Some(8),
            ..of()
        },
        Options {
            assign: Some(Assign::Single),
            ..of()
        },
        Options {
            scheduler: Some(Scheduler::Srf),
            ..of()
        },
        Options {
            classes: Some(2),
            ..of()
        },
        Options {
            incast: Some(0),
            ..of()
        },
        Options {
            control: Some(0),
            ..of()
        },
    ] {
        why.check(BFC.request(&mut port, Verb::Change, &payload(&options)))?;
    }
    Ok(())
}

fn values_out_of_range_are_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let good = payload(&good());
    let mut refuses = |attr, value: &[u8], sentence| {
        let why = Why::of(Errno::ERANGE, sentence, attr);
        BFC.refuses(&mut port, &good, &attribute(attr, value), &why)
    };
    let u32s = u32::to_ne_bytes;
    let u64s = u64::to_ne_bytes;
    for queues in [0, 1, 1025, u32::MAX] {
        refuses(
            attr::QUEUES,
            &u32s(queues),
            "Queues must be between 2 and 1024",
        )?;
    }
    for factor in [0, 1001] {
        refuses(
            attr::FACTOR,
            &u32s(factor),
            "Factor must be between 1 and 1000",
        )?;
    }
    refuses(attr::ASSIGN, &[3], "Assignment must be 0, 1 or 2")?;
    refuses(attr::SCHEDULER, &[2], "Scheduler must be 0 or 1")?;
    refuses(attr::PUSHBACK, &[2], "Pushback must be 0 or 1")?;
    for scale in [0, 10_001, u32::MAX] {
        let sentence = "Scale must be between 1 and 10000 percent";
        refuses(attr::SCALE, &u32s(scale), sentence)?;
    }
    for classes in [0, 9] {
        refuses(attr::CLASSES, &[classes], "Classes must be between 1 and 8")?;
    }
    for sample in [0, 101] {
        let sentence = "Sample must be between 1 and 100 percent";
        refuses(attr::SAMPLE, &[sample], sentence)?;
    }
    for rate in [1, 124, 50_000_000_001] {
        let sentence = "Rate must be between 1 kbit/s and 400 Gbit/s";
        refuses(attr::RATE, &u64s(rate), sentence)?;
    }
    refuses(
        attr::HRTT,
        &u64s(10_000_000_001),
        "HRTT must be at most 10 s",
    )?;
    let sticky = u64s(10_000_000_001);
    refuses(attr::STICKY, &sticky, "Sticky time must be at most 10 s")?;
    for refresh in [0, 9_999, 10_000_000_001] {
        let sentence = "Refresh must be between 10 us and 10 s";
        refuses(attr::REFRESH, &u64s(refresh), sentence)?;
    }
    let quantum = u32s((1 << 20) + 1);
    refuses(
        attr::QUANTUM,
        &quantum,
        "Quantum must be at most 1048576 bytes",
    )?;
    let alpha = u32s(16_385);
    let sentence = "Alpha must be between 1/128 and 128, or off";
    refuses(attr::ALPHA, &alpha, sentence)?;
    for hold in [0, 9_999, 60_000_000_001] {
        let sentence = "Hold must be between 10 us and 60 s";
        refuses(attr::HOLD, &u64s(hold), sentence)?;
    }
    let watchdog = u64s(60_000_000_001);
    refuses(attr::WATCHDOG, &watchdog, "Watchdog must be at most 60 s")?;
    refuses(attr::ELIDE, &[1; 260], "At most 64 devices can be elided")?;
    refuses(attr::ELIDE, &[0; 4], "A device's index must not be 0")
}

fn options_that_exclude_each_other_are_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let refuses = |port: &mut Port, options: Options, message| {
        let why = Why {
            errno: Errno::EINVAL,
            message,
            attr: None,
        };
        why.check(BFC.request(port, Verb::Add, &payload(&options)))?;
        ensure!(BFC.dumped(port)?.is_none());
        anyhow::Ok(())
    };
    let srf = Options {
        scheduler: Some(Scheduler::Srf),
        ..threshold(1)
    };
    let sentence = "srf takes the rank for a size: it has one class and no incast label";
    for options in [
        Options {
            classes: Some(2),
            ..srf
        },
        Options {
            incast: Some(2),
            ..srf
        },
    ] {
        refuses(&mut port, options, sentence)?;
    }
    let both = Options {
        control: Some(3),
        incast: Some(3),
        ..threshold(1)
    };
    let sentence = "The ranks of control packets and of incasts must differ";
    refuses(&mut port, both, sentence)?;
    let sentence = "Each class needs a queue, or two if there is an incast label";
    for (queues, classes, incast) in [(2, 2, None), (8, 8, None), (2, 1, Some(0)), (9, 5, Some(0))]
    {
        let options = Options {
            queues: Some(queues),
            classes: Some(classes),
            incast,
            ..threshold(1)
        };
        refuses(&mut port, options, sentence)?;
    }
    let sentence = "Queues times factor must be at most 131072";
    for (queues, factor) in [(1024, 129), (1024, 1000), (132, 1000)] {
        let options = Options {
            queues: Some(queues),
            factor: Some(factor),
            ..threshold(1)
        };
        refuses(&mut port, options, sentence)?;
    }
    Ok(())
}

fn malformed_options_are_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    BFC.refuses_malformed(&mut port, &payload(&threshold(1)))?;
    for size in [1, 2, 3, 5, 7] {
        let bad = attribute(attr::ELIDE, &vec![1; size]);
        let why = Why::of(Errno::EINVAL, "Attribute has the wrong size", attr::ELIDE);
        BFC.refuses(&mut port, &payload(&good()), &bad, &why)?;
    }
    Ok(())
}

fn an_option_given_twice_is_refused(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    for (attr, size) in BFC.attributes().chain([(attr::ELIDE, 4)]) {
        let mut value = vec![0; size];
        // In range, where it has one.
        value[0] = if attr == attr::RATE { 200 } else { 1 };
        let is_time = attr == attr::REFRESH || attr == attr::HOLD;
        if is_time || attr == attr::QUEUES {
            value[1] = 1;
            value[2] = u8::from(is_time);
        }
        let bad = [attribute(attr, &value), attribute(attr, &value)].concat();
        let why = Why::of(Errno::EINVAL, "Attribute given twice", attr);
        BFC.refuses(&mut port, &payload(&good()), &bad, &why)?;
    }
    Ok(())
}

fn the_queues_of_a_device_are_at_most_1023(_: &Context) -> Result<()> {
    let port = Port::new()?;
    port.tc("qdisc add dev {v} root handle 1: prio bands 3")?;
    port.tc("qdisc add dev {v} parent 1:1 handle 10: bfc th 1kb queues 1000")?;
    port.tc("qdisc add dev {v} parent 1:2 handle 20: bfc th 1kb queues 25")?;
    // 999 and 24 data queues are all there are.
    let words = "qdisc add dev {v} parent 1:3 handle 30: bfc th 1kb queues 2";
    let output = port.try_tc(words)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let sentence = "Error: The bfc queues of a device are at most 1023 in all.";
    ensure!(stderr.contains(sentence), "{stderr}");
    port.tc("qdisc del dev {v} parent 1:2")?;
    port.tc(words).map(drop)
}

fn shown_options_are_accepted_even_after_an_elided_device_is_gone(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    port.tc("qdisc add dev {v} root handle 1: bfc th 1kb elide {v} alpha 1/2 watchdog 3s")?;
    // Such as a device that there was.
    let options = Options {
        elide: devices([INDEX, 4_000]),
        ..Options::default()
    };
    BFC.request(&mut port, Verb::Change, &payload(&options))?;
    let before = BFC.dumped(&mut port)?;
    let shown = port.tc("qdisc show dev {v}")?;
    let (_, shown) = shown.split_once(" bfc ").context(shown.clone())?;
    let (_, said) = shown.split_once(" th ").context(shown.to_owned())?;
    ensure!(said.contains(" elide if4000 "), "{said}");
    port.tc("qdisc del dev {v} root")?;
    port.tc(&format!("qdisc add dev {{v}} root handle 1: bfc th {said}"))?;
    ensure!(BFC.dumped(&mut port)? == before);
    Ok(())
}
