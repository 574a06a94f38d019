// SPDX-License-Identifier: MIT OR Apache-2.0

//! The record that programs keep of their port: how it was before they were attached.

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, Map, MapData};
use aya::programs::ProgramInfo;
use weft_ebpf_common::port::{Port, Role};
use weft_ebpf_common::{map, program};

use super::Hook;
use crate::bpf;
use crate::counters::Counters;
use crate::device::{self, Device};
use crate::filter::{self, Direction, Filter};

/// [`Port`] as a type that aya accepts.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Value(Port);

// SAFETY: `Port` consists of integers only, without padding; any bit pattern is valid.
unsafe impl aya::Pod for Value {}

pub(super) fn configure(ebpf: &mut Ebpf, class: u16, port: Port) -> Result<()> {
    let map = ebpf
        .map_mut(map::PORT)
        .context("the eBPF object has no map of ports")?;
    let mut map: Array<&mut MapData, Value> = map.try_into()?;
    map.set(class.into(), Value(port), 0)
        .context("configuring the programs")
}

pub(super) fn tcx(device: u32, direction: Direction) -> bpf::Hook<'static> {
    match direction {
        Direction::Ingress => bpf::Hook::Ingress(device),
        Direction::Egress => bpf::Hook::Egress(device),
    }
}

/// One of weft's programs on a device.
pub(super) struct Attached {
    pub(super) place: Place,
    pub(super) program: ProgramInfo,
}

/// How a program is detached.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Tcx(bpf::Hook<'static>),
    Filter(Filter),
}

/// weft's programs on the device with this index, ingress first.
pub(super) fn ours(device: u32) -> Result<Vec<Attached>> {
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

/// The state of an attachment.
pub(super) struct Found {
    pub(super) port: Port,
    pub(super) hook: Hook,
    pub(super) counters: Counters,
}

pub(super) fn read(device: u32) -> Result<Option<Found>> {
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

/// The record of an attachment's port, by `weft_tag` or `weft_read`. An attachment without these
/// was interrupted, or is of another version.
pub(super) fn record(attached: &[Attached]) -> Result<Option<Port>> {
    for Attached { place, program } in attached {
        let named = |name: &&str| name.as_bytes() == program.name();
        if ![program::TAG, program::READ].iter().any(named) {
            continue;
        }
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
pub(super) fn other_switch_port(device: &Device) -> Result<Option<Port>> {
    let all = device::all()?.into_iter();
    for (index, name) in all.filter(|(index, _)| *index != device.index) {
        match read(index).with_context(|| format!("asking {name}"))? {
            Some(Found { port, .. }) if port.role == Role::Switch as u32 => return Ok(Some(port)),
            _ => {}
        }
    }
    Ok(None)
}
