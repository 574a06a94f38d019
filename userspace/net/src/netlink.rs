// SPDX-License-Identifier: MIT OR Apache-2.0

//! Netlink: batches of requests, mostly rtnetlink's, and dumps.
//!
//! Requests are written directly into the bytes that are sent, many to a datagram. The kernel
//! processes them before `send` returns. It answers each failed request and, because it is
//! requested, the last one.
//!
//! This is written by hand, without the netlink-packet-route that the loader and the tests use.
//! That crate makes a tree of values of each message before it writes it, and options of qdiscs are
//! bytes here anyway. A fat-tree of k=8 takes thousands of requests. The loader has few requests,
//! whose answers it needs as values. The kernel modules' tests must send invalid requests and see
//! each answer byte by byte, and must not depend on this code. All three share the sockets of
//! netlink-sys.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, RawFd};

use netlink_sys::protocols::{NETLINK_ROUTE, NETLINK_SOCK_DIAG};
use netlink_sys::{Socket as Netlink, SocketAddr};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use weft_topo::{Mac, Prefix};

use crate::attributes::{self, Attributes, u16_at, u32_at};
use crate::metrics::RouteMetrics;
use crate::qdisc::{Handle, QdiscCommand};

/// `NLA_F_NESTED`: the attribute's payload is attributes.
const NESTED: u16 = 1 << 15;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// The size of a datagram of requests: far below a socket's default send buffer of 208 KiB.
const DATAGRAM: usize = 32 * 1024;
/// The most bytes in a datagram of a dump.
pub(crate) const ANSWER: usize = 64 * 1024;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
// IFLA_VXLAN_… of linux/if_link.h.
const VXLAN_ID: u16 = 1;
const VXLAN_GROUP: u16 = 2;
const VXLAN_LEARNING: u16 = 7;
const VXLAN_PORT: u16 = 15;
const VXLAN_GROUP6: u16 = 16;
/// IANA's port for VXLAN.
pub(crate) const VXLAN_UDP_PORT: u16 = 4789;
const VETH_INFO_PEER: u16 = 1;
const RTNH_F_ONLINK: u8 = 4;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`.
const CLSACT_INGRESS: u32 = 0xffff_fff2;
const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const ACK: u16 = libc::NLM_F_ACK as u16;
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
const REPLACE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
pub(crate) const DUMP: u16 = libc::NLM_F_DUMP as u16;

/// The kernel's refusal of a request.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The index of the request in the batch.
    pub(crate) request: usize,
    pub(crate) errno: Errno,
    /// Its sentence from extack.
    pub(crate) message: Option<String>,
}

/// One end of a veth pair.
pub(crate) struct End<'a> {
    pub(crate) name: &'a str,
    pub(crate) index: u32,
    pub(crate) mac: Mac,
    pub(crate) mtu: u32,
    pub(crate) tx_queue_length: u32,
    pub(crate) gso_max_segments: u32,
}

impl End<'_> {
    fn fill(&self, out: &mut Attributes) {
        out.text(libc::IFLA_IFNAME, self.name);
        out.bytes(libc::IFLA_ADDRESS, &self.mac.0);
        out.u32(libc::IFLA_MTU, self.mtu);
        out.u32(libc::IFLA_TXQLEN, self.tx_queue_length);
        out.u32(libc::IFLA_GSO_MAX_SEGS, self.gso_max_segments);
        out.u32(libc::IFLA_NUM_TX_QUEUES, 1);
        out.u32(libc::IFLA_NUM_RX_QUEUES, 1);
    }
}

/// Requests to send.
#[derive(Default)]
pub(crate) struct Batch {
    out: Attributes,
    /// The start of each request.
    starts: Vec<usize>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The requests as they are sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out.0
    }

    /// A request of type `kind`: its own header, then attributes.
    pub(crate) fn request(
        &mut self,
        kind: u16,
        flags: u16,
        fixed: &[u8],
        fill: impl FnOnce(&mut Attributes),
    ) {
        let start = self.out.0.len();
        self.starts.push(start);
        self.out.0.extend([0; 4]);
        self.out.0.extend(kind.to_ne_bytes());
        self.out.0.extend((flags | REQUEST).to_ne_bytes());
        self.out.0.extend([0; 8]);
        self.out.0.extend(fixed);
        fill(&mut self.out);
        let length = (self.out.0.len() - start) as u32;
        self.out.0[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Creates a veth pair that is down: `ours` here, `theirs` in the namespace `there`. Each has
    /// one queue, whatever the number of processors, so that the kind of the root qdisc does not
    /// depend on the machine.
    pub(crate) fn add_veth(&mut self, ours: &End<'_>, theirs: &End<'_>, there: RawFd) {
        self.request(
            libc::RTM_NEWLINK,
            CREATE,
            &link_header(ours.index, 0, 0),
            |out| {
                ours.fill(out);
                out.nest(libc::IFLA_LINKINFO, |info| {
                    info.bytes(libc::IFLA_INFO_KIND, b"veth");
                    info.nest(libc::IFLA_INFO_DATA, |data| {
                        data.nest(VETH_INFO_PEER, |peer| {
                            peer.0.extend(link_header(theirs.index, 0, 0));
                            theirs.fill(peer);
                            peer.u32(libc::IFLA_NET_NS_FD, there as u32);
                        });
                    });
                });
            },
        );
    }

    /// Creates a VXLAN device that is down, in the namespace `there`: its outgoing packets go to a
    /// machine, and packets from there with the same identifier arrive on it.
    pub(crate) fn add_vxlan(&mut self, end: &End<'_>, network: u32, machine: IpAddr, there: RawFd) {
        self.request(
            libc::RTM_NEWLINK,
            CREATE,
            &link_header(end.index, 0, 0),
            |out| {
                end.fill(out);
                out.u32(libc::IFLA_NET_NS_FD, there as u32);
                out.nest(libc::IFLA_LINKINFO, |info| {
                    info.bytes(libc::IFLA_INFO_KIND, b"vxlan");
                    info.nest(libc::IFLA_INFO_DATA, |data| {
                        data.u32(VXLAN_ID, network);
                        match machine {
                            IpAddr::V4(address) => data.bytes(VXLAN_GROUP, &address.octets()),
                            IpAddr::V6(address) => data.bytes(VXLAN_GROUP6, &address.octets()),
                        }
                        data.bytes(VXLAN_PORT, &VXLAN_UDP_PORT.to_be_bytes());
                        data.u8(VXLAN_LEARNING, 0);
                    });
                });
            },
        );
    }

    pub(crate) fn set_up(&mut self, index: u32) {
        let up = libc::IFF_UP as u32;
        self.request(libc::RTM_NEWLINK, 0, &link_header(index, up, up), |_| {});
    }

    pub(crate) fn set_down(&mut self, index: u32) {
        let header = link_header(index, 0, libc::IFF_UP as u32);
        self.request(libc::RTM_NEWLINK, 0, &header, |_| {});
    }

    /// The node's address, alone in its prefix, usable at once.
    pub(crate) fn add_address(&mut self, index: u32, address: IpAddr) {
        let (family, bytes) = address_parts(address);
        let mut header = vec![family, bytes.len() as u8 * 8, 0, 0];
        header.extend(index.to_ne_bytes());
        self.request(libc::RTM_NEWADDR, CREATE, &header, |out| {
            out.bytes(libc::IFA_LOCAL, &bytes);
            out.bytes(libc::IFA_ADDRESS, &bytes);
            if address.is_ipv6() {
                out.u32(libc::IFA_FLAGS, libc::IFA_F_NODAD);
            }
        });
    }

    /// A permanent neighbour.
    pub(crate) fn add_neighbour(&mut self, index: u32, address: IpAddr, mac: Mac) {
        let (family, bytes) = address_parts(address);
        let mut header = vec![family, 0, 0, 0];
        header.extend(index.to_ne_bytes());
        header.extend(libc::NUD_PERMANENT.to_ne_bytes());
        header.extend([0, 0]);
        self.request(libc::RTM_NEWNEIGH, CREATE, &header, |out| {
            out.bytes(libc::NDA_DST, &bytes);
            out.bytes(libc::NDA_LLADDR, &mac.0);
        });
    }

    /// A route over all `hops`, each a device's index and a gateway on its link; without hops, the
    /// prefix is unreachable.
    pub(crate) fn add_route<A: Copy + Into<IpAddr>>(
        &mut self,
        prefix: Prefix<A>,
        hops: impl ExactSizeIterator<Item = (u32, A)>,
        metrics: &RouteMetrics,
    ) {
        let (family, destination) = address_parts(prefix.address.into());
        let (kind, flags) = match hops.len() {
            0 => (libc::RTN_UNREACHABLE, 0),
            1 => (libc::RTN_UNICAST, u32::from(RTNH_F_ONLINK)),
            _ => (libc::RTN_UNICAST, 0),
        };
        let mut header = vec![
            family,
            prefix.length,
            0,
            0,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            kind,
        ];
        header.extend(flags.to_ne_bytes());
        self.request(libc::RTM_NEWROUTE, CREATE, &header, |out| {
            if prefix.length != 0 {
                out.bytes(libc::RTA_DST, &destination);
            }
            if !metrics.is_empty() && hops.len() != 0 {
                out.nest(libc::RTA_METRICS, |out| metrics.put(out));
            }
            match hops.len() {
                0 => {}
                1 => {
                    for (index, gateway) in hops {
                        out.bytes(libc::RTA_GATEWAY, &address_parts(gateway.into()).1);
                        out.u32(libc::RTA_OIF, index);
                    }
                }
                _ => out.nest(libc::RTA_MULTIPATH, |out| {
                    for (index, gateway) in hops {
                        let gateway = address_parts(gateway.into()).1;
                        // `struct rtnexthop`, and the gateway as its attribute.
                        let length = (8 + 4 + gateway.len()) as u16;
                        out.0.extend(length.to_ne_bytes());
                        out.0.extend([RTNH_F_ONLINK, 0]);
                        out.0.extend(index.to_ne_bytes());
                        out.bytes(libc::RTA_GATEWAY, &gateway);
                    }
                }),
            }
        });
    }

    pub(crate) fn add_qdisc(&mut self, index: u32, command: &QdiscCommand) {
        let flags = if command.replace { REPLACE } else { CREATE };
        let header = qdisc_header(index, command.handle.0, command.parent.0);
        self.request(libc::RTM_NEWQDISC, flags, &header, |out| {
            out.text(libc::TCA_KIND, command.kind);
            if let Some(options) = command.options() {
                // Newer kinds (dualpi2) insist on the flag. The others ignore it.
                out.bytes(libc::TCA_OPTIONS | NESTED, options);
            }
        });
    }

    /// A root qdisc without options.
    pub(crate) fn add_root_qdisc(&mut self, index: u32, kind: &str) {
        let header = qdisc_header(index, 0, Handle::ROOT.0);
        self.request(libc::RTM_NEWQDISC, CREATE, &header, |out| {
            out.text(libc::TCA_KIND, kind);
        });
    }

    /// A filter without options for incoming packets of all protocols.
    pub(crate) fn add_ingress_filter(&mut self, index: u32, kind: &str) {
        let mut header = qdisc_header(index, 0, CLSACT_INGRESS);
        header[16..20].copy_from_slice(&u32::from(ALL_PROTOCOLS.to_be()).to_ne_bytes());
        self.request(libc::RTM_NEWTFILTER, CREATE, &header, |out| {
            out.text(libc::TCA_KIND, kind);
        });
    }

    /// Dumps the namespace's links.
    pub(crate) fn links() -> Self {
        let mut batch = Self::default();
        batch.request(libc::RTM_GETLINK, DUMP, &link_header(0, 0, 0), |_| {});
        batch
    }

    /// Requests one link.
    pub(crate) fn link(index: u32) -> Self {
        let mut batch = Self::default();
        batch.request(libc::RTM_GETLINK, ACK, &link_header(index, 0, 0), |_| {});
        batch
    }

    /// Dumps the namespace's qdiscs, with statistics.
    pub(crate) fn qdiscs() -> Self {
        let mut batch = Self::default();
        batch.request(libc::RTM_GETQDISC, DUMP, &qdisc_header(0, 0, 0), |_| {});
        batch
    }
}

/// `struct ifinfomsg`; sets the flags in `change` to their values in `flags`.
fn link_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

/// `struct tcmsg`.
fn qdisc_header(index: u32, handle: u32, parent: u32) -> [u8; 20] {
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header
}

/// Family and bytes.
fn address_parts(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// A netlink socket of one namespace.
pub(crate) struct Socket {
    netlink: Netlink,
    sequence: u32,
}

impl Socket {
    /// Opens a socket for rtnetlink in the calling thread's namespace.
    pub(crate) fn open() -> io::Result<Self> {
        Self::of(NETLINK_ROUTE)
    }

    /// Opens a socket that reports the namespace's sockets.
    pub(crate) fn open_diagnosis() -> io::Result<Self> {
        Self::of(NETLINK_SOCK_DIAG)
    }

    fn of(protocol: isize) -> io::Result<Self> {
        let mut netlink = Netlink::new(protocol)?;
        netlink.bind_auto()?;
        netlink.connect(&SocketAddr::new(0, 0))?;
        netlink.set_ext_ack(true)?;
        // The answer to a refused request does not repeat it.
        netlink.set_cap_ack(true)?;
        Ok(Self {
            netlink,
            sequence: 0,
        })
    }

    /// From now on the socket receives events of the namespace's links.
    pub(crate) fn hear_of_links(&mut self) -> io::Result<()> {
        self.netlink.add_membership(libc::RTNLGRP_LINK)
    }

    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.netlink.as_raw_fd()
    }

    /// Sends all of `batch`. Of several refusals the first is reported.
    pub(crate) fn send(&mut self, batch: &mut Batch) -> io::Result<Result<(), Refused>> {
        let ends = batch
            .starts
            .iter()
            .skip(1)
            .copied()
            .chain([batch.out.0.len()]);
        let ends: Vec<usize> = ends.collect();
        let mut first = 0;
        while first < batch.starts.len() {
            let start = batch.starts[first];
            let fits = ends[first..]
                .iter()
                .take_while(|&&end| end - start <= DATAGRAM)
                .count();
            let last = first + fits.max(1) - 1;
            for request in first..=last {
                let header = &mut batch.out.0[batch.starts[request]..][..HEADER];
                let sequence = self.sequence.wrapping_add((request - first) as u32);
                header[8..12].copy_from_slice(&sequence.to_ne_bytes());
            }
            let flags = &mut batch.out.0[batch.starts[last] + 6..][..2];
            let with_ack = u16::from_ne_bytes([flags[0], flags[1]]) | ACK;
            flags.copy_from_slice(&with_ack.to_ne_bytes());
            self.netlink.send(&batch.out.0[start..ends[last]], 0)?;
            let answer = self.answer((last - first) as u32)?;
            if let Some((offset, errno, message)) = answer {
                return Ok(Err(Refused {
                    request: first + offset as usize,
                    errno,
                    message,
                }));
            }
            first = last + 1;
        }
        Ok(Ok(()))
    }

    /// Reads answers up to that to request `last` of the datagram just sent; returns the first
    /// refusal.
    fn answer(&mut self, last: u32) -> io::Result<Option<(u32, Errno, Option<String>)>> {
        let mut refusal = None;
        let mut buffer = [0; 8192];
        let first = self.sequence;
        self.sequence = first.wrapping_add(last + 1);
        loop {
            let length = match recv(self.netlink.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => length,
                // The rest of very many refusals was lost; the first has arrived.
                Err(Errno::ENOBUFS) if refusal.is_some() => return Ok(refusal),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            for message in Message::split(&buffer[..length]) {
                let offset = message.sequence.wrapping_sub(first);
                if message.kind != libc::NLMSG_ERROR as u16 || offset > last {
                    continue;
                }
                if let (Some((errno, sentence)), None) = (message.refusal(), &refusal) {
                    refusal = Some((offset, errno, sentence));
                }
                if offset == last {
                    return Ok(refusal);
                }
            }
        }
    }

    /// Sends `request`, a single one, and passes the payload of each part of the answer to `each`.
    pub(crate) fn ask(
        &mut self,
        request: &mut Batch,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let sequence = self.number(request);
        self.netlink.send(request.bytes(), 0)?;
        buffer.resize(ANSWER, 0);
        loop {
            let length = match recv(self.netlink.as_raw_fd(), buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => continue,
                length => length?,
            };
            if !parts(&buffer[..length], sequence, &mut each)? {
                return Ok(());
            }
        }
    }

    /// Gives `request`, a single one, this socket's next number, and returns that.
    pub(crate) fn number(&mut self, request: &mut Batch) -> u32 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        request.out.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        sequence
    }
}

/// Passes the payload of each part of the answer to request `sequence` in a datagram to `each`.
/// Returns whether the answer has more datagrams.
pub(crate) fn parts(
    datagram: &[u8],
    sequence: u32,
    mut each: impl FnMut(&[u8]),
) -> io::Result<bool> {
    for message in Message::split(datagram) {
        match i32::from(message.kind) {
            _ if message.sequence != sequence => {}
            libc::NLMSG_DONE => return Ok(false),
            libc::NLMSG_ERROR => {
                return match message.refusal() {
                    Some((errno, _)) => Err(errno.into()),
                    None => Ok(false),
                };
            }
            _ => each(message.payload),
        }
    }
    Ok(true)
}

/// A netlink message.
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    flags: u16,
    sequence: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The messages of one datagram.
    pub(crate) fn split(mut datagram: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let length = u32_at(datagram, 0)? as usize;
            let message = Self {
                kind: u16_at(datagram, 4)?,
                flags: u16_at(datagram, 6)?,
                sequence: u32_at(datagram, 8)?,
                payload: datagram.get(HEADER..length)?,
            };
            datagram = datagram
                .get(length.next_multiple_of(4)..)
                .unwrap_or_default();
            Some(message)
        })
    }

    /// The refusal in an answer of type NLMSG_ERROR; `None` if it is an acknowledgement.
    fn refusal(&self) -> Option<(Errno, Option<String>)> {
        let code = u32_at(self.payload, 0)? as i32;
        if code == 0 {
            return None;
        }
        let attributes = match self.flags & NLM_F_ACK_TLVS {
            0 => &[],
            _ => self.payload.get(4 + HEADER..).unwrap_or_default(),
        };
        let sentence = attributes::read(attributes)
            .find(|&(kind, _)| kind == NLMSGERR_ATTR_MSG)
            .map(|(_, text)| {
                String::from_utf8_lossy(text)
                    .trim_end_matches('\0')
                    .to_owned()
            });
        Some((Errno::from_raw(-code), sentence))
    }
}
