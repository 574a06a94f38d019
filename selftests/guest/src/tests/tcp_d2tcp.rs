// SPDX-License-Identifier: MIT OR Apache-2.0

//! D2TCP on real sockets. A flow without a deadline is DCTCP's to the packet; what a deadline does is tested on
//! fabrics, where flows can say one (`weft-fabric-selftests`, `deadlines`).

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::capture::before;
use crate::flow::{
    Flow, blacked_out, cubic_is_untouched_by, first_burst_of_a_late_choice, shown_by_ss, shows,
    stays_while_sockets_use_it, without_ecn_nothing_can_be_marked,
};
use crate::modules;
use crate::port::{LINK, Port};
use weft_ktap::{Context, tests};

tests![
    #[exact = "judges when segments are sent"]
    #[once]
    without_a_deadline_each_packet_is_sent_as_dctcp_sends_it,
    a_flow_that_chooses_it_while_connecting_starts_with_the_routes_window,
    without_ecn_no_packet_can_be_marked,
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

/// A link whose far end acknowledges each packet after an RTT, and of which both ends have a congestion control:
/// its receiver tells of each mark.
fn port(congestion_control: &str) -> Result<Port> {
    modules::load(MODULE)?;
    let port = Port::acknowledging(&format!("delay {}ms", RTT.as_millis()))?;
    port.far.ip(&format!(
        "route change 10.0.0.0/24 dev {LINK} congctl {congestion_control} quickack 1 initrwnd 1000"
    ))?;
    Ok(port)
}

/// 10 Mbit/s.
fn wire(port: &Port) -> Result<()> {
    modules::load("sch_wire")?;
    port.tc(&format!(
        "qdisc add dev {LINK} root handle 1: wire rate 10mbit"
    ))?;
    Ok(())
}

/// Where which data was sent: after how many acknowledgements, in packets.
fn sent(congestion_control: &'static str, qdisc: &str, bytes: usize) -> Result<Vec<(u32, u32)>> {
    let port = port(congestion_control)?;
    wire(&port)?;
    port.tc(&format!(
        "qdisc add dev {LINK} parent 1: handle 10: {qdisc}"
    ))?;
    let mut flow = Flow::open(&port, congestion_control)?;
    flow.transfer(bytes)?;
    let near = flow.near;
    let segments = flow.segments()?;
    let first = segments.iter().find(|it| it.from == near && it.len > 0);
    let Some(first) = first.map(|it| it.seq) else {
        anyhow::bail!("nothing was sent");
    };
    let (mut acked, mut sent) = (first, Vec::new());
    for segment in segments {
        if segment.to == near && before(acked, segment.ack) {
            acked = segment.ack;
        } else if segment.from == near && segment.len > 0 {
            sent.push((acked.wrapping_sub(first), segment.seq.wrapping_sub(first)));
        }
    }
    Ok(sent)
}

/// Where all packets are marked, and where none is. On one kernel: where code takes time, which acknowledgement a packet
/// is sent after differs from run to run, of dctcp too.
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
    cubic_is_untouched_by(cx, MODULE, || {
        let busy = port("reno")?;
        let flow = blacked_out(&busy, NAME, OUTAGE)?;
        Ok((flow, busy))
    })
}

fn the_module_stays_while_sockets_use_it(_: &Context) -> Result<()> {
    stays_while_sockets_use_it(MODULE, || {
        let port = port("reno")?;
        let flow = blacked_out(&port, NAME, OUTAGE)?;
        Ok((flow, port))
    })
}
