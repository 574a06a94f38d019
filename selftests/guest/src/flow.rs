// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP flows that a test of a congestion control makes, disturbs and looks at.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt,
};

use crate::capture::{Capture, Segment, before};
use crate::modules;
use crate::packets::{self, Sender};
use crate::port::{FAR_IP, FAR_MAC, INDEX, LINK, NEAR_IP, NEAR_MAC, Port};
use crate::transfer::{Connection, Plan};
use weft_ktap::{Context, Namespace};

const PORT: u16 = 1000;

/// Of a sending socket, in bytes.
const ROOM: usize = 200_000;

/// A connection from near to far, and what is on the link from before it.
pub(crate) struct Flow {
    pub(crate) sender: TcpStream,
    pub(crate) receiver: TcpStream,
    capture: Capture,
    /// Earlier ones, as far as they were read.
    segments: Vec<Segment>,
    pub(crate) near: ([u8; 4], u16),
}

impl Flow {
    pub(crate) fn open(port: &Port, congestion_control: &'static str) -> Result<Self> {
        let capture = Capture::start(&port.near)?;
        let plan = Plan {
            congestion_control: Some(congestion_control),
            ..Plan::new((FAR_IP, PORT), 0)
        };
        let connection = Connection::open(&port.near, &port.far, &plan)?;
        let near = (NEAR_IP, connection.port()?);
        let (sender, receiver) = connection.into_sockets();
        setsockopt(&sender, sockopt::SndBuf, &ROOM)?;
        Ok(Self {
            sender,
            receiver,
            capture,
            segments: Vec::new(),
            near,
        })
    }

    /// Hands data to the socket, which takes all of it at once.
    pub(crate) fn write(&self, bytes: usize) -> Result<()> {
        self.sender.set_nonblocking(true)?;
        let written = (&self.sender).write(&vec![7; bytes])?;
        ensure!(written == bytes, "{written} bytes of {bytes} written");
        self.sender.set_nonblocking(false)?;
        Ok(())
    }

    /// Reads what `write` wrote.
    pub(crate) fn read(&self, bytes: usize) -> Result<()> {
        self.receiver
            .set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut data = vec![0; bytes];
        (&self.receiver).read_exact(&mut data).context("reading")?;
        ensure!(data.iter().all(|&byte| byte == 7), "the data differs");
        Ok(())
    }

    /// Sends more than the socket takes at once, which always has more to send.
    pub(crate) fn transfer(&self, bytes: usize) -> Result<()> {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (&self.sender).write_all(&vec![7; bytes]));
            self.read(bytes)?;
            Ok(writer.join().expect("the writer does not panic")?)
        })
    }

    /// All segments so far.
    pub(crate) fn segments(&mut self) -> Result<&[Segment]> {
        self.segments.extend(self.capture.segments()?);
        Ok(&self.segments)
    }

    /// Data segments of the sender's so far.
    pub(crate) fn data(&mut self) -> Result<Vec<Segment>> {
        let near = self.near;
        let segments = self.segments()?.iter().copied();
        Ok(segments
            .filter(|it| it.from == near && it.len > 0)
            .collect())
    }

    /// The data segments that were sent before the first acknowledgement of data, and the time
    /// from the first to the last one.
    pub(crate) fn first_burst(&mut self) -> Result<(Vec<Segment>, Duration)> {
        let near = self.near;
        let mut burst = self.data()?;
        let first = *burst.first().context("nothing was sent")?;
        let is_answer = |it: &&Segment| it.to == near && before(first.seq, it.ack);
        let answer = self.segments()?.iter().find(is_answer);
        let answered = answer.context("no acknowledgement")?.time;
        burst.retain(|it| it.time < answered);
        let last = burst.last().context("nothing was sent before it")?;
        let took = Duration::from_nanos(last.time - first.time);
        Ok((burst, took))
    }

    /// Where each data segment so far was sent: after how many bytes were acknowledged, and which
    /// byte of the flow it begins with.
    pub(crate) fn places(&mut self) -> Result<Vec<(u32, u32)>> {
        let near = self.near;
        let segments = self.segments()?;
        let is_data = |it: &&Segment| it.from == near && it.len > 0;
        let first = segments.iter().find(is_data).context("nothing was sent")?;
        let (first, mut acked) = (first.seq, first.seq);
        let mut places = Vec::new();
        for segment in segments {
            if segment.to == near && before(acked, segment.ack) {
                acked = segment.ack;
            } else if is_data(&segment) {
                places.push((acked.wrapping_sub(first), segment.seq.wrapping_sub(first)));
            }
        }
        Ok(places)
    }

    /// The sender's [`info`].
    pub(crate) fn info(&self) -> Result<(u16, [u32; 3])> {
        info(&self.sender)
    }
}

/// The state and the three numbers that a socket's congestion control tells, as
/// getsockopt(TCP_CC_INFO) has them.
pub(crate) fn info(socket: &impl AsRawFd) -> Result<(u16, [u32; 3])> {
    const TCP_CC_INFO: i32 = 26;
    let mut bytes = [0_u8; 16];
    let mut size = bytes.len() as libc::socklen_t;
    // SAFETY: The kernel writes at most `size` bytes, which there are.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_CC_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    Errno::result(result).context("TCP_CC_INFO")?;
    ensure!(size == 16, "TCP_CC_INFO has {size} bytes");
    let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16; // little-endian
    ensure!(half(0) == 1, "TCP_CC_INFO is of nobody");
    Ok((half(2), [word(4), word(8), word(12)]))
}

/// An ICMP message from the far end: the host that this segment of the near end's is for cannot be
/// reached.
pub(crate) fn tell_unreachable(port: &Port, segment: &Segment) -> Result<()> {
    /// The header of an IPv4 packet, with a right checksum.
    fn ipv4(protocol: u8, [from, to]: [[u8; 4]; 2], payload: u16) -> Vec<u8> {
        let mut header = vec![0x45, 0];
        header.extend((20 + payload).to_be_bytes());
        header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        header.extend([from, to].concat());
        let checksum = packets::checksum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }
    const HOST_UNREACHABLE: [u8; 2] = [3, 1];
    let (from, to) = (segment.from, segment.to);
    let mut message = HOST_UNREACHABLE.to_vec();
    message.extend([0; 6]);
    message.extend(ipv4(6, [from.0, to.0], 20 + segment.len as u16));
    message.extend(from.1.to_be_bytes());
    message.extend(to.1.to_be_bytes());
    message.extend(segment.seq.to_be_bytes());
    let checksum = packets::checksum(&message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = [NEAR_MAC, FAR_MAC].concat();
    frame.extend((libc::ETH_P_IP as u16).to_be_bytes());
    frame.extend(ipv4(1, [FAR_IP, from.0], message.len() as u16));
    frame.extend(message);
    let sent = Sender::open(&port.far, INDEX)?.send_frame(&frame)?;
    ensure!(sent, "the message was refused");
    Ok(())
}

/// Checks that no packet can be marked (is ECN-capable) of a connection that needs marks and whose
/// other end tells of none: nobody would know of the mark. Be it one whose far end, with Linux's
/// own congestion control, has refused in the handshake, or one that needs them only later.
///
/// # Errors
///
/// If one can.
pub(crate) fn without_ecn_nothing_can_be_marked(
    cx: &Context,
    port: &Port,
    name: &'static str,
) -> Result<()> {
    const BYTES: usize = 60_000;
    for first in [name, "cubic"] {
        let mut flow = Flow::open(port, first)?;
        flow.transfer(BYTES)?;
        setsockopt(&flow.sender, sockopt::TcpCongestion, &name.into())?;
        flow.transfer(BYTES)?;
        let near = flow.near;
        let sent = flow
            .segments()?
            .iter()
            .filter(|it| it.from == near && !it.syn);
        let (capable, all) = sent.fold((0, 0), |(capable, all), it| {
            (capable + u32::from(it.tos & 3 != 0), all + 1)
        });
        cx.note(format!(
            "{first}, then {name}: {capable} of {all} packets can be marked"
        ));
        ensure!(
            all >= 80 && capable == 0,
            "{capable} of {all} can be marked"
        );
    }
    Ok(())
}

/// The packets that a flow sends at first which chooses its congestion control while it connects:
/// the end of the handshake gives it the route's window.
pub(crate) fn first_burst_of_a_late_choice(port: &Port, name: &str) -> Result<usize> {
    let far = std::net::SocketAddr::from((FAR_IP, PORT));
    let listener = port.far.enter(|| std::net::TcpListener::bind(far))??;
    let capture = Capture::start(&port.near)?;
    // connect() returns at once, with the handshake under way.
    let sender = port.near.enter(|| -> Result<TcpStream> {
        let kind = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Inet, SockType::Stream, kind, None)?;
        let [a, b, c, d] = FAR_IP;
        let address = SockaddrIn::new(a, b, c, d, PORT);
        let result = connect(socket.as_raw_fd(), &address);
        ensure!(result == Err(Errno::EINPROGRESS), "connect: {result:?}");
        setsockopt(&socket, sockopt::TcpCongestion, &name.into())?;
        Ok(TcpStream::from(socket))
    })??;
    let (mut receiver, _) = listener.accept()?;
    std::thread::sleep(Duration::from_millis(50));
    let written = (&sender).write(&[7; 40_000])?;
    receiver.read_exact(&mut vec![0; written])?;
    let segments = capture.segments()?;
    let data = segments.iter().position(|it| it.len > 0);
    let later = &segments[data.context("nothing was sent")?..];
    Ok(later.iter().take_while(|it| it.to.0 == FAR_IP).count())
}

/// Sets an option of TCP that takes a number.
pub(crate) fn set_tcp(socket: &impl AsRawFd, option: i32, value: i32) -> Result<()> {
    // SAFETY: The kernel reads this number of bytes.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    Errno::result(result).with_context(|| format!("TCP option {option} = {value}"))?;
    Ok(())
}

/// An option of TCP that is a number.
pub(crate) fn get_tcp(socket: &impl AsRawFd, option: i32) -> Result<i32> {
    let (mut value, mut size) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: The kernel writes at most `size` bytes, which there are.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw mut value).cast(),
            &raw mut size,
        )
    };
    Errno::result(result).with_context(|| format!("TCP option {option}"))?;
    Ok(value)
}

/// Nothing arrives at the far end, or does again.
pub(crate) fn outage(port: &Port, on: bool) -> Result<()> {
    let verb = if on { "del" } else { "add" };
    let [a, b, c, d] = FAR_IP;
    port.far
        .ip(&format!("address {verb} {a}.{b}.{c}.{d}/24 dev {LINK}"))?;
    if !on {
        // The route went with the address.
        port.far
            .ip(&format!("route change 10.0.0.0/24 dev {LINK} quickack 1"))?;
    }
    Ok(())
}

/// A flow of which nothing arrives any more; returns after `time`.
pub(crate) fn blacked_out(
    port: &Port,
    congestion_control: &'static str,
    time: Duration,
) -> Result<Flow> {
    let flow = Flow::open(port, congestion_control)?;
    outage(port, true)?;
    flow.write(60_000)?;
    std::thread::sleep(time);
    Ok(flow)
}

/// What `ss -ti` shows of the near end's connection, as a line of the report.
pub(crate) fn shown_by_ss(cx: &Context, port: &Port) -> Result<String> {
    let text = port.near.command("ss", "-tin dst 10.0.0.2")?;
    let line = text.lines().last().unwrap_or_default().trim();
    cx.note(line);
    Ok(line.to_owned())
}

/// Checks that a line of `ss` has these parts.
pub(crate) fn shows(line: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(line.contains(part), "ss does not show `{part}`: {line}");
    }
    Ok(())
}

/// A counter of a namespace, as `nstat` has it.
pub(crate) fn counter(namespace: &Namespace, name: &str) -> Result<u64> {
    for (file, prefix) in [("netstat", "TcpExt:"), ("snmp", "Tcp:")] {
        let path = format!("/proc/thread-self/net/{file}");
        let text = namespace.enter(|| std::fs::read_to_string(&path))??;
        let mut lines = text.lines().filter(|line| line.starts_with(prefix));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
            bail!("{path} has no {prefix}")
        };
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        if let Some((_, value)) = pairs.find(|(it, _)| *it == name) {
            return Ok(value.parse()?);
        }
    }
    bail!("the kernel does not count {name}")
}

/// Rounds: the packets that were sent after each acknowledgement that allowed some.
pub(crate) fn rounds(segments: &[Segment], near: ([u8; 4], u16), from: u64) -> Vec<Vec<u32>> {
    let mut rounds: Vec<Vec<u32>> = Vec::new();
    for segment in segments.iter().filter(|it| it.time >= from) {
        if segment.to == near {
            if rounds.last().is_none_or(|round| !round.is_empty()) {
                rounds.push(Vec::new());
            }
        } else if segment.len > 0
            && let Some(round) = rounds.last_mut()
        {
            round.push(segment.len);
        }
    }
    rounds
}

/// What came of a flow of the kernel's.
#[derive(Debug)]
struct Outcome {
    time: Duration,
    segments: usize,
    fast_retransmissions: u64,
    timeouts: u64,
    recoveries: u64,
}

/// A cubic flow, one of whose packets in 50 is lost.
fn cubic(port: &Port) -> Result<Outcome> {
    let capture = Capture::start(&port.near)?;
    let plan = Plan {
        congestion_control: Some("cubic"),
        ..Plan::new((FAR_IP, PORT), 400_000)
    };
    let time = Connection::open(&port.near, &port.far, &plan)?
        .start()
        .finish()?;
    let segments = capture.segments()?;
    let data = segments
        .iter()
        .filter(|it| it.from.0 == NEAR_IP && it.len > 0);
    Ok(Outcome {
        time,
        segments: data.count(),
        fast_retransmissions: counter(&port.near, "TCPFastRetrans")?,
        timeouts: counter(&port.near, "TCPTimeouts")?,
        recoveries: counter(&port.near, "TCPSackRecovery")?,
    })
}

/// A cubic flow recovers from the same losses in the same way, before the module is there and
/// beside a flow of its, of 60000 bytes, that times out in another namespace: `busy` makes that.
pub(crate) fn cubic_is_untouched_by(
    cx: &Context,
    module: &str,
    busy: impl FnOnce() -> Result<(Flow, Port)>,
) -> Result<()> {
    let lossy = || -> Result<Port> {
        let port = Port::new()?;
        for end in [&port.near, &port.far] {
            end.ip(&format!("link set {LINK} gso_max_segs 1"))?;
        }
        port.far.command(
            "tc",
            &format!("qdisc add dev {LINK} root handle 1: netem limit 10000 delay 15ms"),
        )?;
        port.far
            .command("tc", &format!("qdisc add dev {LINK} clsact"))?;
        // Every 50th packet, not at random.
        port.far.command(
            "tc",
            &format!(
                "filter add dev {LINK} ingress matchall action gact pass random determ drop 50"
            ),
        )?;
        Ok(port)
    };
    if modules::users(module).is_some() {
        // What earlier tests left may take its time.
        modules::remove_when_unused(module)?;
    }
    let alone = cubic(&lossy()?)?;
    let (flow, busy) = busy()?;
    let beside = cubic(&lossy()?)?;
    outage(&busy, false)?;
    flow.read(60_000)?;
    cx.note(format!("alone:  {alone:?}\nbeside: {beside:?}"));
    ensure!(alone.fast_retransmissions > 0, "nothing was lost");
    let counts = |it: &Outcome| {
        (
            it.segments,
            it.fast_retransmissions,
            it.timeouts,
            it.recoveries,
        )
    };
    ensure!(counts(&alone) == counts(&beside), "it recovers differently");
    // A packet more or less in a round changes the number of rounds.
    let difference = beside.time.abs_diff(alone.time);
    ensure!(
        difference < 3 * Duration::from_millis(15),
        "it takes another time"
    );
    Ok(())
}

/// A setting of a module: name, default, values that it takes, and values that it refuses.
pub(crate) type Setting = (
    &'static str,
    &'static str,
    [&'static str; 2],
    [&'static str; 2],
);

/// Checks a module's settings in a namespace of their own.
///
/// # Errors
///
/// If a default is another, a value within its range is refused, or one outside is taken.
pub(crate) fn settings_have_ranges(module: &str, settings: &[Setting]) -> Result<()> {
    modules::load(module)?;
    let namespace = Namespace::without_ipv6()?;
    for (name, default, good, bad) in settings {
        let path = format!("net/ipv4/{module}/{name}");
        let read = || -> Result<String> {
            let file = format!("/proc/sys/{path}");
            let text = namespace.enter(|| std::fs::read_to_string(file))??;
            Ok(text.trim().to_owned())
        };
        ensure!(read()? == *default, "{name} is {} at first", read()?);
        for value in good {
            namespace.write_sysctl(&path, value)?;
            ensure!(read()? == *value, "{name} is {}, not {value}", read()?);
        }
        for value in bad {
            let result = namespace.write_sysctl(&path, value);
            ensure!(result.is_err(), "{name} takes {value}");
        }
        ensure!(read()? == good[1], "{name} is {} in the end", read()?);
    }
    Ok(())
}

/// Checks that a new connection has what its namespace's settings say, a window of 3 packets, and
/// that an earlier one, and one elsewhere, keep the 12 that they have.
///
/// # Errors
///
/// If one of them sends another number of packets at first.
pub(crate) fn only_new_connections_have_a_window_of_3(
    before: &mut Flow,
    after: &Flow,
    elsewhere: &mut Flow,
) -> Result<()> {
    for flow in [&*before, after, &*elsewhere] {
        flow.write(30_000)?;
    }
    std::thread::sleep(Duration::from_millis(15));
    // One capture sees both flows of its namespace.
    let segments = before.segments()?;
    let sent = segments
        .iter()
        .filter(|it| it.from == after.near && it.len > 0);
    ensure!(sent.count() == 3, "a new connection has another window");
    ensure!(
        before.data()?.len() == 12,
        "the setting changed an established connection"
    );
    ensure!(
        elsewhere.data()?.len() == 12,
        "the setting changed another namespace"
    );
    for flow in [&*before, after, &*elsewhere] {
        flow.read(30_000)?;
    }
    Ok(())
}

/// Checks that a module is not removed while a socket uses it, and is afterwards, with its
/// settings. `stopped` makes a flow that has 60,000 bytes to send and a link that is down, of which
/// the namespace that sends has the module's congestion control.
///
/// # Errors
///
/// If it is removed, cannot be afterwards, or leaves its settings.
pub(crate) fn stays_while_sockets_use_it(
    module: &str,
    stopped: impl Fn() -> Result<(Flow, Port)>,
) -> Result<()> {
    let directory = format!("/proc/sys/net/ipv4/{module}");
    for _ in 0..3 {
        let (flow, port) = stopped()?;
        let result = modules::remove(module);
        ensure!(
            result == Err(Errno::EWOULDBLOCK),
            "removing a module in use: {result:?}"
        );
        outage(&port, false)?;
        flow.read(60_000)?;
        drop((flow, port));
        modules::remove_when_unused(module)?;
        ensure!(
            !std::path::Path::new(&directory).exists(),
            "{directory} is left"
        );
    }
    Ok(())
}
