// SPDX-License-Identifier: MIT OR Apache-2.0

//! A packet on the wire belongs to its socket until its last bit has left, and not until it
//! arrives: else every long wire would throttle TCP (small queues) and UDP (`SO_SNDBUF`).

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{TimestampingFlag, setsockopt, sockopt};
use weft_mechanisms::wire::options::Options;

use crate::clock;
use crate::flow::counter;
use crate::netlink::Handle;
use crate::packets::time_stamp;
use crate::port::{FAR_IP, NEAR_IP, Port, QUIET, rate};
use crate::transfer::{Connection, Plan};
use weft_ktap::{Context, tests};

tests![
    a_packet_counts_against_its_socket_until_its_serialization_ends,
    #[exact = "judges how long packets take"]
    packets_in_flight_do_not_fill_a_send_buffer,
    queued_packets_fill_a_send_buffer,
    #[exact = "judges how long packets take"]
    tcp_fills_a_long_wire,
    #[exact = "judges when packets arrive"]
    packets_are_time_stamped_when_the_device_sends_them,
    tcp_retransmits_a_segment_that_is_on_the_wire,
];

nix::ioctl_read_bad!(
    /// Bytes of memory that a socket's packets still take.
    siocoutq,
    libc::TIOCOUTQ,
    libc::c_int
);

fn unsent(socket: &UdpSocket) -> Result<u32> {
    let mut bytes = 0;
    // SAFETY: SIOCOUTQ writes one int.
    unsafe { siocoutq(socket.as_raw_fd(), &raw mut bytes) }.context("SIOCOUTQ")?;
    Ok(u32::try_from(bytes)?)
}

const WIRE: Handle = Handle::new(1, 0);
/// 8 Mbit/s: a byte each microsecond.
const RATE: u64 = 8_000_000;
const LONG: Duration = Duration::from_secs(1);
/// A datagram that makes a frame of 1000 bytes, which takes 1 ms.
const DATAGRAM: [u8; 1000 - 42] = [0; 1000 - 42];

struct Setting {
    port: Port,
    sender: UdpSocket,
    receiver: UdpSocket,
}

fn setting() -> Result<Setting> {
    let mut port = Port::new()?;
    let delay = Some(LONG.as_nanos() as u64);
    port.add_wire(
        Handle::ROOT,
        WIRE,
        &Options {
            delay,
            ..rate(RATE)
        },
    )?;
    let near = SocketAddr::from((NEAR_IP, 1000));
    let far = SocketAddr::from((FAR_IP, 1000));
    let sender = port.near.enter(|| UdpSocket::bind(near))??;
    let receiver = port.far.enter(|| UdpSocket::bind(far))??;
    sender.connect(far)?;
    setsockopt(&receiver, sockopt::RcvBufForce, &(16 << 20))?;
    receiver.set_nonblocking(true)?;
    std::thread::sleep(QUIET);
    Ok(Setting {
        port,
        sender,
        receiver,
    })
}

fn received(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
}

fn a_packet_counts_against_its_socket_until_its_serialization_ends(_: &Context) -> Result<()> {
    const PACKETS: u32 = 5;
    let Setting {
        mut port,
        sender,
        receiver,
    } = setting()?;
    ensure!(unsent(&sender)? == 0);
    let start = clock::monotonic();
    for _ in 0..PACKETS {
        sender.send(&DATAGRAM)?;
    }
    let all = unsent(&sender)?;
    ensure!(
        all >= PACKETS * 1000,
        "{all} bytes count for {PACKETS} packets"
    );
    // The one being serialized counts, too.
    for gone in 1..=PACKETS {
        clock::sleep_until(start + u64::from(gone) * 1_000_000 + 500_000)?;
        let (left, now) = (PACKETS - gone, unsent(&sender)?);
        ensure!(
            now == all / PACKETS * left,
            "{now} bytes count, of {all}, with {left} to be sent"
        );
    }
    let (_, stats) = port.wire(WIRE)?;
    ensure!(stats.in_flight == PACKETS, "{stats:?}");
    ensure!(received(&receiver) == 0, "a packet arrived too early");
    std::thread::sleep(LONG);
    ensure!(received(&receiver) == PACKETS as usize, "not all arrived");
    Ok(())
}

/// A send buffer for about three datagrams, given as the kernel counts memory.
fn three_datagrams(socket: &UdpSocket) -> Result<()> {
    let before = unsent(socket)?;
    socket.send(&DATAGRAM)?;
    let one = unsent(socket)? - before;
    // The kernel doubles the value that it is given.
    setsockopt(socket, sockopt::SndBuf, &(one as usize * 3 / 2)).context("SO_SNDBUF")
}

fn packets_in_flight_do_not_fill_a_send_buffer(cx: &Context) -> Result<()> {
    const PACKETS: u32 = 300;
    let Setting {
        port: _port,
        sender,
        receiver,
    } = setting()?;
    three_datagrams(&sender)?;
    let start = Instant::now();
    for _ in 0..PACKETS {
        sender.send(&DATAGRAM)?;
    }
    // All but the last three have left, 1 ms each. Were the ones in flight to count, three could
    // be sent in each second.
    let took = start.elapsed();
    cx.note(format!("{PACKETS} packets of 1 ms took {took:?}"));
    let ideal = Duration::from_millis(u64::from(PACKETS));
    ensure!(
        took < ideal + Duration::from_millis(5),
        "{PACKETS} packets of 1 ms took {took:?}"
    );
    ensure!(
        took > ideal - Duration::from_millis(5),
        "sent faster than the wire takes them: {took:?}"
    );
    std::thread::sleep(2 * LONG);
    ensure!(
        received(&receiver) == PACKETS as usize + 1,
        "not all arrived"
    );
    Ok(())
}

fn queued_packets_fill_a_send_buffer(_: &Context) -> Result<()> {
    let Setting {
        port: _port,
        sender,
        receiver,
    } = setting()?;
    three_datagrams(&sender)?;
    sender.set_nonblocking(true)?;
    let sent = (0..100)
        .take_while(|_| sender.send(&DATAGRAM).is_ok())
        .count();
    ensure!(
        (1..=4).contains(&sent),
        "{sent} packets fit in a buffer for three"
    );
    // Once they have left there is room again, long before they arrive.
    std::thread::sleep(Duration::from_millis(10));
    ensure!(
        unsent(&sender)? == 0 && sender.send(&DATAGRAM).is_ok(),
        "no room"
    );
    ensure!(received(&receiver) == 0, "a packet arrived too early");
    Ok(())
}

fn tcp_fills_a_long_wire(cx: &Context) -> Result<()> {
    // 100 Mbit/s and 200 ms: 2.5 MB in flight.
    const BITS: u64 = 100_000_000;
    const BYTES: usize = 20_000_000;
    let mut port = Port::new()?;
    let options = Options {
        delay: Some(200_000_000),
        ..rate(BITS)
    };
    port.add_wire(Handle::ROOT, WIRE, &options)?;
    port.tc("qdisc add dev {v} parent 1:1 handle 2: pfifo limit 10000")?;
    port.near
        .write_sysctl("net/ipv4/tcp_wmem", "4096 16000000 16000000")?;
    port.far
        .write_sysctl("net/ipv4/tcp_rmem", "4096 16000000 16000000")?;
    let plan = Plan::new((FAR_IP, 1000), BYTES);
    let took = Connection::open(&port.near, &port.far, &plan)?
        .start()
        .finish()?;
    // Handshake, slow start from 10 segments to 2.5 MB (8 round trips), then at the wire's rate.
    let ideal = Duration::from_secs_f64((BYTES as u64 * 8) as f64 / BITS as f64);
    cx.note(format!(
        "{BYTES} bytes took {took:?}; at the bare rate {ideal:?}"
    ));
    ensure!(
        took < ideal + Duration::from_millis(9 * 200),
        "{BYTES} bytes took {took:?}"
    );
    Ok(())
}

/// Asks for the time at which the device sends each packet (`SOF_TIMESTAMPING_TX_SOFTWARE`).
fn stamp_transmissions(socket: &impl AsFd) -> Result<()> {
    let wanted = TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    setsockopt(socket, sockopt::Timestamping, &wanted).context("SO_TIMESTAMPING")
}

fn packets_are_time_stamped_when_the_device_sends_them(_: &Context) -> Result<()> {
    let Setting { port, sender, .. } = setting()?;
    let listener = port
        .far
        .enter(|| TcpListener::bind(SocketAddr::from((FAR_IP, 2000))))??;
    let mut stream = port
        .near
        .enter(|| TcpStream::connect(SocketAddr::from((FAR_IP, 2000))))??;
    stream.set_nodelay(true)?;
    // Its ACK has left the wire.
    std::thread::sleep(3 * LONG);
    stamp_transmissions(&sender)?;
    stamp_transmissions(&stream)?;
    for (name, tcp) in [("UDP", false), ("TCP", true)] {
        let start = clock::realtime();
        match tcp {
            // 66 bytes of headers, with TCP's own time stamps.
            true => stream.write_all(&[0; 1000 - 66])?,
            false => ensure!(sender.send(&DATAGRAM)? == DATAGRAM.len()),
        }
        std::thread::sleep(2 * LONG);
        let stamp = match tcp {
            true => time_stamp(&stream)?,
            false => time_stamp(&sender)?,
        };
        let stamp = stamp.with_context(|| format!("no time stamp of {name}"))?;
        // The wire hands the packet to the device once it has crossed it: 1 ms for 1000 bytes.
        let expected = start + 1_000_000 + LONG.as_nanos() as u64;
        ensure!(
            stamp.abs_diff(expected) < 200_000,
            "{name}: {stamp}, not {expected}"
        );
    }
    drop(listener);
    Ok(())
}

/// A segment that has left the host is not in its queues, be the wire as long as it may.
fn tcp_retransmits_a_segment_that_is_on_the_wire(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let delay = Some(5 * LONG.as_nanos() as u64);
    port.add_wire(
        Handle::ROOT,
        WIRE,
        &Options {
            delay,
            ..rate(RATE)
        },
    )?;
    let address = SocketAddr::from((FAR_IP, 1000));
    let _listener = port.far.enter(|| TcpListener::bind(address))??;
    let stream = port.near.enter(|| TcpStream::connect(address))??;
    let retransmitted = counter(&port.near, "RetransSegs")?;
    let kept = counter(&port.near, "TCPSpuriousRtxHostQueues")?;
    drop(stream);
    // The SYN, once a second (net.ipv4.tcp_syn_linear_timeouts).
    ensure!(
        (retransmitted, kept) == (4, 0),
        "{retransmitted} retransmissions, {kept} not made as the host has the segment"
    );
    Ok(())
}
