// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP transfers whose data is checked byte by byte.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};

use crate::random::Random;
use weft_ktap::Namespace;

/// No transfer takes so long; sleeping is free where time is virtual.
const PATIENCE: Duration = Duration::from_secs(300);

/// What to send, and how.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The receiver's address and port.
    pub(crate) to: ([u8; 4], u16),
    pub(crate) bytes: usize,
    /// Determines the data and the ranks.
    pub(crate) seed: u64,
    /// Every write has a rank (`SO_PRIORITY`) below this; 0 leaves it alone.
    pub(crate) ranks: u32,
    pub(crate) congestion_control: Option<&'static str>,
}

impl Plan {
    pub(crate) fn new(to: ([u8; 4], u16), bytes: usize) -> Self {
        Self {
            to,
            bytes,
            seed: u64::from(to.1),
            ranks: 0,
            congestion_control: None,
        }
    }
}

/// Two connected sockets, before any data.
///
/// Connect all flows before the first one sends. Linux forgets a connection request when its own
/// queue refuses a repeated SYN-ACK (`reqsk_timer_handler`); the client, who may have got the first
/// one, is then reset: one in 500 transfers through a full `pfifo limit 3`, whatever the parent is.
pub(crate) struct Connection {
    sender: TcpStream,
    receiver: TcpStream,
    plan: Plan,
}

impl Connection {
    /// Connects one namespace to another.
    pub(crate) fn open(from: &Namespace, to: &Namespace, plan: &Plan) -> Result<Self> {
        let address = SocketAddr::from(plan.to);
        let listener = to
            .enter(|| TcpListener::bind(address))?
            .context("listening")?;
        let socket = from.enter(|| {
            nix::sys::socket::socket(
                nix::sys::socket::AddressFamily::Inet,
                nix::sys::socket::SockType::Stream,
                nix::sys::socket::SockFlag::SOCK_CLOEXEC,
                None,
            )
        })??;
        // Before connecting: a congestion control takes part in the handshake.
        if let Some(name) = plan.congestion_control {
            setsockopt(&socket, sockopt::TcpCongestion, &name.into())
                .with_context(|| format!("TCP_CONGESTION={name}"))?;
        }
        let address: nix::sys::socket::SockaddrIn = match address {
            SocketAddr::V4(address) => address.into(),
            SocketAddr::V6(_) => bail!("IPv4 only"),
        };
        nix::sys::socket::connect(socket.as_raw_fd(), &address).context("connecting")?;
        await_connection(&listener)?;
        let (receiver, _) = listener.accept()?;
        Ok(Self {
            sender: TcpStream::from(socket),
            receiver,
            plan: plan.clone(),
        })
    }

    /// The sending and the receiving socket, for a test that does it itself.
    pub(crate) fn into_sockets(self) -> (TcpStream, TcpStream) {
        (self.sender, self.receiver)
    }

    /// The sender's port.
    pub(crate) fn port(&self) -> Result<u16> {
        Ok(self.sender.local_addr()?.port())
    }

    /// Starts to send.
    pub(crate) fn start(self) -> Transfer {
        let plan = self.plan.clone();
        Transfer {
            start: Instant::now(),
            receiver: std::thread::spawn(move || receive(self.receiver, &plan)),
            sender: std::thread::spawn(move || send(self.sender, &self.plan)),
        }
    }
}

/// A transfer under way.
pub(crate) struct Transfer {
    sender: JoinHandle<Result<()>>,
    receiver: JoinHandle<Result<()>>,
    start: Instant,
}

impl Transfer {
    /// Waits for the end; returns the time it took.
    pub(crate) fn finish(self) -> Result<Duration> {
        let sent = self.sender.join().expect("the sender does not panic");
        let received = self.receiver.join().expect("the receiver does not panic");
        // Where one side gives up the other one does too: only both reasons tell which was first.
        match (received, sent) {
            (Ok(()), Ok(())) => Ok(self.start.elapsed()),
            (Err(error), Ok(())) => Err(error.context("receiving")),
            (Ok(()), Err(error)) => Err(error.context("sending")),
            (Err(receiving), Err(sending)) => {
                bail!("receiving: {receiving:#}; sending: {sending:#}")
            }
        }
    }
}

/// The data: any piece of it can be made from its place.
fn data(seed: u64, at: usize, buffer: &mut [u8]) {
    let word = |index: usize| {
        Random::new(seed ^ (index as u64) << 20)
            .next()
            .to_le_bytes()
    };
    for (offset, byte) in buffer.iter_mut().enumerate() {
        let place = at + offset;
        // A word serves 64 bytes: the data is to be checked, not to be unguessable.
        *byte = if place.is_multiple_of(64) {
            word(place / 64)[0]
        } else {
            place as u8
        };
    }
}

fn send(stream: TcpStream, plan: &Plan) -> Result<()> {
    const CHUNK: usize = 16 << 10;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut random = Random::new(plan.seed);
    let mut buffer = vec![0; CHUNK];
    let mut at = 0;
    while at < plan.bytes {
        let chunk = &mut buffer[..CHUNK.min(plan.bytes - at)];
        data(plan.seed, at, chunk);
        if plan.ranks > 0 {
            setsockopt(
                &stream,
                sockopt::Priority,
                &(random.below(plan.ranks) as i32),
            )?;
        }
        (&stream).write_all(chunk)?;
        at += chunk.len();
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // The end of the other direction says that all was read.
    stream.set_read_timeout(Some(PATIENCE))?;
    ensure!(
        (&stream).read(&mut [0])? == 0,
        "the receiver said something"
    );
    Ok(())
}

fn await_connection(listener: &TcpListener) -> Result<()> {
    let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(PATIENCE)?;
    ensure!(poll(&mut fds, timeout)? == 1, "nobody connected");
    Ok(())
}

fn receive(mut stream: TcpStream, plan: &Plan) -> Result<()> {
    const CHUNK: usize = 16 << 10;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut buffer, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut at = 0;
    while at < plan.bytes {
        let chunk = CHUNK.min(plan.bytes - at);
        stream.read_exact(&mut buffer[..chunk])?;
        data(plan.seed, at, &mut expected[..chunk]);
        ensure!(
            buffer[..chunk] == expected[..chunk],
            "the data differs after byte {at}"
        );
        at += chunk;
    }
    ensure!(
        stream.read(&mut [0])? == 0,
        "more than {} bytes arrived",
        plan.bytes
    );
    Ok(())
}
