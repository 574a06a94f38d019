// SPDX-License-Identifier: MIT OR Apache-2.0

//! Builds a plan, completely or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{Duration, Instant, SystemTime};

use nix::mount::{MsFlags, mount};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use weft_topo::{Node, Port};
use weft_words::shell::quoted;

use crate::error::{Error, Result, invalid};
use crate::inherited;
use crate::layout::{self, Layout, Lock};
use crate::links;
use crate::machine;
use crate::metrics::RouteCommand;
use crate::modules;
use crate::namespace;
use crate::netlink::{Batch, End, Refused, Socket};
use crate::plan::{DEFAULT_CONTROL, LOOPBACK, NodePlan, Plan};
use crate::processes::Processes;
use crate::qdisc::Command;
use crate::sysctl::{self, Sysctl};
use crate::tc;
use crate::testbed::{Record, Testbed};

/// A port of a testbed that is being built. The calling thread is in its namespace; all links,
/// addresses, routes and qdiscs exist.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// The node, whose kind is the port's role.
    pub node: &'a Node,
    /// The port.
    pub port: &'a Port,
    /// The index of the port's device.
    pub index: u32,
}

/// The caller's action at every port, such as attaching programs.
pub type Hook<'a> =
    dyn FnMut(Visit<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'a;

/// How long ports may take to become operational, once both ends are up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Builds `plan`; then calls `hook`, if there is one, at every port; then starts the plan's
/// processes. Either all of that succeeds or nothing remains.
///
/// Raises the process's soft limit of open files if there are more nodes than it allows.
///
/// # Errors
///
/// [`Error::AlreadyUp`], [`Error::Interrupted`]; [`Error::Privilege`]; refusals by the kernel;
/// errors of the hook; a process that cannot be started, or ends at once.
pub fn up(plan: &Plan, hook: Option<&mut Hook<'_>>) -> Result<Testbed> {
    up_watched(plan, hook).map(|(testbed, _)| testbed)
}

/// Like `up`, for callers that watch the processes.
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
    let (namespaces, inherited) = namespace::on_thread(|| build(plan, &layout))?;
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
        inherited,
        created: SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_secs()),
    };
    let json = serde_json::to_vec(&record).expect("a record is plain data");
    // Atomically, because a testbed with a record is complete.
    let unfinished = layout.record().with_extension("new");
    write(&unfinished, &json)?;
    fs::rename(&unfinished, layout.record())
        .map_err(|error| Error::system("writing the record", error))?;
    undo.forget();
    drop(lock);
    Ok((Testbed::open(&plan.testbed)?, processes))
}

/// Removes all parts if building ends early, even by a panic.
struct Undo(Option<Layout>);

impl Undo {
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(layout) = &self.0 {
            // The original error is reported; `weft down` tries again.
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
        let what = format!("mounting a tmpfs on {}", directory.display());
        Error::mounting(what, errno)
    })?;
    layout::make_directory(&layout.namespaces())
}

fn write(path: &std::path::Path, content: &[u8]) -> Result<()> {
    fs::write(path, content)
        .map_err(|error| Error::system(format!("writing {}", path.display()), error))
}

/// A descriptor of each node's namespace, with the node's index.
type Namespaces = Vec<(usize, File)>;

/// The namespace of a node that is built here, and a socket in it.
struct Woven {
    node: usize,
    namespace: File,
    socket: Socket,
}

/// Builds everything except the hook's part. Returns a descriptor of each node's namespace, with
/// the node's index, and the settings that nodes have inherited. The calling thread ends up in one
/// of the namespaces.
fn build(plan: &Plan, layout: &Layout) -> Result<(Namespaces, BTreeMap<String, String>)> {
    let mut outside =
        Socket::open().map_err(|error| Error::system("opening a netlink socket", error))?;
    let (mut all, mut inherited) = (Vec::new(), Inherited::default());
    for node in plan.topology.ids().filter(|&id| plan.is_here(id)) {
        let node = node.index();
        let (namespace, mut socket) = make_namespace(plan, layout, node, &mut inherited)?;
        if all.is_empty() {
            check_devices(plan, &mut socket)?;
        }
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
    for it in &all {
        set_sysctls_of_ports(plan, it)?;
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
    // Variables that the scheme sets in each node are no longer the machine's.
    let set = |key: &str| plan.nodes.iter().all(|own| own.sysctl(key).is_some());
    inherited.kept.retain(|key, _| match key.as_str() {
        inherited::CONTROL => plan.has_default_control(),
        key => !set(key),
    });
    inherited.kept.extend(inherited::tuned_settings());
    let namespaces = all.into_iter().map(|it| (it.node, it.namespace));
    Ok((namespaces.collect(), inherited.kept))
}

/// The settings that nodes inherit from the machine.
#[derive(Default)]
struct Inherited {
    /// The settings of a new namespace that differ from the kernel's defaults; known with the first
    /// one.
    deviating: Option<Vec<(String, &'static str)>>,
    /// Those that could not be set, with their values.
    kept: BTreeMap<String, String>,
}

impl Inherited {
    /// Resets them in the calling thread's namespace, which is new.
    fn undo(&mut self, plan: &Plan) {
        let deviating = self.deviating.get_or_insert_with(|| {
            let mut all = inherited::deviating(plan.ipv6);
            // See `is_restricted`: it must not be tried.
            let is_control = |(key, _): &(String, &str)| key == inherited::CONTROL;
            if all.iter().any(is_control) && is_restricted(inherited::CUBIC) {
                all.retain(|it| !is_control(it));
                let found = sysctl::get(inherited::CONTROL).unwrap_or_default();
                self.kept.insert(inherited::CONTROL.to_owned(), found);
            }
            all
        });
        inherited::set(deviating, &mut self.kept);
    }
}

/// Sets a scheme's variables of a node's devices.
fn set_sysctls_of_ports(plan: &Plan, woven: &Woven) -> Result<()> {
    let (node, own) = (&plan.topology.nodes()[woven.node], &plan.nodes[woven.node]);
    let mut of_ports = own.sysctls_of_ports(node).peekable();
    if of_ports.peek().is_none() {
        return Ok(());
    }
    namespace::visit(&woven.namespace, || {
        of_ports.try_for_each(|sysctl| {
            set(sysctl, own).map_err(|error| refused_sysctl(&node.name, sysctl, error))
        })
    })?
}

fn make_namespace(
    plan: &Plan,
    layout: &Layout,
    node: usize,
    inherited: &mut Inherited,
) -> Result<(File, Socket)> {
    let name = &plan.topology.nodes()[node].name;
    let file = namespace::enter_new()?;
    let place = layout.namespaces().join(name);
    File::create_new(&place)
        .and_then(|_| {
            let none = None::<&str>;
            mount(Some(namespace::THIS), &place, none, MsFlags::MS_BIND, none)?;
            std::os::unix::fs::symlink(&place, layout.name(name))
        })
        .map_err(|error| Error::mounting(format!("naming the namespace of {name}"), error))?;
    inherited.undo(plan);
    if let Some(congestion_control) = plan.nodes[node].metrics.congestion_control() {
        load(congestion_control);
    }
    let own = &plan.nodes[node];
    for (place, sysctl) in own.sysctls.iter().enumerate() {
        let of_scheme = place >= own.of_scheme;
        match set(sysctl, own) {
            // A port that does not exist yet.
            Err(error)
                if of_scheme
                    && error.kind() == ErrorKind::NotFound
                    && own
                        .sysctls_of_ports(&plan.topology.nodes()[node])
                        .any(|it| it == sysctl) => {}
            set => set.map_err(|error| refused_sysctl(name, sysctl, error))?,
        }
    }
    let socket = Socket::open()
        .map_err(|error| Error::system(format!("{name}: opening a netlink socket"), error))?;
    Ok((file, socket))
}

/// Checks that no port has the name of an initial device of a new namespace: all begin with the
/// same.
fn check_devices(plan: &Plan, socket: &mut Socket) -> Result<()> {
    let mut names = Vec::new();
    links::each(socket, |device| names.push(device.name.to_owned()))
        .map_err(|error| Error::system("listing a new namespace's devices", error))?;
    let nodes = plan.topology.nodes().iter();
    let mut ports = nodes.flat_map(|node| node.ports.iter().map(move |port| (node, port)));
    match ports.find(|(_, port)| names.contains(&port.name)) {
        None => Ok(()),
        Some((node, port)) => invalid(format!(
            "{}: its port cannot be named {}: a module of this kernel makes a device of that name in each \
             namespace; rename the node {}, or keep them out with `sysctl -w \
             net.core.fb_tunnels_only_for_init_net=1`",
            node.name,
            port.name,
            plan.topology.node(port.peer).name
        )),
    }
}

/// Makes the kernel load a congestion control that routes will name, because its settings come with
/// it: an administrator of the machine's network only needs to request it. If that fails, there is
/// a better message later, when a setting or a route is refused.
fn load(congestion_control: &str) {
    let kind = SockFlag::SOCK_CLOEXEC;
    if let Ok(socket) = socket(AddressFamily::Inet, SockType::Stream, kind, None) {
        let _ = setsockopt(&socket, sockopt::TcpCongestion, &congestion_control.into());
    }
}

/// Whether the congestion control exists, and is restricted. It then cannot be a namespace's
/// default, and must not be tried: Linux 7.2 refuses that and never releases its module
/// (`tcp_set_default_congestion_control`).
fn is_restricted(congestion_control: &str) -> bool {
    let lists = |list: &str| {
        fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{list}_congestion_control"))
            .is_ok_and(|names| names.split_whitespace().any(|it| it == congestion_control))
    };
    load(congestion_control);
    lists("available") && !lists("allowed")
}

fn set(sysctl: &Sysctl, own: &NodePlan) -> io::Result<()> {
    let default = sysctl.path() == DEFAULT_CONTROL;
    if default && is_restricted(sysctl.value().trim()) {
        return match sysctl.is_ignored() {
            true => Ok(()),
            false => Err(ErrorKind::PermissionDenied.into()),
        };
    }
    sysctl.set(&own.sysctls[own.of_scheme..])
}

fn refused_sysctl(node: &str, sysctl: &Sysctl, error: io::Error) -> Error {
    let (key, value) = (sysctl.key(), sysctl.value());
    let what = format!("{node}: sysctl {key}={value}");
    match error.kind() {
        ErrorKind::NotFound if key.ends_with("congestion_control") => Error::Invalid(format!(
            "{what}: the kernel knows no congestion control `{value}`; load tcp_{value}"
        )),
        // Root may do everything except these, which the whole machine's administrator decides.
        ErrorKind::PermissionDenied
            if key.ends_with("congestion_control") && nix::unistd::Uid::effective().is_root() =>
        {
            Error::Invalid(format!(
                "{what}: the kernel gives it to no namespace; write `congctl {value}` in host.route instead"
            ))
        }
        ErrorKind::PermissionDenied if nix::unistd::Uid::effective().is_root() => {
            Error::Invalid(format!(
                "{what}: the variable is read-only in a network namespace; set it for the whole machine with \
                 `sysctl -w {}`, and leave it out here or begin its line with `-`",
                quoted(&format!("{key}={value}"))
            ))
        }
        ErrorKind::NotFound => Error::Invalid(format!(
            "{what}: this kernel has no such variable in a network namespace; leave it out, or begin its line \
             with `-`"
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

/// The end of a link as a device.
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

/// Creates the ends of a node's links to other machines. Their packets go through the namespace in
/// which they are created, the caller's.
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

/// Qdiscs are added before a port is up, because changing the qdisc of one that is up makes the
/// kernel wait for all processors. Routes are added after, because they require a device that is
/// up.
fn configure(plan: &Plan, node: usize, namespace: &File, socket: &mut Socket) -> Result<()> {
    let (here, own) = (&plan.topology.nodes()[node], &plan.nodes[node]);
    let (mut batch, mut steps) = (Batch::default(), Vec::new());
    // The remaining lines of each port. A port's lines keep their order, and `tc` is run as few
    // times per node as that allows.
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
    for address in plan.addresses(here) {
        batch.add_address(LOOPBACK, address);
        steps.push(Step::Address);
    }
    for (place, port) in here.ports.iter().enumerate() {
        let (index, neighbour) = (plan.device_index(here, place), plan.neighbour(port));
        for address in neighbour.addresses {
            batch.add_neighbour(index, address, neighbour.mac);
            steps.push(Step::Neighbour(place));
        }
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
        _ if errno == nix::errno::Errno::EPERM => Error::not_permitted(what),
        _ => Error::Refused {
            what,
            errno,
            message,
        },
    }
}

/// The end of a link that came up first learns of the other one's state in the background, and
/// drops packets until then.
fn wait_until_operational(plan: &Plan, node: usize, socket: &mut Socket) -> Result<()> {
    let node = &plan.topology.nodes()[node];
    // The node's own ports: other devices may stay down. A tunnel never reports it.
    let ports: Vec<u32> = (0..node.ports.len())
        .filter(|&port| plan.is_here(node.ports[port].peer))
        .map(|port| plan.device_index(node, port))
        .collect();
    let begun = Instant::now();
    let netlink = |error| Error::system(format!("{}: netlink", node.name), error);
    loop {
        let mut waiting = Vec::new();
        links::each(socket, |device| {
            if !device.is_operational && ports.contains(&device.index) {
                waiting.push(device.index);
            }
        })
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
                .ask(&mut Batch::link(index), &mut Vec::new(), |_| {})
                .map_err(netlink)?;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn call(plan: &Plan, namespaces: &[(usize, File)], hook: &mut Hook<'_>) -> Result<()> {
    for (node, namespace) in namespaces {
        let node = &plan.topology.nodes()[*node];
        namespace::visit(namespace, || {
            for (index, port) in node.ports.iter().enumerate() {
                let index = plan.device_index(node, index);
                hook(Visit { node, port, index }).map_err(|error| Error::Hook {
                    node: node.name.clone(),
                    port: port.name.clone(),
                    error,
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
    fn other_refusals_have_the_kernels_sentence() {
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
            Error::not_permitted(what.trim_end_matches(": ").to_owned()).to_string()
        );
    }
}
