// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hosts that are separate machines. A network namespace without a name represents a machine here:
//! it has one interface, a tap device, and threads carry frames between that and the host's tap,
//! like a VM's monitor.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use weft_net::machine::tap;
use weft_net::{Testbed, down, up};

use crate::state::{addresses, everything, plan, run};

/// Attaches to a tap device of the thread's namespace, which is created if necessary.
fn open_tap(name: &str) -> File {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    let tun = tun.expect("/dev/net/tun");
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (libc::IFF_TAP | libc::IFF_NO_PI) as i16,
        },
    };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request has the type of this ioctl, and lives during the call.
    let status = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    assert_eq!(status, 0, "{name}: {}", std::io::Error::last_os_error());
    tun
}

/// A running machine.
struct Machine {
    /// Bound to its addresses.
    sockets: Vec<UdpSocket>,
    stop: Arc<AtomicBool>,
    cables: Vec<JoinHandle<u64>>,
}

impl Machine {
    fn start(testbed: &Testbed, host: &str, script: &str, addresses: [IpAddr; 2]) -> Self {
        let fabric = testbed.enter(host, || open_tap(&tap(0))).expect("a node");
        let script = script.to_owned();
        let inside = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            let interface = open_tap("eth0");
            run("ip link set dev lo up");
            let mut shell = Command::new("sh");
            let status = shell.args(["-c", &script, "sh", "eth0"]).status();
            assert!(status.expect("a shell").success());
            let sockets = addresses.map(|address| {
                let socket = UdpSocket::bind((address, 0)).expect("its own address");
                socket
                    .set_read_timeout(Some(Duration::from_secs(60)))
                    .expect("a time");
                socket
            });
            (interface, Vec::from(sockets))
        });
        let (interface, sockets) = inside.join().expect("a machine");
        let stop = Arc::new(AtomicBool::new(false));
        let cable = |mut from: File, mut to: File| {
            let stop = stop.clone();
            thread::spawn(move || {
                let (mut frames, mut frame) = (0, vec![0; 65_536]);
                while !stop.load(Ordering::Relaxed) {
                    let mut ready = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
                    let waited = poll(&mut ready, PollTimeout::from(20_u8));
                    if waited.expect("poll") > 0 {
                        let length = from.read(&mut frame).expect("a frame");
                        to.write_all(&frame[..length]).expect("a tap");
                        frames += 1;
                    }
                }
                frames
            })
        };
        let cables = [
            (fabric.try_clone(), interface.try_clone()),
            (Ok(interface), Ok(fabric)),
        ];
        let cables = cables.map(|(from, to)| cable(from.expect("a file"), to.expect("a file")));
        Self {
            sockets,
            stop,
            cables: cables.into(),
        }
    }

    /// Ends it; returns the frames received and sent.
    fn halt(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let cables = self.cables.into_iter();
        cables.map(|it| it.join().expect("a cable")).collect()
    }
}

fn there_and_back(from: &UdpSocket, to: &UdpSocket) {
    let mut buffer = [0; 2000];
    let (here, there) = (from.local_addr().unwrap(), to.local_addr().unwrap());
    from.send_to(&[7; 1400], there).unwrap();
    let (length, source) = to.recv_from(&mut buffer).expect("a datagram in time");
    assert_eq!((length, source), (1400, here));
    to.send_to(b"back", source).unwrap();
    let (length, source) = from.recv_from(&mut buffer).expect("an answer in time");
    assert_eq!((length, source), (4, there));
}

pub(crate) fn a_host_on_its_own_machine_behaves_like_the_others() {
    let mut plan = plan("machines", "rack:hosts=3");
    plan.set_machines(&["h1".into(), "h2".into()]).unwrap();
    let testbed = up(&plan, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    let machines = ["h1", "h2"].map(|name| {
        let script = std::fs::read_to_string(testbed.inside(name)).expect("a script");
        Machine::start(&testbed, name, &script, addresses(&plan, name))
    });
    for (family, address) in addresses(&plan, "h0").into_iter().enumerate() {
        let host = testbed.enter("h0", || UdpSocket::bind((address, 0)));
        let host = host.expect("a node").expect("its own address");
        host.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let [one, other] = [0, 1].map(|place: usize| &machines[place].sockets[family]);
        there_and_back(&host, one);
        there_and_back(other, &host);
        there_and_back(one, other);
    }
    // Frames of a machine pass its port's qdiscs, and no unexpected frames arrived.
    let frames = machines.map(Machine::halt);
    assert_eq!(frames, [vec![4, 4], vec![4, 4]]);
    let shaped = run("tc -s -n weft-machines-h1 qdisc show dev tor0 root");
    assert!(shaped.contains(" 4 pkt "), "{shaped}");
    down("machines").unwrap_or_else(|wrong| panic!("{wrong}"));
}

pub(crate) fn the_printed_commands_make_machines_too() {
    let mut plan = plan("machines", "rack:hosts=2");
    plan.set_machines(&["h1".into()]).unwrap();
    let seen = |host: &str| everything(&format!("weft-machines-{host}"));
    up(&plan, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    let woven = ["h0", "h1", "tor0"].map(seen);
    down("machines").unwrap_or_else(|wrong| panic!("{wrong}"));
    run(&plan.commands().to_string());
    let made = ["h0", "h1", "tor0"].map(seen);
    assert!(made == woven, "what `ip` shows differs");
    down("machines").unwrap_or_else(|wrong| panic!("{wrong}"));
}
