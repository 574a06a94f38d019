// SPDX-License-Identifier: MIT OR Apache-2.0

//! Congestion control through the safe interface: module `tcp_selftest`, Reno by name of
//! `selftest`, its state as large as the kernel allows.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use weft_core::wire::options::Options;

use crate::modules;
use crate::netlink::Handle;
use crate::port::{FAR_IP, Port, limit, rate};
use crate::transfer::{Connection, Plan, Transfer};
use weft_ktap::{Context, tests};

tests![
    the_module_registers_its_name_and_takes_it_away,
    transfers_with_losses_complete_as_with_the_kernels_reno,
    a_socket_can_change_to_it_and_back,
    the_module_stays_while_a_socket_uses_it,
];

const MODULE: &str = "tcp_selftest";
const NAME: &str = "selftest";

fn available() -> Result<bool> {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    Ok(names.split_whitespace().any(|name| name == NAME))
}

fn the_module_registers_its_name_and_takes_it_away(_: &Context) -> Result<()> {
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
    modules::wait_for(MODULE, 0)?;
    modules::remove(MODULE).context("removing an unused module")
}
