// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program with one thread and with three, among endpoints on the loopback device.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::Value;
use weft_mechanisms::fastpass::endpoint::Endpoint;
use weft_mechanisms::fastpass::frame::{ENTRIES, Entry, Head, Kind, MAX_SIZE, encode_report};
use weft_mechanisms::fastpass::session::{FORGED_COST, RESET_COST};
use weft_mechanisms::heap::Heap;

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HOSTS: u16 = 4;
const TIMEOUT: u64 = 50_000_000;
/// Long enough even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

fn command(listen: SocketAddrV4) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-arbiter"));
    command
        .args(["--first", &FIRST.to_string(), "--hosts", &HOSTS.to_string()])
        .args(["--listen", &listen.to_string(), "--timeslot", "100us"])
        .args(["--lead", "20ms", "--timeout", "50ms", "--any-port"]);
    command
}

struct Arbiter {
    child: Child,
    figures: PathBuf,
}

impl Arbiter {
    fn start(name: &str, listen: SocketAddrV4, arguments: &[&str]) -> Self {
        let figures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_file(&figures);
        let child = command(listen)
            .arg("--statistics")
            .arg(&figures)
            .args(arguments)
            .spawn()
            .unwrap();
        Self { child, figures }
    }

    /// Ends it; returns its last output.
    fn stop(&mut self, signal: Signal) -> (ExitStatus, Option<Value>) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        let status = self.child.wait().unwrap();
        let figures = fs::read_to_string(&self.figures).unwrap();
        let last = figures.lines().last();
        (status, last.map(|line| serde_json::from_str(line).unwrap()))
    }
}

impl Drop for Arbiter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Endpoints, and the arbiters that receive their requests.
struct Hosts {
    began: Instant,
    endpoints: Vec<(Endpoint<Heap>, UdpSocket)>,
    arbiters: Vec<SocketAddrV4>,
    came: u32,
}

impl Hosts {
    fn new(arbiters: Vec<SocketAddrV4>) -> Self {
        let endpoints = (0..HOSTS).map(|id| {
            let Ok(endpoint) = Endpoint::new(id, HOSTS, 77 + u64::from(id), TIMEOUT);
            let address = Ipv4Addr::from(u32::from(FIRST) + u32::from(id));
            let socket = UdpSocket::bind((address, 0)).unwrap();
            socket.set_nonblocking(true).unwrap();
            (endpoint, socket)
        });
        Self {
            began: Instant::now(),
            endpoints: endpoints.collect(),
            arbiters,
            came: 0,
        }
    }

    /// Each endpoint requests this many timeslots to each other one. Returns the total.
    fn ask(&mut self, slots: u32) -> u32 {
        let mut sum = 0;
        for (id, (endpoint, _)) in self.endpoints.iter_mut().enumerate() {
            for to in (0..HOSTS).filter(|to| usize::from(*to) != id) {
                sum += endpoint.ask(to, slots);
            }
        }
        sum
    }

    fn outstanding(&self) -> u32 {
        let all = self
            .endpoints
            .iter()
            .flat_map(|(endpoint, _)| (0..HOSTS).map(|to| endpoint.outstanding(to)));
        all.sum()
    }

    /// Exchanges messages until at most this many requests are outstanding.
    fn run(&mut self, at_most: u32) {
        let mut bytes = [0; MAX_SIZE];
        let mut rounds = 0;
        let begin = Instant::now();
        while self.outstanding() > at_most {
            assert!(begin.elapsed() < PATIENCE, "{}", self.outstanding());
            let now = self.began.elapsed().as_nanos() as u64;
            rounds += 1;
            for (endpoint, socket) in &mut self.endpoints {
                // Like a host that has received nothing for some time.
                if rounds % 100 == 0 {
                    endpoint.enquire();
                }
                while let Some(len) = endpoint.poll(now, &mut bytes) {
                    for arbiter in &self.arbiters {
                        // An arbiter that has ended refuses it.
                        let _ = socket.send_to(&bytes[..len], arbiter);
                    }
                }
                while let Ok((len, _)) = socket.recv_from(&mut bytes) {
                    endpoint.receive(&bytes[..len], |_| self.came += 1);
                }
            }
            sleep(Duration::from_millis(1));
        }
    }
}

/// An unused port.
fn port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let SocketAddr::V4(address) = socket.local_addr().unwrap() else {
        panic!("not IPv4")
    };
    address.port()
}

#[test]
fn each_requested_timeslot_is_allocated_with_one_thread_and_with_three() {
    for threads in ["1", "3"] {
        let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port());
        let name = format!("threads-{threads}");
        let mut arbiter = Arbiter::start(&name, listen, &["--threads", threads]);
        let mut hosts = Hosts::new(vec![listen]);
        let mut asked = 0;
        for slots in [1, 40, 300] {
            asked += hosts.ask(slots);
            hosts.run(0);
            // No requests for a while.
            sleep(Duration::from_millis(50));
        }
        let (status, figures) = arbiter.stop(Signal::SIGTERM);
        assert!(status.success(), "{threads} threads: {status}");
        let figures = figures.unwrap();
        assert_eq!(figures["sessions"], HOSTS, "{figures}");
        assert_eq!(figures["wanted"], 0, "{figures}");
        let given = figures["allocated"].as_u64().unwrap();
        // Allocations that were lost or came out of order were requested again.
        assert!(given >= asked.into() && hosts.came >= asked, "{figures}");
    }
}

/// Ends a flood, even if the test panics, because its thread is joined.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Forged reports from another port of an endpoint's address, as fast as this machine can send.
#[test]
fn a_flood_keeps_no_host_from_timeslots_and_costs_little_per_datagram() {
    let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port());
    let mut arbiter = Arbiter::start("flood", listen, &[]);
    let is_over = AtomicBool::new(false);
    let mut hosts = Hosts::new(vec![listen]);
    let began = Instant::now();
    let sent = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let socket = UdpSocket::bind((FIRST, 0)).unwrap();
            let mut bytes = [0; MAX_SIZE];
            let head = Head {
                kind: Kind::Report,
                endpoint: 0,
                word: 7,
            };
            let len = encode_report(&mut bytes, head, 1, 5, &[Entry::default(); ENTRIES]);
            let mut sent = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                // The kernel refuses packets until the arbiter listens.
                sent += u64::from(socket.send_to(&bytes[..len], listen).is_ok());
            }
            sent
        });
        let over = Over(&is_over);
        for slots in [10, 100] {
            hosts.ask(slots);
            hosts.run(0);
        }
        drop(over);
        flood.join().unwrap()
    });
    let timeouts = began.elapsed().as_nanos() as u64 / TIMEOUT + 1;
    let (status, figures) = arbiter.stop(Signal::SIGTERM);
    assert!(status.success(), "{status}");
    let figures = figures.unwrap();
    let figure = |name: &str| figures[name].as_u64().unwrap();
    assert_eq!(figure("sessions"), u64::from(HOSTS), "{figures}");
    assert!(
        figure("unsynchronised") + figure("unread") > 0,
        "{sent}: {figures}"
    );
    assert!(
        figure("resets") <= 16 * (timeouts + 3) * u64::from(HOSTS),
        "{figures}"
    );
    // Genuine packets are hashed completely, and forged ones only at the header, a few times.
    let genuine = figure("heard") * (FORGED_COST + MAX_SIZE) as u64;
    let forged = figure("unsynchronised") * FORGED_COST as u64;
    let resets = figure("resets") * RESET_COST as u64;
    assert!(
        figure("hashed_bytes") <= genuine + forged + resets,
        "{figures}"
    );
}

#[test]
fn a_second_arbiter_with_three_threads_takes_over() {
    let port = port();
    let addresses = [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 1, 1)];
    let listen = addresses.map(|address| SocketAddrV4::new(address, port));
    let peers = addresses.map(|address| address.to_string());
    let common = ["--threads", "3", "--window", "2s", "--peer"];
    let first = [&common[..], &[&peers[1]]].concat();
    let second = [&common[..], &[&peers[0], "--second"]].concat();
    let mut first = Arbiter::start("first", listen[0], &first);
    let mut second = Arbiter::start("second", listen[1], &second);
    let mut hosts = Hosts::new(listen.to_vec());
    let asked = hosts.ask(1000);
    hosts.run(asked / 2);
    first.stop(Signal::SIGKILL);
    hosts.run(0);
    let (status, figures) = second.stop(Signal::SIGTERM);
    assert!(status.success(), "{status}");
    let figures = figures.unwrap();
    assert_eq!(
        (&figures["active"], &figures["takeovers"]),
        (&true.into(), &1.into())
    );
    // Except for allocations that were lost or in transit when the first arbiter ended.
    let given = figures["allocated"].as_u64().unwrap();
    assert!(given >= u64::from(asked / 4), "{figures}");
}

/// Neither a full disk for figures nor an unread standard error ends it: hosts get timeslots, and
/// the final message names the missing figures.
#[test]
fn a_full_disk_and_a_closed_output_do_not_end_it() {
    for says_to_nobody in [false, true] {
        let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port());
        let (mut reader, writer) = io::pipe().unwrap();
        let child = command(listen)
            .args(["--statistics", "/dev/full", "--every", "1ms"])
            .stderr(writer)
            .spawn()
            .unwrap();
        let figures = PathBuf::from("/dev/full");
        let mut arbiter = Arbiter { child, figures };
        let mut said = String::new();
        let mut hosts = Hosts::new(vec![listen]);
        // By then it listens and handles signals.
        hosts.ask(10);
        hosts.run(0);
        let reader = match says_to_nobody {
            true => {
                drop(reader);
                None
            }
            false => Some(&mut reader),
        };
        let pid = Pid::from_raw(arbiter.child.id() as i32);
        kill(pid, Signal::SIGUSR1).unwrap();
        // Enough time for many lines of figures.
        sleep(Duration::from_millis(50));
        hosts.ask(10);
        hosts.run(0);
        kill(pid, Signal::SIGTERM).unwrap();
        assert_eq!(arbiter.child.wait().unwrap().code(), Some(1));
        if let Some(reader) = reader {
            reader.read_to_string(&mut said).unwrap();
            let lines: Vec<_> = said.lines().collect();
            let [first, second, last] = lines[..] else {
                panic!("{said}")
            };
            assert!(
                first.starts_with("weft-arbiter: writing figures: No space left"),
                "{said}"
            );
            assert_eq!(
                second,
                "weft-arbiter: all that was faulty counts as repaired"
            );
            assert!(
                last.starts_with("weft-arbiter: writing figures (")
                    && last.contains("No space left"),
                "{said}"
            );
        }
    }
}

/// A reader of figures or messages that is slow or stopped.
#[test]
fn a_full_pipe_keeps_no_host_from_timeslots() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("figures-pipe");
    let _ = fs::remove_file(&path);
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let mut figures = File::options().read(true).write(true).open(&path).unwrap();
    let (mut said, mut writer) = io::pipe().unwrap();
    let size = fcntl(&writer, FcntlArg::F_GETPIPE_SZ).unwrap();
    writer.write_all(&vec![b'.'; size as usize]).unwrap();
    let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port());
    let child = command(listen)
        .args(["--every", "100us", "--statistics"])
        .arg(&path)
        .stderr(writer)
        .spawn()
        .unwrap();
    let mut arbiter = Arbiter {
        child,
        figures: path,
    };
    let mut hosts = Hosts::new(vec![listen]);
    for _ in 0..2 {
        hosts.ask(10);
        hosts.run(0);
        kill(Pid::from_raw(arbiter.child.id() as i32), Signal::SIGUSR1).unwrap();
        // More than the pipe holds.
        sleep(Duration::from_millis(100));
    }
    let (mut lines, mut bytes) = (0, [0; 4096]);
    while lines < 100 {
        let count = figures.read(&mut bytes).unwrap();
        lines += bytes[..count].iter().filter(|byte| **byte == b'\n').count();
    }
    kill(Pid::from_raw(arbiter.child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(arbiter.child.wait().unwrap().code(), Some(1));
    let mut all = String::new();
    said.read_to_string(&mut all).unwrap();
    assert_eq!(all, ".".repeat(size as usize), "there was room for nothing");
}
