// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sockets, signals and the main loop.
//!
//! One thread does everything: it reads datagrams, allocates due batches, and sends messages. With
//! `--threads 3` other threads allocate and select paths, and wake it by a bell. The next due event
//! bounds its reading ([`turn`](super::turn)): a flood of datagrams does not delay an allocation.
//!
//! The beats of another arbiter have a separate socket, at the same port and connected to that
//! arbiter, so that they neither wait behind other datagrams, nor are dropped when those fill their
//! socket's buffer.

use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;

use weft_arbiter::service::UNPRIVILEGED;

use super::arbiter::Arbiter;
use super::arguments::{Arguments, Threads};
use super::bell::bell;
use super::clock::now;
use super::datagrams::{Datagrams, drop_from};
use super::figures::Figures;
use super::log::say;
use super::turn::turn;

/// The class of its packets (CS6, network control), by which switches can identify them.
const TOS: i32 = 0xc0;
/// Bytes that may wait to be read: the size of a burst of all endpoints.
const BUFFER: usize = 8 << 20;
/// The variable with the first port that needs no privilege, of each network namespace.
const PORT_START: &str = "net.ipv4.ip_unprivileged_port_start";

/// The socket for endpoints.
fn listen(at: SocketAddrV4) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(at).with_context(|| format!("listening at {at}"))?;
    setsockopt(&socket, sockopt::Ipv4Tos, &TOS).context("IP_TOS")?;
    // Beyond the system's limit if that is permitted.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &BUFFER).context("SO_RCVBUF")?;
    }
    Ok(socket)
}

/// The socket for the other arbiter's beats, at the port of the first one.
fn connected(first: &UdpSocket, at: SocketAddrV4, peer: SocketAddrV4) -> Result<UdpSocket> {
    // Only now, so that the first one was not bound to another process's port.
    setsockopt(first, sockopt::ReusePort, &true).context("SO_REUSEPORT")?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let second = socket(AddressFamily::Inet, SockType::Datagram, flags, None).context("socket")?;
    setsockopt(&second, sockopt::ReusePort, &true).context("SO_REUSEPORT")?;
    setsockopt(&second, sockopt::Ipv4Tos, &TOS).context("IP_TOS")?;
    bind(second.as_raw_fd(), &SockaddrIn::from(at)).with_context(|| format!("binding to {at}"))?;
    connect(second.as_raw_fd(), &SockaddrIn::from(peer))
        .with_context(|| format!("connecting to {peer}"))?;
    Ok(UdpSocket::from(second))
}

/// The first port that processes without a privilege may use in this network namespace.
fn unprivileged_port_start() -> Option<u16> {
    let path = format!("/proc/sys/{}", PORT_START.replace('.', "/"));
    let text = std::fs::read_to_string(path).ok()?;
    // It may be 65536, if no port is free of privilege.
    let start: u32 = text.trim().parse().ok()?;
    Some(u16::try_from(start).unwrap_or(u16::MAX))
}

/// A warning if ports need no privilege that the arbiter takes for privileged ones.
fn warning(start: u16, arguments: &Arguments) -> Option<String> {
    let endpoints = start < UNPRIVILEGED && !arguments.any_port;
    let port = arguments.listen.port();
    let own = (start..UNPRIVILEGED).contains(&port);
    let endpoints = endpoints.then(|| {
        "a process on a host that is set like this one can speak in that host's name".to_owned()
    });
    let own = own.then(|| format!("a process on this host can take port {port} when it is free"));
    let dangers: Vec<String> = endpoints.into_iter().chain(own).collect();
    (!dangers.is_empty()).then(|| {
        format!(
            "warning: {PORT_START} is {start}, so {}: set it to {UNPRIVILEGED} on this host and on the endpoints",
            dangers.join(", and ")
        )
    })
}

/// Runs the arbiter until a signal ends it.
///
/// # Errors
///
/// If a socket, the clock or a thread fails, or figures could not be written.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGUSR1);
    // Before other threads start: a signal that one of them does not block would end the program.
    signals.thread_block().context("blocking signals")?;
    let told = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("signalfd")?;
    let bell = match arguments.threads {
        Threads::One => None,
        Threads::Three => Some(bell()?),
    };
    let mut arbiter = Arbiter::new(arguments, bell.as_ref(), now()?)?;
    let socket = listen(arguments.listen)?;
    if let Some(warning) = unprivileged_port_start().and_then(|start| warning(start, arguments)) {
        say(warning);
    }
    if !arguments.any_port {
        let peer = arbiter.peer().map(|it| it.port());
        drop_from(&socket, UNPRIVILEGED, peer)?;
    }
    let mut beats = None;
    if let Some(peer) = arbiter.peer() {
        match connected(&socket, arguments.listen, peer) {
            Ok(socket) => beats = Some(Datagrams::new(socket)?),
            // There may be no route yet. Beats are also accepted from the first socket.
            Err(error) => say(format_args!("{error:#}: beats have no socket of their own")),
        }
    }
    let mut figures = Figures::new(arguments.statistics.as_deref(), arguments.every)?;
    let mut datagrams = Datagrams::new(socket)?;
    let mut is_behind = false;
    loop {
        let clock = now()?;
        let until = match is_behind {
            true => clock,
            false => arbiter.next_event().min(figures.next),
        };
        let wait = TimeSpec::from(Duration::from_nanos(until.saturating_sub(clock)));
        let wait = Some(wait).filter(|_| until != u64::MAX);
        let readable = |it| PollFd::new(it, PollFlags::POLLIN);
        let mut sources = vec![readable(told.as_fd()), readable(datagrams.as_fd())];
        sources.extend(beats.as_ref().map(|beats| readable(beats.as_fd())));
        sources.extend(bell.as_ref().map(|bell| readable(bell.as_fd())));
        match ppoll(&mut sources, wait, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting"),
        }
        if sources[0].any().unwrap_or(false) {
            let signal = told.read_signal().context("signalfd")?;
            match signal.is_some_and(|it| it.ssi_signo == Signal::SIGUSR1 as u32) {
                true => arbiter.clear_faults(),
                false => {
                    let clock = now()?;
                    figures.write(|| arbiter.line(clock));
                    return figures.end();
                }
            }
        }
        let is_rung = sources.last().is_some_and(|it| it.any().unwrap_or(false));
        if let Some(bell) = bell.as_ref().filter(|_| is_rung) {
            // Before the results are taken: a later ring wakes this thread again. It does not
            // block.
            let _ = bell.read();
        }
        let until = figures.next;
        is_behind = turn(&mut arbiter, beats.as_mut(), &mut datagrams, until, now)?;
        let clock = now()?;
        if arbiter.say_faults() {
            figures.write(|| arbiter.line(clock));
        }
        figures.tick(clock, || arbiter.line(clock));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn warned(start: u16, words: &str) -> Option<String> {
        let words = format!("weft-arbiter --first 10.0.0.2 --hosts 2 {words}");
        warning(start, &Arguments::parse_from(words.split_whitespace()))
    }

    #[test]
    fn ports_that_are_not_privileged_are_warned_about() {
        for words in ["", "--listen 0.0.0.0:700", "--any-port"] {
            assert_eq!(warned(1024, words), None, "{words}");
            assert_eq!(warned(2000, words), None, "{words}");
        }
        let forged = "a process on a host that is set like this one can speak in that host's name";
        let taken = "a process on this host can take port 700 when it is free";
        for (words, start, dangers) in [
            ("", 0, forged.to_owned()),
            ("", 1023, forged.to_owned()),
            ("--listen 0.0.0.0:700", 701, forged.to_owned()),
            (
                "--listen 0.0.0.0:700",
                700,
                format!("{forged}, and {taken}"),
            ),
            ("--listen 0.0.0.0:700 --any-port", 80, taken.to_owned()),
        ] {
            let expected = format!(
                "warning: net.ipv4.ip_unprivileged_port_start is {start}, so {dangers}: set it to 1024 on this \
                 host and on the endpoints"
            );
            assert_eq!(warned(start, words), Some(expected), "{words}");
        }
        // Its own port needs no privilege anyway.
        assert_eq!(warned(80, "--any-port"), None);
    }

    #[test]
    fn the_setting_of_this_namespace_is_read() {
        let start = unprivileged_port_start().unwrap();
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        assert_eq!(text.unwrap().trim(), start.to_string());
    }
}
