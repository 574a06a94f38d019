// SPDX-License-Identifier: MIT OR Apache-2.0

//! L2DCT on real sockets. Until a flow has sent 200 KiB it grows like one of DCTCP; after 1 MiB it
//! has almost stopped growing, and a later flow of the same connection grows again.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_mechanisms::l2dct::law;

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
    up_to_200_kib_each_packet_is_sent_as_dctcp_sends_it,
    #[exact = "judges when segments are sent"]
    a_flow_that_has_sent_1_mib_almost_stops_growing,
    #[exact = "judges when segments are sent"]
    the_weight_falls_with_the_bytes_sent_and_a_new_flow_starts_anew,
    a_flow_that_chooses_it_while_connecting_starts_with_the_routes_window,
    without_ecn_no_packet_can_be_marked,
    #[exact = "judges when segments are sent"]
    ss_shows_its_state,
    #[exact = "judges when segments are sent"]
    a_cubic_flow_in_another_namespace_is_untouched,
    the_module_stays_while_sockets_use_it,
];

const MODULE: &str = "tcp_l2dct";
const NAME: &str = "l2dct";
const RTT: Duration = Duration::from_millis(40);
/// Long enough for a timeout.
const OUTAGE: Duration = Duration::from_millis(500);
/// Marks all packets that can be marked, and drops the others.
const MARKS: &str = "netem limit 10000 loss 100% ecn";
/// The payload of a packet.
const PACKET: u32 = 1448;

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

/// 10 Mbit/s, and a queue before it.
fn wire(port: &Port, qdisc: &str) -> Result<()> {
    modules::load("sch_wire")?;
    port.tc(&format!(
        "qdisc add dev {LINK} root handle 1: wire rate 10mbit"
    ))?;
    port.tc(&format!(
        "qdisc add dev {LINK} parent 1: handle 10: {qdisc}"
    ))?;
    Ok(())
}

/// Closes both ends, and waits until both connections have ended. A namespace ends with its last
/// socket: if one end was gone first, the other would retransmit for minutes, with its module.
fn close(port: &Port, flow: Flow) {
    // MARKS would drop the last acknowledgement.
    let _ = port.tc(&format!("qdisc del dev {LINK} root"));
    drop(flow);
    std::thread::sleep(4 * RTT);
}

/// Where each segment of a flow was sent, see [`Flow::places`].
fn sent(congestion_control: &'static str, qdisc: &str, bytes: usize) -> Result<Vec<(u32, u32)>> {
    let port = port(congestion_control)?;
    wire(&port, qdisc)?;
    let mut flow = Flow::open(&port, congestion_control)?;
    flow.transfer(bytes)?;
    let places = flow.places()?;
    close(&port, flow);
    Ok(places)
}

/// Where all packets are marked, so that α is 1 and a mark halves the window at any weight, and
/// where none is.
fn up_to_200_kib_each_packet_is_sent_as_dctcp_sends_it(cx: &Context) -> Result<()> {
    for qdisc in [MARKS, "pfifo limit 40"] {
        let bytes = law::FALLS_FROM as usize;
        let (ours, linux) = (sent(NAME, qdisc, bytes)?, sent("dctcp", qdisc, bytes)?);
        cx.note(format!(
            "{qdisc}: {} packets, of dctcp {}",
            ours.len(),
            linux.len()
        ));
        let differs = ours.iter().zip(&linux).position(|(a, b)| a != b);
        ensure!(
            differs.is_none() && ours.len() == linux.len(),
            "{qdisc}: packet {differs:?} is sent at another place"
        );
    }
    Ok(())
}

/// The largest number of packets in flight in the last 100,000 bytes before `byte`.
fn in_flight(places: &[(u32, u32)], byte: u32) -> Result<u32> {
    let near = places
        .iter()
        .filter(|(_, seq)| (byte - 100_000..byte).contains(seq));
    let packets = near.map(|(acked, seq)| (seq - acked) / PACKET + 1);
    packets.max().context("nothing was sent there")
}

/// A window of marked packets ends slow start. The flow after it is not marked: in DCTCP's place it
/// would grow by a packet in each RTT.
fn a_flow_that_has_sent_1_mib_almost_stops_growing(cx: &Context) -> Result<()> {
    const FIRST: u32 = 10 * PACKET;
    const BYTES: u32 = 2_300_000;
    let grows = |congestion_control: &'static str| {
        let port = port(congestion_control)?;
        port.tc(&format!("qdisc add dev {LINK} root {MARKS}"))?;
        let mut flow = Flow::open(&port, congestion_control)?;
        flow.transfer(FIRST as usize)?;
        std::thread::sleep(2 * RTT);
        port.tc(&format!("qdisc del dev {LINK} root"))?;
        flow.transfer(BYTES as usize)?;
        let places = flow.places()?;
        close(&port, flow);
        let at = |bytes: u32| in_flight(&places, FIRST + bytes);
        let windows = [at(200_000)?, at(1_200_000)?, at(2_200_000)?];
        cx.note(format!(
            "{congestion_control}: {windows:?} packets in flight"
        ));
        anyhow::Ok(windows)
    };
    let [ours, linux] = [grows(NAME)?, grows("dctcp")?];
    ensure!(ours[0] == linux[0], "up to 200 kB it grows differently");
    ensure!(
        linux[2] >= linux[1] + 10,
        "dctcp does not grow: the test shows nothing"
    );
    ensure!(ours[2] <= ours[1] + 2, "it still grows");
    Ok(())
}

/// The wire spaces acknowledgements, so the socket does not run out of data within a flow.
fn the_weight_falls_with_the_bytes_sent_and_a_new_flow_starts_anew(_: &Context) -> Result<()> {
    let port = port(NAME)?;
    wire(&port, "pfifo limit 1000")?;
    let flow = Flow::open(&port, NAME)?;
    for bytes in [100_000, 600_000, 1, 1_200_000, 150_000] {
        flow.transfer(bytes)?;
        // The last acknowledgement is on its way.
        std::thread::sleep(2 * RTT);
        let (_, [_, weight, _]) = flow.info()?;
        let expected = law::weight(bytes as u32);
        ensure!(
            weight == expected,
            "weight {weight} after {bytes} bytes, not {expected}"
        );
    }
    close(&port, flow);
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
    port.tc(&format!("qdisc add dev {LINK} root {MARKS}"))?;
    let flow = Flow::open(&port, NAME)?;
    flow.write(60_000)?;
    // The second window is on its way.
    std::thread::sleep(RTT + RTT / 2);
    let line = shown_by_ss(cx, &port)?;
    shows(
        &line,
        &[
            "l2dct ",
            "dctcp:(ce_state:0,alpha:1024,ab_ecn:2560,ab_tot:1)",
        ],
    )?;
    flow.read(60_000)?;
    close(&port, flow);
    Ok(())
}

fn a_cubic_flow_in_another_namespace_is_untouched(cx: &Context) -> Result<()> {
    cubic_is_untouched_by(cx, MODULE, without_a_path)
}

fn the_module_stays_while_sockets_use_it(_: &Context) -> Result<()> {
    stays_while_sockets_use_it(MODULE, without_a_path)
}
