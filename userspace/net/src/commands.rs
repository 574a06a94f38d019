// SPDX-License-Identifier: MIT OR Apache-2.0

//! A plan as a shell script of `ip`, `tc` and `sysctl` that makes the same.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use weft_topo::{Node, Port, Route};

use crate::layout::Layout;
use crate::machine;
use crate::metrics::RouteMetrics;
use crate::netlink::VXLAN_UDP_PORT;
use crate::plan::{self, NodePlan, Plan};
use crate::processes::{self, MARK};

/// As a shell takes it for one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// See [`Plan::commands`].
pub struct Commands<'a>(&'a Plan);

impl Plan {
    /// The plan as a script for `sh` that makes the same namespaces with the same content, for
    /// people to read and to run. What it makes, [`crate::down`] removes.
    pub fn commands(&self) -> Commands<'_> {
        Commands(self)
    }

    /// What starts the plan's processes, to go on with where [`Plan::commands`] ends; nothing if it has
    /// none. They, too, end with [`crate::down`].
    pub fn process_commands(&self) -> ProcessCommands<'_> {
        ProcessCommands(self)
    }
}

impl Display for Commands<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plan = self.0;
        let here = || {
            let ids = plan.topology.ids().filter(|&id| plan.is_here(id));
            ids.map(|id| {
                (
                    id.index(),
                    (plan.topology.node(id), &plan.nodes[id.index()]),
                )
            })
        };
        writeln!(f, "#!/bin/sh")?;
        writeln!(
            f,
            "# {}, as testbed {}",
            plan.topology.title(),
            plan.testbed
        )?;
        writeln!(f, "set -e")?;
        for module in &plan.modules {
            // One that is loaded already stays.
            let file = quoted(&module.display().to_string());
            writeln!(
                f,
                "[ -e \"/sys/module/$(modinfo -F name {file})/initstate\" ] || insmod {file}"
            )?;
        }
        let mut named: Vec<&str> = plan
            .nodes
            .iter()
            .filter_map(|own| own.metrics.congestion_control())
            .collect();
        named.sort_unstable();
        named.dedup();
        for name in named {
            // Its settings come with it. One that is built in is no module.
            writeln!(f, "modprobe -q tcp_{name} || :")?;
        }
        for (_, (node, own)) in here() {
            let namespace = plan.namespace(node);
            writeln!(f, "\n# {} {}", node.layer, node.name)?;
            writeln!(f, "ip netns add {namespace}")?;
            write!(f, "ip netns exec {namespace} sysctl -q -w")?;
            for sysctl in own.sysctls.iter().filter(|it| !it.is_optional()) {
                match sysctl.value().contains(char::is_whitespace) {
                    true => write!(f, " '{}={}'", sysctl.key(), sysctl.value())?,
                    false => write!(f, " {}={}", sysctl.key(), sysctl.value())?,
                }
            }
            writeln!(f)?;
            for (place, sysctl) in own.sysctls.iter().enumerate() {
                // What is set again later, as by a scheme, is above and stays.
                let again = || own.sysctls[place + 1..].iter();
                if !sysctl.is_optional() || again().any(|it| it.path() == sysctl.path()) {
                    continue;
                }
                let (key, value) = (sysctl.key(), sysctl.value());
                // Not an error if the kernel has none.
                writeln!(f, "ip netns exec {namespace} sysctl -q -e -w {key}={value}")?;
            }
        }
        writeln!(f, "\n# links")?;
        for (place, (node, _)) in here() {
            for (index, port) in node.ports.iter().enumerate() {
                if plan.makes_link(place, index) {
                    write_link(f, plan, node, index, port)?;
                } else if let Some(machine) = plan.elsewhere(port.peer) {
                    write_tunnel(f, plan, node, index, machine)?;
                }
            }
        }
        for (_, (node, own)) in here() {
            writeln!(f, "\n# {} {}", node.layer, node.name)?;
            write_node(f, plan, node, own)?;
        }
        Ok(())
    }
}

/// See [`Plan::process_commands`].
pub struct ProcessCommands<'a>(&'a Plan);

impl Display for ProcessCommands<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Plan {
            testbed, processes, ..
        } = self.0;
        if processes.is_empty() {
            return Ok(());
        }
        let layout = Layout::new(testbed);
        let logs = layout.logs();
        writeln!(f, "\n# processes\nmkdir -p {}", logs.display())?;
        for (process, log) in processes.iter().zip(processes::logs(processes, &[])) {
            let log = logs.join(log).display().to_string();
            writeln!(
                f,
                "ip netns exec {} env {MARK}={testbed} setsid {process} < /dev/null > {} 2>&1 &",
                plan::namespace(testbed, &process.node),
                quoted(&log)
            )?;
        }
        Ok(())
    }
}

fn write_link(
    f: &mut Formatter<'_>,
    plan: &Plan,
    node: &Node,
    index: usize,
    port: &Port,
) -> fmt::Result {
    let peer = plan.topology.node(port.peer);
    write!(f, "ip -n {} link add ", plan.namespace(node))?;
    write_end(f, plan, node, index)?;
    write!(f, " type veth peer ")?;
    write_end(f, plan, peer, port.peer_port)?;
    writeln!(f, " netns {}", plan.namespace(peer))
}

fn write_tunnel(
    f: &mut Formatter<'_>,
    plan: &Plan,
    node: &Node,
    index: usize,
    machine: IpAddr,
) -> fmt::Result {
    write!(f, "ip link add ")?;
    write_end(f, plan, node, index)?;
    let network = plan.network(node.ports[index].link);
    writeln!(
        f,
        " netns {} type vxlan id {network} remote {machine} dstport {VXLAN_UDP_PORT} nolearning",
        plan.namespace(node)
    )
}

fn write_end(f: &mut Formatter<'_>, plan: &Plan, node: &Node, index: usize) -> fmt::Result {
    let (mtu, length) = (plan.settings.mtu, plan.settings.tx_queue_length);
    let segments = plan.settings.gso_max_segments;
    let Port { name, mac, .. } = &node.ports[index];
    let index = plan.device_index(node, index);
    write!(
        f,
        "name {name} index {index} address {mac} mtu {mtu} txqueuelen {length} \
         gso_max_segs {segments} numtxqueues 1 numrxqueues 1"
    )
}

fn write_node(f: &mut Formatter<'_>, plan: &Plan, node: &Node, own: &NodePlan) -> fmt::Result {
    let namespace = plan.namespace(node);
    for (port, qdiscs) in node.ports.iter().zip(&own.qdiscs) {
        for command in qdiscs {
            writeln!(f, "tc -n {namespace} {command}")?;
        }
        writeln!(f, "ip -n {namespace} link set dev {} up", port.name)?;
    }
    if own.is_machine {
        for line in machine::of_ip(plan, node) {
            writeln!(f, "ip -n {namespace} {line}")?;
        }
        for line in machine::of_tc(node) {
            writeln!(f, "tc -n {namespace} {line}")?;
        }
        writeln!(f, "# To be run in the machine:")?;
        for line in plan.inside(node).lines() {
            writeln!(f, "#   {line}")?;
        }
        return Ok(());
    }
    writeln!(f, "ip -n {namespace} link set dev lo up")?;
    let (v4, v6) = (node.address.v4(), node.address.v6());
    writeln!(f, "ip -n {namespace} address add {v4}/32 dev lo")?;
    writeln!(f, "ip -n {namespace} address add {v6}/128 dev lo nodad")?;
    for port in &node.ports {
        let neighbour = plan.neighbour(port);
        for address in [&neighbour.v4 as &dyn Display, &neighbour.v6] {
            let (mac, port) = (neighbour.mac, &port.name);
            writeln!(
                f,
                "ip -n {namespace} neighbour add {address} lladdr {mac} dev {port} nud permanent"
            )?;
        }
    }
    for route in &own.routes.v4 {
        writeln!(
            f,
            "ip -n {namespace} {}",
            RouteCommand(node, route, &own.metrics)
        )?;
    }
    for route in &own.routes.v6 {
        writeln!(
            f,
            "ip -n {namespace} {}",
            RouteCommand(node, route, &own.metrics)
        )?;
    }
    Ok(())
}

/// `route add …`, also for error messages.
pub(crate) struct RouteCommand<'a, A>(
    pub(crate) &'a Node,
    pub(crate) &'a Route<A>,
    pub(crate) &'a RouteMetrics,
);

impl<A: Display> Display for RouteCommand<'_, A> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(node, route, metrics) = self;
        let way = |hop: &weft_topo::NextHop<A>| {
            format!(
                "via {} dev {} onlink",
                hop.gateway, node.ports[hop.port].name
            )
        };
        f.write_str("route add ")?;
        match route.next_hops.as_slice() {
            [] => write!(f, "unreachable {} proto static", route.prefix),
            [hop] => write!(f, "{} proto static{metrics} {}", route.prefix, way(hop)),
            hops => {
                write!(f, "{} proto static{metrics}", route.prefix)?;
                hops.iter()
                    .try_for_each(|hop| write!(f, " nexthop {}", way(hop)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_part_them() {
        assert_eq!(quoted("fat-tree:k=4"), "fat-tree:k=4");
        assert_eq!(quoted("8x20kB@300"), "8x20kB@300");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
