// SPDX-License-Identifier: MIT OR Apache-2.0

//! rtnetlink: links, addresses, and qdiscs whose options are raw bytes, right or wrong.
//!
//! Requests are built with netlink-packet-route; answers are taken apart here, as the tests want
//! to see what the kernel says byte by byte: the sentence of a refusal, the offset of the attribute
//! at fault, the options and statistics of a dump.

use std::fmt;
use std::os::fd::AsRawFd as _;

use anyhow::{Context as _, Result, bail, ensure};
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_ECHO, NLM_F_EXCL, NLM_F_REPLACE,
    NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use weft_mechanisms::common::nla::{Attributes, NoRoom, Sink};

use weft_ktap::Namespace;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;

/// `struct nlmsghdr` and `struct tcmsg`.
const HEADER: usize = 16;
const TCM: usize = 20;

/// Of an answer, in bytes; a dump's parts are of at most half of it.
const LONGEST: usize = 65_536;

/// A qdisc's or a class's number, as `1:` or `1:2` in tc.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Handle(pub(crate) u32);

impl Handle {
    /// `major:minor`.
    pub(crate) const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }

    /// The number of the qdisc.
    pub(crate) const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The device's root, `TC_H_ROOT`.
    pub(crate) const ROOT: Self = Self(u32::MAX);

    fn for_route(self) -> TcHandle {
        TcHandle::from(self.0)
    }
}

/// As `tc` takes it.
impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ROOT => f.write_str("root"),
            Self(number) => write!(f, "{:x}:{:x}", self.major(), number & 0xffff),
        }
    }
}

/// Why the kernel refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) errno: Errno,
    /// The sentence of extack.
    pub(crate) message: Option<String>,
    /// The type of the attribute at which extack's offset points, without flags.
    pub(crate) attr: Option<u16>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}",
            self.errno,
            self.message.as_deref().unwrap_or("no message")
        )
    }
}

impl std::error::Error for Refused {}

/// What to do with a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Add,
    Change,
    Replace,
}

/// Which qdisc, and the payload of its `TCA_OPTIONS`; `None` sends no such attribute.
#[derive(Clone, Debug)]
pub(crate) struct QdiscRequest<'a> {
    pub(crate) index: u32,
    pub(crate) parent: Handle,
    pub(crate) handle: Handle,
    pub(crate) kind: &'a str,
    pub(crate) options: Option<Vec<u8>>,
}

/// A qdisc as dumped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Qdisc {
    pub(crate) index: u32,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) kind: String,
    /// The payload of `TCA_OPTIONS`.
    pub(crate) options: Vec<u8>,
    pub(crate) sent_bytes: u64,
    pub(crate) sent_packets: u32,
    pub(crate) qlen: u32,
    pub(crate) backlog: u32,
    pub(crate) drops: u32,
    pub(crate) overlimits: u32,
    /// The payload of `TCA_STATS_APP`.
    pub(crate) app: Vec<u8>,
}

/// Collects attributes, as weft-mechanisms writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nest(pub(crate) Vec<u8>);

impl Sink for Nest {
    fn put(&mut self, attr: u16, payload: &[u8]) -> Result<(), NoRoom> {
        let length = u16::try_from(4 + payload.len()).map_err(|_| NoRoom)?;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(attr.to_ne_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        Ok(())
    }
}

impl Nest {
    /// The attributes that `put` writes.
    pub(crate) fn of(put: impl FnOnce(&mut Self) -> Result<(), NoRoom>) -> Vec<u8> {
        let mut nest = Self::default();
        put(&mut nest).expect("a vector has room");
        nest.0
    }
}

/// A routing socket in one namespace.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
    /// For answers; no longer one is known.
    buffer: Box<[u8; LONGEST]>,
}

impl Netlink {
    /// Opens a socket in `namespace`.
    pub(crate) fn open(namespace: &Namespace) -> Result<Self> {
        let mut socket = namespace.enter(|| Socket::new(NETLINK_ROUTE))??;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        // The answer to a refused request does not repeat it.
        socket.set_cap_ack(true)?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: Box::new([0; LONGEST]),
        })
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<Vec<u8>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = flags | NLM_F_REQUEST;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket
            .send(&bytes, 0)
            .context("sending a netlink request")?;
        Ok(bytes)
    }

    /// The next datagram.
    fn receive(&mut self) -> Result<&[u8]> {
        let length = self
            .socket
            .recv(&mut self.buffer.as_mut_slice(), libc::MSG_TRUNC)?;
        let answer = self.buffer.get(..length);
        answer.with_context(|| format!("an answer of {length} bytes"))
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
        let sent = self.send(message, flags | NLM_F_ACK)?;
        let answer = self.receive().context("reading a netlink answer")?;
        let message = Message::split(answer)
            .next()
            .context("an empty netlink answer")?;
        ensure!(
            message.kind == NLMSG_ERROR,
            "netlink answered with type {}",
            message.kind
        );
        match message.refusal(&sent)? {
            None => Ok(()),
            Some(refused) => Err(refused.into()),
        }
    }

    /// Creates a pair of veth: `ours` here, `theirs` in another namespace.
    pub(crate) fn add_veth(&mut self, ours: &Veth, theirs: &Veth, there: &Namespace) -> Result<()> {
        let mut peer = theirs.message();
        let fd = std::os::fd::AsFd::as_fd(there).as_raw_fd();
        peer.attributes.push(LinkAttribute::NetNsFd(fd));
        let mut link = ours.message();
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.request(
            RouteNetlinkMessage::NewLink(link),
            NLM_F_CREATE | NLM_F_EXCL,
        )
        .with_context(|| format!("adding the veth pair {} - {}", ours.name, theirs.name))
    }

    fn set_link(&mut self, index: u32, set: impl FnOnce(&mut LinkMessage)) -> Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        set(&mut link);
        self.request(RouteNetlinkMessage::SetLink(link), 0)
            .context("changing a link")
    }

    /// Takes a link up or down.
    pub(crate) fn set_up(&mut self, index: u32, up: bool) -> Result<()> {
        self.set_link(index, |link| {
            link.header.change_mask = LinkFlags::Up;
            link.header.flags = if up {
                LinkFlags::Up
            } else {
                LinkFlags::empty()
            };
        })
    }

    /// Sets a link's MTU in bytes.
    pub(crate) fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<()> {
        self.set_link(index, |link| link.attributes.push(LinkAttribute::Mtu(mtu)))
    }

    /// Gives a link an address `10.x.y.z/24`.
    pub(crate) fn add_address(&mut self, index: u32, address: [u8; 4]) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = 24;
        message.header.index = index;
        message
            .attributes
            .push(AddressAttribute::Local(address.into()));
        message
            .attributes
            .push(AddressAttribute::Address(address.into()));
        self.request(
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
        .context("adding an address")
    }

    /// Tells a neighbour's hardware address, so that no ARP is needed.
    pub(crate) fn add_neighbour(&mut self, index: u32, ip: [u8; 4], mac: [u8; 6]) -> Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        let ip = NeighbourAddress::Inet(ip.into());
        message.attributes.push(NeighbourAttribute::Destination(ip));
        message
            .attributes
            .push(NeighbourAttribute::LinkLayerAddress(mac.to_vec()));
        self.request(
            RouteNetlinkMessage::NewNeighbour(message),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
        .context("adding a neighbour")
    }

    /// Adds, changes or replaces a qdisc. A refusal is an error of type [`Refused`].
    pub(crate) fn qdisc(&mut self, verb: Verb, request: &QdiscRequest<'_>) -> Result<()> {
        let mut message = TcMessage::with_index(request.index as i32);
        message.header.parent = request.parent.for_route();
        message.header.handle = request.handle.for_route();
        message
            .attributes
            .push(TcAttribute::Kind(request.kind.to_owned()));
        if let Some(options) = &request.options {
            let nest = DefaultNla::new(TCA_OPTIONS, options.clone());
            message.attributes.push(TcAttribute::Other(nest));
        }
        let flags = match verb {
            Verb::Add => NLM_F_CREATE | NLM_F_EXCL,
            Verb::Change => 0,
            Verb::Replace => NLM_F_CREATE | NLM_F_REPLACE,
        };
        self.request(RouteNetlinkMessage::NewQueueDiscipline(message), flags)
    }

    /// Deletes the qdisc at `parent`.
    pub(crate) fn delete_qdisc(&mut self, index: u32, parent: Handle) -> Result<()> {
        let mut message = TcMessage::with_index(index as i32);
        message.header.parent = parent.for_route();
        self.request(RouteNetlinkMessage::DelQueueDiscipline(message), 0)
    }

    /// The qdisc at `parent`, if there is one that was added.
    pub(crate) fn get_qdisc(&mut self, index: u32, parent: Handle) -> Result<Option<Qdisc>> {
        let mut message = TcMessage::with_index(index as i32);
        message.header.parent = parent.for_route();
        self.send(
            RouteNetlinkMessage::GetQueueDiscipline(message),
            NLM_F_ACK | NLM_F_ECHO,
        )?;
        let mut found = None;
        // What was asked for comes as an echo, and of what the kernel made by itself there is none.
        loop {
            let answer = self.receive().context("reading a qdisc")?;
            let message = Message::split(answer).next().context("an empty answer")?;
            if message.kind == NLMSG_ERROR {
                return Ok(found);
            }
            found = Some(message.qdisc()?);
        }
    }

    /// The qdisc of a device with this handle, if it is there.
    pub(crate) fn find_qdisc(&mut self, index: u32, handle: Handle) -> Result<Option<Qdisc>> {
        let qdiscs = self.qdiscs(index)?;
        Ok(qdiscs.into_iter().find(|qdisc| qdisc.handle == handle.0))
    }

    /// The qdiscs of a link, those that the kernel made by itself included.
    pub(crate) fn qdiscs(&mut self, index: u32) -> Result<Vec<Qdisc>> {
        let mut message = TcMessage::default();
        message.attributes.push(TcAttribute::DumpInvisible(true));
        self.send(RouteNetlinkMessage::GetQueueDiscipline(message), NLM_F_DUMP)?;
        self.dumped(index)
    }

    /// The classes of a link's qdiscs, in the same form; their handles are those of the classes.
    pub(crate) fn classes(&mut self, index: u32) -> Result<Vec<Qdisc>> {
        let message = TcMessage::with_index(index as i32);
        self.send(RouteNetlinkMessage::GetTrafficClass(message), NLM_F_DUMP)?;
        self.dumped(index)
    }

    fn dumped(&mut self, index: u32) -> Result<Vec<Qdisc>> {
        let mut qdiscs = Vec::new();
        loop {
            let answer = self.receive().context("reading a netlink dump")?;
            for message in Message::split(answer) {
                match message.kind {
                    NLMSG_DONE => {
                        qdiscs.retain(|qdisc: &Qdisc| qdisc.index == index);
                        return Ok(qdiscs);
                    }
                    NLMSG_ERROR => bail!("a dump failed"),
                    _ => qdiscs.push(message.qdisc()?),
                }
            }
        }
    }
}

/// One end of a veth pair.
#[derive(Clone, Debug)]
pub(crate) struct Veth {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) tx_queues: u32,
}

impl Veth {
    fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        message.attributes = vec![
            LinkAttribute::IfName(self.name.clone()),
            LinkAttribute::Address(self.mac.to_vec()),
            LinkAttribute::NumTxQueues(self.tx_queues),
            LinkAttribute::NumRxQueues(self.tx_queues),
        ];
        message
    }
}

/// A netlink message, header and all.
struct Message<'a> {
    kind: u16,
    flags: u16,
    payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The messages of one datagram.
    fn split(mut datagram: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let length = read_u32(datagram, 0)? as usize;
            let message = Self {
                kind: read_u16(datagram, 4)?,
                flags: read_u16(datagram, 6)?,
                payload: datagram.get(HEADER..length)?,
            };
            datagram = datagram
                .get(length.next_multiple_of(4)..)
                .unwrap_or_default();
            Some(message)
        })
    }

    /// What an answer of type NLMSG_ERROR refuses; `None` if it is an acknowledgement. `sent` is
    /// the request, into which extack's offset points.
    fn refusal(&self, sent: &[u8]) -> Result<Option<Refused>> {
        let code = read_u32(self.payload, 0).context("a truncated answer")? as i32;
        if code == 0 {
            return Ok(None);
        }
        let mut refused = Refused {
            errno: Errno::from_raw(-code),
            message: None,
            attr: None,
        };
        if self.flags & NLM_F_ACK_TLVS != 0 {
            let attributes = self
                .payload
                .get(4 + HEADER..)
                .context("a truncated answer")?;
            for (attr, value) in attributes_of(attributes)? {
                match attr {
                    NLMSGERR_ATTR_MSG => {
                        let text = String::from_utf8_lossy(value);
                        refused.message = Some(text.trim_end_matches('\0').to_owned());
                    }
                    NLMSGERR_ATTR_OFFS => {
                        let offset = read_u32(value, 0).context("a truncated offset")? as usize;
                        let attr = read_u16(sent, offset + 2).context("an offset out of range")?;
                        refused.attr = Some(attr & weft_mechanisms::common::nla::TYPE_MASK);
                    }
                    _ => {}
                }
            }
        }
        Ok(Some(refused))
    }

    fn qdisc(&self) -> Result<Qdisc> {
        const SHORT: &str = "a truncated dump";
        let mut qdisc = Qdisc {
            index: read_u32(self.payload, 4).context(SHORT)?,
            handle: read_u32(self.payload, 8).context(SHORT)?,
            parent: read_u32(self.payload, 12).context(SHORT)?,
            ..Qdisc::default()
        };
        for (attr, value) in attributes_of(self.payload.get(TCM..).context(SHORT)?)? {
            match attr {
                TCA_KIND => {
                    let kind = String::from_utf8_lossy(value);
                    kind.trim_end_matches('\0').clone_into(&mut qdisc.kind);
                }
                TCA_OPTIONS => qdisc.options = value.to_vec(),
                TCA_STATS2 => {
                    for (attr, value) in attributes_of(value)? {
                        match attr {
                            TCA_STATS_BASIC => {
                                qdisc.sent_bytes = read_u64(value, 0).context(SHORT)?;
                                qdisc.sent_packets = read_u32(value, 8).context(SHORT)?;
                            }
                            TCA_STATS_QUEUE => {
                                qdisc.qlen = read_u32(value, 0).context(SHORT)?;
                                qdisc.backlog = read_u32(value, 4).context(SHORT)?;
                                qdisc.drops = read_u32(value, 8).context(SHORT)?;
                                qdisc.overlimits = read_u32(value, 16).context(SHORT)?;
                            }
                            TCA_STATS_APP => qdisc.app = value.to_vec(),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(qdisc)
    }
}

fn attributes_of(payload: &[u8]) -> Result<Vec<(u16, &[u8])>> {
    let attributes: Result<Vec<_>, _> = Attributes::new(payload).collect();
    attributes.map_err(|refusal| anyhow::anyhow!("malformed attributes: {:?}", refusal.message))
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    read(bytes, at).map(u16::from_ne_bytes)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    read(bytes, at).map(u32::from_ne_bytes)
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    read(bytes, at).map(u64::from_ne_bytes)
}
