// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine's use of memory. It needs a process of its own, because the peak is per process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::time::Duration;

use weft_load::arrivals::Process;
use weft_load::engine::{
    Config, Connections, Ended, Engine, Host, Outcome, Watch, raise_descriptor_limit,
};
use weft_load::generate::{Background, Class, Flow, Until, Workload};
use weft_load::pairs::Pairs;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: Every call goes to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: The caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: The caller upholds the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn engine(network: u8, hosts: u8, connections: Connections) -> Engine {
    let host = |host| Host {
        netns: None,
        address: Ipv4Addr::new(127, network, 0, host + 1).into(),
    };
    let config = Config {
        port: 0,
        connections,
        patience: Duration::from_secs(60),
        ..Config::default()
    };
    Engine::new((0..hosts).map(host).collect(), config).unwrap()
}

/// Peak of resident memory in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

#[test]
fn no_memory_is_allocated_per_byte() {
    let mut engine = engine(101, 2, Connections::PerFlow);
    let mut allocations = |size| {
        let flow = Flow {
            id: 0,
            start_ns: 0,
            after: None,
            src: 0,
            dst: 1,
            size,
            class: Class::Background,
            deadline_ns: None,
            priority: None,
            warm_up: false,
        };
        let before = ALLOCATIONS.get();
        let report = engine.run([flow], Watch::default()).unwrap();
        assert!(matches!(report.flows[0].outcome, Outcome::Finished { .. }));
        ALLOCATIONS.get() - before
    };
    let (small, large) = (allocations(1), allocations(200_000_000));
    assert_eq!(small, large);
    assert!(small > 0);
}

#[test]
fn ten_thousand_flows_on_sixteen_hosts_take_under_300_mb() {
    // Enough for the connections below, and some spare.
    let descriptors = raise_descriptor_limit().unwrap();
    assert!(
        descriptors >= 4_000,
        "this test opens 3840 sockets: raise `ulimit -Hn`, which is {descriptors}"
    );
    let pairs = Pairs::uniform(16).unwrap();
    let workload = Workload {
        hosts: 16,
        background: Some(Background::Open {
            sizes: "fixed:10kB".parse().unwrap(),
            pairs,
            process: Process::Poisson,
            rate: 20_000.0,
        }),
        incast: None,
        added: Vec::new(),
        until: Until::Flows(10_000),
        warm_up: 0.1,
        deadlines: None,
        priorities: None,
        seed: 1,
    };
    for (network, connections) in [
        (102, Connections::PerFlow),
        // 240 pairs: 1920 connections, all open at the same time.
        (103, Connections::Persistent { ahead: 8 }),
    ] {
        let mut engine = engine(network, 16, connections);
        let report = engine.run(workload.flows().unwrap(), Watch::default());
        let report = report.unwrap();
        assert_eq!(report.ended, Ended::Complete);
        assert_eq!(report.flows.len(), 10_000);
        for result in &report.flows {
            assert!(
                matches!(result.outcome, Outcome::Finished { .. }),
                "{result:?}"
            );
            assert_eq!(result.received, result.flow.size);
        }
        if network == 103 {
            assert!(report.connections >= 1_920);
        }
        eprintln!(
            "{connections:?}: peak of resident memory {} kB",
            peak() / 1_000
        );
        assert!(peak() < 300_000_000, "{}", peak());
    }
}
