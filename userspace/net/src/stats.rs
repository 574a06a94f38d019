// SPDX-License-Identifier: MIT OR Apache-2.0

//! The statistics of a testbed's qdiscs, for repeated reading.

use std::os::fd::RawFd;

use crate::attributes::{self, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::links::{self, text};
use crate::namespace;
use crate::netlink::{self, Batch, Socket};
use crate::qdisc::Handle;
use crate::ring::{Failure, Ring};
use crate::testbed::Testbed;

const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;
const STATS_APP: u16 = 4;
const STATS_PKT64: u16 = 8;
const QDISC_HEADER: usize = 20;

/// The counts of one qdisc since it was created, and its current backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QdiscStats<'a> {
    /// The node's name.
    pub node: &'a str,
    /// The port's name.
    pub port: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its number.
    pub handle: Handle,
    /// [`Handle::ROOT`], a qdisc or a class.
    pub parent: Handle,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets in the queue.
    pub backlog_packets: u32,
    /// Bytes in the queue.
    pub backlog_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Packets that the device did not accept at once.
    pub requeues: u32,
    /// Times that it had to wait, or marked a packet.
    pub overlimits: u32,
    /// Its kind's own statistics from the kernel (`TCA_STATS_APP`); empty if it has none.
    pub app: &'a [u8],
}

struct NodePorts {
    name: String,
    socket: Socket,
    request: Batch,
    /// The names of the ports by their devices' indices.
    ports: Vec<(u32, String)>,
}

/// Reads the statistics of all ports of all nodes. It keeps its sockets and memory between reads.
/// The namespaces live as long as this does.
pub struct StatsReader {
    nodes: Vec<NodePorts>,
    /// `None`: the kernel forbids it, and nodes are asked one by one.
    ring: Option<Ring>,
    buffer: Vec<u8>,
}

impl Testbed {
    /// Opens a socket in every node; raises the soft limit of open files if necessary.
    ///
    /// # Errors
    ///
    /// [`Error::Privilege`]; errors of the system.
    pub fn stats(&self) -> Result<StatsReader> {
        let mut nodes = Vec::new();
        namespace::allow_files(self.nodes().len())?;
        for name in self.nodes() {
            let netlink = |error| Error::system(format!("{name}: netlink"), error);
            let mut socket = self.enter(name, Socket::open)?.map_err(netlink)?;
            let mut ports = Vec::new();
            links::each(&mut socket, |device| {
                if device.is_port() {
                    ports.push((device.index, device.name.to_owned()));
                }
            })
            .map_err(netlink)?;
            nodes.push(NodePorts {
                name: name.clone(),
                socket,
                request: Batch::qdiscs(),
                ports,
            });
        }
        Ok(StatsReader {
            nodes,
            ring: Ring::open(),
            buffer: Vec::new(),
        })
    }
}

impl StatsReader {
    /// Passes the statistics of every qdisc to `each`, mostly node by node. A qdisc comes before
    /// its children.
    ///
    /// # Errors
    ///
    /// If netlink fails.
    pub fn read(&mut self, each: impl FnMut(&QdiscStats<'_>)) -> Result<()> {
        match &mut self.ring {
            Some(ring) => read_at_once(&mut self.nodes, ring, each),
            None => read_one_by_one(&mut self.nodes, &mut self.buffer, each),
        }
    }

    /// From now on asks the nodes one by one, as where `io_uring` is forbidden.
    #[doc(hidden)]
    pub fn without_ring(&mut self) {
        self.ring = None;
    }
}

fn read_at_once(
    nodes: &mut [NodePorts],
    ring: &mut Ring,
    mut each: impl FnMut(&QdiscStats<'_>),
) -> Result<()> {
    let number = |node: &mut NodePorts| node.socket.number(&mut node.request);
    let numbers: Vec<u32> = nodes.iter_mut().map(number).collect();
    let asked: Vec<(RawFd, &[u8])> = nodes
        .iter()
        .map(|node| (node.socket.as_raw_fd(), node.request.bytes()))
        .collect();
    ring.exchange(&asked, netlink::ANSWER, |place, datagram| {
        netlink::parts(datagram, numbers[place], |qdisc| {
            let NodePorts { name, ports, .. } = &nodes[place];
            if let Some(stats) = stats_of(name, ports, qdisc) {
                each(&stats);
            }
        })
    })
    .map_err(|Failure { place, error }| {
        let node = place.map(|place| format!("{}: ", nodes[place].name));
        Error::system(format!("{}netlink", node.unwrap_or_default()), error)
    })
}

fn read_one_by_one(
    nodes: &mut [NodePorts],
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&QdiscStats<'_>),
) -> Result<()> {
    for node in nodes {
        let NodePorts {
            name,
            socket,
            request,
            ports,
        } = node;
        socket
            .ask(request, buffer, |qdisc| {
                if let Some(stats) = stats_of(name, ports, qdisc) {
                    each(&stats);
                }
            })
            .map_err(|error| Error::system(format!("{name}: netlink"), error))?;
    }
    Ok(())
}

fn stats_of<'a>(
    node: &'a str,
    ports: &'a [(u32, String)],
    qdisc: &'a [u8],
) -> Option<QdiscStats<'a>> {
    let index = u32_at(qdisc, 4)?;
    let (_, port) = ports.iter().find(|(known, _)| *known == index)?;
    let mut stats = QdiscStats {
        node,
        port,
        kind: "",
        handle: Handle(u32_at(qdisc, 8)?),
        parent: Handle(u32_at(qdisc, 12)?),
        bytes: 0,
        packets: 0,
        backlog_packets: 0,
        backlog_bytes: 0,
        drops: 0,
        requeues: 0,
        overlimits: 0,
        app: &[],
    };
    for (kind, value) in attributes::read(qdisc.get(QDISC_HEADER..)?) {
        match kind {
            libc::TCA_KIND => stats.kind = text(value)?,
            libc::TCA_STATS2 => {
                let mut packets64 = None;
                for (kind, value) in attributes::read(value) {
                    match kind {
                        STATS_BASIC => {
                            stats.bytes = u64_at(value, 0)?;
                            stats.packets = u32_at(value, 8)?.into();
                        }
                        STATS_PKT64 => packets64 = u64_at(value, 0),
                        STATS_QUEUE => {
                            stats.backlog_packets = u32_at(value, 0)?;
                            stats.backlog_bytes = u32_at(value, 4)?;
                            stats.drops = u32_at(value, 8)?;
                            stats.requeues = u32_at(value, 12)?;
                            stats.overlimits = u32_at(value, 16)?;
                        }
                        STATS_APP => stats.app = value,
                        _ => {}
                    }
                }
                // Present only if 32 bits do not suffice.
                stats.packets = packets64.unwrap_or(stats.packets);
            }
            _ => {}
        }
    }
    Some(stats)
}
