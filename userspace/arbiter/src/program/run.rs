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
