// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP through `wire` and `pfabric`: whatever they drop and reorder, the data arrives.

use anyhow::{Result, ensure};
use weft_mechanisms::pfabric::options as pfabric;
use weft_mechanisms::wire::options as wire;

use crate::netlink::{Handle, Nest, Netlink, QdiscRequest, Verb};
use crate::port::{FAR_IP, INDEX, NEAR_IP, Port, limit, rate};
use crate::random::Random;
use crate::transfer::{Connection, Plan, Transfer};
use weft_ktap::{Context, tests};

tests![
    tcp_in_both_directions_is_intact,
    many_flows_of_random_ranks_are_intact,
    flows_are_intact_while_options_change,
];

const WIRE: Handle = Handle::new(1, 0);
const PFABRIC: Handle = Handle::new(2, 0);

/// Puts `wire` and `pfabric` at both ends.
fn both_ends(port: &mut Port, wire: &wire::Options, pfabric: &pfabric::Options) -> Result<()> {
    port.add_wire_and_pfabric(wire, pfabric)?;
    let mut add = |kind, parent, handle, options| {
        let request = QdiscRequest {
            index: INDEX,
            parent,
            handle,
            kind,
            options: Some(options),
        };
        port.far_netlink.qdisc(Verb::Add, &request)
    };
    add(
        wire::KIND,
        Handle::ROOT,
        WIRE,
        Nest::of(|nest| wire.put(nest)),
    )?;
    add(
        pfabric::KIND,
        Handle::new(1, 1),
        PFABRIC,
        Nest::of(|nest| pfabric.put(nest)),
    )
}

fn wire_10mbit() -> wire::Options {
    wire::Options {
        delay: Some(1_000_000),
        ..rate(10_000_000)
    }
}

/// Checks that the near end's queue dropped something and that both are empty.
fn ensure_drops_and_nothing_left(cx: &Context, port: &mut Port) -> Result<()> {
    port.drain(std::time::Duration::from_secs(10))?;
    let (_, stats) = port.pfabric(PFABRIC)?;
    cx.note(format!(
        "{} sent, {} evicted, {} rejected, {} overtaken",
        port.find(PFABRIC)?.sent_packets,
        stats.evicted,
        stats.rejected,
        stats.overtaken
    ));
    ensure!(
        stats.evicted + stats.rejected > 0,
        "nothing was dropped: {stats:?}"
    );
    Ok(())
}

/// Twelve flows: TCP's small queues keep a few within any limit.
const FLOWS: u16 = 12;

fn tcp_in_both_directions_is_intact(cx: &Context) -> Result<()> {
    const BYTES: usize = 200_000;
    let mut port = Port::new()?;
    both_ends(&mut port, &wire_10mbit(), &limit(8))?;
    let mut connections = Vec::new();
    for number in 0..FLOWS {
        let there = Plan::new((FAR_IP, 1000 + number), BYTES);
        connections.push(Connection::open(&port.near, &port.far, &there)?);
        let back = Plan::new((NEAR_IP, 2000 + number), BYTES);
        connections.push(Connection::open(&port.far, &port.near, &back)?);
    }
    let flows: Vec<Transfer> = connections.into_iter().map(Connection::start).collect();
    flows
        .into_iter()
        .try_for_each(|flow| flow.finish().map(drop))?;
    ensure_drops_and_nothing_left(cx, &mut port)
}

fn many_flows_of_random_ranks_are_intact(cx: &Context) -> Result<()> {
    for starvation_prevention in [true, false] {
        let mut port = Port::new()?;
        let starvation_prevention = Some(starvation_prevention);
        let options = pfabric::Options {
            starvation_prevention,
            ..limit(8)
        };
        both_ends(&mut port, &wire_10mbit(), &options)?;
        let connect = |number: u16| {
            let plan = Plan {
                ranks: 100,
                ..Plan::new((FAR_IP, 1000 + number), 200_000)
            };
            Connection::open(&port.near, &port.far, &plan)
        };
        let connections: Vec<Connection> = (0..FLOWS).map(connect).collect::<Result<_>>()?;
        let flows: Vec<Transfer> = connections.into_iter().map(Connection::start).collect();
        flows
            .into_iter()
            .try_for_each(|flow| flow.finish().map(drop))?;
        ensure_drops_and_nothing_left(cx, &mut port)?;
    }
    Ok(())
}

fn flows_are_intact_while_options_change(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    both_ends(&mut port, &wire_10mbit(), &limit(24))?;
    let plan = Plan {
        ranks: 10,
        ..Plan::new((FAR_IP, 1000), 3_000_000)
    };
    let flow = Connection::open(&port.near, &port.far, &plan)?.start();
    let mut random = Random::new(7);
    let mut netlink = Netlink::open(&port.near)?;
    let mut change = |kind, parent, handle, options| {
        let request = QdiscRequest {
            index: INDEX,
            parent,
            handle,
            kind,
            options: Some(options),
        };
        netlink.qdisc(Verb::Change, &request)
    };
    for _ in 0..100 {
        std::thread::sleep(std::time::Duration::from_millis(15));
        let pfabric = pfabric::Options {
            // Few are inside if the sender is slow.
            limit: Some(random.choose(&[1, 2, 5, 20, 40])),
            limit_bytes: random.choose(&[None, Some(0), Some(30_000)]),
            starvation_prevention: random.choose(&[None, Some(false), Some(true)]),
        };
        let payload = Nest::of(|nest| pfabric.put(nest));
        change(pfabric::KIND, Handle::new(1, 1), PFABRIC, payload)?;
        let wire = wire::Options {
            delay: Some(u64::from(random.below(3_000_000))),
            slack: Some(random.choose(&[0, 1_000, 100_000, 1_000_000])),
            ..rate(u64::from(random.between(5_000_000, 20_000_000)))
        };
        change(
            wire::KIND,
            Handle::ROOT,
            WIRE,
            Nest::of(|nest| wire.put(nest)),
        )?;
    }
    let took = flow.finish()?;
    cx.note(format!("3 MB and 200 changes in {took:?}"));
    ensure_drops_and_nothing_left(cx, &mut port)
}
