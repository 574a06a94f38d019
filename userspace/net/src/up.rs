// SPDX-License-Identifier: MIT OR Apache-2.0

//! Builds what a plan says, or leaves nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant, SystemTime};

use nix::mount::{MsFlags, mount};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use weft_topo::{Node, Port};

use crate::attributes;
use crate::commands::RouteCommand;
use crate::error::{Error, Result};
use crate::layout::{self, Layout, Lock};
use crate::machine;
use crate::modules;
use crate::namespace;
use crate::netlink::{Batch, End, Refused, Socket};
use crate::plan::{DEFAULT_CONTROL, LOOPBACK, Plan, Sysctl};
use crate::processes::Processes;
use crate::qdisc::Command;
use crate::tc;
use crate::testbed::{Record, Testbed};

/// A port of a testbed that is being built. The calling thread is in its namespace; all links,
/// addresses, routes and qdiscs are there.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// The node, whose kind is the port's role.
    pub node: &'a Node,
    /// The port.
    pub port: &'a Port,
    /// The index of the port's device.
    pub index: u32,
}

/// What the caller does at every port, such as attaching programs.
pub type Hook<'a> =
    dyn FnMut(Visit<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// How long ports may take to be operational, once both ends are up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Builds what `plan` says; then calls `hook`, if there is one, at every port; then starts the plan's
/// processes. Either all of that succeeds or nothing is left.
///
/// Raises the process's soft limit of open files if there are more nodes than it allows.
///
/// # Errors
///
/// [`Error::AlreadyUp`], [`Error::Interrupted`]; [`Error::Privilege`]; what the kernel refuses;
/// what the hook refuses; a process that cannot be started, or ends at once.
pub fn up(plan: &Plan, hook: Option<&mut Hook<'_>>) -> Result<Testbed> {
    up_watched(plan, hook).map(|(testbed, _)| testbed)
}

/// The same, for who wants to know whether its processes still run.
///
/// # Errors
///
/// As [`up`].
pub fn up_watched(plan: &Plan, hook: Option<&mut Hook<'_>>) -> Result<(Testbed, Processes)> {
    let lock = Lock::acquire()?;
    let layout = Layout::new(&plan.testbed);
    if layout.exists()? {
        let name = plan.testbed.clone();
        return Err(match layout.record().exists() {
            true => Error::AlreadyUp(name),
            false => Error::Interrupted(name),
        });
    }
    modules::load(&plan.modules)?;
    namespace::allow_files(2 * plan.nodes.len())?;
    let undo = Undo(Some(layout.clone()));
    make_directories(&layout)?;
    let namespaces = namespace::on_thread(|| build(plan, &layout))?;
    if let Some(hook) = hook {
        call(plan, &namespaces, hook)?;
    }
    write(&layout.hosts(), plan.hosts().as_bytes())?;
    for node in plan.machines() {
        write(&layout.inside(&node.name), plan.inside(node).as_bytes())?;
    }
    let unfinished = Testbed::open(&plan.testbed)?;
    let processes = Processes::start(&unfinished, &layout, &plan.processes)?;
    let record = Record {
        title: plan.topology.title().to_owned(),
        scheme: plan.settings.scheme.clone(),
        notes: plan.settings.notes.clone(),
        created: SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_secs()),
    };
    let json = serde_json::to_vec(&record).expect("a record is plain data");
    // Complete or not there, as a testbed with a record is complete.
    let unfinished = layout.record().with_extension("new");
    write(&unfinished, &json)?;
    fs::rename(&unfinished, layout.record())
        .map_err(|error| Error::system("writing the record", error))?;
    undo.forget();
    drop(lock);
    Ok((Testbed::open(&plan.testbed)?, processes))
}

/// Removes what there is when building ends early, be it by a panic.
struct Undo(Option<Layout>);

impl Undo {
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(layout) = &self.0 {
            // The error that led here is what is reported; `weft down` tries again.
            let _ = crate::down::remove(layout);
        }
    }
}

fn make_directories(layout: &Layout) -> Result<()> {
    let directory = layout.directory();
    layout::make_names()?;
    layout::make_directory(&directory)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(
        Some("weft"),
        &directory,
        Some("tmpfs"),
        flags,
        Some("mode=0755"),
    )
    .map_err(|errno| {
        Error::system(
            format!("mounting a tmpfs on {}", directory.display()),
            errno,
        )
    })?;
    layout::make_directory(&layout.namespaces())
}

fn write(path: &std::path::Path, content: &[u8]) -> Result<()> {
    fs::write(path, content)
        .map_err(|error| Error::system(format!("writing {}", path.display()), error))
}

/// The namespace of a node that is woven here, and a socket in it.
struct Woven {
    node: usize,
    namespace: File,
    socket: Socket,
}

/// All but the hook; gives a descriptor of each node's namespace, by the node's place. The calling thread ends up
/// in one of them.
fn build(plan: &Plan, layout: &Layout) -> Result<Vec<(usize, File)>> {
    let mut outside =
        Socket::open().map_err(|error| Error::system("opening a netlink socket", error))?;
    let mut all = Vec::new();
    for node in plan.topology.ids().filter(|&id| plan.is_here(id)) {
        let node = node.index();
        let (namespace, socket) = make_namespace(plan, layout, node)?;
        all.push(Woven {
            node,
            namespace,
            socket,
        });
    }
    let descriptors: BTreeMap<usize, RawFd> = all
        .iter()
        .map(|it| (it.node, it.namespace.as_raw_fd()))
        .collect();
    for it in &mut all {
        make_links(plan, it.node, &descriptors, &mut it.socket)?;
        make_tunnels(plan, it.node, &descriptors, &mut outside)?;
    }
    for it in &mut all {
        configure(plan, it.node, &it.namespace, &mut it.socket)?;
    }
    for it in &mut all {
        wait_until_operational(plan, it.node, &mut it.socket)?;
    }
    for it in &all {
        machine::join(plan, it.node, &it.namespace)?;
    }
    let namespaces = all.into_iter().map(|it| (it.node, it.namespace));
    Ok(namespaces.collect())
}

fn make_namespace(plan: &Plan, layout: &Layout, node: usize) -> Result<(File, Socket)> {
    let name = &plan.topology.nodes()[node].name;
    let file = namespace::enter_new()?;
    let place = layout.namespaces().join(name);
    File::create_new(&place)
        .and_then(|_| {
            let none = None::<&str>;
            mount(Some(namespace::THIS), &place, none, MsFlags::MS_BIND, none)?;
            std::os::unix::fs::symlink(&place, layout.name(name))
        })
        .map_err(|error| Error::system(format!("naming the namespace of {name}"), error))?;
    if let Some(congestion_control) = plan.nodes[node].metrics.congestion_control() {
        load(congestion_control);
    }
    for sysctl in &plan.nodes[node].sysctls {
        set(sysctl).map_err(|error| refused_sysctl(name, sysctl, error))?;
    }
    let socket = Socket::open()
        .map_err(|error| Error::system(format!("{name}: opening a netlink socket"), error))?;
    Ok((file, socket))
}

/// Has the kernel load a congestion control that routes will name, as its settings come with it: who
/// may administer the machine's network need only ask for it. If that fails there is a better message
/// later, when a setting or a route is refused.
fn load(congestion_control: &str) {
    let kind = SockFlag::SOCK_CLOEXEC;
    if let Ok(socket) = socket(AddressFamily::Inet, SockType::Stream, kind, None) {
        let _ = setsockopt(&socket, sockopt::TcpCongestion, &congestion_control.into());
    }
}

/// Whether the congestion control is there, and is not for everybody to choose. A namespace's default
/// it cannot be then, and must not be tried: Linux 7.2 refuses that and never gives its module back
/// (`tcp_set_default_congestion_control`).
fn is_restricted(congestion_control: &str) -> bool {
    let lists = |list: &str| {
        fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{list}_congestion_control"))
            .is_ok_and(|names| names.split_whitespace().any(|it| it == congestion_control))
    };
    load(congestion_control);
    lists("available") && !lists("allowed")
}

fn set(sysctl: &Sysctl) -> io::Result<()> {
    let default = sysctl.path() == DEFAULT_CONTROL;
    if default && is_restricted(sysctl.value().trim()) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let mut file = match OpenOptions::new().write(true).open(sysctl.path()) {
        Err(error) if sysctl.is_optional() && error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    file.write_all(sysctl.value().as_bytes())
}

fn refused_sysctl(node: &str, sysctl: &Sysctl, error: io::Error) -> Error {
    let (key, value) = (sysctl.key(), sysctl.value());
    let what = format!("{node}: sysctl {key}={value}");
    match error.kind() {
        ErrorKind::NotFound if key.ends_with("congestion_control") => Error::Invalid(format!(
            "{what}: the kernel knows no congestion control `{value}`; load tcp_{value}"
        )),
        // Root may do everything but this: it is for the whole machine to allow.
        ErrorKind::PermissionDenied
            if key.ends_with("congestion_control") && nix::unistd::Uid::effective().is_root() =>
        {
            Error::Invalid(format!(
                "{what}: the kernel gives it to no namespace; write `congctl {value}` in host.route instead"
            ))
        }
        ErrorKind::NotFound => Error::Invalid(format!(
            "{what}: this kernel has no such variable in a network namespace"
        )),
        ErrorKind::InvalidInput => {
            Error::Invalid(format!("{what}: the kernel takes no such value"))
        }
        _ => Error::system(what, error),
    }
}

/// A request that may be refused, for the message.
#[derive(Clone, Copy)]
enum Step {
    Link(usize),
    Tunnel(usize),
    Qdisc(usize, usize),
    Up(usize),
    Loopback,
    Address,
    Neighbour(usize),
    RouteV4(usize),
    RouteV6(usize),
}

/// The end of a link as its device.
fn end<'a>(plan: &Plan, node: &'a Node, port: usize) -> End<'a> {
    End {
        name: &node.ports[port].name,
        index: plan.device_index(node, port),
        mac: node.ports[port].mac,
        mtu: plan.settings.mtu,
        tx_queue_length: plan.settings.tx_queue_length,
        gso_max_segments: plan.settings.gso_max_segments,
    }
}

fn make_links(
    plan: &Plan,
    node: usize,
    namespaces: &BTreeMap<usize, RawFd>,
    socket: &mut Socket,
) -> Result<()> {
    let here = &plan.topology.nodes()[node];
    let (mut batch, mut steps) = (Batch::default(), Vec::new());
    for (index, port) in here.ports.iter().enumerate() {
        if !plan.makes_link(node, index) {
            continue;
        }
        let peer = plan.topology.node(port.peer);
        let ends = (end(plan, here, index), end(plan, peer, port.peer_port));
        batch.add_veth(&ends.0, &ends.1, namespaces[&port.peer.index()]);
        steps.push(Step::Link(index));
    }
    send(plan, node, socket, &mut batch, &steps)
}

/// The ends of a node's links that lead to other machines. Their packets go by the namespace that they are made in, the
/// caller's.
fn make_tunnels(
    plan: &Plan,
    node: usize,
    namespaces: &BTreeMap<usize, RawFd>,
    socket: &mut Socket,
) -> Result<()> {
    let here = &plan.topology.nodes()[node];
    let (mut batch, mut steps) = (Batch::default(), Vec::new());
    for (index, port) in here.ports.iter().enumerate() {
        if let Some(machine) = plan.elsewhere(port.peer) {
            let network = plan.network(port.link);
            batch.add_vxlan(&end(plan, here, index), network, machine, namespaces[&node]);
            steps.push(Step::Tunnel(index));
        }
    }
    send(plan, node, socket, &mut batch, &steps)
}

/// Qdiscs come before a port is up: to change that of one that is makes the kernel wait for all
/// processors. Routes come after, for they want a device that is up.
fn configure(plan: &Plan, node: usize, namespace: &File, socket: &mut Socket) -> Result<()> {
    let (here, own) = (&plan.topology.nodes()[node], &plan.nodes[node]);
    let (mut batch, mut steps) = (Batch::default(), Vec::new());
    // What is left of each port's lines. A port's come in their order, and a node's as few times by
    // `tc` as that allows.
    let mut left: Vec<_> = own.qdiscs.iter().map(|lines| lines.iter()).collect();
    loop {
        let mut for_tc = Vec::new();
        for (port, lines) in left.iter_mut().enumerate() {
            let index = plan.device_index(here, port);
            while let [Command::Qdisc(command), ..] = lines.as_slice() {
                batch.add_qdisc(index, command);
                steps.push(Step::Qdisc(port, own.qdiscs[port].len() - lines.len()));
                lines.next();
            }
            while let [Command::Tc(command), ..] = lines.as_slice() {
                for_tc.push(command);
                lines.next();
            }
        }
        if for_tc.is_empty() {
            break;
        }
        send(plan, node, socket, &mut batch, &steps)?;
        (batch, steps) = Default::default();
        tc::batch(&here.name, namespace, &for_tc)?;
    }
    for port in 0..here.ports.len() {
        batch.set_up(plan.device_index(here, port));
        steps.push(Step::Up(port));
    }
    if own.is_machine {
        return send(plan, node, socket, &mut batch, &steps);
    }
    batch.set_up(LOOPBACK);
    steps.push(Step::Loopback);
    batch.add_address(LOOPBACK, here.address.v4().into());
    batch.add_address(LOOPBACK, here.address.v6().into());
    steps.extend([Step::Address; 2]);
    for (place, port) in here.ports.iter().enumerate() {
        let (index, neighbour) = (plan.device_index(here, place), plan.neighbour(port));
        batch.add_neighbour(index, neighbour.v4.into(), neighbour.mac);
        batch.add_neighbour(index, neighbour.v6.into(), neighbour.mac);
        steps.extend([Step::Neighbour(place); 2]);
    }
    for (place, route) in own.routes.v4.iter().enumerate() {
        let hops = route
            .next_hops
            .iter()
            .map(|hop| (plan.device_index(here, hop.port), hop.gateway));
        batch.add_route(route.prefix, hops, &own.metrics);
        steps.push(Step::RouteV4(place));
    }
    for (place, route) in own.routes.v6.iter().enumerate() {
        let hops = route
            .next_hops
            .iter()
            .map(|hop| (plan.device_index(here, hop.port), hop.gateway));
        batch.add_route(route.prefix, hops, &own.metrics);
        steps.push(Step::RouteV6(place));
    }
    send(plan, node, socket, &mut batch, &steps)
}

fn send(
    plan: &Plan,
    node: usize,
    socket: &mut Socket,
    batch: &mut Batch,
    steps: &[Step],
) -> Result<()> {
    let sent = socket.send(batch).map_err(|error| {
        let name = &plan.topology.nodes()[node].name;
        Error::system(format!("{name}: netlink"), error)
    })?;
    sent.map_err(|refused| explain(plan, node, steps[refused.request], refused))
}

fn explain(plan: &Plan, node: usize, step: Step, refused: Refused) -> Error {
    let (here, own) = (&plan.topology.nodes()[node], &plan.nodes[node]);
    let Refused { errno, message, .. } = refused;
    let port = |index: usize| &here.ports[index].name;
    let what = match step {
        Step::Link(index) => format!("ip link add {} type veth", port(index)),
        Step::Tunnel(index) => format!("ip link add {} type vxlan", port(index)),
        Step::Qdisc(index, place) => format!("tc {}", own.qdiscs[index][place]),
        Step::Up(index) => format!("ip link set {} up", port(index)),
        Step::Loopback => "ip link set lo up".to_owned(),
        Step::Address => "ip address add dev lo".to_owned(),
        Step::Neighbour(index) => format!("ip neighbour add dev {}", port(index)),
        Step::RouteV4(place) => format!(
            "ip {}",
            RouteCommand(here, &own.routes.v4[place], &own.metrics)
        ),
        Step::RouteV6(place) => format!(
            "ip {}",
            RouteCommand(here, &own.routes.v6[place], &own.metrics)
        ),
    };
    let what = format!("{}: `{what}`", here.name);
    let unknown = message
        .as_deref()
        .is_some_and(|text| text.contains("kind is unknown"));
    match step {
        Step::Qdisc(index, place) if unknown => Error::NoQdisc {
            what,
            kind: own.qdiscs[index][place]
                .qdisc()
                .unwrap_or_default()
                .to_owned(),
        },
        _ if errno == nix::errno::Errno::EPERM => Error::Privilege { what },
        _ => Error::Refused {
            what,
            errno,
            message,
        },
    }
}

/// The end of a link that came up first learns of the other's in the background, and drops packets
/// until then.
fn wait_until_operational(plan: &Plan, node: usize, socket: &mut Socket) -> Result<()> {
    let node = &plan.topology.nodes()[node];
    // A tunnel never says.
    let silent: Vec<u32> = (0..node.ports.len())
        .filter(|&port| !plan.is_here(node.ports[port].peer))
        .map(|port| plan.device_index(node, port))
        .collect();
    let begun = Instant::now();
    let (mut request, mut buffer) = (Batch::links(), Vec::new());
    let netlink = |error| Error::system(format!("{}: netlink", node.name), error);
    loop {
        let mut waiting = Vec::new();
        let each = |link: &[u8]| {
            waiting.extend(not_operational(link).filter(|index| !silent.contains(index)));
        };
        socket
            .ask(&mut request, &mut buffer, each)
            .map_err(netlink)?;
        if waiting.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(Error::Invalid(format!(
                "{}: {} of {} ports are not operational after {} s; the machine is overloaded, \
                 try again",
                node.name,
                waiting.len(),
                node.ports.len(),
                PATIENCE.as_secs()
            )));
        }
        // Since Linux 6.8 a request for one link, unlike a dump, makes the kernel do it now.
        for index in waiting {
            socket
                .ask(&mut Batch::link(index), &mut buffer, |_| {})
                .map_err(netlink)?;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// The index of a port that is not; a loopback device never says.
fn not_operational(link: &[u8]) -> Option<u32> {
    const UP: u8 = 6; // IF_OPER_UP
    let index = attributes::u32_at(link, 4).filter(|&index| index != LOOPBACK)?;
    let up = attributes::read(link.get(16..)?)
        .any(|(kind, value)| kind == libc::IFLA_OPERSTATE && value == [UP]);
    (!up).then_some(index)
}

fn call(plan: &Plan, namespaces: &[(usize, File)], hook: &mut Hook<'_>) -> Result<()> {
    for (node, namespace) in namespaces {
        let node = &plan.topology.nodes()[*node];
        namespace::visit(namespace, || {
            for (index, port) in node.ports.iter().enumerate() {
                let index = plan.device_index(node, index);
                hook(Visit { node, port, index }).map_err(|source| Error::Hook {
                    node: node.name.clone(),
                    port: port.name.clone(),
                    source,
                })?;
            }
            Ok(())
        })??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Settings;
    use nix::errno::Errno;

    fn refusal(errno: Errno, message: Option<&str>) -> String {
        let topology = "rack:hosts=2"
            .parse::<weft_topo::Spec>()
            .unwrap()
            .topology();
        let mut plan = Plan::new("x", &topology, Settings::default()).unwrap();
        plan.set_qdiscs(|_, port, _| {
            let line = format!(
                "qdisc add dev {} root handle 1: pfabric limit 24",
                port.name
            );
            crate::qdisc::parse("lines", &line)
        })
        .unwrap();
        let message = message.map(str::to_owned);
        let refused = Refused {
            request: 0,
            errno,
            message,
        };
        explain(&plan, 2, Step::Qdisc(1, 0), refused).to_string()
    }

    #[test]
    fn a_qdisc_that_the_kernel_lacks_is_named_with_its_module() {
        assert_eq!(
            refusal(Errno::ENOENT, Some("Specified qdisc kind is unknown")),
            "tor0: `tc qdisc add dev h1 root handle 1: pfabric limit 24`: the kernel knows no qdisc \
             `pfabric`; load sch_pfabric, or choose another scheme"
        );
    }

    #[test]
    fn other_refusals_are_the_kernels_sentence() {
        let what = "tor0: `tc qdisc add dev h1 root handle 1: pfabric limit 24`: ";
        assert_eq!(
            refusal(
                Errno::ERANGE,
                Some("Limit must be between 1 and 65536 packets")
            ),
            format!("{what}Limit must be between 1 and 65536 packets (ERANGE)")
        );
        assert_eq!(
            refusal(Errno::ENOMEM, None),
            format!("{what}Out of memory (ENOMEM)")
        );
        assert_eq!(
            refusal(Errno::EPERM, None),
            format!("{what}not permitted; run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN")
        );
    }
}
