// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets on their way to a host, seen at nodes that they come to.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, TimestampingFlag, Timestamps, recvmmsg,
    recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::error::{Error, Result};
use crate::namespace;
use crate::testbed::Testbed;

/// As much of a packet as tells it from others: the longest header of IP, and the shortest of TCP.
const START: usize = 60 + TRANSPORT;
const TRANSPORT: usize = 20;
/// What a node's socket keeps for whoever reads it, in bytes of the kernel's memory.
const BUFFER: usize = 8 << 20;
/// Packets that are read with one system call.
const BATCH: usize = 64;
/// An IP protocol that is left to experiments (RFC 3692): nobody listens to it.
const EXPERIMENTAL: i32 = 253;
/// Of `struct ipv6hdr`.
const IPV6_HEADER: usize = 40;

/// What tells a packet from others, and is the same at all nodes: IPv4's identification, which a
/// retransmission has anew, and the beginning of what IP carries, with TCP's ports, numbers and
/// checksum. (Of IPv6 there is no identification: a segment that is sent again with the same
/// timestamps is the same packet.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Who sent it.
    pub source: IpAddr,
    identification: [u8; 2],
    transport: [u8; TRANSPORT],
}

impl Identity {
    /// The sender's port, of TCP and UDP.
    pub fn port(&self) -> u16 {
        u16::from_be_bytes([self.transport[0], self.transport[1]])
    }

    /// One that only its port tells from others of the same source: for tests.
    #[doc(hidden)]
    pub fn of(source: IpAddr, port: u16) -> Self {
        let mut transport = [0; TRANSPORT];
        transport[..2].copy_from_slice(&port.to_be_bytes());
        Self {
            source,
            identification: [0; 2],
            transport,
        }
    }
}

/// A packet that has come to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, in ns of CLOCK_REALTIME.
    pub time_ns: u64,
    /// The node, by its place among those that [`Testbed::follow`] was given.
    pub place: usize,
    /// Which packet.
    pub packet: Identity,
    /// How many hops it had left when it came.
    pub hops_left: u8,
}

/// A socket in each of some nodes, which gets a copy of what comes there on its way to a host.
pub struct Follower {
    nodes: Vec<Ear>,
}

struct Ear {
    node: String,
    to: IpAddr,
    socket: Socket,
    /// Packets for which it had no room, as it said last.
    missed: u32,
}

impl Testbed {
    /// Follows packets from now on, at each of these nodes those to an address. What leaves a node
    /// is not seen there, but where it comes to.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`]; [`Error::Privilege`]; what the system refuses.
    pub fn follow<'a>(
        &self,
        nodes: impl IntoIterator<Item = (&'a str, IpAddr)>,
    ) -> Result<Follower> {
        let nodes: Vec<(&str, IpAddr)> = nodes.into_iter().collect();
        namespace::allow_files(nodes.len())?;
        let ear = |(node, to): (&str, IpAddr)| {
            let socket = self.enter(node, || listen(to))?;
            let socket = socket
                .map_err(|error| Error::system(format!("{node}: following packets"), error))?;
            Ok(Ear {
                node: node.to_owned(),
                to,
                socket,
                missed: 0,
            })
        };
        let ears = nodes.iter().copied().map(ear).collect::<Result<_>>()?;
        if let Some((node, _)) = nodes.first() {
            self.enter(node, wait_until_stamped)?
                .map_err(|error| Error::system(format!("{node}: packets' times"), error))?;
        }
        Ok(Follower { nodes: ears })
    }
}

/// Waits until packets have the time at which they came. A socket may ask for it at once, but the
/// kernel leaves it to a worker to begin with it (`net_enable_timestamp`), and until then a packet
/// has the time at which it is read.
///
/// The packets that show it go from this namespace to itself, of a protocol that is nobody's: they
/// draw no port and no number, so that what a run draws later is the same.
fn wait_until_stamped() -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(1);
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into();
    let protocol = Protocol::from(EXPERIMENTAL);
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(protocol))?;
    socket.bind(&loopback)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // Unlike the option of the sockets that follow, these say nothing of a packet that had no time
    // when it came.
    let software = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE;
    setsockopt(&socket, sockopt::Timestamping, &software)?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        socket.send_to(&[0], &loopback)?;
        let mut start = [0; START];
        let mut parts = [IoSliceMut::new(&mut start)];
        let mut space = cmsg_space!(Timestamps);
        let descriptor = socket.as_raw_fd();
        let flags = MsgFlags::empty();
        let message = recvmsg::<()>(descriptor, &mut parts, Some(&mut space), flags)?;
        let has_time = |said| matches!(said, ControlMessageOwned::ScmTimestampsns(_));
        if message.cmsgs()?.any(has_time) {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    let message = "the kernel does not say when packets come";
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// A socket that gets what comes to this namespace on its way to an address, from IP's header on.
fn listen(to: IpAddr) -> io::Result<Socket> {
    let protocol = match to {
        IpAddr::V4(_) => libc::ETH_P_IP,
        IpAddr::V6(_) => libc::ETH_P_IPV6,
    };
    let protocol = Protocol::from(i32::from((protocol as u16).to_be()));
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))?;
    socket.attach_filter(&filter(to))?;
    // Whoever may not have more than others has what they have.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        socket.set_recv_buffer_size(BUFFER)?;
    }
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    Ok(socket)
}

/// Lets the start of a packet through whose destination it is.
fn filter(to: IpAddr) -> Vec<SockFilter> {
    let (at, bytes) = match to {
        IpAddr::V4(to) => (16, to.octets().to_vec()),
        IpAddr::V6(to) => (24, to.octets().to_vec()),
    };
    let words: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let (load, equal, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let mut program = Vec::new();
    for (place, &word) in words.iter().enumerate() {
        // To the last instruction: over two for each word that follows, and over the one that lets
        // through.
        let otherwise = 2 * (words.len() - 1 - place) + 1;
        program.push(SockFilter::new(load as u16, 0, 0, at + 4 * place as u32));
        program.push(SockFilter::new(equal as u16, 0, otherwise as u8, word));
    }
    program.push(SockFilter::new(end as u16, 0, 0, START as u32));
    program.push(SockFilter::new(end as u16, 0, 0, 0));
    program
}

impl Follower {
    /// How many packets of full size a node keeps for whoever reads them.
    pub const ROOM: usize = 3_000;

    /// Gives all packets that have come, node by node.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    pub fn read(&mut self, mut each: impl FnMut(Seen)) -> Result<()> {
        for (place, ear) in self.nodes.iter_mut().enumerate() {
            loop {
                match ear.batch(place, &mut each) {
                    Ok(BATCH) | Err(Errno::EINTR) => {}
                    // Its port was taken down by somebody.
                    Err(Errno::ENETDOWN) => {}
                    Ok(_) | Err(Errno::EAGAIN) => break,
                    Err(errno) => {
                        let what = format!("{}: following packets", ear.node);
                        return Err(Error::system(what, errno));
                    }
                }
            }
        }
        Ok(())
    }

    /// How many packets came for which there was no room, so far as it is known: a node tells it
    /// with the next packet.
    pub fn missed(&self) -> u64 {
        self.nodes.iter().map(|ear| u64::from(ear.missed)).sum()
    }
}

impl Ear {
    /// Gives what one system call reads, and says how many packets it read.
    fn batch(&mut self, place: usize, each: &mut impl FnMut(Seen)) -> nix::Result<usize> {
        let mut starts = [[0; START]; BATCH];
        let mut parts = starts.each_mut().map(|start| [IoSliceMut::new(start)]);
        // Anew for each call: what the kernel had to say of the last packets is how much it may say
        // of these.
        let space = cmsg_space!(TimeSpec, u32);
        let mut headers = MultiHeaders::<()>::preallocate(BATCH, Some(space));
        let descriptor = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let messages = recvmmsg(descriptor, &mut headers, &mut parts, flags, None)?;
        let mut read = 0;
        for message in messages {
            read += 1;
            let time_ns = self.time_ns(&message);
            let start = message.iovs().next().unwrap_or_default();
            let told = identity(start, self.to);
            if let Some(((packet, hops_left), time_ns)) = told.zip(time_ns) {
                each(Seen {
                    time_ns,
                    place,
                    packet,
                    hops_left,
                });
            }
        }
        Ok(read)
    }

    /// When a packet came. It tells how many did not, too.
    fn time_ns(&mut self, message: &RecvMsg<'_, '_, ()>) -> Option<u64> {
        let mut time_ns = None;
        for said in message.cmsgs().into_iter().flatten() {
            match said {
                ControlMessageOwned::ScmTimestampns(time) => {
                    let ns = time.tv_sec() * 1_000_000_000 + time.tv_nsec();
                    time_ns = u64::try_from(ns).ok();
                }
                ControlMessageOwned::RxqOvfl(missed) => self.missed = missed,
                _ => {}
            }
        }
        time_ns
    }
}

/// Of a packet's start, and how many hops it has left; `None` if it is cut off, or another's: what
/// came before the filter was there.
fn identity(start: &[u8], to: IpAddr) -> Option<(Identity, u8)> {
    let (source, destination, identification, hops_left, header) = match to {
        IpAddr::V4(_) => {
            let ip: &[u8; 20] = start.first_chunk()?;
            let address = |at: usize| IpAddr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
            let header = 4 * usize::from(ip[0] & 0xf);
            (address(12), address(16), [ip[4], ip[5]], ip[8], header)
        }
        IpAddr::V6(_) => {
            let ip: &[u8; IPV6_HEADER] = start.first_chunk()?;
            let address = |at: usize| {
                let octets: Option<[u8; 16]> = ip[at..].first_chunk().copied();
                octets.map(IpAddr::from)
            };
            (address(8)?, address(24)?, [0; 2], ip[7], IPV6_HEADER)
        }
    };
    if destination != to {
        return None;
    }
    // What is shorter ends in zeros.
    let mut transport = [0; TRANSPORT];
    for (to, from) in transport.iter_mut().zip(start.get(header..)?) {
        *to = *from;
    }
    let packet = Identity {
        source,
        identification,
        transport,
    };
    Some((packet, hops_left))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 10.0.0.1 to 10.0.0.2, identification 7, with an option, then `transport`.
    fn ipv4(transport: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x46, 0, 0, 0, 0, 7, 0x40, 0, 64, 6, 0xaa, 0xbb];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([1; 4]);
        packet.extend(transport);
        packet
    }

    #[test]
    fn a_packet_is_the_same_when_it_has_been_marked_and_forwarded() {
        let to = "10.0.0.2".parse().unwrap();
        let first = ipv4(&[9; 40]);
        let mut later = first.clone();
        // Code point, time to live, checksum; and data that are past what is looked at.
        (later[1], later[8], later[10]) = (3, 60, 0);
        *later.last_mut().unwrap() = 0;
        let hops_left = |packet: &[u8]| identity(packet, to).unwrap().1;
        assert_eq!((hops_left(&first), hops_left(&later)), (64, 60));
        let identity = |packet: &[u8]| identity(packet, to).unwrap().0;
        assert_eq!(identity(&first).port(), 0x0909);
        assert_eq!(identity(&first), identity(&later));
        assert_eq!(
            identity(&first).source,
            "10.0.0.1".parse::<IpAddr>().unwrap()
        );
        // Sent again, and another segment.
        let mut again = first.clone();
        again[5] = 8;
        assert_ne!(identity(&first), identity(&again));
        assert_ne!(identity(&first), identity(&ipv4(&[8; 40])));
    }

    #[test]
    fn what_is_cut_off_or_for_others_is_no_packet() {
        let to = "10.0.0.2".parse().unwrap();
        for length in 0..24 {
            assert!(identity(&ipv4(&[])[..length], to).is_none(), "{length}");
        }
        assert!(identity(&ipv4(&[]), to).is_some());
        assert!(identity(&ipv4(&[1]), "10.0.0.3".parse().unwrap()).is_none());
        let mut six = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        six.extend([1; 16]);
        six.extend([2; 16]);
        six.extend([7; 20]);
        let to = IpAddr::from([2; 16]);
        let (packet, hops_left) = identity(&six, to).unwrap();
        assert_eq!((packet.source, hops_left), (IpAddr::from([1; 16]), 64));
        assert!(identity(&six[..39], to).is_none());
    }

    #[test]
    fn the_filter_jumps_to_its_end_unless_all_words_are_alike() {
        assert_eq!(filter("10.0.0.2".parse().unwrap()).len(), 4);
        assert_eq!(filter("fd00::1".parse().unwrap()).len(), 10);
    }
}
