// SPDX-License-Identifier: MIT OR Apache-2.0

//! Qdiscs come, change, move and go while packets are under way.
//!
//! That nothing warns, nobody is left and no packet leaks is checked after every test, and in
//! `leaks`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags};
use weft_mechanisms::common::mechanism;
use weft_mechanisms::wire::options::Options;

use crate::blaster::Blaster;
use crate::model::Packet;
use crate::modules;
use crate::netlink::{Handle, Nest, Refused, Verb};
use crate::packets::Receiver;
use crate::port::{INDEX, Port, limit, rate};
use crate::random::Random;
use weft_ktap::Namespace;
use weft_ktap::{Context, tests};

tests![
    options_change_under_traffic,
    the_child_is_replaced_under_traffic,
    the_root_is_replaced_under_traffic,
    a_refused_child_leaves_the_old_one_at_work,
    #[exact = "a backlog must exist when tc has ended"]
    a_deleted_child_drops_everything,
    a_link_goes_down_and_up_under_traffic,
    #[exact = "a burst must arrive faster than its port sends"]
    the_mtu_changes_under_traffic,
    the_queue_length_changes_under_traffic,
    the_device_is_deleted_under_traffic,
    the_namespaces_are_deleted_under_traffic,
    a_module_is_removed_only_when_unused,
    the_module_of_each_qdisc_is_removed_only_when_unused,
    modules_are_loaded_and_removed_beside_qdiscs,
    pfabric_can_be_the_default_qdisc,
    wire_as_the_default_qdisc_is_refused_and_harmless,
    #[stock]
    memory_is_charged_to_the_cgroup_that_requests_it,
];

const WIRE: Handle = Handle::new(1, 0);
const PFABRIC: Handle = Handle::new(2, 0);
const LEAF: Handle = Handle::new(1, 1);

fn pause() {
    std::thread::sleep(Duration::from_millis(7));
}

/// 10 Mbit/s and 20 ms, so that packets wait and are in flight at any time.
fn busy_wire() -> Options {
    Options {
        delay: Some(20_000_000),
        ..rate(10_000_000)
    }
}

fn busy_port() -> Result<Port> {
    let mut port = Port::new()?;
    port.add_wire_and_pfabric(&busy_wire(), &limit(24))?;
    Ok(port)
}

/// A cgroup that counts memory, as long as this lives.
struct Cgroup {
    mount: PathBuf,
    group: PathBuf,
}

impl Cgroup {
    fn new() -> Result<Self> {
        let mount = PathBuf::from(format!("/run/weft-memory-{}", std::process::id()));
        std::fs::create_dir_all(&mount)?;
        let none = None::<&str>;
        nix::mount::mount(none, &mount, Some("cgroup2"), MsFlags::empty(), none)
            .context("cgroup2")?;
        let cgroup = Self {
            group: mount.join("weft"),
            mount,
        };
        std::fs::write(cgroup.mount.join("cgroup.subtree_control"), "+memory")
            .context("the kernel has no memory controller")?;
        std::fs::create_dir_all(&cgroup.group)?;
        Ok(cgroup)
    }

    /// Bytes of kernel memory that count for it.
    fn kernel_memory(&self) -> Result<u64> {
        let text = std::fs::read_to_string(self.group.join("memory.stat"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("kernel "));
        Ok(line.context("memory.stat has no kernel memory")?.parse()?)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.group);
        let _ = nix::mount::umount2(&self.mount, MntFlags::MNT_DETACH);
        let _ = std::fs::remove_dir(&self.mount);
    }
}

/// Any user with a user namespace can create qdiscs: their memory has the limits of the user.
fn memory_is_charged_to_the_cgroup_that_requests_it(cx: &Context) -> Result<()> {
    const LIMIT: u64 = 65_536;
    let port = Port::new()?;
    let cgroup = Cgroup::new()?;
    let before = cgroup.kernel_memory()?;
    let group = cgroup.group.display();
    let script = format!(
        "echo $$ >{group}/cgroup.procs && exec tc qdisc add dev v0 root pfabric limit {LIMIT}"
    );
    let status = port
        .near
        .enter(|| Command::new("sh").args(["-c", &script]).status())??;
    ensure!(status.success(), "{status}");
    let added = cgroup.kernel_memory()? - before;
    cx.note(format!(
        "{added} bytes of kernel memory for {LIMIT} packets"
    ));
    // A slot alone has 32 bytes.
    ensure!(added >= 32 * LIMIT, "{added} bytes count");
    port.tc("qdisc del dev {v} root")?;
    let left = cgroup.kernel_memory()? - before;
    ensure!(left < 32 * LIMIT, "{left} of {added} bytes still count");
    Ok(())
}

/// Checks that the port works: everything drains, and then a packet passes.
fn ensure_at_work(port: &mut Port) -> Result<()> {
    port.drain(Duration::from_secs(60))?;
    let receiver = port.receiver()?;
    ensure!(
        port.sender()?.send(&Packet {
            id: 1,
            rank: 0,
            flow: 0,
            len: 100
        })?,
        "dropped"
    );
    receiver.expect(1, Duration::from_secs(1)).map(drop)
}

/// Checks that every packet sent arrived or was counted as dropped by the root.
fn ensure_accounted(cx: &Context, port: &mut Port, receiver: &Receiver, sent: u64) -> Result<()> {
    port.drain(Duration::from_secs(60))?;
    let arrived = receiver.arrivals()?.len() as u64;
    let dropped = u64::from(port.find(WIRE)?.drops);
    cx.note(format!("{sent} sent, {arrived} arrived, {dropped} dropped"));
    ensure!(
        sent == arrived + dropped,
        "{sent} sent, {arrived} arrived, {dropped} dropped"
    );
    ensure!(arrived > 100 && dropped > 100);
    Ok(())
}

fn options_change_under_traffic(cx: &Context) -> Result<()> {
    let mut port = busy_port()?;
    let receiver = port.receiver()?;
    let blaster = Blaster::start(&port)?;
    let mut random = Random::new(1);
    for _ in 0..100 {
        pause();
        let options = weft_mechanisms::pfabric::options::Options {
            limit: Some(random.between(1, 100)),
            limit_bytes: random.choose(&[None, Some(0), Some(1), Some(20_000)]),
            starvation_prevention: Some(random.one_in(2)),
        };
        port.qdisc(
            Verb::Change,
            "pfabric",
            LEAF,
            PFABRIC,
            Nest::of(|nest| options.put(nest)),
        )?;
        let options = Options {
            delay: Some(u64::from(random.below(30_000_000))),
            overhead: Some(random.below(100)),
            mpu: Some(random.below(100)),
            slack: Some(random.choose(&[0, 1_000, 100_000, 10_000_000])),
            ..rate(random.between(1_000_000, 100_000_000).into())
        };
        port.qdisc(
            Verb::Change,
            "wire",
            Handle::ROOT,
            WIRE,
            Nest::of(|nest| options.put(nest)),
        )?;
    }
    let sent = blaster.finish()?;
    ensure_accounted(cx, &mut port, &receiver, sent)
}

/// Children for a wire.
const CHILDREN: [&str; 8] = [
    "bfc th 3kb",
    "pfabric",
    "pfifo limit 30",
    "fq_codel",
    "pfabric limit 100",
    "prio",
    "tbf rate 5mbit burst 3000 limit 20000",
    "fq",
];

/// `tc` with pfabric's options would need the plugin, which has tests of its own.
fn graft(port: &mut Port, child: &str, major: u16) -> Result<()> {
    if let Some(options) = child.strip_prefix("pfabric") {
        let packets = options
            .strip_prefix(" limit ")
            .map(str::parse)
            .transpose()?;
        let options = limit(packets.unwrap_or(24));
        let payload = Nest::of(|nest| options.put(nest));
        return port.qdisc(
            Verb::Replace,
            "pfabric",
            LEAF,
            Handle::new(major, 0),
            payload,
        );
    }
    port.tc(&format!(
        "qdisc replace dev {{v}} parent 1:1 handle {major:x}: {child}"
    ))
    .map(drop)
}

fn the_child_is_replaced_under_traffic(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    port.add_wire(Handle::ROOT, WIRE, &busy_wire())?;
    let receiver = port.receiver()?;
    let blaster = Blaster::start(&port)?;
    for _ in 0..4 {
        for (major, child) in (2..).zip(CHILDREN) {
            graft(&mut port, child, major)
                .with_context(|| format!("replacing the child by {child}"))?;
            pause();
        }
    }
    let sent = blaster.finish()?;
    // What a child that goes away holds is purged and not counted as dropped.
    port.drain(Duration::from_secs(60))?;
    let arrived = receiver.arrivals()?.len() as u64;
    cx.note(format!("{sent} sent, {arrived} arrived"));
    ensure!(
        arrived > 100 && arrived < sent,
        "{sent} sent, {arrived} arrived"
    );
    ensure_at_work(&mut port)
}

fn the_root_is_replaced_under_traffic(_: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let blaster = Blaster::start(&port)?;
    for _ in 0..10 {
        port.add_wire_and_pfabric(&busy_wire(), &limit(24))?;
        pause();
        let payload = Nest::of(|nest| limit(24).put(nest));
        port.qdisc(
            Verb::Replace,
            "pfabric",
            Handle::ROOT,
            Handle::new(3, 0),
            payload,
        )?;
        pause();
        port.tc("qdisc replace dev {v} root handle 4: htb default 1")?;
        pause();
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
        pause();
    }
    port.add_wire_and_pfabric(&busy_wire(), &limit(24))?;
    blaster.finish()?;
    ensure_at_work(&mut port)
}

fn a_refused_child_leaves_the_old_one_at_work(_: &Context) -> Result<()> {
    let mut port = busy_port()?;
    let blaster = Blaster::start(&port)?;
    pause();
    for _ in 0..20 {
        let bad = Nest::of(|nest| limit(0).put(nest));
        let result = port.qdisc(Verb::Replace, "pfabric", LEAF, Handle::new(3, 0), bad);
        ensure!(result.is_err(), "a child with a limit of 0 was accepted");
        // A wire needs a rate.
        let result = port.qdisc(Verb::Replace, "wire", LEAF, Handle::new(3, 0), Vec::new());
        ensure!(result.is_err(), "a child without a rate was accepted");
        pause();
    }
    blaster.finish()?;
    let (config, _) = port.pfabric(PFABRIC)?;
    ensure!(config.limit == 24, "{config:?}");
    ensure_at_work(&mut port)
}

fn a_deleted_child_drops_everything(_: &Context) -> Result<()> {
    let mut port = busy_port()?;
    let blaster = Blaster::start(&port)?;
    for _ in 0..10 {
        pause();
        port.netlink.delete_qdisc(INDEX, LEAF)?;
        pause();
        let (_, stats) = port.wire(WIRE)?;
        let qlen = port.find(WIRE)?.qlen;
        // In flight is all that is left: what is sent meanwhile has nowhere to wait.
        ensure!(
            qlen == stats.in_flight,
            "{qlen} packets inside, {} in flight",
            stats.in_flight
        );
        port.add_pfabric(LEAF, PFABRIC, &limit(24))?;
    }
    blaster.finish()?;
    ensure_at_work(&mut port)
}

fn a_link_goes_down_and_up_under_traffic(_: &Context) -> Result<()> {
    let mut port = busy_port()?;
    let mut blaster = Blaster::start(&port)?;
    for _ in 0..10 {
        pause();
        port.netlink.set_up(INDEX, false)?;
        for qdisc in port.qdiscs()? {
            ensure!(
                (qdisc.qlen, qdisc.backlog) == (0, 0),
                "not emptied: {qdisc:?}"
            );
        }
        let (_, stats) = port.wire(WIRE)?;
        ensure!(
            (stats.in_flight, stats.in_flight_bytes) == (0, 0),
            "{stats:?}"
        );
        port.netlink.set_up(INDEX, true)?;
        // The packet socket keeps the error of the link's fall.
        blaster.finish()?;
        blaster = Blaster::start(&port)?;
    }
    blaster.finish()?;
    ensure_at_work(&mut port)
}

fn the_mtu_changes_under_traffic(cx: &Context) -> Result<()> {
    let mut port = busy_port()?;
    let receiver = port.receiver()?;
    let blaster = Blaster::start(&port)?;
    for mtu in [1500, 9000, 1450].repeat(10) {
        pause();
        port.netlink.set_mtu(INDEX, mtu)?;
    }
    let sent = blaster.finish()?;
    ensure_accounted(cx, &mut port, &receiver, sent)
}

fn the_queue_length_changes_under_traffic(_: &Context) -> Result<()> {
    let mut port = busy_port()?;
    let blaster = Blaster::start(&port)?;
    for length in ["1000", "1", "50"].repeat(5) {
        pause();
        let mut command = Command::new("ip");
        command.args(["link", "set", "v0", "txqueuelen", length]);
        let status = port.near.enter(|| command.status())??;
        ensure!(status.success(), "txqueuelen {length}: {status}");
    }
    // Meanwhile the device had no qdisc, and whichever timer fired then was lost (7.3's
    // dev_qdisc_change_tx_queue_len neither empties a qdisc nor runs it again, be it tbf or fq):
    // the next packet wakes it.
    pause();
    blaster.finish()?;
    ensure_at_work(&mut port)
}

fn the_device_is_deleted_under_traffic(_: &Context) -> Result<()> {
    for _ in 0..5 {
        let port = busy_port()?;
        let blaster = Blaster::start(&port)?;
        pause();
        let status = port
            .near
            .enter(|| Command::new("ip").args(["link", "del", "v0"]).status())??;
        ensure!(status.success(), "ip link del: {status}");
        blaster.finish()?;
    }
    Ok(())
}

fn the_namespaces_are_deleted_under_traffic(_: &Context) -> Result<()> {
    for _ in 0..5 {
        let port = busy_port()?;
        let blaster = Blaster::start(&port)?;
        pause();
        // The blaster's socket holds its namespace: the far one goes first, with both devices.
        let Port {
            near,
            far,
            netlink,
            far_netlink,
        } = port;
        drop((far, far_netlink));
        pause();
        drop((near, netlink));
        pause();
        blaster.finish()?;
    }
    modules::wait_until_unused()
}

const MODULES: [&str; 2] = ["sch_pfabric", "sch_wire"];

fn a_module_is_removed_only_when_unused(_: &Context) -> Result<()> {
    for _ in 0..5 {
        // Adding loads them, by their aliases.
        let mut port = busy_port()?;
        let blaster = Blaster::start(&port)?;
        for module in MODULES {
            ensure!(
                modules::users(module) == Some(1),
                "{module}: {:?}",
                modules::users(module)
            );
            for _ in 0..10 {
                let result = modules::remove(module);
                ensure!(
                    result == Err(Errno::EWOULDBLOCK),
                    "removing {module} in use: {result:?}"
                );
            }
        }
        pause();
        port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
        for module in MODULES {
            modules::remove_when_unused(module)?;
        }
        blaster.finish()?;
    }
    Ok(())
}

fn the_module_of_each_qdisc_is_removed_only_when_unused(_: &Context) -> Result<()> {
    for mechanism::Qdisc { kind, example, .. } in weft_mechanisms::QDISCS {
        let module = format!("sch_{kind}");
        let port = Port::new()?;
        port.tc(&format!(
            "qdisc add dev {{v}} root handle 1: {kind} {example}"
        ))?;
        let users = modules::users(&module);
        ensure!(users == Some(1), "{module}: {users:?}");
        let result = modules::remove(&module);
        ensure!(
            result == Err(Errno::EWOULDBLOCK),
            "removing {module} in use: {result:?}"
        );
        port.tc("qdisc del dev {v} root")?;
        modules::remove_when_unused(&module)?;
    }
    Ok(())
}

fn modules_are_loaded_and_removed_beside_qdiscs(cx: &Context) -> Result<()> {
    let mut port = Port::new()?;
    let stop = Arc::new(AtomicBool::new(false));
    let remover = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut random = Random::new(5);
            let mut removed = 0;
            while !stop.load(Ordering::Relaxed) {
                removed += MODULES
                    .iter()
                    .filter(|name| modules::remove(name).is_ok())
                    .count();
                std::thread::sleep(Duration::from_micros(random.below(3000).into()));
            }
            removed
        }
    });
    let mut random = Random::new(6);
    let mut added = 0;
    for _ in 0..100 {
        // It may be gone again before the kind is looked up: then there is no such kind.
        match port.add_wire_and_pfabric(&busy_wire(), &limit(24)) {
            Ok(()) => added += 1,
            Err(error) => match error.downcast_ref::<Refused>() {
                Some(Refused {
                    errno: Errno::ENOENT | Errno::EAGAIN,
                    ..
                }) => {}
                _ => bail!(error),
            },
        }
        if port.find(WIRE).is_ok() {
            port.netlink.delete_qdisc(INDEX, Handle::ROOT)?;
        }
        std::thread::sleep(Duration::from_micros(random.below(5000).into()));
    }
    stop.store(true, Ordering::Relaxed);
    let removed = remover.join().expect("the remover does not panic");
    cx.note(format!(
        "{added} of 100 times added, {removed} modules removed"
    ));
    ensure!(added > 0 && removed > 0);
    Ok(())
}

const DEFAULT: &str = "/proc/sys/net/core/default_qdisc";

/// Another default qdisc, until dropped.
struct DefaultQdisc {
    before: String,
}

impl DefaultQdisc {
    fn set(kind: &str) -> Result<Self> {
        let before = std::fs::read_to_string(DEFAULT).context(DEFAULT)?;
        std::fs::write(DEFAULT, kind).with_context(|| format!("{DEFAULT} = {kind}"))?;
        Ok(Self { before })
    }
}

impl Drop for DefaultQdisc {
    fn drop(&mut self) {
        std::fs::write(DEFAULT, self.before.trim()).expect("the default was valid before");
    }
}

/// The qdiscs of a device that has one by default (a veth has none), after it came up.
fn qdiscs_of_a_new_device() -> Result<Vec<crate::netlink::Qdisc>> {
    let namespace = Namespace::without_ipv6()?;
    for arguments in ["link add i0 type ifb", "link set i0 up"] {
        let output =
            namespace.enter(|| Command::new("ip").args(arguments.split(' ')).output())??;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ip {arguments}: {stderr}");
    }
    let index = namespace.enter(|| nix::net::if_::if_nametoindex("i0"))??;
    crate::netlink::Netlink::open(&namespace)?.qdiscs(index)
}

fn pfabric_can_be_the_default_qdisc(_: &Context) -> Result<()> {
    let _default = DefaultQdisc::set("pfabric")?;
    let qdiscs = qdiscs_of_a_new_device()?;
    ensure!(
        qdiscs.iter().any(|qdisc| qdisc.kind == "pfabric"),
        "{qdiscs:?}"
    );
    // mq gives each queue the default, and it works.
    let mut port = Port::with_queues(4)?;
    port.tc("qdisc add dev {v} root handle 1: mq")?;
    let kinds: Vec<String> = port.qdiscs()?.into_iter().map(|qdisc| qdisc.kind).collect();
    let pfabrics = kinds.iter().filter(|kind| *kind == "pfabric").count();
    ensure!(pfabrics == 4, "{kinds:?}");
    let receiver = port.receiver()?;
    let mut sender = port.sender()?;
    for id in 0..100 {
        sender.send(&Packet {
            id,
            rank: 0,
            flow: id as u32,
            len: 100,
        })?;
    }
    receiver.expect(100, Duration::from_millis(100)).map(drop)
}

fn wire_as_the_default_qdisc_is_refused_and_harmless(cx: &Context) -> Result<()> {
    cx.expect_kernel_message("default qdisc (wire) fail, fallback to noqueue");
    let _default = DefaultQdisc::set("wire")?;
    // It has no rate by default. The kernel takes none in its place.
    let qdiscs = qdiscs_of_a_new_device()?;
    ensure!(
        qdiscs.iter().all(|qdisc| qdisc.kind != "wire"),
        "{qdiscs:?}"
    );
    let mut port = Port::with_queues(4)?;
    let result = port.qdisc(Verb::Add, "mq", Handle::ROOT, WIRE, Vec::new());
    ensure!(result.is_err(), "mq found a default qdisc");
    ensure_at_work(&mut port)
}
