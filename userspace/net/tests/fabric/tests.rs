// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::{Pid, gettid};
use serde_json::Value;
use weft_net::probe::{self, Part};
use weft_net::qdisc::{Command, Handle, QdiscCommand};
use weft_net::{Error, Plan, Settings, StatsReader, Sysctl, Testbed, down, list, up};

use crate::kill;
use crate::machines::*;
use crate::parts::*;
use crate::processes::*;
use crate::state::{
    addresses, assert_nothing_left, everything, json, names, plan, plan_with, run, topology,
};

type Test = (&'static str, fn());

macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as fn())),*] };
}

pub(crate) const TESTS: &[Test] = tests![
    far_hosts_reach_each_other_over_both_families,
    a_switch_has_all_shortest_paths,
    an_idle_fabric_is_silent,
    the_printed_commands_make_the_same_fabric,
    down_removes_a_fabric_that_commands_made,
    two_testbeds_can_be_up_at_once,
    a_record_describes_its_testbed,
    a_second_up_names_the_command_that_removes_the_first,
    a_refusal_at_the_last_port_leaves_nothing,
    lines_for_tc_run_in_order,
    a_refusal_by_tc_names_the_file_and_line,
    tc_may_print_more_than_a_pipe_holds,
    a_refusal_does_not_quote_the_notice_of_another_line,
    unknown_lines_have_the_effect_that_they_have_in_tc,
    the_output_of_tc_recreates_the_qdiscs,
    a_fabric_without_ipv6_carries_ipv4,
    sysctl_files_are_applied_as_by_sysctl,
    an_error_says_that_a_variable_is_read_only,
    a_plan_requires_its_parts_of_the_kernel,
    a_hook_runs_in_the_namespace_of_its_port,
    a_hook_that_refuses_or_panics_leaves_nothing,
    an_unknown_sysctl_leaves_nothing,
    down_returns_when_the_devices_are_gone,
    down_names_the_processes_that_hold_a_namespace,
    down_of_an_unknown_testbed_lists_all,
    namespaces_of_others_stay,
    a_command_sees_its_node_and_the_names_of_all,
    statistics_count_what_was_sent,
    a_packet_is_seen_at_each_node_on_its_path,
    a_captured_packet_has_its_time_of_arrival,
    lost_packets_of_a_capture_are_reported,
    missing_parts_of_the_kernel_are_found,
    killed,
    a_process_is_on_its_node_from_up_to_down,
    a_process_that_does_not_listen_is_ended_with_its_children,
    processes_of_others_stay,
    a_process_that_ends_is_reported_with_its_status_and_output,
    a_process_that_cannot_start_or_ends_at_once_leaves_nothing,
    the_printed_commands_start_the_same_processes_and_down_ends_them,
    a_host_on_its_own_machine_behaves_like_the_others,
    the_printed_commands_make_machines_too,
    parts_on_two_machines_are_one_fabric,
    the_printed_commands_make_a_part_too,
];

fn killed() {
    kill::whenever_it_is_killed_down_removes_every_trace();
}

fn build(plan: &Plan) -> Testbed {
    up(plan, None).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn remove(testbed: &str) {
    down(testbed).unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// Sends a datagram of `bytes` from one node to another, and back.
fn exchange(testbed: &Testbed, from: (&str, IpAddr), to: (&str, IpAddr), bytes: usize) {
    let bind = |(node, address): (&str, IpAddr)| -> io::Result<UdpSocket> {
        let socket = testbed
            .enter(node, || UdpSocket::bind((address, 0)))
            .expect("a node")?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(socket)
    };
    // The sender is not bound to an address: the route chooses it.
    let any: IpAddr = if to.1.is_ipv4() {
        [0; 4].into()
    } else {
        [0_u16; 8].into()
    };
    let (sender, receiver) = (bind((from.0, any)).unwrap(), bind(to).unwrap());
    let mut buffer = vec![0; 65_536];
    sender
        .send_to(&vec![7; bytes], receiver.local_addr().unwrap())
        .unwrap();
    let (length, source) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!((length, source.ip()), (bytes, from.1));
    receiver.send_to(b"back", source).unwrap();
    let (length, source) = sender.recv_from(&mut buffer).unwrap();
    assert_eq!((length, source.ip()), (4, to.1));
}

fn far_hosts_reach_each_other_over_both_families() {
    let plan = plan("far", "fat-tree:k=4");
    let testbed = build(&plan);
    for far in ["h1", "h2", "h15"] {
        for (from, to) in addresses(&plan, "h0")
            .into_iter()
            .zip(addresses(&plan, far))
        {
            exchange(&testbed, ("h0", from), (far, to), 1000);
        }
    }
    remove("far");
}

fn gateways(route: &Value) -> BTreeSet<(String, String)> {
    let hop = |hop: &Value| {
        // An IPv4 or IPv6 gateway.
        (
            hop["gateway"].as_str().unwrap().to_owned(),
            hop["dev"].as_str().unwrap().to_owned(),
        )
    };
    match route.get("nexthops") {
        Some(hops) => hops.as_array().unwrap().iter().map(hop).collect(),
        None => [hop(route)].into(),
    }
}

fn a_switch_has_all_shortest_paths() {
    let plan = plan("ways", "fat-tree:k=4");
    build(&plan);
    let topology = plan.topology();
    for (node, routes) in topology.nodes().iter().zip(topology.routes()) {
        let namespace = plan.namespace(node);
        let v4 = json(&format!("ip -j -n {namespace} route"));
        let v6 = json(&format!("ip -j -6 -n {namespace} route show proto static"));
        assert_eq!(
            (v4.len(), v6.len()),
            (routes.v4.len(), routes.v6.len()),
            "{}",
            node.name
        );
        let port = |index: usize| node.ports[index].name.clone();
        let planned: Vec<_> = (routes.v4.iter())
            .map(|route| {
                let hops = route.next_hops.iter();
                let hops = hops.map(|hop| (hop.gateway.to_string(), port(hop.port)));
                (
                    short(route.prefix.to_string(), "/32"),
                    hops.collect::<BTreeSet<_>>(),
                )
            })
            .chain(routes.v6.iter().map(|route| {
                let hops = route.next_hops.iter();
                let hops = hops.map(|hop| (hop.gateway.to_string(), port(hop.port)));
                (short(route.prefix.to_string(), "/128"), hops.collect())
            }))
            .collect();
        for route in v4.iter().chain(&v6) {
            let destination = route["dst"].as_str().unwrap();
            let family = route.get("nexthops").map_or(route, |hops| &hops[0]);
            let six = destination.contains(':') || family["gateway"].to_string().contains("::");
            let (_, ways) = planned
                .iter()
                .find(|(prefix, ways)| {
                    let same = ways
                        .first()
                        .is_none_or(|(gateway, _)| gateway.contains(':') == six);
                    prefix == destination && same
                })
                .unwrap_or_else(|| panic!("{}: {destination} is not planned", node.name));
            match route.get("type").and_then(Value::as_str) {
                Some("unreachable") => assert!(ways.is_empty()),
                _ => assert_eq!(&gateways(route), ways, "{}: {destination}", node.name),
            }
            assert!(!route.to_string().contains("linkdown"), "{route}");
        }
    }
    remove("ways");
}

/// A prefix in iproute2's format.
fn short(prefix: String, full: &str) -> String {
    match prefix.as_str() {
        "0.0.0.0/0" | "::/0" => "default".to_owned(),
        _ => prefix.strip_suffix(full).unwrap_or(&prefix).to_owned(),
    }
}

fn an_idle_fabric_is_silent() {
    let testbed = build(&plan("silent", "fat-tree:k=4"));
    // Router solicitations and listener reports would be sent within a second.
    thread::sleep(Duration::from_millis(2500));
    let mut qdiscs = 0;
    let mut stats = testbed.stats().unwrap();
    stats
        .read(|qdisc| {
            qdiscs += 1;
            assert_eq!((qdisc.packets, qdisc.drops), (0, 0), "{qdisc:?}");
        })
        .unwrap();
    assert_eq!(qdiscs, 48 * 2 * 2);
    // All nodes are asked at once, unless the kernel forbids that.
    let mut files = fs::read_dir("/proc/self/fd").unwrap();
    let has_ring = files.any(|file| {
        let target = fs::read_link(file.unwrap().path());
        target.is_ok_and(|it| it.ends_with("anon_inode:[io_uring]"))
    });
    assert_eq!(has_ring, io_uring::IoUring::new(2).is_ok());
    let all = |stats: &mut StatsReader| {
        let mut all = Vec::new();
        stats.read(|qdisc| all.push(format!("{qdisc:?}"))).unwrap();
        all
    };
    let at_once = all(&mut stats);
    stats.without_ring();
    assert_eq!(all(&mut stats), at_once);
    drop(stats);
    remove("silent");
}

fn the_printed_commands_make_the_same_fabric() {
    let settings = Settings {
        mtu: 1450,
        tx_queue_length: 77,
        host_sysctls: vec![Sysctl::new("net.ipv4.tcp_rmem", "4096 65536 131072").unwrap()],
        switch_sysctls: vec![Sysctl::new("net/ipv4/ip_default_ttl", "33").unwrap()],
        ..Settings::default()
    };
    let lines = |dev: &str| {
        format!(
            "qdisc replace dev {dev} root handle 1: tbf rate 10mbit burst 15k latency 20ms\n\
             qdisc add dev {dev} parent 1:1 handle a0: pfifo limit 33"
        )
    };
    let [ours, script] = ["ours", "script"].map(|name| {
        let mut plan = Plan::new(name, &topology("fat-tree:k=4"), settings.clone()).unwrap();
        plan.set_qdiscs(|_, port, _| {
            let mut commands = weft_net::qdisc::parse("lines", &lines(&port.name))?;
            commands.push(Command::Qdisc(QdiscCommand::clsact(&port.name)));
            Ok(commands)
        })
        .unwrap();
        plan
    });
    build(&ours);
    fs::write("/run/script", script.commands().to_string()).unwrap();
    run("sh /run/script");
    for node in ours.topology().nodes() {
        let namespaces = [&ours, &script].map(|plan| plan.namespace(node));
        // The other end of a link detects its carrier in the background.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            [left, right] = namespaces.each_ref().map(|namespace| everything(namespace));
            if left == right {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(left.len(), right.len(), "{}", node.name);
        for (left, right) in left.iter().zip(&right) {
            assert_eq!(left, right, "{}", node.name);
        }
        let sysctl = |namespace: &String| run(&format!("ip netns exec {namespace} sysctl -a"));
        let [left, right] = namespaces.each_ref().map(sysctl);
        let differing: Vec<_> = left
            .lines()
            .zip(right.lines())
            .filter(|(a, b)| a != b)
            .collect();
        let of_the_namespace = |(line, _): &&(&str, &str)| {
            // Random settings, and those of the whole machine, differ.
            line.starts_with("net.") && !line.contains("stable_secret") && !line.contains("seed")
        };
        let differing: Vec<_> = differing.iter().filter(of_the_namespace).collect();
        assert!(differing.is_empty(), "{}: {differing:?}", node.name);
    }
    fs::remove_file("/run/script").unwrap();
    remove("ours");
    remove("script");
    run("umount /run/netns");
}

fn down_removes_a_fabric_that_commands_made() {
    let plan = plan("script", "rack:hosts=2");
    fs::write("/run/script", plan.commands().to_string()).unwrap();
    run("sh /run/script");
    fs::remove_file("/run/script").unwrap();
    let [testbed] = list().unwrap().try_into().expect("one testbed");
    assert_eq!(testbed.nodes().len(), plan.topology().nodes().len());
    assert_eq!(testbed.record(), None);
    assert!(matches!(up(&plan, None), Err(Error::Interrupted(_))));
    remove("script");
    run("umount /run/netns");
}

fn two_testbeds_can_be_up_at_once() {
    let plans = [
        plan("one", "rack:hosts=2"),
        plan("two", "dumbbell:left=1,right=1"),
    ];
    let [one, two] = plans.each_ref().map(build);
    let there: Vec<_> = list()
        .unwrap()
        .iter()
        .map(|bed| bed.name().to_owned())
        .collect();
    assert_eq!(there, ["one", "two"]);
    assert_eq!(one.record().unwrap().title, plans[0].topology().title());
    assert_eq!(two.nodes().len(), plans[1].topology().nodes().len());
    remove("one");
    // The other testbed still works.
    let [from, to] = ["h0", "h1"].map(|node| addresses(&plans[1], node)[0]);
    exchange(&two, ("h0", from), ("h1", to), 100);
    remove("two");
}

fn a_record_describes_its_testbed() {
    let notes = BTreeMap::from([("dilation".to_owned(), "1000".to_owned())]);
    let scheme = Some("droptail".to_owned());
    let settings = Settings {
        scheme: scheme.clone(),
        notes: notes.clone(),
        ..Settings::default()
    };
    let plan = Plan::new("noted", &topology("rack:hosts=2"), settings).unwrap();
    build(&plan);
    let testbed = Testbed::open("noted").unwrap();
    let record = testbed.record().unwrap();
    assert_eq!(
        (&record.title, &record.scheme),
        (&plan.topology().title().to_owned(), &scheme)
    );
    assert_eq!(record.notes, notes);
    let age = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() - record.created;
    assert!(age < 60, "{age} s");
    remove("noted");
}

fn a_second_up_names_the_command_that_removes_the_first() {
    let plan = plan("twice", "rack:hosts=2");
    build(&plan);
    assert_eq!(
        up(&plan, None).unwrap_err().to_string(),
        "testbed `twice` is already up; `weft down twice` removes it"
    );
    // The failed call has not changed the testbed.
    assert_eq!(list().unwrap()[0].nodes().len(), 3);
    remove("twice");
}

fn a_refusal_at_the_last_port_leaves_nothing() {
    let mut plan = plan("refused", "fat-tree:k=4");
    let last = plan.topology().nodes().last().unwrap().clone();
    plan.set_qdiscs(|node, port, _| {
        let right = format!("qdisc add dev {} root handle 1: pfifo", port.name);
        let classless = format!(
            "{right}\nqdisc add dev {} parent 1:7 pfifo limit 9",
            port.name
        );
        let wrong = node.name == last.name && port.name == last.ports.last().unwrap().name;
        weft_net::qdisc::parse("lines", if wrong { &classless } else { &right })
    })
    .unwrap();
    let error = up(&plan, None).unwrap_err().to_string();
    let port = &last.ports.last().unwrap().name;
    let named = format!(
        "{}: `tc qdisc add dev {port} parent 1:7 pfifo limit 9`: ",
        last.name
    );
    assert!(error.starts_with(&named), "{error}");
    assert_nothing_left();
}

/// Lines that `tc` reads, between lines that go by netlink: `change` is not supported here.
fn lines_for_tc_run_in_order() {
    let lines = "qdisc add dev DEV root handle 1: tbf rate 10mbit burst 15k limit 30k
                 qdisc change dev DEV root handle 1: tbf rate 20mbit burst 15k limit 30k
                 qdisc add dev DEV parent 1:1 handle 10: pfifo limit 7
                 qdisc change dev DEV parent 1:1 handle 10: pfifo limit 8";
    let [ours, script] = ["ours", "script"].map(|name| plan_with(name, "rack:hosts=2", lines));
    build(&ours);
    fs::write("/run/script", script.commands().to_string()).unwrap();
    run("sh /run/script");
    for node in ours.topology().nodes() {
        let qdiscs = |plan: &Plan| {
            let namespace = plan.namespace(node);
            run(&format!("tc -n {namespace} qdisc show"))
        };
        let told = qdiscs(&ours);
        assert_eq!(told, qdiscs(&script));
        for words in ["tbf 1: dev", "rate 20Mbit", "parent 1:1 limit 8p"] {
            let each = node.ports.len();
            assert_eq!(told.matches(words).count(), each, "{words}: {told}");
        }
    }
    fs::remove_file("/run/script").unwrap();
    remove("ours");
    remove("script");
    run("umount /run/netns");
}

fn a_refusal_by_tc_names_the_file_and_line() {
    for (line, why) in [
        (
            "qdisc change dev DEV handle 7: pfifo limit 3",
            "`tc qdisc change dev tor0 handle 7: pfifo limit 3`: ",
        ),
        (
            "qdisc change dev DEV root pfifo limet 3",
            "unknown parameter \"limet\"",
        ),
        (
            "qdisc add dev DEV root handle 2: nonsense much 1",
            "nonsense",
        ),
    ] {
        let lines = format!("# none\n\nqdisc add dev DEV root handle 1: pfifo\n{line}");
        let plan = plan_with("refused", "rack:hosts=2", &lines);
        let error = up(&plan, None).unwrap_err().to_string();
        assert!(error.starts_with("lines:4: h0: `tc "), "{error}");
        assert!(error.contains(why), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert_nothing_left();
    }
}

/// Classes of htb at 1 Gbit/s and above make tc or the kernel print a notice for each.
fn classes(count: u32) -> String {
    let mut lines = "qdisc add dev DEV root handle 1: htb default 1\n".to_owned();
    for class in 1..=count {
        lines += &format!("class add dev DEV parent 1: classid 1:{class:x} htb rate 10gbit\n");
    }
    lines
}

/// 6144 lines of htb at one switch: about 400 KiB in, and as much out.
fn tc_may_print_more_than_a_pipe_holds() {
    let plan = plan_with("many", "rack:hosts=32", &classes(192));
    build(&plan);
    let namespace = plan.namespace(plan.topology().node(plan.topology().find("tor0").unwrap()));
    let shown = run(&format!("tc -n {namespace} class show dev h31"));
    assert_eq!(shown.lines().count(), 192);
    remove("many");
}

fn a_refusal_does_not_quote_the_notice_of_another_line() {
    for (line, reason) in [
        (
            "qdisc add dev DEV parent 1:1 sfq limt 5",
            "`: What is \"limt\"?",
        ),
        (
            "class add dev DEV parent 1: classid 1:1 htb rate 10gbit",
            "`: Exclusivity flag on, cannot modify",
        ),
    ] {
        let plan = plan_with("refused", "rack:hosts=2", &format!("{}{line}", classes(3)));
        let error = up(&plan, None).unwrap_err().to_string();
        // The kernel's messages depend on its version.
        let same = error.ends_with(reason) || (reason.contains("flag") && error.contains("exist"));
        assert!(error.starts_with("lines:5: h0: `tc ") && same, "{error}");
        assert_nothing_left();
    }
}

fn unknown_lines_have_the_effect_that_they_have_in_tc() {
    // Abbreviations, a cell size and a rate of the link: only tc supports them.
    let lines =
        "qdisc add dev DEV root handle 1 tbf rate 10mbit bur 15k/8 lat 20ms mpu 64 overhead 24
                 qdisc add dev DEV parent 1:1 handle 10 bfifo limit 0x1000";
    let plan = plan_with("odd", "rack:hosts=2", lines);
    build(&plan);
    for node in plan.topology().nodes() {
        let shown = run(&format!("tc -d -n {} qdisc show", plan.namespace(node)));
        for words in [
            "tbf 1: dev",
            "mpu 64b",
            "overhead 24",
            "bfifo 10: dev",
            "limit 4Kb",
        ] {
            assert_eq!(
                shown.matches(words).count(),
                node.ports.len(),
                "{words}: {shown}"
            );
        }
    }
    remove("odd");
}

/// For every qdisc, the lines of `tc qdisc show` create the same qdisc again.
fn the_output_of_tc_recreates_the_qdiscs() {
    let lines = "qdisc add dev DEV root handle 1: tbf rate 10mbit burst 15k latency 20ms
                 qdisc add dev DEV parent 1:1 handle 10: pfifo limit 24";
    let first = plan_with("first", "rack:hosts=2", lines);
    let shown = |plan: &Plan| {
        let tor = plan.topology().node(plan.topology().find("tor0").unwrap());
        run(&format!("tc -n {} qdisc show", plan.namespace(tor)))
    };
    build(&first);
    let before = shown(&first);
    let of_ports: Vec<&str> = before
        .lines()
        .filter(|line| line.contains("dev h0 "))
        .collect();
    let text = of_ports.join("\n").replace("dev h0 ", "dev DEV ");
    let second = plan_with("second", "rack:hosts=2", &text);
    build(&second);
    assert_eq!(shown(&second), before);
    remove("first");
    remove("second");
}

fn a_fabric_without_ipv6_carries_ipv4() {
    let mut plan = plan("four", "fat-tree:k=4");
    plan.leave_out_ipv6();
    let testbed = build(&plan);
    let ([near, _], [far, _]) = (addresses(&plan, "h0"), addresses(&plan, "h15"));
    exchange(&testbed, ("h0", near), ("h15", far), 1000);
    for node in plan.topology().nodes() {
        let namespace = plan.namespace(node);
        let v6 = run(&format!(
            "ip -6 -n {namespace} route show proto static; ip -6 -n {namespace} neighbour show"
        ));
        assert_eq!(v6, "", "{}", node.name);
    }
    let hosts = testbed
        .command("h0", "cat")
        .unwrap()
        .arg("/etc/hosts")
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&hosts.stdout).contains("::"));
    remove("four");
}

fn sysctl_files_are_applied_as_by_sysctl() {
    let lines = [
        "net.ipv4.conf.*.tag = 7",
        "net.ipv4.conf.tor0.tag = 8",
        "-net.ipv4.conf.all.tag",
        "-net.ipv4.no_such_thing = 1",
        "net/ipv4/ip_default_ttl = 33",
        "net.ipv4.tcp_keepalive_[ip]*s = 9",
    ];
    let settings = Settings {
        host_sysctls: lines.map(|line| Sysctl::read(line).unwrap()).to_vec(),
        ..Settings::default()
    };
    let [ours, script] = ["ours", "script"]
        .map(|name| Plan::new(name, &topology("rack:hosts=2"), settings.clone()).unwrap());
    build(&ours);
    fs::write("/run/script", script.commands().to_string()).unwrap();
    run("sh /run/script 2> /run/said");
    for plan in [&ours, &script] {
        let namespace = plan.namespace(plan.topology().node(plan.topology().find("h1").unwrap()));
        let of = |keys: &str| {
            let values = run(&format!("ip netns exec {namespace} sysctl -n {keys}"));
            values
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let tag = |of: &str| format!("net.ipv4.conf.{of}.tag");
        let tags = ["all", "default", "tor0", "lo"].map(tag).join(" ");
        assert_eq!(of(&tags), ["0", "7", "8", "7"], "{}", plan.testbed());
        let others =
            "net.ipv4.ip_default_ttl net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes";
        assert_eq!(of(others)[0], "33");
        assert_eq!(of("net.ipv4.tcp_keepalive_probes"), ["9"]);
    }
    run("rm /run/script /run/said");
    remove("ours");
    remove("script");
    run("umount /run/netns");
}

fn an_error_says_that_a_variable_is_read_only() {
    let settings = Settings {
        host_sysctls: vec![Sysctl::new("net.ipv4.tcp_available_congestion_control", "x").unwrap()],
        ..Settings::default()
    };
    let plan = Plan::new("fixed", &topology("rack:hosts=2"), settings).unwrap();
    let error = up(&plan, None).unwrap_err().to_string();
    assert!(!error.contains("run as root"), "{error}");
    assert_nothing_left();
    let settings = Settings {
        host_sysctls: vec![Sysctl::new("net.ipv4.conf.all.mc_forwarding", "1").unwrap()],
        ..Settings::default()
    };
    let plan = Plan::new("fixed", &topology("rack:hosts=2"), settings).unwrap();
    assert_eq!(
        up(&plan, None).unwrap_err().to_string(),
        "h0: sysctl net.ipv4.conf.all.mc_forwarding=1: the variable is read-only in a network namespace; set it \
         for the whole machine with `sysctl -w net.ipv4.conf.all.mc_forwarding=1`, and leave it out here or begin \
         its line with `-`"
    );
    assert_nothing_left();
}

fn a_plan_requires_its_parts_of_the_kernel() {
    plan("had", "rack:hosts=2").require().unwrap();
    for (lines, lacking) in [
        (
            "qdisc add dev DEV root handle 1: nonsense",
            "this kernel lacks the qdisc nonsense; --module FILE names its sch_nonsense.ko, if you have \
             one for this kernel",
        ),
        (
            "qdisc add dev DEV root handle 1: pfifo\n\
             filter add dev DEV parent 1: protocol ip prio 1 nonsense classid 1:2",
            "this kernel lacks the classifier nonsense; --module FILE names its cls_nonsense.ko, if you \
             have one for this kernel",
        ),
    ] {
        let plan = plan_with("lacking", "rack:hosts=2", lines);
        assert_eq!(plan.require().unwrap_err().to_string(), lacking);
    }
    let settings = Settings {
        host_sysctls: vec![Sysctl::new("net.ipv4.tcp_congestion_control", "nonsense").unwrap()],
        ..Settings::default()
    };
    let plan = Plan::new("lacking", &topology("rack:hosts=2"), settings).unwrap();
    let sentence = plan.require().unwrap_err().to_string();
    assert!(
        sentence.contains("lacks the congestion control nonsense; "),
        "{sentence}"
    );
    let mut plan = crate::state::plan("module", "rack:hosts=2");
    plan.set_modules(vec!["/run/none.ko".into()]);
    let sentence = plan.require().unwrap_err().to_string();
    assert!(sentence.starts_with("reading /run/none.ko: "), "{sentence}");
    let script = plan.commands().to_string();
    assert!(script.contains(" || insmod /run/none.ko\n"), "{script}");
}

fn a_hook_runs_in_the_namespace_of_its_port() {
    let plan = plan("hooked", "fat-tree:k=4");
    let home = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
    let mut visited = Vec::new();
    let mut hook = |visit: weft_net::Visit<'_>| {
        let index = nix::net::if_::if_nametoindex(visit.port.name.as_str())?;
        assert_eq!(index, visit.index);
        let mac = fs::read_to_string("/proc/thread-self/net/dev")?;
        assert!(mac.contains(&visit.port.name));
        visited.push((visit.node.name.clone(), visit.port.name.clone()));
        Ok(())
    };
    up(&plan, Some(&mut hook)).unwrap();
    let nodes = plan.topology().nodes().iter();
    let all: Vec<_> = nodes
        .flat_map(|node| {
            node.ports
                .iter()
                .map(|port| (node.name.clone(), port.name.clone()))
        })
        .collect();
    assert_eq!(visited, all);
    assert_eq!(
        fs::metadata("/proc/thread-self/ns/net").unwrap().ino(),
        home
    );
    remove("hooked");
}

fn a_hook_that_refuses_or_panics_leaves_nothing() {
    let plan = plan("hooked", "rack:hosts=2");
    let home = fs::metadata("/proc/thread-self/ns/net").unwrap().ino();
    let refused = up(&plan, Some(&mut |_| Err("no such program".into()))).unwrap_err();
    assert_eq!(refused.to_string(), "h0, port tor0: no such program");
    assert_nothing_left();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = up(&plan, Some(&mut |_| panic!("expected in this test")));
    }));
    assert!(panicked.is_err());
    assert_eq!(
        fs::metadata("/proc/thread-self/ns/net").unwrap().ino(),
        home
    );
    assert_nothing_left();
}

fn an_unknown_sysctl_leaves_nothing() {
    for (key, value, sentence) in [
        (
            "net.ipv4.tcp_nonsense",
            "1",
            "h0: sysctl net.ipv4.tcp_nonsense=1: this kernel has no such variable in a network \
             namespace; leave it out, or begin its line with `-`",
        ),
        (
            "net.ipv4.tcp_congestion_control",
            "nonsense",
            "h0: sysctl net.ipv4.tcp_congestion_control=nonsense: the kernel knows no congestion \
             control `nonsense`; load tcp_nonsense",
        ),
    ] {
        let settings = Settings {
            host_sysctls: vec![Sysctl::new(key, value).unwrap()],
            ..Settings::default()
        };
        let plan = Plan::new("sysctl", &topology("rack:hosts=2"), settings).unwrap();
        assert_eq!(up(&plan, None).unwrap_err().to_string(), sentence);
        assert_nothing_left();
    }
}

fn down_returns_when_the_devices_are_gone() {
    let plan = plan("gone", "fat-tree:k=4");
    let testbed = build(&plan);
    // A device in each node has its other end in a namespace that stays.
    run("ip netns add probe");
    for (number, node) in testbed.nodes().iter().enumerate() {
        let name = format!("weft-gone-{node}");
        run(&format!(
            "ip -n probe link add p{number} type veth peer name probe netns {name}"
        ));
    }
    assert_eq!(json("ip -j -n probe link").len(), 1 + testbed.nodes().len());
    remove("gone");
    let links = json("ip -j -n probe link");
    assert_eq!(links.len(), 1, "{links:?}");
    run("ip netns delete probe");
    run("umount /run/netns");
}

fn down_names_the_processes_that_hold_a_namespace() {
    let testbed = build(&plan("held", "rack:hosts=2"));
    let mut sleeper = testbed
        .command("h1", "sleep")
        .unwrap()
        .arg("60")
        .spawn()
        .unwrap();
    let removed = down("held").unwrap();
    assert_eq!(removed.namespaces, 3);
    assert_eq!(removed.held, [("h1".to_owned(), sleeper.id())]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

fn down_of_an_unknown_testbed_lists_all() {
    build(&plan("some", "rack:hosts=2"));
    let sentence = "there is no testbed `other`; up: some";
    assert_eq!(down("other").unwrap_err().to_string(), sentence);
    assert_eq!(Testbed::open("other").unwrap_err().to_string(), sentence);
    let nowhere = Testbed::open("some")
        .unwrap()
        .enter("h9", || ())
        .unwrap_err();
    assert_eq!(
        nowhere.to_string(),
        "testbed `some` has no node `h9`; its nodes: h0, h1, tor0"
    );
    remove("some");
}

fn namespaces_of_others_stay() {
    for name in ["foreign", "weft", "weft-", "weftfar-h0", "far-h0"] {
        run(&format!("ip netns add {name}"));
    }
    run("ip -n foreign link add eth0 type veth peer name eth1");
    let before = (names("/run/netns"), everything("foreign"));
    build(&plan("far", "rack:hosts=2"));
    remove("far");
    assert_eq!((names("/run/netns"), everything("foreign")), before);
    for name in &before.0 {
        run(&format!("ip netns delete {name}"));
    }
    run("umount /run/netns");
}

fn a_command_sees_its_node_and_the_names_of_all() {
    let plan = plan("inside", "rack:hosts=2");
    let testbed = build(&plan);
    let outside = fs::read_to_string("/etc/hosts").unwrap();
    let see = |script: &str| {
        let mut command = testbed.command("h1", "sh").unwrap();
        let output = command.args(["-c", script]).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    };
    let [v4, v6] = addresses(&plan, "h0").map(|address| address.to_string());
    let found = see("getent ahosts h0");
    assert!(found.contains(&v4) && found.contains(&v6), "{found}");
    assert_eq!(
        see("ls /sys/class/net")
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["lo", "tor0"]
    );
    let cgroups = "ls -d /sys/fs/cgroup/*";
    let outside_cgroups = run(&format!("{cgroups} 2>/dev/null || true"));
    assert_eq!(
        see(&format!("{cgroups} 2>/dev/null || true")),
        outside_cgroups
    );
    assert_eq!(fs::read_to_string("/etc/hosts").unwrap(), outside);
    // Also by `ip netns`.
    assert!(run("ip netns exec weft-inside-h1 ip -br link").contains("tor0"));
    remove("inside");
}

fn missing_parts_of_the_kernel_are_found() {
    let has = |part| probe::has(part).unwrap();
    assert!(has(Part::Qdisc("tbf")) && !has(Part::Qdisc("nonsense")));
    assert!(has(Part::Qdisc("clsact")) && !has(Part::Classifier("nonsense")));
}

fn a_packet_is_seen_at_each_node_on_its_path() {
    let plan = plan("followed", "fat-tree:k=4");
    let testbed = build(&plan);
    let topology = plan.topology();
    let switches = topology.switches().map(|id| topology.node(id));
    let names: Vec<&str> = switches
        .map(|node| node.name.as_str())
        .chain(["h15"])
        .collect();
    for (from, to) in addresses(&plan, "h0")
        .into_iter()
        .zip(addresses(&plan, "h15"))
    {
        let mut follower = testbed
            .follow(names.iter().map(|name| (*name, to)))
            .unwrap();
        exchange(&testbed, ("h0", from), ("h15", to), 1000);
        exchange(
            &testbed,
            ("h1", addresses(&plan, "h1")[0]),
            ("h2", addresses(&plan, "h2")[0]),
            1000,
        );
        let mut visits = Vec::new();
        follower
            .read(|seen| {
                assert_eq!(seen.packet.source, from);
                visits.push((seen.packet, seen.time_ns, seen.hops_left, names[seen.place]));
            })
            .unwrap();
        // The answer is sent to another address; neighbours are known, so that no neighbour
        // discovery occurs.
        visits.sort();
        assert_eq!(visits.len(), 6, "{visits:?}");
        assert!(visits.iter().all(|(packet, ..)| *packet == visits[0].0));
        // The first switch sees the original hop limit, and each switch decrements it.
        let left: Vec<u8> = visits.iter().map(|visit| visit.2).collect();
        assert_eq!(left, [64, 63, 62, 61, 60, 59]);
        let path: Vec<&str> = visits.iter().map(|(.., node)| *node).collect();
        let layer = |name: &&str| topology.node(topology.find(name).unwrap()).layer.as_str();
        let layers: Vec<&str> = path.iter().map(layer).collect();
        assert_eq!(
            layers,
            ["edge", "agg", "core", "agg", "edge", "host"],
            "{path:?}"
        );
        let are_neighbours = |pair: &[&str]| {
            let [a, b] = [pair[0], pair[1]].map(|name| topology.find(name).unwrap());
            topology.hops(a, b) == Some(1)
        };
        assert!(path.windows(2).all(are_neighbours), "{path:?}");
        assert_eq!(follower.missed(), 0);
    }
    let unknown = testbed.follow([("h99", addresses(&plan, "h0")[0])]);
    assert!(matches!(unknown.err(), Some(Error::NoNode { .. })));
    remove("followed");
}

fn a_captured_packet_has_its_time_of_arrival() {
    let plan = plan_with("punctual", "rack:hosts=2", "qdisc add dev DEV root pfifo");
    let testbed = build(&plan);
    let [from, to] = ["h0", "h1"].map(|node| addresses(&plan, node)[0]);
    let bind = |node, address: IpAddr| {
        let socket = testbed.enter(node, || UdpSocket::bind((address, 0)).unwrap());
        socket.unwrap()
    };
    let (sender, receiver) = (bind("h0", from), bind("h1", to));
    let destination = receiver.local_addr().unwrap();
    let exchange = || {
        sender.send_to(b"there", destination).unwrap();
        receiver.recv_from(&mut [0; 5]).unwrap();
    };
    // Neighbours are known from then on.
    exchange();
    let follow = || {
        before_all_others();
        for _ in 0..10 {
            // If the follower used the time of reading, these two would be in the wrong order.
            let mut follower = testbed.follow([("h1", to), ("tor0", to)]).unwrap();
            exchange();
            let mut times = [0; 2];
            follower
                .read(|seen| times[seen.place] = seen.time_ns)
                .unwrap();
            assert!(0 < times[1] && times[1] < times[0], "{times:?}");
            // The kernel's worker must end, too, because no follower needs it any more.
            drop(follower);
            thread::sleep(Duration::from_millis(5));
        }
    };
    thread::scope(|scope| scope.spawn(follow).join().unwrap());
    remove("punctual");
}

/// Gives the calling thread priority on its processor, so that the kernel's workers there wait
/// until it sleeps. Without the privilege it does nothing.
fn before_all_others() {
    let mut here = CpuSet::new();
    here.set(sched_getcpu().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &here).unwrap();
    let me = gettid().to_string();
    let mut command = process::Command::new("chrt");
    let status = command.args(["--fifo", "--pid", "1", &me]).status();
    if !status.unwrap().success() {
        println!("# not before all others, which takes CAP_SYS_NICE");
    }
}

fn lost_packets_of_a_capture_are_reported() {
    let plan = plan_with("missed", "rack:hosts=2", "qdisc add dev DEV root pfifo");
    let testbed = build(&plan);
    let [from, to] = ["h0", "h1"].map(|node| addresses(&plan, node)[0]);
    let mut follower = testbed.follow([("tor0", to)]).unwrap();
    let sender = testbed
        .enter("h0", || UdpSocket::bind((from, 0)).unwrap())
        .unwrap();
    // More than a socket's buffer holds.
    let mut sent = 0;
    for _ in 0..40_000 {
        sender.send_to(&[0; 1000], (to, 9)).unwrap();
        sent += 1;
    }
    let (mut seen, begun) = (0, SystemTime::now());
    // The next record contains the number of missed ones.
    while follower.missed() == 0 {
        follower.read(|_| seen += 1).unwrap();
        sender.send_to(&[0; 1000], (to, 9)).unwrap();
        sent += 1;
        thread::sleep(Duration::from_millis(1));
        let is_late = begun.elapsed().unwrap() > Duration::from_secs(600);
        assert!(!is_late, "{seen} of {sent} were seen, and none was missed");
    }
    let missed = follower.missed();
    assert!(
        seen > 0 && seen + missed <= sent,
        "{seen} seen, {missed} missed, {sent} sent"
    );
    remove("missed");
}

fn statistics_count_what_was_sent() {
    let plan = plan_with(
        "counted",
        "rack:hosts=2",
        // Two packets leave at once, then five per second, however long it takes to send them.
        "qdisc add dev DEV root handle 1: tbf rate 40kbit burst 3k limit 30k
         qdisc add dev DEV parent 1: handle 10: bfifo limit 4k",
    );
    let testbed = build(&plan);
    let mut stats = testbed.stats().unwrap();
    let [from, to] = ["h0", "h1"].map(|node| addresses(&plan, node)[0]);
    exchange(&testbed, ("h0", from), ("h1", to), 1000);
    let sender = testbed
        .enter("h0", || UdpSocket::bind((from, 0)).unwrap())
        .unwrap();
    // Three times as much as the bucket and the queue hold.
    for _ in 0..20 {
        let _ = sender.send_to(&[0; 1000], (to, 9));
    }
    let mut seen = Vec::new();
    // Until the queue is empty.
    for _ in 0..1000 {
        seen.clear();
        stats
            .read(|qdisc| {
                if (qdisc.node, qdisc.port) == ("h0", "tor0") {
                    let numbers = (qdisc.packets, qdisc.bytes, qdisc.drops, qdisc.overlimits);
                    let queued = (qdisc.backlog_packets, qdisc.backlog_bytes);
                    seen.push((
                        qdisc.kind.to_owned(),
                        qdisc.handle,
                        qdisc.parent,
                        numbers,
                        queued,
                    ));
                }
            })
            .unwrap();
        if seen[0].4.0 == 0 {
            break;
        }
        assert_eq!(seen[0].4.1, seen[0].4.0 * 1042);
        thread::sleep(Duration::from_millis(200));
    }
    let [
        (kind, handle, parent, (packets, bytes, drops, overlimits), _),
        child,
    ] = &seen[..]
    else {
        panic!("{seen:?}");
    };
    assert_eq!(
        (kind.as_str(), *handle, *parent),
        ("tbf", Handle(0x1_0000), Handle::ROOT)
    );
    assert_eq!(
        (child.0.as_str(), child.1, child.2),
        ("bfifo", Handle(0x10_0000), Handle(0x1_0000))
    );
    assert_eq!(packets + u64::from(*drops), 21, "{seen:?}");
    assert_eq!(*bytes, packets * 1042);
    assert!(*drops >= 10 && *overlimits > 0, "{seen:?}");
    drop(stats);
    remove("counted");
}
