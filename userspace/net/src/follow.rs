// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets on their way to a host, observed at the nodes where they arrive.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::thread;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, TimestampingFlag, Timestamps, recvmmsg,
    recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::error::{Error, Result};
use crate::namespace;
use crate::testbed::Testbed;

/// The part of a packet that identifies it: the longest IP header, and the shortest TCP header.
/// IPv6's has destination options: weft's tag, or its hop records.
const START: usize = IPV6_HEADER + 48 + TRANSPORT;
const TRANSPORT: usize = 20;
/// The kernel memory in which a node's socket stores unread packets, in bytes.
const BUFFER: usize = 8 << 20;
/// Packets read by one system call.
const BATCH: usize = 64;
/// An IP protocol reserved for experiments (RFC 3692): no socket listens to it.
const EXPERIMENTAL: i32 = 253;
/// Of `struct ipv6hdr`.
const IPV6_HEADER: usize = 40;
/// IPv6's next header: destination options.
const DESTINATION_OPTIONS: u8 = 60;

/// The fields that identify a packet and are the same at all nodes: IPv4's identification, which is
/// new in a retransmission, and the beginning of IP's payload, with TCP's ports, numbers and
/// checksum. (IPv6 has no identification: a segment retransmitted with the same timestamps is the
/// same packet.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// Its source address.
    pub source: IpAddr,
    identification: [u8; 2],
    transport: [u8; TRANSPORT],
}

impl Identity {
    /// The sender's port, of TCP and UDP.
    pub fn port(&self) -> u16 {
        u16::from_be_bytes([self.transport[0], self.transport[1]])
    }

    /// An identity distinguished from others of the same source only by its port: for tests.
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

/// A packet that has arrived at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The time of arrival, in ns of CLOCK_REALTIME.
    pub time_ns: u64,
    /// The node, as an index into those given to [`Testbed::follow`].
    pub place: usize,
    /// The packet.
    pub packet: Identity,
    /// The number of hops that it had left on arrival.
    pub hops_left: u8,
}

/// A socket in each of several nodes, which gets a copy of each packet that arrives there on its
/// way to a host.
pub struct Follower {
    nodes: Vec<Ear>,
}

struct Ear {
    node: String,
    to: IpAddr,
    socket: Socket,
    /// The last reported number of packets for which it had no room.
    missed: u32,
}

impl Testbed {
    /// Follows packets from now on: at each of these nodes, packets to the given address. A packet
    /// is seen not where it leaves a node, but where it arrives.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`]; [`Error::Privilege`]; errors of the system.
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

/// Waits until packets carry their arrival time. A socket can request it at once, but the kernel
/// leaves the start to a worker (`net_enable_timestamp`). Until then a packet gets the time at
/// which it is read.
///
/// The packets that test this go from this namespace to itself, with an unused protocol: they
/// consume no port and no random number, so later draws of a run do not change.
fn wait_until_stamped() -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(1);
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into();
    let protocol = Protocol::from(EXPERIMENTAL);
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(protocol))?;
    socket.bind(&loopback)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // Unlike the option of the sockets that follow, these report nothing for a packet that had no
    // arrival time.
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

/// A socket that gets packets arriving in this namespace on their way to an address, from the IP
/// header on.
fn listen(to: IpAddr) -> io::Result<Socket> {
    let protocol = match to {
        IpAddr::V4(_) => libc::ETH_P_IP,
        IpAddr::V6(_) => libc::ETH_P_IPV6,
    };
    let protocol = Protocol::from(i32::from((protocol as u16).to_be()));
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))?;
    socket.attach_filter(&filter(to))?;
    // Unprivileged users get the ordinary size.
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        socket.set_recv_buffer_size(BUFFER)?;
    }
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    Ok(socket)
}

/// Passes the start of a packet with this destination.
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
        // A jump to the last instruction: over two for each following word, and over the one that
        // accepts.
        let otherwise = 2 * (words.len() - 1 - place) + 1;
        program.push(SockFilter::new(load as u16, 0, 0, at + 4 * place as u32));
        program.push(SockFilter::new(equal as u16, 0, otherwise as u8, word));
    }
    program.push(SockFilter::new(end as u16, 0, 0, START as u32));
    program.push(SockFilter::new(end as u16, 0, 0, 0));
    program
}

impl Follower {
    /// The number of full-size packets that a node stores until they are read.
    pub const ROOM: usize = 3_000;

    /// Passes all packets that have arrived to `each`.
    ///
    /// It asks which nodes have packets, and reads only those: under the model clock a failed
    /// system call takes a microsecond, so that an attempt to read nothing would delay flows.
    ///
    /// # Errors
    ///
    /// Errors of the system.
    pub fn read(&mut self, mut each: impl FnMut(Seen)) -> Result<()> {
        loop {
            let readable = self.readable()?;
            if readable.is_empty() {
                return Ok(());
            }
            for place in readable {
                let ear = &mut self.nodes[place];
                match ear.batch(place, &mut each) {
                    // Its port was taken down.
                    Ok(_) | Err(Errno::EINTR | Errno::EAGAIN | Errno::ENETDOWN) => {}
                    Err(errno) => {
                        let what = format!("{}: following packets", ear.node);
                        return Err(Error::system(what, errno));
                    }
                }
            }
        }
    }

    /// The nodes at which packets, or an error, wait.
    fn readable(&self) -> Result<Vec<usize>> {
        let ears = self.nodes.iter();
        let mut asked: Vec<PollFd<'_>> = ears
            .map(|ear| PollFd::new(ear.socket.as_fd(), PollFlags::POLLIN))
            .collect();
        match poll(&mut asked, PollTimeout::ZERO) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Error::system("following packets".to_owned(), errno)),
        }
        let readable =
            |(place, asked): (usize, &PollFd<'_>)| asked.any().unwrap_or_default().then_some(place);
        Ok(asked.iter().enumerate().filter_map(readable).collect())
    }

    /// The number of packets that were lost for lack of room, as far as it is known: a node reports
    /// it with the next packet.
    pub fn missed(&self) -> u64 {
        self.nodes.iter().map(|ear| u64::from(ear.missed)).sum()
    }
}

impl Ear {
    /// Passes on the packets that one system call reads; returns their number.
    fn batch(&mut self, place: usize, each: &mut impl FnMut(Seen)) -> nix::Result<usize> {
        let mut starts = [[0; START]; BATCH];
        let mut parts = starts.each_mut().map(|start| [IoSliceMut::new(start)]);
        // Fresh for each call: the kernel's ancillary data for the last packets limits the length
        // for these.
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

    /// The arrival time of a packet. The message also contains the number of missed ones.
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

/// The identity of a packet, from its start, and its remaining hops. `None` if it is truncated, or
/// another host's, which arrived before the filter was in place.
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
            // Switches change these options.
            let options = match (ip[6], start.get(IPV6_HEADER + 1)) {
                (DESTINATION_OPTIONS, Some(length)) => 8 * (usize::from(*length) + 1),
                _ => 0,
            };
            let header = IPV6_HEADER + options;
            (address(8)?, address(24)?, [0; 2], ip[7], header)
        }
    };
    if destination != to {
        return None;
    }
    // A shorter one is padded with zeros.
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
        // Code point, time to live, checksum; and data beyond the compared part.
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
        // A retransmission, and another segment.
        let mut again = first.clone();
        again[5] = 8;
        assert_ne!(identity(&first), identity(&again));
        assert_ne!(identity(&first), identity(&ipv4(&[8; 40])));
    }

    #[test]
    fn options_that_switches_change_are_no_part_of_an_ipv6_packets_identity() {
        let to = IpAddr::from([2; 16]);
        let packet = |options: u8, value: u8, transport: u8| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 20, DESTINATION_OPTIONS, 64];
            packet.extend([1; 16]);
            packet.extend([2; 16]);
            packet.extend([6, options]);
            packet.resize(40 + 8 * (usize::from(options) + 1), value);
            packet.resize(packet.len() + 20, transport);
            packet.truncate(START);
            packet
        };
        let identity = |packet: &[u8]| identity(packet, to).unwrap().0;
        // The tag, and hop records.
        for options in [0, 5] {
            let first = identity(&packet(options, 1, 9));
            assert_eq!(first, identity(&packet(options, 2, 9)));
            assert_ne!(first, identity(&packet(options, 1, 8)));
            assert_eq!(first.port(), 0x0909);
        }
    }

    #[test]
    fn truncated_packets_and_those_for_others_are_ignored() {
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
