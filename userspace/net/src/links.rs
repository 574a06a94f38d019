// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices of a namespace, as netlink reports them: which are ports, and which other devices exist.

use std::io;

use crate::attributes::{self, u32_at};
use crate::netlink::{Batch, Socket};

/// Of `struct ifinfomsg`.
const HEADER: usize = 16;
const UP: u8 = 6; // IF_OPER_UP
/// The kinds of ports: ends of links, and of tunnels to other machines.
const KINDS: [&str; 2] = ["veth", "vxlan"];

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device<'a> {
    pub(crate) index: u32,
    pub(crate) name: &'a str,
    /// `lo` has none.
    pub(crate) kind: Option<&'a str>,
    pub(crate) is_operational: bool,
}

impl<'a> Device<'a> {
    /// Reads the payload of an `RTM_NEWLINK` message.
    pub(crate) fn read(link: &'a [u8]) -> Option<Self> {
        let mut device = Self {
            index: u32_at(link, 4)?,
            name: "",
            kind: None,
            is_operational: false,
        };
        for (attribute, value) in attributes::read(link.get(HEADER..)?) {
            match attribute {
                libc::IFLA_IFNAME => device.name = text(value)?,
                libc::IFLA_OPERSTATE => device.is_operational = value == [UP],
                libc::IFLA_LINKINFO => {
                    let mut info = attributes::read(value);
                    let kind = info.find(|&(attribute, _)| attribute == libc::IFLA_INFO_KIND);
                    device.kind = kind.and_then(|(_, value)| text(value));
                }
                _ => {}
            }
        }
        (!device.name.is_empty()).then_some(device)
    }

    /// Whether it is an end of a link. A namespace has other devices, too: `lo`, a machine's taps,
    /// and those that tunnel modules create in every namespace.
    pub(crate) fn is_port(&self) -> bool {
        self.kind.is_some_and(|kind| KINDS.contains(&kind))
    }
}

/// Passes each device of a socket's namespace to `each`.
pub(crate) fn each(socket: &mut Socket, mut each: impl FnMut(&Device<'_>)) -> io::Result<()> {
    socket.ask(&mut Batch::links(), &mut Vec::new(), |link| {
        if let Some(device) = Device::read(link) {
            each(&device);
        }
    })
}

/// Without its terminating zero.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value.strip_suffix(&[0]).unwrap_or(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Attributes;

    fn link(index: u32, name: &str, kind: Option<&str>) -> Vec<u8> {
        let mut header = vec![0; HEADER];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let mut attributes = Attributes::default();
        attributes.text(libc::IFLA_IFNAME, name);
        attributes.u8(libc::IFLA_OPERSTATE, UP);
        if let Some(kind) = kind {
            attributes.nest(libc::IFLA_LINKINFO, |info| {
                info.bytes(libc::IFLA_INFO_KIND, kind.as_bytes());
            });
        }
        [header, attributes.0].concat()
    }

    #[test]
    fn ports_are_distinguished_from_other_devices_of_a_namespace() {
        for (name, kind, is_port) in [
            ("lo", None, false),
            ("sit0", Some("sit"), false),
            ("tunl0", Some("ipip"), false),
            ("ip6tnl0", Some("ip6tnl"), false),
            ("tap0", Some("tun"), false),
            ("dummy0", Some("dummy"), false),
            ("tor0", Some("veth"), true),
            ("agg1", Some("vxlan"), true),
        ] {
            let link = link(7, name, kind);
            let device = Device::read(&link).unwrap();
            assert_eq!((device.index, device.name, device.kind), (7, name, kind));
            assert!(device.is_operational);
            assert_eq!(device.is_port(), is_port, "{name}");
        }
        assert_eq!(Device::read(&[0; 8]), None);
    }
}
