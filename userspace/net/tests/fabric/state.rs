// SPDX-License-Identifier: MIT OR Apache-2.0

//! The state of the machine, according to iproute2.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use weft_net::{Plan, Settings, qdisc};
use weft_topo::{Spec, Topology};

pub(crate) const SHAPER: &str =
    "qdisc add dev DEV root handle 1: tbf rate 10mbit burst 15k limit 30k
                                 qdisc add dev DEV parent 1: handle 10: bfifo limit 30k";

pub(crate) fn topology(spec: &str) -> Topology {
    spec.parse::<Spec>()
        .unwrap_or_else(|wrong| panic!("{wrong}"))
        .topology()
}

/// A plan with `lines` at every port.
pub(crate) fn plan_with(testbed: &str, spec: &str, lines: &str) -> Plan {
    let mut plan = Plan::new(testbed, &topology(spec), Settings::default()).expect("a plan");
    plan.set_qdiscs(|_, port, _| qdisc::parse("lines", &lines.replace("DEV", &port.name)))
        .unwrap_or_else(|wrong| panic!("{wrong}"));
    plan
}

pub(crate) fn plan(testbed: &str, spec: &str) -> Plan {
    plan_with(testbed, spec, SHAPER)
}

/// The addresses of a node, in both families.
pub(crate) fn addresses(plan: &Plan, node: &str) -> [IpAddr; 2] {
    let topology = plan.topology();
    let address = topology.node(topology.find(node).expect("a node")).address;
    [address.v4().into(), address.v6().into()]
}

/// Runs a command line; returns its output.
pub(crate) fn run(line: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", line])
        .output()
        .expect("a shell");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

pub(crate) fn json(line: &str) -> Vec<Value> {
    let text = run(line);
    let text = if text.trim().is_empty() { "[]" } else { &text };
    serde_json::from_str(text).unwrap_or_else(|wrong| panic!("{line}: {wrong}: {text}"))
}

/// Everything in a namespace that iproute2 prints, without the indices of other namespaces, sorted.
pub(crate) fn everything(namespace: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for line in [
        "ip -j -d -n NS address",
        "ip -j -d -n NS route show table all",
        "ip -j -d -6 -n NS route show table all",
        "ip -j -d -n NS neighbour",
        "tc -j -d -n NS qdisc",
    ] {
        all.extend(json(&line.replace("NS", namespace)));
    }
    for value in &mut all {
        if let Some(object) = value.as_object_mut() {
            object.remove("link_netnsid");
            // Attributes of lo that change by themselves.
            object.retain(|key, _| !key.starts_with("preferred_") && !key.starts_with("valid_"));
        }
    }
    // Neighbours are in the order of a hash table.
    all.sort_by_key(Value::to_string);
    all
}

pub(crate) fn names(directory: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect();
    names.sort();
    names
}

/// Processes that belong to a testbed according to their environment: its name, and their number.
/// They have the tests' `/run`.
pub(crate) fn processes() -> Vec<(String, u32)> {
    let run = |root: &str| fs::metadata(format!("{root}/run")).map(|it| it.dev());
    let here = run("").expect("a folder");
    let mut found = Vec::new();
    for name in names("/proc") {
        let Ok(pid) = name.parse() else { continue };
        if !run(&format!("/proc/{pid}/root")).is_ok_and(|there| there == here) {
            continue;
        }
        // It may have ended by now.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        let mut variables = environment.split('\0');
        let testbed = variables.find_map(|it| it.strip_prefix("WEFT_PROCESS_OF="));
        found.extend(testbed.map(|testbed| (testbed.to_owned(), pid)));
    }
    found
}

/// Checks that no namespace, mount, file or process remains.
pub(crate) fn assert_nothing_left() {
    assert_eq!(names("/run/netns"), Vec::<String>::new());
    assert!(
        !Path::new("/run/weft").exists(),
        "/run/weft: {:?}",
        names("/run/weft")
    );
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let left: Vec<_> = mounts
        .lines()
        .filter(|line| line.contains(" nsfs ") || line.contains("/run/weft"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(processes(), []);
}

/// Cleans up after a failed test, so that the next one does not fail.
pub(crate) fn clean() {
    for testbed in weft_net::list().unwrap_or_default() {
        let _ = weft_net::down(testbed.name());
    }
    for name in names("/run/netns") {
        run(&format!("ip netns delete {name}"));
    }
}
