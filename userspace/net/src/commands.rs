// SPDX-License-Identifier: MIT OR Apache-2.0

//! A plan as an equivalent shell script of `ip`, `tc` and `sysctl`.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use weft_topo::{Node, Port};
use weft_words::shell::quoted;

use crate::inherited;
use crate::layout::Layout;
use crate::machine;
use crate::metrics::RouteCommand;
use crate::netlink::VXLAN_UDP_PORT;
use crate::plan::{self, LOOPBACK, NodePlan, PORTS, Plan};
use crate::process::{self, MARK};
use crate::shell::sysctl_files;
use crate::sysctl::Sysctl;

/// See [`Plan::commands`] and [`Plan::fingerprint`].
pub struct Commands<'a> {
    plan: &'a Plan,
    is_fingerprint: bool,
}

impl Plan {
    /// The plan as a script for `sh` that creates the same namespaces with the same content, for
    /// people to read and to run. [`crate::down`] removes its result.
    pub fn commands(&self) -> Commands<'_> {
        Commands {
            plan: self,
            is_fingerprint: false,
        }
    }

    /// The script without the lines that affect no packet, for a hash by which results are
    /// compared. Ports are numbered from 2, and the variables that a namespace would inherit from a
    /// tuned machine are omitted.
    pub fn fingerprint(&self) -> Commands<'_> {
        Commands {
            plan: self,
            is_fingerprint: true,
        }
    }

    /// The script that starts the plan's processes, to run after [`Plan::commands`]; empty if it
    /// has none. [`crate::down`] ends them, too.
    pub fn process_commands(&self) -> ProcessCommands<'_> {
        ProcessCommands(self)
    }
}

impl Display for Commands<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            plan,
            is_fingerprint,
        } = *self;
        let first = if is_fingerprint { LOOPBACK + 1 } else { PORTS };
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
            // A loaded module stays.
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
            // Its settings come with it. A built-in one is not a module.
            writeln!(f, "modprobe -q tcp_{name} || :")?;
        }
        if !is_fingerprint {
            write_inherited(f, plan)?;
        }
        for (_, (node, own)) in here() {
            let namespace = plan.namespace(node);
            writeln!(f, "\n# {} {}", node.layer, node.name)?;
            writeln!(f, "ip netns add {namespace}")?;
            if !is_fingerprint {
                writeln!(f, "untuned {namespace}")?;
            }
            write!(f, "ip netns exec {namespace} sysctl -q -w")?;
            let of_ports: Vec<&Sysctl> = own.sysctls_of_ports(node).collect();
            let now = |it: &&Sysctl| {
                let later = it.is_optional() || it.is_for_a_file() || of_ports.contains(it);
                !later
            };
            for sysctl in own.sysctls.iter().filter(now) {
                write!(
                    f,
                    " {}",
                    quoted(&format!("{}={}", sysctl.key(), sysctl.value()))
                )?;
            }
            writeln!(f)?;
            for (place, sysctl) in own.sysctls.iter().enumerate() {
                // A variable that is set again later, as by a scheme, is set above and stays.
                let again = || own.sysctls[place + 1..].iter();
                if !sysctl.is_optional() || again().any(|it| it.path() == sysctl.path()) {
                    continue;
                }
                let (key, value) = (sysctl.key(), sysctl.value());
                // Not an error if the kernel lacks it.
                writeln!(f, "ip netns exec {namespace} sysctl -q -e -w {key}={value}")?;
            }
            if let Some(file) = own.sysctl_file() {
                let own = |it: &&Sysctl| !of_ports.contains(it) || it.is_for_a_file();
                let own: Vec<&Sysctl> = file.iter().filter(own).collect();
                write_sysctl_files(f, &namespace, &own)?;
            }
        }
        writeln!(f, "\n# links")?;
        for (place, (node, _)) in here() {
            for (index, port) in node.ports.iter().enumerate() {
                if plan.makes_link(place, index) {
                    write_link(f, (plan, first), node, index, port)?;
                } else if let Some(machine) = plan.elsewhere(port.peer) {
                    write_tunnel(f, (plan, first), node, index, machine)?;
                }
            }
        }
        for (_, (node, own)) in here() {
            writeln!(f, "\n# {} {}", node.layer, node.name)?;
            let of_ports: Vec<&Sysctl> = own.sysctls_of_ports(node).collect();
            if !of_ports.is_empty() {
                // Patterns do not apply to variables that other lines name.
                let file = own.sysctl_file().map(|file| file.iter().collect());
                write_sysctl_files(f, &plan.namespace(node), &file.unwrap_or(of_ports))?;
            }
            write_node(f, plan, node, own)?;
        }
        Ok(())
    }
}

/// A function that resets a namespace's variables inherited from the machine to the kernel's own
/// defaults. Kernels lack some of them; the others are set.
fn write_inherited(f: &mut Formatter<'_>, plan: &Plan) -> fmt::Result {
    const COLUMNS: usize = 100;
    writeln!(f, "untuned() {{")?;
    let mut line = "    ip netns exec \"$1\" sysctl -q -e -w".to_owned();
    let control = plan.has_default_control();
    for (key, value) in inherited::variables(plan.ipv6) {
        if key == inherited::CONTROL && !control {
            continue;
        }
        let word = quoted(&format!("{key}={value}"));
        if line.len() + 1 + word.len() + 2 > COLUMNS {
            writeln!(f, "{line} \\")?;
            line = "       ".to_owned();
        }
        line += &format!(" {word}");
    }
    writeln!(f, "{line} \\\n        || :\n}}")
}

fn write_sysctl_files(f: &mut Formatter<'_>, namespace: &str, lines: &[&Sysctl]) -> fmt::Result {
    let sysctl = format!("ip netns exec {namespace} sysctl");
    sysctl_files(lines, &sysctl)
        .iter()
        .try_for_each(|command| writeln!(f, "{command}"))
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
        for (process, log) in processes.iter().zip(process::logs(processes, &[])) {
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
    (plan, first): (&Plan, u32),
    node: &Node,
    index: usize,
    port: &Port,
) -> fmt::Result {
    let peer = plan.topology.node(port.peer);
    write!(f, "ip -n {} link add ", plan.namespace(node))?;
    write_end(f, (plan, first), node, index)?;
    write!(f, " type veth peer ")?;
    write_end(f, (plan, first), peer, port.peer_port)?;
    writeln!(f, " netns {}", plan.namespace(peer))
}

fn write_tunnel(
    f: &mut Formatter<'_>,
    (plan, first): (&Plan, u32),
    node: &Node,
    index: usize,
    machine: IpAddr,
) -> fmt::Result {
    write!(f, "ip link add ")?;
    write_end(f, (plan, first), node, index)?;
    let network = plan.network(node.ports[index].link);
    writeln!(
        f,
        " netns {} type vxlan id {network} remote {machine} dstport {VXLAN_UDP_PORT} nolearning",
        plan.namespace(node)
    )
}

fn write_end(
    f: &mut Formatter<'_>,
    (plan, first): (&Plan, u32),
    node: &Node,
    index: usize,
) -> fmt::Result {
    let (mtu, length) = (plan.settings.mtu, plan.settings.tx_queue_length);
    let segments = plan.settings.gso_max_segments;
    let Port { name, mac, .. } = &node.ports[index];
    let index = plan.device_index(node, index) - PORTS + first;
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
    for address in plan.addresses(node) {
        match address {
            IpAddr::V4(v4) => writeln!(f, "ip -n {namespace} address add {v4}/32 dev lo")?,
            IpAddr::V6(v6) => writeln!(f, "ip -n {namespace} address add {v6}/128 dev lo nodad")?,
        }
    }
    for port in &node.ports {
        let neighbour = plan.neighbour(port);
        for address in &neighbour.addresses {
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
