// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thread that listens to packets during a run.

use std::collections::BTreeMap;
use std::io::{PipeReader, PipeWriter, pipe};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::AsFd as _;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use weft_net::{Follower, Identity, Testbed};
use weft_topo::{NodeId, Rate, Topology};

use crate::{testbed, topology};

/// The minimum and maximum time between two readings, in ms of the machine. Waking for each packet
/// would cost more than the packets themselves.
const BETWEEN_MS: (u64, u64) = (1, 100);

/// A packet of a host that has arrived at a node.
pub(crate) struct Heard {
    /// The time, in ns of CLOCK_REALTIME.
    pub(crate) time_ns: u64,
    /// The sender.
    pub(crate) from: NodeId,
    /// The node.
    pub(crate) at: NodeId,
    /// The packet's identity.
    pub(crate) packet: Identity,
    /// Its remaining hops.
    pub(crate) hops_left: u8,
}

/// A consumer of packets.
pub(crate) trait Listener {
    /// The nodes at which it listens, each with the host to which the packets are on their way.
    fn places(&self) -> Vec<(NodeId, NodeId)>;

    /// Takes a packet, in no order.
    fn hear(&mut self, heard: &Heard);

    /// Called when all available packets have been read.
    fn settle(&mut self) {}
}

/// A running listener, which stops when it is ended or dropped.
pub(crate) struct Listening<'scope, L> {
    thread: ScopedJoinHandle<'scope, Result<(L, u64)>>,
    /// The thread ends when this is closed.
    end: PipeWriter,
}

impl<'scope, L: Listener + Send + 'scope> Listening<'scope, L> {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        (testbed, topology, dilation): (&Testbed, &Topology, NonZeroU32),
        ipv6: bool,
        mut listener: L,
    ) -> Result<Self> {
        let address = |id: NodeId| topology.node(id).address.of_family(ipv6);
        let hosts: BTreeMap<IpAddr, NodeId> =
            topology.hosts().map(|id| (address(id), id)).collect();
        let places = listener.places();
        let named = places.iter();
        let named = named.map(|&(at, to)| (topology.node(at).name.as_str(), address(to)));
        let between = between(topology, places.iter().map(|&(at, _)| at), dilation);
        let mut follower = testbed.follow(named).map_err(testbed::explain)?;
        let (hung_up, end) = pipe().context("making a pipe")?;
        let alarm = alarm(between)?;
        let thread = scope.spawn(move || {
            loop {
                let goes_on = wait(&hung_up, &alarm)?;
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

    /// Stops the thread; returns the listener, and the number of packets that it missed.
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

/// The time from one reading to the next: in it, the packets of all links of any of these nodes, on
/// the slowed fabric, fill a third of the buffer.
fn between(
    topology: &Topology,
    nodes: impl Iterator<Item = NodeId>,
    dilation: NonZeroU32,
) -> Duration {
    let rate = |id: NodeId| -> u64 {
        let rates = topology::rates(topology, id);
        rates.map(Rate::bits_per_second).sum()
    };
    let rate = nodes.map(rate).max().unwrap_or(1).max(1);
    let bits = 8 * topology::FRAME * (Follower::ROOM / 3) as u64;
    let ms = bits * 1000 * u64::from(dilation.get()) / rate;
    let (least, most) = BETWEEN_MS;
    Duration::from_millis(ms.clamp(least, most))
}

/// A timer that rings again and again. With a time of its own, each call of `poll` would read the
/// clock, and under the model clock that takes time, which would delay flows.
fn alarm(every: Duration) -> Result<TimerFd> {
    let alarm = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC);
    let alarm = alarm.context("making a timer")?;
    let every = Expiration::Interval(TimeSpec::from_duration(every));
    let set = alarm.set(every, TimerSetTimeFlags::empty());
    set.context("setting a timer")?;
    Ok(alarm)
}

/// Waits for the next reading; false if the pipe was closed first.
fn wait(hung_up: &PipeReader, alarm: &TimerFd) -> Result<bool> {
    let mut ends = [
        PollFd::new(hung_up.as_fd(), PollFlags::empty()),
        PollFd::new(alarm.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut ends, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(errno) => return Err(errno).context("waiting for a run's end"),
    }
    let [closed, rings] = ends.map(|end| end.any().unwrap_or_default());
    if rings {
        alarm.wait().context("reading a timer")?;
    }
    Ok(!closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_two_reads_follows_from_the_fabrics_rate() {
        let between = |topology: &str, dilation| {
            let topology = topology::parse(topology).unwrap();
            let dilation = NonZeroU32::new(dilation).unwrap();
            between(&topology, topology.hosts(), dilation).as_millis()
        };
        // A thousand packets of 1,538 B take 1.2 ms at 10 Gbit/s.
        assert_eq!(between("rack:hosts=2,rate=10gbit", 1), 1);
        assert_eq!(between("rack:hosts=2,rate=1gbit", 1), 12);
        assert_eq!(between("rack:hosts=2,rate=10gbit", 10), 12);
        assert_eq!(between("rack:hosts=2,rate=1gbit", 100), 100);
        assert_eq!(between("rack:hosts=2,rate=400gbit", 1), 1);
        // A switch receives from all of its ports.
        let topology = topology::parse("rack:hosts=4,rate=1gbit").unwrap();
        let time = super::between(&topology, topology.switches(), NonZeroU32::MIN);
        assert_eq!(time.as_millis(), 3);
    }
}
