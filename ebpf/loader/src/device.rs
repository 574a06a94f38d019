// SPDX-License-Identifier: MIT OR Apache-2.0

//! Network devices and requests to rtnetlink.

use std::ffi::CString;

use anyhow::{Context as _, Result, bail, ensure};
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// From `if_link.h`.
const IFLA_ALT_IFNAME: u16 = 53;

/// A network device and its current settings.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) index: u32,
    /// Its primary name, as in /proc/sys; it may have been found by an alternative name.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) mtu: u32,
    pub(crate) gso: GsoLimits,
}

/// The largest packets that the kernel hands to a device for segmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GsoLimits {
    /// Bytes.
    pub(crate) size: u32,
    /// Bytes, for IPv4 packets.
    pub(crate) ipv4_size: u32,
    /// Segments.
    pub(crate) segments: u32,
}

impl Device {
    /// The device with this name, primary or alternative, in the thread's network namespace.
    pub(crate) fn find(name: &str) -> Result<Self> {
        let text = CString::new(name).with_context(|| format!("no device is called {name:?}"))?;
        let mut request = LinkMessage::default();
        // The kernel also finds a device's primary name by this attribute, and it may be longer.
        let name_or_other = DefaultNla::new(IFLA_ALT_IFNAME, text.into_bytes_with_nul());
        request.attributes = vec![LinkAttribute::Other(name_or_other)];
        let answers = ask(RouteNetlinkMessage::GetLink(request), 0).with_context(|| {
            format!("no device `{name}` in this network namespace; `ip link` lists them")
        })?;
        let Some(RouteNetlinkMessage::NewLink(link)) = answers.into_iter().next() else {
            bail!("the kernel does not describe {name}");
        };
        let index = link.header.index;
        ensure!(
            matches!(
                link.header.link_layer_type,
                LinkLayerType::Ether | LinkLayerType::Loopback
            ),
            "{name} is no Ethernet device: weft tags behind an Ethernet header only"
        );
        let number = |get: fn(&LinkAttribute) -> Option<u32>| link.attributes.iter().find_map(get);
        let mtu = number(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        let size = number(|attribute| match attribute {
            LinkAttribute::GsoMaxSize(size) => Some(*size),
            _ => None,
        });
        let ipv4_size = number(|attribute| match attribute {
            LinkAttribute::GsoIpv4MaxSize(size) => Some(*size),
            _ => None,
        });
        let segments = number(|attribute| match attribute {
            LinkAttribute::GsoMaxSegs(segments) => Some(*segments),
            _ => None,
        });
        let own_name = link
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            });
        let (Some(own_name), Some(mtu), Some(size), Some(segments)) =
            (own_name, mtu, size, segments)
        else {
            bail!("the kernel does not tell the name, the MTU and the GSO limits of {name}");
        };
        // Linux 6.3 and later have a separate limit for IPv4.
        let gso = GsoLimits {
            size,
            ipv4_size: ipv4_size.unwrap_or(size),
            segments,
        };
        Ok(Self {
            index,
            name: own_name,
            mtu,
            gso,
        })
    }

    /// Sets the limits. The one for IPv4 comes last, because the other one sets both.
    pub(crate) fn set_gso(&self, limits: GsoLimits) -> Result<()> {
        for attributes in [
            vec![
                LinkAttribute::GsoMaxSize(limits.size),
                LinkAttribute::GsoMaxSegs(limits.segments),
            ],
            vec![LinkAttribute::GsoIpv4MaxSize(limits.ipv4_size)],
        ] {
            let mut request = LinkMessage::default();
            request.header.index = self.index;
            request.attributes = attributes;
            ask(RouteNetlinkMessage::SetLink(request), NLM_F_ACK).with_context(|| {
                format!(
                    "setting {}'s gso_max_size {}, gso_ipv4_max_size {}, gso_max_segs {}",
                    self.name, limits.size, limits.ipv4_size, limits.segments
                )
            })?;
        }
        Ok(())
    }
}

/// Indices and names of all devices in the thread's network namespace.
pub(crate) fn all() -> Result<Vec<(u32, String)>> {
    let answers = ask(
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        NLM_F_DUMP,
    )?;
    let name = |answer| match answer {
        RouteNetlinkMessage::NewLink(link) => {
            let index = link.header.index;
            link.attributes
                .into_iter()
                .find_map(|attribute| match attribute {
                    LinkAttribute::IfName(name) => Some((index, name)),
                    _ => None,
                })
        }
        _ => None,
    };
    Ok(answers.into_iter().filter_map(name).collect())
}

/// Sends a request and collects the kernel's answers.
pub(crate) fn ask(request: RouteNetlinkMessage, flags: u16) -> Result<Vec<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE).context("opening a netlink socket")?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0).context("asking rtnetlink")?;

    let mut answers = Vec::new();
    loop {
        let (bytes, _) = socket
            .recv_from_full()
            .context("reading rtnetlink's answer")?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .context("understanding rtnetlink's answer")?;
            let length = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
            match message.payload {
                NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(error.to_io()).context("rtnetlink refuses");
                }
                NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                _ => {}
            }
        }
        if flags & (NLM_F_DUMP | NLM_F_ACK) == 0 && !answers.is_empty() {
            return Ok(answers);
        }
    }
}
