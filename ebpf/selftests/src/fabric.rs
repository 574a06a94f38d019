// SPDX-License-Identifier: MIT OR Apache-2.0

//! Namespaces, links and addresses.

use std::net::IpAddr;

use anyhow::Result;
use weft_ebpf::{Attacher, FlowSizes, Hook, HostConfig, Object, SwitchConfig};

use crate::cgroup::Cgroup;
use weft_ktap::Namespace;

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

/// A veth between `near` of `a` and `far` of `b`, with addresses `.1` and `.2` of net `number`.
pub(crate) fn link(a: &Namespace, near: &str, b: &Namespace, far: &str, number: u8) -> Result<()> {
    a.ip(&format!(
        "link add name {near} type veth peer name {far} netns {}",
        b.path()
    ))?;
    for (namespace, device, host) in [(a, near, 1), (b, far, 2)] {
        namespace.ip(&format!("addr add 10.9.{number}.{host}/24 dev {device}"))?;
        namespace.ip(&format!(
            "addr add fd09:{number}::{host}/64 dev {device} nodad"
        ))?;
        namespace.ip(&format!("link set {device} up"))?;
    }
    Ok(())
}

pub(crate) fn address(version: Version, number: u8, host: u8) -> IpAddr {
    let text = match version {
        Version::V4 => format!("10.9.{number}.{host}"),
        Version::V6 => format!("fd09:{number}::{host}"),
    };
    text.parse().expect("an address")
}

/// `sender` (`eth`) – `first` (`left`, `right`…) – `second` (`left`…, `right`) – `receiver`
/// (`eth`), nets 1, 2 (and more, if there are several links between the switches), and 9.
pub(crate) struct Path {
    pub(crate) object: Object,
    pub(crate) sender: Namespace,
    pub(crate) first: Namespace,
    pub(crate) second: Namespace,
    pub(crate) receiver: Namespace,
    pub(crate) cgroup: Cgroup,
}

impl Path {
    /// A path with `links` links between the two switches. No program is attached yet.
    pub(crate) fn new(links: u8) -> Result<Self> {
        let path = Self {
            object: Object::find(None)?,
            sender: Namespace::forwarding()?,
            first: Namespace::forwarding()?,
            second: Namespace::forwarding()?,
            receiver: Namespace::forwarding()?,
            cgroup: Cgroup::new()?,
        };
        link(&path.sender, "eth", &path.first, "left", 1)?;
        link(&path.second, "right", &path.receiver, "eth", 9)?;
        let mut hops = [String::new(), String::new(), String::new(), String::new()];
        for number in 2..2 + links {
            let (near, far) = (format!("right{number}"), format!("left{number}"));
            link(&path.first, &near, &path.second, &far, number)?;
            hops[0] += &format!(" nexthop via 10.9.{number}.2 dev {near}");
            hops[1] += &format!(" nexthop via fd09:{number}::2 dev {near}");
            hops[2] += &format!(" nexthop via 10.9.{number}.1 dev {far}");
            hops[3] += &format!(" nexthop via fd09:{number}::1 dev {far}");
        }
        path.first
            .ip(&format!("route add 10.9.9.0/24{}", hops[0]))?;
        path.first
            .ip(&format!("-6 route add fd09:9::/64{}", hops[1]))?;
        path.second
            .ip(&format!("route add 10.9.1.0/24{}", hops[2]))?;
        path.second
            .ip(&format!("-6 route add fd09:1::/64{}", hops[3]))?;
        for (host, net, gateway) in [(&path.sender, 1, 2), (&path.receiver, 9, 1)] {
            host.ip(&format!("route add default via 10.9.{net}.{gateway}"))?;
            host.ip(&format!("-6 route add default via fd09:{net}::{gateway}"))?;
        }
        Ok(path)
    }

    /// Attaches all programs at the default hook. Sockets created from now on belong to the cgroup.
    pub(crate) fn attach(&self, host: &HostConfig, switch: &SwitchConfig) -> Result<()> {
        self.attach_at(Hook::default(), host, switch)
    }

    /// Attaches all programs at `hook`.
    pub(crate) fn attach_at(
        &self,
        hook: Hook,
        host: &HostConfig,
        switch: &SwitchConfig,
    ) -> Result<()> {
        let flows = FlowSizes::attach(&self.object, self.cgroup.path())?;
        // Each port has its own programs, so that their counters are the port's alone.
        let own = || Attacher::new(&self.object, Some(&flows)).at(hook);
        for end in [&self.sender, &self.receiver] {
            end.enter(|| own().host("eth", host))??;
        }
        self.first.enter(|| own().switch("left", switch))??;
        self.second.enter(|| own().switch("left2", switch))??;
        self.cgroup.enter()
    }

    pub(crate) fn receiver_address(&self, version: Version) -> IpAddr {
        address(version, 9, 2)
    }
}
