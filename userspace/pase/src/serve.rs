// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbitrators of a rack, with their sockets.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weft_mechanisms::pase::message::Message;
use weft_pase::arbitrators::{Arbitrators, Out, Peer, Rules};
use weft_pase::frames::Frames;
use weft_pase::tree::Tree;
use weft_topo::{Kind, Topology};

use crate::show::{self, Listener};

/// Of arbitrators among themselves. Only who is privileged there sends from it.
const PORT: u16 = 797;

/// The most messages of one socket before others have their turn.
const TURN: usize = 256;

/// A switch's sockets, and who is behind them.
struct Sockets {
    frames: Frames,
    others: UdpSocket,
    /// A host's device, and a device's host.
    device: HashMap<usize, u32>,
    host: HashMap<u32, usize>,
    address: Vec<Ipv4Addr>,
    rack: BTreeMap<Ipv4Addr, usize>,
}

/// Serves until the process is ended. A switch without hosts has nothing to do.
///
/// # Errors
///
/// If there is no such switch, or its sockets cannot be opened.
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
    let listener = Listener::open()?;
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let sequence = u64::try_from(since_1970.as_nanos()).unwrap_or(0);
    // Whoever chooses flows' numbers is a kernel. Still, nobody is to know.
    let secret = sequence ^ u64::from(std::process::id()).rotate_left(32);
    let mut arbitrators = Arbitrators::new(tree, rack, rules, sequence, secret);
    let begun = Instant::now();
    let now = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let period =
        Duration::from_micros(u64::from(rules.lifetime_us) / 4).max(Duration::from_millis(1));
    let mut expired = Instant::now();
    loop {
        // Nothing known is nothing to be forgotten. Who has a part of a trunk reports whether he has flows or not.
        let idle = arbitrators.is_empty() && !arbitrators.delegates();
        let timeout = (!idle).then_some(period);
        wait(&sockets, &listener, timeout)?;
        let mut heed = |from: Option<Peer>, bytes: &[u8]| match (from, Message::decode(bytes)) {
            (Some(from), Ok(message)) => {
                let out = arbitrators.receive(from, &message, now());
                sockets.send(&out);
            }
            _ => arbitrators.ignore(),
        };
        let frame = || sockets.frames.receive().context("receiving frames");
        turn(frame, |(device, bytes)| {
            let host = sockets.host.get(&device).copied();
            heed(host.map(Peer::Host), &bytes);
        })?;
        let other = || sockets.receive().context("receiving messages");
        turn(other, |(rack, bytes)| heed(rack.map(Peer::Rack), &bytes))?;
        if let Some(mut stream) = listener.accept() {
            // Who goes away before it is told has not asked.
            let _ = stream.write_all(&show::told(node, &arbitrators, now())?);
        }
        if expired.elapsed() >= period {
            arbitrators.expire(now());
            sockets.send(&arbitrators.renew(now()));
            expired = Instant::now();
        }
    }
}

/// Serves what there is, up to a [`TURN`]: more may come all the time.
fn turn<T>(mut receive: impl FnMut() -> Result<Option<T>>, mut serve: impl FnMut(T)) -> Result<()> {
    for _ in 0..TURN {
        let Some(received) = receive()? else {
            break;
        };
        serve(received);
    }
    Ok(())
}

fn wait(sockets: &Sockets, listener: &Listener, timeout: Option<Duration>) -> Result<()> {
    let readable = |it| PollFd::new(it, PollFlags::POLLIN);
    let mut all = [
        readable(sockets.frames.as_fd()),
        readable(sockets.others.as_fd()),
        readable(listener.as_fd()),
    ];
    let timeout = timeout.map_or(PollTimeout::NONE, |it| {
        PollTimeout::try_from(it).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut all, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
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

    /// The next message of arbitrators elsewhere, and whose: not for one from nobody who may send it.
    fn receive(&self) -> io::Result<Option<(Option<usize>, Vec<u8>)>> {
        let mut bytes = [0; 128];
        loop {
            match self.others.recv_from(&mut bytes) {
                Ok((count, from)) => {
                    let rack = match from {
                        SocketAddr::V4(from) if from.port() == PORT => self.rack.get(from.ip()),
                        _ => None,
                    };
                    return Ok(Some((rack.copied(), bytes[..count].to_vec())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // Somebody is gone, as an earlier message found.
                Err(error) if is_of_the_way(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What cannot be sent is lost, as any message may be.
    fn send(&self, out: &Out) {
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
    use super::*;

    #[test]
    fn who_speaks_all_the_time_has_a_turn_like_others() {
        let mut served = 0;
        turn(|| Ok(Some(())), |()| served += 1).unwrap();
        assert_eq!(served, TURN);
        let mut waiting = vec![2, 1];
        let mut all = Vec::new();
        turn(|| Ok(waiting.pop()), |it| all.push(it)).unwrap();
        assert_eq!(all, [1, 2]);
    }
}
