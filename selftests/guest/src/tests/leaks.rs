// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thousand times the same leaves no more than once.

use anyhow::{Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use weft_mechanisms::bfc::options as bfc;
use weft_mechanisms::common::nla::Sink as _;
use weft_mechanisms::common::tag::Tag;
use weft_mechanisms::expresspass;
use weft_mechanisms::fastpass::options as fastpass;
use weft_mechanisms::pfabric::options::MAX_LIMIT;
use weft_mechanisms::resend;
use weft_mechanisms::wire::options::Options;

use crate::meter::Memory;
use crate::model::Packet;
use crate::netlink::{Handle, Nest, Verb};
use crate::network::Network;
use crate::packets::{MIN_FRAME, Sender};
use crate::pause::{Neighbour, bitmap};
use crate::port::{INDEX, Port, limit, rate, threshold};
use crate::random::Random;
use weft_ktap::{Context, tests};

tests![
    the_meter_sees_one_object_per_cycle,
    pfabric_added_and_deleted,
    wire_added_and_deleted,
    bfc_added_and_deleted,
    bfc_deleted_while_it_pauses_and_is_paused,
    namespaces_with_bfc_made_and_deleted,
    wire_and_pfabric_deleted_with_packets_queued_and_in_flight,
    fastpass_deleted_with_packets_waiting,
    resend_deleted_with_copies,
    expresspass_deleted_with_packets_waiting,
    packets_evicted_rejected_and_delivered,
    pfabric_changed_with_a_backlog,
    refused_requests,
    the_largest_pfabric_added_changed_and_deleted,
];

const CYCLES: u32 = 1000;
/// The first ones fill caches.
const WARM_UP: u32 = 50;

/// Runs `cycle` many times and checks that memory has not grown with each.
fn repeat(cx: &Context, cycles: u32, mut cycle: impl FnMut(u32) -> Result<()>) -> Result<()> {
    (0..WARM_UP).try_for_each(&mut cycle)?;
    let before = Memory::measure()?;
    (0..cycles).try_for_each(&mut cycle)?;
    let growth = Memory::measure()?.since(&before);
    cx.note(format!("{cycles} cycles: {growth}"));
    growth.ensure_less_than_one_per(cycles.into())
}

fn the_meter_sees_one_object_per_cycle(cx: &Context) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(
        Resource::RLIMIT_NOFILE,
        u64::from(2 * CYCLES).max(hard),
        u64::from(2 * CYCLES).max(hard),
    )?;
    let before = Memory::measure()?;
    let kept: Result<Vec<_>, _> = (0..CYCLES)
        .map(|_| nix::sys::eventfd::EventFd::new())
        .collect();
    let growth = Memory::measure()?.since(&before);
    let result = growth.ensure_less_than_one_per(CYCLES.into());
    drop(kept?);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?;
    cx.note(format!("{CYCLES} event descriptors: {growth}"));
    ensure!(result.is_err(), "{CYCLES} objects went unnoticed: {growth}");
    Ok(())
}

fn pfabric_added_and_deleted(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    repeat(cx, CYCLES, |_| {
        port.add_pfabric(Handle::ROOT, Handle::new(1, 0), &limit(24))?;
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })
}

fn wire_added_and_deleted(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    repeat(cx, CYCLES, |_| {
        port.add_wire(Handle::ROOT, Handle::new(1, 0), &rate(10_000_000))?;
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })
}

/// A packet of random rank, flow and length.
fn random_packet(random: &mut Random) -> Packet {
    Packet {
        id: 0,
        rank: random.below(100),
        flow: random.below(20),
        len: random.between(MIN_FRAME, 1514),
    }
}

/// So that about half of a burst is on the wire and the rest waits behind it.
fn long_wire() -> Options {
    Options {
        delay: Some(1_000_000_000),
        ..rate(200_000_000)
    }
}

fn bfc_added_and_deleted(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    repeat(cx, CYCLES, |cycle| {
        let options = bfc::Options {
            queues: Some(2 + cycle % 64),
            scheduler: Some([bfc::Scheduler::Fq, bfc::Scheduler::Srf][cycle as usize % 2]),
            ..threshold(1000)
        };
        port.add_bfc(Handle::ROOT, Handle::new(1, 0), &options)?;
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })
}

/// Packets that came by one port wait at another one, above the threshold, and are purged.
fn bfc_deleted_while_it_pauses_and_is_paused(cx: &Context) -> Result<()> {
    const SWITCH: usize = 0;
    let mut network = Network::new(3)?;
    network.forward(SWITCH)?;
    let links = [network.link(1, SWITCH)?, network.link(2, SWITCH)?];
    let to = links[0].destination(1, [10, 9, 0, 2]);
    network.route(SWITCH, &links[1], to.ip)?;
    let mut sender = network.sender(1, &links[0])?;
    let mut receiver = Neighbour::new(network.namespace(2)?, links[1].index, links[1].address(2))?;
    let tag = Some(Tag {
        rank: 0,
        upstream_queue: 9,
    });
    let mut paused = 0;
    repeat(cx, CYCLES, |cycle| {
        for link in &links {
            network.port(SWITCH, link, &rate(10_000_000), &threshold(1000))?;
        }
        receiver.say(bitmap(1..32))?;
        for flow in 0..8 {
            let packet = Packet {
                flow: flow % 2,
                ..random_packet(&mut Random::new(u64::from(flow)))
            };
            sender.send_to(&packet, &to, tag)?;
        }
        if cycle % 50 == 0 {
            let (here, there) = (
                network.bfc(SWITCH, &links[0])?,
                network.bfc(SWITCH, &links[1])?,
            );
            paused += u32::from(here.pausing == 1 && there.paused == 31);
        }
        // By turns the one that pauses first, and the one that is paused.
        for link in [cycle as usize % 2, 1 - cycle as usize % 2] {
            let netlink = network.netlink(SWITCH)?;
            netlink.delete_qdisc(links[link].index, Handle::ROOT)?;
        }
        Ok(())
    })?;
    ensure!(paused >= CYCLES / 50, "{paused} times paused");
    Ok(())
}

fn namespaces_with_bfc_made_and_deleted(cx: &Context) -> Result<()> {
    const CYCLES: u32 = 200;
    let cycle = || -> Result<()> {
        let mut port = Port::new()?;
        port.add_wire_and_bfc(&rate(10_000_000), &threshold(1000))?;
        let mut sender = port.sender()?;
        for _ in 0..8 {
            sender.send(&random_packet(&mut Random::new(1)))?;
        }
        Ok(())
    };
    (0..WARM_UP).try_for_each(|_| cycle())?;
    let before = Memory::measure()?;
    (0..CYCLES).try_for_each(|_| cycle())?;
    let growth = Memory::measure()?.since(&before);
    cx.note(format!("{CYCLES} cycles: {growth}"));
    growth.ensure_less_than_one_object_per(CYCLES.into())
}

fn wire_and_pfabric_deleted_with_packets_queued_and_in_flight(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let mut sender = port.sender()?;
    let mut random = Random::new(1);
    let (mut queued, mut flying) = (0, 0);
    repeat(cx, CYCLES, |cycle| {
        port.add_wire_and_pfabric(&long_wire(), &limit(8))?;
        for _ in 0..16 {
            sender.send(&random_packet(&mut random))?;
        }
        if cycle % 50 == 0 {
            queued += port.find(Handle::new(2, 0))?.qlen;
            flying += port.wire(Handle::new(1, 0))?.1.in_flight;
        }
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })?;
    ensure!(
        queued > 0 && flying > 0,
        "{queued} packets were queued, {flying} in flight"
    );
    Ok(())
}

fn fastpass_deleted_with_packets_waiting(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let mut sender = port.sender()?;
    let mut random = Random::new(3);
    // The packets' destination is the other endpoint; there is no arbiter.
    let own = u32::from_be_bytes([10, 0, 0, 98]);
    let options = fastpass::Options {
        address: Some(own),
        first: Some(own),
        hosts: Some(2),
        arbiter: Some(own),
        rate: Some(1_250_000),
        ..fastpass::Options::default()
    };
    let options = Nest::of(|nest| options.put(nest));
    let handle = Handle::new(1, 0);
    let mut waiting = 0;
    repeat(cx, CYCLES, |cycle| {
        let kind = weft_mechanisms::fastpass::KIND;
        port.qdisc(Verb::Add, kind, Handle::ROOT, handle, options.clone())?;
        for _ in 0..16 {
            sender.send(&random_packet(&mut random))?;
        }
        if cycle % 50 == 0 {
            waiting += port.find(handle)?.qlen;
        }
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })?;
    ensure!(waiting > 0, "no packet waited");
    Ok(())
}

/// Each cycle keeps, replaces and sends copies, and deletes what is left of them.
fn resend_deleted_with_copies(cx: &Context) -> Result<()> {
    const PACKETS: u32 = 16;
    let mut port = Port::new()?;
    let (near, far) = (
        Sender::open(&port.near, INDEX)?,
        Sender::open(&port.far, INDEX)?,
    );
    let frame = |packet: &[u8]| {
        let mut frame = [2, 0, 0, 0, 0, 0xff, 2, 0, 0, 0, 0, 1, 8, 0].to_vec();
        frame.extend(packet);
        frame
    };
    let segments: Vec<_> = (0..PACKETS).map(super::resend::segment).collect();
    let packets: Vec<_> = segments
        .iter()
        .map(|it| frame(&super::resend::tcp(it)))
        .collect();
    let notices: Vec<_> = segments
        .iter()
        .map(|it| frame(&super::resend::notice_of(it)))
        .collect();
    let handle = Handle::new(1, 0);
    let mut resent = 0;
    repeat(cx, CYCLES, |cycle| {
        let keep = Some(1 + cycle % PACKETS);
        let options = Nest::of(|nest| resend::options::Options { keep }.put(nest));
        port.qdisc(Verb::Add, resend::KIND, Handle::ROOT, handle, options)?;
        for packet in &packets {
            near.send_frame(packet)?;
        }
        for notice in &notices {
            far.send_frame(notice)?;
        }
        if cycle % 50 == 0 {
            let stats = resend::stats::Stats::from_bytes(&port.find(handle)?.app);
            resent += stats.map_or(0, |stats| stats.resent);
        }
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })?;
    ensure!(resent > 0, "no copy was sent");
    Ok(())
}

/// Each cycle leaves packets without credits, and its socket's requests.
fn expresspass_deleted_with_packets_waiting(cx: &Context) -> Result<()> {
    const PACKETS: u32 = 16;
    let mut port = Port::new()?;
    let near = Sender::open(&port.near, INDEX)?;
    let packets: Vec<_> = (0..PACKETS)
        .map(|number| {
            let mut segment = super::resend::segment(number);
            segment.source_port += (number % 4) as u16;
            let mut frame = [2, 0, 0, 0, 0, 0xff, 2, 0, 0, 0, 0, 1, 8, 0].to_vec();
            frame.extend(super::resend::tcp(&segment));
            frame
        })
        .collect();
    let handle = Handle::new(1, 0);
    let mut waiting = 0;
    repeat(cx, CYCLES, |cycle| {
        let options = expresspass::options::Options {
            rate: Some(1_250_000_000),
            flows: Some(1 + cycle % 6),
            ..Default::default()
        };
        let options = Nest::of(|nest| options.put(nest));
        port.qdisc(Verb::Add, expresspass::KIND, Handle::ROOT, handle, options)?;
        for packet in &packets {
            near.send_frame(packet)?;
        }
        if cycle % 50 == 0 {
            let stats = expresspass::stats::Stats::from_bytes(&port.find(handle)?.app);
            waiting += stats.map_or(0, |stats| stats.waiting);
        }
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })?;
    ensure!(waiting > 0, "no packet waited");
    Ok(())
}

fn packets_evicted_rejected_and_delivered(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    port.add_wire_and_pfabric(&rate(100_000_000), &limit(8))?;
    let mut sender = port.sender()?;
    let mut random = Random::new(2);
    repeat(cx, CYCLES, |_| {
        for _ in 0..16 {
            sender.send(&random_packet(&mut random))?;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        Ok(())
    })?;
    let (_, stats) = port.pfabric(Handle::new(2, 0))?;
    ensure!(stats.evicted > 1000 && stats.rejected > 1000, "{stats:?}");
    Ok(())
}

fn pfabric_changed_with_a_backlog(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    port.add_wire_and_pfabric(&rate(1_000_000), &limit(60))?;
    let mut sender = port.sender()?;
    let mut random = Random::new(3);
    repeat(cx, CYCLES, |_| {
        for _ in 0..4 {
            sender.send(&random_packet(&mut random))?;
        }
        let options = Nest::of(|nest| limit(random.between(1, 60)).put(nest));
        port.qdisc(
            Verb::Change,
            "pfabric",
            Handle::new(1, 1),
            Handle::new(2, 0),
            options,
        )
    })
}

/// The type of an attribute that no qdisc has.
const UNKNOWN: u16 = 0x3fff;

fn refused_requests(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    repeat(cx, CYCLES, |_| {
        let pfabric = Nest::of(|nest| limit(0).put(nest));
        let result = port.qdisc(
            Verb::Add,
            "pfabric",
            Handle::ROOT,
            Handle::new(1, 0),
            pfabric,
        );
        ensure!(result.is_err());
        let result = port.qdisc(
            Verb::Add,
            "wire",
            Handle::ROOT,
            Handle::new(1, 0),
            Vec::new(),
        );
        ensure!(result.is_err());
        for qdisc in weft_mechanisms::QDISCS {
            let unknown = Nest::of(|nest| nest.put(UNKNOWN, &[0; 4]));
            let result = port.qdisc(
                Verb::Add,
                qdisc.kind,
                Handle::ROOT,
                Handle::new(1, 0),
                unknown,
            );
            ensure!(result.is_err(), "{}", qdisc.kind);
        }
        Ok(())
    })
}

fn the_largest_pfabric_added_changed_and_deleted(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    // More than twice the 63 pages that a processor's list of free pages takes or gives at a time.
    repeat(cx, 200, |_| {
        port.add_pfabric(Handle::ROOT, Handle::new(1, 0), &limit(MAX_LIMIT))?;
        let options = Nest::of(|nest| limit(MAX_LIMIT / 2).put(nest));
        port.qdisc(
            Verb::Change,
            "pfabric",
            Handle::ROOT,
            Handle::new(1, 0),
            options,
        )?;
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)
    })
}
