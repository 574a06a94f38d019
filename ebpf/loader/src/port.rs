// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attaches the programs to a device, queries and detaches them.

use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, Result, bail, ensure};
use aya::Ebpf;
use aya::maps::{Array, Map, MapData};
use aya::programs::{ProgramError, ProgramInfo, SchedClassifier};
use weft_ebpf_common::port::{Before, Fallback, Policy, Port, Role, Spray, Tagged, Untagged};
use weft_ebpf_common::{map, program};
use weft_mechanisms::common::tag;

use crate::bpf;
use crate::counters::Counters;
use crate::device::{self, Device, GsoLimits};
use crate::filter::{self, Direction, Filter};
use crate::object::{MAX_SHARING, Ports, program_of};
use crate::{FlowSizes, Object, routes, sysctl};

/// Smallest MTU that leaves room for the tag and the smallest packet that every IPv4 host accepts.
const SMALLEST_MTU: u32 = 576 + tag::SIZE as u32;
/// Smallest MTU of IPv6.
const SMALLEST_IPV6_MTU: u32 = 1280;
/// Longest GSO packet that can be tagged: an IP packet has at most 65,535 bytes.
const LARGEST_GSO: u32 = 65_536 - tag::SIZE as u32;

const UPDATE_PRIORITY: &str = "net/ipv4/ip_forward_update_priority";
const IPV4_HASH_POLICY: &str = "net/ipv4/fib_multipath_hash_policy";
const IPV6_HASH_POLICY: &str = "net/ipv6/fib_multipath_hash_policy";
/// "Layer 4": the route uses a packet's hash unchanged.
const LAYER_4: u32 = 1;

/// [`Port`] as a type that aya accepts.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Value(Port);

// SAFETY: `Port` consists of integers only, without padding; any bit pattern is valid.
unsafe impl aya::Pod for Value {}

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

/// Attaches the programs to one or more devices.
///
/// The kernel verifies a program when it is loaded, which takes far longer than attaching it. So
/// devices with the same settings share their programs and their counters: [`status`] then returns
/// the sum over all of them. A program at [`Hook::Tcx`] does not learn its port. There, the
/// previous settings of the devices must be equal, too, and ports that spray [round
/// robin](Spray::RoundRobin) share nothing, because each counts its own turns.
pub struct Attacher<'a> {
    object: &'a Object,
    flows: Option<&'a FlowSizes>,
    hook: Hook,
    loaded: Vec<Loaded>,
    /// The network namespace of the last switch port, and its previous settings.
    switch: Option<(u64, Before)>,
}

/// Loaded programs, and the ports that use them.
struct Loaded {
    settings: Port,
    ebpf: Ebpf,
    /// Number of ports that use them.
    ports: u16,
}

impl<'a> Attacher<'a> {
    /// Uses the programs in `object`, at [`Hook::Tcx`]; the sockets of hosts declare their flows in
    /// `flows`.
    pub fn new(object: &'a Object, flows: Option<&'a FlowSizes>) -> Self {
        Self {
            object,
            flows,
            hook: Hook::default(),
            loaded: Vec::new(),
            switch: None,
        }
    }

    /// Uses another hook.
    ///
    /// For [`Hook::Clsact`], a device without a `clsact` qdisc gets one. If the device is up, that
    /// waits for all processors once.
    pub fn at(mut self, hook: Hook) -> Self {
        self.hook = hook;
        self
    }

    /// Makes `device` the port of a host: packets that its TCP and UDP sockets send are ranked and
    /// tagged, and received packets lose the tag.
    ///
    /// The MTU of its IPv4 routes and of IPv6 becomes 8 bytes smaller than the device's, to leave
    /// room for the tag. Routes that are added later must set it themselves (`mtu lock N`): packets
    /// that are too long are counted and not tagged. GSO is limited.
    /// # Errors
    ///
    /// If weft's programs are attached already, the device is unsuitable, or the kernel refuses
    /// (this requires root). After an error nothing is changed.
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
            tagged: config.tagged as u32,
            before: Before {
                gso_max_size: device.gso.size,
                gso_ipv4_max_size: device.gso.ipv4_size,
                gso_max_segs: device.gso.segments,
                ipv6_mtu,
                route_mtu: mtu,
                clsact_added: self.make_hook(&device)?.into(),
                ..Before::default()
            },
            ..Port::default()
        };
        // First the room, then the tags: no packet is too long in between.
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
        let programs = [
            (program::TAG, Direction::Egress),
            (program::UNTAG, Direction::Ingress),
        ];
        let result = arranged().and_then(|()| self.attach(port, &device, &programs));
        undone(result, || {
            detach_all(&device, &port.before).and(restore_host(&device, &port.before))
        })
    }

    /// Makes `device` the port of a switch: the tag of a received packet is copied to
    /// `skb->priority` and `skb->mark`, and stays in the packet.
    ///
    /// Configures the kernel not to overwrite `skb->priority` when it forwards, and for spraying to
    /// choose the path of a multipath route by a packet's hash. Both apply to the whole network
    /// namespace, until the last port is detached.
    ///
    /// # Errors
    ///
    /// If weft's programs are attached already, or the kernel refuses (this requires root). After
    /// an error nothing is changed.
    pub fn switch(&mut self, device: &str, config: &SwitchConfig) -> Result<()> {
        match config.spray {
            Spray::RoundRobin => {}
            Spray::Path => ensure!(
                config.paths != 0,
                "how many ways on there are has to be said"
            ),
            Spray::Off | Spray::Random => ensure!(
                config.paths == 0,
                "a number of paths is for spraying by turns, or by the path that a tag says"
            ),
        }
        ensure!(
            config.stride == 0 || config.spray == Spray::Path,
            "a stride is for spraying by the path that a tag says"
        );
        let device = unused(device)?;
        let mut before = self.switch_before(&device)?;
        before.clsact_added = self.make_hook(&device)?.into();
        let port = Port {
            role: Role::Switch as u32,
            spray: config.spray as u32,
            paths: config.paths,
            stride: match config.spray {
                Spray::Path => config.stride.max(1),
                _ => 0,
            },
            untagged: config.untagged as u32,
            before,
            ..Port::default()
        };
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
        let programs = [
            (program::READ, Direction::Ingress),
            (program::UNSPRAY, Direction::Egress),
        ];
        let programs = if sprays {
            &programs[..]
        } else {
            &programs[..1]
        };
        let result = arranged().and_then(|()| self.attach(port, &device, programs));
        undone(result, || {
            detach_all(&device, &port.before).and(restore_switch(&device, &port.before))
        })
    }

    /// The settings of the device's namespace before the first port was attached.
    fn switch_before(&mut self, device: &Device) -> Result<Before> {
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")
            .context("finding out the network namespace")?
            .ino();
        if let Some((last, before)) = self.switch
            && last == namespace
        {
            return Ok(before);
        }
        let before = match other_switch_port(device)? {
            // All its settings are the namespace's, except the qdisc.
            Some(port) => Before {
                clsact_added: 0,
                ..port.before
            },
            None => Before {
                forward_update_priority: sysctl::read(UPDATE_PRIORITY)?.unwrap_or(1),
                ipv4_hash_policy: sysctl::read(IPV4_HASH_POLICY)?.unwrap_or(0),
                ipv6_hash_policy: sysctl::read(IPV6_HASH_POLICY)?.unwrap_or(u32::MAX),
                ..Before::default()
            },
        };
        self.switch = Some((namespace, before));
        Ok(before)
    }

    /// Prepares the device's hook; returns whether that changed anything.
    fn make_hook(&self, device: &Device) -> Result<bool> {
        match self.hook {
            Hook::Tcx => Ok(false),
            Hook::Clsact => filter::add_qdisc(device.index)
                .with_context(|| format!("attaching to {}", device.name)),
        }
    }

    /// Attaches programs in this order, starting with the one that knows its [`Port`]: if the
    /// process is killed in between, the record exists. With new settings, all programs are loaded
    /// first, because the kernel takes long to verify them, or refuses them.
    fn attach(
        &mut self,
        port: Port,
        device: &Device,
        programs: &[(&str, Direction)],
    ) -> Result<()> {
        let hook = self.hook;
        let loaded = self.loaded(port)?;
        // At tcx there is one entry for all ports.
        let class = match hook {
            Hook::Tcx => 0,
            Hook::Clsact => loaded.ports,
        };
        configure(&mut loaded.ebpf, class, port)?;
        loaded.ports = loaded.ports.saturating_add(1);
        for (name, _) in programs {
            match program_of::<SchedClassifier>(&mut loaded.ebpf, name)?.load() {
                Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("the kernel refuses {name}"));
                }
            }
        }
        for &(name, direction) in programs {
            let program: &mut SchedClassifier = program_of(&mut loaded.ebpf, name)?;
            let program = program.fd()?.as_fd();
            match hook {
                Hook::Tcx => bpf::attach(program, tcx(device.index, direction)).map_err(Into::into),
                Hook::Clsact => filter::attach(program, name, device.index, direction, class),
            }
            .with_context(|| format!("attaching {name} to {}", device.name))?;
        }
        Ok(())
    }

    /// The programs for a port with these settings, with their maps.
    fn loaded(&mut self, port: Port) -> Result<&mut Loaded> {
        let hook = self.hook;
        let fits = |loaded: &Loaded| match hook {
            Hook::Tcx => loaded.settings == port && port.spray != Spray::RoundRobin as u32,
            Hook::Clsact => {
                // The previous settings differ between ports.
                let settings = Port {
                    before: port.before,
                    ..loaded.settings
                };
                settings == port && loaded.ports < MAX_SHARING
            }
        };
        let at = match self.loaded.iter().position(fits) {
            Some(at) => at,
            None => {
                let flows = (port.role == Role::Host as u32)
                    .then_some(self.flows)
                    .flatten();
                let ports = match hook {
                    Hook::Tcx => Ports::One,
                    Hook::Clsact => Ports::Sharing,
                };
                self.loaded.push(Loaded {
                    settings: port,
                    ebpf: self.object.open(flows.map(FlowSizes::map), ports)?,
                    ports: 0,
                });
                self.loaded.len() - 1
            }
        };
        Ok(&mut self.loaded[at])
    }
}

fn tcx(device: u32, direction: Direction) -> bpf::Hook<'static> {
    match direction {
        Direction::Ingress => bpf::Hook::Ingress(device),
        Direction::Egress => bpf::Hook::Egress(device),
    }
}

/// Restores the settings that an [`Attacher`] changed, and detaches weft's programs from `device`.
///
/// Returns whether it could restore the settings. It could not if the programs have no record of
/// them: programs of another version of weft, or of a process that was killed while it attached
/// them.
///
/// # Errors
///
/// If no program is attached, or the kernel refuses (this requires root). If it refuses to restore
/// a setting, such as the MTU of a multipath route that also uses a device that is down, the others
/// are restored and the programs stay, because they hold the record.
pub fn detach(device: &str) -> Result<bool> {
    let device = Device::find(device)?;
    let attached = ours(device.index)?;
    ensure!(!attached.is_empty(), nothing(&device));
    let Some(port) = record(&attached)? else {
        return detach_all(&device, &Before::default()).map(|()| false);
    };
    // The only record of the previous settings disappears with the programs.
    if port.role == Role::Host as u32 {
        restore_host(&device, &port.before)
    } else {
        restore_switch(&device, &port.before)
    }
    .with_context(|| {
        format!(
            "{} is still attached, as not all could be put back; mend that, and detach it again",
            device.name
        )
    })?;
    detach_all(&device, &port.before).map(|()| true)
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
/// Those of [`status`].
pub fn programs(device: &str) -> Result<Vec<u32>> {
    let device = Device::find(device)?;
    let programs = ours(device.index)?.into_iter();
    Ok(programs.map(|one| one.program.id()).collect())
}

fn nothing(device: &Device) -> String {
    format!("weft is not attached to {}", device.name)
}

fn ipv6_mtu(device: &Device) -> String {
    format!("net/ipv6/conf/{}/mtu", device.name)
}

fn unused(name: &str) -> Result<Device> {
    let device = Device::find(name)?;
    if !ours(device.index)?.is_empty() {
        bail!(
            "weft is attached to {name} already: detach it first (`weft-tag detach --dev {name}`)"
        );
    }
    Ok(device)
}

fn configure(ebpf: &mut Ebpf, class: u16, port: Port) -> Result<()> {
    let map = ebpf
        .map_mut(map::PORT)
        .context("the eBPF object has no map of ports")?;
    let mut map: Array<&mut MapData, Value> = map.try_into()?;
    map.set(class.into(), Value(port), 0)
        .context("configuring the programs")
}

/// If `result` is an error, undoes the steps so far; reports it if undoing fails, too.
pub(crate) fn undone(result: Result<()>, undo: impl FnOnce() -> Result<()>) -> Result<()> {
    result.map_err(|error| match undo() {
        Ok(()) => error,
        Err(second) => error.context(format!("and undoing the earlier steps failed: {second:#}")),
    })
}

/// One of weft's programs on a device.
struct Attached {
    place: Place,
    program: ProgramInfo,
}

/// How a program is detached.
#[derive(Clone, Copy)]
enum Place {
    Tcx(bpf::Hook<'static>),
    Filter(Filter),
}

/// weft's programs on the device with this index, ingress first.
fn ours(device: u32) -> Result<Vec<Attached>> {
    let mut found = Vec::new();
    for (direction, names) in [
        (Direction::Ingress, [program::UNTAG, program::READ]),
        (Direction::Egress, [program::TAG, program::UNSPRAY]),
    ] {
        let tcx = tcx(device, direction);
        let ids = bpf::attached(tcx)?.into_iter();
        let mut places: Vec<_> = ids.map(|id| (id, Place::Tcx(tcx))).collect();
        let filters = filter::attached(device, direction)?.into_iter();
        places.extend(filters.map(|filter| (filter.program, Place::Filter(filter))));
        let ids: Vec<_> = places.iter().map(|(id, _)| *id).collect();
        for program in bpf::programs(&ids) {
            let named = |name: &&str| name.as_bytes() == program.name();
            if !names.iter().any(named) {
                continue;
            }
            let at = places.iter().find(|(id, _)| *id == program.id());
            found.extend(at.map(|&(_, place)| Attached { place, program }));
        }
    }
    Ok(found)
}

/// Detaches weft's programs, and removes the qdisc if weft added it.
fn detach_all(device: &Device, before: &Before) -> Result<()> {
    for Attached { place, program } in ours(device.index)? {
        match place {
            Place::Tcx(hook) => bpf::detach(program.fd()?.as_fd(), hook).map_err(Into::into),
            Place::Filter(filter) => filter::detach(&filter),
        }
        .with_context(|| format!("detaching from {}", device.name))?;
    }
    if before.clsact_added == 1 {
        filter::remove_unused_qdisc(device.index)
            .with_context(|| format!("detaching from {}", device.name))?;
    }
    Ok(())
}

/// The state of an attachment.
struct Found {
    port: Port,
    hook: Hook,
    counters: Counters,
}

fn read(device: u32) -> Result<Option<Found>> {
    let attached = ours(device)?;
    let Some(first) = attached.first() else {
        return Ok(None);
    };
    let port = record(&attached)?.context(
        "the programs are of another version of weft, or attaching them was interrupted; \
         `weft-tag detach` removes them",
    )?;
    let hook = match first.place {
        Place::Tcx(_) => Hook::Tcx,
        Place::Filter(_) => Hook::Clsact,
    };
    // All programs of an attachment share its counters.
    let counters = Counters::read(bpf::map_of(&first.program, &bpf::COUNTERS)?)?;
    Ok(Some(Found {
        port,
        hook,
        counters,
    }))
}

/// The record of an attachment's port. Not every program has it: `weft_tag` and `weft_read` do.
fn record(attached: &[Attached]) -> Result<Option<Port>> {
    for Attached { place, program } in attached {
        let Ok(map) = bpf::map_of(program, &bpf::PORT) else {
            continue;
        };
        let class = match place {
            Place::Tcx(_) => 0,
            Place::Filter(filter) => filter.class,
        };
        let map: Array<MapData, Value> = Map::from_map_data(map)?.try_into()?;
        return Ok(Some(map.get(&class.into(), 0)?.0));
    }
    Ok(None)
}

/// A switch port in this namespace other than `device`.
fn other_switch_port(device: &Device) -> Result<Option<Port>> {
    let all = device::all()?.into_iter();
    for (index, name) in all.filter(|(index, _)| *index != device.index) {
        match read(index).with_context(|| format!("asking {name}"))? {
            Some(Found { port, .. }) if port.role == Role::Switch as u32 => return Ok(Some(port)),
            _ => {}
        }
    }
    Ok(None)
}

/// Takes every step, even if others fail; returns the first error.
fn restore_host(device: &Device, before: &Before) -> Result<()> {
    let routes = routes::unlimit_mtu(device, before.route_mtu);
    let ipv6 = restore_ipv6_mtu(device, before);
    let gso = device.set_gso(GsoLimits {
        size: before.gso_max_size,
        ipv4_size: before.gso_ipv4_max_size,
        segments: before.gso_max_segs,
    });
    routes.and(ipv6).and(gso)
}

fn restore_ipv6_mtu(device: &Device, before: &Before) -> Result<()> {
    let ipv6 = ipv6_mtu(device);
    if before.ipv6_mtu != 0 && sysctl::read(&ipv6)? == Some(before.route_mtu) {
        sysctl::write(&ipv6, before.ipv6_mtu.min(device.mtu))?;
    }
    Ok(())
}

/// Only when no other port is left. Takes every step, like [`restore_host`].
fn restore_switch(device: &Device, before: &Before) -> Result<()> {
    if other_switch_port(device)?.is_some() {
        return Ok(());
    }
    let priority = sysctl::write(UPDATE_PRIORITY, before.forward_update_priority);
    let ipv4 = sysctl::write(IPV4_HASH_POLICY, before.ipv4_hash_policy);
    let ipv6 = match before.ipv6_hash_policy {
        u32::MAX => Ok(()),
        policy => sysctl::write(IPV6_HASH_POLICY, policy),
    };
    priority.and(ipv4).and(ipv6)
}
