// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fabric on this machine: the plan of its namespaces, and weft's programs at its ports.

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use weft_ebpf::{Attacher, FlowSizes, Hook, HostConfig, Object, SwitchConfig};
use weft_load::engine::Host;
use weft_net::qdisc::{self, Command, QdiscCommand};
use weft_net::{Plan, Processes, RouteMetrics, Settings, StatsReader, Sysctl, Testbed, Visit};
use weft_topo::{Address, Elision, Kind, Node, Port, Topology, Wire};

use crate::error::{Usage, usage};
use crate::fabric::{Fabric, MTU};
use crate::ports::{PortReading, Ports};
use crate::process;
use crate::scheme::{Description, Fallback, Line, Packets, Policy, Scheme, Spray, Tag};
use crate::shape::{self, Shape};

/// The variable with the testbed's name: weft's commands in a session use this testbed.
pub const TESTBED: &str = "WEFT_TESTBED";
/// The mount point of control groups.
const CGROUPS: &str = "/sys/fs/cgroup";
/// The hook for the ports' programs. With tcx, each of a fabric's hundreds of programs would take
/// 20 ms to attach, and as long to remove.
pub const HOOK: Hook = Hook::Clsact;

/// Classifies an error of weft-net as a person's mistake or a failure.
pub fn explain(error: weft_net::Error) -> anyhow::Error {
    use weft_net::Error;
    match error {
        Error::System { .. } | Error::Refused { .. } | Error::Hook { .. } => {
            anyhow::Error::new(error)
        }
        error => Usage::Net(error).into(),
    }
}

/// The plan of a fabric.
///
/// # Errors
///
/// If the scheme's files are invalid.
pub fn plan(name: &str, fabric: &Fabric) -> Result<Plan> {
    let scheme = &fabric.scheme;
    let variables = &fabric.variables;
    let sysctls = |file: &str| -> Result<Vec<Sysctl>> {
        scheme.sysctls(file, variables, |line| Sysctl::read(line).map_err(explain))
    };
    let settings = Settings {
        mtu: MTU,
        host_sysctls: sysctls("host.sysctl")?,
        switch_sysctls: sysctls("switch.sysctl")?,
        host_route: scheme.route(variables, |words| {
            RouteMetrics::parse(words).map_err(explain)
        })?,
        scheme: Some(scheme.name.clone()),
        notes: [
            ("topology".to_owned(), fabric.title.clone()),
            ("dilation".to_owned(), fabric.dilation.to_string()),
        ]
        .into(),
        ..Settings::default()
    };
    let mut plan = Plan::new(name, &fabric.slowed, settings).map_err(explain)?;
    if !weft_net::probe::has_ipv6() {
        plan.leave_out_ipv6();
    }
    let processes = process::processes(scheme, &fabric.slowed, variables)?;
    plan.set_processes(processes).map_err(explain)?;
    plan.set_modules(fabric.modules.clone());
    let programs = Programs::of(&plan, scheme);
    let mut failure = None;
    let elision = fabric.slowed.elision();
    let planned = plan.set_qdiscs(|node, port, link| {
        let mut commands = match batch(fabric, &elision, node, port, &link.wire) {
            Ok((place, lines)) => parse(place, &lines)?,
            Err(error) => {
                failure.get_or_insert(error);
                return Ok(Vec::new());
            }
        };
        // This is done here, not when programs are attached: by then ports are up, and each change
        // waits.
        let own = commands.iter().any(|it| it.qdisc() == Some("clsact"));
        if !own && programs.as_ref().is_some_and(|it| it.at(node).is_some()) {
            commands.push(Command::Qdisc(QdiscCommand::clsact(&port.name)));
        }
        Ok(commands)
    });
    match failure {
        Some(error) => Err(error),
        None => planned.map(|()| plan).map_err(explain),
    }
}

/// Makes hosts separate machines, connected by tap devices.
///
/// # Errors
///
/// If there is no such host, or a process of the scheme would run on it.
pub fn set_machines(plan: &mut Plan, hosts: &[String]) -> Result<()> {
    plan.set_machines(hosts).map_err(explain)
}

/// Keeps one part of the nodes, by its number from 1, and leaves the others to other machines.
///
/// # Errors
///
/// If there is no such part, or the fabric cannot be divided in this way.
pub fn set_part(plan: &mut Plan, machines: &[IpAddr], part: NonZeroUsize) -> Result<()> {
    plan.set_part(machines, part.get() - 1).map_err(explain)
}

/// The scheme's file with the settings of a node's ports.
fn file(node: &Node) -> &'static str {
    match node.kind {
        Kind::Host => "host.tc",
        Kind::Switch => "switch.tc",
    }
}

/// The commands of a file.
fn parse(place: &str, lines: &[Line]) -> weft_net::Result<Vec<Command>> {
    let commands = lines.iter();
    let commands = commands.map(|line| qdisc::parse_line((place, line.number), &line.text));
    commands.filter_map(Result::transpose).collect()
}

/// A port's qdiscs, as a batch for `tc`, and the name of its file in messages.
fn batch<'a>(
    fabric: &'a Fabric,
    elision: &Elision<'_>,
    node: &Node,
    port: &Port,
    wire: &Wire,
) -> Result<(&'a str, Vec<Line>)> {
    // The port as its peer refers to it: its node and its index.
    let here = &fabric.slowed.node(port.peer).ports[port.peer_port];
    let elided = elision.ingresses(here.peer, here.peer_port);
    let elided = elided.iter().map(|&place| node.ports[place].name.as_str());
    let mut variables = fabric.variables.port(&port.name, wire, elided);
    variables.set_facing(fabric.slowed.node(port.peer).kind);
    variables.set("address", node.address.v4().to_string());
    fabric.scheme.batch(file(node), &variables)
}

/// The qdiscs of all ports of a node, each port with its name.
///
/// # Errors
///
/// If the scheme's files are invalid.
pub fn batches<'a>(fabric: &'a Fabric, node: &'a Node) -> Result<Vec<(&'a str, Vec<String>)>> {
    let elision = fabric.slowed.elision();
    let ports = node.ports.iter().map(|port| {
        let wire = &fabric.slowed.links()[port.link].wire;
        let (_, lines) = batch(fabric, &elision, node, port, wire)?;
        let lines = lines.into_iter().map(|line| line.text);
        Ok((port.name.as_str(), lines.collect()))
    });
    ports.collect()
}

/// Weaves the fabric: namespaces, links, qdiscs, the scheme's programs and processes. It creates
/// either all of it or nothing.
///
/// # Errors
///
/// If there is such a testbed, privileges or parts of the kernel are missing, or the kernel
/// refuses.
pub fn weave(plan: &Plan, scheme: &Scheme) -> Result<(Testbed, Processes)> {
    let refused = |error: weft_net::Error| match error {
        // The kernel or `tc` may have refused a line because a requirement is missing: the error
        // for that names a remedy.
        error @ (weft_net::Error::Refused { .. }
        | weft_net::Error::NoQdisc { .. }
        | weft_net::Error::Line { .. }
        | weft_net::Error::Invalid(_)) => explain(plan.require().err().unwrap_or(error)),
        error => explain(error),
    };
    let Some(programs) = Programs::of(plan, scheme) else {
        return weft_net::up_watched(plan, None).map_err(refused);
    };
    if weft_net::rootless::is_root_of_a_namespace() {
        return usage(format!(
            "scheme {} has eBPF programs, which take root of the machine itself",
            scheme.name
        ));
    }
    let object = Object::find(None).or_else(|error| usage(format!("{error:#}")))?;
    // Created at the first port. By then the testbed exists, so no other process can take its name,
    // and `weft down` can clean up if this process is killed.
    let (group, flows) = (OnceCell::new(), OnceCell::new());
    let mut attacher = None;
    let mut attach = |visit: Visit<'_>| {
        if programs.declares && flows.get().is_none() {
            let group = group.get_or_init(|| ControlGroup::temporary(plan.testbed()));
            group.make()?;
            let attached = FlowSizes::attach(&object, &group.path)?;
            flows.get_or_init(|| attached);
        }
        let Some(attachment) = programs.at(visit.node) else {
            return Ok(());
        };
        let attacher = attacher.get_or_insert_with(|| Attacher::new(&object, flows.get()).at(HOOK));
        match attachment {
            Attachment::Host(config) => attacher.host(&visit.port.name, &config),
            Attachment::Switch(config) => attacher.switch(&visit.port.name, &config),
        }
    };
    let mut hook = |visit: Visit<'_>| attach(visit).map_err(|error| format!("{error:#}").into());
    let woven = weft_net::up_watched(plan, Some(&mut hook)).map_err(refused)?;
    if let Some(group) = group.into_inner() {
        group.keep();
    }
    Ok(woven)
}

/// Removes a testbed, with its control group.
///
/// # Errors
///
/// If there is no such testbed, or the kernel refuses.
pub fn remove(name: &str) -> Result<weft_net::Removed> {
    weft_net::check_name(name).map_err(explain)?;
    // First: as long as there is a namespace, `weft down` finds a partly removed testbed.
    let group = ControlGroup::of(name).remove();
    let removed = weft_net::down(name).map_err(explain)?;
    group.map(|()| removed)
}

/// weft's programs at a testbed's ports.
pub struct Programs {
    tag: Option<Tag>,
    declares: bool,
    spray: Spray,
    /// For each node, by its address.
    next_hops: Vec<(Address, NextHops)>,
    /// Hosts that are separate machines, and attach programs themselves.
    machines: Vec<Address>,
}

/// The range of a switch's choice.
#[derive(Clone, Copy, Debug)]
struct NextHops {
    /// The largest number of next hops of a route.
    widest: u32,
    /// If packets name their path: how many successive paths give the same choice at this switch.
    /// The first choice is that of a host's switch.
    stride: u32,
}

/// The program at a port.
pub enum Attachment {
    /// A host's program.
    Host(HostConfig),
    /// A switch's program.
    Switch(SwitchConfig),
}

impl Programs {
    /// `None` if the scheme has no programs.
    pub fn of(plan: &Plan, scheme: &Scheme) -> Option<Self> {
        let Description { tag, routing, .. } = &scheme.description;
        let declares = scheme.description.declares();
        if !declares && routing.spray == Spray::Off {
            return None;
        }
        let topology = plan.topology();
        let shape = Shape::of(topology);
        let nodes = topology.nodes().iter().zip(topology.routes());
        let next_hops = nodes.map(|(node, routes)| {
            let hops = routes.v4.iter().map(|route| route.next_hops.len() as u32);
            let widest = hops.max().unwrap_or(0);
            let stride = match shape::is_edge(topology, node) {
                true => 1,
                false => shape.edge_ways,
            };
            (node.address, NextHops { widest, stride })
        });
        Some(Self {
            tag: *tag,
            declares,
            spray: routing.spray,
            next_hops: next_hops.collect(),
            machines: plan.machines().map(|node| node.address).collect(),
        })
    }

    /// The program at the ports of a node.
    pub fn at(&self, node: &Node) -> Option<Attachment> {
        match node.kind {
            Kind::Host if self.machines.contains(&node.address) => None,
            Kind::Host => self.tag.map(|tag| Attachment::Host(host_config(tag))),
            Kind::Switch if !self.has_tags() && self.spray == Spray::Off => None,
            Kind::Switch => {
                let mut all = self.next_hops.iter();
                let own = all.find(|(address, _)| *address == node.address);
                let (_, next_hops) = own?;
                let config = switch_config(self.spray, *next_hops, self.has_tags());
                Some(Attachment::Switch(config))
            }
        }
    }

    /// Whether hosts tag their packets: under policy `records` they make room for records instead.
    fn has_tags(&self) -> bool {
        self.tag.is_some_and(|tag| tag.policy != Policy::Records)
    }

    /// Whether flows declare their sizes, in the testbed's control group.
    pub fn declares(&self) -> bool {
        self.declares
    }
}

fn host_config(tag: Tag) -> HostConfig {
    HostConfig {
        policy: match tag.policy {
            Policy::Remaining => weft_ebpf::Policy::Remaining,
            Policy::Size => weft_ebpf::Policy::Size,
            Policy::Sent => weft_ebpf::Policy::Sent,
            Policy::Deadline => weft_ebpf::Policy::Deadline,
            Policy::Fixed => weft_ebpf::Policy::Fixed,
            Policy::Echo => weft_ebpf::Policy::Echo,
            Policy::Records => weft_ebpf::Policy::Records,
        },
        fallback: match tag.fallback {
            Fallback::Sent => weft_ebpf::Fallback::Sent,
            Fallback::Queued => weft_ebpf::Fallback::Queued,
        },
        tagged: match tag.packets {
            Packets::Data => weft_ebpf::Tagged::Data,
            Packets::All => weft_ebpf::Tagged::All,
        },
        ..HostConfig::default()
    }
}

/// `tags`: whether hosts tag their packets.
fn switch_config(spray: Spray, NextHops { widest, stride }: NextHops, tags: bool) -> SwitchConfig {
    let (spray, paths, stride) = match spray {
        Spray::Off => (weft_ebpf::Spray::Off, 0, 0),
        Spray::Random => (weft_ebpf::Spray::Random, 0, 0),
        Spray::RoundRobin => (weft_ebpf::Spray::RoundRobin, widest, 0),
        Spray::Path => (weft_ebpf::Spray::Path, widest.max(1), stride),
    };
    SwitchConfig {
        spray,
        paths,
        stride,
        untagged: match tags {
            true => weft_ebpf::Untagged::Last,
            false => weft_ebpf::Untagged::First,
        },
    }
}

/// The control group whose sockets may declare the sizes of their flows.
pub struct ControlGroup {
    path: PathBuf,
    /// Whether it is removed when this is dropped.
    temporary: bool,
}

impl ControlGroup {
    /// The control group of a testbed, whether or not it exists.
    pub fn of(testbed: &str) -> Self {
        Self {
            path: Path::new(CGROUPS).join(format!("weft-{testbed}")),
            temporary: false,
        }
    }

    /// A control group that is removed when this is dropped, unless it is kept.
    fn temporary(testbed: &str) -> Self {
        let mut group = Self::of(testbed);
        group.temporary = true;
        group
    }

    fn make(&self) -> Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| {
                    format!(
                        "making the control group {} (is a cgroup2 mounted? weft doctor)",
                        self.path.display()
                    )
                })
            }
            _ => Ok(()),
        }
    }

    fn keep(mut self) {
        self.temporary = false;
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it exists.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The file to which a process writes its number in order to join.
    pub fn members(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Moves this process into it.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn enter(&self) -> Result<Membership> {
        let before =
            fs::read_to_string("/proc/self/cgroup").context("reading /proc/self/cgroup")?;
        let before = before
            .lines()
            .find_map(|line| line.strip_prefix("0::"))
            .context("this process is in no cgroup of version 2")?;
        let back = Path::new(CGROUPS)
            .join(before.trim_start_matches('/'))
            .join("cgroup.procs");
        fs::write(self.members(), "0")
            .with_context(|| format!("entering {}", self.path.display()))?;
        Ok(Membership { back })
    }

    fn remove(&self) -> Result<()> {
        match fs::remove_dir(&self.path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => bail!(
                "removing {}: {error}; processes in it: {}",
                self.path.display(),
                fs::read_to_string(self.members())
                    .unwrap_or_default()
                    .trim()
                    .replace('\n', " ")
            ),
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        if self.temporary {
            // The first error is the one that is reported; `weft down` tries again.
            let _ = self.remove();
        }
    }
}

/// Keeps this process in a control group until it is dropped.
pub struct Membership {
    back: PathBuf,
}

impl Drop for Membership {
    fn drop(&mut self) {
        // If it cannot go back, `weft down` names the remaining processes.
        let _ = fs::write(&self.back, "0");
    }
}

/// The testbed for a command: the one that was named, that of the [session](crate::session) in
/// which it runs, or the only existing one.
///
/// # Errors
///
/// If there is none, or more than one.
pub fn open(name: Option<&str>) -> Result<Testbed> {
    let of_session = std::env::var(TESTBED).ok();
    if let Some(name) = name.or(of_session.as_deref()) {
        return Testbed::open(name).map_err(explain);
    }
    let mut all = weft_net::list().map_err(explain)?;
    match all.len() {
        0 => usage("no testbed is up: weft up fat-tree:k=4"),
        1 => Ok(all.remove(0)),
        _ => {
            let names: Vec<&str> = all.iter().map(Testbed::name).collect();
            usage(format!(
                "there are several testbeds, say which: --testbed {}",
                names.join(", --testbed ")
            ))
        }
    }
}

/// The fabric's hosts, for the engine.
///
/// # Errors
///
/// If a namespace no longer exists.
pub fn hosts(testbed: &Testbed, topology: &Topology, ipv6: bool) -> Result<Vec<Host>> {
    topology
        .hosts()
        .map(|id| {
            let node = topology.node(id);
            let namespace = testbed.namespace(&node.name).map_err(explain)?;
            Ok(Host {
                netns: Some(OwnedFd::from(namespace)),
                address: node.address.of_family(ipv6),
            })
        })
        .collect()
}

/// A testbed's ports, read by netlink.
pub struct Sampled {
    reader: StatsReader,
    /// The ports before the first reading: names only.
    blank: Vec<PortReading>,
}

impl Sampled {
    /// # Errors
    ///
    /// If a namespace no longer exists.
    pub fn new(testbed: &Testbed, topology: &Topology) -> Result<Self> {
        let nodes = topology.nodes().iter();
        let ports = nodes.flat_map(|node| node.ports.iter().map(move |port| (node, port)));
        let blank = ports.map(|(node, port)| {
            PortReading::named(&node.name, &port.name, node.kind == Kind::Host)
        });
        Ok(Self {
            reader: testbed.stats().map_err(explain)?,
            blank: blank.collect(),
        })
    }
}

impl Ports for Sampled {
    fn read(&mut self) -> Result<Vec<PortReading>> {
        let mut ports = self.blank.clone();
        let mut at = 0;
        self.reader
            .read(|stats| {
                // Qdiscs nearly always come node by node and port by port.
                let is = |port: &PortReading| port.is(stats.node, stats.port);
                let count = ports.len();
                let found = (0..count)
                    .map(|n| (at + n) % count)
                    .find(|&n| is(&ports[n]));
                let Some(place) = found else { return };
                at = place;
                ports[place].add(&stats.into());
            })
            .map_err(explain)?;
        Ok(ports)
    }
}
