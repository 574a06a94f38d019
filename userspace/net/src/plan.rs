// SPDX-License-Identifier: MIT OR Apache-2.0

//! The testbed to build: pure data, the same for the same topology and settings.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use weft_topo::{Kind, Link, Mac, Node, Port, Routes, Topology};

use crate::error::{Result, invalid};
use crate::inherited;
use crate::metrics::RouteMetrics;
use crate::process::Process;
use crate::qdisc::{Command, Handle, Object};
use crate::sysctl::Sysctl;

/// The division of a testbed among several machines.
#[derive(Clone, Debug)]
pub(crate) struct Division {
    /// For each part, the machine's address.
    pub(crate) machines: Vec<IpAddr>,
    /// For each node, its part.
    pub(crate) of: Vec<usize>,
    /// The part built here.
    pub(crate) own: usize,
}

/// The index of a namespace's `lo`, always.
pub(crate) const LOOPBACK: u32 = 1;
/// The index of the first port. A new namespace may begin with devices that have indices from 2 on:
/// each loaded tunnel module (sit, ipip, ip_gre, ip_vti, ip6_tunnel, …) creates some in every
/// namespace. They stay below this, as do devices that a person adds without an index.
pub(crate) const PORTS: u32 = 1000;
/// The file with the congestion control of a namespace's sockets.
pub(crate) const DEFAULT_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The length of the longest name of a testbed, in bytes.
pub const MAX_TESTBED_NAME: usize = 32;

/// The settings of all namespaces: written before there is any port, so that ports begin with them.
///
/// There are no unsolicited packets: without link-local addresses there is no router solicitation,
/// no multicast listener report and no duplicate address detection, and every neighbour is
/// configured. The link-local addresses in routes only identify neighbours, so no interface needs
/// to have them.
const ALL_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    ("net.ipv6.conf.all.disable_ipv6", "0"),
    ("net.ipv6.conf.default.disable_ipv6", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.accept_ra", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    // None: neither from the MAC address nor random.
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
];

/// Further settings of nodes that choose among several next hops (ECMP). They choose by addresses,
/// protocol and ports (0x37), read from the packet. Under policy 1 they would use the hash that a
/// packet brings from its sending socket: the same at each switch, and a new one whenever TCP has a
/// timeout.
const MULTIPATH_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.fib_multipath_hash_policy", "3"),
    ("net.ipv6.fib_multipath_hash_policy", "3"),
    ("net.ipv4.fib_multipath_hash_fields", "0x37"),
    ("net.ipv6.fib_multipath_hash_fields", "0x37"),
];
/// For both families, different for each such node. With one hash for all, a switch whose flows
/// arrived by the first path of the previous switch would send all of them on by its own first
/// path, and half of a fat-tree's core would be idle (polarization). Since Linux 6.11.
const HASH_SEED: &str = "net.ipv4.fib_multipath_hash_seed";

/// Further settings of switches. Forwarding does not change a packet's priority, which is its rank.
const SWITCH_SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv4.ip_forward_update_priority", "0"),
    ("net.ipv6.conf.all.forwarding", "1"),
    // Set by the line above. At a port its only effect would be to join the routers' multicast
    // groups, and to announce that.
    ("net.ipv6.conf.default.forwarding", "0"),
];

/// Settings that a topology does not contain.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of every port, in bytes: 1280 (the minimum for IPv6) to 65,535.
    pub mtu: u32,
    /// Of every port, in packets: the default limit of `pfifo` and others.
    pub tx_queue_length: u32,
    /// The number of segments that the stack may hand to a port as one packet. With 1, each packet
    /// is one on the wire, counts as one against a queue's limit, and is dropped or marked alone.
    pub gso_max_segments: u32,
    /// For all routes of hosts.
    pub host_route: RouteMetrics,
    /// For hosts, after the plan's own, which they override.
    pub host_sysctls: Vec<Sysctl>,
    /// For switches.
    pub switch_sysctls: Vec<Sysctl>,
    /// The scheme's name, for the record.
    pub scheme: Option<String>,
    /// The caller's notes in the record, such as the topology's file.
    pub notes: BTreeMap<String, String>,
}

impl Default for Settings {
    /// Ethernet's 1500 bytes, Linux's 1000 packets, one packet at a time, nothing else.
    fn default() -> Self {
        Self {
            mtu: 1500,
            tx_queue_length: 1000,
            gso_max_segments: 1,
            host_route: RouteMetrics::default(),
            host_sysctls: Vec::new(),
            switch_sysctls: Vec::new(),
            scheme: None,
            notes: BTreeMap::new(),
        }
    }
}

/// A planned testbed: a namespace for each node.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) testbed: String,
    pub(crate) topology: Topology,
    pub(crate) settings: Settings,
    pub(crate) processes: Vec<Process>,
    pub(crate) modules: Vec<PathBuf>,
    pub(crate) nodes: Vec<NodePlan>,
    /// `None`: all of it is built here.
    pub(crate) division: Option<Division>,
    /// Whether nodes also have IPv6.
    pub(crate) ipv6: bool,
}

/// The contents of one namespace, apart from those given by the topology.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    /// The plan's own, then those of the scheme.
    pub(crate) sysctls: Vec<Sysctl>,
    /// The index of the scheme's first one.
    pub(crate) of_scheme: usize,
    pub(crate) routes: Routes,
    /// For each route with a next hop.
    pub(crate) metrics: RouteMetrics,
    /// For each port, in the order of [`Node::ports`].
    pub(crate) qdiscs: Vec<Vec<Command>>,
    /// Whether it is a separate machine (`crate::machine`).
    pub(crate) is_machine: bool,
}

/// The node at the other end of a port.
pub(crate) struct Neighbour {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) mac: Mac,
}

impl NodePlan {
    /// The value to which a sysctl is set; the last one counts.
    pub(crate) fn sysctl(&self, key: &str) -> Option<&str> {
        let path = Sysctl::own(key, "").path();
        let last = self.sysctls.iter().rfind(|it| it.path() == path)?;
        Some(last.value().trim())
    }

    /// The scheme's variables, if only `sysctl -p` understands them all: patterns do not apply to
    /// variables that other lines name.
    pub(crate) fn sysctl_file(&self) -> Option<&[Sysctl]> {
        let own = &self.sysctls[self.of_scheme..];
        own.iter().any(Sysctl::is_for_a_file).then_some(own)
    }

    /// The scheme's variables that are set, perhaps again, when the ports exist: each that matches
    /// or names devices.
    pub(crate) fn sysctls_of_ports(&self, node: &Node) -> impl Iterator<Item = &Sysctl> {
        let names = |device: &str| {
            let pattern = device.contains(['*', '?', '[']);
            pattern || node.ports.iter().any(|port| port.name == device)
        };
        let own = self.sysctls[self.of_scheme..].iter();
        own.filter(move |it| it.device().is_some_and(|device| names(&device)))
    }
}

impl Plan {
    /// # Errors
    ///
    /// If hosts would compare times of several machines' clocks.
    pub(crate) fn check_clocks(&self) -> Result<()> {
        for control in weft_mechanisms::CONGESTION_CONTROLS {
            let Some(one_clock) = control.one_clock else {
                continue;
            };
            let applies = |node: &NodePlan| {
                let key = |setting: &str| format!("net.ipv4.tcp_{}.{setting}", control.name);
                (one_clock.applies)(&|setting| node.sysctl(&key(setting)))
            };
            if self.nodes.iter().any(applies) {
                return invalid(one_clock.sentence);
            }
        }
        Ok(())
    }

    /// Plans `topology` as the testbed `testbed`, with no qdiscs yet.
    ///
    /// # Errors
    ///
    /// If the testbed's name is not 1 to [`MAX_TESTBED_NAME`] letters, digits and underscores, or a
    /// setting is out of range.
    pub fn new(testbed: &str, topology: &Topology, settings: Settings) -> Result<Self> {
        check_name(testbed)?;
        if !(1280..=65_535).contains(&settings.mtu) {
            return invalid(format!(
                "an MTU of {} is not between 1280 and 65535",
                settings.mtu
            ));
        }
        if !(1..=65_535).contains(&settings.gso_max_segments) {
            return invalid(format!(
                "{} segments a packet are not between 1 and 65535",
                settings.gso_max_segments
            ));
        }
        let nodes = topology
            .nodes()
            .iter()
            .zip(topology.routes())
            .zip(1_u32..)
            .map(|((node, routes), number)| {
                let own = |list: &[(&str, &str)]| -> Vec<Sysctl> {
                    let own = list.iter().map(|&(key, value)| Sysctl::own(key, value));
                    own.collect()
                };
                let mut sysctls = own(ALL_SYSCTLS);
                let several = routes.v4.iter().any(|route| route.next_hops.len() > 1);
                if several {
                    sysctls.extend(own(MULTIPATH_SYSCTLS));
                    let seed = Sysctl::own(HASH_SEED, &number.to_string());
                    sysctls.push(seed.optional());
                }
                let of_scheme = match node.kind {
                    Kind::Host => &settings.host_sysctls,
                    Kind::Switch => {
                        sysctls.extend(own(SWITCH_SYSCTLS));
                        &settings.switch_sysctls
                    }
                };
                let first = sysctls.len();
                sysctls.extend_from_slice(of_scheme);
                NodePlan {
                    sysctls,
                    of_scheme: first,
                    metrics: match node.kind {
                        Kind::Host => settings.host_route.clone(),
                        Kind::Switch => RouteMetrics::default(),
                    },
                    routes,
                    qdiscs: vec![Vec::new(); node.ports.len()],
                    is_machine: false,
                }
            });
        Ok(Self {
            testbed: testbed.to_owned(),
            nodes: nodes.collect(),
            topology: topology.clone(),
            settings,
            processes: Vec::new(),
            modules: Vec::new(),
            division: None,
            ipv6: true,
        })
    }

    /// Whether some host's TCP uses the congestion control with which its namespace begins.
    pub(crate) fn has_default_control(&self) -> bool {
        let nodes = self.topology.nodes().iter().zip(&self.nodes);
        let mut hosts = nodes.filter(|(node, _)| node.kind == Kind::Host);
        hosts.any(|(_, own)| {
            let by_route = own.metrics.congestion_control().is_some();
            !by_route && own.sysctl(inherited::CONTROL).is_none()
        })
    }

    /// Removes IPv6: its addresses, routes, neighbours and variables. For a kernel without it
    /// ([`probe::has_ipv6`](crate::probe::has_ipv6)).
    pub fn leave_out_ipv6(&mut self) {
        self.ipv6 = false;
        for node in &mut self.nodes {
            node.routes.v6.clear();
            let own = node.sysctls[..node.of_scheme].iter();
            node.of_scheme -= own.filter(|it| it.is_ipv6()).count();
            node.sysctls.retain(|it| !it.is_ipv6());
        }
    }

    /// Gives every port the qdiscs that `choose` returns, in the order in which they are added.
    ///
    /// # Errors
    ///
    /// Errors of `choose`. Also if a command is for a device other than the port, its parent is
    /// neither the root nor added before it, or it names a port that the node does not have.
    pub fn set_qdiscs(
        &mut self,
        mut choose: impl FnMut(&Node, &Port, &Link) -> Result<Vec<Command>>,
    ) -> Result<()> {
        let topology = &self.topology;
        for (node, plan) in topology.nodes().iter().zip(&mut self.nodes) {
            for (port, qdiscs) in node.ports.iter().zip(&mut plan.qdiscs) {
                let mut commands = choose(node, port, &topology.links()[port.link])?;
                check_qdiscs(node, port, &commands)?;
                for command in &mut commands {
                    let Command::Qdisc(command) = command else {
                        continue;
                    };
                    let index = |name: &str| {
                        let place = node.ports.iter().position(|port| port.name == name)?;
                        Some(device_index(topology, node, place))
                    };
                    if let Err(name) = command.resolve(index) {
                        return invalid(format!(
                            "{}, port {}: `{command}`: there is no port {name}",
                            node.name, port.name
                        ));
                    }
                }
                *qdiscs = commands;
            }
        }
        Ok(())
    }

    /// Sets the processes that are started when everything else exists, in this order.
    ///
    /// # Errors
    ///
    /// If there is no such node, or a process has no program.
    pub fn set_processes(&mut self, processes: Vec<Process>) -> Result<()> {
        for process in &processes {
            if self.topology.find(&process.node).is_none() {
                return invalid(format!(
                    "`{process}`: there is no node `{}` in {}",
                    process.node,
                    self.topology.title()
                ));
            }
            if process.words.is_empty() {
                return invalid(format!("{}: a process has a program", process.node));
            }
        }
        self.processes = processes;
        Ok(())
    }

    /// The processes that were set.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Sets the files of kernel modules that are loaded before anything is created, in this order.
    /// They stay loaded when the testbed is removed.
    pub fn set_modules(&mut self, modules: Vec<PathBuf>) {
        self.modules = modules;
    }

    /// The testbed's name.
    pub fn testbed(&self) -> &str {
        &self.testbed
    }

    /// The planned topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The name of a node's namespace, as `ip netns exec` takes it.
    pub fn namespace(&self, node: &Node) -> String {
        namespace(&self.testbed, &node.name)
    }

    /// The index of the device of `node`'s port at index `port` of [`Node::ports`]: unique in the
    /// fabric, and above the indices of a new namespace's initial devices. If the two ends of a
    /// veth pair had the same index, the kernel would not treat their link events as urgent, and
    /// could delay a carrier by up to a second.
    ///
    /// # Panics
    ///
    /// If the node has no such port.
    pub fn device_index(&self, node: &Node, port: usize) -> u32 {
        device_index(&self.topology, node, port)
    }

    pub(crate) fn neighbour(&self, port: &Port) -> Neighbour {
        let peer = self.topology.node(port.peer);
        let mac = peer.ports[port.peer_port].mac;
        let v4 = IpAddr::V4(peer.address.v4());
        let v6 = self.ipv6.then(|| IpAddr::V6(mac.link_local()));
        Neighbour {
            addresses: std::iter::once(v4).chain(v6).collect(),
            mac,
        }
    }

    /// Whether a link is created in this node's namespace: links are created by the node with more
    /// ports, so that batches are few and long. False for a link to another machine; the node is
    /// here.
    pub(crate) fn makes_link(&self, node: usize, port: usize) -> bool {
        let here = &self.topology.nodes()[node];
        let port = &here.ports[port];
        if self.elsewhere(port.peer).is_some() {
            return false;
        }
        let rank = |ports: usize, index: usize| (ports, index);
        let there = port.peer.index();
        rank(here.ports.len(), node) > rank(self.topology.nodes()[there].ports.len(), there)
    }

    /// The content of the hosts' `/etc/hosts`.
    pub(crate) fn hosts(&self) -> String {
        let mut text = "127.0.0.1 localhost\n".to_owned();
        if self.ipv6 {
            text += "::1 localhost ip6-localhost\n";
        }
        for node in self.topology.nodes() {
            for address in self.addresses(node) {
                text += &format!("{address} {}\n", node.name);
            }
        }
        text
    }

    /// A node's addresses.
    pub(crate) fn addresses(&self, node: &Node) -> Vec<IpAddr> {
        let v4 = IpAddr::V4(node.address.v4());
        let v6 = self.ipv6.then(|| IpAddr::V6(node.address.v6()));
        std::iter::once(v4).chain(v6).collect()
    }
}

/// Checks that a name is valid for a testbed.
///
/// # Errors
///
/// If it is not 1 to [`MAX_TESTBED_NAME`] letters, digits and underscores.
pub fn check_name(testbed: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if (1..=MAX_TESTBED_NAME).contains(&testbed.len()) && testbed.chars().all(good) {
        return Ok(());
    }
    // No dash, because a dash ends the testbed's name in the namespace's.
    invalid(format!(
        "`{testbed}` is no name for a testbed: write 1 to {MAX_TESTBED_NAME} letters, digits or \
         underscores"
    ))
}

/// The prefix of the names of a testbed's namespaces. No other testbed's names have it.
pub(crate) fn prefix(testbed: &str) -> String {
    format!("weft-{testbed}-")
}

pub(crate) fn namespace(testbed: &str, node: &str) -> String {
    prefix(testbed) + node
}

fn device_index(topology: &Topology, node: &Node, port: usize) -> u32 {
    let port = &node.ports[port];
    // The port itself: its node and its index.
    let there = &topology.node(port.peer).ports[port.peer_port];
    let here = (there.peer, there.peer_port);
    let upper = topology.links()[port.link].ends[1] == here;
    PORTS + 2 * port.link as u32 + u32::from(upper)
}

fn check_qdiscs(node: &Node, port: &Port, commands: &[Command]) -> Result<()> {
    let mut handles = Vec::new();
    for command in commands {
        let wrong = |what: String| {
            invalid(format!(
                "{}, port {}: `{command}`: {what}",
                node.name, port.name
            ))
        };
        if command.device() != port.name {
            return wrong(format!("the device is to be {}", port.name));
        }
        let (parent, handle) = match command {
            Command::Qdisc(command) => (Some(command.parent), Some(command.handle)),
            // The parent of a filter may be none of these: ffff: is that of incoming packets.
            Command::Tc(command) if command.object == Object::Filter => (None, None),
            Command::Tc(command) => (command.parent, command.handle),
        };
        let beside = |parent| [Handle::ROOT, Handle::CLSACT].contains(&parent);
        if let Some(parent) = parent.filter(|&parent| !beside(parent)) {
            let above = Handle(parent.0 & 0xffff_0000);
            if !handles.contains(&above) {
                return wrong(format!("no command before it adds {above}"));
            }
        }
        handles.extend(handle.filter(|&handle| handle != Handle::NONE));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_mechanisms::bfc::options::{Devices, Options};

    use super::*;
    use crate::qdisc;

    fn with(words: &str) -> Result<Plan> {
        let fabric = "rack:hosts=3".parse::<weft_topo::Spec>().unwrap();
        let mut plan = Plan::new("x", &fabric.topology(), Settings::default())?;
        plan.set_qdiscs(|node, port, _| {
            let words = match node.kind {
                Kind::Switch => words,
                Kind::Host => "",
            };
            let line = format!("qdisc add dev {} root bfc th 1k {words}", port.name);
            qdisc::parse("lines", &line)
        })?;
        Ok(plan)
    }

    #[test]
    fn ports_in_a_qdiscs_options_are_passed_by_index() {
        let plan = with("elide h0 elide h2").unwrap();
        let tor = plan.topology.find("tor0").unwrap();
        let [Command::Qdisc(command)] = &plan.nodes[tor.index()].qdiscs[1][..] else {
            panic!("one line of a known kind");
        };
        assert_eq!(
            command.to_string(),
            "qdisc add dev h1 root bfc th 1k elide h0 elide h2"
        );
        let node = plan.topology.node(tor);
        let options = Options::parse(command.options().unwrap()).unwrap();
        assert_eq!(
            options.elide.unwrap().indices(),
            [0, 2].map(|place| plan.device_index(node, place))
        );
        let none = with("noelide").unwrap();
        let [Command::Qdisc(command)] = &none.nodes[tor.index()].qdiscs[1][..] else {
            panic!("one line of a known kind");
        };
        assert_eq!(
            Options::parse(command.options().unwrap()).unwrap().elide,
            Some(Devices::NONE)
        );
    }

    #[test]
    fn a_port_that_does_not_exist_is_refused() {
        assert_eq!(
            with("elide h0 elide h9").unwrap_err().to_string(),
            "tor0, port h0: `qdisc add dev h0 root bfc th 1k elide h0 elide h9`: there is no port h9"
        );
    }
}
