// SPDX-License-Identifier: MIT OR Apache-2.0

//! Takes the programs off a device, and restores what attaching them changed.

use std::os::fd::AsFd as _;

use anyhow::{Context as _, Result, ensure};
use weft_ebpf_common::port::{Before, Policy, Port, Role};

use super::record::{Attached, Place, other_switch_port, ours, record};
use super::{IPV4_HASH_POLICY, IPV6_HASH_POLICY, Room, UPDATE_PRIORITY, ipv6_mtu};
use crate::device::{Device, GsoLimits};
use crate::{bpf, filter, routes, sysctl};

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
    ensure!(
        !attached.is_empty(),
        "weft is not attached to {}",
        device.name
    );
    let Some(port) = record(&attached)? else {
        return detach_all(&device, &Before::default()).map(|()| false);
    };
    // The only record of the previous settings disappears with the programs.
    if port.role == Role::Host as u32 {
        restore_host(&device, &port)
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

/// Detaches weft's programs, and removes the qdisc if weft added it.
pub(super) fn detach_all(device: &Device, before: &Before) -> Result<()> {
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

/// Takes every step, even if others fail; returns the first error.
pub(super) fn restore_host(device: &Device, port: &Port) -> Result<()> {
    let before = &port.before;
    let routes = routes::unlimit_mtu(device, before.route_mtu);
    let ipv6 = restore_ipv6_mtu(device, port);
    let gso = device.set_gso(GsoLimits {
        size: before.gso_max_size,
        ipv4_size: before.gso_ipv4_max_size,
        segments: before.gso_max_segs,
    });
    routes.and(ipv6).and(gso)
}

fn restore_ipv6_mtu(device: &Device, port: &Port) -> Result<()> {
    let before = &port.before;
    let ipv6 = ipv6_mtu(device);
    let room = Policy::from_number(port.policy).map(Room::of);
    let lowered = room.map(|room| (before.route_mtu + room.ipv4).saturating_sub(room.ipv6));
    if before.ipv6_mtu != 0 && lowered.is_some() && sysctl::read(&ipv6)? == lowered {
        sysctl::write(&ipv6, before.ipv6_mtu.min(device.mtu))?;
    }
    Ok(())
}

/// Only when no other port is left. Takes every step, like [`restore_host`].
pub(super) fn restore_switch(device: &Device, before: &Before) -> Result<()> {
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
