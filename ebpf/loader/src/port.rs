// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attaching the programs to a device, asking and detaching them.

use std::os::fd::AsFd as _;

use anyhow::{Context as _, Result, bail, ensure};
use aya::Ebpf;
use aya::maps::{Array, Map, MapData};
use aya::programs::{ProgramError, SchedClassifier};
use weft_ebpf_common::port::{Before, Fallback, Policy, Port, Role, Spray};
use weft_ebpf_common::{map, program};
use weft_proto::tag;

use crate::bpf::{self, Hook};
use crate::counters::Counters;
use crate::device::{self, Device, GsoLimits};
use crate::{FlowSizes, Object, routes, sysctl};

/// Smallest MTU that leaves room for the tag and the smallest packet that every IPv4 host takes.
const SMALLEST_MTU: u32 = 576 + tag::SIZE as u32;
/// Smallest MTU of IPv6.
const SMALLEST_IPV6_MTU: u32 = 1280;
/// Longest GSO packet that can be tagged: an IP packet has at most 65,535 bytes.
const LARGEST_GSO: u32 = 65_536 - tag::SIZE as u32;

const UPDATE_PRIORITY: &str = "net/ipv4/ip_forward_update_priority";
const IPV4_HASH_POLICY: &str = "net/ipv4/fib_multipath_hash_policy";
const IPV6_HASH_POLICY: &str = "net/ipv6/fib_multipath_hash_policy";
/// "Layer 4": the route takes a packet's hash as it is.
const LAYER_4: u32 = 1;

/// [`Port`] as aya wants it.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Value(Port);

// SAFETY: `Port` consists of `u32` only, without padding; any bits are one.
unsafe impl aya::Pod for Value {}

/// How a host ranks its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// What a packet's rank is.
    pub policy: Policy,
    /// What it is for flows that do not say their size.
    pub fallback: Fallback,
    /// The rank under [`Policy::Fixed`] of flows without a class.
    pub fixed: u32,
    /// Whether one rank may be that of many packets.
    pub gso: Gso,
}

/// Segmentation offload: the kernel hands a burst of packets to the device as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gso {
    /// One packet at a time, so that each has the rank of its own bytes, and a queue's limit in
    /// packets means packets.
    #[default]
    Off,
    /// Bursts of up to 64 KiB: faster, and all packets of a burst have the rank of its first byte.
    On,
}

impl Default for HostConfig {
    /// The paper's choice, exact.
    fn default() -> Self {
        Self {
            policy: Policy::Remaining,
            fallback: Fallback::Sent,
            fixed: 0,
            gso: Gso::Off,
        }
    }
}

/// What a switch does besides reading tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Whether packets are sprayed over the paths of a multipath route.
    pub spray: Spray,
    /// [`Spray::RoundRobin`]: how many paths there are, so that they get equally many packets, ±1.
    /// 0 is any power of two.
    pub paths: u32,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            spray: Spray::Off,
            paths: 0,
        }
    }
}

/// What is attached to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it was attached as.
    pub role: Role,
    /// A host's configuration; of a switch, of no meaning.
    pub host: HostConfig,
    /// A switch's configuration; of a host, of no meaning.
    pub switch: SwitchConfig,
    /// What the programs have counted.
    pub counters: Counters,
}

/// Attaches the programs to one device after the other, or to one.
///
/// The kernel checks a program when it is loaded, which takes far longer than attaching it. So
/// devices with the same settings, found and wanted, share their programs, and with them the
/// counters: [`status`] says then what all of them have counted. Ports that spray
/// [round robin](Spray::RoundRobin) share nothing, since each takes turns on its own.
pub struct Attacher<'a> {
    object: &'a Object,
    flows: Option<&'a FlowSizes>,
    loaded: Vec<(Port, Ebpf)>,
}

impl<'a> Attacher<'a> {
    /// With the programs in `object`; the sockets of hosts say the sizes of their flows in `flows`.
    pub fn new(object: &'a Object, flows: Option<&'a FlowSizes>) -> Self {
        Self {
            object,
            flows,
            loaded: Vec::new(),
        }
    }

    /// Makes `device` the port of a host: what its TCP and UDP sockets send is ranked and tagged,
    /// what it gets loses the tag.
    ///
    /// The MTU of its IPv4 routes and of IPv6 becomes 8 bytes smaller than the device's, to leave
    /// room for the tag. Routes that are added later must say so themselves (`mtu lock N`): what is
    /// too long goes untagged and is counted. GSO is limited.
    ///
    /// # Errors
    ///
    /// If weft's programs are there already, the device is not fit, or the kernel refuses, which
    /// takes root. Nothing is left changed then.
    pub fn host(&mut self, device: &str, config: &HostConfig) -> Result<()> {
        let device = unused(device)?;
        ensure!(
            device.mtu >= SMALLEST_MTU,
            "{}'s MTU of {} leaves no room for the tag: make it at least {SMALLEST_MTU} (`ip link set {} mtu`)",
            device.name,
            device.mtu,
            device.name
        );
        let ipv6 = ipv6_mtu(&device);
        let ipv6_mtu = sysctl::read(&ipv6)?.unwrap_or(0);
        let mtu = device.mtu - tag::SIZE as u32;
        ensure!(
            ipv6_mtu == 0 || mtu >= SMALLEST_IPV6_MTU,
            "IPv6 needs an MTU of {SMALLEST_IPV6_MTU}, and the tag 8 more: make {}'s at least {} \
             (`ip link set {} mtu`), or turn IPv6 off there",
            device.name,
            SMALLEST_IPV6_MTU + 8,
            device.name
        );
        let port = Port {
            role: Role::Host as u32,
            policy: config.policy as u32,
            fallback: config.fallback as u32,
            fixed: config.fixed,
            before: Before {
                gso_max_size: device.gso.size,
                gso_ipv4_max_size: device.gso.ipv4_size,
                gso_max_segs: device.gso.segments,
                ipv6_mtu,
                route_mtu: mtu,
                ..Before::default()
            },
            ..Port::default()
        };
        let ebpf = self.programs(port)?;
        // Room first, tags then: no packet is too long in between.
        let arranged = || -> Result<()> {
            device.set_gso(GsoLimits {
                size: device.gso.size.min(LARGEST_GSO),
                ipv4_size: device.gso.ipv4_size.min(LARGEST_GSO),
                segments: match config.gso {
                    Gso::Off => 1,
                    Gso::On => device.gso.segments,
                },
            })?;
            if ipv6_mtu > mtu {
                sysctl::write(&ipv6, mtu)?;
            }
            routes::limit_mtu(&device, mtu)
        };
        let result = arranged()
            .and_then(|()| attach(ebpf, program::UNTAG, Hook::Ingress(device.index)))
            .and_then(|()| attach(ebpf, program::TAG, Hook::Egress(device.index)));
        undone(result, || {
            detach_all(&device).and(restore_host(&device, &port.before))
        })
    }

    /// Makes `device` the port of a switch: the tag of a packet that it gets is read into
    /// `skb->priority` and `skb->mark`, and stays on.
    ///
    /// The kernel is told not to overwrite `skb->priority` when it forwards, and if packets are to
    /// be sprayed, to choose the path of a multipath route by a packet's hash; both for the whole
    /// network namespace, until the last port is detached.
    ///
    /// # Errors
    ///
    /// If weft's programs are there already, or the kernel refuses, which takes root. Nothing is
    /// left changed then.
    pub fn switch(&mut self, device: &str, config: &SwitchConfig) -> Result<()> {
        ensure!(
            config.paths == 0 || config.spray == Spray::RoundRobin,
            "a number of paths is for round-robin spraying only"
        );
        let device = unused(device)?;
        // The settings are the namespace's: the first port knows them as they were.
        let before = match other_switch_port(&device)? {
            Some(port) => port.before,
            None => Before {
                forward_update_priority: sysctl::read(UPDATE_PRIORITY)?.unwrap_or(1),
                ipv4_hash_policy: sysctl::read(IPV4_HASH_POLICY)?.unwrap_or(0),
                ipv6_hash_policy: sysctl::read(IPV6_HASH_POLICY)?.unwrap_or(u32::MAX),
                ..Before::default()
            },
        };
        let port = Port {
            role: Role::Switch as u32,
            spray: config.spray as u32,
            paths: config.paths,
            before,
            ..Port::default()
        };
        let ebpf = self.programs(port)?;
        let sprays = config.spray != Spray::Off;
        let arranged = || -> Result<()> {
            sysctl::write(UPDATE_PRIORITY, 0)?;
            if sprays {
                sysctl::write(IPV4_HASH_POLICY, LAYER_4)?;
                if before.ipv6_hash_policy != u32::MAX {
                    sysctl::write(IPV6_HASH_POLICY, LAYER_4)?;
                }
            }
            Ok(())
        };
        let result = arranged()
            .and_then(|()| {
                if sprays {
                    attach(ebpf, program::UNSPRAY, Hook::Egress(device.index))
                } else {
                    Ok(())
                }
            })
            .and_then(|()| attach(ebpf, program::READ, Hook::Ingress(device.index)));
        undone(result, || {
            detach_all(&device).and_then(|()| restore_switch(&device, &port.before))
        })
    }

    /// The programs for a device with these settings.
    fn programs(&mut self, port: Port) -> Result<&mut Ebpf> {
        let shared = port.spray != Spray::RoundRobin as u32;
        let found = self.loaded.iter().position(|(of, _)| shared && *of == port);
        let at = match found {
            Some(at) => at,
            None => {
                let flows = (port.role == Role::Host as u32)
                    .then_some(self.flows)
                    .flatten();
                let mut ebpf = self.object.open(flows.map(FlowSizes::map))?;
                configure(&mut ebpf, port)?;
                self.loaded.push((port, ebpf));
                self.loaded.len() - 1
            }
        };
        Ok(&mut self.loaded[at].1)
    }
}

/// Takes weft's programs off `device` and puts back what an [`Attacher`] changed.
///
/// # Errors
///
/// If there are none, or the kernel refuses, which takes root.
pub fn detach(device: &str) -> Result<()> {
    let device = Device::find(device)?;
    let (port, _) = read(&device)?.with_context(|| nothing(&device))?;
    detach_all(&device)?;
    if port.role == Role::Host as u32 {
        restore_host(&device, &port.before)
    } else {
        restore_switch(&device, &port.before)
    }
}

/// What is attached to `device`; `None` if nothing of weft is.
///
/// # Errors
///
/// If there is no such device, or the kernel does not answer, which takes root.
pub fn status(device: &str) -> Result<Option<Status>> {
    let device = Device::find(device)?;
    let Some((port, counters)) = read(&device)? else {
        return Ok(None);
    };
    let version = || format!("{} has programs of another version of weft", device.name);
    Ok(Some(Status {
        role: Role::from_number(port.role).with_context(version)?,
        host: HostConfig {
            policy: Policy::from_number(port.policy).with_context(version)?,
            fallback: Fallback::from_number(port.fallback).with_context(version)?,
            fixed: port.fixed,
            gso: if device.gso.segments == 1 {
                Gso::Off
            } else {
                Gso::On
            },
        },
        switch: SwitchConfig {
            spray: Spray::from_number(port.spray).with_context(version)?,
            paths: port.paths,
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
    Ok(ours(&device)?
        .into_iter()
        .map(|(_, program)| program.id())
        .collect())
}

fn nothing(device: &Device) -> String {
    format!("nothing of weft is attached to {}", device.name)
}

fn ipv6_mtu(device: &Device) -> String {
    format!("net/ipv6/conf/{}/mtu", device.name)
}

fn unused(name: &str) -> Result<Device> {
    let device = Device::find(name)?;
    if !ours(&device)?.is_empty() {
        bail!(
            "weft is attached to {name} already: detach it first (`weft-tag detach --dev {name}`)"
        );
    }
    Ok(device)
}

fn configure(ebpf: &mut Ebpf, port: Port) -> Result<()> {
    let map = ebpf
        .map_mut(map::PORT)
        .context("the eBPF object has no map of ports")?;
    let mut map: Array<&mut MapData, Value> = map.try_into()?;
    map.set(0, Value(port), 0)
        .context("configuring the programs")
}

/// Attaches a program, which is loaded if it is its first device.
fn attach(ebpf: &mut Ebpf, name: &str, hook: Hook<'_>) -> Result<()> {
    let program: &mut SchedClassifier = ebpf
        .program_mut(name)
        .with_context(|| format!("the eBPF object has no program {name}"))?
        .try_into()?;
    match program.load() {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
        Err(error) => {
            return Err(error).with_context(|| format!("the kernel refuses {name}"));
        }
    }
    bpf::attach(program.fd()?.as_fd(), hook).with_context(|| format!("attaching {name}"))
}

/// If `result` is an error, undoes what was done; that this fails, too, is worth a word.
fn undone(result: Result<()>, undo: impl FnOnce() -> Result<()>) -> Result<()> {
    result.map_err(|error| match undo() {
        Ok(()) => error,
        Err(second) => error.context(format!("and what was done is not undone: {second:#}")),
    })
}

/// weft's programs on a device.
fn ours(device: &Device) -> Result<Vec<(Hook<'static>, aya::programs::ProgramInfo)>> {
    let mut found = Vec::new();
    for (hook, names) in [
        (Hook::Ingress(device.index), [program::UNTAG, program::READ]),
        (Hook::Egress(device.index), [program::TAG, program::UNSPRAY]),
    ] {
        for name in names {
            found.extend(bpf::attached_by_name(hook, name)?.map(|program| (hook, program)));
        }
    }
    Ok(found)
}

fn detach_all(device: &Device) -> Result<()> {
    for (hook, program) in ours(device)? {
        bpf::detach(program.fd()?.as_fd(), hook)
            .with_context(|| format!("detaching from {}", device.name))?;
    }
    Ok(())
}

fn read(device: &Device) -> Result<Option<(Port, Counters)>> {
    // Not every program of ours knows about its port: the one at ingress does.
    let Some((_, program)) = ours(device)?.into_iter().next() else {
        return Ok(None);
    };
    // All programs of an attachment share its counters.
    let counters = Counters::read(bpf::map_of(&program, &bpf::COUNTERS)?)?;
    for (_, program) in ours(device)? {
        if let Ok(map) = bpf::map_of(&program, &bpf::PORT) {
            let map: Array<MapData, Value> = Map::from_map_data(map)?.try_into()?;
            return Ok(Some((map.get(&0, 0)?.0, counters)));
        }
    }
    bail!("{} has programs of another version of weft", device.name)
}

/// A port of a switch in this namespace other than `device`.
fn other_switch_port(device: &Device) -> Result<Option<Port>> {
    for name in device::names()?.iter().filter(|name| **name != device.name) {
        // Not each device is fit for us, but then it is no port either.
        let Ok(other) = Device::find(name) else {
            continue;
        };
        match read(&other)? {
            Some((port, _)) if port.role == Role::Switch as u32 => return Ok(Some(port)),
            _ => {}
        }
    }
    Ok(None)
}

fn restore_host(device: &Device, before: &Before) -> Result<()> {
    routes::unlimit_mtu(device, before.route_mtu)?;
    let ipv6 = ipv6_mtu(device);
    if before.ipv6_mtu != 0 && sysctl::read(&ipv6)? == Some(before.route_mtu) {
        sysctl::write(&ipv6, before.ipv6_mtu.min(device.mtu))?;
    }
    device.set_gso(GsoLimits {
        size: before.gso_max_size,
        ipv4_size: before.gso_ipv4_max_size,
        segments: before.gso_max_segs,
    })
}

/// Once the last port is gone.
fn restore_switch(device: &Device, before: &Before) -> Result<()> {
    if other_switch_port(device)?.is_some() {
        return Ok(());
    }
    sysctl::write(UPDATE_PRIORITY, before.forward_update_priority)?;
    sysctl::write(IPV4_HASH_POLICY, before.ipv4_hash_policy)?;
    if before.ipv6_hash_policy != u32::MAX {
        sysctl::write(IPV6_HASH_POLICY, before.ipv6_hash_policy)?;
    }
    Ok(())
}
