// SPDX-License-Identifier: MIT OR Apache-2.0

//! A handshake is Linux's, whenever its socket chooses pfabric: while SYNs are lost they are sent
//! again after a second each, not after pfabric's timeout, and the connection comes about.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, connect, getsockopt, sendto,
    setsockopt, socket, sockopt,
};

use super::tcp_pfabric::{MSS, NAME, PORT, port, set};
use crate::capture::{Capture, Segment};
use crate::cgroup_program::Program;
use crate::flow::set_tcp;
use crate::port::{FAR_IP, LINK, NEAR_IP, Port};
use weft_ktap::{Context, tests};

tests![
    #[exact = "judges when segments are sent"]
    a_socket_that_chooses_it_after_its_syn_connects_as_linux_does,
    a_socket_that_gets_it_by_sock_ops_before_its_syn_connects_as_linux_does,
    a_fast_open_child_answers_as_linux_does,
    a_fast_open_client_that_has_it_connects_as_linux_does,
    a_socket_that_changes_to_another_after_its_syn_connects,
];

/// How long nothing gets to the far end, or to the other one: Linux sends SYNs at 0, 1, 2, 3 s.
const DARK: Duration = Duration::from_millis(2500);

/// Connects, and sends with the SYN.
const FAST_OPEN: MsgFlags = MsgFlags::from_bits_retain(libc::MSG_FASTOPEN);

/// Everything that comes to the far end is lost, or is no more.
pub(super) fn deaf(port: &Port, on: bool) -> Result<()> {
    if !on {
        port.far
            .command("tc", &format!("qdisc del dev {LINK} clsact"))?;
        return Ok(());
    }
    for words in [
        format!("qdisc add dev {LINK} clsact"),
        format!("filter add dev {LINK} ingress matchall action drop"),
    ] {
        port.far.command("tc", &words)?;
    }
    Ok(())
}

/// A socket that does not wait.
fn open(port: &Port) -> Result<OwnedFd> {
    let kind = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(port
        .near
        .enter(|| socket(AddressFamily::Inet, SockType::Stream, kind, None))??)
}

fn address([a, b, c, d]: [u8; 4]) -> SockaddrIn {
    SockaddrIn::new(a, b, c, d, PORT)
}

/// SYNs that an end sent: at the times of a handshake of Linux's, a second apart.
fn ensure_linux_handshake(cx: &Context, segments: &[Segment], from: [u8; 4]) -> Result<()> {
    let times: Vec<u64> = segments
        .iter()
        .filter(|it| it.syn && it.from.0 == from)
        .map(|it| it.time)
        .collect();
    let gaps: Vec<Duration> = times
        .windows(2)
        .map(|pair| Duration::from_nanos(pair[1] - pair[0]))
        .collect();
    cx.note(format!("SYNs after {gaps:?}"));
    ensure!(gaps.len() >= 2, "nothing was lost: {gaps:?}");
    ensure!(
        gaps.iter().all(|it| *it >= Duration::from_millis(900)),
        "SYNs after {gaps:?}"
    );
    Ok(())
}

/// What the near end sends at first: 60,000 bytes with a window of 7.
fn ensure_first_window(
    cx: &Context,
    capture: &Capture,
    near: &TcpStream,
    far: &TcpStream,
) -> Result<()> {
    near.set_nonblocking(false)?;
    let own = near.local_addr()?.port();
    let _ = capture.segments()?;
    let mut writer = near;
    std::io::Write::write_all(&mut writer, &[7; 60_000])?;
    far.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut data = vec![0; 60_000];
    let mut reader = far;
    reader.read_exact(&mut data).context("reading")?;
    ensure!(data.iter().all(|&byte| byte == 7), "the data differs");
    let segments = capture.segments()?;
    let burst = segments
        .iter()
        .skip_while(|it| it.len == 0)
        .take_while(|it| it.from == (NEAR_IP, own))
        .count();
    cx.note(format!("then {burst} packets"));
    ensure!(burst == 7, "{burst} packets at first");
    let name = getsockopt(near, sockopt::TcpCongestion)?;
    let name = name.to_string_lossy();
    ensure!(name.trim_end_matches('\0') == NAME, "it has {name}");
    Ok(())
}

/// Connects while the far end is deaf; `choose` has the socket, before and after the SYN was sent.
fn connects(cx: &Context, choose: impl Fn(&OwnedFd, bool) -> Result<()>) -> Result<()> {
    let port = port("20ms")?;
    set(&port, "init_cwnd", 7)?;
    let listener = port
        .far
        .enter(|| TcpListener::bind(SocketAddr::from((FAR_IP, PORT))))??;
    let capture = Capture::start(&port.near)?;
    deaf(&port, true)?;
    let near = open(&port)?;
    choose(&near, false)?;
    let result = connect(near.as_raw_fd(), &address(FAR_IP));
    ensure!(result == Err(Errno::EINPROGRESS), "connect: {result:?}");
    choose(&near, true)?;
    std::thread::sleep(DARK);
    deaf(&port, false)?;
    std::thread::sleep(Duration::from_secs(2));
    ensure_linux_handshake(cx, &capture.segments()?, NEAR_IP)?;
    let near = TcpStream::from(near);
    let error = near.take_error()?;
    ensure!(error.is_none(), "it did not connect: {error:?}");
    listener.set_nonblocking(true)?;
    let (far, _) = listener.accept().context("it did not connect")?;
    far.set_nonblocking(false)?;
    ensure_first_window(cx, &capture, &near, &far)
}

fn choose(socket: &OwnedFd, name: &str) -> Result<()> {
    Ok(setsockopt(socket, sockopt::TcpCongestion, &name.into())?)
}

fn a_socket_that_chooses_it_after_its_syn_connects_as_linux_does(cx: &Context) -> Result<()> {
    connects(
        cx,
        |socket, sent| {
            if sent { choose(socket, NAME) } else { Ok(()) }
        },
    )
}

fn a_socket_that_gets_it_by_sock_ops_before_its_syn_connects_as_linux_does(
    cx: &Context,
) -> Result<()> {
    let program = Program::chooses(NAME)?;
    connects(cx, |socket, sent| {
        if sent {
            let name = getsockopt(socket, sockopt::TcpCongestion)?;
            let name = name.to_string_lossy();
            ensure!(
                name.trim_end_matches('\0') == NAME,
                "sock_ops gave it {name}"
            );
        }
        Ok(())
    })?;
    drop(program);
    Ok(())
}

fn a_socket_that_changes_to_another_after_its_syn_connects(cx: &Context) -> Result<()> {
    connects(cx, |socket, sent| {
        choose(socket, NAME)?;
        if sent {
            choose(socket, "cubic")?;
            choose(socket, NAME)?;
        }
        Ok(())
    })
}

/// Both ends open fast, without a cookie.
fn fast_open(port: &Port) -> Result<()> {
    for end in [&port.near, &port.far] {
        end.write_sysctl(
            "net/ipv4/tcp_fastopen",
            &(0x1 | 0x2 | 0x4 | 0x200).to_string(),
        )?;
    }
    Ok(())
}

/// The SYN arrives, with data; its answers are lost for a while, as is what the server says at
/// once.
fn a_fast_open_child_answers_as_linux_does(cx: &Context) -> Result<()> {
    let port = port("20ms")?;
    set(&port, "init_cwnd", 7)?;
    fast_open(&port)?;
    let listener = port
        .near
        .enter(|| TcpListener::bind(SocketAddr::from((NEAR_IP, PORT))))??;
    setsockopt(&listener, sockopt::TcpCongestion, &NAME.into())?;
    set_tcp(&listener, libc::TCP_FASTOPEN, 16)?;
    let kind = SockFlag::SOCK_CLOEXEC;
    let far = port
        .far
        .enter(|| socket(AddressFamily::Inet, SockType::Stream, kind, None))??;
    let capture = Capture::start(&port.near)?;
    deaf(&port, true)?;
    let flags = FAST_OPEN | MsgFlags::MSG_DONTWAIT;
    let sent = sendto(far.as_raw_fd(), &[9; 100], &address(NEAR_IP), flags);
    cx.note(format!("MSG_FASTOPEN: {sent:?}"));
    std::thread::sleep(Duration::from_millis(100));
    listener.set_nonblocking(true)?;
    // A socket before its handshake has ended.
    let (near, _) = listener.accept().context("no fast-open child")?;
    let mut greeting = [0; 100];
    near.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut reader = &near;
    reader.read_exact(&mut greeting).context("the SYN's data")?;
    let mut writer = &near;
    std::io::Write::write_all(&mut writer, &[7; 2000])?;
    std::thread::sleep(DARK);
    deaf(&port, false)?;
    std::thread::sleep(Duration::from_secs(4));
    // The client repeats its SYN each second, too, and each is answered.
    let segments = capture.segments()?;
    let answers: Vec<Duration> = segments
        .iter()
        .filter(|it| it.syn && it.from.0 == NEAR_IP)
        .map(|it| Duration::from_nanos(it.time - segments[0].time))
        .collect();
    cx.note(format!("SYN-ACKs at {answers:?}"));
    ensure!((3..=8).contains(&answers.len()), "SYN-ACKs at {answers:?}");
    let far = TcpStream::from(far);
    far.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut data = vec![0; 2000];
    let mut reader = &far;
    reader
        .read_exact(&mut data)
        .context("what it said at once")?;
    std::thread::sleep(Duration::from_millis(200));
    ensure_first_window(cx, &capture, &near, &far)
}

/// A SYN with data, which is the first packet that is sent with none in flight.
fn a_fast_open_client_that_has_it_connects_as_linux_does(cx: &Context) -> Result<()> {
    let port = port("20ms")?;
    set(&port, "init_cwnd", 7)?;
    fast_open(&port)?;
    let listener = port
        .far
        .enter(|| TcpListener::bind(SocketAddr::from((FAR_IP, PORT))))??;
    set_tcp(&listener, libc::TCP_FASTOPEN, 16)?;
    let capture = Capture::start(&port.near)?;
    deaf(&port, true)?;
    let near = open(&port)?;
    let program = Program::chooses(NAME)?;
    let sent = sendto(near.as_raw_fd(), &[9; 100], &address(FAR_IP), FAST_OPEN);
    cx.note(format!("MSG_FASTOPEN: {sent:?}"));
    drop(program);
    std::thread::sleep(DARK);
    deaf(&port, false)?;
    std::thread::sleep(Duration::from_secs(4));
    let segments = capture.segments()?;
    ensure!(
        segments.iter().any(|it| it.syn && it.len == 100),
        "no SYN has data"
    );
    ensure_linux_handshake(cx, &segments, NEAR_IP)?;
    let (far, _) = listener.accept()?;
    far.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = &far;
    reader.read_exact(&mut [0; 100]).context("the SYN's data")?;
    std::thread::sleep(Duration::from_millis(200));
    ensure_first_window(cx, &capture, &TcpStream::from(near), &far)
}

const _: () = assert!(60_000 / MSS > 7);
