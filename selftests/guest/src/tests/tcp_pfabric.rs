// SPDX-License-Identifier: MIT OR Apache-2.0

//! pFabric's rate control on real sockets, judged by what is on the link.
//!
//! The network namespaces have Linux's defaults: RACK, tail loss probes, F-RTO and so on are on for
//! everybody else. Round-trip times are of the order of a fabric's that is slowed 1000 times.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};

use crate::capture::{Capture, History, Segment, Since, replay};
use crate::flow::{
    Flow, blacked_out, counter, cubic_is_untouched_by, first_burst_of_a_late_choice,
    only_new_connections_have_a_window_of_3, outage, rounds, settings_have_ranges, shown_by_ss,
    shows, stays_while_sockets_use_it, tell_unreachable,
};
use crate::modules;
use crate::port::{FAR_IP, LINK, NEAR_IP, Port};
use crate::transfer::{Connection, Plan, Transfer};
use weft_ktap::Namespace;
use weft_ktap::{Context, tests};

tests![
    #[exact = "judges when segments are sent"]
    a_flow_starts_with_the_initial_window_in_one_burst,
    a_flow_that_chooses_it_while_connecting_starts_with_the_initial_window,
    #[exact = "judges when segments are sent"]
    at_most_the_largest_window_is_in_flight,
    #[exact = "judges when segments are sent"]
    reordering_causes_no_retransmission,
    #[exact = "judges when segments are sent"]
    reordering_without_sack_causes_no_retransmission,
    #[exact = "judges when segments are sent"]
    under_loss_only_timeouts_cause_retransmissions,
    #[exact = "judges when segments are sent"]
    under_loss_and_reordering_only_timeouts_cause_retransmissions,
    #[exact = "judges when segments are sent"]
    with_tail_loss_probes_enabled_only_timeouts_cause_retransmissions,
    #[exact = "judges when segments are sent"]
    consecutive_timeouts_are_equally_long,
    #[exact = "judges when segments are sent"]
    from_the_fifth_consecutive_timeout_it_probes_with_one_byte,
    #[exact = "judges when segments are sent"]
    without_a_threshold_it_never_probes,
    #[exact = "judges when segments are sent"]
    an_answered_probe_restarts_from_a_window_of_one,
    #[exact = "judges when segments are sent"]
    a_timeout_that_an_icmp_message_clocks_out_counts,
    #[exact = "judges when segments are sent"]
    drops_by_the_local_queue_do_not_slow_timeouts,
    #[exact = "judges when segments are sent"]
    a_flow_survives_a_long_wait_for_its_turn,
    a_closed_socket_outlives_an_outage,
    a_closed_window_is_probed_until_it_opens,
    data_after_an_idle_period_starts_with_the_initial_window,
    a_socket_can_change_to_another_and_back_while_it_probes,
    #[exact = "judges when segments are sent"]
    settings_are_those_of_the_namespace_and_of_new_connections,
    settings_out_of_range_are_refused,
    #[exact = "judges when segments are sent"]
    ss_shows_its_state,
    #[exact = "judges when segments are sent"]
    a_cubic_flow_in_another_namespace_is_untouched,
    the_module_stays_while_sockets_use_it,
];

pub(super) const MODULE: &str = "tcp_pfabric";
pub(super) const NAME: &str = "pfabric";
pub(super) const PORT: u16 = 1000;
pub(super) const MSS: u32 = 1448;
/// The timeout of the tests, and what becomes of it at 250 jiffies a second: between two in a row,
/// and the least.
pub(super) const RTO_US: u32 = 45_000;
pub(super) const RTO: Duration = Duration::from_millis(44);
pub(super) const JIFFY: Duration = Duration::from_millis(4);
/// How late the tick may be, and how busy the sender.
pub(super) const SLACK: Duration = Duration::from_micros(500);
/// The shortest time that a timeout takes.
const LEAST: Duration = RTO.saturating_sub(JIFFY).saturating_sub(SLACK);

/// A link whose near end sends without delay, packets as they are on the wire, and whose far end
/// acknowledges each after a delay. Near sockets have a timeout of [`RTO_US`].
pub(super) fn port(delay: &str) -> Result<Port> {
    modules::load(MODULE)?;
    let port = Port::new()?;
    for end in [&port.near, &port.far] {
        end.ip(&format!("link set {LINK} gso_max_segs 1"))?;
        end.ip(&format!("route change 10.0.0.0/24 dev {LINK} quickack 1"))?;
    }
    port.far.command(
        "tc",
        &format!("qdisc add dev {LINK} root handle 1: netem limit 10000 delay {delay}"),
    )?;
    // Else the timeout counts from when the packet was sent, and not from the last progress.
    port.near.write_sysctl("net/ipv4/tcp_early_retrans", "0")?;
    set(&port, "rto_us", RTO_US)?;
    Ok(port)
}

/// Sets a near setting.
pub(super) fn set(port: &Port, name: &str, value: u32) -> Result<()> {
    let name = format!("net/ipv4/tcp_pfabric/{name}");
    port.near.write_sysctl(&name, &value.to_string())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) state: u16,
    pub(super) in_a_row: u32,
    pub(super) timeouts: u32,
    pub(super) probes: u32,
}

pub(super) fn info(flow: &Flow) -> Result<Info> {
    let (state, [in_a_row, timeouts, probes]) = flow.info()?;
    Ok(Info {
        state,
        in_a_row,
        timeouts,
        probes,
    })
}

const ADDITIVE_INCREASE: u16 = 0;
const SLOW_START: u16 = 1;
const PROBE: u16 = 2;

/// What Linux does of its own accord, and a pFabric flow never.
fn ensure_no_other_recovery(namespace: &Namespace) -> Result<()> {
    for name in [
        "TCPLossProbes",
        "TCPLossProbeRecovery",
        "TCPFullUndo",
        "TCPPartialUndo",
        "TCPDSACKUndo",
        "TCPLossUndo",
        "TCPSpuriousRTOs",
        "TcpDuplicateDataRehash",
    ] {
        let count = counter(namespace, name)?;
        ensure!(count == 0, "{name} is {count}");
    }
    // The handshake is Linux's.
    let rehashes = counter(namespace, "TcpTimeoutRehash")?;
    let handshakes = counter(namespace, "TCPSynRetrans")?;
    ensure!(
        rehashes <= handshakes,
        "TcpTimeoutRehash is {rehashes}, with {handshakes} SYNs retransmitted"
    );
    Ok(())
}

fn a_flow_starts_with_the_initial_window_in_one_burst(cx: &Context) -> Result<()> {
    for window in [1, 12, 30] {
        let port = port("20ms")?;
        set(&port, "init_cwnd", window)?;
        set(&port, "max_cwnd", 40)?;
        let mut flow = Flow::open(&port, NAME)?;
        flow.write(60_000)?;
        flow.read(60_000)?;
        let (burst, took) = flow.first_burst()?;
        cx.note(format!(
            "init_cwnd {window}: {} packets in {took:?}",
            burst.len()
        ));
        ensure!(
            burst.len() == window as usize && burst.iter().all(|it| it.len == MSS),
            "{burst:?}"
        );
        ensure!(took < Duration::from_millis(2), "spread over {took:?}");
    }
    Ok(())
}

fn a_flow_that_chooses_it_while_connecting_starts_with_the_initial_window(
    _: &Context,
) -> Result<()> {
    let port = port("20ms")?;
    set(&port, "init_cwnd", 17)?;
    let burst = first_burst_of_a_late_choice(&port, NAME)?;
    ensure!(burst == 17, "{burst} packets at first");
    Ok(())
}

/// Sends `bytes` while the receiver reads; returns what happened.
fn send(port: &Port, bytes: usize) -> Result<History> {
    let capture = Capture::start(&port.near)?;
    let plan = Plan {
        congestion_control: Some(NAME),
        ..Plan::new((FAR_IP, PORT), bytes)
    };
    let connection = Connection::open(&port.near, &port.far, &plan)?;
    let near = (NEAR_IP, connection.port()?);
    connection.start().finish()?;
    replay(&capture.segments()?, near, Since::Progress, LEAST)
}

fn at_most_the_largest_window_is_in_flight(cx: &Context) -> Result<()> {
    for window in [1, 12, 23] {
        let port = port("20ms")?;
        set(&port, "max_cwnd", window)?;
        let history = send(&port, 400_000)?;
        cx.note(format!("max_cwnd {window}: {} bytes", history.most_out));
        ensure!(
            history.most_out == window * MSS && history.again == 0,
            "{history:?}"
        );
    }
    Ok(())
}

/// 20 % of the packets overtake the others, which take 10 ms, in both directions. At the far end,
/// so that the near end's capture sees the order of sending.
fn reorder(port: &Port) -> Result<()> {
    const NETEM: &str = "root handle 1: netem limit 10000 delay 10ms reorder 20%";
    port.far.ip("link add ifb0 type ifb")?;
    port.far.ip("link set ifb0 up")?;
    for words in [
        format!("qdisc add dev ifb0 {NETEM}"),
        format!("qdisc replace dev {LINK} {NETEM}"),
        format!("qdisc replace dev {LINK} clsact"),
        format!(
            "filter add dev {LINK} ingress prio 2 matchall action mirred egress redirect dev ifb0"
        ),
    ] {
        port.far.command("tc", &words)?;
    }
    Ok(())
}

/// A transfer that is reordered; returns the segments that were retransmitted.
fn reordered(cx: &Context, sack: bool) -> Result<()> {
    const BYTES: usize = 3_000_000;
    let port = port("1ms")?;
    reorder(&port)?;
    port.near
        .write_sysctl("net/ipv4/tcp_sack", if sack { "1" } else { "0" })?;
    // Linux takes one reordered segment for a loss. With its default of three, whether reno
    // retransmits at all is a matter of luck.
    for threshold in ["tcp_reordering", "tcp_max_reordering"] {
        port.near
            .write_sysctl(&format!("net/ipv4/{threshold}"), "1")?;
    }
    let history = send(&port, BYTES)?;
    let seen = counter(&port.far, "TCPOFOQueue")?;
    cx.note(format!(
        "{} segments, {seen} out of order, {} retransmitted",
        history.first, history.again
    ));
    ensure!(
        seen > 100,
        "almost no segment was reordered: {seen} segments were early"
    );
    ensure!(
        history.again == 0 && history.timeouts.is_empty(),
        "{history:?}"
    );
    let again = counter(&port.near, "RetransSegs")?;
    ensure!(again == 0, "RetransSegs is {again}");
    ensure_no_other_recovery(&port.near)?;
    // The same with the kernel's own: the test can fail.
    let plan = Plan {
        congestion_control: Some("reno"),
        ..Plan::new((FAR_IP, PORT + 1), BYTES)
    };
    Connection::open(&port.near, &port.far, &plan)?
        .start()
        .finish()?;
    let again = counter(&port.near, "RetransSegs")?;
    cx.note(format!("reno: {again} retransmitted"));
    ensure!(again > 0, "nor does reno send anything again");
    Ok(())
}

fn reordering_causes_no_retransmission(cx: &Context) -> Result<()> {
    reordered(cx, true)
}

fn reordering_without_sack_causes_no_retransmission(cx: &Context) -> Result<()> {
    reordered(cx, false)
}

/// The far end drops one packet in `of` at random, after the near end's capture has seen it.
fn lose(port: &Port, of: u32) -> Result<()> {
    port.far
        .command("tc", &format!("qdisc replace dev {LINK} clsact"))?;
    let filter = format!(
        "filter add dev {LINK} ingress prio 1 matchall \
         action gact continue random netrand drop {of}"
    );
    port.far.command("tc", &filter)?;
    Ok(())
}

/// Several flows at once, some of whose packets are lost.
fn lossy(cx: &Context, reordered: bool, loss_probes: bool) -> Result<()> {
    const FLOWS: u16 = 4;
    let port = port("15ms")?;
    if loss_probes {
        port.near.write_sysctl("net/ipv4/tcp_early_retrans", "3")?;
    }
    // Other timers may take the timeout's place for a while: see `kapi::timeout_only`.
    let since = if reordered || loss_probes {
        Since::Sending
    } else {
        Since::Progress
    };
    lose(&port, 20)?;
    if reordered {
        reorder(&port)?;
    }
    let capture = Capture::start(&port.near)?;
    let mut transfers = Vec::new();
    for number in 0..FLOWS {
        let plan = Plan {
            congestion_control: Some(NAME),
            ..Plan::new((FAR_IP, PORT + number), 600_000)
        };
        transfers.push(Connection::open(&port.near, &port.far, &plan)?);
    }
    let ports: Vec<u16> = transfers
        .iter()
        .map(Connection::port)
        .collect::<Result<_>>()?;
    let transfers: Vec<Transfer> = transfers.into_iter().map(Connection::start).collect();
    for transfer in transfers {
        transfer.finish()?;
    }
    let segments = capture.segments()?;
    let (mut timeouts, mut again) = (0, 0);
    for own in ports {
        let own: Vec<Segment> = segments
            .iter()
            .filter(|it| it.from == (NEAR_IP, own) || it.to == (NEAR_IP, own))
            .copied()
            .collect();
        let near = own.first().context("nothing was sent")?.from;
        let history = replay(&own, near, since, LEAST)?;
        timeouts += history.timeouts.len();
        again += history.again;
    }
    cx.note(format!(
        "{again} retransmitted in {timeouts} timeouts; the kernel believed {} times in another loss",
        counter(&port.near, "TCPSackRecovery")?
    ));
    ensure!(timeouts > 10, "almost nothing was lost");
    ensure_no_other_recovery(&port.near)
}

fn under_loss_only_timeouts_cause_retransmissions(cx: &Context) -> Result<()> {
    lossy(cx, false, false)
}

fn under_loss_and_reordering_only_timeouts_cause_retransmissions(cx: &Context) -> Result<()> {
    lossy(cx, true, false)
}

/// They are by default.
fn with_tail_loss_probes_enabled_only_timeouts_cause_retransmissions(cx: &Context) -> Result<()> {
    lossy(cx, true, true)
}

/// The silence before each segment that was retransmitted.
pub(super) fn silences(data: &[Segment]) -> Vec<Duration> {
    data.windows(2)
        .filter(|pair| pair[1].seq == data[0].seq)
        .map(|pair| Duration::from_nanos(pair[1].time - pair[0].time))
        .collect()
}

fn consecutive_timeouts_are_equally_long(cx: &Context) -> Result<()> {
    // What is asked for, and the nearest odd number of jiffies from 3.
    for (us, ms) in [(1, 12), (45_000, 44), (47_999, 44), (48_000, 52)] {
        let port = port("15ms")?;
        set(&port, "rto_us", us)?;
        let rto = Duration::from_millis(ms);
        let mut flow = blacked_out(&port, NAME, rto * 14)?;
        let data = flow.data()?;
        let silences = silences(&data);
        cx.note(format!("rto_us {us}: {silences:?}"));
        ensure!(silences.len() >= 12, "{} timeouts", silences.len());
        // The first counts from the middle of a jiffy, the others from a tick.
        let first = silences[0];
        ensure!(
            first + JIFFY + SLACK >= rto && first <= rto + SLACK,
            "the first timeout came after {first:?}"
        );
        for silence in &silences[1..] {
            let off = silence.abs_diff(rto);
            ensure!(off <= SLACK, "{silence:?} between two timeouts");
        }
        outage(&port, false)?;
        flow.read(60_000)?;
    }
    Ok(())
}

fn from_the_fifth_consecutive_timeout_it_probes_with_one_byte(cx: &Context) -> Result<()> {
    let port = port("15ms")?;
    let mut flow = blacked_out(&port, NAME, RTO * 12)?;
    let info = info(&flow)?;
    let data = flow.data()?;
    let (burst, again) = data.split_at(12);
    ensure!(burst.iter().all(|it| it.len == MSS), "{burst:?}");
    let lengths: Vec<u32> = again.iter().map(|it| it.len).collect();
    cx.note(format!("retransmitted: {lengths:?} bytes; {info:?}"));
    ensure!(
        again.iter().all(|it| it.seq == burst[0].seq),
        "not the first packet: {again:?}"
    );
    ensure!(lengths.len() >= 11, "{} timeouts", lengths.len());
    let (packets, probes) = lengths.split_at(4);
    ensure!(packets.iter().all(|&len| len == MSS), "{packets:?}");
    ensure!(probes.iter().all(|&len| len == 1), "{probes:?}");
    let expected = Info {
        state: PROBE,
        in_a_row: lengths.len() as u32,
        timeouts: lengths.len() as u32,
        probes: probes.len() as u32,
    };
    ensure!(info == expected, "{info:?}, not {expected:?}");
    outage(&port, false)?;
    flow.read(60_000)
}

fn without_a_threshold_it_never_probes(_: &Context) -> Result<()> {
    let port = port("15ms")?;
    set(&port, "probe_threshold", 0)?;
    let mut flow = blacked_out(&port, NAME, RTO * 12)?;
    let data = flow.data()?;
    ensure!(
        data.len() >= 22 && data.iter().all(|it| it.len == MSS),
        "{data:?}"
    );
    let info = info(&flow)?;
    ensure!(
        info.state == SLOW_START && info.probes == 0,
        "{info:?} without probes"
    );
    outage(&port, false)?;
    flow.read(60_000)
}

fn an_answered_probe_restarts_from_a_window_of_one(cx: &Context) -> Result<()> {
    // The answer to one packet comes before the timeout, and well after the packet.
    let port = port("30ms")?;
    let mut flow = blacked_out(&port, NAME, RTO * 8)?;
    ensure!(info(&flow)?.state == PROBE, "{:?}", info(&flow)?);
    let near = flow.near;
    let probe = *flow.data()?.last().context("nothing was sent")?;
    outage(&port, false)?;
    // Until the answer to the next probe is there.
    let start = probe.time;
    loop {
        std::thread::sleep(Duration::from_millis(1));
        let answered = |it: &Segment| it.to == near && it.time > start;
        if flow.segments()?.iter().any(answered) {
            break;
        }
    }
    let info = info(&flow)?;
    flow.read(60_000)?;
    std::thread::sleep(RTO);
    let rounds = rounds(flow.segments()?, near, start);
    cx.note(format!("{info:?}; then {rounds:?}"));
    ensure!(
        info.state == SLOW_START && info.in_a_row == 0 && info.timeouts > 5,
        "{info:?} after the first acknowledgement"
    );
    // One packet: what is left of the one whose first byte was the probe. It opens the window to
    // the threshold, which is 2 after several timeouts; then it grows by one each round.
    ensure!(rounds[0] == [MSS - 1], "{rounds:?}");
    ensure!(rounds[1] == [MSS, MSS], "{rounds:?}");
    ensure!(
        replay(flow.segments()?, near, Since::Progress, LEAST).is_ok(),
        "something else was retransmitted"
    );
    Ok(())
}

/// After a timeout, a message that the peer cannot be reached has the kernel send at once if its
/// own estimate of the timeout has passed (RFC 6069). That is a timeout like any other.
fn a_timeout_that_an_icmp_message_clocks_out_counts(cx: &Context) -> Result<()> {
    const LONG: Duration = Duration::from_millis(600);
    /// The timer wheel is 8 jiffies coarse there.
    const COARSE: Duration = Duration::from_millis(40);
    let port = port("20ms")?;
    port.near.ip(&format!(
        "route change 10.0.0.0/24 dev {LINK} quickack 1 rto_min 20ms"
    ))?;
    set(&port, "rto_us", LONG.as_micros() as u32)?;
    let mut flow = Flow::open(&port, NAME)?;
    // It has a round-trip time to estimate by.
    flow.write(30_000)?;
    flow.read(30_000)?;
    outage(&port, true)?;
    let before = flow.data()?.len();
    flow.write(60_000)?;
    std::thread::sleep(LONG * 3 / 2);
    ensure!(info(&flow)?.timeouts == 1, "{:?}", info(&flow)?);
    let first = flow.data()?[before];
    tell_unreachable(&port, &first)?;
    std::thread::sleep(LONG / 4);
    let told = info(&flow)?;
    std::thread::sleep(LONG);
    let data = flow.data()?;
    let sent: Vec<u64> = data
        .iter()
        .filter(|it| it.seq == first.seq)
        .map(|it| it.time)
        .collect();
    let after: Vec<Duration> = sent
        .windows(2)
        .map(|pair| Duration::from_nanos(pair[1] - pair[0]))
        .collect();
    cx.note(format!(
        "the first packet was retransmitted after {after:?}"
    ));
    ensure!((told.timeouts, told.in_a_row) == (2, 2), "{told:?}");
    let [_, clocked_out, next] = after[..] else {
        anyhow::bail!("{after:?}");
    };
    ensure!(
        clocked_out < LONG - COARSE,
        "the message clocked out nothing"
    );
    ensure!(
        next.abs_diff(LONG) <= COARSE,
        "the next one was {next:?} later"
    );
    outage(&port, false)?;
    flow.read(60_000)
}

fn drops_by_the_local_queue_do_not_slow_timeouts(cx: &Context) -> Result<()> {
    let port = port("15ms")?;
    let flow = blacked_out(&port, NAME, RTO * 2)?;
    // Linux would wait for half a second after each retransmission that is refused.
    port.near.command(
        "tc",
        &format!("qdisc add dev {LINK} root handle 1: pfifo limit 0"),
    )?;
    let before = info(&flow)?.timeouts;
    std::thread::sleep(RTO * 20);
    let timeouts = info(&flow)?.timeouts - before;
    cx.note(format!("{timeouts} timeouts in {:?}", RTO * 20));
    ensure!((19..=20).contains(&timeouts), "{timeouts} timeouts");
    port.near
        .command("tc", &format!("qdisc del dev {LINK} root"))?;
    outage(&port, false)?;
    flow.read(60_000)
}

fn a_flow_survives_a_long_wait_for_its_turn(cx: &Context) -> Result<()> {
    let port = port("15ms")?;
    // `tcp_retries2` is 15, and yet a time: a quarter of an hour.
    set(&port, "rto_us", 300_000)?;
    let mut flow = blacked_out(&port, NAME, Duration::from_secs(20))?;
    outage(&port, false)?;
    flow.read(60_000)?;
    let timeouts = silences(&flow.data()?).len();
    cx.note(format!("{timeouts} timeouts"));
    ensure!(timeouts > 60, "{timeouts} timeouts");
    // What an application says itself holds, and is still there under another congestion control.
    let said: u32 = 5_000;
    setsockopt(&flow.sender, sockopt::TcpUserTimeout, &said)?;
    flow.write(60_000)?;
    flow.read(60_000)?;
    setsockopt(&flow.sender, sockopt::TcpCongestion, &"cubic".into())?;
    let kept = nix::sys::socket::getsockopt(&flow.sender, sockopt::TcpUserTimeout)?;
    ensure!(kept == said, "TCP_USER_TIMEOUT is {kept}");
    // What it did not say is not left behind.
    let flow = Flow::open(&port, NAME)?;
    setsockopt(&flow.sender, sockopt::TcpCongestion, &"cubic".into())?;
    let left = nix::sys::socket::getsockopt(&flow.sender, sockopt::TcpUserTimeout)?;
    ensure!(left == 0, "TCP_USER_TIMEOUT is {left}");
    Ok(())
}

fn a_closed_socket_outlives_an_outage(_: &Context) -> Result<()> {
    let port = port("15ms")?;
    let flow = blacked_out(&port, NAME, RTO)?;
    drop(flow.sender);
    // A socket that is taken for dead is given up 200 ms after its first timeout.
    std::thread::sleep(Duration::from_secs(3));
    outage(&port, false)?;
    let mut data = Vec::new();
    let mut receiver = flow.receiver;
    receiver.set_read_timeout(Some(Duration::from_secs(60)))?;
    receiver.read_to_end(&mut data).context("reading")?;
    ensure!(data.len() == 60_000, "{} bytes arrived", data.len());
    Ok(())
}

fn a_closed_window_is_probed_until_it_opens(cx: &Context) -> Result<()> {
    const BYTES: usize = 1_000_000;
    let port = port("15ms")?;
    // The receiver reads nothing for a while: its window closes.
    let plan = Plan {
        congestion_control: Some(NAME),
        ..Plan::new((FAR_IP, PORT), 0)
    };
    let (sender, mut receiver) = Connection::open(&port.near, &port.far, &plan)?.into_sockets();
    let writer = std::thread::spawn(move || -> Result<TcpStream> {
        (&sender).write_all(&vec![7; BYTES])?;
        sender.shutdown(Shutdown::Write)?;
        Ok(sender)
    });
    std::thread::sleep(Duration::from_secs(20));
    let mut data = Vec::new();
    receiver.set_read_timeout(Some(Duration::from_secs(60)))?;
    receiver.read_to_end(&mut data).context("reading")?;
    writer.join().expect("the writer does not panic")?;
    ensure!(data.len() == BYTES, "{} bytes arrived", data.len());
    let closed = counter(&port.far, "TCPToZeroWindowAdv")?;
    cx.note(format!("the window closed {closed} times"));
    ensure!(closed > 0, "the window never closed");
    Ok(())
}

fn data_after_an_idle_period_starts_with_the_initial_window(cx: &Context) -> Result<()> {
    let port = port("20ms")?;
    // After growth, and after a timeout.
    let mut flow = Flow::open(&port, NAME)?;
    for disturbed in [false, true] {
        if disturbed {
            outage(&port, true)?;
        }
        flow.write(60_000)?;
        if disturbed {
            std::thread::sleep(RTO * 3);
            outage(&port, false)?;
        }
        flow.read(60_000)?;
        std::thread::sleep(Duration::from_millis(100));
        let idle = flow.segments()?.len();
        ensure!(
            info(&flow)?.state == ADDITIVE_INCREASE,
            "{:?} while idle",
            info(&flow)?
        );
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

fn a_socket_can_change_to_another_and_back_while_it_probes(_: &Context) -> Result<()> {
    let port = port("15ms")?;
    let flow = blacked_out(&port, NAME, RTO * 8)?;
    ensure!(info(&flow)?.state == PROBE, "{:?}", info(&flow)?);
    for name in ["cubic", NAME, "reno", NAME, "cubic"] {
        setsockopt(&flow.sender, sockopt::TcpCongestion, &name.into())?;
        std::thread::sleep(RTO * 2);
    }
    outage(&port, false)?;
    flow.read(60_000)?;
    // What it is now has its own ways again, also the flow hash.
    let text = port.near.command("ss", "-tin dst 10.0.0.2")?;
    ensure!(text.contains("cubic") && !text.contains("dctcp:"), "{text}");
    outage(&port, true)?;
    flow.write(10_000)?;
    std::thread::sleep(Duration::from_secs(5));
    let text = port.near.command("ss", "-tin dst 10.0.0.2")?;
    let rto: f64 = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("rto:"))
        .context("no rto")?
        .parse()?;
    ensure!(rto > 1000.0, "no backoff: rto {rto} ms");
    ensure!(text.contains(" rehash:"), "no other flow hash: {text}");
    outage(&port, false)?;
    flow.read(10_000)
}

fn settings_are_those_of_the_namespace_and_of_new_connections(_: &Context) -> Result<()> {
    let (one, other) = (port("20ms")?, port("20ms")?);
    let mut before = Flow::open(&one, NAME)?;
    set(&one, "init_cwnd", 3)?;
    let after = Flow::open(&one, NAME)?;
    let mut elsewhere = Flow::open(&other, NAME)?;
    only_new_connections_have_a_window_of_3(&mut before, &after, &mut elsewhere)
}

fn settings_out_of_range_are_refused(_: &Context) -> Result<()> {
    settings_have_ranges(
        MODULE,
        &[
            ("init_cwnd", "12", ["1", "65535"], ["0", "65536"]),
            ("max_cwnd", "23", ["1", "65535"], ["0", "-1"]),
            ("rto_us", "45", ["1", "120000000"], ["0", "120000001"]),
            ("probe_threshold", "5", ["0", "255"], ["256", "many"]),
        ],
    )
}

fn ss_shows_its_state(cx: &Context) -> Result<()> {
    let port = port("15ms")?;
    let flow = blacked_out(&port, NAME, RTO * 6)?;
    let line = shown_by_ss(cx, &port)?;
    let info = info(&flow)?;
    let expected = format!(
        "dctcp:(ce_state:2,alpha:{},ab_ecn:{},ab_tot:{})",
        info.in_a_row, info.timeouts, info.probes
    );
    let parts = [
        "pfabric ",
        " rto:40 ",
        " cwnd:1 ",
        " ssthresh:2 ",
        &expected,
    ];
    shows(&line, &parts)?;
    outage(&port, false)?;
    flow.read(60_000)
}

fn a_cubic_flow_in_another_namespace_is_untouched(cx: &Context) -> Result<()> {
    cubic_is_untouched_by(cx, MODULE, || {
        let busy = port("15ms")?;
        let flow = blacked_out(&busy, NAME, RTO)?;
        Ok((flow, busy))
    })
}

fn the_module_stays_while_sockets_use_it(_: &Context) -> Result<()> {
    stays_while_sockets_use_it(MODULE, || {
        let port = port("15ms")?;
        port.near.ip(&format!(
            "route change 10.0.0.0/24 dev {LINK} congctl {NAME} quickack 1"
        ))?;
        let flow = blacked_out(&port, NAME, RTO * 6)?;
        Ok((flow, port))
    })
}
