// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plans as commands, and errors before anything is changed.

use weft_net::{Plan, RouteMetrics, Settings, Sysctl, qdisc};
use weft_topo::{Spec, Topology};

fn topology(spec: &str) -> Topology {
    spec.parse::<Spec>().unwrap().topology()
}

fn plan(spec: &str) -> Plan {
    let settings = Settings {
        host_sysctls: vec![
            Sysctl::new("net.ipv4.tcp_congestion_control", "dctcp").unwrap(),
            Sysctl::new("net.ipv4.tcp_rmem", "4096 65536 131072").unwrap(),
        ],
        host_route: RouteMetrics::parse(
            &["initcwnd", "12", "quickack", "1", "rto_min", "45ms"].map(str::to_owned),
        )
        .unwrap(),
        ..Settings::default()
    };
    let mut plan = Plan::new("golden", &topology(spec), settings).unwrap();
    plan.set_qdiscs(|node, port, link| {
        let (dev, wire) = (&port.name, link.wire);
        let queue = match node.layer.as_str() {
            "host" => "pfifo limit 1000",
            _ => "red limit 300k min 30000 max 30001 avpkt 1500 burst 21 ecn bandwidth 10gbit",
        };
        let lines = format!(
            "qdisc add dev {dev} root handle 1: wire rate {} delay {}\n\
             qdisc add dev {dev} parent 1: handle 10: {queue}",
            wire.rate, wire.delay
        );
        qdisc::parse("dctcp", &lines)
    })
    .unwrap();
    plan
}

/// To accept a change, run with `WEFT_BLESS=1` and read the difference.
fn compare(file: &str, commands: &str) {
    let path = format!("{}/tests/golden/{file}", env!("CARGO_MANIFEST_DIR"));
    let licence = "# SPDX-License-Identifier: MIT OR Apache-2.0\n";
    let text = commands.replacen("#!/bin/sh\n", &format!("#!/bin/sh\n{licence}"), 1);
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (number, (ours, golden)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(ours, golden, "{file}:{}", number + 1);
    }
    assert_eq!(text.len(), golden.len());
}

#[test]
fn a_plan_prints_its_golden_commands() {
    let spec = "leaf-spine:leaves=2,spines=2,hosts=1";
    compare("leaf-spine.sh", &plan(spec).commands().to_string());
}

/// Results contain its hash: a change of the hash makes them stale.
#[test]
fn a_fingerprint_never_changes() {
    let spec = "leaf-spine:leaves=2,spines=2,hosts=1";
    let fingerprint = plan(spec).fingerprint().to_string();
    compare("leaf-spine.fingerprint.sh", &fingerprint);
}

#[test]
fn without_ipv6_no_command_names_it() {
    let mut plan = plan("fat-tree:k=4");
    plan.leave_out_ipv6();
    let commands = plan.commands().to_string();
    for word in ["ipv6", "nodad", "fd", "fe80", "::"] {
        let line = commands.lines().find(|line| line.contains(word));
        assert_eq!(line, None, "{word}");
    }
    let count = |what: &str| commands.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count(" address add "), count(" neighbour add ")), (36, 96));
    // A scheme's IPv6 sysctls are omitted, too; the others stay.
    let settings = Settings {
        host_sysctls: vec![
            Sysctl::new("net.ipv6.conf.all.hop_limit", "9").unwrap(),
            Sysctl::new("net.ipv4.ip_default_ttl", "9").unwrap(),
        ],
        ..Settings::default()
    };
    let mut plan = Plan::new("x", &topology("rack:hosts=2"), settings).unwrap();
    plan.leave_out_ipv6();
    let commands = plan.commands().to_string();
    assert!(!commands.contains("hop_limit") && commands.contains("ip_default_ttl=9"));
}

#[test]
fn lines_that_only_sysctl_p_reads_are_left_to_it() {
    let lines = [
        "net.ipv4.conf.*.tag = 7",
        "-net.ipv4.nothing = 1",
        "net.ipv4.conf.tor0.tag = 8",
        "net.ipv4.ip_default_ttl = 9",
    ];
    let settings = Settings {
        host_sysctls: lines.map(|line| Sysctl::read(line).unwrap()).to_vec(),
        ..Settings::default()
    };
    let plan = Plan::new("x", &topology("rack:hosts=2"), settings).unwrap();
    let commands = plan.commands().to_string();
    let of_host: Vec<&str> = commands
        .lines()
        .filter(|line| line.contains("exec weft-x-h0 sysctl"))
        .collect();
    let quoted = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| match line.contains(' ') {
                true => format!(" '{line}'"),
                false => format!(" {line}"),
            })
            .collect::<String>()
    };
    let file = |lines: &[&str]| {
        format!(
            "printf '%s\\n'{} | ip netns exec weft-x-h0 sysctl -q -p -",
            quoted(lines)
        )
    };
    assert!(
        of_host[0].contains(" net.ipv4.ip_default_ttl=9"),
        "{}",
        of_host[0]
    );
    assert!(!of_host[0].contains("tag"), "{}", of_host[0]);
    // Sysctls of a port are set when the port exists, and patterns are set once more then.
    let may_fail = format!("{} 2> /dev/null || :", file(&[lines[1]]));
    let named = "-net.ipv4.nothing";
    assert_eq!(
        of_host[1..],
        [
            file(&[lines[0], named, lines[3]]),
            may_fail.clone(),
            file(&[lines[0], named, lines[2], lines[3]]),
            may_fail
        ]
    );
}

#[test]
fn each_switch_with_several_paths_has_its_own_hash_seed() {
    let commands = plan("fat-tree:k=4").commands().to_string();
    let seeds: Vec<_> = commands
        .lines()
        .filter_map(|line| line.split_once("sysctl -q -e -w net.ipv4.fib_multipath_hash_seed="))
        .collect();
    // Edge and aggregation. From a host and from the core there is one path.
    assert_eq!(seeds.len(), 16);
    let switches = |name: &str| {
        let here = |(line, _): &&(&str, &str)| line.contains(&format!("-{name}"));
        seeds.iter().filter(here).count()
    };
    assert_eq!((switches("edge"), switches("agg")), (8, 8));
    let different: std::collections::BTreeSet<_> = seeds.iter().map(|(_, seed)| seed).collect();
    assert_eq!(different.len(), seeds.len());
}

/// As when a testbed is created: a scheme's sysctls come after the plan's own.
#[test]
fn sysctls_of_a_scheme_override_those_of_the_plan() {
    for key in [
        "net.ipv4.fib_multipath_hash_seed",
        "net/ipv4/fib_multipath_hash_seed",
    ] {
        let settings = Settings {
            switch_sysctls: vec![Sysctl::new(key, "77").unwrap()],
            ..Settings::default()
        };
        let topology = topology("leaf-spine:leaves=2,spines=2,hosts=1");
        let plan = Plan::new("golden", &topology, settings).unwrap();
        let commands = plan.commands().to_string();
        for leaf in ["leaf0", "leaf1"] {
            let own = format!("ip netns exec weft-golden-{leaf} sysctl ");
            let words = commands.lines().filter(|line| line.starts_with(&own));
            let words = words.flat_map(str::split_whitespace);
            let set: Vec<_> = words.filter(|word| word.contains("hash_seed")).collect();
            assert_eq!(set, [format!("{key}=77")], "{leaf}");
        }
    }
}

#[test]
fn a_module_that_is_already_loaded_does_not_stop_the_commands() {
    let topology = topology("rack:hosts=2");
    let mut plan = Plan::new("golden", &topology, Settings::default()).unwrap();
    plan.set_modules(vec!["/lib/my modules/sch_x.ko".into()]);
    let commands = plan.commands().to_string();
    let line = "[ -e \"/sys/module/$(modinfo -F name '/lib/my modules/sch_x.ko')/initstate\" ] || \
                insmod '/lib/my modules/sch_x.ko'";
    assert!(commands.lines().any(|it| it == line), "{commands}");
}

#[test]
fn every_command_of_a_fat_tree_occurs_once() {
    let plan = plan("fat-tree:k=4");
    let commands = plan.commands().to_string();
    let lines: Vec<&str> = commands.lines().collect();
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    let (nodes, links) = (36, 48);
    assert_eq!(count("ip netns add "), nodes);
    assert_eq!(count(" sysctl -q -w net."), nodes);
    assert_eq!(count(" net.ipv4.ip_forward=1 "), 20);
    assert_eq!(count(" net.ipv4.tcp_congestion_control=dctcp "), 16);
    assert_eq!(count(" type veth peer "), links);
    assert_eq!(count(" qdisc add dev "), 2 * 2 * links);
    assert_eq!(count(" address add "), 2 * nodes);
    assert_eq!(count(" neighbour add "), 2 * 2 * links);
    let routes = topology("fat-tree:k=4").routes();
    let routes: usize = routes
        .iter()
        .map(|routes| routes.v4.len() + routes.v6.len())
        .sum();
    assert_eq!(count(" route add "), routes);
    let mut unique = lines.clone();
    unique.retain(|line| line.contains(" -n ") || line.starts_with("ip netns add"));
    let all = unique.len();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), all);
}

#[test]
fn device_indices_are_unique_and_free_in_a_new_namespace() {
    // Two links between the same nodes are two devices each.
    for spec in ["fat-tree:k=4", "bfc-testbed"] {
        let plan = Plan::new("x", &topology(spec), Settings::default()).unwrap();
        let nodes = plan.topology().nodes().iter();
        let mut indices: Vec<u32> = nodes
            .flat_map(|node| (0..node.ports.len()).map(|port| plan.device_index(node, port)))
            .collect();
        indices.sort_unstable();
        let first_to_last: Vec<u32> = (1000..1000 + indices.len() as u32).collect();
        assert_eq!(indices, first_to_last);
    }
}

#[test]
fn a_testbeds_name_is_plain() {
    let topology = topology("rack:hosts=2");
    for name in ["a", "My_bed_2", &"x".repeat(32)] {
        assert!(
            Plan::new(name, &topology, Settings::default()).is_ok(),
            "{name}"
        );
    }
    for name in ["", "a-b", "a/b", "..", "a b", "ü", &"x".repeat(33)] {
        let error = Plan::new(name, &topology, Settings::default()).unwrap_err();
        let sentence = format!(
            "`{name}` is no name for a testbed: write 1 to 32 letters, digits or underscores"
        );
        assert_eq!(error.to_string(), sentence);
    }
}

#[test]
fn an_mtu_must_suit_ipv6() {
    for (mtu, good) in [
        (1279, false),
        (1280, true),
        (9000, true),
        (65_535, true),
        (65_536, false),
    ] {
        let settings = Settings {
            mtu,
            ..Settings::default()
        };
        let plan = Plan::new("x", &topology("rack:hosts=2"), settings);
        assert_eq!(plan.is_ok(), good, "{mtu}");
    }
}

#[test]
fn only_a_namespaces_own_sysctls_may_be_set() {
    assert_eq!(
        Sysctl::new("net/ipv4/tcp_ecn", "1").unwrap().key(),
        "net/ipv4/tcp_ecn"
    );
    for (key, value, sentence) in [
        (
            "kernel.panic",
            "1",
            "sysctl `kernel.panic` is the machine's, not a network namespace's; only those that \
             begin with `net.` may be set",
        ),
        (
            "net",
            "1",
            "`net` is no sysctl; write for example net.ipv4.tcp_ecn",
        ),
        (
            "net/../kernel/panic",
            "1",
            "`net/../kernel/panic` is no sysctl; write for example net.ipv4.tcp_ecn",
        ),
        (
            "net.ipv4.tcp ecn",
            "1",
            "`net.ipv4.tcp ecn` is no sysctl; write for example net.ipv4.tcp_ecn",
        ),
        (
            "net.ipv4.tcp_ecn",
            "1\n2",
            "sysctl `net.ipv4.tcp_ecn` needs a value of one line",
        ),
        (
            "net.ipv4.tcp_ecn",
            " ",
            "sysctl `net.ipv4.tcp_ecn` needs a value of one line",
        ),
    ] {
        assert_eq!(Sysctl::new(key, value).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn a_port_accepts_only_its_own_commands() {
    let mut plan = Plan::new("x", &topology("rack:hosts=2"), Settings::default()).unwrap();
    for (line, sentence) in [
        (
            "qdisc add dev eth0 root pfifo",
            "h0, port tor0: `qdisc add dev eth0 root pfifo`: the device is to be tor0",
        ),
        (
            "qdisc add dev tor0 parent 2: pfifo",
            "h0, port tor0: `qdisc add dev tor0 parent 2: pfifo`: no command before it adds 2:",
        ),
    ] {
        let refused = plan
            .set_qdiscs(|_, _, _| qdisc::parse("lines", line))
            .unwrap_err();
        assert_eq!(refused.to_string(), sentence);
    }
}
