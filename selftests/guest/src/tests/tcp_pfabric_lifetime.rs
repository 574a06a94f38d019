// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long a pFabric connection lives: as long as any other of its namespace. Its timeouts are
//! fixed and many, and what Linux ends connections by is time: `tcp_retries2`,
//! `tcp_orphan_retries`, keepalive, and what applications say.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};

use super::tcp_pfabric::{JIFFY, MODULE, NAME, RTO, SLACK, info, port, set, silences};
use super::tcp_pfabric_handshake::deaf;
use crate::flow::{Flow, blacked_out, counter, get_tcp, outage, set_tcp};
use crate::modules;
use crate::port::{LINK, Port};
use weft_ktap::{Context, tests};

tests![
    a_socket_has_linuxs_limits_and_no_hidden_ones,
    #[exact = "judges when segments are sent"]
    any_number_of_timeouts_is_equally_long_and_all_data_arrives,
    the_counter_of_ss_does_not_wrap,
    #[exact = "judges when segments are sent"]
    a_connection_without_answers_ends_after_tcp_retries2,
    #[exact = "takes a quarter of an hour"]
    #[once]
    by_default_a_connection_waits_for_a_quarter_of_an_hour,
    a_silent_peer_is_given_up_after_the_keepalive_probes,
    #[exact = "takes three quarters of an hour"]
    #[once]
    a_receiver_that_answers_with_a_closed_window_is_waited_for,
    #[exact = "takes three quarters of an hour"]
    #[once]
    a_window_that_closes_over_data_in_flight_is_probed_as_linux_does,
    orphans_end_after_tcp_orphan_retries_and_release_the_module,
    #[exact = "judges when segments are sent"]
    a_flow_whose_local_queue_refuses_its_first_packet_retries_after_a_timeout,
    a_flow_whose_local_queue_refuses_everything_ends_as_with_reno,
];

/// `TCP_RTO_MAX_MS` (include/uapi/linux/tcp.h).
const TCP_RTO_MAX_MS: i32 = 44;

/// The shortest timeout, with 250 jiffies a second.
const SHORTEST: Duration = Duration::from_millis(12);

/// Waits until an application would learn that its connection has ended; returns after how long.
fn end(sender: &TcpStream, patience: Duration) -> Result<Option<(Duration, i32)>> {
    let start = Instant::now();
    while start.elapsed() < patience {
        if let Some(error) = sender.take_error()? {
            return Ok(Some((start.elapsed(), error.raw_os_error().unwrap_or(0))));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(None)
}

fn ended(sender: &TcpStream, patience: Duration) -> Result<Duration> {
    let (time, error) = end(sender, patience)?.context("it did not end")?;
    ensure!(error == libc::ETIMEDOUT, "it ended with error {error}");
    Ok(time)
}

fn a_socket_has_linuxs_limits_and_no_hidden_ones(_: &Context) -> Result<()> {
    let port = port("15ms")?;
    let flow = Flow::open(&port, NAME)?;
    for timeouts in [false, true] {
        if timeouts {
            outage(&port, true)?;
            flow.write(10_000)?;
            std::thread::sleep(RTO * 10);
        }
        let patience = get_tcp(&flow.sender, libc::TCP_USER_TIMEOUT)?;
        ensure!(patience == 0, "TCP_USER_TIMEOUT is {patience}");
        let longest = get_tcp(&flow.sender, TCP_RTO_MAX_MS)?;
        ensure!(longest == 120_000, "TCP_RTO_MAX_MS is {longest}");
    }
    outage(&port, false)?;
    flow.read(10_000)
}

fn any_number_of_timeouts_is_equally_long_and_all_data_arrives(cx: &Context) -> Result<()> {
    // A counter of a byte has wrapped by the last.
    for count in [63, 300, 600] {
        let port = port("5ms")?;
        set(&port, "rto_us", 1)?;
        let mut flow = blacked_out(&port, NAME, SHORTEST * (count + 1))?;
        let timeouts = info(&flow)?.timeouts;
        ensure!(timeouts >= count - 1, "{timeouts} timeouts of {count}");
        let silences = silences(&flow.data()?);
        let longest = silences.iter().max().context("no timeout")?;
        cx.note(format!("{timeouts} timeouts, the longest {longest:?}"));
        for (place, silence) in silences.iter().enumerate().skip(1) {
            let off = silence.abs_diff(SHORTEST);
            ensure!(off <= SLACK, "timeout {place} came after {silence:?}");
        }
        outage(&port, false)?;
        flow.read(60_000)?;
    }
    Ok(())
}

fn the_counter_of_ss_does_not_wrap(cx: &Context) -> Result<()> {
    let port = port("5ms")?;
    set(&port, "rto_us", 1)?;
    let flow = blacked_out(&port, NAME, SHORTEST * 100)?;
    let mut last = 0;
    for _ in 0..8 {
        std::thread::sleep(SHORTEST * 40);
        let text = port.near.command("ss", "-tnoH dst 10.0.0.2")?;
        let timer = text.split_once("timer:(on,").context("no timer")?.1;
        let retries: u32 = timer
            .split_once(')')
            .and_then(|(timer, _)| timer.rsplit_once(','))
            .context("no counter")?
            .1
            .parse()?;
        cx.note(format!("{retries} of {}", info(&flow)?.timeouts));
        ensure!(retries >= last, "{retries} after {last}: {text}");
        last = retries;
    }
    ensure!(last == 255, "{last} in the end");
    outage(&port, false)?;
    flow.read(60_000)
}

fn a_connection_without_answers_ends_after_tcp_retries2(cx: &Context) -> Result<()> {
    // A timeout below Linux's shortest, and one above: 200 ms.
    for rto_us in [45_000, 300_000] {
        for (retries, least) in [(3, 3000), (5, 12_600)] {
            let port = port("15ms")?;
            set(&port, "rto_us", rto_us)?;
            port.near
                .write_sysctl("net/ipv4/tcp_retries2", &retries.to_string())?;
            let flow = Flow::open(&port, NAME)?;
            outage(&port, true)?;
            flow.write(60_000)?;
            // (2^(n + 1) - 1) times 200 ms after the first packet was retransmitted, which is when
            // it was sent, to the next timeout.
            let time = ended(&flow.sender, Duration::from_secs(30))?;
            cx.note(format!("{rto_us} µs, {retries} retries: {time:?}"));
            let least = Duration::from_millis(least);
            let most =
                least + Duration::from_micros(rto_us.into()) * 2 + Duration::from_millis(100);
            ensure!((least..most).contains(&time), "it ended after {time:?}");
        }
    }
    Ok(())
}

fn by_default_a_connection_waits_for_a_quarter_of_an_hour(cx: &Context) -> Result<()> {
    let port = port("15ms")?;
    set(&port, "rto_us", 1_000_000)?;
    let flow = Flow::open(&port, NAME)?;
    outage(&port, true)?;
    flow.write(60_000)?;
    // ip-sysctl: "a hypothetical timeout of 924.6 seconds and is a lower bound".
    std::thread::sleep(Duration::from_secs(924));
    let error = flow.sender.take_error()?;
    ensure!(error.is_none(), "ended too early: {error:?}");
    let time = ended(&flow.sender, Duration::from_secs(30))?;
    cx.note(format!("924 s and {time:?}"));
    ensure!(time < Duration::from_secs(4), "it ended {time:?} later");
    Ok(())
}

fn a_silent_peer_is_given_up_after_the_keepalive_probes(cx: &Context) -> Result<()> {
    let port = port("15ms")?;
    let mut times = Vec::new();
    for name in ["reno", NAME] {
        let flow = Flow::open(&port, name)?;
        flow.write(10_000)?;
        flow.read(10_000)?;
        setsockopt(&flow.sender, sockopt::KeepAlive, &true)?;
        for (option, value) in [
            (libc::TCP_KEEPIDLE, 2),
            (libc::TCP_KEEPINTVL, 1),
            (libc::TCP_KEEPCNT, 3),
        ] {
            set_tcp(&flow.sender, option, value)?;
        }
        outage(&port, true)?;
        times.push(ended(&flow.sender, Duration::from_secs(60))?);
        outage(&port, false)?;
    }
    cx.note(format!("{times:?}"));
    let off = times[0].abs_diff(times[1]);
    ensure!(off <= Duration::from_secs(1), "{times:?}");
    Ok(())
}

/// A flow whose receiver reads nothing for a while, and then all; returns the packets that were
/// sent while its window was closed.
fn closed_for(time: Duration, name: &'static str) -> Result<usize> {
    const BYTES: usize = 1_000_000;
    let port = port("15ms")?;
    let mut flow = Flow::open(&port, name)?;
    let writer = flow.sender.try_clone()?;
    let writer = std::thread::spawn(move || -> Result<()> {
        (&writer).write_all(&vec![7; BYTES])?;
        writer.shutdown(Shutdown::Write)?;
        Ok(())
    });
    std::thread::sleep(Duration::from_secs(5));
    let (near, before) = (flow.near, flow.segments()?.len());
    std::thread::sleep(time);
    let later = &flow.segments()?[before..];
    let packets = later.iter().filter(|it| it.from == near).count();
    let mut data = Vec::new();
    flow.receiver
        .set_read_timeout(Some(Duration::from_secs(200)))?;
    let mut receiver = &flow.receiver;
    receiver.read_to_end(&mut data).context("reading")?;
    writer.join().expect("the writer does not panic")?;
    ensure!(data.len() == BYTES, "{} bytes arrived", data.len());
    let closed = counter(&port.far, "TCPToZeroWindowAdv")?;
    ensure!(closed > 0, "the window never closed");
    Ok(packets)
}

/// The same where the window closes over 10,000 bytes that are in flight.
fn closed_over_for(time: Duration, name: &'static str) -> Result<usize> {
    let port = port("15ms")?;
    // The receiver may take back what it has offered, as its memory gets short.
    port.far.write_sysctl("net/ipv4/tcp_shrink_window", "1")?;
    let mut flow = Flow::open(&port, name)?;
    deaf(&port, true)?;
    flow.write(10_000)?;
    setsockopt(&flow.receiver, sockopt::RcvBuf, &1)?;
    (&flow.receiver).write_all(&[1])?;
    std::thread::sleep(Duration::from_millis(30));
    deaf(&port, false)?;
    std::thread::sleep(Duration::from_secs(5));
    let text = port.near.command("ss", "-tin dst 10.0.0.2")?;
    ensure!(
        text.contains(" unacked:7 ") && !text.contains(" snd_wnd:"),
        "the window did not close over what is out: {text}"
    );
    let (near, before) = (flow.near, flow.segments()?.len());
    std::thread::sleep(time);
    let later = &flow.segments()?[before..];
    let packets = later.iter().filter(|it| it.from == near).count();
    setsockopt(&flow.receiver, sockopt::RcvBuf, &200_000)?;
    flow.receiver
        .set_read_timeout(Some(Duration::from_secs(200)))?;
    let mut receiver = &flow.receiver;
    receiver.read_exact(&mut [0; 10_000]).context("reading")?;
    Ok(packets)
}

/// It is asked as often by a flow of ours as by one of reno's, for longer than half an hour.
fn is_waited_for(
    cx: &Context,
    closed_for: impl Fn(Duration, &'static str) -> Result<usize>,
) -> Result<()> {
    let time = Duration::from_secs(1900);
    let own = closed_for(time, NAME)?;
    let reno = closed_for(Duration::from_secs(900), "reno")?;
    cx.note(format!("{own} packets in {time:?}; reno: {reno} in 900 s"));
    // Linux's probes are two minutes apart in the end.
    ensure!(
        reno >= 7 && own.abs_diff(reno + 1000 / 120) <= 3,
        "they are not as reno's"
    );
    Ok(())
}

fn a_receiver_that_answers_with_a_closed_window_is_waited_for(cx: &Context) -> Result<()> {
    is_waited_for(cx, closed_for)
}

fn a_window_that_closes_over_data_in_flight_is_probed_as_linux_does(cx: &Context) -> Result<()> {
    is_waited_for(cx, closed_over_for)
}

/// How long a closed socket stays whose peer is gone.
fn orphan(port: &Port, name: &'static str) -> Result<Duration> {
    let flow = Flow::open(port, name)?;
    outage(port, true)?;
    flow.write(60_000)?;
    std::thread::sleep(RTO);
    let start = Instant::now();
    drop(flow);
    let time = loop {
        let sockets = port.near.command("ss", "-tanH")?;
        if sockets.trim().is_empty() {
            break start.elapsed();
        }
        ensure!(
            start.elapsed() < Duration::from_secs(120),
            "still there after {:?}: {sockets}",
            start.elapsed()
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    outage(port, false)?;
    Ok(time)
}

fn orphans_end_after_tcp_orphan_retries_and_release_the_module(cx: &Context) -> Result<()> {
    for (retries, reno_at_most) in [("1", Duration::from_secs(2)), ("2", Duration::from_secs(4))] {
        let port = port("15ms")?;
        port.near
            .write_sysctl("net/ipv4/tcp_orphan_retries", retries)?;
        let reno = orphan(&port, "reno")?;
        let own = orphan(&port, NAME)?;
        cx.note(format!("{retries} retries: reno {reno:?}, {NAME} {own:?}"));
        ensure!(reno <= reno_at_most, "reno's stays for {reno:?}");
        ensure!(
            own <= reno + Duration::from_millis(200),
            "{own:?}, and reno's {reno:?}"
        );
    }
    modules::remove_when_unused(MODULE)
}

/// The near end's queue takes nothing, or again everything.
fn refuse(port: &Port, on: bool) -> Result<()> {
    let words = if on {
        format!("qdisc replace dev {LINK} root handle 1: pfifo limit 0")
    } else {
        format!("qdisc del dev {LINK} root")
    };
    port.near.command("tc", &words)?;
    Ok(())
}

fn a_flow_whose_local_queue_refuses_its_first_packet_retries_after_a_timeout(
    cx: &Context,
) -> Result<()> {
    let port = port("15ms")?;
    // Linux asks after 200 ms, then each 500 ms.
    for refused in [RTO * 3, RTO * 40] {
        let mut flow = Flow::open(&port, NAME)?;
        refuse(&port, true)?;
        flow.write(60_000)?;
        std::thread::sleep(refused);
        let error = flow.sender.take_error()?;
        ensure!(error.is_none(), "given up: {error:?}");
        let _ = flow.segments()?;
        refuse(&port, false)?;
        let start = Instant::now();
        flow.read(60_000)?;
        let time = start.elapsed();
        cx.note(format!("refused for {refused:?}; then it took {time:?}"));
        // A timeout, and two or three rounds of 15 ms for 42 packets.
        ensure!(
            time < RTO + JIFFY * 2 + Duration::from_millis(60),
            "the first packet was not sent within a timeout: {time:?}"
        );
    }
    Ok(())
}

fn a_flow_whose_local_queue_refuses_everything_ends_as_with_reno(cx: &Context) -> Result<()> {
    let port = port("15ms")?;
    let mut times = Vec::new();
    for name in ["reno", NAME] {
        let flow = Flow::open(&port, name)?;
        refuse(&port, true)?;
        flow.write(60_000)?;
        times.push(ended(&flow.sender, Duration::from_secs(60))?);
        refuse(&port, false)?;
    }
    cx.note(format!("{times:?}"));
    let off = times[0].abs_diff(times[1]);
    ensure!(off <= Duration::from_secs(1), "{times:?}");
    Ok(())
}
