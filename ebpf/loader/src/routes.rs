// SPDX-License-Identifier: MIT OR Apache-2.0

//! The MTU of a device's IPv4 routes, which leaves room for the tag.
//!
//! The route, not the device, gets the smaller MTU. TCP derives its segment size from it, and UDP
//! fragments by it or gets `EMSGSIZE`. The device must still accept the tagged packets of others,
//! which are as long as the link allows: a veth with a smaller MTU would drop those. The MTU is
//! locked, so that path MTU discovery does not change it. IPv6 has a setting per device for this
//! purpose (`net.ipv6.conf.DEV.mtu`), IPv4 does not.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use netlink_packet_core::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHopFlags,
    RouteProtocol, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::device::{Device, ask};

const LOCKED_MTU: u32 = 1 << 2; // RTAX_MTU

/// Sets this MTU on each unicast route of the device, except routes with a smaller one.
pub(crate) fn limit_mtu(device: &Device, mtu: u32) -> Result<()> {
    change(device, |metrics| {
        if metrics
            .iter()
            .any(|metric| matches!(metric, RouteMetric::Mtu(old) if *old <= mtu))
        {
            return false;
        }
        let mut locked = LOCKED_MTU;
        metrics.retain(|metric| match metric {
            RouteMetric::Lock(others) => {
                locked |= others;
                false
            }
            RouteMetric::Mtu(_) => false,
            _ => true,
        });
        metrics.extend([RouteMetric::Lock(locked), RouteMetric::Mtu(mtu)]);
        true
    })
}

/// Removes this MTU from each route that has it locked.
pub(crate) fn unlimit_mtu(device: &Device, mtu: u32) -> Result<()> {
    change(device, |metrics| {
        let locked = |metric: &RouteMetric| matches!(metric, RouteMetric::Lock(locks) if locks & LOCKED_MTU != 0);
        if !metrics.contains(&RouteMetric::Mtu(mtu)) || !metrics.iter().any(locked) {
            return false;
        }
        metrics.retain_mut(|metric| match metric {
            RouteMetric::Lock(locks) => {
                *locks &= !LOCKED_MTU;
                *locks != 0
            }
            RouteMetric::Mtu(_) => false,
            _ => true,
        });
        true
    })
}

/// Replaces each unicast IPv4 route of the device whose metrics `edit` changes. Tries all of them;
/// returns the first error.
fn change(device: &Device, edit: impl Fn(&mut Vec<RouteMetric>) -> bool) -> Result<()> {
    let mut dump = RouteMessage::default();
    dump.header.address_family = AddressFamily::Inet;
    let answers = ask(RouteNetlinkMessage::GetRoute(dump), NLM_F_DUMP)?.into_iter();
    let routes: Vec<_> = answers
        .filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        })
        // The dump includes cached entries, such as a destination's path MTU, which are not routes.
        .filter(|route| !route.header.flags.contains(RouteFlags::Cloned))
        .collect();
    let mut result = Ok(());
    for alike in routes.chunk_by(|one, next| key(one) == key(next)) {
        let edited = |route: &RouteMessage| {
            if route.header.kind != RouteType::Unicast || !leads_by(route, device.index) {
                return None;
            }
            let mut edited = request(route);
            let mut metrics = take_metrics(&mut edited);
            let changed = edit(&mut metrics);
            edited.attributes.push(RouteAttribute::Metrics(metrics));
            changed.then_some(edited)
        };
        let edited: Vec<_> = alike.iter().map(edited).collect();
        let old: Vec<_> = alike.iter().map(request).collect();
        let replaced = replace(&old, &edited)
            .with_context(|| format!("changing the MTU of {}", describe(&alike[0])));
        result = result.and(replaced);
    }
    result
}

fn describe(route: &RouteMessage) -> String {
    let attributes = route.attributes.iter();
    let to = attributes.clone().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(to)) => Some(*to),
        _ => None,
    });
    let table = attributes.clone().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    format!(
        "the route to {}/{} in table {}",
        // A missing destination means the default route.
        to.unwrap_or(Ipv4Addr::UNSPECIFIED),
        route.header.destination_prefix_length,
        table.unwrap_or(route.header.table.into())
    )
}

/// The attributes that routes of one list have in common: the kernel uses the first usable route of
/// a list.
fn key(route: &RouteMessage) -> (u8, u8, Vec<&RouteAttribute>) {
    let header = &route.header;
    let attributes = route.attributes.iter().filter(|attribute| {
        use RouteAttribute::{Destination, Priority, Table};
        matches!(attribute, Table(_) | Destination(_) | Priority(_))
    });
    let attributes = attributes.collect();
    (header.destination_prefix_length, header.tos, attributes)
}

/// The request for a dumped route, without attributes that only a dump may have.
fn request(route: &RouteMessage) -> RouteMessage {
    use RouteAttribute::{CacheInfo, Encap, EncapType, Gateway, MultiPath, Oif, Via};
    let mut route = route.clone();
    let by_object = is_by_object(&route);
    route.header.flags &= RouteFlags::Onlink;
    for attribute in &mut route.attributes {
        if let MultiPath(hops) = attribute {
            for hop in hops {
                hop.flags &= RouteNextHopFlags::Onlink;
            }
        }
    }
    route.attributes.retain(|attribute| match attribute {
        CacheInfo(_) => false,
        Oif(_) | Gateway(_) | Via(_) | MultiPath(_) | Encap(_) | EncapType(_) => !by_object,
        _ => true,
    });
    route
}

/// Whether its next hops are a separate object (`ip nexthop`).
fn is_by_object(route: &RouteMessage) -> bool {
    let is_object = |attribute: &RouteAttribute| matches!(attribute, RouteAttribute::NhId(_));
    route.attributes.iter().any(is_object)
}

fn take_metrics(route: &mut RouteMessage) -> Vec<RouteMetric> {
    let is_metrics = |attribute: &RouteAttribute| matches!(attribute, RouteAttribute::Metrics(_));
    match route.attributes.iter().position(is_metrics) {
        Some(at) => match route.attributes.swap_remove(at) {
            RouteAttribute::Metrics(metrics) => metrics,
            _ => Vec::new(),
        },
        None => Vec::new(),
    }
}

/// Replaces routes of `old`, a whole list with one key, by their new versions, if they have one.
fn replace(old: &[RouteMessage], new: &[Option<RouteMessage>]) -> Result<()> {
    // The kernel always replaces the first route of the list.
    if let Some(Some(new)) = new.first() {
        add(new, NLM_F_REPLACE)?;
    }
    // A later route is moved to the end, and so are all routes after it, so that the order stays.
    let both = old.iter().zip(new).skip(1);
    for (old, new) in both.skip_while(|(_, new)| new.is_none()) {
        match new {
            Some(new) => {
                add(new, NLM_F_APPEND)?;
                delete(old)?;
            }
            // This route is only moved. The kernel accepts no duplicate; and if it refuses to add
            // the route now, the old one must still exist.
            None => {
                let mut double = old.clone();
                double.header.protocol = match old.header.protocol {
                    RouteProtocol::Static => RouteProtocol::Boot,
                    _ => RouteProtocol::Static,
                };
                add(&double, NLM_F_APPEND)?;
                delete(old)?;
                add(old, NLM_F_APPEND)?;
                delete(&double)?;
            }
        }
    }
    Ok(())
}

/// `how`: `NLM_F_REPLACE` or `NLM_F_APPEND`.
fn add(route: &RouteMessage, how: u16) -> Result<()> {
    let mut route = route.clone();
    let mut metrics = take_metrics(&mut route);
    // Without metrics in the request, the kernel uses the metrics of any route with the same
    // object.
    if metrics.is_empty() && is_by_object(&route) {
        metrics.push(RouteMetric::Mtu(0));
    }
    if !metrics.is_empty() {
        route.attributes.push(RouteAttribute::Metrics(metrics));
    }
    let request = RouteNetlinkMessage::NewRoute(route);
    ask(request, NLM_F_ACK | NLM_F_CREATE | how)?;
    Ok(())
}

/// Deletes the first route with the same attributes and the same MTU.
fn delete(route: &RouteMessage) -> Result<()> {
    let mut route = route.clone();
    let mut metrics = take_metrics(&mut route);
    // A metric that the request does not name matches any value.
    if !metrics.iter().any(|one| matches!(one, RouteMetric::Mtu(_))) {
        metrics.push(RouteMetric::Mtu(0));
    }
    if !metrics
        .iter()
        .any(|one| matches!(one, RouteMetric::Lock(_)))
    {
        metrics.push(RouteMetric::Lock(0));
    }
    route.attributes.push(RouteAttribute::Metrics(metrics));
    ask(RouteNetlinkMessage::DelRoute(route), NLM_F_ACK)?;
    Ok(())
}

fn leads_by(route: &RouteMessage, device: u32) -> bool {
    route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Oif(index) => *index == device,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == device),
        _ => false,
    })
}
