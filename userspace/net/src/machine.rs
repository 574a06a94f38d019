// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hosts that are separate machines, such as VMs. The namespace of such a host has its ports with
//! their qdiscs, so that its wires are those of the fabric, but no addresses. Beside each port it
//! has a tap device, and packets that arrive on one of the two leave by the other. The process that
//! opens the tap has the host's addresses.

use std::fmt::Write as _;
use std::fs::File;
use std::net::IpAddr;

use weft_topo::{Kind, Node};
use weft_words::shell::quoted;

use crate::error::{Result, invalid};
use crate::metrics::RouteCommand;
use crate::plan::Plan;
use crate::qdisc::Command;
use crate::shell::sysctl_files;
use crate::sysctl::Sysctl;
use crate::tc;

/// The tap device beside the port at a place.
pub fn tap(port: usize) -> String {
    format!("tap{port}")
}

impl Plan {
    /// Makes hosts separate machines: see [`tap`] for the device that connects each of their ports,
    /// and [`Plan::inside`] for the machine's configuration.
    ///
    /// # Errors
    ///
    /// If there is no such host, one of the plan's processes runs on it, a qdisc of its port needs
    /// a counterpart that would be in the machine, or hosts would compare its clock with others'.
    pub fn set_machines(&mut self, hosts: &[String]) -> Result<()> {
        for host in hosts {
            let found = self.topology.find(host);
            let node = found.filter(|&id| self.topology.node(id).kind == Kind::Host);
            let Some(node) = node else {
                return invalid(format!(
                    "`{host}` is no host of {}, so it can be no machine of its own",
                    self.topology.title()
                ));
            };
            if let Some(process) = self.processes.iter().find(|it| it.node == *host) {
                return invalid(format!(
                    "{host} cannot be a machine of its own: `{process}` is to run there"
                ));
            }
            let mut kinds = self.nodes[node.index()]
                .qdiscs
                .iter()
                .flatten()
                .filter_map(Command::qdisc);
            let talks = |kind: &&str| weft_mechanisms::qdisc(kind).is_some_and(|it| it.talks);
            if let Some(kind) = kinds.find(talks) {
                return invalid(format!(
                    "{host} cannot be a machine of its own under a scheme whose hosts have {kind}: it talks to others, which \
                     would hear it and answer the machine"
                ));
            }
            self.check_clocks()?;
            self.nodes[node.index()].is_machine = true;
        }
        Ok(())
    }

    /// The hosts that are separate machines.
    pub fn machines(&self) -> impl Iterator<Item = &Node> {
        let here = self.topology.ids().filter(|&id| self.is_here(id));
        here.filter(|id| self.nodes[id.index()].is_machine)
            .map(|id| self.topology.node(id))
    }

    /// A script for `sh` that configures a machine as a host of a fabric: run it inside as root,
    /// with the names of its interfaces, port by port.
    ///
    /// # Panics
    ///
    /// If the node is not in the topology.
    pub fn inside(&self, node: &Node) -> String {
        let id = self.topology.find(&node.name).expect("a node");
        let own = &self.nodes[id.index()];
        let mut text = format!(
            "#!/bin/sh\n# {} of {}, in the machine that it is. $1 … are its interfaces: {}\nset -e\n",
            node.name,
            self.topology.title(),
            names(node).join(" ")
        );
        if let Some(name) = own.metrics.congestion_control() {
            // Its settings come with it. A built-in one is not a module.
            let _ = writeln!(text, "modprobe -q tcp_{name} || :");
        }
        let _ = writeln!(text, "ip link set dev lo up");
        if let Some(file) = own.sysctl_file() {
            let lines: Vec<&Sysctl> = file.iter().collect();
            for command in sysctl_files(&lines, "sysctl") {
                let _ = writeln!(text, "{command}");
            }
        }
        for sysctl in own.sysctls.iter().filter(|it| !it.is_for_a_file()) {
            let optional = if sysctl.is_optional() { "-e " } else { "" };
            let (key, value) = (sysctl.key(), sysctl.value());
            let word = quoted(&format!("{key}={value}"));
            let _ = writeln!(text, "sysctl -q {optional}-w {word}");
            // Its interfaces already exist, and keep the defaults from when they were created.
            if let Some((before, after)) = key.split_once(".conf.default.") {
                for place in 1..=node.ports.len() {
                    let path = |part: &str| part.replace('.', "/");
                    let _ = writeln!(
                        text,
                        "sysctl -q {optional}-w {}/conf/\"${place}\"/'{}={value}'",
                        path(before),
                        path(after)
                    );
                }
            }
        }
        let mtu = self.settings.mtu;
        for (place, port) in (1..).zip(&node.ports) {
            let neighbour = self.neighbour(port);
            let _ = writeln!(
                text,
                "ip link set dev \"${{{place}:?{name}}}\" down\nip link set dev \"${place}\" address {mac} mtu {mtu} up",
                name = port.name,
                mac = port.mac
            );
            for address in neighbour.addresses {
                let _ = writeln!(
                    text,
                    "ip neighbour replace {address} lladdr {} dev \"${place}\" nud permanent",
                    neighbour.mac
                );
            }
        }
        for address in self.addresses(node) {
            let _ = match address {
                IpAddr::V4(v4) => writeln!(text, "ip address replace {v4}/32 dev lo"),
                IpAddr::V6(v6) => writeln!(text, "ip address replace {v6}/128 dev lo nodad"),
            };
        }
        let route = |command: String| {
            // By the machine's names of its interfaces.
            let command = (1..)
                .zip(&node.ports)
                .fold(command, |command, (place, port)| {
                    command.replace(
                        &format!(" dev {} ", port.name),
                        &format!(" dev \"${place}\" "),
                    )
                });
            format!("ip {}\n", command.replacen("route add", "route replace", 1))
        };
        for it in &own.routes.v4 {
            text += &route(RouteCommand(node, it, &own.metrics).to_string());
        }
        for it in &own.routes.v6 {
            text += &route(RouteCommand(node, it, &own.metrics).to_string());
        }
        text
    }
}

fn names(node: &Node) -> Vec<&str> {
    node.ports.iter().map(|port| port.name.as_str()).collect()
}

/// The `ip` commands for the namespace of a machine, after its ports exist.
pub(crate) fn of_ip(plan: &Plan, node: &Node) -> Vec<String> {
    let mtu = plan.settings.mtu;
    let ports = node.ports.iter().enumerate();
    let lines = ports.flat_map(|(place, port)| {
        let tap = tap(place);
        [
            format!("tuntap add dev {tap} mode tap"),
            format!("link set dev {tap} address {} mtu {mtu} up", port.mac),
        ]
    });
    lines.collect()
}

/// The `tc` commands that follow.
pub(crate) fn of_tc(node: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    for (place, port) in node.ports.iter().enumerate() {
        let tap = tap(place);
        for (from, to) in [(&tap, &port.name), (&port.name, &tap)] {
            // A scheme may have created it.
            lines.push(format!("qdisc replace dev {from} clsact"));
            // Small kernels have this classifier, which can match all packets.
            lines.push(format!(
                "filter add dev {from} ingress protocol all u32 match u32 0 0 action mirred egress redirect dev {to}"
            ));
        }
    }
    lines
}

/// Connects the ports of a machine with its taps.
pub(crate) fn join(plan: &Plan, node: usize, namespace: &File) -> Result<()> {
    if !plan.nodes[node].is_machine {
        return Ok(());
    }
    let node = &plan.topology.nodes()[node];
    for (program, lines) in [("ip", of_ip(plan, node)), ("tc", of_tc(node))] {
        let done = tc::feed(program, &node.name, namespace, &lines)?;
        let Some(done) = done else {
            return invalid(format!(
                "{} cannot be a machine of its own: there is no {program}; apt-get install iproute2",
                node.name
            ));
        };
        if let Err(tc::Refusal { line, reason }) = done {
            let line = line.map_or(&lines[0], |line| &lines[line]);
            return invalid(format!("{}: `{program} {line}`: {reason}", node.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Settings;
    use crate::process::Process;
    use crate::qdisc;

    fn plan() -> Plan {
        let fabric = "rack:hosts=3".parse::<weft_topo::Spec>().unwrap();
        Plan::new("x", &fabric.topology(), Settings::default()).unwrap()
    }

    #[test]
    fn only_hosts_without_a_process_can_be_machines() {
        let refused = |plan: &mut Plan, name: &str| {
            let error = plan.set_machines(&[name.to_owned()]).unwrap_err();
            error.to_string()
        };
        let mut plan = plan();
        for name in ["tor0", "h3", ""] {
            let said = refused(&mut plan, name);
            assert!(
                said.starts_with(&format!("`{name}` is no host of rack")),
                "{said}"
            );
        }
        let process = Process {
            node: "h1".into(),
            words: vec!["arbiter".into()],
        };
        plan.set_processes(vec![process]).unwrap();
        assert_eq!(
            refused(&mut plan, "h1"),
            "h1 cannot be a machine of its own: `arbiter` is to run there"
        );
        let line = |words: &str| qdisc::parse("lines", &format!("qdisc add dev tor0 root {words}"));
        let mut paused = self::plan();
        paused
            .set_qdiscs(|node, _, _| match node.kind {
                Kind::Host => line("bfc th 1k"),
                Kind::Switch => Ok(Vec::new()),
            })
            .unwrap();
        assert!(refused(&mut paused, "h1").contains("whose hosts have bfc"));
        plan.set_machines(&["h2".into()]).unwrap();
        let machines: Vec<&str> = plan.machines().map(|node| node.name.as_str()).collect();
        assert_eq!(machines, ["h2"]);
    }

    #[test]
    fn a_machine_has_its_own_clock_and_excludes_order_by_deadlines() {
        let fabric = "rack:hosts=3".parse::<weft_topo::Spec>().unwrap();
        let plan = |criterion| {
            let set = |name: &str, value| Sysctl::new(&format!("net.ipv4.tcp_pase.{name}"), value);
            let settings = Settings {
                host_sysctls: vec![
                    set("criterion", criterion).unwrap(),
                    set("ask_queues", "8").unwrap(),
                ],
                ..Settings::default()
            };
            let mut plan = Plan::new("x", &fabric.topology(), settings).unwrap();
            plan.set_machines(&["h2".into()])
        };
        let error = plan("1").unwrap_err().to_string();
        assert!(error.contains("each machine's own clock"), "{error}");
        plan("0").unwrap();
    }

    #[test]
    fn a_machine_gets_the_configuration_of_the_hosts_namespace() {
        let plan = plan();
        let node = plan.topology.node(plan.topology.find("h2").unwrap());
        let text = plan.inside(node);
        let mac = node.ports[0].mac;
        for line in [
            "sysctl -q -w net.ipv6.conf.default.addr_gen_mode=1".to_owned(),
            "sysctl -q -w net/ipv6/conf/\"$1\"/'addr_gen_mode=1'".to_owned(),
            format!("ip link set dev \"$1\" address {mac} mtu 1500 up"),
            format!("ip address replace {}/32 dev lo", node.address.v4()),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        assert!(!text.contains("dev tor0"), "{text}");
        assert_eq!(text.matches(" dev \"$1\" onlink").count(), 2, "{text}");
    }
}
