// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests at random, of every kind of qdisc: adds, changes and replaces, right, nearly right and
//! wrong. Each is judged as the parser judges it, which here runs outside of the kernel; what is
//! shown after each is what was set.
//!
//! Each time that a test runs it draws other requests: `--repeat` makes it as many as one likes.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_mechanisms::common::nla::{Attributes, Sink as _};

use super::options::{Kind, Why};
use crate::netlink::{Handle, Nest, Verb};
use crate::port::{INDEX, Port};
use crate::random::Random;

macro_rules! a_test_of_each {
    ($($mechanism:ident),*) => {
        tests![$($mechanism),*];
        $(
            fn $mechanism(cx: &Context) -> Result<()> {
                use weft_mechanisms::$mechanism::{QDISC, options::Config};
                requests(cx, &Kind::of::<Config>(QDISC))
            }
        )*
    };
}
weft_mechanisms::for_qdiscs!(a_test_of_each);

const REQUESTS: u32 = 2000;

fn requests(cx: &Context, kind: &Kind) -> Result<()> {
    /// Each time is another one.
    static TIMES: AtomicU64 = AtomicU64::new(0x5eed);
    let mut random = Random::new(TIMES.fetch_add(1, Ordering::Relaxed));
    let mut port = Port::new()?;
    let good = port.options_of(&kind.qdisc)?;
    let attributes: Vec<_> = kind.attributes().collect();
    let mut held = None;
    let mut accepted = 0;
    for number in 0..REQUESTS {
        if random.one_in(4) && held.take().is_some() {
            port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
        }
        if random.one_in(4) && held.is_none() {
            held = Some(kind.adds(&mut port, &good)?);
        }
        let base = held.as_deref().unwrap_or(&good);
        let payload = payload(&mut random, &attributes, base);
        let verb = match (&held, random.one_in(3)) {
            (_, true) => Verb::Replace,
            (Some(_), _) => Verb::Change,
            (None, _) => Verb::Add,
        };
        let result = kind.request(&mut port, verb, &payload);
        let shown = kind.dumped(&mut port)?;
        let judged = (kind.expect)(held.as_deref(), &payload);
        let context = || {
            let mut was = String::new();
            if let Some(held) = &held {
                was = format!(" of {held:02x?}");
            }
            format!("request {number}, {verb:?}{was} with {payload:02x?}")
        };
        // The kernel's own check of the nest comes before the module's.
        let too_short = (1..4).contains(&payload.len());
        match judged {
            _ if too_short => ensure!(result.is_err(), "{} was accepted", context()),
            Err(refusal) => Why::from(&refusal).check(result).with_context(context)?,
            Ok(config) => {
                result.with_context(context)?;
                held = Some(config);
                accepted += 1;
            }
        }
        ensure!(
            shown == held,
            "request {number} left {shown:02x?}, not {held:02x?}"
        );
    }
    cx.note(format!("{accepted} of {REQUESTS} requests accepted"));
    ensure!(
        accepted > REQUESTS / 20,
        "the fuzzer seldom says anything right"
    );
    Ok(())
}

/// The payload of a request that is often nearly right, for a qdisc that has these attributes and
/// receives `base`.
fn payload(random: &mut Random, attributes: &[(u16, usize)], base: &[u8]) -> Vec<u8> {
    if random.one_in(6) {
        let len = random.below(64);
        return (0..len).map(|_| random.next() as u8).collect();
    }
    let mut nest = Nest::default();
    if random.one_in(2) {
        some_of(random, base, &mut nest);
    }
    for _ in 0..random.below(4) {
        let (mut attr, mut size) = random.choose(attributes);
        if random.one_in(12) {
            attr = random.below(20) as u16;
        }
        if random.one_in(12) {
            size = random.below(12) as usize;
        }
        if random.one_in(12) {
            // NLA_F_NESTED or NLA_F_NET_BYTEORDER, which mean nothing here.
            attr |= random.choose(&[0x4000, 0x8000]);
        }
        // Small values are the likely ones, and those near powers of two.
        let value = random.next() >> random.below(64);
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.resize(size, 0);
        nest.put(attr, &bytes).expect("a vector has room");
    }
    let mut bytes = nest.0;
    if random.one_in(8) && !bytes.is_empty() {
        let at = random.below(bytes.len() as u32) as usize;
        bytes[at] = random.next() as u8;
    }
    if random.one_in(12) {
        bytes.truncate(random.below(bytes.len() as u32 + 1) as usize);
    }
    bytes
}

/// Some attributes of a request, a few of them with a value that is one more or less.
fn some_of(random: &mut Random, request: &[u8], nest: &mut Nest) {
    // Mostly all but a few: what makes a qdisc may need many of them.
    let kept = random.choose(&[1, 7, 15]);
    for attribute in Attributes::new(request) {
        let (attr, value) = attribute.expect("what the kernel showed, or took");
        if random.one_in(kept + 1) {
            continue;
        }
        let mut value = value.to_vec();
        if random.one_in(8)
            && let Some(first) = value.first_mut()
        {
            *first = if random.one_in(2) {
                first.wrapping_add(1)
            } else {
                first.wrapping_sub(1)
            };
        }
        nest.put(attr, &value).expect("a vector has room");
    }
}
