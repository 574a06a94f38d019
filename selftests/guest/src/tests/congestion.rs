// SPDX-License-Identifier: MIT OR Apache-2.0

//! Congestion control through the safe interface: module `tcp_selftest`, Reno by name of
//! `selftest`, its state as large as the kernel allows.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use weft_mechanisms::wire::options::Options;

use crate::modules;
use crate::netlink::Handle;
use crate::port::{FAR_IP, LINK, Port, limit, rate};
use crate::transfer::{Connection, Plan, Transfer};
use weft_ktap::{Context, tests};

tests![
    the_module_registers_and_unregisters_its_name,
    #[exact = "compares times"]
    transfers_with_losses_complete_as_with_the_kernels_reno,
    a_socket_can_change_to_it_and_back,
    the_module_stays_while_a_socket_uses_it,
    an_unprivileged_user_may_not_choose_our_congestion_controls,
];

const MODULE: &str = "tcp_selftest";
const NAME: &str = "selftest";

/// All of ours, and their modules.
pub(super) const OURS: [(&str, &str); 12] = [
    (NAME, MODULE),
    ("pfabric", "tcp_pfabric"),
    ("bfc", "tcp_bfc"),
    ("pase", "tcp_pase"),
    ("d2tcp", "tcp_d2tcp"),
    ("l2dct", "tcp_l2dct"),
    ("swift", "tcp_swift"),
    ("dcqcn", "tcp_dcqcn"),
    ("prague", "tcp_prague"),
    ("timely", "tcp_timely"),
    ("powertcp", "tcp_powertcp"),
    ("hpcc", "tcp_hpcc"),
];

fn available() -> Result<bool> {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    Ok(names.split_whitespace().any(|name| name == NAME))
}

fn the_module_registers_and_unregisters_its_name(_: &Context) -> Result<()> {
    for _ in 0..5 {
        modules::load(MODULE)?;
        ensure!(
            available()?,
            "{NAME} is not available with its module loaded"
        );
        modules::remove(MODULE).context("removing an unused module")?;
        ensure!(!available()?, "{NAME} is available without its module");
    }
    Ok(())
}

/// Sends twelve flows, which overflow the queue; returns the time it took and the packets lost.
fn transfer(congestion_control: &'static str) -> Result<(Duration, u64)> {
    let mut port = Port::new()?;
    let wire = Options {
        delay: Some(5_000_000),
        ..rate(10_000_000)
    };
    port.add_wire_and_pfabric(&wire, &limit(10))?;
    let connect = |number: u16| {
        let plan = Plan {
            congestion_control: Some(congestion_control),
            ..Plan::new((FAR_IP, 1000 + number), 400_000)
        };
        Connection::open(&port.near, &port.far, &plan)
    };
    let connections: Vec<Connection> = (0..12).map(connect).collect::<Result<_>>()?;
    let flows: Vec<Transfer> = connections.into_iter().map(Connection::start).collect();
    let times: Vec<Duration> = flows
        .into_iter()
        .map(Transfer::finish)
        .collect::<Result<_>>()?;
    let (_, stats) = port.pfabric(Handle::new(2, 0))?;
    let longest = times.into_iter().max().context("no flow was sent")?;
    Ok((longest, stats.evicted + stats.rejected))
}

fn transfers_with_losses_complete_as_with_the_kernels_reno(cx: &Context) -> Result<()> {
    // Asking for it loads it.
    let (ours, our_losses) = transfer(NAME)?;
    let (kernels, kernel_losses) = transfer("reno")?;
    cx.note(format!("{NAME}: {ours:?}, {our_losses} losses"));
    cx.note(format!("reno: {kernels:?}, {kernel_losses} losses"));
    ensure!(
        our_losses > 0,
        "nothing was lost: ssthresh was not asked for"
    );
    let ratio = ours.as_secs_f64() / kernels.as_secs_f64();
    ensure!(
        (0.8..1.25).contains(&ratio),
        "{ours:?} with {NAME}, {kernels:?} with reno"
    );
    Ok(())
}

fn name_of(socket: &TcpStream) -> Result<String> {
    let name = getsockopt(socket, sockopt::TcpCongestion)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

/// A connection over loopback.
fn connection() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

fn a_socket_can_change_to_it_and_back(_: &Context) -> Result<()> {
    let (near, _far) = connection()?;
    for _ in 0..50 {
        for name in [NAME, "reno", "cubic", NAME] {
            setsockopt(&near, sockopt::TcpCongestion, &name.into())?;
            ensure!(
                name_of(&near)? == name,
                "{} instead of {name}",
                name_of(&near)?
            );
        }
    }
    Ok(())
}

fn the_module_stays_while_a_socket_uses_it(_: &Context) -> Result<()> {
    let (near, far) = connection()?;
    setsockopt(&near, sockopt::TcpCongestion, &NAME.into())?;
    let result = modules::remove(MODULE);
    ensure!(
        result == Err(Errno::EWOULDBLOCK),
        "removing a module in use: {result:?}"
    );
    ensure!(
        name_of(&near)? == NAME && available()?,
        "the refused removal left its mark"
    );
    drop((near, far));
    modules::remove_when_unused(MODULE)
}

/// Chooses it for a socket as a user without any rights.
fn choose_as_nobody(name: &'static str) -> Result<()> {
    const NOBODY: libc::c_long = 65_534;
    std::thread::spawn(move || -> Result<()> {
        let (near, _far) = connection()?;
        // SAFETY: No memory is involved. Without the C library, the kernel changes this thread
        // only.
        Errno::result(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) })?;
        Ok(setsockopt(&near, sockopt::TcpCongestion, &name.into())?)
    })
    .join()
    .expect("choosing does not panic")
}

fn is_refused(result: &Result<()>) -> bool {
    let error = result.as_ref().err().and_then(|it| it.downcast_ref());
    error == Some(&Errno::EPERM)
}

fn an_unprivileged_user_may_not_choose_our_congestion_controls(_: &Context) -> Result<()> {
    const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    for (name, module) in OURS {
        modules::load(module)?;
        let result = choose_as_nobody(name);
        ensure!(is_refused(&result), "nobody chooses {name}: {result:?}");
        let port = Port::new()?;
        // As long as it is not allowed nobody tries: Linux 7.2 refuses it and keeps the module in
        // use.
        let default = "net/ipv4/tcp_congestion_control";
        // The route's needs nobody's permission.
        port.near.ip(&format!(
            "route change 10.0.0.0/24 dev {LINK} congctl {name}"
        ))?;
        let plan = Plan::new((FAR_IP, 1000), 0);
        let (near, far) = Connection::open(&port.near, &port.far, &plan)?.into_sockets();
        let has = name_of(&near)?;
        ensure!(has == name, "the route gives {has}, not {name}");
        drop((near, far));
        // Once the machine's list has it, everybody may.
        let before = std::fs::read_to_string(ALLOWED)?;
        std::fs::write(ALLOWED, format!("{} {name}", before.trim()))?;
        let results = (
            choose_as_nobody(name),
            port.near.write_sysctl(default, name),
        );
        std::fs::write(ALLOWED, before.trim())?;
        results.0.context("choosing what is allowed")?;
        results.1.context("a default that is allowed")?;
        let result = choose_as_nobody(name);
        ensure!(
            is_refused(&result),
            "nobody chooses {name} again: {result:?}"
        );
    }
    Ok(())
}
