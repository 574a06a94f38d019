// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine over loopback: hosts are addresses of 127.0.0.0/8, in a separate network for each
//! test.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt};
use weft_load::engine::{
    Cancel, Config, Connections, Ended, Engine, Host, Outcome, Phase, Progress, Report, Since,
    Stage, Tick, Times, Watch,
};
use weft_load::generate::{Background, Class, Flow, Predecessors, Until, Workload};
use weft_load::pairs::Pairs;
use weft_load::sizes::Sizes;

const MS: u64 = 1_000_000;

/// Addresses that differ between processes that run these tests at the same time.
fn address(network: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, network, std::process::id() as u8, host + 1)
}

fn hosts(network: u8, count: u8) -> Vec<Host> {
    let host = |host| Host {
        netns: None,
        address: address(network, host).into(),
    };
    (0..count).map(host).collect()
}

/// Longer than any machine takes, so that no test result depends on it.
const PATIENCE: Duration = Duration::from_secs(600);

fn config() -> Config {
    Config {
        port: 0,
        patience: PATIENCE,
        ..Config::default()
    }
}

fn persistent(ahead: u32) -> Config {
    Config {
        connections: Connections::Persistent { ahead },
        ..config()
    }
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

/// Flows of all sizes that TCP treats differently, between all pairs of 4 hosts.
fn mixed() -> Vec<Flow> {
    let sizes = [1, 1_448, 1_449, 100_000, 3_000_000];
    let pair = |n: u32| (n % 4, (n + 1 + n / 4 % 3) % 4);
    (0..60_u32)
        .map(|n| {
            let id = u64::from(n);
            flow(id, id * MS / 2, pair(n), sizes[n as usize % sizes.len()])
        })
        .collect()
}

fn run(network: u8, config: Config, flows: &[Flow]) -> Report {
    let mut engine = Engine::new(hosts(network, 4), config).unwrap();
    let report = engine.run(flows.iter().copied(), Watch::default());
    report.unwrap()
}

/// Checks the properties of every flow in a run without failures.
fn assert_all_finished(report: &Report, flows: &[Flow]) {
    assert_eq!(report.ended, Ended::Complete);
    assert_eq!(report.flows.len(), flows.len());
    for (result, flow) in report.flows.iter().zip(flows) {
        assert_eq!(result.flow, *flow);
        assert_eq!(result.received, flow.size);
        let Outcome::Finished { end_ns } = result.outcome else {
            panic!("{result:?}");
        };
        let times = [
            result.due_ns.unwrap(),
            result.start_ns.unwrap(),
            result.first_byte_ns.unwrap(),
            end_ns,
            report.duration_ns,
        ];
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(
            result.fct_ns(Since::Start),
            Some(end_ns - result.start_ns.unwrap())
        );
        assert_eq!(
            result.fct_ns(Since::FirstByte),
            Some(end_ns - result.first_byte_ns.unwrap())
        );
        assert!(result.congestion_window.unwrap() >= 2);
    }
}

#[test]
fn every_flow_completes_with_its_bytes() {
    let flows = mixed();
    let report = run(1, config(), &flows);
    assert_all_finished(&report, &flows);
    assert_eq!(report.connections, flows.len() as u64);
    assert_eq!(report.strangers, 0);
    assert!(report.flows.iter().all(|result| !result.reused));
    assert!(report.flows.iter().all(|result| result.reconnects == 0));
}

#[test]
fn flows_start_in_order_never_early_and_lag_is_recorded() {
    let mut flows = mixed();
    // Flow numbers that are not in the order of start times.
    let last = flows.len() as u64 - 1;
    for flow in &mut flows {
        flow.start_ns = (last - flow.id) * MS / 2;
    }
    let report = run(2, config(), &flows);
    assert_all_finished(&report, &flows);
    let starts: Vec<_> = report
        .flows
        .iter()
        .rev()
        .map(|flow| flow.start_ns)
        .collect();
    assert!(starts.is_sorted());
    for (result, flow) in report.flows.iter().zip(&flows) {
        assert_eq!(result.due_ns, Some(flow.start_ns));
    }
    let lags: Vec<_> = report
        .flows
        .iter()
        .map(|flow| flow.lag_ns().unwrap())
        .collect();
    assert_eq!(report.lag.count, flows.len() as u64);
    assert_eq!(report.lag.sum_ns, lags.iter().sum::<u64>());
    assert_eq!(report.lag.max_ns, *lags.iter().max().unwrap());
    assert!(report.lag.max_ns > 0);
}

#[test]
fn in_a_closed_loop_the_end_of_a_flow_starts_the_next_of_its_pair() {
    let workload = Workload {
        hosts: 4,
        background: Some(Background::Closed {
            sizes: "fixed:20kB".parse::<Sizes>().unwrap(),
            pairs: Pairs::uniform(4).unwrap(),
            outstanding: NonZeroU32::new(2).unwrap(),
        }),
        incast: None,
        added: Vec::new(),
        until: Until::Flows(240),
        warm_up: 0.0,
        deadlines: None,
        priorities: None,
        seed: 1,
    };
    let flows: Vec<_> = workload.flows().unwrap().collect();
    for (network, config) in [(3, config()), (4, persistent(2))] {
        let opened_ahead = config.connections != Connections::PerFlow;
        let report = run(network, config, &flows);
        assert_all_finished(&report, &flows);
        for result in &report.flows {
            let due = result.flow.after.map_or(0, |before| {
                match report.flows[usize::try_from(before.first).unwrap()].outcome {
                    Outcome::Finished { end_ns } => end_ns,
                    other => panic!("{other:?}"),
                }
            });
            assert_eq!(result.due_ns, Some(due));
        }
        assert!(report.flows.iter().all(|flow| flow.reused == opened_ahead));
        // 12 pairs, 2 flows at a time.
        assert_eq!(report.connections, if opened_ahead { 24 } else { 240 });
    }
}

#[test]
fn persistent_connections_carry_one_flow_at_a_time() {
    // One after the other, so that the connection is free again.
    let in_turn: Vec<_> = (0..10_u64)
        .map(|id| Flow {
            after: id.checked_sub(1).map(Predecessors::one),
            ..flow(id, 0, (0, 1), 50_000)
        })
        .collect();
    let report = run(5, persistent(0), &in_turn);
    assert_all_finished(&report, &in_turn);
    assert_eq!(report.connections, 1);
    let reused: Vec<_> = report.flows.iter().map(|flow| flow.reused).collect();
    assert_eq!(reused, [[false].as_slice(), &[true; 9]].concat());
    // All at once, so that each flow needs its own connection.
    let at_once: Vec<_> = (0..10).map(|id| flow(id, 0, (0, 1), 3_000_000)).collect();
    let report = run(5, persistent(4), &at_once);
    assert_all_finished(&report, &at_once);
    assert!(report.connections > 4, "{}", report.connections);
    assert!(report.flows[..4].iter().all(|flow| flow.reused));
    assert_eq!(
        report.connections,
        4 + report.flows.iter().filter(|flow| !flow.reused).count() as u64
    );
}

#[test]
fn a_flows_number_chooses_its_source_port_or_the_next_free_one() {
    let flows: Vec<_> = (0..3).map(|id| flow(id, 0, (0, 1), 1 << 40)).collect();
    let config = Config {
        // Outside the range from which the kernel chooses the listeners' ports.
        source_ports: 20_000..=20_003,
        patience: Duration::from_millis(100),
        ..config()
    };
    let ports = || {
        let mut engine = Engine::new(hosts(6, 2), config.clone()).unwrap();
        let mut ports = Vec::new();
        let mut look = |_| {
            let sockets = sockets(6);
            let senders = sockets.iter().filter(|socket| socket.peer_addr().is_ok());
            let port = senders.map(|socket| socket.local_addr().unwrap().port());
            ports = port
                .filter(|port| (20_000..=20_003).contains(port))
                .collect();
        };
        let watch = Watch {
            sample: Some(Tick {
                every: Duration::from_millis(40),
                call: &mut look,
            }),
            ..Watch::default()
        };
        let report = engine.run(flows.iter().copied(), watch).unwrap();
        assert_eq!(report.ended, Ended::Patience);
        ports.sort_unstable();
        ports
    };
    assert_eq!(ports(), [20_000, 20_001, 20_002]);
    assert_eq!(ports(), [20_000, 20_001, 20_002]);
    let _taken = TcpListener::bind((address(6, 0), 20_001)).unwrap();
    assert_eq!(ports(), [20_000, 20_002, 20_003]);
}

/// Of each pair, an earlier flow has used the connection.
#[test]
fn the_packets_of_a_flow_have_the_class_selector_of_its_priority() {
    let flows: Vec<_> = [
        (Some(3), Some(5)),
        (Some(7), None),
        (None, Some(1)),
        (Some(2), Some(0)),
    ]
    .into_iter()
    .enumerate()
    .flat_map(|(pair, (before, now))| {
        let (id, pair) = (2 * pair as u64, pair as u32);
        let flow = |id, size| flow(id, 0, (pair, (pair + 1) % 4), size);
        let first = Flow {
            priority: before,
            ..flow(id, 1_000)
        };
        let second = Flow {
            priority: now,
            after: Some(Predecessors::one(id)),
            ..flow(id + 1, 1 << 40)
        };
        [first, second]
    })
    .collect();
    let config = Config {
        patience: Duration::from_millis(200),
        ..persistent(0)
    };
    let mut engine = Engine::new(hosts(26, 4), config).unwrap();
    // By sender, in the last sample.
    let mut selectors = BTreeMap::new();
    let mut look = |_| {
        let sockets = sockets(26);
        for socket in sockets.iter().filter(|socket| socket.peer_addr().is_ok()) {
            let tos = getsockopt(&**socket, sockopt::Ipv4Tos).unwrap();
            let (own, peer) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
            let host = |address: SocketAddr| match address {
                SocketAddr::V4(address) => address.ip().octets()[3] - 1,
                SocketAddr::V6(_) => panic!("{address}"),
            };
            if (host(own) + 1) % 4 == host(peer) {
                selectors.insert(host(own), tos >> 5);
            } else {
                assert_eq!(tos, 0, "the receiver's acknowledgements have no priority");
            }
        }
    };
    let watch = Watch {
        sample: Some(Tick {
            every: Duration::from_millis(10),
            call: &mut look,
        }),
        ..Watch::default()
    };
    let report = engine.run(flows, watch).unwrap();
    assert_eq!((report.ended, report.connections), (Ended::Patience, 4));
    assert_eq!(selectors, BTreeMap::from([(0, 5), (1, 0), (2, 1), (3, 0)]));
    let record = |n: usize| report.flows[n].record(Since::Start, 1.0, None, report.duration_ns);
    let priorities: Vec<_> = (0..8).map(|n| record(n).unwrap().priority).collect();
    let expected = report.flows.iter().map(|it| it.flow.priority);
    assert_eq!(priorities, expected.collect::<Vec<_>>());
}

#[test]
fn there_may_be_more_successive_connections_than_ports() {
    // TIME-WAIT must not block any of the ports.
    let flows: Vec<_> = (0_u64..500)
        .map(|id| Flow {
            after: u64::checked_sub(id, 1).map(Predecessors::one),
            ..flow(id, 0, (0, 1), 1_000)
        })
        .collect();
    let config = Config {
        source_ports: 40_000..=40_009,
        ..config()
    };
    let report = run(7, config, &flows);
    assert_all_finished(&report, &flows);
}

/// The sockets of this process whose local address is in a test's network. They are not closed.
fn sockets(network: u8) -> Vec<ManuallyDrop<TcpStream>> {
    let ours = |socket: &TcpStream| {
        let address = socket.local_addr().ok().map(|address| address.ip());
        matches!(address, Some(IpAddr::V4(ip)) if ip.octets()[..2] == [127, network])
    };
    let mut descriptors: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    descriptors.sort_unstable();
    descriptors
        .into_iter()
        .map(|fd| {
            // SAFETY: Never dropped, so never closed here; a descriptor that is not a socket only
            // gives errors. Those of this network belong to the engine that runs on this very
            // thread.
            ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) })
        })
        .filter(|socket| ours(socket))
        .collect()
}

/// Resets a connection from this end, and leaves the descriptor open.
fn reset(socket: &TcpStream) {
    let unspecified = libc::sockaddr {
        sa_family: libc::AF_UNSPEC as libc::sa_family_t,
        sa_data: [0; 14],
    };
    // SAFETY: The address and the length describe the same value.
    let result = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            &raw const unspecified,
            size_of_val(&unspecified) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}

#[test]
fn a_flow_whose_receiver_resets_fails_and_the_next_flow_continues() {
    for (network, config) in [(8, config()), (9, persistent(1))] {
        // The first flow cannot end by itself; the second one waits for it.
        let flows = [
            flow(0, 0, (0, 1), 1 << 40),
            Flow {
                after: Some(Predecessors::one(0)),
                ..flow(1, 0, (0, 1), 10_000)
            },
        ];
        let mut engine = Engine::new(hosts(network, 2), config).unwrap();
        let listens = address(network, 1);
        let mut calls = 0;
        let mut break_it = |_| {
            calls += 1;
            if calls == 3 {
                let sockets = sockets(network);
                let mut receivers = sockets.iter().filter(|socket| {
                    socket.peer_addr().is_ok() && socket.local_addr().unwrap().ip() == listens
                });
                reset(receivers.next().expect("the receiver is there"));
            }
        };
        let report = engine.run(
            flows,
            Watch {
                sample: Some(Tick {
                    every: Duration::from_millis(10),
                    call: &mut break_it,
                }),
                ..Watch::default()
            },
        );
        let report = report.unwrap();
        assert_eq!(report.ended, Ended::Complete);
        let Outcome::Failed(failure) = report.flows[0].outcome else {
            panic!("{:?}", report.flows[0]);
        };
        assert!(matches!(failure.stage, Stage::Send | Stage::Receive));
        assert!(failure.at_ns >= 20 * MS);
        let received = report.flows[0].received;
        assert!((1..1 << 40).contains(&received), "{received}");
        assert_eq!(report.flows[0].fct_ns(Since::Start), None);
        assert_eq!(report.flows[1].due_ns, Some(failure.at_ns));
        assert_eq!(report.flows[1].received, 10_000);
        assert!(matches!(report.flows[1].outcome, Outcome::Finished { .. }));
    }
}

#[test]
fn timed_calls_come_on_time_and_not_after_the_end() {
    let mut engine = Engine::new(hosts(31, 2), config()).unwrap();
    let flows = [0, 1].map(|id| flow(id, id * 60 * MS, (0, 1), 1_000));
    let at_ns = [0, 20 * MS, 20 * MS, 40 * MS, u64::MAX];
    let mut told = Vec::new();
    let mut call = |place, now_ns| told.push((place, now_ns));
    let watch = Watch {
        times: Some(Times {
            at_ns: &at_ns,
            call: &mut call,
        }),
        ..Watch::default()
    };
    let report = engine.run(flows, watch).unwrap();
    assert_eq!(report.ended, Ended::Complete);
    let places: Vec<usize> = told.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [0, 1, 2, 3]);
    for (place, now_ns) in told {
        assert!(
            now_ns >= at_ns[place] && now_ns < report.duration_ns,
            "{place}: {now_ns}"
        );
    }
}

/// The second flow of the pair begins when a flow of other hosts fails. That happens after the
/// first flow of the pair has ended and its connection, free by then, was reset.
#[test]
fn an_idle_connection_that_was_reset_is_not_reused() {
    let flows = [
        flow(0, 0, (0, 1), 1_000),
        flow(1, 0, (2, 3), 1 << 40),
        Flow {
            after: Some(Predecessors::one(1)),
            ..flow(2, 0, (0, 1), 1_000)
        },
    ];
    let mut engine = Engine::new(hosts(25, 4), persistent(1)).unwrap();
    let mut done = false;
    let mut break_them = |progress: Progress| {
        if progress.ended == 1 && !done {
            done = true;
            for host in [1, 3] {
                let listens = address(25, host);
                let sockets = sockets(25);
                let mut receivers = sockets.iter().filter(|socket| {
                    socket.peer_addr().is_ok() && socket.local_addr().unwrap().ip() == listens
                });
                reset(receivers.next().expect("the receiver is there"));
            }
        }
    };
    let watch = Watch {
        progress: Some(Tick {
            every: Duration::from_millis(10),
            call: &mut break_them,
        }),
        ..Watch::default()
    };
    let report = engine.run(flows, watch).unwrap();
    assert_eq!(report.ended, Ended::Complete);
    assert!(matches!(report.flows[1].outcome, Outcome::Failed(_)));
    for place in [0, 2] {
        let outcome = &report.flows[place].outcome;
        assert!(matches!(outcome, Outcome::Finished { .. }), "{outcome:?}");
    }
    assert_eq!(report.connections, 3);
    assert!(report.flows[0].reused && !report.flows[2].reused);
}

/// Resets up to `most` connections between a flow's start and the engine's accept: loopback has
/// connected them by then. Returns the report and the times of the resets.
fn run_with_resets(network: u8, most: usize) -> (Report, Vec<u64>) {
    let mut engine = Engine::new(hosts(network, 2), config()).unwrap();
    let mut resets = Vec::new();
    let mut accept_first = |now_ns| {
        for socket in sockets(network) {
            if resets.len() < most && socket.peer_addr().is_err() {
                // SAFETY: Never dropped; a socket that does not listen only gives errors.
                let listener =
                    ManuallyDrop::new(unsafe { TcpListener::from_raw_fd(socket.as_raw_fd()) });
                if let Ok((accepted, _)) = listener.accept() {
                    reset(&accepted);
                    resets.push(now_ns);
                }
            }
        }
    };
    let watch = Watch {
        sample: Some(Tick {
            every: Duration::from_nanos(1),
            call: &mut accept_first,
        }),
        ..Watch::default()
    };
    let report = engine.run([flow(0, 0, (0, 1), 10_000)], watch).unwrap();
    (report, resets)
}

#[test]
fn a_connection_that_is_reset_before_it_is_accepted_is_reopened() {
    let (report, resets) = run_with_resets(10, 3);
    assert_all_finished(&report, &[flow(0, 0, (0, 1), 10_000)]);
    assert_eq!(resets.len(), 3);
    assert_eq!(report.flows[0].reconnects, 3);
    assert_eq!(report.connections, 4);
    // Its time counts from its first byte on the first of these connections.
    let first_byte_ns = report.flows[0].first_byte_ns.unwrap();
    assert!(
        first_byte_ns <= resets[0],
        "{first_byte_ns}, reset at {resets:?}"
    );
}

#[test]
fn a_flow_whose_every_connection_is_reset_fails() {
    let (report, resets) = run_with_resets(11, usize::MAX);
    assert_eq!(report.ended, Ended::Complete);
    let Outcome::Failed(failure) = report.flows[0].outcome else {
        panic!("{:?}", report.flows[0]);
    };
    assert_eq!(failure.stage, Stage::Connect);
    assert_eq!(
        failure.to_string(),
        "connecting: Connection reset by peer (os error 104)"
    );
    assert_eq!((report.flows[0].reconnects, resets.len()), (16, 17));
    assert_eq!(report.flows[0].received, 0);
}

/// A long flow, and others that begin every 2 ms while it lasts.
#[test]
fn load_stays_on_until_the_workload_has_ended_and_no_longer() {
    let mut engine = Engine::new(hosts(20, 3), config()).unwrap();
    let own = [flow(0, 0, (0, 1), 400_000_000), flow(1, MS, (2, 1), 1_000)];
    let mut id = 1;
    let mut more = || {
        id += 1;
        Some(Flow {
            warm_up: true,
            ..flow(id, 2 * id * MS, (2, 1), 1_000)
        })
    };
    let mut seen = Vec::new();
    let mut progress = |it: Progress| seen.push(it);
    let watch = Watch {
        more: Some(&mut more),
        progress: Some(Tick {
            every: Duration::from_secs(100),
            call: &mut progress,
        }),
        ..Watch::default()
    };
    let report = engine.run(own, watch).unwrap();
    assert_eq!((report.ended, report.own), (Ended::Complete, 2));
    let ends = report.flows.iter().map(|it| match it.outcome {
        Outcome::Finished { end_ns } => end_ns,
        _ => 0,
    });
    let ends: Vec<u64> = ends.collect();
    let extra = &report.flows[2..];
    assert!(extra.len() > 10, "{}", extra.len());
    // They began while the long flow lasted, and the run does not wait for the last one.
    let last = extra.iter().rev().find_map(|it| it.start_ns).unwrap();
    assert!(last <= ends[0] && ends[0] <= report.duration_ns);
    let last = seen.last().unwrap();
    assert_eq!((last.flows, last.started, last.ended), (2, 2, 2));
}

/// An added flow begins later than the other flows.
#[test]
fn load_stays_on_before_a_flow_that_comes_later_by_itself() {
    let mut engine = Engine::new(hosts(22, 3), config()).unwrap();
    let late = Flow {
        class: Class::Added,
        ..flow(2, 1_500 * MS, (2, 1), 1_000)
    };
    let own = [
        flow(0, 0, (0, 1), 400_000_000),
        flow(1, MS, (2, 1), 1_000),
        late,
    ];
    let mut id = 2;
    // Rare enough that a slow machine does not run out of descriptors.
    let mut more = || {
        id += 1;
        Some(flow(id, 2 * id * MS, (2, 1), 1_000))
    };
    let mut seen = Vec::new();
    let mut progress = |it: Progress| seen.push(it);
    let watch = Watch {
        more: Some(&mut more),
        progress: Some(Tick {
            every: Duration::from_millis(100),
            call: &mut progress,
        }),
        ..Watch::default()
    };
    let report = engine.run(own, watch).unwrap();
    assert_eq!((report.ended, report.own), (Ended::Complete, 3));
    let Outcome::Finished { end_ns } = report.flows[0].outcome else {
        panic!("{:?}", report.flows[0]);
    };
    let extra = &report.flows[3..];
    assert!(extra.len() > 10, "{}", extra.len());
    // They begin on time, and none after the end of the long flow, except the one that was next
    // then.
    assert!(extra.iter().all(|it| it.due_ns == Some(it.flow.start_ns)));
    assert!(extra[extra.len() - 2].start_ns.unwrap() <= end_ns);
    let begun = report.flows[2].start_ns.unwrap();
    assert!(begun >= 1_500 * MS);
    // Flows that keep up the load do not count as started.
    for it in &seen {
        assert!(
            it.started <= if it.now_ns < begun { 2 } else { 3 },
            "{it:?}"
        );
    }
    assert_eq!(seen.last().unwrap().started, 3);
}

/// Patience is shorter than the time before the last flow. If it counted from an earlier start, it
/// would be over before.
#[test]
fn patience_is_counted_from_the_last_start() {
    let config = Config {
        patience: Duration::from_millis(100),
        ..config()
    };
    let mut engine = Engine::new(hosts(23, 3), config).unwrap();
    let late = Flow {
        class: Class::Added,
        ..flow(1, 300 * MS, (2, 1), 1 << 40)
    };
    let own = [flow(0, 0, (0, 1), 1 << 40), late];
    let report = engine.run(own, Watch::default()).unwrap();
    assert_eq!(report.ended, Ended::Patience);
    assert!(report.flows[1].start_ns.unwrap() >= 300 * MS);
    assert!(report.duration_ns >= 400 * MS, "{}", report.duration_ns);
}

#[test]
fn load_is_not_kept_up_for_longer_than_patience() {
    let config = Config {
        patience: Duration::from_millis(50),
        ..config()
    };
    let mut engine = Engine::new(hosts(21, 3), config).unwrap();
    let mut endless = flow(0, 0, (0, 1), 1 << 40);
    let mut id = 0;
    let mut more = || {
        id += 1;
        Some(flow(id, id * MS, (2, 1), 1_000))
    };
    let watch = Watch {
        more: Some(&mut more),
        ..Watch::default()
    };
    let report = engine.run([endless], watch).unwrap();
    assert_eq!(report.ended, Ended::Patience);
    assert!(report.flows.len() > 5);
    // The load is not kept up for added flows.
    endless.class = Class::Added;
    let mut none = || panic!("asked for another flow");
    let watch = Watch {
        more: Some(&mut none),
        ..Watch::default()
    };
    let report = engine.run([endless], watch).unwrap();
    assert_eq!((report.ended, report.flows.len()), (Ended::Patience, 1));
}

/// The last flow begins when the short one has ended, so patience is not over before.
#[test]
fn flows_that_do_not_end_are_in_the_report_when_patience_is_over() {
    let config = Config {
        patience: Duration::from_millis(100),
        ..config()
    };
    let flows = [
        flow(0, 0, (0, 1), 1 << 40),
        flow(1, 20 * MS, (2, 3), 1_000),
        Flow {
            after: Some(Predecessors::one(0)),
            ..flow(2, 0, (0, 1), 1_000)
        },
        Flow {
            after: Some(Predecessors::one(1)),
            ..flow(3, 0, (2, 3), 1 << 40)
        },
    ];
    let report = run(12, config, &flows);
    assert_eq!(report.ended, Ended::Patience);
    // Counted from the last start.
    let last = report.flows[3].start_ns.unwrap();
    assert!(
        report.duration_ns >= last + 100 * MS,
        "{}",
        report.duration_ns
    );
    assert_eq!(report.flows[0].outcome, Outcome::Unfinished);
    assert!((1..1 << 40).contains(&report.flows[0].received));
    assert!(matches!(report.flows[1].outcome, Outcome::Finished { .. }));
    assert_eq!(report.flows[2].outcome, Outcome::NotStarted);
    assert_eq!(report.flows[2].due_ns, None);
    assert_eq!(report.flows[3].outcome, Outcome::Unfinished);
    let record =
        |n: usize| report.flows[n].record(Since::Start, 1.0, Some(1.0), report.duration_ns);
    let unfinished = record(0).unwrap();
    assert_eq!(unfinished.fct_ns, None);
    let partial = unfinished.partial.unwrap();
    assert_eq!(partial.bytes, report.flows[0].received);
    assert!((100 * MS..=report.duration_ns).contains(&partial.ns));
    assert_eq!(record(1).unwrap().partial, None);
    assert!(record(1).unwrap().slowdown.unwrap() > 1.0);
    assert_eq!(record(2), None);
    // All its sockets are closed.
    assert_eq!(sockets(12).len(), 0);
}

#[test]
fn a_cancelled_run_ends_at_once_and_closes_all_connections() {
    let cancel = Cancel::new().unwrap();
    let mut engine = Engine::new(hosts(13, 2), config()).unwrap();
    let flows = [
        flow(0, 0, (0, 1), 1 << 40),
        flow(1, 3_600_000 * MS, (1, 0), 1),
    ];
    let mut samples = 0;
    let mut cancel_it = |_| {
        samples += 1;
        if samples == 5 {
            cancel.cancel();
        }
    };
    let watch = Watch {
        cancel: Some(&cancel),
        sample: Some(Tick {
            every: Duration::from_millis(10),
            call: &mut cancel_it,
        }),
        ..Watch::default()
    };
    // The second flow would begin in an hour, and nothing else would end the run before.
    let report = engine.run(flows, watch).unwrap();
    assert_eq!(report.ended, Ended::Cancelled);
    assert_eq!(report.flows[0].outcome, Outcome::Unfinished);
    assert_eq!(report.flows[1].outcome, Outcome::NotStarted);
    // Only the listeners remain.
    assert_eq!(sockets(13).len(), 2);
    // A later run is cancelled, too.
    let watch = Watch {
        cancel: Some(&cancel),
        ..Watch::default()
    };
    assert_eq!(engine.run(flows, watch).unwrap().ended, Ended::Cancelled);
    drop(engine);
    assert_eq!(sockets(13).len(), 0);
}

#[test]
fn an_engine_can_run_twice() {
    let mut engine = Engine::new(hosts(14, 4), config()).unwrap();
    let flows = mixed();
    for _ in 0..2 {
        let report = engine.run(flows.iter().copied(), Watch::default());
        assert_all_finished(&report.unwrap(), &flows);
    }
}

#[test]
fn each_phase_is_announced_before_it_begins() {
    use Phase::{Connections, Flows};
    let flows = [0, 1].map(|id| flow(id, 0, (0, 1), 1_000));
    for (config, expected) in [
        (config(), vec![(Flows, 0)]),
        (persistent(0), vec![(Flows, 0)]),
        (persistent(2), vec![(Connections, 0), (Flows, 2)]),
    ] {
        let mut engine = Engine::new(hosts(24, 2), config).unwrap();
        let mut told = Vec::new();
        let mut phase = |phase| {
            let sockets = sockets(24);
            let senders = sockets.iter().filter(|socket| {
                let is_sender = socket.local_addr().unwrap().ip() == address(24, 0);
                is_sender && socket.peer_addr().is_ok()
            });
            told.push((phase, senders.count()));
        };
        let watch = Watch {
            phase: Some(&mut phase),
            ..Watch::default()
        };
        let report = engine.run(flows, watch).unwrap();
        assert_all_finished(&report, &flows);
        assert_eq!(told, expected);
    }
}

#[test]
fn samples_and_progress_come_on_the_clock() {
    let flows: Vec<_> = (0..11)
        .map(|id| flow(id, id * 10 * MS, (0, 1), 1_000))
        .collect();
    let mut engine = Engine::new(hosts(15, 2), config()).unwrap();
    let (mut samples, mut seen) = (Vec::new(), Vec::new());
    let report = engine.run(
        flows.iter().copied(),
        Watch {
            progress: Some(Tick {
                every: Duration::from_millis(25),
                call: &mut |progress| seen.push(progress),
            }),
            sample: Some(Tick {
                every: Duration::from_millis(10),
                call: &mut |now| samples.push(now),
            }),
            cancel: None,
            ..Watch::default()
        },
    );
    let report = report.unwrap();
    assert_all_finished(&report, &flows);
    let Outcome::Finished { end_ns } = report.flows[0].outcome else {
        panic!("{:?}", report.flows[0]);
    };
    // The first sample comes before any flow has ended.
    assert!(samples[0] < end_ns, "{samples:?} {end_ns}");
    // One sample in each period, unless one was missed.
    assert!(
        samples
            .windows(2)
            .all(|pair| pair[0] / (10 * MS) < pair[1] / (10 * MS))
    );
    assert!(samples.len() >= 2, "{samples:?}");
    assert!(seen.iter().all(|progress| progress.flows == 11));
    assert!(seen.is_sorted_by_key(|progress| (progress.now_ns, progress.started, progress.ended)));
    let last = seen.last().unwrap();
    assert_eq!((last.started, last.ended), (11, 11));
    assert!(seen.len() >= 2, "{seen:?}");
}

#[test]
fn the_time_of_a_large_flow_is_plausible_and_within_its_run() {
    let size = 200_000_000;
    let before = Instant::now();
    let report = run(16, config(), &[flow(0, 0, (0, 1), size)]);
    let outside = before.elapsed();
    let fct = report.flows[0].fct_ns(Since::Start).unwrap();
    assert!(fct <= report.duration_ns && Duration::from_nanos(report.duration_ns) < outside);
    // No machine copies 1 Tbit/s through a socket.
    let bits_per_second = size as f64 * 8e9 / fct as f64;
    assert!(bits_per_second < 1e12, "{bits_per_second:e}");
}

#[test]
fn buffer_sizes_and_the_congestion_control_can_be_set() {
    let config = Config {
        send_buffer: NonZeroU32::new(300_000),
        receive_buffer: NonZeroU32::new(20_000),
        congestion_control: Some("reno".into()),
        ..config()
    };
    // Long enough to be visible in the kernel's ticks, in which it measures what limits a flow.
    let flows = [flow(0, 0, (0, 1), 100_000_000)];
    let mut engine = Engine::new(hosts(17, 2), config).unwrap();
    let mut seen = Vec::new();
    let mut look = |_| {
        use nix::sys::socket::{getsockopt, sockopt};
        let sockets = sockets(17);
        let connected = sockets.iter().filter(|socket| socket.peer_addr().is_ok());
        let now: Vec<_> = connected
            .map(|socket| {
                let control = getsockopt(&**socket, sockopt::TcpCongestion).unwrap();
                let sends = socket.local_addr().unwrap().ip() == address(17, 0);
                let buffer = if sends {
                    getsockopt(&**socket, sockopt::SndBuf)
                } else {
                    getsockopt(&**socket, sockopt::RcvBuf)
                };
                // The value is a C string, padded to the size of the option.
                let control = control.into_string().unwrap();
                (
                    sends,
                    control.trim_end_matches('\0').to_owned(),
                    buffer.unwrap(),
                )
            })
            .collect();
        // At first there is only the sender, and again at the end.
        if now.len() > seen.len() {
            seen = now;
        }
    };
    let watch = Watch {
        sample: Some(Tick {
            every: Duration::from_millis(1),
            call: &mut look,
        }),
        ..Watch::default()
    };
    let report = engine.run(flows, watch).unwrap();
    assert_all_finished(&report, &flows);
    // The kernel doubles both buffer sizes.
    let reno = || "reno".to_owned();
    seen.sort_unstable();
    assert_eq!(seen, [(false, reno(), 40_000), (true, reno(), 600_000)]);
    let result = &report.flows[0];
    assert!(result.receive_window_limited > Duration::ZERO, "{result:?}");
}

#[test]
fn declaring_sizes_without_attached_programs_is_an_error() {
    let config = Config {
        declare_size: true,
        ..config()
    };
    // If weft's programs were attached here, there would be no error.
    let refused = Engine::new(hosts(18, 2), config).unwrap_err().to_string();
    assert!(
        refused.starts_with("declaring a flow's size (weft's programs are not attached"),
        "{refused}"
    );
}

#[test]
fn hosts_that_do_not_fit_are_refused() {
    let refused = |hosts, config| Engine::new(hosts, config).unwrap_err().to_string();
    assert_eq!(refused(hosts(19, 1), config()), "1 hosts: a flow needs two");
    let host = |address: &str| Host {
        netns: None,
        address: address.parse().unwrap(),
    };
    assert_eq!(
        refused(vec![host("127.19.0.1"), host("::1")], config()),
        "host h1 has address ::1, host h0 127.19.0.1: expected all IPv4 or all IPv6"
    );
    assert_eq!(
        refused(vec![host("127.19.0.1"), host("127.19.0.1")], config()),
        "host h1 has address 127.19.0.1, which another host has too"
    );
    let error = refused(vec![host("127.19.0.1"), host("192.0.2.1")], config());
    assert!(
        error.starts_with("host h1: listening on 192.0.2.1:0: "),
        "{error}"
    );
    let no_namespace = Host {
        netns: Some(std::fs::File::open("/dev/null").unwrap().into()),
        ..host("127.19.0.2")
    };
    let error = refused(vec![host("127.19.0.1"), no_namespace], config());
    assert!(
        error.starts_with("entering the network namespace of host h1: "),
        "{error}"
    );
    let none = Config {
        source_ports: 0..=1,
        ..config()
    };
    assert!(refused(hosts(19, 2), none).contains("expected at least one, none of them 0"));
    let mut engine = Engine::new(hosts(19, 2), config()).unwrap();
    let error = engine.run([flow(0, 0, (0, 2), 1)], Watch::default());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("expected two different of 2 hosts")
    );
}
