// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attaches the programs to devices.

use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, Result, bail, ensure};
use aya::Ebpf;
use aya::programs::{ProgramError, SchedClassifier};
use weft_ebpf_common::port::{Before, Policy, Port, Role, Spray, Tagged};
use weft_ebpf_common::program;

use super::record::{configure, other_switch_port, ours, tcx};
use super::restore::{detach_all, restore_host, restore_switch};
use super::{
    Gso, Hook, HostConfig, IPV4_HASH_POLICY, IPV6_HASH_POLICY, Room, SwitchConfig, UPDATE_PRIORITY,
    ipv6_mtu,
};
use crate::device::{Device, GsoLimits};
use crate::filter::{self, Direction};
use crate::object::{MAX_SHARING, Ports, program_of};
use crate::{FlowSizes, Object, bpf, routes, sysctl};

/// Smallest IPv4 MTU: the smallest packet that every host accepts.
const SMALLEST_IPV4_MTU: u32 = 576;
/// Smallest MTU of IPv6.
const SMALLEST_IPV6_MTU: u32 = 1280;
/// Limit of the size of GSO packets, in bytes: an IP packet has at most 65,535.
const GSO_LIMIT: u32 = 65_536;

/// "Layer 4": the route uses a packet's hash unchanged.
const LAYER_4: u32 = 1;

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
    /// room for the tag; under [`Policy::Records`] 40 and 48 bytes, for hop records. Routes that
    /// are added later must set it themselves (`mtu lock N`): packets that are too long are counted
    /// and not tagged. GSO is limited.
    ///
    /// # Errors
    ///
    /// If weft's programs are attached already, the device is unsuitable, or the kernel refuses
    /// (this requires root). After an error nothing is changed.
    pub fn host(&mut self, device: &str, config: &HostConfig) -> Result<()> {
        ensure!(
            config.policy != Policy::Echo || config.tagged == Tagged::All,
            "policy echo needs tags on all packets, because acknowledgements carry the echoes: give \
             --tagged all (in a scheme, packets = \"all\")"
        );
        ensure!(
            config.policy != Policy::Records || config.tagged == Tagged::Data,
            "policy records adds no tags: omit --tagged all (in a scheme, packets = \"all\")"
        );
        ensure!(
            config.policy != Policy::Records || config.gso == Gso::Off,
            "policy records needs packets that are sent one by one: omit --gso on"
        );
        let room = Room::of(config.policy);
        let device = unused(device)?;
        ensure!(
            device.mtu >= SMALLEST_IPV4_MTU + room.ipv4,
            "{}'s MTU of {} leaves no room for the {} bytes of policy {}: make it at least {} (`ip link \
             set {} mtu`)",
            device.name,
            device.mtu,
            room.ipv4,
            config.policy.name(),
            SMALLEST_IPV4_MTU + room.ipv4,
            device.name
        );
        let ipv6 = ipv6_mtu(&device);
        let ipv6_mtu = sysctl::read(&ipv6)?.unwrap_or(0);
        let mtu = device.mtu - room.ipv4;
        let lower_ipv6_mtu = device.mtu.saturating_sub(room.ipv6);
        ensure!(
            ipv6_mtu == 0 || lower_ipv6_mtu >= SMALLEST_IPV6_MTU,
            "IPv6 needs an MTU of {SMALLEST_IPV6_MTU}, and policy {} {} more: make {}'s at least {} \
             (`ip link set {} mtu`), or turn IPv6 off there",
            config.policy.name(),
            room.ipv6,
            device.name,
            SMALLEST_IPV6_MTU + room.ipv6,
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
                size: device.gso.size.min(GSO_LIMIT - room.ipv6),
                ipv4_size: device.gso.ipv4_size.min(GSO_LIMIT - room.ipv4),
                segments: match config.gso {
                    Gso::Off => 1,
                    Gso::On => device.gso.segments,
                },
            })?;
            if ipv6_mtu > lower_ipv6_mtu {
                sysctl::write(&ipv6, lower_ipv6_mtu)?;
            }
            routes::limit_mtu(&device, mtu)
        };
        let programs = [
            (program::TAG, Direction::Egress),
            (program::UNTAG, Direction::Ingress),
        ];
        let result = arranged().and_then(|()| self.attach(port, &device, &programs));
        undone(result, || {
            detach_all(&device, &port.before).and(restore_host(&device, &port))
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

fn unused(name: &str) -> Result<Device> {
    let device = Device::find(name)?;
    if !ours(device.index)?.is_empty() {
        bail!(
            "weft is attached to {name} already: detach it first (`weft-tag detach --dev {name}`)"
        );
    }
    Ok(device)
}

/// If `result` is an error, undoes the steps so far; reports it if undoing fails, too.
pub(crate) fn undone(result: Result<()>, undo: impl FnOnce() -> Result<()>) -> Result<()> {
    result.map_err(|error| match undo() {
        Ok(()) => error,
        Err(second) => error.context(format!("and undoing the earlier steps failed: {second:#}")),
    })
}
