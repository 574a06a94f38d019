// SPDX-License-Identifier: MIT OR Apache-2.0

//! The MTU of IPv4 routes by a device: what leaves must have room for the tag.
//!
//! The route, not the device, gets the smaller MTU. TCP derives its segment size from it, UDP
//! fragments by it or is told `EMSGSIZE`; and the device still takes the tagged packets of others,
//! which are as long as the link allows: a veth with a smaller MTU would drop those. Locked, so that
//! path MTU discovery does not set it anew. IPv6 has a setting per device for the same
//! (`net.ipv6.conf.DEV.mtu`), IPv4 does not.

use anyhow::{Context as _, Result};
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::device::{Device, ask};

const LOCKED_MTU: u32 = 1 << 2; // RTAX_MTU

/// Gives each unicast route by the device this MTU, but those that have a smaller one.
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

/// Takes this MTU away from each route that has it, locked.
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

/// Replaces each unicast IPv4 route by the device whose metrics `edit` changes.
fn change(device: &Device, edit: impl Fn(&mut Vec<RouteMetric>) -> bool) -> Result<()> {
    let mut request = RouteMessage::default();
    request.header.address_family = AddressFamily::Inet;
    for answer in ask(RouteNetlinkMessage::GetRoute(request), NLM_F_DUMP)? {
        let RouteNetlinkMessage::NewRoute(mut route) = answer else {
            continue;
        };
        if route.header.kind != RouteType::Unicast || !leads_by(&route, device.index) {
            continue;
        }
        let is_metrics =
            |attribute: &RouteAttribute| matches!(attribute, RouteAttribute::Metrics(_));
        let mut metrics = match route.attributes.iter().position(is_metrics) {
            Some(at) => match route.attributes.swap_remove(at) {
                RouteAttribute::Metrics(metrics) => metrics,
                _ => Vec::new(),
            },
            None => Vec::new(),
        };
        if !edit(&mut metrics) {
            continue;
        }
        if !metrics.is_empty() {
            route.attributes.push(RouteAttribute::Metrics(metrics));
        }
        let by_object = route
            .attributes
            .iter()
            .any(|one| matches!(one, RouteAttribute::NhId(_)));
        // What a dump tells, and a request must not say.
        route.header.flags &= RouteFlags::Onlink;
        route.attributes.retain(|attribute| match attribute {
            RouteAttribute::CacheInfo(_) => false,
            RouteAttribute::Oif(_) | RouteAttribute::Gateway(_) | RouteAttribute::MultiPath(_) => {
                !by_object
            }
            _ => true,
        });
        let destination = format!(
            "{:?}/{}",
            route.attributes, route.header.destination_prefix_length
        );
        ask(
            RouteNetlinkMessage::NewRoute(route),
            NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE,
        )
        .with_context(|| format!("changing the MTU of the route {destination}"))?;
    }
    Ok(())
}

fn leads_by(route: &RouteMessage, device: u32) -> bool {
    route.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Oif(index) => *index == device,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == device),
        _ => false,
    })
}
