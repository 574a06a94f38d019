// SPDX-License-Identifier: MIT OR Apache-2.0

//! The settings that a new network namespace inherits from the machine.
//!
//! A namespace begins with the kernel's defaults, with two exceptions. The kernel copies from the
//! first namespace (or, if `net.core.devconf_inherit_init_net` says so, from the caller's)
//! `net.ipv4.conf.{all,default}`, `net.ipv6.conf.{all,default}`, `net.ipv4.tcp_rmem`, `tcp_wmem`
//! and `tcp_congestion_control`. And some variables belong to the whole machine. So a machine that
//! forwards packets, or is tuned for a long link, would have a different fabric from the next one.
//!
//! Each node gets the copied variables as in an untuned kernel. The machine's variables cannot be
//! set in a namespace: those that affect packets of a fabric are compared with the kernel's
//! defaults, and differences are reported.
//!
//! Neighbours' settings are also inherited, but have no effect, because a fabric's neighbours are
//! permanent. `net.core.default_qdisc` has no effect either: virtual Ethernet begins without a
//! qdisc, and only `mq`, which needs a device of several queues, gives its children the default.
//! `net.ipv4.tcp_mem` follows from the machine's memory; each run determines whether it is enough.
//!
//! The parameters of the kernel's congestion controls belong to the machine, too. They are named as
//! on the kernel's command line: `tcp_cubic.hystart`.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use crate::namespace;
use crate::sysctl;

/// The default congestion control of sockets whose route sets none.
pub(crate) const CONTROL: &str = "net.ipv4.tcp_congestion_control";
pub(crate) const CUBIC: &str = "cubic";

/// For both `net.ipv4.conf.all` and `default` (`ipv4_devconf` in the kernel). Forwarding comes
/// first, because the kernel sets others with it.
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

/// For both `net.ipv6.conf.all` and `default` (`ipv6_devconf`).
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

/// Others. Sockets' memory is as on Linux 7 on a machine with much memory; older kernels have
/// smaller receive buffers.
const OTHERS: &[(&str, &str)] = &[
    ("net.ipv4.conf.all.accept_source_route", "0"),
    ("net.ipv4.conf.default.accept_source_route", "1"),
    (CONTROL, CUBIC),
    ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
    ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
];

/// The machine's variables, which nodes cannot change, and the kernels' default values.
const MACHINE: &[(&str, &[&str])] = &[
    ("net.core.busy_poll", &["0"]),
    ("net.core.busy_read", &["0"]),
    ("net.core.dev_weight", &["64"]),
    ("net.core.dev_weight_rx_bias", &["1"]),
    ("net.core.dev_weight_tx_bias", &["1"]),
    ("net.core.gro_normal_batch", &["8"]),
    ("net.core.high_order_alloc_disable", &["0"]),
    // A kernel can be built for more; then its TCP packets have more fragments.
    ("net.core.max_skb_frags", &["17"]),
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

/// The parameters of the kernel's congestion controls: module, name, and default.
const PARAMETERS: &[(&str, &str, &str)] = &[
    ("tcp_cubic", "beta", "717"),
    ("tcp_cubic", "bic_scale", "41"),
    ("tcp_cubic", "fast_convergence", "1"),
    ("tcp_cubic", "hystart", "1"),
    ("tcp_cubic", "hystart_ack_delta_us", "2000"),
    ("tcp_cubic", "hystart_detect", "3"),
    ("tcp_cubic", "hystart_low_window", "16"),
    ("tcp_cubic", "initial_ssthresh", "0"),
    ("tcp_cubic", "tcp_friendliness", "1"),
    ("tcp_dctcp", "dctcp_alpha_on_init", "1024"),
    ("tcp_dctcp", "dctcp_shift_g", "4"),
];

/// The first process's namespace, which is the machine's first one, except in a container.
const FIRST: &str = "/proc/1/ns/net";

/// Each variable that a node would inherit, and its value; those of IPv6 only if there is IPv6.
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

/// Those of [`variables`] that differ in the calling thread's namespace, which is new.
pub(crate) fn deviating(ipv6: bool) -> Vec<(String, &'static str)> {
    let mut all = variables(ipv6);
    all.retain(|(key, value)| sysctl::get(key).is_some_and(|found| found != *value));
    all
}

/// Sets them in the calling thread's namespace; adds those that did not change to `kept`.
pub(crate) fn set(deviating: &[(String, &str)], kept: &mut BTreeMap<String, String>) {
    for (key, value) in deviating {
        let path = Path::new("/proc/sys").join(key.replace('.', "/"));
        let set = sysctl::write(&path, value);
        // Setting one may have set another, for example a group of conf.
        let found = sysctl::get(key).unwrap_or_default();
        if set.is_err() || found != *value {
            kept.insert(key.clone(), found);
        }
    }
}

static MACHINES: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Stores the machine's own settings, as the calling thread's namespace shows them. Call it before
/// the process leaves the machine's first namespace for one from which it cannot return.
pub(crate) fn remember() {
    MACHINES.get_or_init(|| deviating_of_machine(sysctl::get));
}

/// Variables of the machine that differ from the kernel's defaults, and affect all nodes.
fn machine() -> &'static BTreeMap<String, String> {
    MACHINES.get_or_init(|| {
        namespace::on_thread(|| {
            // Only the first namespace shows all of them. If it cannot be entered, the caller's may
            // be the first one.
            let _ = File::open(FIRST).map(|first| namespace::enter(&first));
            deviating_of_machine(sysctl::get)
        })
    })
}

/// Variables of this machine, and parameters of its congestion controls, that differ from the
/// kernel's defaults, and that all nodes inherit.
pub fn tuned_settings() -> BTreeMap<String, String> {
    let mut tuned = machine().clone();
    // Not remembered: a congestion control may have been loaded since.
    tuned.extend(deviating_parameters(|module, name| {
        let file = format!("/sys/module/{module}/parameters/{name}");
        let value = std::fs::read_to_string(file).ok()?;
        Some(value.trim().to_owned())
    }));
    tuned
}

/// The command that restores the kernel's default of one of [`tuned_settings`].
pub fn untune(key: &str) -> Option<String> {
    if let Some((_, own)) = MACHINE.iter().find(|(name, _)| *name == key) {
        return Some(format!("sysctl -w {key}={}", own.first()?));
    }
    let (module, name) = key.split_once('.')?;
    let mut all = PARAMETERS.iter();
    let (_, _, own) = all.find(|it| (it.0, it.1) == (module, name))?;
    Some(format!(
        "echo {own} > /sys/module/{module}/parameters/{name}"
    ))
}

fn deviating_parameters(
    get: impl Fn(&str, &str) -> Option<String>,
) -> impl Iterator<Item = (String, String)> {
    PARAMETERS.iter().filter_map(move |(module, name, own)| {
        let value = get(module, name).filter(|value| value != own)?;
        Some((format!("{module}.{name}"), value))
    })
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
    fn only_tuned_variables_deviate() {
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
        // A namespace that does not show them gives no information.
        assert!(deviating_of_machine(|_| None).is_empty());
    }

    #[test]
    fn only_tuned_parameters_deviate() {
        let tuned = |name: &'static str, value: &'static str| {
            let get = move |module: &str, other: &str| {
                let own = PARAMETERS.iter().find(|it| (it.0, it.1) == (module, other));
                let own = own.unwrap().2;
                Some(if other == name { value } else { own }.to_owned())
            };
            deviating_parameters(get).collect::<Vec<_>>()
        };
        assert!(tuned("hystart", "1").is_empty());
        let expected = ("tcp_cubic.hystart".to_owned(), "0".to_owned());
        assert_eq!(tuned("hystart", "0"), [expected]);
        // A congestion control that is not loaded, or has other parameters, is not tuned.
        assert_eq!(deviating_parameters(|_, _| None).count(), 0);
    }

    #[test]
    fn each_tuned_setting_has_a_command_that_resets_it() {
        assert_eq!(
            untune("net.core.netdev_max_backlog").unwrap(),
            "sysctl -w net.core.netdev_max_backlog=1000"
        );
        assert_eq!(
            untune("tcp_cubic.hystart").unwrap(),
            "echo 1 > /sys/module/tcp_cubic/parameters/hystart"
        );
        for key in ["net.core.somaxconn", "tcp_cubic.none", "none"] {
            assert_eq!(untune(key), None);
        }
    }
}
