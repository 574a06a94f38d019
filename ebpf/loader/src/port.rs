// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attaches the programs to a device, queries and detaches them.

mod attach;
mod record;
mod restore;

use anyhow::{Context as _, Result};
use weft_ebpf_common::port::{Fallback, Policy, Role, Spray, Tagged, Untagged};
use weft_mechanisms::common::{records, tag};

pub use attach::Attacher;
pub(crate) use attach::undone;
pub use restore::detach;

use crate::counters::Counters;
use crate::device::Device;
use record::{Found, ours, read};

const UPDATE_PRIORITY: &str = "net/ipv4/ip_forward_update_priority";
const IPV4_HASH_POLICY: &str = "net/ipv4/fib_multipath_hash_policy";
const IPV6_HASH_POLICY: &str = "net/ipv6/fib_multipath_hash_policy";

/// The hook at which the kernel runs a device's programs. Their behaviour is the same at both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hook {
    /// The hook of Linux 6.6, for programs only. Attaching or detaching one, and removing its
    /// device, waits for all processors (`synchronize_rcu`) while it holds the lock for all changes
    /// to all devices (the RTNL).
    #[default]
    Tcx,
    /// A qdisc with filters, the older hook. It does not wait, so it suits many devices.
    Clsact,
}

impl Hook {
    /// All hooks.
    pub const ALL: &'static [Self] = &[Self::Tcx, Self::Clsact];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcx => "tcx",
            Self::Clsact => "clsact",
        }
    }
}

/// How a host ranks its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// The rank of a packet.
    pub policy: Policy,
    /// The rank of packets whose flow has no declared size.
    pub fallback: Fallback,
    /// The rank under [`Policy::Fixed`] of flows without a class.
    pub fixed: u32,
    /// Packets that get a tag. Those without payload have [`fixed`](Self::fixed) as their rank.
    pub tagged: Tagged,
    /// Whether one rank may apply to many packets.
    pub gso: Gso,
}

/// Segmentation offload: the kernel hands a burst of packets to the device as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// One packet at a time, so that each has the rank of its own bytes, and a queue's limit in
    /// packets counts real packets.
    #[default]
    Off,
    /// Bursts of up to 64 KiB: faster, and all packets of a burst have the rank of its first byte.
    On,
}

impl Default for HostConfig {
    /// The paper's choice, without approximation.
    fn default() -> Self {
        Self {
            policy: Policy::Remaining,
            fallback: Fallback::Sent,
            fixed: 0,
            tagged: Tagged::Data,
            gso: Gso::Off,
        }
    }
}

/// Options of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Whether packets are sprayed over the paths of a multipath route.
    pub spray: Spray,
    /// [`Spray::RoundRobin`]: number of paths, which then get equally many packets, ±1; 0 means any
    /// power of two. [`Spray::Path`]: number of next hops, not 0.
    pub paths: u32,
    /// [`Spray::Path`]: number of successive paths with the same next hop; 0 means 1.
    pub stride: u32,
    /// The rank of a packet without a tag that is long enough to hold data.
    pub untagged: Untagged,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            spray: Spray::Off,
            paths: 0,
            stride: 0,
            untagged: Untagged::Last,
        }
    }
}

/// The programs attached to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The role that was given.
    pub role: Role,
    /// The hook.
    pub hook: Hook,
    /// A host's configuration; meaningless for a switch.
    pub host: HostConfig,
    /// A switch's configuration; meaningless for a host.
    pub switch: SwitchConfig,
    /// The programs' counters.
    pub counters: Counters,
}

/// The attachment of `device`; `None` if weft is not attached.
///
/// # Errors
///
/// If there is no such device, or the query fails (it requires root).
pub fn status(device: &str) -> Result<Option<Status>> {
    let device = Device::find(device)?;
    let Some(Found {
        port,
        hook,
        counters,
    }) = read(device.index)?
    else {
        return Ok(None);
    };
    let version = || format!("{} has programs of another version of weft", device.name);
    Ok(Some(Status {
        role: Role::from_number(port.role).with_context(version)?,
        hook,
        host: HostConfig {
            policy: Policy::from_number(port.policy).with_context(version)?,
            fallback: Fallback::from_number(port.fallback).with_context(version)?,
            fixed: port.fixed,
            tagged: Tagged::from_number(port.tagged).with_context(version)?,
            gso: if device.gso.segments == 1 {
                Gso::Off
            } else {
                Gso::On
            },
        },
        switch: SwitchConfig {
            spray: Spray::from_number(port.spray).with_context(version)?,
            paths: port.paths,
            stride: port.stride,
            untagged: Untagged::from_number(port.untagged).with_context(version)?,
        },
        counters,
    }))
}

/// The identifiers of the programs on `device` (`bpftool prog show id N`), ingress first.
///
/// # Errors
///
/// As [`status`].
pub fn programs(device: &str) -> Result<Vec<u32>> {
    let device = Device::find(device)?;
    let programs = ours(device.index)?.into_iter();
    Ok(programs.map(|one| one.program.id()).collect())
}

fn ipv6_mtu(device: &Device) -> String {
    format!("net/ipv6/conf/{}/mtu", device.name)
}

/// The bytes that a host's packets need for what the programs add.
struct Room {
    ipv4: u32,
    ipv6: u32,
}

impl Room {
    fn of(policy: Policy) -> Self {
        match policy {
            Policy::Records => Self {
                ipv4: records::IPV4_SIZE as u32,
                ipv6: records::IPV6_SIZE as u32,
            },
            _ => Self {
                ipv4: tag::SIZE as u32,
                ipv6: tag::SIZE as u32,
            },
        }
    }
}
