// SPDX-License-Identifier: MIT OR Apache-2.0

//! The window of a BFC host on real sockets, judged by what is on the link.
//!
//! The bottleneck is the way of the acknowledgements: there is one for each packet, and the near
//! end's capture has the times at which the socket sends and learns.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};

use crate::capture::{Capture, Segment, Since, before, replay};
use crate::flow::{
    Flow, blacked_out, cubic_is_untouched_by, first_burst_of_a_late_choice,
    only_new_connections_have_a_window_of_3, outage, rounds, settings_have_ranges, shown_by_ss,
    shows, stays_while_sockets_use_it,
};
use crate::modules;
use crate::port::{FAR_IP, LINK, NEAR_IP, Port};
use crate::transfer::{Connection, Plan};
use weft_ktap::{Context, tests};

tests![
    #[exact = "judges when segments are sent"]
    a_flow_starts_with_one_bdp_in_one_burst,
    a_flow_that_chooses_it_while_connecting_starts_with_one_bdp,
    #[exact = "judges when segments are sent"]
    the_window_follows_the_law_down_to_the_target,
    #[exact = "judges when segments are sent"]
    the_window_follows_the_law_up_to_the_target,
    #[exact = "judges when segments are sent"]
    flows_that_share_a_link_share_the_target,
    #[exact = "judges when segments are sent"]
    without_a_target_at_most_one_bdp_is_in_flight,
    #[exact = "judges when segments are sent"]
    a_timeout_restarts_from_one_packet,
    #[exact = "judges when segments are sent"]
    data_after_an_idle_period_starts_with_one_bdp,
    a_socket_can_change_to_another_and_back_after_a_timeout,
    #[exact = "judges when segments are sent"]
    settings_are_those_of_the_namespace_and_of_new_connections,
    settings_out_of_range_are_refused,
    ss_shows_its_state,
    #[exact = "judges when segments are sent"]
    a_cubic_flow_in_another_namespace_is_untouched,
    the_module_stays_while_sockets_use_it,
];

const MODULE: &str = "tcp_bfc";
const NAME: &str = "bfc";
const PORT: u16 = 1000;
const MSS: u32 = 1448;

/// The state that it tells: Algorithm 1, after a timeout, without a target.
const DELAY: u16 = 0;
const SLOW_START: u16 = 1;
const CAP: u16 = 2;

/// A link without settings.
fn port(netem: &str) -> Result<Port> {
    modules::load(MODULE)?;
    Port::acknowledging(netem)
}

/// Sets a near setting.
fn set(port: &Port, name: &str, value: u32) -> Result<()> {
    let name = format!("net/ipv4/tcp_bfc/{name}");
    port.near.write_sysctl(&name, &value.to_string())
}

/// A link and its two settings.
fn port_with(netem: &str, bdp: u32, rtt_target: Duration) -> Result<Port> {
    let port = port(netem)?;
    set(&port, "bdp", bdp)?;
    set(&port, "rtt_target_us", rtt_target.as_micros() as u32)?;
    Ok(port)
}

fn a_flow_starts_with_one_bdp_in_one_burst(cx: &Context) -> Result<()> {
    for bdp in [1, 12, 30] {
        let port = port_with("delay 20ms", bdp, Duration::from_millis(50))?;
        let mut flow = Flow::open(&port, NAME)?;
        flow.write(60_000)?;
        flow.read(60_000)?;
        let (burst, took) = flow.first_burst()?;
        cx.note(format!("bdp {bdp}: {} packets in {took:?}", burst.len()));
        ensure!(burst.len() == bdp as usize, "{burst:?}");
        ensure!(took < Duration::from_millis(2), "spread over {took:?}");
    }
    Ok(())
}

fn a_flow_that_chooses_it_while_connecting_starts_with_one_bdp(_: &Context) -> Result<()> {
    let port = port_with("delay 20ms", 17, Duration::from_millis(50))?;
    let burst = first_burst_of_a_late_choice(&port, NAME)?;
    ensure!(burst == 17, "{burst} packets at first");
    Ok(())
}

/// An acknowledgement of a flow that had more to send.
#[derive(Debug)]
struct Step {
    rtt: Duration,
    /// The window that Algorithm 1 has after it, in packets.
    law: f64,
    /// The packets in flight after what it allowed was sent.
    out: usize,
}

/// What a flow of `bytes` bytes did, and what Algorithm 1 makes of the round-trip times of the
/// capture. Nothing may be sent twice.
fn steps(
    segments: &[Segment],
    near: ([u8; 4], u16),
    bytes: usize,
    bdp: u32,
    target: Duration,
) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut out: VecDeque<&Segment> = VecDeque::new();
    let mut law = f64::from(bdp);
    let mut sent = 0;
    for segment in segments {
        if segment.from == near && segment.len > 0 {
            let follows = out.back().is_none_or(|last| last.end() == segment.seq);
            ensure!(follows, "sent twice: {segment:?}");
            out.push_back(segment);
            sent += segment.len as usize;
            if sent == bytes {
                break;
            }
        } else if segment.to == near {
            // What it allowed is sent before the next one.
            if let Some(step) = steps.last_mut() {
                step.out = out.len();
            }
            let (mut packets, mut newest) = (0.0, 0);
            while let Some(&first) = out.front()
                && !before(segment.ack, first.end())
            {
                out.pop_front();
                packets += 1.0;
                newest = first.time;
            }
            if packets > 0.0 {
                let rtt = Duration::from_nanos(segment.time - newest);
                let (rtt_s, target_s) = (rtt.as_secs_f64(), target.as_secs_f64());
                law = f64::max(law + packets * (target_s - rtt_s) / rtt_s, 1.0);
                let out = out.len();
                steps.push(Step { rtt, law, out });
            }
        }
    }
    // What the last one allowed was not all of it.
    steps.pop();
    ensure!(!steps.is_empty(), "nothing was acknowledged");
    Ok(steps)
}

/// A flow over a link of 40 ms on which a packet takes 4 ms: its BDP is 11 packets. The paper's
/// target is 2.5 times 44 ms, which a window of 27.5 packets has.
fn follows_the_law(cx: &Context, bdp: u32) -> Result<Vec<Step>> {
    const TARGET: Duration = Duration::from_millis(110);
    const BYTES: usize = 600_000;
    // 66 bytes are an ACK on Ethernet.
    let port = port_with("delay 40ms rate 132kbit", bdp, TARGET)?;
    let mut flow = Flow::open(&port, NAME)?;
    flow.transfer(BYTES)?;
    std::thread::sleep(Duration::from_millis(200));
    let near = flow.near;
    let steps = steps(flow.segments()?, near, BYTES, bdp, TARGET)?;
    let (first, last) = (&steps[0], &steps[steps.len() - 1]);
    cx.note(format!(
        "{} acknowledgements, from {first:.2?} to {last:.2?}",
        steps.len()
    ));
    for step in &steps {
        // A few µs of each round-trip time are the capture's.
        ensure!(
            (step.out as f64 - step.law.floor()).abs() <= 1.0,
            "{step:?} does not follow the law"
        );
    }
    let exact = steps.iter().filter(|it| it.out as f64 == it.law.floor());
    let (exact, all) = (exact.count(), steps.len());
    ensure!(
        exact * 10 >= all * 9,
        "only {exact} of {all} windows are the law's"
    );
    ensure!(
        (25..=30).contains(&last.out),
        "{last:?} is not at the target"
    );
    // What it is kept at, which is what all of this is for.
    let off = last.rtt.abs_diff(TARGET);
    ensure!(off <= TARGET / 20, "{:?} is not the target", last.rtt);
    Ok(steps)
}

fn the_window_follows_the_law_down_to_the_target(cx: &Context) -> Result<()> {
    let steps = follows_the_law(cx, 45)?;
    ensure!(
        steps[0].out == 45 || steps[0].out == 46,
        "the flow began with {} packets",
        steps[0].out
    );
    Ok(())
}

fn the_window_follows_the_law_up_to_the_target(cx: &Context) -> Result<()> {
    let steps = follows_the_law(cx, 5)?;
    ensure!(steps[0].out <= 7, "it began with {} packets", steps[0].out);
    Ok(())
}

/// The most packets that flows from these ports had out together in the last quarter of the time up
/// to `end`.
fn most_out_together_late(segments: &[Segment], ports: &[u16], end: u64) -> u32 {
    // What each has sent, and what of it was acknowledged.
    let mut flows: BTreeMap<u16, (u32, u32)> = BTreeMap::new();
    let mut most = 0;
    for segment in segments.iter().filter(|it| it.time <= end) {
        let (near, (is_own, from_far)) = match segment.from {
            (NEAR_IP, port) => (port, (ports.contains(&port), false)),
            _ => (segment.to.1, (ports.contains(&segment.to.1), true)),
        };
        if !is_own {
            continue;
        }
        let (sent, una) = flows.entry(near).or_insert((segment.end(), segment.seq));
        match from_far {
            true => *una = segment.ack,
            false if before(*sent, segment.end()) => *sent = segment.end(),
            false => {}
        }
        if segment.time > end - end / 4 {
            let out = flows
                .values()
                .map(|(sent, una)| sent.wrapping_sub(*una) / MSS);
            most = most.max(out.sum());
        }
    }
    most
}

fn flows_that_share_a_link_share_the_target(cx: &Context) -> Result<()> {
    const FLOWS: u16 = 6;
    let port = port_with("delay 40ms rate 132kbit", 11, Duration::from_millis(110))?;
    let capture = Capture::start(&port.near)?;
    let connections: Vec<Connection> = (0..FLOWS)
        .map(|number| {
            let plan = Plan {
                congestion_control: Some(NAME),
                ..Plan::new((FAR_IP, PORT + number), 400_000)
            };
            Connection::open(&port.near, &port.far, &plan)
        })
        .collect::<Result<_>>()?;
    let ports: Vec<u16> = connections
        .iter()
        .map(Connection::port)
        .collect::<Result<_>>()?;
    let transfers: Vec<_> = connections.into_iter().map(Connection::start).collect();
    for transfer in transfers {
        transfer.finish()?;
    }
    let mut segments = capture.segments()?;
    let start = segments.first().context("nothing was sent")?.time;
    segments.iter_mut().for_each(|it| it.time -= start);
    // While all of them send.
    let end = |own: u16| {
        let sent = |it: &&Segment| it.from == (NEAR_IP, own) && it.len > 0;
        segments.iter().rev().find(sent).map(|it| it.time)
    };
    let end = ports.iter().filter_map(|&own| end(own)).min();
    let end = end.context("nothing was sent")?;
    let out = most_out_together_late(&segments, &ports, end);
    cx.note(format!("{out} packets out"));
    // One BDP each would be 66.
    ensure!((24..=36).contains(&out), "{out} packets out, not 27");
    Ok(())
}

fn without_a_target_at_most_one_bdp_is_in_flight(cx: &Context) -> Result<()> {
    // Nor less, whatever the round-trip time.
    for netem in ["delay 20ms", "delay 20ms rate 132kbit"] {
        for bdp in [1, 12, 23] {
            let port = port_with(netem, bdp, Duration::ZERO)?;
            let mut flow = Flow::open(&port, NAME)?;
            flow.transfer(200_000)?;
            let (state, _) = flow.info()?;
            ensure!(state == CAP, "state {state}");
            let near = flow.near;
            let least = Duration::from_millis(200);
            let history = replay(flow.segments()?, near, Since::Progress, least)?;
            cx.note(format!("{netem}, bdp {bdp}: {} bytes", history.most_out));
            ensure!(
                history.most_out == bdp * MSS && history.again == 0,
                "{history:?}"
            );
        }
    }
    Ok(())
}

/// Long enough for several of Linux's timeouts: 0.2 s, 0.4 s, 0.8 s, and so on.
const OUTAGE: Duration = Duration::from_secs(3);

fn a_timeout_restarts_from_one_packet(cx: &Context) -> Result<()> {
    const BDP: u32 = 12;
    let port = port_with("delay 15ms", BDP, Duration::ZERO)?;
    let mut flow = blacked_out(&port, NAME, OUTAGE)?;
    let (state, [_, _, timeouts]) = flow.info()?;
    ensure!(
        state == SLOW_START && timeouts >= 3,
        "state {state} after {timeouts} timeouts"
    );
    let near = flow.near;
    let last = *flow.data()?.last().context("nothing was sent")?;
    outage(&port, false)?;
    flow.read(60_000)?;
    std::thread::sleep(Duration::from_millis(100));
    let segments = flow.segments()?;
    let answer = segments
        .iter()
        .find(|it| it.to == near && it.time > last.time);
    let answer = answer.context("no acknowledgement")?.time;
    let sent: Vec<usize> = rounds(segments, near, answer)
        .iter()
        .map(Vec::len)
        .collect();
    cx.note(format!(
        "{timeouts} timeouts; then {sent:?} packets for each acknowledgement"
    ));
    // Each acknowledgement of one packet makes room for two, until the window is one BDP.
    let (growing, grown) = sent.split_at(BDP as usize - 1);
    ensure!(growing.iter().all(|&it| it == 2), "{sent:?}");
    ensure!(
        !grown.is_empty() && grown.iter().all(|&it| it <= 1),
        "{sent:?}"
    );
    let (state, [_, _, after]) = flow.info()?;
    ensure!(state == CAP, "state {state} after {after} timeouts");
    Ok(())
}

fn data_after_an_idle_period_starts_with_one_bdp(cx: &Context) -> Result<()> {
    // After growth, and after timeouts.
    let port = port_with("delay 20ms", 12, Duration::from_millis(50))?;
    let mut flow = Flow::open(&port, NAME)?;
    for disturbed in [false, true] {
        if disturbed {
            outage(&port, true)?;
        }
        flow.write(60_000)?;
        if disturbed {
            std::thread::sleep(OUTAGE);
            outage(&port, false)?;
        }
        flow.read(60_000)?;
        std::thread::sleep(Duration::from_millis(100));
        let idle = flow.segments()?.len();
        flow.write(30_000)?;
        flow.read(30_000)?;
        let near = flow.near;
        let later = &flow.segments()?[idle..];
        let burst = later.iter().take_while(|it| it.from == near).count();
        cx.note(format!("disturbed {disturbed}: {burst} packets"));
        ensure!(burst == 12, "{burst} packets after an idle time");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn a_socket_can_change_to_another_and_back_after_a_timeout(_: &Context) -> Result<()> {
    let port = port_with("delay 15ms", 12, Duration::from_millis(40))?;
    let flow = blacked_out(&port, NAME, OUTAGE)?;
    for name in ["cubic", NAME, "reno", NAME, "cubic"] {
        setsockopt(&flow.sender, sockopt::TcpCongestion, &name.into())?;
        std::thread::sleep(Duration::from_millis(100));
    }
    outage(&port, false)?;
    flow.read(60_000)?;
    let text = port.near.command("ss", "-tin dst 10.0.0.2")?;
    ensure!(text.contains("cubic") && !text.contains("dctcp:"), "{text}");
    Ok(())
}

fn settings_are_those_of_the_namespace_and_of_new_connections(_: &Context) -> Result<()> {
    let target = Duration::from_millis(50);
    let one = port_with("delay 20ms", 12, target)?;
    let other = port_with("delay 20ms", 12, target)?;
    let mut before = Flow::open(&one, NAME)?;
    set(&one, "bdp", 3)?;
    set(&one, "rtt_target_us", 0)?;
    let after = Flow::open(&one, NAME)?;
    let mut elsewhere = Flow::open(&other, NAME)?;
    only_new_connections_have_a_window_of_3(&mut before, &after, &mut elsewhere)?;
    for (flow, expected) in [(&before, DELAY), (&after, CAP), (&elsewhere, DELAY)] {
        let (state, _) = flow.info()?;
        ensure!(state == expected, "state {state}, not {expected}");
    }
    Ok(())
}

fn settings_out_of_range_are_refused(_: &Context) -> Result<()> {
    settings_have_ranges(
        MODULE,
        &[
            ("bdp", "100", ["1", "65535"], ["0", "65536"]),
            (
                "rtt_target_us",
                "20",
                ["0", "120000000"],
                ["120000001", "-1"],
            ),
        ],
    )
}

fn ss_shows_its_state(cx: &Context) -> Result<()> {
    let port = port_with("delay 15ms", 12, Duration::from_millis(40))?;
    let mut flow = Flow::open(&port, NAME)?;
    flow.write(30_000)?;
    flow.read(30_000)?;
    std::thread::sleep(Duration::from_millis(100));
    let line = shown_by_ss(cx, &port)?;
    // The last round-trip time that is on the link.
    let last = *flow.data()?.last().context("nothing was sent")?;
    let near = flow.near;
    let segments = flow.segments()?;
    let answer = segments
        .iter()
        .find(|it| it.to == near && it.ack == last.end());
    let rtt_us = (answer.context("no acknowledgement")?.time - last.time) / 1000;
    let (state, [shown_us, target_us, timeouts]) = flow.info()?;
    ensure!(
        state == DELAY && target_us == 40_000 && timeouts == 0,
        "state {state}, target {target_us} µs, {timeouts} timeouts"
    );
    ensure!(
        rtt_us.abs_diff(shown_us.into()) < 500,
        "an RTT of {shown_us} µs, not {rtt_us} µs"
    );
    let expected = format!("dctcp:(ce_state:0,alpha:{shown_us},ab_ecn:40000,ab_tot:0)");
    shows(&line, &["bfc ", " cwnd:12 ", " ssthresh:12 ", &expected])
}

fn a_cubic_flow_in_another_namespace_is_untouched(cx: &Context) -> Result<()> {
    cubic_is_untouched_by(cx, MODULE, || {
        let busy = port_with("delay 15ms", 12, Duration::from_millis(40))?;
        let flow = blacked_out(&busy, NAME, Duration::from_millis(500))?;
        Ok((flow, busy))
    })
}

fn the_module_stays_while_sockets_use_it(_: &Context) -> Result<()> {
    stays_while_sockets_use_it(MODULE, || {
        let port = port_with("delay 15ms", 12, Duration::from_millis(40))?;
        port.near.ip(&format!(
            "route change 10.0.0.0/24 dev {LINK} congctl {NAME} quickack 1"
        ))?;
        let flow = blacked_out(&port, NAME, OUTAGE)?;
        Ok((flow, port))
    })
}
