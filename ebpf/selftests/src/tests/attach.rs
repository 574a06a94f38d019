// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attaching and detaching.

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use weft_ebpf::{
    Attacher, Counter, FlowSizes, Hook, HostConfig, Object, Spray, SwitchConfig, Untagged, port,
};

use crate::cgroup::Cgroup;
use crate::fabric::{Path, Version, link};
use crate::tests::wire::counters;
use crate::transfer;
use weft_ktap::Namespace;
use weft_ktap::bpf::{self, GETSOCKOPT, SETSOCKOPT, TCX_EGRESS, kind};

pub(super) fn the_verifier_accepts_every_program() -> Result<String> {
    let path = Path::new(1)?;
    let switch = SwitchConfig {
        spray: Spray::RoundRobin,
        paths: 0,
        stride: 0,
        untagged: Untagged::Last,
    };
    path.attach(&HostConfig::default(), &switch)?;
    let host = path.sender.enter(|| port::programs("eth"))??;
    let switch = path.first.enter(|| port::programs("left"))??;
    ensure!(host.len() == 2 && switch.len() == 2, "{host:?} {switch:?}");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!("Linux {}", release.trim()))
}

/// All settings of a namespace that attaching may change.
fn state(namespace: &Namespace, device: &str) -> Result<String> {
    let mut state = namespace.ip("-4 route show table all")?;
    // The kernel adds link-local routes at any time; only routes with an MTU matter.
    let routes = namespace.ip("-6 route show table all")?;
    state.extend(routes.lines().filter(|route| route.contains(" mtu ")));
    state += &namespace.ip(&format!("-d link show {device}"))?;
    state += &namespace.command("tc", &format!("qdisc show dev {device}"))?;
    for name in [
        "ipv4/ip_forward_update_priority",
        "ipv4/fib_multipath_hash_policy",
        "ipv6/fib_multipath_hash_policy",
        &format!("ipv6/conf/{device}/mtu"),
    ] {
        state +=
            &namespace.enter(|| std::fs::read_to_string(format!("/proc/sys/net/{name}")))??;
    }
    state += &format!("{:?}", namespace.enter(|| port::programs(device))??);
    Ok(state)
}

pub(super) fn detaching_leaves_nothing_behind() -> Result<String> {
    attach_and_detach(Hook::Tcx)
}

pub(super) fn detaching_from_clsact_leaves_nothing_behind() -> Result<String> {
    attach_and_detach(Hook::Clsact)
}

fn attach_and_detach(hook: Hook) -> Result<String> {
    let path = Path::new(2)?;
    path.sender
        .ip("route add 10.77.0.0/16 via 10.9.1.2 mtu 1000 advmss 900")?;
    path.first
        .write_sysctl("net/ipv4/fib_multipath_hash_policy", "2")?;
    let all = [
        (&path.sender, "eth"),
        (&path.first, "left"),
        (&path.second, "left2"),
        (&path.receiver, "eth"),
    ];
    let states = || {
        all.iter()
            .map(|(namespace, device)| state(namespace, device))
            .collect::<Result<Vec<_>>>()
    };
    let before = states()?;
    path.attach_at(
        hook,
        &HostConfig::default(),
        &SwitchConfig {
            spray: Spray::Random,
            paths: 0,
            stride: 0,
            untagged: Untagged::Last,
        },
    )?;
    // A second port of the same switch.
    let mut second = Attacher::new(&path.object, None).at(hook);
    path.first
        .enter(|| second.switch("right2", &SwitchConfig::default()))??;
    for (namespace, device) in all {
        let status = namespace.enter(|| port::status(device))??;
        let at = status.context("nothing is attached")?.hook;
        ensure!(at == hook, "{device}: {at:?} instead of {hook:?}");
    }
    let during = states()?;
    for ((_, device), (before, during)) in all.iter().zip(before.iter().zip(&during)) {
        ensure!(before != during, "attaching to {device} changed nothing");
    }
    path.first.enter(|| port::detach("left"))??;
    let policy = state(&path.first, "left")?;
    ensure!(
        policy != before[1],
        "the first port took the second's settings with it"
    );
    path.first.enter(|| port::detach("right2"))??;
    path.second.enter(|| port::detach("left2"))??;
    for end in [&path.sender, &path.receiver] {
        end.enter(|| port::detach("eth"))??;
    }
    for (after, before) in states()?.iter().zip(&before) {
        ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    }
    let flows = FlowSizes::find(path.cgroup.path())?;
    flows.expect("attached").detach()?;
    ensure!(FlowSizes::find(path.cgroup.path())?.is_none());
    let pinned = std::fs::read_dir("/sys/fs/bpf").map_or(0, Iterator::count);
    ensure!(pinned == 0, "{pinned} objects are pinned");
    Ok(String::new())
}

/// Adds a classic BPF program that drops everything (`TC_ACT_SHOT`), after weft's programs.
fn drop_all(namespace: &Namespace, device: &str) -> Result<()> {
    let words = format!("filter add dev {device} ingress prio 60000 bpf direct-action bytecode");
    let mut tc = Command::new("tc");
    tc.args(words.split(' ')).arg("1,6 0 0 2,");
    let status = namespace.enter(|| tc.status())??;
    ensure!(status.success(), "tc {words}: {status}");
    Ok(())
}

pub(super) fn a_qdisc_with_foreign_filters_stays() -> Result<String> {
    let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
    link(&a, "eth", &b, "eth", 1)?;
    let object = Object::find(None)?;
    let mut attacher = Attacher::new(&object, None).at(Hook::Clsact);
    let mut attach = || a.enter(|| attacher.switch("eth", &SwitchConfig::default()));
    let qdisc = || -> Result<bool> {
        let qdiscs = a.command("tc", "qdisc show dev eth")?;
        Ok(qdiscs.contains("clsact"))
    };
    // A qdisc that weft adds, and to which a filter is added.
    attach()??;
    drop_all(&a, "eth")?;
    a.enter(|| port::detach("eth"))??;
    ensure!(a.enter(|| port::programs("eth"))??.is_empty());
    let filters = a.command("tc", "filter show dev eth ingress")?;
    ensure!(filters.contains("pref 60000"), "{filters}");
    ensure!(!filters.contains("weft"), "{filters}");
    // A qdisc that exists before, without filters.
    a.command("tc", "filter delete dev eth ingress prio 60000")?;
    attach()??;
    a.enter(|| port::detach("eth"))??;
    ensure!(qdisc()?, "the qdisc of another is gone");
    Ok(String::new())
}

pub(super) fn later_filters_still_run() -> Result<String> {
    let path = Path::new(1)?;
    path.attach_at(
        Hook::Clsact,
        &HostConfig::default(),
        &SwitchConfig::default(),
    )?;
    let address = path.receiver_address(Version::V4);
    transfer::reach(&path.sender, &path.receiver, address)?;
    let read = || -> Result<u64> { Ok(counters(&path.first, "left")?.get(Counter::Read)) };
    let before = read()?;
    ensure!(before > 0, "the switch has read no tag");
    drop_all(&path.first, "left")?;
    let receiver = path.receiver.enter(|| UdpSocket::bind((address, 0)))??;
    receiver.set_nonblocking(true)?;
    let sender = path.sender.enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    for _ in 0..10 {
        sender.send_to(&[0; 100], receiver.local_addr()?)?;
    }
    let begun = Instant::now();
    while read()? != before + 10 {
        let patience = begun.elapsed() < Duration::from_secs(5);
        ensure!(patience, "{} of 10 read", read()? - before);
        std::thread::sleep(Duration::from_millis(1));
    }
    ensure!(
        receiver.recv(&mut [0; 100]).is_err(),
        "the filter behind was not asked"
    );
    Ok(String::new())
}

pub(super) fn attaching_twice_is_refused_and_changes_nothing() -> Result<String> {
    let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
    link(&a, "eth", &b, "eth", 1)?;
    let object = Object::find(None)?;
    let attach = || a.enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()));
    attach()??;
    let before = state(&a, "eth")?;
    let error = attach()?.unwrap_err().to_string();
    ensure!(error.contains("detach"), "the error names no cure: {error}");
    for hook in Hook::ALL {
        let mut attacher = Attacher::new(&object, None).at(*hook);
        let error = a.enter(|| attacher.switch("eth", &SwitchConfig::default()))?;
        ensure!(error.is_err());
    }
    ensure!(state(&a, "eth")? == before);
    // The cgroup's programs are shared, not attached again.
    let cgroup = Cgroup::new()?;
    FlowSizes::attach(&object, cgroup.path())?;
    FlowSizes::attach(&object, cgroup.path())?.detach()?;
    ensure!(FlowSizes::find(cgroup.path())?.is_none());
    Ok(String::new())
}

pub(super) fn an_mtu_without_room_is_refused() -> Result<String> {
    let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
    link(&a, "eth", &b, "eth", 1)?;
    a.ip("link set eth mtu 1280")?;
    let before = state(&a, "eth")?;
    let object = Object::find(None)?;
    let result = a.enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()))?;
    let error = result.unwrap_err().to_string();
    ensure!(error.contains("1288"), "the error names no cure: {error}");
    ensure!(state(&a, "eth")? == before);
    Ok(String::new())
}

/// A namespace with three links to another one: `one`, `eth` and `other`.
fn three_links() -> Result<(Namespace, Namespace)> {
    let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
    for (number, device) in [(1, "one"), (2, "eth"), (3, "other")] {
        link(&a, device, &b, device, number)?;
    }
    Ok((a, b))
}

pub(super) fn routes_of_other_devices_to_the_same_prefix_stay() -> Result<String> {
    let (a, _b) = three_links()?;
    // `eth` is the first, the second and the last of three in a subnet.
    for (net, order) in [
        (1, ["eth", "one", "other"]),
        (2, ["one", "eth", "other"]),
        (3, ["one", "other", "eth"]),
    ] {
        for (host, device) in order.iter().enumerate() {
            a.ip(&format!("addr add 10.8.{net}.{}/24 dev {device}", host + 1))?;
        }
    }
    for (action, gateway) in [
        ("add", "10.9.2.3"),
        ("append", "10.9.1.2"),
        ("append", "10.9.2.2"),
        ("append", "10.9.2.4 advmss 900"),
        ("append", "10.9.3.2"),
    ] {
        a.ip(&format!("route {action} 10.7.0.0/16 via {gateway}"))?;
    }
    let routes = || a.ip("-4 route show table all");
    let (before, routes_before) = (state(&a, "eth")?, routes()?);
    let object = Object::find(None)?;
    a.enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()))??;
    let mut limited = String::new();
    for route in routes_before.lines() {
        let special = route.starts_with("local") || route.starts_with("broadcast");
        if special || !route.contains(" dev eth ") {
            limited += route;
        } else {
            let (route, others) = match route.find("advmss") {
                Some(at) => route.split_at(at),
                None => (route, ""),
            };
            limited += &format!("{route}mtu lock 1492 {others}");
        }
        limited.push('\n');
    }
    let during = routes()?;
    ensure!(during == limited, "{during}\ninstead of:\n{limited}");
    a.enter(|| port::detach("eth"))??;
    let after = state(&a, "eth")?;
    ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    Ok(String::new())
}

const TWO_HOPS: &str = "nexthop via 10.9.2.2 dev eth nexthop via 10.9.3.2 dev other";

pub(super) fn a_next_hop_without_carrier_does_not_prevent_attaching() -> Result<String> {
    let (a, b) = three_links()?;
    a.ip(&format!("route add 10.8.0.0/16 {TWO_HOPS} onlink"))?;
    let object = Object::find(None)?;
    let attach = || a.enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()));
    let before = state(&a, "eth")?;
    attach()??;
    let set_carrier = |to: &str| -> Result<()> {
        b.ip(&format!("link set other {to}"))?;
        let begun = Instant::now();
        // The kernel needs some time to notice.
        while a.ip("-4 route show table all")?.contains("linkdown") != (to == "down") {
            let patience = begun.elapsed() < Duration::from_secs(5);
            ensure!(patience, "the carrier is not {to}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    };
    set_carrier("down")?;
    a.enter(|| port::detach("eth"))??;
    attach()??;
    set_carrier("up")?;
    a.enter(|| port::detach("eth"))??;
    let after = state(&a, "eth")?;
    ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    Ok(String::new())
}

pub(super) fn the_next_detach_restores_what_an_earlier_one_could_not() -> Result<String> {
    let (a, _b) = three_links()?;
    a.ip(&format!("route add 10.8.0.0/16 {TWO_HOPS}"))?;
    let before = state(&a, "eth")?;
    let object = Object::find(None)?;
    a.enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()))??;
    // The kernel adds no route on a device that is down, so it does not replace this one.
    a.ip("link set other down")?;
    let error = a.enter(|| port::detach("eth"))?.unwrap_err();
    let error = format!("{error:#}");
    ensure!(error.contains("10.8.0.0/16"), "{error}");
    ensure!(error.contains("again"), "the error names no cure: {error}");
    let routes = a.ip("route show")?;
    ensure!(routes.matches("mtu lock").count() == 1, "{routes}");
    let limits = a.ip("-d link show eth")?;
    ensure!(before.contains(&limits), "{limits}");
    let mtu = a.enter(|| std::fs::read_to_string("/proc/sys/net/ipv6/conf/eth/mtu"))??;
    ensure!(mtu == "1500\n", "{mtu}");
    a.ip("link set other up")?;
    a.enter(|| port::detach("eth"))??;
    let after = state(&a, "eth")?;
    ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    Ok(String::new())
}

/// A program that does nothing, for a cgroup's hook.
fn leave_alone(hook: u32) -> Result<OwnedFd> {
    bpf::load(kind::CGROUP_SOCKOPT, hook, &[0x1_0000_00b7, 0x95]) // r0 = 1; exit
}

pub(super) fn a_foreign_program_of_a_cgroup_stays() -> Result<String> {
    let object = Object::find(None)?;
    for hook in [SETSOCKOPT, GETSOCKOPT] {
        let other = leave_alone(hook)?;
        let cgroup = Cgroup::new()?;
        bpf::attach(&other, cgroup.directory()?, hook, 0)?;
        let result = FlowSizes::attach(&object, cgroup.path());
        ensure!(
            bpf::attached(cgroup.directory()?, hook)?.len() == 1,
            "hook {hook}: gone"
        );
        let error = format!("{:#}", result.err().context("another has the hook")?);
        ensure!(error.contains("bpftool"), "no cure: {error}");
        let cgroup = Cgroup::new()?;
        bpf::attach(&other, cgroup.directory()?, hook, bpf::ALLOW_MULTI)?;
        let flows = FlowSizes::attach(&object, cgroup.path())?;
        ensure!(
            bpf::attached(cgroup.directory()?, hook)?.len() == 2,
            "hook {hook}"
        );
        let below = cgroup.path().join("below");
        std::fs::create_dir(&below)?;
        let attached = bpf::attach(&other, File::open(&below)?, hook, bpf::ALLOW_MULTI);
        std::fs::remove_dir(&below)?;
        attached?;
        flows.detach()?;
        ensure!(
            bpf::attached(cgroup.directory()?, hook)?.len() == 1,
            "hook {hook}"
        );
    }
    Ok(String::new())
}

/// A host with only one program attached, the one without the record.
fn half_a_host(namespace: &Namespace, hook: Hook, object: &Object) -> Result<()> {
    let mut attacher = Attacher::new(object, None).at(hook);
    namespace.enter(|| attacher.host("eth", &HostConfig::default()))??;
    match hook {
        Hook::Tcx => {
            let programs = namespace.enter(|| port::programs("eth"))??;
            let index = namespace.enter(|| nix::net::if_::if_nametoindex("eth"))??;
            let program = bpf::by_id(programs[1])?;
            namespace.enter(|| bpf::detach(program, index, TCX_EGRESS))?
        }
        Hook::Clsact => namespace
            .command("tc", "filter delete dev eth egress")
            .map(drop),
    }
}

pub(super) fn an_attach_that_was_killed_is_detached() -> Result<String> {
    let object = Object::find(None)?;
    for &hook in Hook::ALL {
        let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
        link(&a, "eth", &b, "eth", 1)?;
        half_a_host(&a, hook, &object)?;
        let left = a.enter(|| port::programs("eth"))??.len();
        ensure!(left == 1, "{left} programs");
        let error = a.enter(|| port::status("eth"))?.unwrap_err();
        let error = format!("{error:#}");
        ensure!(error.contains("weft-tag detach"), "no cure: {error}");
        a.enter(|| port::detach("eth"))??;
        ensure!(a.enter(|| port::programs("eth"))??.is_empty());
        ensure!(a.enter(|| port::status("eth"))??.is_none());
    }
    Ok(String::new())
}

pub(super) fn socket_options_are_attached_together_or_not_at_all() -> Result<String> {
    let object = Object::find(None)?;
    for (missing, other) in [(GETSOCKOPT, SETSOCKOPT), (SETSOCKOPT, GETSOCKOPT)] {
        let cgroup = Cgroup::new()?;
        bpf::attach(leave_alone(missing)?, cgroup.directory()?, missing, 0)?;
        let refused = FlowSizes::attach(&object, cgroup.path()).is_err();
        ensure!(refused, "hook {missing} was another's");
        let left = bpf::attached(cgroup.directory()?, other)?;
        ensure!(left.is_empty(), "hook {other}: {left:?}");
        // An attach that was killed half-way.
        let cgroup = Cgroup::new()?;
        FlowSizes::attach(&object, cgroup.path())?;
        let directory = cgroup.directory()?;
        let program = bpf::attached(cgroup.directory()?, missing)?[0];
        bpf::detach(bpf::by_id(program)?, directory.as_raw_fd() as u32, missing)?;
        let flows = FlowSizes::attach(&object, cgroup.path())?;
        for hook in [missing, other] {
            let programs = bpf::attached(cgroup.directory()?, hook)?;
            ensure!(programs.len() == 1, "hook {hook}: {programs:?}");
        }
        cgroup.enter()?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        weft_socket::flow_size(&socket, 5)?;
        ensure!(weft_socket::get_flow_size(&socket)? == 5);
        cgroup.leave()?;
        flows.detach()?;
        ensure!(FlowSizes::find(cgroup.path())?.is_none());
    }
    Ok(String::new())
}

pub(super) fn a_renamed_device_is_found() -> Result<String> {
    let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
    link(&a, "eth", &b, "eth", 1)?;
    // Longer than a primary name can be.
    const LONG: &str = "the-way-to-everybody-else";
    a.ip(&format!(
        "link property add dev eth altname lan0 altname {LONG}"
    ))?;
    let before = state(&a, "eth")?;
    let object = Object::find(None)?;
    let attach = |name| a.enter(|| Attacher::new(&object, None).host(name, &HostConfig::default()));
    let settings = || -> Result<_> {
        let mtu = a.enter(|| std::fs::read_to_string("/proc/sys/net/ipv6/conf/eth/mtu"))??;
        Ok((
            mtu,
            a.ip("-4 route show table all")?,
            a.ip("-d link show eth")?,
        ))
    };
    attach("eth")??;
    let by_its_name = settings()?;
    a.enter(|| port::detach("eth"))??;
    for name in ["lan0", LONG] {
        attach(name)??;
        let by_another = settings()?;
        ensure!(
            by_another == by_its_name,
            "{by_another:?} instead of {by_its_name:?}"
        );
        a.enter(|| port::detach(name))??;
    }
    let after = state(&a, "eth")?;
    ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    Ok(String::new())
}

pub(super) fn a_path_mtu_does_not_become_a_route() -> Result<String> {
    let path = Path::new(1)?;
    path.first.ip("link set right2 mtu 1496")?;
    path.second.ip("link set left2 mtu 1496")?;
    let before = state(&path.sender, "eth")?;
    let receiver = path.receiver_address(Version::V4);
    let socket = path.sender.enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    let begun = Instant::now();
    let known = || path.sender.ip(&format!("route get {receiver}"));
    while !known()?.contains("mtu 1496") {
        ensure!(begun.elapsed() < Duration::from_secs(5), "{}", known()?);
        // With headers it is as long as the first link allows. Once the path MTU is known, the
        // socket refuses it.
        let _ = socket.send_to(&[0; 1472], (receiver, 9));
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut attacher = Attacher::new(&path.object, None);
    path.sender
        .enter(|| attacher.host("eth", &HostConfig::default()))??;
    path.sender.enter(|| port::detach("eth"))??;
    let after = state(&path.sender, "eth")?;
    ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    Ok(String::new())
}

pub(super) fn routes_by_nexthop_objects_have_room() -> Result<String> {
    let (a, _b) = three_links()?;
    for (id, nexthop) in [
        (1, "via 10.9.2.2 dev eth"),
        (2, "via fd09:2::2 dev eth"),
        (3, "via 10.9.3.2 dev other"),
        (4, "group 1/3"),
    ] {
        a.ip(&format!("nexthop add id {id} {nexthop}"))?;
        a.ip(&format!("route add 10.{id}.0.0/16 nhid {id}"))?;
    }
    let before = state(&a, "eth")?;
    let object = Object::find(None)?;
    a.enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()))??;
    for (id, limited) in [(1, true), (2, true), (3, false), (4, true)] {
        let route = a.ip(&format!("route show 10.{id}.0.0/16"))?;
        ensure!(route.contains(&format!("nhid {id} ")), "{route}");
        ensure!(route.contains("mtu lock 1492") == limited, "{route}");
    }
    a.enter(|| port::detach("eth"))??;
    let after = state(&a, "eth")?;
    ensure!(after == before, "before:\n{before}\nafter:\n{after}");
    Ok(String::new())
}
