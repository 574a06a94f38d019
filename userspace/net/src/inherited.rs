// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a new network namespace takes from the machine.
//!
//! A namespace begins with the kernel's defaults, but for these: the kernel copies what the first
//! namespace (or, as `net.core.devconf_inherit_init_net` says, the caller's) has of
//! `net.ipv4.conf.{all,default}`, `net.ipv6.conf.{all,default}`, `net.ipv4.tcp_rmem`, `tcp_wmem`
//! and `tcp_congestion_control`; and some variables are those of the whole machine. So a machine
//! that forwards packets, or is tuned for a long link, would have another fabric than the next one.
//!
//! Each node is given the former as a kernel has them that nobody has tuned. The latter cannot be
//! set in a namespace: those that reach packets of a fabric are compared with the kernel's, and
//! what differs is told.
//!
//! Neighbours' settings are inherited, too, and have no effect, as a fabric's neighbours are
//! permanent. `net.ipv4.tcp_mem` follows from the machine's memory; whether it is enough is found
//! out by each run.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use crate::namespace;
use crate::sysctl;

/// The congestion control of sockets that have none of their route.
pub(crate) const CONTROL: &str = "net.ipv4.tcp_congestion_control";
pub(crate) const CUBIC: &str = "cubic";

/// Of both `net.ipv4.conf.all` and `default` (`ipv4_devconf` in the kernel). Forwarding comes
/// first, as the kernel sets others with it.
const IPV4_CONF: &[(&str, &str)] = &[
    ("forwarding", "0"),
    ("accept_local", "0"),
    ("accept_redirects", "1"),
    ("arp_accept", "0"),
    ("arp_announce", "0"),
    ("arp_evict_nocarrier", "1"),
    ("arp_filter", "0"),
    ("arp_ignore", "0"),
    ("arp_notify", "0"),
    ("bc_forwarding", "0"),
    ("bootp_relay", "0"),
    ("disable_policy", "0"),
    ("disable_xfrm", "0"),
    ("drop_gratuitous_arp", "0"),
    ("drop_unicast_in_l2_multicast", "0"),
    ("force_igmp_version", "0"),
    ("ignore_routes_with_linkdown", "0"),
    ("log_martians", "0"),
    ("medium_id", "0"),
    ("promote_secondaries", "0"),
    ("proxy_arp", "0"),
    ("proxy_arp_pvlan", "0"),
    ("route_localnet", "0"),
    ("rp_filter", "0"),
    ("secure_redirects", "1"),
    ("send_redirects", "1"),
    ("shared_media", "1"),
    ("src_valid_mark", "0"),
    ("tag", "0"),
];

/// Of both `net.ipv6.conf.all` and `default` (`ipv6_devconf`).
const IPV6_CONF: &[(&str, &str)] = &[
    ("forwarding", "0"),
    ("accept_redirects", "1"),
    ("accept_source_route", "0"),
    ("autoconf", "1"),
    ("disable_policy", "0"),
    ("drop_unicast_in_l2_multicast", "0"),
    ("drop_unsolicited_na", "0"),
    ("force_forwarding", "0"),
    ("force_mld_version", "0"),
    ("hop_limit", "64"),
    ("ignore_routes_with_linkdown", "0"),
    ("keep_addr_on_down", "0"),
    ("ndisc_notify", "0"),
    ("proxy_ndp", "0"),
    ("rpl_seg_enabled", "0"),
    ("seg6_enabled", "0"),
    ("use_tempaddr", "0"),
];

/// Others. Sockets' memory is what Linux 7 gives them on a machine with much memory; older kernels
/// receive into less.
const OTHERS: &[(&str, &str)] = &[
    ("net.ipv4.conf.all.accept_source_route", "0"),
    ("net.ipv4.conf.default.accept_source_route", "1"),
    (CONTROL, CUBIC),
    ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
    ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
];

/// The machine's, which nodes cannot have otherwise, and the values that kernels have of
/// themselves.
const MACHINE: &[(&str, &[&str])] = &[
    ("net.core.busy_poll", &["0"]),
    ("net.core.busy_read", &["0"]),
    ("net.core.dev_weight", &["64"]),
    ("net.core.dev_weight_rx_bias", &["1"]),
    ("net.core.dev_weight_tx_bias", &["1"]),
    ("net.core.gro_normal_batch", &["8"]),
    ("net.core.high_order_alloc_disable", &["0"]),
    ("net.core.netdev_budget", &["300"]),
    // Two jiffies: 1000, 300, 250 and 100 of them in a second.
    (
        "net.core.netdev_budget_usecs",
        &["2000", "6666", "8000", "20000"],
    ),
    ("net.core.netdev_max_backlog", &["1000"]),
    ("net.core.rmem_default", &["212992"]),
    // Until Linux 6.16, and since.
    ("net.core.rmem_max", &["212992", "4194304"]),
    ("net.core.rps_sock_flow_entries", &["0"]),
    ("net.core.wmem_default", &["212992"]),
    ("net.core.wmem_max", &["212992", "4194304"]),
];

/// The first process's, which is in the machine's first namespace, unless that is a container's.
const FIRST: &str = "/proc/1/ns/net";

/// Each variable that a node would inherit, and what it is to be; those of IPv6 if there is any.
pub(crate) fn variables(ipv6: bool) -> Vec<(String, &'static str)> {
    let families = [("ipv4", IPV4_CONF), ("ipv6", IPV6_CONF)];
    let families = families
        .into_iter()
        .filter(|(name, _)| ipv6 || *name != "ipv6");
    let of_devices = families.flat_map(|(family, all)| {
        all.iter().flat_map(move |&(name, value)| {
            let key = move |of: &str| format!("net.{family}.conf.{of}.{name}");
            [(key("all"), value), (key("default"), value)]
        })
    });
    let others = OTHERS.iter().map(|&(key, value)| (key.to_owned(), value));
    of_devices.chain(others).collect()
}

/// Those of [`variables`] that the calling thread's namespace, which is new, has otherwise.
pub(crate) fn deviating(ipv6: bool) -> Vec<(String, &'static str)> {
    let mut all = variables(ipv6);
    all.retain(|(key, value)| sysctl::get(key).is_some_and(|found| found != *value));
    all
}

/// Sets them in the calling thread's namespace; adds what stays as it was to `kept`.
pub(crate) fn set(deviating: &[(String, &str)], kept: &mut BTreeMap<String, String>) {
    for (key, value) in deviating {
        let path = Path::new("/proc/sys").join(key.replace('.', "/"));
        let set = sysctl::write(&path, value);
        // Setting one may have set another, as a group of conf does.
        let found = sysctl::get(key).unwrap_or_default();
        if set.is_err() || found != *value {
            kept.insert(key.clone(), found);
        }
    }
}

static MACHINES: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Remembers the machine's own settings, as the calling thread's namespace shows them. To be called
/// before the process leaves the machine's first namespace for one from which it cannot come back.
pub(crate) fn remember() {
    MACHINES.get_or_init(|| deviating_of_machine(sysctl::get));
}

/// Variables of the machine that are not as a kernel has them of itself, and reach all nodes.
pub(crate) fn machine() -> &'static BTreeMap<String, String> {
    MACHINES.get_or_init(|| {
        namespace::on_thread(|| {
            // Only the first namespace shows all. Where it cannot be entered, the caller's may be
            // it.
            let _ = File::open(FIRST).map(|first| namespace::enter(&first));
            deviating_of_machine(sysctl::get)
        })
    })
}

/// Variables of this machine that are not as a kernel has them of itself, and that all nodes have
/// from it.
pub fn tuned_settings() -> BTreeMap<String, String> {
    machine().clone()
}

/// What a kernel has of itself for a variable of [`tuned_settings`].
pub fn untuned(key: &str) -> Option<&'static str> {
    let (_, own) = MACHINE.iter().find(|(name, _)| *name == key)?;
    own.first().copied()
}

fn deviating_of_machine(get: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let found = MACHINE
        .iter()
        .filter_map(|(key, own)| get(key).map(|value| (*key, value, *own)));
    let tuned = found.filter(|(_, value, own)| !own.contains(&value.as_str()));
    tuned
        .map(|(key, value, _)| (key.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_is_named_twice() {
        let mut keys: Vec<String> = variables(true).into_iter().map(|(key, _)| key).collect();
        let all = keys.len();
        assert!(
            !variables(false)
                .iter()
                .any(|(key, _)| key.starts_with("net.ipv6."))
        );
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn only_what_was_tuned_deviates() {
        let machine = |tuned: &'static [(&str, &str)]| {
            deviating_of_machine(move |key| {
                let tuned = tuned.iter().find(|(name, _)| *name == key);
                let own = MACHINE.iter().find(|(name, _)| *name == key).unwrap().1[0];
                Some(tuned.map_or(own, |(_, value)| value).to_owned())
            })
        };
        assert!(machine(&[]).is_empty());
        let found = machine(&[
            ("net.core.netdev_max_backlog", "1"),
            ("net.core.rmem_max", "4194304"),
        ]);
        let expected = ("net.core.netdev_max_backlog".to_owned(), "1".to_owned());
        assert_eq!(found, BTreeMap::from([expected]));
        // A namespace that does not show them tells nothing of them.
        assert!(deviating_of_machine(|_| None).is_empty());
    }
}
