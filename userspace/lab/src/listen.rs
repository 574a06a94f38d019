// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thread that listens to packets while a run lasts.

use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, pipe};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weft_net::{Identity, Testbed};
use weft_topo::{NodeId, Topology};

use crate::testbed;

/// How often it reads what has come, in ms of the machine: what comes to a host at 10 Gbit/s meanwhile, 4,000 packets,
/// its socket keeps. To wake for each packet would cost more than the packets do.
const EVERY_MS: u8 = 5;

/// A packet of a host that has come to a node.
pub(crate) struct Heard {
    /// When, in ns of CLOCK_REALTIME.
    pub(crate) time_ns: u64,
    /// Who sent it.
    pub(crate) from: NodeId,
    /// The node.
    pub(crate) at: NodeId,
    /// Which packet.
    pub(crate) packet: Identity,
    /// How many hops it had left.
    pub(crate) hops_left: u8,
}

/// What becomes of packets.
pub(crate) trait Listener {
    /// At which nodes it listens, and at each to what comes on its way to which host.
    fn places(&self) -> Vec<(NodeId, NodeId)>;

    /// Takes a packet, in no order.
    fn hear(&mut self, heard: &Heard);

    /// When all has been read that there was.
    fn settle(&mut self) {}
}

/// A listener at work, until it is ended or goes.
pub(crate) struct Listening<'scope, L> {
    thread: ScopedJoinHandle<'scope, Result<(L, u64)>>,
    /// Hung up, it ends.
    end: PipeWriter,
}

impl<'scope, L: Listener + Send + 'scope> Listening<'scope, L> {
    /// Begins.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        (testbed, topology): (&Testbed, &Topology),
        ipv6: bool,
        mut listener: L,
    ) -> Result<Self> {
        let address = |id: NodeId| topology.node(id).address.of_family(ipv6);
        let hosts: BTreeMap<IpAddr, NodeId> =
            topology.hosts().map(|id| (address(id), id)).collect();
        let places = listener.places();
        let named = places.iter();
        let named = named.map(|&(at, to)| (topology.node(at).name.as_str(), address(to)));
        let mut follower = testbed.follow(named).map_err(testbed::explain)?;
        let (hung_up, end) = pipe().context("making a pipe")?;
        let thread = scope.spawn(move || {
            loop {
                let goes_on = wait(&hung_up)?;
                let read = follower.read(|seen| {
                    if let Some(&from) = hosts.get(&seen.packet.source) {
                        listener.hear(&Heard {
                            time_ns: seen.time_ns,
                            from,
                            at: places[seen.place].0,
                            packet: seen.packet,
                            hops_left: seen.hops_left,
                        });
                    }
                });
                read.map_err(testbed::explain)?;
                listener.settle();
                if !goes_on {
                    return Ok((listener, follower.missed()));
                }
            }
        });
        Ok(Self { thread, end })
    }

    /// The listener, and how many packets it missed.
    ///
    /// # Errors
    ///
    /// If packets could not be read.
    pub(crate) fn end(self) -> Result<(L, u64)> {
        drop(self.end);
        let ended = self.thread.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Waits for the next time; false if the pipe was hung up first.
fn wait(hung_up: &PipeReader) -> Result<bool> {
    let mut ends = [PollFd::new(hung_up.as_fd(), PollFlags::empty())];
    match poll(&mut ends, PollTimeout::from(EVERY_MS)) {
        Ok(0) | Err(Errno::EINTR) => Ok(true),
        Ok(_) => Ok(false),
        Err(errno) => Err(errno).context("waiting for a run's end"),
    }
}
