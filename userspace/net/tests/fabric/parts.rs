// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fabric over several machines. A thread with its own network and mount namespaces represents a
//! machine here; a veth pair is the cable between two.

use std::net::{IpAddr, UdpSocket};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;
use weft_net::{Plan, Testbed, down, up};

use crate::state::{addresses, assert_nothing_left, everything, plan, run};

const FABRIC: &str = "leaf-spine:leaves=2,spines=2,hosts=2";
const MACHINES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// Makes this thread a machine without other testbeds.
fn separate() {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).expect("namespaces");
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("mounts of its own");
    mount(Some("run"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("a /run of its own");
    run("ip link set dev lo up");
}

/// The plan of one of two machines.
fn part(own: usize) -> Plan {
    let mut plan = plan("parts", FABRIC);
    let machines = MACHINES.map(|address| address.parse().expect("an address"));
    plan.set_part(&machines, own)
        .unwrap_or_else(|wrong| panic!("{wrong}"));
    plan
}

fn bound(testbed: &Testbed, host: &str, address: IpAddr) -> UdpSocket {
    let socket = testbed.enter(host, || UdpSocket::bind((address, 7000)));
    let socket = socket.expect("a node").expect("its own address");
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a time");
    socket
}

/// Creates both machines' parts with `weave`. Hosts of this machine send to hosts of the other,
/// with packets of the fabric's MTU.
fn reach_each_other(weave: fn(&Plan)) {
    let (say, hear) = mpsc::channel();
    let both = Barrier::new(2);
    let machine = |own: usize| {
        let device = format!("cable{own}");
        run(&format!(
            "ip address add {}/24 dev {device} && ip link set dev {device} up",
            MACHINES[own]
        ));
        let plan = part(own);
        weave(&plan);
        let testbed = Testbed::open("parts").expect("a testbed");
        let (here, there) = (["h0", "h3"][own], ["h3", "h0"][own]);
        let sockets = addresses(&plan, here).map(|address| bound(&testbed, here, address));
        both.wait();
        let mut buffer = [0; 2000];
        for (socket, there) in sockets.iter().zip(addresses(&plan, there)) {
            // Each on another path; some of the four cross the other machine's spine and return.
            for port in 7000..7004 {
                let from = testbed.enter(here, || {
                    UdpSocket::bind((socket.local_addr().unwrap().ip(), port + 100))
                });
                from.expect("a node")
                    .expect("a port")
                    .send_to(&[own as u8; 1400], (there, 7000))
                    .unwrap();
            }
            for _ in 0..4 {
                let (length, source) = socket.recv_from(&mut buffer).expect("a datagram in time");
                assert_eq!(
                    (length, source.ip(), buffer[0]),
                    (1400, there, 1 - own as u8)
                );
            }
        }
        both.wait();
        down("parts").unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_nothing_left();
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            separate();
            say.send(gettid()).expect("a listener");
            both.wait();
            machine(1);
        });
        let (both, machine) = (&both, &machine);
        let one = scope.spawn(move || {
            separate();
            let there = hear.recv().expect("the other's thread");
            run(&format!(
                "ip link add cable0 mtu 1600 type veth peer name cable1 mtu 1600 netns {there}"
            ));
            both.wait();
            machine(0);
        });
        for machine in [one, other] {
            machine.join().expect("a machine");
        }
    });
}

pub(crate) fn parts_on_two_machines_are_one_fabric() {
    reach_each_other(|plan| {
        up(plan, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
}

pub(crate) fn the_printed_commands_make_a_part_too() {
    let seen = |weave: &(dyn Fn(&Plan) + Sync)| {
        thread::scope(|scope| {
            let seen = scope.spawn(|| {
                separate();
                run("ip link add cable0 type veth peer name cable1 && ip address add 192.0.2.1/24 dev cable0 && ip link set cable0 up");
                weave(&part(0));
                let nodes = run("ls /run/netns");
                let seen: Vec<_> = nodes.split_whitespace().map(everything).collect();
                down("parts").unwrap_or_else(|wrong| panic!("{wrong}"));
                (nodes, seen)
            });
            seen.join().expect("a machine")
        })
    };
    let woven = seen(&|plan| {
        up(plan, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    });
    assert_eq!(woven.0.split_whitespace().count(), 4, "{}", woven.0);
    let made = seen(&|plan| {
        run(&plan.commands().to_string());
    });
    assert!(woven == made, "what `ip` shows differs");
}
