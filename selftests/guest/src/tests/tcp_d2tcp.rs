// SPDX-License-Identifier: MIT OR Apache-2.0

//! D2TCP on real sockets. A flow without a deadline is DCTCP's to the packet; what a deadline does
//! is tested on fabrics, where flows can say one (`weft-fabric-selftests`, `deadlines`).

use std::io::{Read as _, Write as _};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};

use crate::capture::Segment;
use crate::flow::{
    Flow, blacked_out, cubic_is_untouched_by, first_burst_of_a_late_choice, info, shown_by_ss,
    shows, stays_while_sockets_use_it, without_ecn_nothing_can_be_marked,
};
use crate::model::Packet;
use crate::modules;
use crate::packets::{self, Sender};
use crate::port::{INDEX, LINK, Port};
use weft_ktap::{Context, tests};

tests![
    #[exact = "judges when segments are sent"]
    #[once]
    without_a_deadline_each_packet_is_sent_as_dctcp_sends_it,
    a_flow_that_chooses_it_while_connecting_starts_with_the_routes_window,
    without_ecn_no_packet_can_be_marked,
    #[exact = "judges when segments are sent"]
    a_delayed_acknowledgement_is_sent_when_marks_begin,
    #[exact = "judges when segments are sent"]
    congestion_in_the_local_queue_counts_also_while_marks_begin,
    #[exact = "judges when segments are sent"]
    ss_shows_its_state,
    #[exact = "judges when segments are sent"]
    a_cubic_flow_in_another_namespace_is_untouched,
    the_module_stays_while_sockets_use_it,
];

const MODULE: &str = "tcp_d2tcp";
const NAME: &str = "d2tcp";
const RTT: Duration = Duration::from_millis(40);
/// Long enough for a timeout.
const OUTAGE: Duration = Duration::from_millis(500);

/// A link whose far end acknowledges each packet after an RTT and reports each mark.
fn port(congestion_control: &str) -> Result<Port> {
    modules::load(MODULE)?;
    Port::reporting_marks(congestion_control, &format!("delay {}ms", RTT.as_millis()))
}

/// A flow whose packets are lost since an outage began.
fn without_a_path() -> Result<(Flow, Port)> {
    let port = port("reno")?;
    let flow = blacked_out(&port, NAME, OUTAGE)?;
    Ok((flow, port))
}

/// 10 Mbit/s.
fn wire(port: &Port) -> Result<()> {
    modules::load("sch_wire")?;
    port.tc(&format!(
        "qdisc add dev {LINK} root handle 1: wire rate 10mbit"
    ))?;
    Ok(())
}

/// Where each segment was sent, see [`Flow::places`].
fn sent(congestion_control: &'static str, qdisc: &str, bytes: usize) -> Result<Vec<(u32, u32)>> {
    let port = port(congestion_control)?;
    wire(&port)?;
    port.tc(&format!(
        "qdisc add dev {LINK} parent 1: handle 10: {qdisc}"
    ))?;
    let mut flow = Flow::open(&port, congestion_control)?;
    flow.transfer(bytes)?;
    flow.places()
}

/// Where all packets are marked, and where none is. On one kernel: where code takes time, which
/// acknowledgement a packet is sent after differs from run to run, of dctcp too.
fn without_a_deadline_each_packet_is_sent_as_dctcp_sends_it(cx: &Context) -> Result<()> {
    for (qdisc, bytes) in [
        ("netem limit 10000 loss 100% ecn", 200_000),
        ("pfifo limit 40", 3_000_000),
    ] {
        let (ours, linux) = (sent(NAME, qdisc, bytes)?, sent("dctcp", qdisc, bytes)?);
        let out = |sent: &[(u32, u32)]| sent.iter().map(|it| (it.1 - it.0) / 1448 + 1).max();
        cx.note(format!(
            "{qdisc}: {} packets, at most {:?} out; dctcp {}, {:?}",
            ours.len(),
            out(&ours),
            linux.len(),
            out(&linux)
        ));
        let differs = ours.iter().zip(&linux).position(|(a, b)| a != b);
        ensure!(
            differs.is_none() && ours.len() == linux.len(),
            "{qdisc}: packet {differs:?} is sent at another place"
        );
    }
    Ok(())
}

fn a_flow_that_chooses_it_while_connecting_starts_with_the_routes_window(
    _: &Context,
) -> Result<()> {
    let port = port(NAME)?;
    let burst = first_burst_of_a_late_choice(&port, NAME)?;
    ensure!(burst == 10, "{burst} packets at first");
    Ok(())
}

fn without_ecn_no_packet_can_be_marked(cx: &Context) -> Result<()> {
    without_ecn_nothing_can_be_marked(cx, &port("cubic")?, NAME)
}

/// A flow whose receiver holds back an acknowledgement, as it answers each request, when a mark
/// arrives. If the receiver's own queue is `full`, it takes that acknowledgement in another
/// packet's place and tells of it (`NET_XMIT_CN`). What the receiver sent then, and how often it
/// has reduced its window.
fn marks_begin(full: bool) -> Result<(Vec<Segment>, u32)> {
    let port = port(NAME)?;
    modules::load("sch_hold")?;
    let far = |words: &str| port.far.command("tc", words);
    // The far end acknowledges as the kernel sees fit.
    port.far.ip(&format!(
        "route change 10.0.0.0/24 dev {LINK} congctl {NAME} initrwnd 1000"
    ))?;
    far(&format!(
        "qdisc replace dev {LINK} root handle 2: hold backlog 0"
    ))?;
    far(&format!(
        "qdisc add dev {LINK} parent 2: handle 3: pfifo_head_drop limit 1"
    ))?;
    port.tc(&format!(
        "qdisc add dev {LINK} root handle 1: prio bands 2 priomap 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
    ))?;
    port.tc(&format!(
        "qdisc add dev {LINK} parent 1:2 handle 12: netem limit 1000 loss 100% ecn"
    ))?;
    let mut flow = Flow::open(&port, NAME)?;
    for end in [&flow.sender, &flow.receiver] {
        end.set_nodelay(true)?;
    }
    for _ in 0..5 {
        flow.write(1)?;
        flow.read(1)?;
        (&flow.receiver).write_all(&[7])?;
        (&flow.sender).read_exact(&mut [0])?;
    }
    // All of it is acknowledged.
    std::thread::sleep(Duration::from_millis(500));
    if full {
        far(&format!(
            "qdisc change dev {LINK} root handle 2: hold backlog 1"
        ))?;
        let another = packets::frame(&Packet {
            id: 1,
            rank: 0,
            flow: 0,
            len: 100,
        });
        Sender::open(&port.far, INDEX)?.send_frame(&another)?;
    }
    let already = flow.segments()?.len();
    flow.write(1)?;
    setsockopt(&flow.sender, sockopt::Priority, &1)?;
    flow.write(1)?;
    std::thread::sleep(Duration::from_millis(10));
    let near = flow.near;
    let told = flow.segments()?[already..]
        .iter()
        .filter(|it| it.to == near);
    let told = told.copied().collect();
    let (_, [_, _, reductions]) = info(&flow.receiver)?;
    // The connection ends while there is a way: else its sockets keep the module for minutes.
    far(&format!("qdisc del dev {LINK} root"))?;
    drop(flow);
    std::thread::sleep(Duration::from_secs(2));
    Ok((told, reductions))
}

/// RFC 8257, §3.2: it is for what came before, without a mark.
fn a_delayed_acknowledgement_is_sent_when_marks_begin(_: &Context) -> Result<()> {
    let (told, reductions) = marks_begin(false)?;
    let [first, second] = told[..] else {
        anyhow::bail!("{told:?}");
    };
    ensure!(!first.ece && second.ece, "{told:?}");
    ensure!(first.ack.wrapping_add(1) == second.ack, "{told:?}");
    ensure!(reductions == 0, "{reductions} reductions");
    Ok(())
}

/// The kernel then calls back on the same socket, in the middle of the callback that sent it.
fn congestion_in_the_local_queue_counts_also_while_marks_begin(_: &Context) -> Result<()> {
    let (_, reductions) = marks_begin(true)?;
    ensure!(reductions == 1, "{reductions} reductions");
    Ok(())
}

fn ss_shows_its_state(cx: &Context) -> Result<()> {
    let port = port(NAME)?;
    port.tc(&format!(
        "qdisc add dev {LINK} root netem limit 10000 loss 100% ecn"
    ))?;
    let flow = Flow::open(&port, NAME)?;
    flow.write(60_000)?;
    // The second window is on its way.
    std::thread::sleep(RTT + RTT / 2);
    let line = shown_by_ss(cx, &port)?;
    shows(
        &line,
        &[
            "d2tcp ",
            "dctcp:(ce_state:0,alpha:1024,ab_ecn:1024,ab_tot:1)",
        ],
    )?;
    flow.read(60_000)?;
    Ok(())
}

fn a_cubic_flow_in_another_namespace_is_untouched(cx: &Context) -> Result<()> {
    cubic_is_untouched_by(cx, MODULE, without_a_path)
}

fn the_module_stays_while_sockets_use_it(_: &Context) -> Result<()> {
    stays_while_sockets_use_it(MODULE, without_a_path)
}
