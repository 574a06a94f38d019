// SPDX-License-Identifier: MIT OR Apache-2.0

//! A PASE host and the arbitrator of its own link on real sockets, judged by what is on the link.
//!
//! A flow is put into a lower queue by others that are ahead of it: short ones to an address that
//! is gone, which never end. What is known of a flow's size is what it has written, and of that its
//! first packet may be all when it asks.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use crate::capture::Segment;
use crate::flow::{
    Flow, blacked_out, cubic_is_untouched_by, outage, settings_have_ranges, shown_by_ss, shows,
    stays_while_sockets_use_it, tell_unreachable, without_ecn_nothing_can_be_marked,
};
use crate::modules;
use crate::port::{LINK, Port};
use crate::transfer::{Connection, Plan};
use weft_ktap::{Context, tests};

tests![
    a_flow_alone_starts_with_the_reference_rate_times_the_rtt_in_the_top_queue,
    if_all_packets_are_marked_the_window_is_halved_each_round_trip_time,
    #[exact = "judges when segments are sent"]
    in_the_lowest_queue_one_packet_is_sent_per_round_trip_time,
    in_an_intermediate_queue_the_window_grows_by_one_per_round_trip_time,
    without_ecn_no_packet_can_be_marked,
    #[exact = "judges when segments are sent"]
    without_ecn_a_loss_counts_as_a_mark,
    over_ipv6_a_socket_gets_back_its_own_class,
    a_flow_that_becomes_the_shortest_moves_to_the_top,
    without_the_guard_it_sends_there_before_earlier_packets_are_acknowledged,
    #[exact = "judges when segments are sent"]
    no_packet_overtakes_another_in_200_promotions,
    #[exact = "judges when segments are sent"]
    #[once]
    no_packet_overtakes_another_in_1000_promotions,
    a_timeout_in_a_lower_queue_sends_headers_until_one_is_answered,
    #[exact = "judges when segments are sent"]
    a_timeout_that_an_icmp_message_clocks_out_sends_headers_too,
    #[exact = "judges when segments are sent"]
    a_packet_that_only_waited_is_not_retransmitted,
    without_probing_a_timeout_in_a_lower_queue_sends_the_packet,
    a_timeout_in_the_top_queue_sends_the_packet,
    a_socket_that_changes_to_another_control_gets_back_its_own_class,
    settings_out_of_range_are_refused,
    #[exact = "judges when segments are sent"]
    ss_shows_its_state,
    #[exact = "judges when segments are sent"]
    a_cubic_flow_in_another_namespace_is_untouched,
    the_module_stays_while_sockets_use_it,
];

const MODULE: &str = "tcp_pase";
const NAME: &str = "pase";

/// 12 packets of 1500 bytes in 40 ms.
const RATE_KBIT: u32 = 3_600;
const RTT: Duration = Duration::from_millis(40);
/// Long enough for a timeout.
const OUTAGE: Duration = Duration::from_millis(500);
const WINDOW: usize = 12;

/// Whom the flows ahead send to.
const GONE_IP: [u8; 4] = [10, 0, 0, 3];

/// Less than a packet.
const FEW: usize = 1_000;

/// ECN-capable, as all packets of a flow are.
const ECT_0: u8 = 2;

/// A link whose far end acknowledges each packet after an RTT.
fn port(queues: u32) -> Result<Port> {
    modules::load(MODULE)?;
    let port = Port::acknowledging(&format!("delay {}ms", RTT.as_millis()))?;
    for end in [&port.near, &port.far] {
        // No tail loss probe asks for what is late; each probe is answered.
        end.write_sysctl("net/ipv4/tcp_early_retrans", "0")?;
        end.write_sysctl("net/ipv4/tcp_invalid_ratelimit", "0")?;
    }
    for (name, value) in [
        ("rate_kbit", RATE_KBIT),
        ("rtt_us", RTT.as_micros() as u32),
        ("packet_bytes", 1500),
        ("queues", queues),
        ("lifetime_us", u32::MAX),
    ] {
        set(&port, name, value)?;
    }
    Ok(port)
}

/// The far end has a congestion control by which it tells of marks.
fn with_ecn(port: &Port, far: &str) -> Result<()> {
    port.far.ip(&format!(
        "route change 10.0.0.0/24 dev {LINK} congctl {far} quickack 1 initrwnd 1000"
    ))?;
    Ok(())
}

fn set(port: &Port, name: &str, value: u32) -> Result<()> {
    let name = format!("net/ipv4/tcp_pase/{name}");
    port.near.write_sysctl(&name, &value.to_string())
}

/// A flow ahead of all that have more than `bytes` bytes to send, which could fill the link: the
/// next one is in the queue below the top. It ends without a message.
fn ahead(port: &Port, bytes: usize) -> Result<Vec<(TcpStream, TcpStream)>> {
    let [a, b, c, d] = GONE_IP;
    let address = format!("{a}.{b}.{c}.{d}");
    port.near.ip(&format!(
        "neighbour add {address} lladdr 02:00:00:00:00:02 dev {LINK}"
    ))?;
    port.far
        .ip(&format!("address add {address}/24 dev {LINK}"))?;
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let connect = |number| -> Result<_> {
        let plan = Plan {
            congestion_control: Some(NAME),
            ..Plan::new((GONE_IP, 2000 + number), 0)
        };
        let ends = Connection::open(&port.near, &port.far, &plan)?.into_sockets();
        setsockopt(&ends.0, sockopt::Linger, &at_once)?;
        setsockopt(&ends.1, sockopt::Linger, &at_once)?;
        Ok(ends)
    };
    let connections: Vec<_> = (0..1_u16).map(connect).collect::<Result<_>>()?;
    port.far
        .ip(&format!("address del {address}/24 dev {LINK}"))?;
    for (sender, _) in &connections {
        let written = (&*sender).write(&vec![7; bytes])?;
        ensure!(written == bytes, "{written} bytes written");
    }
    Ok(connections)
}

/// The queue that a segment's code point stands for, from 1.
fn queue(segment: &Segment) -> u8 {
    (segment.tos >> 5) + 1
}

fn a_flow_alone_starts_with_the_reference_rate_times_the_rtt_in_the_top_queue(
    cx: &Context,
) -> Result<()> {
    let port = port(8)?;
    with_ecn(&port, "dctcp")?;
    let mut flow = Flow::open(&port, NAME)?;
    flow.write(60_000)?;
    flow.read(60_000)?;
    let data = flow.data()?;
    let start = data[0].time;
    let burst: Vec<&Segment> = data
        .iter()
        .take_while(|it| it.time < start + RTT.as_nanos() as u64 * 9 / 10)
        .collect();
    cx.note(format!("{} packets at first", burst.len()));
    ensure!(burst.len() == WINDOW, "{burst:?}");
    ensure!(data.iter().all(|it| it.tos == ECT_0), "{data:?}");
    Ok(())
}

fn in_the_lowest_queue_one_packet_is_sent_per_round_trip_time(cx: &Context) -> Result<()> {
    let port = port(2)?;
    let _ahead = ahead(&port, FEW)?;
    let mut flow = Flow::open(&port, NAME)?;
    flow.write(100_000)?;
    std::thread::sleep(20 * RTT + RTT / 2);
    let data = flow.data()?;
    cx.note(format!("{} packets in 20 round-trip times", data.len()));
    ensure!(data.len() == 21, "{} packets", data.len());
    ensure!(data.iter().all(|it| queue(it) == 2), "{data:?}");
    for pair in data.windows(2) {
        let after = Duration::from_nanos(pair[1].time - pair[0].time);
        ensure!(after >= RTT, "after {after:?}: {pair:?}");
    }
    Ok(())
}

/// α is 1, and stays so: equation 2 is a half. No acknowledgement without a mark gives anything
/// back. Both ends have it, as with DCTCP: the receiver tells of each mark.
fn if_all_packets_are_marked_the_window_is_halved_each_round_trip_time(cx: &Context) -> Result<()> {
    let port = port(8)?;
    with_ecn(&port, NAME)?;
    let mut flow = Flow::open(&port, NAME)?;
    port.tc(&format!(
        "qdisc add dev {LINK} root netem limit 10000 loss 100% ecn"
    ))?;
    flow.write(100_000)?;
    std::thread::sleep(7 * RTT + RTT / 2);
    let data = flow.data()?;
    let rounds = by_rtt(&data);
    cx.note(format!("packets in each round-trip time: {rounds:?}"));
    ensure!(rounds[..6] == [12, 6, 3, 2, 1, 1], "{rounds:?}");
    Ok(())
}

/// Packets by the round-trip time, from the first packet on, in which they were sent.
fn by_rtt(data: &[Segment]) -> Vec<usize> {
    let mut rounds = Vec::new();
    let Some(first) = data.first() else {
        return rounds;
    };
    let mut start = first.time;
    for segment in data {
        // A round is over when what was sent in it is answered.
        if rounds.is_empty() || segment.time - start >= RTT.as_nanos() as u64 {
            rounds.push(0);
            start = segment.time;
        }
        *rounds.last_mut().expect("there is one") += 1;
    }
    rounds
}

fn without_ecn_no_packet_can_be_marked(cx: &Context) -> Result<()> {
    without_ecn_nothing_can_be_marked(cx, &port(8)?, NAME)
}

/// Without guidance all flows are DCTCP's (§4.3.2). From 1 the window grows by one in a round-trip
/// time: 600 packets would take some 34 of them, the last one of 34 packets.
fn without_ecn_a_loss_counts_as_a_mark(cx: &Context) -> Result<()> {
    let port = port(8)?;
    set(&port, "guided", 0)?;
    let mut flow = Flow::open(&port, NAME)?;
    port.tc(&format!(
        "qdisc add dev {LINK} root netem limit 10000 loss 2% seed 1"
    ))?;
    flow.transfer(600 * 1448)?;
    let rounds = by_rtt(&flow.data()?);
    let largest = rounds.iter().max().copied().unwrap_or(0);
    cx.note(format!("packets in each round-trip time: {rounds:?}"));
    ensure!((5..=20).contains(&largest), "{largest} in one");
    Ok(())
}

/// The header's class by IPv6 is another option's than by IPv4.
fn over_ipv6_a_socket_gets_back_its_own_class(_: &Context) -> Result<()> {
    const OWN: i32 = 0x20;
    modules::load(MODULE)?;
    let listener = TcpListener::bind("[::1]:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let class = |set: Option<i32>| -> Result<i32> {
        let (level, option) = (libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
        let mut value = set.unwrap_or(0);
        let mut size = size_of::<i32>() as libc::socklen_t;
        let (at, fd) = ((&raw mut value).cast(), near.as_raw_fd());
        // SAFETY: The kernel reads, or writes, at most the four bytes of `value`.
        let result = unsafe {
            match set {
                Some(_) => libc::setsockopt(fd, level, option, at, size),
                None => libc::getsockopt(fd, level, option, at, &raw mut size),
            }
        };
        Errno::result(result)?;
        Ok(value & !3)
    };
    class(Some(OWN))?;
    setsockopt(&near, sockopt::TcpCongestion, &NAME.into())?;
    let with = class(None)?;
    setsockopt(&near, sockopt::TcpCongestion, &"cubic".into())?;
    let after = class(None)?;
    ensure!(
        (with, after) == (0, OWN),
        "{with:#x} in the top queue, {after:#x} with cubic again"
    );
    Ok(())
}

fn in_an_intermediate_queue_the_window_grows_by_one_per_round_trip_time(
    cx: &Context,
) -> Result<()> {
    let port = port(8)?;
    let _ahead = ahead(&port, FEW)?;
    let mut flow = Flow::open(&port, NAME)?;
    flow.write(150_000)?;
    std::thread::sleep(8 * RTT + RTT / 2);
    let data = flow.data()?;
    let rounds = by_rtt(&data);
    cx.note(format!("packets in each round-trip time: {rounds:?}"));
    ensure!(data.iter().all(|it| queue(it) == 2), "{data:?}");
    ensure!(rounds[..7] == [1, 2, 3, 4, 5, 6, 7], "{rounds:?}");
    Ok(())
}

/// The connections ahead, and a flow that became shorter than theirs and has ended.
fn becomes_the_shortest(port: &Port) -> Result<(Vec<(TcpStream, TcpStream)>, Flow)> {
    let ahead = ahead(port, 30_000)?;
    let flow = Flow::open(port, NAME)?;
    flow.write(60_000)?;
    flow.read(60_000)?;
    std::thread::sleep(2 * RTT);
    Ok((ahead, flow))
}

fn a_flow_that_becomes_the_shortest_moves_to_the_top(cx: &Context) -> Result<()> {
    let port = port(8)?;
    let (_ahead, mut flow) = becomes_the_shortest(&port)?;
    let near = flow.near;
    let data = flow.data()?;
    let runs: Vec<_> = data.chunk_by(|a, b| queue(a) == queue(b)).collect();
    let queues: Vec<u8> = runs.iter().map(|run| queue(&run[0])).collect();
    // Until it has written more than the others, and since it has less to send than they.
    ensure!(queues == [1, 2, 1], "{queues:?}");
    let left: u32 = runs[2].iter().map(|it| it.len).sum();
    cx.note(format!("in the top queue again with {left} bytes left"));
    // It asks once in a round-trip time, in which it sends some packets.
    ensure!((10_000..=30_000).contains(&left), "{left} bytes");
    in_order(flow.segments()?, near)?;
    Ok(())
}

fn without_the_guard_it_sends_there_before_earlier_packets_are_acknowledged(
    _: &Context,
) -> Result<()> {
    let port = port(8)?;
    set(&port, "guard", 0)?;
    let (_ahead, mut flow) = becomes_the_shortest(&port)?;
    let near = flow.near;
    let (mut last, mut acked, mut unacknowledged) = (1, 0, Vec::new());
    for segment in flow.segments()? {
        if segment.to == near {
            acked = segment.ack;
        } else if segment.from == near && segment.len > 0 {
            if queue(segment) < last {
                unacknowledged.push(segment.seq.wrapping_sub(acked));
            }
            last = queue(segment);
        }
    }
    // It moves to the top once.
    ensure!(
        unacknowledged.len() == 1 && unacknowledged[0] > 0,
        "{unacknowledged:?} bytes"
    );
    Ok(())
}

/// Checks that what is sent in a higher queue than before follows what is acknowledged; how often
/// it was.
fn in_order(segments: &[Segment], near: ([u8; 4], u16)) -> Result<u32> {
    let (mut last, mut next, mut acked) = (1, None, None);
    let mut promotions = 0;
    for segment in segments {
        if segment.to == near {
            acked = Some(segment.ack);
        } else if segment.from == near && segment.len > 0 {
            ensure!(
                next.is_none_or(|next| next == segment.seq),
                "not in order: {segment:?}"
            );
            if queue(segment) < last {
                promotions += 1;
                ensure!(
                    acked == Some(segment.seq),
                    "{acked:?} is acknowledged: {segment:?}"
                );
            }
            (last, next) = (queue(segment), Some(segment.end()));
        }
    }
    Ok(promotions)
}

fn no_packet_overtakes_another_in_200_promotions(cx: &Context) -> Result<()> {
    none_overtakes_another(cx, 200)
}

fn no_packet_overtakes_another_in_1000_promotions(cx: &Context) -> Result<()> {
    none_overtakes_another(cx, 1_000)
}

/// Through a wire and strict priorities, under load, with one flow that goes up and down.
fn none_overtakes_another(cx: &Context, promoted: u32) -> Result<()> {
    /// More than are sent until it has gone up once, and down again.
    const BYTES: usize = 40_000;
    let bytes = BYTES * promoted as usize;
    let port = port(8)?;
    modules::load("sch_wire")?;
    port.tc(&format!(
        "qdisc add dev {LINK} root handle 1: wire rate 20mbit"
    ))?;
    port.tc(&format!(
        "qdisc add dev {LINK} parent 1: handle 10: prio bands 8 \
         priomap 0 1 2 3 4 5 6 7 7 7 7 7 7 7 7 7"
    ))?;
    let _ahead = ahead(&port, FEW)?;
    port.far.command(
        "tc",
        &format!("qdisc change dev {LINK} root handle 1: netem limit 10000 delay 4ms"),
    )?;
    let mut flow = Flow::open(&port, NAME)?;
    let (promotions, late) = std::thread::scope(|scope| -> Result<_> {
        let transfer = scope.spawn(|| flow.transfer(bytes));
        let mut up = false;
        while !transfer.is_finished() {
            // One queue only is the top one.
            up = !up;
            set(&port, "queues", if up { 1 } else { 8 })?;
            std::thread::sleep(Duration::from_millis(25));
        }
        transfer.join().expect("the transfer does not panic")?;
        Ok(())
    })
    .and_then(|()| {
        let near = flow.near;
        let segments = flow.segments()?;
        let late = crate::flow::counter(&port.far, "TCPOFOQueue")?;
        Ok((in_order(segments, near)?, late))
    })?;
    cx.note(format!("{promotions} promotions, {late} segments late"));
    ensure!(promotions >= promoted, "{promotions} promotions");
    ensure!(late == 0, "{late} segments out of order");
    Ok(())
}

/// What a flow sent, after some time, without data though it had some.
fn headers(flow: &mut Flow, from: u64) -> Result<Vec<Segment>> {
    let near = flow.near;
    let segments = flow.segments()?.iter().copied();
    Ok(segments
        .filter(|it| it.from == near && it.len == 0 && !it.syn && it.time >= from)
        .collect())
}

fn a_timeout_in_a_lower_queue_sends_headers_until_one_is_answered(cx: &Context) -> Result<()> {
    let port = port(8)?;
    let _ahead = ahead(&port, FEW)?;
    let mut flow = Flow::open(&port, NAME)?;
    outage(&port, true)?;
    flow.write(100_000)?;
    std::thread::sleep(Duration::from_secs(3));
    let data = flow.data()?;
    let first = *data.first().context("nothing was sent")?;
    let probes = headers(&mut flow, first.time)?;
    cx.note(format!("{} probes", probes.len()));
    ensure!(data.len() == 1, "retransmitted: {data:?}");
    ensure!(probes.len() >= 3, "{probes:?}");
    for probe in &probes {
        ensure!(
            probe.end().wrapping_add(1) == first.seq && queue(probe) == 2,
            "{probe:?}"
        );
    }
    // "We increase our timeout value (and resend another probe)."
    for three in probes.windows(3) {
        let [one, two] = [0, 1].map(|at| three[at + 1].time - three[at].time);
        ensure!(two > one + one / 2, "{one} ns, then {two} ns");
    }
    outage(&port, false)?;
    flow.read(100_000)?;
    let data = flow.data()?;
    let again = data.iter().filter(|it| it.seq == first.seq).count();
    ensure!(again == 2, "the first packet was sent {again} times");
    let answered = headers(&mut flow, first.time)?;
    ensure!(answered.len() > probes.len(), "{answered:?}");
    let (_, [_, told, _]) = flow.info()?;
    ensure!(told as usize == answered.len(), "it tells of {told} probes");
    Ok(())
}

/// After a timeout, a message that the peer cannot be reached has the kernel take back the
/// doubling, and send at once if that has passed (RFC 6069).
fn a_timeout_that_an_icmp_message_clocks_out_sends_headers_too(_: &Context) -> Result<()> {
    let port = port(8)?;
    let _ahead = ahead(&port, FEW)?;
    let mut flow = Flow::open(&port, NAME)?;
    outage(&port, true)?;
    flow.write(100_000)?;
    // The first timeout is after some 240 ms, the next would be after twice as much again.
    std::thread::sleep(Duration::from_millis(560));
    let first = flow.data()?[0];
    let probes = headers(&mut flow, first.time)?;
    ensure!(probes.len() == 1, "before the message: {probes:?}");
    tell_unreachable(&port, &first)?;
    std::thread::sleep(2 * RTT);
    let (data, probes) = (flow.data()?, headers(&mut flow, first.time)?);
    ensure!(data.len() == 1, "retransmitted: {data:?}");
    ensure!(probes.len() == 2, "after the message: {probes:?}");
    let (_, [_, told, _]) = flow.info()?;
    ensure!(told == 2, "it tells of {told} probes");
    outage(&port, false)?;
    flow.read(100_000)
}

fn a_packet_that_only_waited_is_not_retransmitted(cx: &Context) -> Result<()> {
    let port = port(8)?;
    let _ahead = ahead(&port, FEW)?;
    let mut flow = Flow::open(&port, NAME)?;
    flow.write(20 * 1448)?;
    std::thread::sleep(2 * RTT);
    // Whatever comes back now comes late.
    port.far.command(
        "tc",
        &format!("qdisc change dev {LINK} root handle 1: netem limit 10000 delay 700ms"),
    )?;
    flow.write(100_000)?;
    std::thread::sleep(Duration::from_secs(2));
    let data = flow.data()?;
    let probes = headers(&mut flow, data[0].time)?;
    cx.note(format!("{} packets, {} probes", data.len(), probes.len()));
    ensure!(!probes.is_empty(), "there was no timeout");
    for pair in data.windows(2) {
        ensure!(pair[0].end() == pair[1].seq, "retransmitted: {pair:?}");
    }
    Ok(())
}

fn without_probing_a_timeout_in_a_lower_queue_sends_the_packet(_: &Context) -> Result<()> {
    let port = port(8)?;
    set(&port, "probing", 0)?;
    let _ahead = ahead(&port, FEW)?;
    let mut flow = Flow::open(&port, NAME)?;
    outage(&port, true)?;
    flow.write(100_000)?;
    std::thread::sleep(Duration::from_secs(1));
    let data = flow.data()?;
    ensure!(data.len() >= 2, "nothing was retransmitted: {data:?}");
    let first = data[0].seq;
    ensure!(
        data.iter().all(|it| it.seq == first && queue(it) == 2),
        "{data:?}"
    );
    let probes = headers(&mut flow, data[0].time)?;
    ensure!(probes.is_empty(), "{probes:?}");
    outage(&port, false)?;
    flow.read(100_000)?;
    let (_, [_, probes, _]) = flow.info()?;
    ensure!(probes == 0, "it tells of {probes} probes");
    Ok(())
}

fn a_timeout_in_the_top_queue_sends_the_packet(_: &Context) -> Result<()> {
    let port = port(8)?;
    let mut flow = Flow::open(&port, NAME)?;
    outage(&port, true)?;
    flow.write(1_000)?;
    std::thread::sleep(Duration::from_secs(1));
    outage(&port, false)?;
    flow.read(1_000)?;
    let data = flow.data()?;
    ensure!(data.len() >= 2, "{data:?}");
    ensure!(
        data.iter()
            .all(|it| it.seq == data[0].seq && queue(it) == 1)
    );
    let (_, [_, probes, _]) = flow.info()?;
    ensure!(probes == 0, "{probes} probes");
    Ok(())
}

fn a_socket_that_changes_to_another_control_gets_back_its_own_class(_: &Context) -> Result<()> {
    const TOS: i32 = 0x48;
    let port = port(8)?;
    let _ahead = ahead(&port, FEW)?;
    let mut flow = Flow::open(&port, "reno")?;
    setsockopt(&flow.sender, sockopt::Ipv4Tos, &TOS)?;
    setsockopt(&flow.sender, sockopt::TcpCongestion, &NAME.into())?;
    flow.write(50_000)?;
    std::thread::sleep(2 * RTT);
    setsockopt(&flow.sender, sockopt::TcpCongestion, &"reno".into())?;
    flow.read(50_000)?;
    let data = flow.data()?;
    ensure!(queue(&data[0]) == 2, "{:?}", data[0]);
    let last = data[data.len() - 1];
    ensure!(i32::from(last.tos & !3) == TOS, "{last:?}");
    Ok(())
}

fn settings_out_of_range_are_refused(_: &Context) -> Result<()> {
    settings_have_ranges(
        MODULE,
        &[
            ("rate_kbit", "1000000", ["1", "4294967295"], ["0", "-1"]),
            ("queues", "8", ["1", "8"], ["0", "9"]),
            ("lifetime_us", "1000000", ["1", "4294967295"], ["0", "-1"]),
            ("criterion", "0", ["1", "2"], ["3", "-1"]),
            ("rtt_us", "250", ["1", "120000000"], ["0", "120000001"]),
            ("packet_bytes", "1538", ["64", "65535"], ["63", "65536"]),
            ("guided", "1", ["1", "0"], ["2", "-1"]),
            ("ask_queues", "0", ["1", "8"], ["9", "-1"]),
            ("probing", "1", ["1", "0"], ["2", "-1"]),
            ("guard", "1", ["1", "0"], ["2", "-1"]),
        ],
    )
}

fn ss_shows_its_state(cx: &Context) -> Result<()> {
    let port = port(8)?;
    let flow = Flow::open(&port, NAME)?;
    flow.write(100_000)?;
    // ss takes half of what is left until the first acknowledgement.
    std::thread::sleep(RTT / 8);
    let line = shown_by_ss(cx, &port)?;
    let expected = format!("dctcp:(ce_state:1,alpha:{RATE_KBIT},ab_ecn:0,ab_tot:1024)");
    shows(&line, &["pase ", " cwnd:12 ", &expected])?;
    flow.read(100_000)?;
    Ok(())
}

fn a_cubic_flow_in_another_namespace_is_untouched(cx: &Context) -> Result<()> {
    cubic_is_untouched_by(cx, MODULE, || {
        let busy = port(8)?;
        let flow = blacked_out(&busy, NAME, OUTAGE)?;
        Ok((flow, busy))
    })
}

fn the_module_stays_while_sockets_use_it(_: &Context) -> Result<()> {
    stays_while_sockets_use_it(MODULE, || {
        let port = port(8)?;
        port.near.ip(&format!(
            "route change 10.0.0.0/24 dev {LINK} congctl {NAME} quickack 1"
        ))?;
        let flow = blacked_out(&port, NAME, OUTAGE)?;
        Ok((flow, port))
    })
}
