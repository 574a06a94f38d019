// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbitrators of a rack, with their sockets.
//!
//! One thread does everything, in turns. In a turn it first reads messages of hosts and of other
//! arbitrators alternately, until there are none or the turn's time is over. Then it checks a
//! bounded number of flows for expiry, and writes a bounded piece of each answer to `weft-pase
//! show`. So a flood of messages, many flows or a large answer delay the others by at most a part
//! of a turn.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use weft_mechanisms::pase::message::Message;
use weft_pase::arbitrators::{Arbitrators, Outgoing, Peer, Rules};
use weft_pase::frames::Frames;
use weft_pase::tree::Tree;
use weft_topo::{Kind, Topology};

use crate::listener::Listener;
use crate::random;

/// The port of arbitrators among themselves. Only a privileged process can send from it.
const PORT: u16 = 797;

/// Maximum time to read messages in a turn.
const TURN: Duration = Duration::from_millis(1);

/// Minimum of messages per socket that are read in a turn, if they have arrived.
const LEAST: usize = 16;

/// Flows per turn that are checked for expiry.
const EXPIRED: usize = 256;

/// A switch's sockets, and the peers behind them.
struct Sockets {
    frames: Frames,
    others: UdpSocket,
    /// The device of each host, and the host of each device.
    device: HashMap<usize, u32>,
    host: HashMap<u32, usize>,
    address: Vec<Ipv4Addr>,
    rack: BTreeMap<Ipv4Addr, usize>,
}

/// Serves until the process is ended. At a switch without hosts it sleeps.
///
/// # Errors
///
/// If the switch does not exist, or its sockets cannot be opened.
pub(crate) fn run(topology: &Topology, node: &str, rules: Rules) -> Result<()> {
    let id = topology.find(node);
    let id = id.with_context(|| format!("{} has no node `{node}`", topology.title()))?;
    if topology.node(id).kind != Kind::Switch {
        bail!("{node} is a host: arbitrators are at switches");
    }
    let tree = Tree::new(topology);
    let Some(rack) = tree.racks.iter().position(|rack| rack.switch == node) else {
        loop {
            std::thread::park();
        }
    };
    let sockets = Sockets::open(&tree, rack)?;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block().context("blocking signals")?;
    let end = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).context("signalfd")?;
    let mut listener = Listener::open()?;
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let sequence = u64::try_from(since_1970.as_nanos()).unwrap_or(0);
    // The hash key for flow numbers.
    let secret = random::draw().context("drawing a random number")?;
    let mut arbitrators = Arbitrators::new(tree, rack, rules, sequence, secret);
    let begun = Instant::now();
    let now = || ns(begun.elapsed());
    let period =
        Duration::from_micros(u64::from(rules.lifetime_us) / 4).max(Duration::from_millis(1));
    let period = ns(period);
    // When the next pass over the flows begins, and whether one is in progress.
    let mut expires_at = period;
    let mut is_expiring = false;
    let mut is_behind = false;
    loop {
        // Without flows nothing can expire. A rack with a share of a trunk sends reports even
        // without flows.
        let idle = arbitrators.is_empty() && !arbitrators.delegates();
        let timeout = match (is_behind || is_expiring, idle) {
            (true, _) => Some(0),
            (false, true) => None,
            (false, false) => Some(expires_at.saturating_sub(now())),
        };
        if wait(&sockets, &listener, &end, timeout.map(Duration::from_nanos))? {
            // The listener removes its file when it is dropped.
            return Ok(());
        }
        let due = expires_at.min(now().saturating_add(ns(TURN)));
        is_behind = by_turns(due, now, |socket| {
            let Some((from, bytes)) = sockets.receive(socket)? else {
                return Ok(false);
            };
            match (from, Message::decode(&bytes)) {
                (Some(from), Ok(message)) => {
                    let out = arbitrators.receive(from, &message, now());
                    sockets.send(&out);
                }
                _ => arbitrators.ignore(),
            }
            Ok(true)
        })?;
        listener.accept(node, &arbitrators, now())?;
        listener.serve(&arbitrators, now())?;
        if now() >= expires_at {
            sockets.send(&arbitrators.renew(now()));
            expires_at = now().saturating_add(period);
            is_expiring = true;
        }
        if is_expiring {
            is_expiring = !arbitrators.expire(now(), EXPIRED);
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Handles messages of the two sockets alternately, until neither has one or the time is over.
/// Returns whether there may be more. `serve` returns whether a socket had a message.
fn by_turns(
    due: u64,
    now: impl Fn() -> u64,
    mut serve: impl FnMut(usize) -> Result<bool>,
) -> Result<bool> {
    for count in 1.. {
        let [first, second] = [serve(0)?, serve(1)?];
        if !first && !second {
            break;
        }
        if count >= LEAST && now() >= due {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits until a socket is ready, or the time is over; returns whether to stop.
fn wait(
    sockets: &Sockets,
    listener: &Listener,
    end: &SignalFd,
    timeout: Option<Duration>,
) -> Result<bool> {
    let readable = |it| PollFd::new(it, PollFlags::POLLIN);
    let mut all = vec![
        readable(end.as_fd()),
        readable(sockets.frames.as_fd()),
        readable(sockets.others.as_fd()),
        readable(listener.as_fd()),
    ];
    let clients = listener.clients();
    all.extend(clients.map(|it| PollFd::new(it, PollFlags::POLLOUT)));
    let timeout = timeout.map_or(PollTimeout::NONE, |it| {
        // Rounded up, because an early wakeup would repeat the call in a loop.
        let it = it.checked_add(Duration::from_micros(999)).unwrap_or(it);
        PollTimeout::try_from(it).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut all, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(all[0].any().unwrap_or(false)),
        Err(errno) => Err(errno).context("waiting for messages"),
    }
}

impl Sockets {
    fn open(tree: &Tree, rack: usize) -> Result<Self> {
        let frames = Frames::open().context("opening a packet socket")?;
        let (mut device, mut host) = (HashMap::new(), HashMap::new());
        for (place, it) in tree.hosts.iter().enumerate() {
            if it.rack != rack {
                continue;
            }
            let index = nix::net::if_::if_nametoindex(it.name.as_str())
                .with_context(|| format!("the port to {}", it.name))?;
            let joining = || format!("receiving frames at the port to {}", it.name);
            frames.join(index).with_context(joining)?;
            device.insert(place, index);
            host.insert(index, place);
        }
        let own = SocketAddr::new(IpAddr::V4(tree.racks[rack].address), PORT);
        let others = UdpSocket::bind(own).with_context(|| format!("binding to {own}"))?;
        others.set_nonblocking(true)?;
        let address: Vec<_> = tree.racks.iter().map(|it| it.address).collect();
        let rack = address.iter().copied().zip(0..).collect();
        Ok(Self {
            frames,
            others,
            device,
            host,
            address,
            rack,
        })
    }

    /// The next message of hosts (0) or of other arbitrators (1), and its sender: `None` if the
    /// sender is not allowed.
    fn receive(&self, socket: usize) -> Result<Option<(Option<Peer>, Vec<u8>)>> {
        if socket > 0 {
            return self.receive_other().context("receiving messages");
        }
        let frame = self.frames.receive().context("receiving frames")?;
        Ok(frame.map(|(device, bytes)| {
            let host = self.host.get(&device).copied();
            (host.map(Peer::Host), bytes.to_vec())
        }))
    }

    fn receive_other(&self) -> io::Result<Option<(Option<Peer>, Vec<u8>)>> {
        let mut bytes = [0; 128];
        loop {
            match self.others.recv_from(&mut bytes) {
                Ok((count, from)) => {
                    let rack = match from {
                        SocketAddr::V4(from) if from.port() == PORT => self.rack.get(from.ip()),
                        _ => None,
                    };
                    return Ok(Some((
                        rack.copied().map(Peer::Rack),
                        bytes[..count].to_vec(),
                    )));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // An earlier message could not be delivered, and the kernel reports it here.
                Err(error) if is_of_the_way(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A message that cannot be sent is lost, like any message.
    fn send(&self, out: &Outgoing) {
        for (to, message) in out {
            let bytes = message.encode();
            match *to {
                Peer::Host(host) => {
                    if let Some(&device) = self.device.get(&host) {
                        self.frames.send(device, &bytes);
                    }
                }
                Peer::Rack(rack) => {
                    let _ = self.others.send_to(&bytes, (self.address[rack], PORT));
                }
            }
        }
    }
}

fn is_of_the_way(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable};
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkUnreachable | Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_flood_at_one_socket_delays_neither_the_other_nor_due_work() {
        let clock = Cell::new(0);
        let mut served = [0, 0];
        let mut waiting = 100;
        // Each message takes 3 µs; the first socket never runs out of messages.
        let is_behind = by_turns(
            1_000_000,
            || clock.get(),
            |socket| {
                clock.set(clock.get() + 3000);
                let is_there = socket == 0 || waiting > 0;
                waiting -= usize::from(socket == 1 && waiting > 0);
                served[socket] += usize::from(is_there);
                Ok(is_there)
            },
        );
        assert!(is_behind.unwrap());
        assert_eq!(served[1], 100);
        assert!(clock.get() < 1_000_000 + 2 * 3000, "{}", clock.get());
    }

    #[test]
    fn messages_are_read_even_if_work_is_always_due() {
        let mut served = [0, 0];
        let is_behind = by_turns(
            0,
            || 1,
            |socket| {
                served[socket] += 1;
                Ok(true)
            },
        );
        assert!(is_behind.unwrap());
        assert_eq!(served, [LEAST; 2]);
    }

    #[test]
    fn all_received_messages_are_served() {
        let mut waiting = [vec![3, 2, 1], vec![5, 4]];
        let mut all = Vec::new();
        let is_behind = by_turns(
            u64::MAX,
            || 0,
            |socket| {
                let message = waiting[socket].pop();
                all.extend(message);
                Ok(message.is_some())
            },
        );
        assert!(!is_behind.unwrap());
        assert_eq!(all, [1, 4, 2, 5, 3]);
    }
}
