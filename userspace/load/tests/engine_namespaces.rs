// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine between network namespaces, in a user namespace of its own. It needs no privilege
//! where the kernel allows unprivileged user namespaces, and root otherwise. It does without the
//! standard harness, because a process must have one thread when it creates a user namespace.
//!
//! Three hosts on a bridge, each behind 100 Mbit/s towards itself with a queue of 30 kB:
//!
//! ```text
//! h0 ── bridge ── h1
//!         │
//!         h2
//! ```

use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};
use weft_load::engine::{
    Cancel, Config, Connections, Ended, Engine, Host, Outcome, Report, Since, Stage, Tick, Watch,
};
use weft_load::generate::{Class, Flow, Predecessors};

const HOSTS: u32 = 3;
const THIS: &str = "/proc/thread-self/ns/net";
const RATE: f64 = 100e6;

type Test = fn(&Bridged);

fn main() {
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET) {
        // Root does not need a user namespace.
        if let Err(other) = unshare(CloneFlags::CLONE_NEWNET) {
            println!(
                "SKIP all tests: no user namespace here ({errno}), and no privilege ({other})"
            );
            return;
        }
    } else {
        fs::write("/proc/self/setgroups", "deny").unwrap();
        fs::write("/proc/self/uid_map", format!("0 {uid} 1")).unwrap();
        fs::write("/proc/self/gid_map", format!("0 {gid} 1")).unwrap();
    }
    let fabric = Bridged::new();
    let tests: [(&str, Test); 10] = [
        ("flows_cross_namespaces_over_ipv4", |fabric| {
            flows_cross_namespaces(fabric, "10.0.0.")
        }),
        ("flows_cross_namespaces_over_ipv6", |fabric| {
            flows_cross_namespaces(fabric, "fd00::")
        }),
        (
            "callbacks_run_in_the_first_namespace",
            callbacks_run_in_the_first_namespace,
        ),
        (
            "a_long_flow_takes_at_least_the_time_of_its_bytes",
            a_long_flow_takes_at_least_the_time_of_its_bytes,
        ),
        (
            "retransmissions_are_those_of_the_kernel",
            retransmissions_are_those_of_the_kernel,
        ),
        (
            "what_is_unfinished_is_forgotten_by_the_kernel_too",
            what_is_unfinished_is_forgotten_by_the_kernel_too,
        ),
        (
            "flows_that_keep_up_the_load_begin_on_time_where_nothing_else_happens",
            flows_that_keep_up_the_load_begin_on_time,
        ),
        ("timeouts_are_counted", timeouts_are_counted),
        (
            "ports_in_time_wait_are_used_again",
            ports_in_time_wait_are_used_again,
        ),
        (
            "a_host_that_cannot_be_reached_fails_its_flows",
            a_host_that_cannot_be_reached,
        ),
    ];
    for (name, test) in tests {
        let before = fs::read_link(THIS).unwrap();
        test(&fabric);
        assert_eq!(
            fs::read_link(THIS).unwrap(),
            before,
            "{name}: not back home"
        );
        println!("test {name} ... ok");
    }
}

struct Bridged {
    hosts: Vec<OwnedFd>,
}

impl Bridged {
    fn new() -> Self {
        ip("link add bridge type bridge");
        ip("link set bridge up");
        let hosts = (0..HOSTS).map(|host| {
            let namespace = namespace();
            let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
            ip(&format!(
                "link add port{host} type veth peer name eth0 netns {path}"
            ));
            ip(&format!("link set port{host} master bridge up"));
            run("tc", &format!("qdisc add dev port{host} root {}", shaper()));
            inside(&namespace, || {
                let number = host + 1;
                ip("link set lo up");
                ip("link set eth0 up");
                ip(&format!("address add 10.0.0.{number}/24 dev eth0"));
                ip(&format!("address add fd00::{number}/64 dev eth0 nodad"));
            });
            namespace
        });
        Self {
            hosts: hosts.collect(),
        }
    }

    fn engine(&self, network: &str, config: &Config) -> Engine {
        let host = |(number, namespace): (usize, &OwnedFd)| Host {
            netns: Some(namespace.try_clone().unwrap()),
            address: address(network, number),
        };
        let hosts = self.hosts.iter().enumerate().map(host).collect();
        Engine::new(hosts, config.clone()).unwrap()
    }

    fn run(&self, network: &str, config: &Config, flows: &[Flow]) -> Report {
        let mut engine = self.engine(network, config);
        engine.run(flows.iter().copied(), Watch::default()).unwrap()
    }
}

fn shaper() -> String {
    format!("tbf rate {RATE}bit burst 3kb limit 30kb")
}

fn address(network: &str, host: usize) -> IpAddr {
    format!("{network}{}", host + 1).parse().unwrap()
}

/// A new namespace, created by a thread that ends.
fn namespace() -> OwnedFd {
    let make = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        File::open(THIS).unwrap().into()
    };
    std::thread::scope(|scope| scope.spawn(make).join().unwrap())
}

fn inside<T: Send>(namespace: &OwnedFd, f: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        f()
    };
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

fn ip(arguments: &str) {
    run("ip", arguments);
}

fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("{program} (of iproute2): {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said}");
}

fn flow(id: u64, start_ns: u64, (src, dst): (u32, u32), size: u64) -> Flow {
    Flow {
        id,
        start_ns,
        after: None,
        src,
        dst,
        size,
        class: Class::Background,
        deadline_ns: None,
        priority: None,
        warm_up: false,
    }
}

fn config() -> Config {
    Config {
        // Longer than any machine takes, so that no test result depends on it.
        patience: Duration::from_secs(600),
        ..Config::default()
    }
}

fn assert_all_finished(report: &Report) {
    assert_eq!(report.ended, Ended::Complete);
    for result in &report.flows {
        assert!(
            matches!(result.outcome, Outcome::Finished { .. }),
            "{result:?}"
        );
        assert_eq!(result.received, result.flow.size);
    }
}

fn flows_cross_namespaces(fabric: &Bridged, network: &str) {
    let pair = |n: u32| (n % 3, (n + 1 + n / 3 % 2) % 3);
    let flows: Vec<_> = (0..30_u32)
        .map(|n| {
            flow(
                n.into(),
                u64::from(n) * 2_000_000,
                pair(n),
                1 + u64::from(n) * 2_000,
            )
        })
        .collect();
    for connections in [Connections::PerFlow, Connections::Persistent { ahead: 1 }] {
        let config = Config {
            connections,
            ..config()
        };
        let report = fabric.run(network, &config, &flows);
        assert_all_finished(&report);
        assert_eq!(report.strangers, 0);
    }
}

fn callbacks_run_in_the_first_namespace(fabric: &Bridged) {
    let home = fs::read_link(THIS).unwrap();
    let flows: Vec<_> = (0..20)
        .map(|id| flow(id, id * 2_000_000, (0, 1), 5_000))
        .collect();
    let mut engine = fabric.engine("10.0.0.", &config());
    let (mut samples, mut told) = (0, 0);
    let report = engine.run(
        flows,
        Watch {
            progress: Some(Tick {
                every: Duration::from_millis(1),
                call: &mut |_| {
                    assert_eq!(fs::read_link(THIS).unwrap(), home);
                    told += 1;
                },
            }),
            sample: Some(Tick {
                every: Duration::from_millis(1),
                call: &mut |_| {
                    assert_eq!(fs::read_link(THIS).unwrap(), home);
                    samples += 1;
                },
            }),
            ..Watch::default()
        },
    );
    assert_all_finished(&report.unwrap());
    assert!(samples >= 2 && told >= 2);
}

/// In 1514-byte frames at 100 Mbit/s, the receiver gets 94.9 % of the rate: 1448 bytes of payload
/// and 66 of headers per frame. The first 30 kB may arrive sooner, as tbf's burst. How much later
/// the flow ends depends on TCP and on the machine's load; `sharing` in `weft-fabric-selftests`
/// compares times with a law, in virtual time.
fn a_long_flow_takes_at_least_the_time_of_its_bytes(fabric: &Bridged) {
    let size = 5_000_000;
    let report = fabric.run("10.0.0.", &config(), &[flow(0, 0, (0, 1), size)]);
    assert_all_finished(&report);
    let best_ns = |bytes: u64| bytes as f64 * 8e9 / RATE * 1514.0 / 1448.0;
    let fct = report.flows[0].fct_ns(Since::FirstByte).unwrap() as f64;
    assert!(fct >= best_ns(size - 30_000), "{fct} {}", best_ns(size));
}

/// A counter of a host's TCP, in a file of `/proc/net` whose lines begin with `group`.
fn counter(namespace: &OwnedFd, (file, group, name): (&str, &str, &str)) -> u64 {
    let table = inside(namespace, || {
        fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap()
    });
    let mut lines = table.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, value) = both.find(|(it, _)| *it == name).unwrap();
    value.parse().unwrap()
}

fn retransmitted(namespace: &OwnedFd) -> u64 {
    counter(namespace, ("snmp", "Tcp:", "RetransSegs"))
}

fn retransmissions_are_those_of_the_kernel(fabric: &Bridged) {
    for connections in [Connections::PerFlow, Connections::Persistent { ahead: 1 }] {
        let config = Config {
            connections,
            ..config()
        };
        // Two senders to one receiver through 30 kB of queue. Also one after the other on a
        // connection.
        let flows: Vec<_> = (0..4_u64)
            .map(|id| Flow {
                after: id.checked_sub(2).map(Predecessors::one),
                ..flow(id, 0, (id as u32 % 2, 2), 2_000_000)
            })
            .collect();
        let count = || fabric.hosts.iter().map(retransmitted).sum::<u64>();
        let before = count();
        let report = fabric.run("10.0.0.", &config, &flows);
        let retransmitted = count() - before;
        assert_all_finished(&report);
        let told = report
            .flows
            .iter()
            .map(|flow| flow.retransmissions)
            .sum::<u64>();
        assert!(told > 0);
        // Receivers may report duplicates late, when the connection carries another flow.
        let spurious = report.flows.iter().map(|flow| flow.spurious);
        let spurious = spurious.sum::<Option<u64>>();
        assert!(spurious.is_some_and(|spurious| spurious <= retransmitted));
        // Segments that are retransmitted after the receiver has all bytes count for no flow.
        assert!(
            told <= retransmitted && retransmitted - told <= 40,
            "{told} {retransmitted}"
        );
        assert!(
            report
                .flows
                .iter()
                .all(|flow| flow.timeouts <= Some(flow.retransmissions))
        );
    }
}

fn what_is_unfinished_is_forgotten_by_the_kernel_too(fabric: &Bridged) {
    let cancel = Cancel::new().unwrap();
    let mut engine = fabric.engine("10.0.0.", &config());
    let before = counter(&fabric.hosts[1], ("netstat", "IpExt:", "InOctets"));
    let (mut calls, mut silent_since) = (0, None);
    // Once bytes have arrived, the receiver gets no more packets. So it is not the receiver's reset
    // that closes the sender's socket.
    let mut silence = |_| {
        calls += 1;
        match silent_since {
            None => {
                let now = counter(&fabric.hosts[1], ("netstat", "IpExt:", "InOctets"));
                if now > before + 100_000 {
                    run("tc", "qdisc replace dev port1 root pfifo limit 0");
                    silent_since = Some(calls);
                }
            }
            Some(since) if calls == since + 2 => cancel.cancel(),
            Some(_) => {}
        }
    };
    let watch = Watch {
        sample: Some(Tick {
            every: Duration::from_millis(20),
            call: &mut silence,
        }),
        cancel: Some(&cancel),
        ..Watch::default()
    };
    let report = engine.run([flow(0, 0, (0, 1), 1 << 40)], watch).unwrap();
    assert_eq!(report.ended, Ended::Cancelled);
    assert_eq!(report.flows[0].outcome, Outcome::Unfinished);
    assert!(report.flows[0].received > 0);
    // Closes the listener's socket.
    drop(engine);
    let table = "/proc/thread-self/net/tcp";
    let sockets = inside(&fabric.hosts[0], || fs::read_to_string(table).unwrap());
    // The fourth word is the state; 06 is TIME_WAIT.
    let states = sockets
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(3));
    assert_eq!(
        states.filter(|state| *state != "06").count(),
        0,
        "{sockets}"
    );
    run("tc", &format!("qdisc replace dev port1 root {}", shaper()));
}

/// More flows at once than the engine starts at a time. No packet reaches a host, so no packet
/// wakes the engine.
fn flows_that_keep_up_the_load_begin_on_time(fabric: &Bridged) {
    const TOGETHER: u64 = 100;
    let cancel = Cancel::new().unwrap();
    // The kernel gives up a connection after about two minutes, which would wake the engine.
    let config = Config {
        patience: Duration::from_secs(60),
        ..config()
    };
    run("tc", "qdisc replace dev port1 root pfifo limit 0");
    let mut engine = fabric.engine("10.0.0.", &config);
    let mut id = 0;
    let mut more = || {
        id += 1;
        if id <= TOGETHER {
            return Some(flow(id, 50_000_000, (0, 1), 1_000));
        }
        // All flows have begun.
        cancel.cancel();
        Some(flow(id, 3_600_000_000_000, (0, 1), 1_000))
    };
    let watch = Watch {
        more: Some(&mut more),
        cancel: Some(&cancel),
        ..Watch::default()
    };
    let report = engine.run([flow(0, 0, (0, 1), 1_000)], watch).unwrap();
    run("tc", &format!("qdisc replace dev port1 root {}", shaper()));
    assert_eq!(report.ended, Ended::Cancelled);
    let begun = report.flows.iter().filter(|it| it.start_ns.is_some());
    assert_eq!(begun.count() as u64, 1 + TOGETHER);
}

fn timeouts_are_counted(fabric: &Bridged) {
    let mut engine = fabric.engine("10.0.0.", &config());
    let mut calls = 0;
    // Half a second of silence: the retransmission timer is at least 200 ms.
    let mut silence = |_| {
        calls += 1;
        match calls {
            2 => run("tc", "qdisc replace dev port1 root pfifo limit 0"),
            7 => run("tc", &format!("qdisc replace dev port1 root {}", shaper())),
            _ => {}
        }
    };
    let watch = Watch {
        sample: Some(Tick {
            every: Duration::from_millis(100),
            call: &mut silence,
        }),
        ..Watch::default()
    };
    // At least two seconds, so that it is active when the silence begins.
    let size = 25_000_000;
    let report = engine.run([flow(0, 0, (0, 1), size)], watch).unwrap();
    assert_all_finished(&report);
    let result = &report.flows[0];
    assert!(result.retransmissions >= 1, "{result:?}");
    // Unknown before Linux 6.7.
    assert!(
        result.timeouts.is_none_or(|timeouts| timeouts >= 1),
        "{result:?}"
    );
}

fn ports_in_time_wait_are_used_again(fabric: &Bridged) {
    let flows: Vec<_> = (0..30_u64)
        .map(|id| Flow {
            after: id.checked_sub(1).map(Predecessors::one),
            ..flow(id, 0, (0, 1), 20_000)
        })
        .collect();
    let config = Config {
        source_ports: 40_000..=40_004,
        ..config()
    };
    // A SYN that a port in TIME-WAIT does not answer is retransmitted.
    let syns = || counter(&fabric.hosts[0], ("netstat", "TcpExt:", "TCPSynRetrans"));
    let before = syns();
    let report = fabric.run("10.0.0.", &config, &flows);
    assert_all_finished(&report);
    assert_eq!(syns(), before);
    assert!(report.flows.iter().all(|flow| flow.reconnects == 0));
}

fn a_host_that_cannot_be_reached(fabric: &Bridged) {
    let mut engine = fabric.engine("10.0.0.", &config());
    inside(&fabric.hosts[1], || ip("link set eth0 down"));
    let report = engine.run(
        [flow(0, 0, (1, 0), 1_000), flow(1, 0, (2, 0), 1_000)],
        Watch::default(),
    );
    let report = report.unwrap();
    let Outcome::Failed(failure) = report.flows[0].outcome else {
        panic!("{:?}", report.flows[0]);
    };
    assert_eq!(
        (failure.stage, failure.errno),
        (Stage::Connect, libc::ENETUNREACH)
    );
    assert!(matches!(report.flows[1].outcome, Outcome::Finished { .. }));
    inside(&fabric.hosts[1], || ip("link set eth0 up"));
}
