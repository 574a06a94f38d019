// SPDX-License-Identifier: MIT OR Apache-2.0

//! Socket options of weft's level.

use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aya::Pod;
use aya::maps::{Map, MapData, SkStorage, loaded_maps};
use libc::{EINVAL, ENOPROTOOPT, EPERM};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use weft_ebpf::{Counter, FlowSizes, Object};
use weft_ebpf_common::{Flow, map, sockopt};
use weft_ktap::{KernelLog, Skip};

use crate::cgroup::Cgroup;

fn attached() -> Result<(Cgroup, FlowSizes)> {
    let cgroup = Cgroup::new()?;
    let flows = FlowSizes::attach(&Object::find(None)?, cgroup.path())?;
    cgroup.enter()?;
    Ok((cgroup, flows))
}

/// Runs `f` on a thread without any privilege.
fn unprivileged<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let thread = std::thread::spawn(move || -> io::Result<T> {
        // libc's own setresuid would change all threads.
        // SAFETY: No pointer is involved.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(f())
    });
    Ok(thread
        .join()
        .map_err(|_| anyhow::anyhow!("the thread panicked"))??)
}

/// Sets any option with any bytes; returns the errno, 0 for success.
fn raw(socket: impl AsFd, level: i32, option: i32, value: &[u8]) -> i32 {
    let result = weft_ktap::set_option(socket, level, option, value);
    result.err().map_or(0, |errno| errno as i32)
}

fn errno<T>(result: io::Result<T>) -> i32 {
    result
        .err()
        .and_then(|error| error.raw_os_error())
        .unwrap_or(0)
}

pub(super) fn an_unprivileged_program_sets_and_reads_back_an_option() -> Result<String> {
    let (_cgroup, flows) = attached()?;
    unprivileged(|| -> Result<()> {
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind("[::1]:0")?;
        for socket in [tcp.as_fd(), udp.as_fd()] {
            ensure!(weft_socket::get_flow_size(socket)? == 0);
            weft_socket::flow_size(socket, 3_000_000)?;
            ensure!(weft_socket::get_flow_size(socket)? == 3_000_000);
            weft_socket::flow_size(socket, sockopt::MAX_FLOW_SIZE)?;
            ensure!(weft_socket::get_flow_size(socket)? == sockopt::MAX_FLOW_SIZE);
            weft_socket::class(socket, 7)?;
            ensure!(weft_socket::get_class(socket)? == 7);
            weft_socket::deadline_in(socket, Duration::from_secs(5))?;
            let deadline = weft_socket::get_deadline(socket)?;
            weft_socket::deadline(socket, deadline + 1)?;
            ensure!(weft_socket::get_deadline(socket)? == deadline + 1);
            weft_socket::deadline(socket, 0)?;
            ensure!(weft_socket::get_deadline(socket)? == 0);
            // The other options are unchanged.
            ensure!(weft_socket::get_class(socket)? == 7);
        }
        // Each socket has its own values.
        let other = UdpSocket::bind("127.0.0.1:0")?;
        ensure!(weft_socket::get_class(&other)? == 0);
        Ok(())
    })??;
    ensure!(flows.counters()?.get(Counter::OptionSet) == 12);
    ensure!(flows.counters()?.get(Counter::OptionRefused) == 0);
    Ok(String::new())
}

pub(super) fn misuse_gets_its_errno() -> Result<String> {
    let (_cgroup, flows) = attached()?;
    let refused = unprivileged(|| -> Result<u64> {
        let socket = &UdpSocket::bind("127.0.0.1:0")?;
        let level = sockopt::LEVEL;
        let eight = |number: u64| number.to_ne_bytes();
        let mut cases = vec![
            (
                "too large a size",
                errno(weft_socket::flow_size(socket, sockopt::MAX_FLOW_SIZE + 1)),
                EINVAL,
            ),
            (
                "the largest size",
                errno(weft_socket::flow_size(socket, u64::MAX)),
                EINVAL,
            ),
            (
                "a class of 256",
                errno(weft_socket::class(socket, 256)),
                EINVAL,
            ),
            (
                "a deadline in the past",
                errno(weft_socket::deadline(socket, 1)),
                EINVAL,
            ),
            (
                "a deadline never",
                errno(weft_socket::deadline(socket, u64::MAX)),
                EINVAL,
            ),
            (
                "a deadline in two days",
                errno(weft_socket::deadline_in(
                    socket,
                    Duration::from_secs(172_800),
                )),
                EINVAL,
            ),
            ("option 0", raw(socket, level, 0, &eight(1)), EPERM),
            ("option 5", raw(socket, level, 5, &eight(1)), EPERM),
            ("option -1", raw(socket, level, -1, &eight(1)), EPERM),
            (
                "a class of 8 bytes",
                raw(socket, level, sockopt::CLASS, &eight(1)),
                EINVAL,
            ),
        ];
        for length in [0, 1, 4, 7, 9, 16, 4096, 8192] {
            let value = vec![0; length];
            cases.push((
                "a wrong length",
                raw(socket, level, sockopt::FLOW_SIZE, &value),
                EINVAL,
            ));
        }
        for (what, got, expected) in &cases {
            ensure!(got == expected, "{what}: errno {got} instead of {expected}");
        }
        // Nothing was stored.
        ensure!(
            weft_socket::get_flow_size(socket)? == 0 && weft_socket::get_deadline(socket)? == 0
        );
        let mut value = 0_u32;
        let mut size = 4;
        for (option, expected) in [(sockopt::FLOW_SIZE, EINVAL), (9, EPERM)] {
            // SAFETY: The kernel writes at most 4 bytes of `value`.
            let result = unsafe {
                libc::getsockopt(
                    socket.as_raw_fd(),
                    level,
                    option,
                    (&raw mut value).cast(),
                    &raw mut size,
                )
            };
            let got = io::Error::last_os_error().raw_os_error();
            ensure!(
                result == -1 && got == Some(expected),
                "reading option {option}: {got:?}"
            );
        }
        Ok(cases.len() as u64 + 2)
    })??;
    let counted = flows.counters()?.get(Counter::OptionRefused);
    ensure!(
        counted == refused,
        "{counted} of {refused} refusals counted"
    );
    Ok(format!("{refused} refusals"))
}

pub(super) fn outside_the_cgroup_the_kernel_knows_no_such_option() -> Result<String> {
    let (cgroup, _flows) = attached()?;
    cgroup.leave()?;
    let outside = UdpSocket::bind("127.0.0.1:0")?;
    ensure!(errno(weft_socket::flow_size(&outside, 1)) == ENOPROTOOPT);
    // The kernel uses two different errors.
    ensure!(errno(weft_socket::get_flow_size(&outside)) == libc::EOPNOTSUPP);
    Ok(String::new())
}

pub(super) fn socket_options_of_other_levels_are_not_touched() -> Result<String> {
    let (_cgroup, flows) = attached()?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    ensure!(
        raw(
            &socket,
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            &4096_i32.to_ne_bytes()
        ) == 0
    );
    ensure!(raw(&socket, libc::SOL_SOCKET, 12_345, &[0; 4]) == ENOPROTOOPT);
    // Longer than a page: the program must not get in the way.
    ensure!(raw(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &[0; 10_000]) == 0);
    // weft's level on a socket that is neither TCP nor UDP.
    let (unix, _other) = std::os::unix::net::UnixStream::pair()?;
    ensure!(raw(&unix, sockopt::LEVEL, sockopt::FLOW_SIZE, &[1; 8]) == libc::EOPNOTSUPP);
    let counters = flows.counters()?;
    ensure!(counters.get(Counter::OptionSet) + counters.get(Counter::OptionRefused) == 0);
    Ok(String::new())
}

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Value(Flow);

// SAFETY: It consists of numbers without padding.
unsafe impl Pod for Value {}

/// The map of flows that was attached last.
fn kept() -> Result<SkStorage<MapData, Value>> {
    let mut last = None;
    for info in loaded_maps() {
        let info = info?;
        if info.name_as_str() == Some(map::FLOWS) {
            last = last.max(Some(info.id()));
        }
    }
    let id = last.context("no map of flows")?;
    Ok(Map::SkStorage(MapData::from_id(id)?).try_into()?)
}

/// A connection to this machine: both ends.
fn connection() -> Result<[TcpStream; 2]> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok([near, listener.accept()?.0])
}

/// A module reports such a value once, so it is loaded anew.
pub(super) fn a_value_of_another_layout_is_reported_in_the_kernels_log() -> Result<String> {
    const MODULE: &str = "tcp_pase";
    let modprobe = |words: &[&str]| Command::new("modprobe").args(words).output();
    // It may not be loaded.
    let _ = modprobe(&["-r", MODULE]);
    if !modprobe(&[MODULE]).is_ok_and(|it| it.status.success()) {
        return Err(Skip(format!("modprobe does not load {MODULE}")).into());
    }
    let (_cgroup, _flows) = attached()?;
    let [mut near, _far] = connection()?;
    weft_socket::flow_size(&near, 1000)?;
    let mut kept = kept()?;
    let Value(flow) = kept.get(&near, 0)?;
    let layout = Flow::LAYOUT + 1;
    let key = flow.key & u64::from(u32::MAX) | u64::from(layout) << 32;
    kept.insert(&near, Value(Flow { key, ..flow }), 0)?;
    let mut log = KernelLog::open()?;
    let errno = raw(&near, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"pase");
    ensure!(errno == 0, "errno {errno}");
    near.write_all(&[0; 1000])?;
    let lines = log.lines()?;
    let sentence = format!(
        "{MODULE}: the data of weft's eBPF programs cannot be read: they are of another version \
         (layout {layout}, not {})",
        Flow::LAYOUT
    );
    let said = lines.iter().any(|line| line.starts_with(&sentence));
    ensure!(said, "the log has no \"{sentence}\": {lines:?}");
    Ok(String::new())
}

/// Sets the flag when it is dropped.
struct Sets<'a>(&'a AtomicBool);

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Gives this thread priority on the CPU over normal threads.
fn goes_first() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: The kernel reads the parameter.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A task may be preempted in the middle of its `setsockopt` by another task's on the same CPU.
pub(super) fn an_interrupted_setsockopt_leaves_the_flows_begin_correct() -> Result<String> {
    const INTERRUPTIONS: u64 = 8000;
    let (_cgroup, _flows) = attached()?;
    let kept = kept()?;
    let mut first_cpu = CpuSet::new();
    first_cpu.set(0)?;
    let (near, other) = (connection()?, connection()?);
    let (begun, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let interrupt = || -> Result<()> {
        let _done = Sets(&done);
        sched_setaffinity(Pid::from_raw(0), &first_cpu)?;
        goes_first()?;
        while !done.load(Relaxed) {
            // Varied delays, so that every instruction gets interrupted at some time.
            let turn = begun.load(Relaxed);
            std::thread::sleep(Duration::from_nanos(10_000 + turn * 7919 % 30_011));
            weft_socket::flow_size(&other[0], 1)?;
            begun.store(turn + 1, Relaxed);
        }
        Ok(())
    };
    let set = || -> Result<u64> {
        let _done = Sets(&done);
        sched_setaffinity(Pid::from_raw(0), &first_cpu)?;
        weft_socket::flow_size(&near[0], 1)?;
        let expected = kept.get(&near[0], 0)?.0;
        ensure!(expected.flags == Flow::BASE_KNOWN, "{expected:?}");
        let (mut interruptions, mut times) = (0, 0);
        while interruptions < INTERRUPTIONS && !done.load(Relaxed) {
            weft_socket::flow_size(&near[0], 1)?;
            times += 1;
            let now = begun.load(Relaxed);
            if now != interruptions {
                let flow = kept.get(&near[0], 0)?.0;
                ensure!(
                    flow == expected,
                    "after {now} interruptions {flow:?}, which should be {expected:?}"
                );
                interruptions = now;
            }
        }
        Ok(times)
    };
    let times = std::thread::scope(|scope| -> Result<u64> {
        let interrupting = scope.spawn(interrupt);
        let times = scope.spawn(set).join();
        let panicked = |_| anyhow::anyhow!("a thread panicked");
        interrupting.join().map_err(panicked)??;
        times.map_err(panicked)?
    })?;
    Ok(format!(
        "{times} flows begun, interrupted {INTERRUPTIONS} times"
    ))
}
