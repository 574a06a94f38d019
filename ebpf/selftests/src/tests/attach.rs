// SPDX-License-Identifier: MIT OR Apache-2.0

//! Attaching and detaching.

use anyhow::{Result, ensure};
use weft_ebpf::{Attacher, FlowSizes, HostConfig, Object, Spray, SwitchConfig, port};

use crate::cgroup::Cgroup;
use crate::fabric::{Path, link};
use weft_ktap::Namespace;

pub(super) fn the_verifier_accepts_every_program() -> Result<String> {
    let path = Path::new(1)?;
    let switch = SwitchConfig {
        spray: Spray::RoundRobin,
        paths: 0,
    };
    path.attach(&HostConfig::default(), &switch)?;
    let host = path.sender.enter(|| port::programs("eth"))??;
    let switch = path.first.enter(|| port::programs("left"))??;
    ensure!(host.len() == 2 && switch.len() == 2, "{host:?} {switch:?}");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!("Linux {}", release.trim()))
}

/// All that attaching may change in a namespace.
fn state(namespace: &Namespace, device: &str) -> Result<String> {
    let mut state = namespace.ip("-4 route show table all")?;
    // The kernel adds link-local ones when it likes; what matters is whether one has an MTU.
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
    path.attach(
        &HostConfig::default(),
        &SwitchConfig {
            spray: Spray::Random,
            paths: 0,
        },
    )?;
    // A second port of one switch.
    path.first
        .enter(|| Attacher::new(&path.object, None).switch("right2", &SwitchConfig::default()))??;
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

pub(super) fn attaching_twice_is_refused_and_changes_nothing() -> Result<String> {
    let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
    link(&a, "eth", &b, "eth", 1)?;
    let object = Object::find(None)?;
    let attach = || a.enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()));
    attach()??;
    let before = state(&a, "eth")?;
    let error = attach()?.unwrap_err().to_string();
    ensure!(error.contains("detach"), "the error names no cure: {error}");
    let error = a.enter(|| Attacher::new(&object, None).switch("eth", &SwitchConfig::default()))?;
    ensure!(error.is_err());
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
