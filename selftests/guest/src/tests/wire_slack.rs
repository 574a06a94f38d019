// SPDX-License-Identifier: MIT OR Apache-2.0

//! A `wire` whose timers may be late by a slack: they fire together with others, and what that
//! costs is one slack at the end of the way.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_mechanisms::wire::options::{self as wire, Options};

use super::wire_timing::{
    DISTURBED, FILL, LENS, NS, WIRE, after, change, ensure_in_order, ensure_near, fill, gaps_of,
    judge, packet, stay_awake, time, wire,
};
use crate::clock;
use crate::netlink::{Handle, Nest, Netlink, QdiscRequest, Verb, Veth};
use crate::packets::{Receiver, Sender, frame};
use crate::port::{QUIET, rate};
use weft_ktap::{Context, Namespace, tests};

tests![
    lateness_does_not_add_up_over_wires,
    throughput_is_exact_with_slack,
    timers_of_several_wires_fire_together,
    slack_changes_while_packets_pass,
];

fn slack(ns: u32) -> Options {
    Options {
        slack: Some(ns),
        ..Options::default()
    }
}

/// Namespaces in a row, with a wire from each to the next. Those in between forward.
struct Chain {
    nodes: Vec<(Netlink, Namespace)>,
}

impl Chain {
    const TO_NEXT: u32 = 100;
    const TO_PREVIOUS: u32 = 200;
    /// What crafted packets are sent to.
    const DESTINATION: [u8; 4] = [10, 0, 0, 99];

    /// The hardware address of the end of a link at a node.
    fn mac(node: usize, index: u32) -> [u8; 6] {
        [2, 0, 0, 1, node as u8, index as u8]
    }

    fn new(wires: usize, options: &Options) -> Result<Self> {
        let mut nodes: Vec<(Netlink, Namespace)> = Vec::new();
        for node in 0..=wires {
            let namespace = Namespace::without_ipv6()?;
            let mut netlink = Netlink::open(&namespace)?;
            if let Some((previous, _)) = nodes.last_mut() {
                let end = |name: &str, node, index| Veth {
                    name: name.to_owned(),
                    index,
                    mac: Self::mac(node, index),
                    tx_queues: 1,
                };
                let near = end("next", node - 1, Self::TO_NEXT);
                let far = end("previous", node, Self::TO_PREVIOUS);
                previous.add_veth(&near, &far, &namespace)?;
                previous.set_up(Self::TO_NEXT, true)?;
                netlink.set_up(Self::TO_PREVIOUS, true)?;
            }
            nodes.push((netlink, namespace));
        }
        let destination = Ipv4Addr::from(Self::DESTINATION);
        let routers = nodes.iter_mut().enumerate().take(wires).skip(1);
        for (node, (netlink, namespace)) in routers {
            namespace.write_sysctl("net/ipv4/ip_forward", "1")?;
            namespace.ip(&format!("route add {destination}/32 dev next"))?;
            // The last node's stack is not to see it: it has no such address.
            let next = match node + 1 == wires {
                true => [2, 0, 0, 0, 0, 0xff],
                false => Self::mac(node + 1, Self::TO_PREVIOUS),
            };
            netlink.add_neighbour(Self::TO_NEXT, Self::DESTINATION, next)?;
        }
        let mut chain = Self { nodes };
        chain.request(Verb::Add, options)?;
        std::thread::sleep(QUIET);
        Ok(chain)
    }

    /// Adds or changes every wire.
    fn request(&mut self, verb: Verb, options: &Options) -> Result<()> {
        let wires = self.nodes.len() - 1;
        for (netlink, _) in &mut self.nodes[..wires] {
            let request = QdiscRequest {
                index: Self::TO_NEXT,
                parent: Handle::ROOT,
                handle: WIRE,
                kind: wire::KIND,
                options: Some(Nest::of(|nest| options.put(nest))),
            };
            netlink.qdisc(verb, &request)?;
        }
        Ok(())
    }

    /// The greatest lateness of each wire in ns.
    fn latest(&mut self) -> Result<Vec<u64>> {
        let wires = self.nodes.len() - 1;
        let mut latest = Vec::new();
        for (netlink, _) in &mut self.nodes[..wires] {
            let qdiscs = netlink.qdiscs(Self::TO_NEXT)?;
            let wire = qdiscs.iter().find(|qdisc| qdisc.kind == wire::KIND);
            let stats =
                wire.and_then(|wire| weft_mechanisms::wire::stats::Stats::from_bytes(&wire.app));
            latest.push(stats.context("a node without a wire")?.late_max_ns);
        }
        Ok(latest)
    }

    /// Sends packets one by one, each when all wires are idle. Returns how much later than after
    /// `law` of its length each arrived at the end of the chain, in ns. Waits for as much as if the
    /// slack added up.
    fn lateness(&mut self, law: impl Fn(u64) -> u64, slack: u64) -> Result<Vec<u64>> {
        let (first, last) = (&self.nodes[0].1, &self.nodes[self.nodes.len() - 1].1);
        let receiver = Receiver::open(last)?;
        let sender = Sender::open(first, Self::TO_NEXT)?;
        sender.stamp_departures()?;
        let wires = self.nodes.len() as u64 - 1;
        let mut lateness = Vec::new();
        for (id, len) in (0..).zip(LENS) {
            let mut frame = frame(&packet(id, len));
            frame[..6].copy_from_slice(&Self::mac(1, Self::TO_PREVIOUS));
            sender.send_frame(&frame)?;
            let law = law(len.into());
            stay_awake(after(law + wires * slack));
            let arrival = receiver.expect(1, Duration::ZERO)?[0];
            ensure!(arrival.id == id && arrival.len == len, "{arrival:?}");
            let late = arrival.time.checked_sub(sender.departure()? + law);
            lateness.push(late.with_context(|| format!("{arrival:?} is too early"))?);
        }
        Ok(lateness)
    }
}

fn lateness_does_not_add_up_over_wires(cx: &Context) -> Result<()> {
    const WIRES: usize = 3;
    const RATE: u64 = 10_000_000;
    const DELAY: u64 = 200_000;
    clock::require_exact()?;
    let options = Options {
        delay: Some(DELAY),
        ..rate(RATE)
    };
    let law = |len| WIRES as u64 * (time(len, RATE / 8) + DELAY);
    let mut chain = Chain::new(WIRES, &options)?;
    let exact = chain.lateness(law, 0)?;
    let exact = exact.into_iter().max().context("nothing was sent")?;
    for ns in [100_000, 700_000, 3_000_000] {
        chain.request(Verb::Change, &slack(ns))?;
        let ns = u64::from(ns);
        let late = chain.lateness(law, ns)?;
        let error = judge(late.iter().map(|late| late.saturating_sub(exact + ns)))
            .with_context(|| format!("slack {ns} ns: late by {late:?} ns, {exact} without"))?;
        // Or else there would be nothing that might add up.
        let latest = chain.latest()?;
        ensure!(
            latest.iter().all(|&late| late > ns / 2),
            "slack {ns} ns, and these wires are late by {latest:?} ns only"
        );
        cx.note(format!(
            "slack {ns} ns: late by {} ns at most (without slack {exact}), error {error} ns; each \
             wire by {latest:?} ns",
            late.iter().max().unwrap_or(&0)
        ));
    }
    Ok(())
}

fn throughput_is_exact_with_slack(cx: &Context) -> Result<()> {
    // Against the time that all take, the slack that the first and the last are late is little.
    const TIME: u64 = NS;
    const SLACK: u32 = 400_000;
    const RATE: u64 = 10_000_000 / 8;
    let options = Options {
        delay: Some(200_000),
        ..rate(8 * RATE)
    };
    for lens in [&[1500][..], &[1500, 64, 64, 64, 64, 64, 64]] {
        let mut bytes = 0;
        let mut all = Vec::new();
        for &len in lens.iter().cycle() {
            if time(bytes, RATE) >= TIME {
                break;
            }
            bytes += u64::from(len);
            all.push(len);
        }
        let options = Options {
            slack: Some(SLACK),
            ..options
        };
        let mut port = wire(&options)?;
        let receiver = port.receiver()?;
        fill(&mut port, &all, &options)?;
        let arrivals = receiver.expect(all.len() + 1, after(FILL + time(bytes, RATE)))?;
        ensure_in_order(&arrivals)?;
        let (first, last) = (arrivals[0].time, arrivals[all.len()].time);
        let measured = (bytes * NS) as f64 / (last - first) as f64;
        let error = measured / RATE as f64 - 1.0;
        let (_, stats) = port.wire(WIRE)?;
        let late = stats.late_max_ns;
        cx.note(format!(
            "{lens:?}: error {:+.4} %, {late} ns late at most",
            error * 100.0
        ));
        ensure!(error.abs() < 0.001, "{measured} bytes/s instead of {RATE}");
        // Where timers are exact it is just half of it.
        ensure!(late >= u64::from(SLACK / 2), "late by {late} ns only");
    }
    Ok(())
}

/// Timer interrupts so far, of all processors.
fn timer_interrupts() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/timer_list").context("/proc/timer_list")?;
    let lines = text.lines().map(str::trim);
    let counts: Vec<u64> = lines
        .filter_map(|line| line.strip_prefix(".nr_events")?.split_once(':'))
        .map(|(_, count)| count.trim().parse())
        .collect::<Result<_, _>>()?;
    ensure!(!counts.is_empty(), "/proc/timer_list counts no interrupts");
    Ok(counts.iter().sum())
}

/// Timer interrupts while several wires are busy.
fn interrupts_of_busy_wires(slack: u32) -> Result<u64> {
    const WIRES: usize = 8;
    const PACKETS: usize = 500;
    let options = Options {
        delay: Some(200_000),
        slack: Some(slack),
        ..rate(10_000_000)
    };
    let ports = (0..WIRES).map(|_| wire(&options));
    let ports = ports.collect::<Result<Vec<_>>>()?;
    let mut ends = Vec::new();
    for port in &ports {
        ends.push((port.sender()?, port.receiver()?));
    }
    for (sender, _) in &mut ends {
        for id in 0..PACKETS as u64 {
            sender.send(&packet(id, 1000))?;
        }
        // Where sending takes no time they would all be in step.
        std::thread::sleep(Duration::from_micros(90));
    }
    // Each has packets for 400 ms.
    let before = timer_interrupts()?;
    std::thread::sleep(Duration::from_millis(200));
    let interrupts = timer_interrupts()? - before;
    std::thread::sleep(Duration::from_millis(500));
    for (_, receiver) in &ends {
        ensure_in_order(&receiver.expect(PACKETS, Duration::ZERO)?)?;
    }
    Ok(interrupts)
}

fn timers_of_several_wires_fire_together(cx: &Context) -> Result<()> {
    let alone = interrupts_of_busy_wires(0)?;
    // Alone, each packet takes two in 800 µs, for its end and its delivery: 16 on 8 wires. With
    // slack there is one in each slack at most, on each processor.
    for (slack, share) in [(200_000, 2), (800_000, 4)] {
        let together = interrupts_of_busy_wires(slack)?;
        cx.note(format!(
            "{alone} interrupts, with a slack of {slack} ns {together}"
        ));
        ensure!(
            together < alone / share,
            "{together} interrupts with a slack of {slack} ns, {alone} without"
        );
    }
    Ok(())
}

fn slack_changes_while_packets_pass(cx: &Context) -> Result<()> {
    const SLACK: u32 = 2_000_000;
    const PACKETS: usize = 500;
    clock::require_exact()?;
    // 800 µs each.
    let mut port = wire(&rate(10_000_000))?;
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..PACKETS as u64 {
        sender.send(&packet(id, 1000))?;
    }
    for ns in [SLACK, 0] {
        std::thread::sleep(Duration::from_millis(120));
        change(&mut port, &slack(ns))?;
        ensure!(port.wire(WIRE)?.0.slack == ns, "slack {ns} is not shown");
    }
    let arrivals = receiver.expect(PACKETS, after(PACKETS as u64 * 800_000))?;
    ensure_in_order(&arrivals)?;
    let gaps = gaps_of(&arrivals);
    for exact in [&gaps[..100], &gaps[PACKETS - 100..]] {
        ensure_near(exact, exact.iter().map(|_| 800_000))?;
    }
    let largest = gaps.iter().max().copied().unwrap_or(0);
    ensure!(largest > 1_600_000, "no gap is larger than {largest} ns");
    let all = arrivals[PACKETS - 1].time - arrivals[0].time;
    let expected = 800_000 * (PACKETS as u64 - 1);
    ensure!(
        all.abs_diff(expected) < DISTURBED,
        "{all} ns, not {expected}"
    );
    cx.note(format!("largest gap {largest} ns"));
    Ok(())
}
