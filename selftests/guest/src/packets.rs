// SPDX-License-Identifier: MIT OR Apache-2.0

//! Crafted packets: raw frames with a number, a rank and a flow, and when they arrived.

use std::io::{IoSlice, IoSliceMut};
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, recvmsg, send, sendmsg, setsockopt, sockopt,
};
// The former expands to the latter.
use nix::{setsockopt_impl, sockopt_impl};

use weft_ktap::Namespace;
use weft_mechanisms::common::tag::{self, Tag};

use crate::model::Packet;

const ETHERNET: usize = 14;
const UDP: usize = 8;
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = ETHERNET + 20 + UDP;
const MAGIC: [u8; 4] = *b"weft";
/// The shortest frame: headers, the magic word and the packet's number.
pub(crate) const MIN_FRAME: u32 = (HEADERS + 12) as u32;
/// Nobody's hardware address: the packet socket sees the frame, the IP stack does not.
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 0xff];

/// Generous, so that no test depends on a socket's limit.
const BUFFER: usize = 64 << 20;

sockopt_impl!(
    /// Frames are preceded by a `struct virtio_net_hdr`.
    PacketVnetHdr,
    SetOnly,
    libc::SOL_PACKET,
    libc::PACKET_VNET_HDR,
    bool
);

/// Where a crafted packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The hardware address of the next hop.
    pub(crate) mac: [u8; 6],
    /// The address of the destination.
    pub(crate) ip: [u8; 4],
}

impl Destination {
    /// Over one link, to nobody.
    pub(crate) const NOWHERE: Self = Self {
        mac: NOBODY,
        ip: [10, 0, 0, 99],
    };
}

/// Builds the frame of a packet: `len` bytes in all, a UDP datagram whose source port is its flow.
pub(crate) fn frame(packet: &Packet) -> Vec<u8> {
    frame_to(packet, &Destination::NOWHERE, None)
}

/// Builds the frame of a packet to a destination, with a tag or without. If `len` is too short,
/// the frame is longer.
pub(crate) fn frame_to(packet: &Packet, to: &Destination, tag: Option<Tag>) -> Vec<u8> {
    let options = tag.map_or_else(Vec::new, |tag| tag.to_ipv4().to_vec());
    let least = MIN_FRAME as usize + options.len();
    let len = least.max(packet.len as usize);
    let mut frame = Vec::with_capacity(len);
    frame.extend(to.mac);
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend((libc::ETH_P_IP as u16).to_be_bytes());
    let start = frame.len();
    let total = (len - start) as u16;
    let header = 20 + options.len();
    frame.extend([0x40 + (header / 4) as u8, 0]);
    frame.extend(total.to_be_bytes());
    // No identification, don't fragment, 64 hops, UDP, the checksum below.
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1]);
    frame.extend(to.ip);
    frame.extend(options);
    let checksum = checksum(&frame[start..start + header]);
    frame[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend((10_000 + packet.flow as u16).to_be_bytes());
    frame.extend(9u16.to_be_bytes());
    frame.extend((total - header as u16).to_be_bytes());
    // No UDP checksum.
    frame.extend([0, 0]);
    frame.extend(MAGIC);
    frame.extend(packet.id.to_be_bytes());
    frame.resize(len, 0);
    frame
}

/// The Internet checksum of an even number of bytes.
pub(crate) fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A packet socket that sends on one link.
pub(crate) struct Sender {
    socket: OwnedFd,
    rank: Option<u32>,
}

impl Sender {
    pub(crate) fn open(namespace: &Namespace, index: u32) -> Result<Self> {
        // Protocol 0: it receives nothing.
        let socket = packet_socket(namespace, 0)?;
        bind(&socket, index)?;
        setsockopt(&socket, sockopt::SndBufForce, &BUFFER)?;
        Ok(Self { socket, rank: None })
    }

    /// Sends a packet; its rank becomes `skb->priority`. Returns whether the qdisc took it.
    pub(crate) fn send(&mut self, packet: &Packet) -> Result<bool> {
        self.set_rank(packet.rank)?;
        self.send_frame(&frame(packet))
    }

    /// Sends a packet to a destination. Returns whether the qdisc took it.
    pub(crate) fn send_to(
        &mut self,
        packet: &Packet,
        to: &Destination,
        tag: Option<Tag>,
    ) -> Result<bool> {
        self.set_rank(packet.rank)?;
        self.send_frame(&frame_to(packet, to, tag))
    }

    /// Sets `skb->priority` of the frames to come.
    pub(crate) fn set_rank(&mut self, rank: u32) -> Result<()> {
        if self.rank != Some(rank) {
            setsockopt(&self.socket, sockopt::Priority, &(rank as i32)).context("SO_PRIORITY")?;
            self.rank = Some(rank);
        }
        Ok(())
    }

    /// Sends a frame. Returns whether the qdisc took it.
    pub(crate) fn send_frame(&self, frame: &[u8]) -> Result<bool> {
        match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::ENOBUFS) => Ok(false),
            Err(errno) => Err(errno).context("sending a frame"),
        }
    }

    /// Sends one frame with a UDP payload that the device, or the kernel for it, is to cut into
    /// segments of `segment` bytes each (GSO).
    /// Returns whether the qdisc took it.
    pub(crate) fn send_gso(&mut self, packet: &Packet, segment: u16) -> Result<bool> {
        self.send_gso_to(packet, &Destination::NOWHERE, segment)
    }

    /// The same to a destination.
    pub(crate) fn send_gso_to(
        &mut self,
        packet: &Packet,
        to: &Destination,
        segment: u16,
    ) -> Result<bool> {
        const VIRTIO_NET_HDR_F_NEEDS_CSUM: u8 = 1;
        const VIRTIO_NET_HDR_GSO_UDP_L4: u8 = 5;
        self.set_rank(packet.rank)?;
        setsockopt(&self.socket, PacketVnetHdr, &true).context("PACKET_VNET_HDR")?;
        let mut header = vec![VIRTIO_NET_HDR_F_NEEDS_CSUM, VIRTIO_NET_HDR_GSO_UDP_L4];
        for field in [HEADERS as u16, segment, 14 + 20, 6] {
            header.extend(field.to_ne_bytes());
        }
        let frame = frame_to(packet, to, None);
        let parts = [IoSlice::new(&header), IoSlice::new(&frame)];
        let result = sendmsg::<()>(
            self.socket.as_raw_fd(),
            &parts,
            &[],
            MsgFlags::empty(),
            None,
        );
        setsockopt(&self.socket, PacketVnetHdr, &false).context("PACKET_VNET_HDR")?;
        match result {
            Ok(_) => Ok(true),
            Err(Errno::ENOBUFS) => Ok(false),
            Err(errno) => Err(errno).context("sending a GSO frame"),
        }
    }

    /// Sends a frame of which the first `linear` bytes, the Ethernet header at least, are in one
    /// piece and the rest is in pages, if it is longer than a page. Returns whether the qdisc took
    /// it.
    pub(crate) fn send_in_pieces(&self, frame: &[u8], linear: u16) -> Result<bool> {
        // No flags, no GSO; only the length of the headers says something.
        let mut header = vec![0, 0];
        for field in [linear, 0, 0, 0] {
            header.extend(field.to_ne_bytes());
        }
        setsockopt(&self.socket, PacketVnetHdr, &true).context("PACKET_VNET_HDR")?;
        let parts = [IoSlice::new(&header), IoSlice::new(frame)];
        let flags = MsgFlags::empty();
        let result = sendmsg::<()>(self.socket.as_raw_fd(), &parts, &[], flags, None);
        setsockopt(&self.socket, PacketVnetHdr, &false).context("PACKET_VNET_HDR")?;
        match result {
            Ok(_) => Ok(true),
            Err(Errno::ENOBUFS) => Ok(false),
            Err(errno) => Err(errno).context("sending a frame in pieces"),
        }
    }

    /// Asks for the time at which each packet comes to the qdisc (`SOF_TIMESTAMPING_TX_SCHED`).
    pub(crate) fn stamp_departures(&self) -> Result<()> {
        let flags = sockopt::Timestamping;
        let wanted = libc::SOF_TIMESTAMPING_TX_SCHED | libc::SOF_TIMESTAMPING_SOFTWARE;
        let wanted = nix::sys::socket::TimestampingFlag::from_bits_retain(wanted);
        setsockopt(&self.socket, flags, &wanted).context("SO_TIMESTAMPING")
    }

    /// The time at which the packet sent last came to the qdisc, in ns.
    pub(crate) fn departure(&self) -> Result<u64> {
        time_stamp(&self.socket)?.context("the error queue has no time stamp")
    }
}

/// The next time stamp in a socket's error queue, in ns; `None` where that is empty.
pub(crate) fn time_stamp(socket: &impl AsRawFd) -> Result<Option<u64>> {
    let mut buffer = [0; 4096];
    let mut space = vec![0; 512];
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let result = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags);
    let message = match result {
        Err(Errno::EAGAIN) => return Ok(None),
        result => result.context("reading an error queue")?,
    };
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmTimestampsns(stamps) = control {
            return Ok(Some(nanoseconds(&stamps.system)));
        }
    }
    anyhow::bail!("a message of the error queue has no time stamp")
}

/// As much of a frame as is looked at: more than the longest pause frame.
const START: usize = 192;

/// A frame that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) start: [u8; START],
    /// When, in ns of CLOCK_REALTIME.
    pub(crate) time: u64,
    /// Bytes.
    pub(crate) len: u32,
}

impl Frame {
    /// What was captured of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.start[..START.min(self.len as usize)]
    }

    /// The IPv4 packet in it.
    fn packet(&self) -> &[u8] {
        self.bytes().get(ETHERNET..).unwrap_or_default()
    }

    /// Bytes of its IPv4 header.
    fn header(&self) -> usize {
        let first = self.packet().first().copied().unwrap_or(0);
        usize::from(first & 15) * 4
    }

    /// Its tag, if there is a well-formed one.
    pub(crate) fn tag(&self) -> Option<Tag> {
        tag::find_in_packet(&self.packet()[..self.header()]).ok()?
    }

    /// Whether the checksum of its IPv4 header is right.
    pub(crate) fn checksum_is_right(&self) -> bool {
        let header = self.packet().get(..self.header());
        header.is_some_and(|header| header.len() >= 20 && checksum(header) == 0)
    }

    /// The number of the crafted packet.
    pub(crate) fn id(&self) -> Option<u64> {
        let payload = self.packet().get(self.header() + UDP..)?;
        Some(u64::from_be_bytes(
            *payload.strip_prefix(&MAGIC)?.first_chunk()?,
        ))
    }
}

/// A crafted packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) id: u64,
    /// When, in ns of CLOCK_REALTIME.
    pub(crate) time: u64,
    /// Bytes of the frame.
    pub(crate) len: u32,
}

/// A packet socket that receives crafted packets on all links of a namespace.
pub(crate) struct Receiver {
    socket: OwnedFd,
}

impl Receiver {
    pub(crate) fn open(namespace: &Namespace) -> Result<Self> {
        Self::open_for(namespace, libc::ETH_P_IP as u16)
    }

    /// One that sees what is sent, too, behind the qdisc, and before a filter at ingress what
    /// arrives.
    pub(crate) fn of_both_ways(namespace: &Namespace) -> Result<Self> {
        Self::open_for(namespace, libc::ETH_P_ALL as u16)
    }

    /// One that receives frames of an EtherType.
    pub(crate) fn open_for(namespace: &Namespace, protocol: u16) -> Result<Self> {
        // In network order, as `socket(2)` has it.
        let socket = packet_socket(namespace, protocol.to_be().into())?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        // The kernel starts stamping packets from a work queue.
        std::thread::sleep(Duration::from_millis(20));
        Ok(Self { socket })
    }

    /// All frames that have arrived, in order.
    pub(crate) fn frames(&self) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        let mut space = vec![0; 128];
        loop {
            let mut start = [0; START];
            let mut parts = [IoSliceMut::new(&mut start)];
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            let message =
                match recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
                    Ok(message) => message,
                    Err(Errno::EAGAIN) => return Ok(frames),
                    Err(errno) => return Err(errno).context("receiving a frame"),
                };
            let len = message.bytes as u32;
            let time = message.cmsgs()?.find_map(|control| match control {
                ControlMessageOwned::ScmTimestampns(time) => Some(nanoseconds(&time)),
                _ => None,
            });
            let time = time.context("a frame without a time stamp")?;
            frames.push(Frame { start, time, len });
        }
    }

    /// All crafted packets that have arrived, in order.
    pub(crate) fn arrivals(&self) -> Result<Vec<Arrival>> {
        let crafted = |frame: Frame| {
            Some(Arrival {
                id: frame.id()?,
                time: frame.time,
                len: frame.len,
            })
        };
        Ok(self.frames()?.into_iter().filter_map(crafted).collect())
    }

    /// The next `count` packets, which are to be there after `time`. Sleeps all of that time: a
    /// look now and then would disturb what is being measured.
    pub(crate) fn expect(&self, count: usize, time: Duration) -> Result<Vec<Arrival>> {
        std::thread::sleep(time);
        let arrivals = self.arrivals()?;
        let arrived = arrivals.len();
        ensure!(
            arrived == count,
            "{arrived} packets arrived within {time:?}, not {count}"
        );
        Ok(arrivals)
    }
}

fn nanoseconds(time: &nix::sys::time::TimeSpec) -> u64 {
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// A packet socket; `protocol` is in network order.
fn packet_socket(namespace: &Namespace, protocol: i32) -> Result<OwnedFd> {
    // nix's `socket` knows no protocol of packet sockets but ETH_P_ALL and LOOP.
    let socket = namespace.enter(|| {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: A system call without memory.
        Errno::result(unsafe { libc::socket(libc::AF_PACKET, kind, protocol) })
    })?;
    let socket = socket.context("opening a packet socket")?;
    // SAFETY: A descriptor that the kernel made just now: nobody else owns it.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(socket) })
}

fn bind(socket: &OwnedFd, index: u32) -> Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a local of that size.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    Errno::result(result)
        .map(drop)
        .context("binding a packet socket")
}
