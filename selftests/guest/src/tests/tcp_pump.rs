// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sockets that send and discard bytes by themselves: module `tcp_pump`, the upper layer
//! `weft-pump` of TCP.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

use crate::modules;
use weft_ktap::{Context, set_option as set, tests};

tests![
    bytes_are_sent_and_discarded_without_the_process,
    a_byte_after_those_to_discard_wakes_the_process_and_none_before,
    the_connections_end_wakes_the_process,
    wrong_values_are_refused_and_change_nothing,
    other_options_are_those_of_tcp,
    a_socket_of_ipv6_has_it_too,
    the_module_stays_while_a_socket_uses_it,
];

const MODULE: &str = "tcp_pump";
const NAME: &[u8] = b"weft-pump";
const LEVEL: i32 = 0x7075_6d70;
const SEND: i32 = 1;
const DISCARD: i32 = 2;

fn add(socket: &TcpStream, option: i32, bytes: u64) -> nix::Result<()> {
    set(socket, LEVEL, option, &bytes.to_ne_bytes())
}

fn left_in(socket: &TcpStream, option: i32, mut size: libc::socklen_t) -> nix::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: The kernel writes 8 bytes or none.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            LEVEL,
            option,
            (&raw mut bytes).cast(),
            &raw mut size,
        )
    };
    Errno::result(result).map(|_| bytes)
}

fn left(socket: &TcpStream, option: i32) -> nix::Result<u64> {
    left_in(socket, option, 8)
}

fn attach(socket: impl AsFd) -> nix::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_ULP, NAME)
}

fn connection(address: &str) -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((address, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

/// Both ends have the layer. Asking for it loads the module.
fn pumps() -> Result<(TcpStream, TcpStream)> {
    let (near, far) = connection("127.0.0.1")?;
    attach(&near)?;
    attach(&far)?;
    Ok((near, far))
}

fn is_readable(socket: &TcpStream, wait_ms: u16) -> Result<bool> {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    Ok(poll(&mut fds, wait_ms)? == 1)
}

fn unread(socket: &TcpStream) -> Result<i32> {
    let mut bytes = 0;
    // SAFETY: The kernel writes an `int`.
    Errno::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) })?;
    Ok(bytes)
}

fn bytes_are_sent_and_discarded_without_the_process(_: &Context) -> Result<()> {
    const BYTES: u64 = 50_000_000;
    let (mut near, mut far) = pumps()?;
    for turn in 0..3 {
        add(&far, DISCARD, BYTES - 1)?;
        add(&near, SEND, BYTES)?;
        ensure!(is_readable(&far, 60_000)?, "turn {turn}: not all arrived");
        ensure!(left(&far, DISCARD)? == 0 && left(&near, SEND)? == 0);
        let mut last = [7; 8];
        let read = far.read(&mut last)?;
        ensure!(read == 1 && last[0] == 0, "{read} bytes, {last:?}");
        // What the process writes comes after them.
        near.write_all(b"end")?;
        let mut end = [0; 3];
        far.read_exact(&mut end)?;
        ensure!(&end == b"end", "{end:?}");
        ensure!(unread(&far)? == 0, "more bytes arrived");
    }
    Ok(())
}

fn a_byte_after_those_to_discard_wakes_the_process_and_none_before(_: &Context) -> Result<()> {
    for threshold in [1, 400, 100_000] {
        let (mut near, mut far) = pumps()?;
        // Those that have arrived count.
        near.write_all(&[1; 300])?;
        ensure!(is_readable(&far, 10_000)?);
        set(
            &far,
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            &i32::to_ne_bytes(threshold),
        )?;
        add(&far, DISCARD, 1_000)?;
        near.write_all(&[2; 700])?;
        std::thread::sleep(Duration::from_millis(50));
        ensure!(
            !is_readable(&far, 0)?,
            "readable by bytes that are to be discarded, with a threshold of {threshold}"
        );
        near.write_all(&[3; 5])?;
        ensure!(is_readable(&far, 10_000)?, "not readable: {threshold}");
        let mut rest = [0; 100];
        let read = far.read(&mut rest)?;
        ensure!(rest[..read] == [3; 5], "{read} bytes: {:?}", &rest[..read]);
    }
    Ok(())
}

fn the_connections_end_wakes_the_process(_: &Context) -> Result<()> {
    let (mut near, mut far) = pumps()?;
    add(&far, DISCARD, 1_000)?;
    near.write_all(&[0; 400])?;
    drop(near);
    ensure!(is_readable(&far, 10_000)?, "not readable at the end");
    ensure!(far.read(&mut [0; 8])? == 0, "bytes at the end");
    ensure!(left(&far, DISCARD)? == 600, "{} left", left(&far, DISCARD)?);

    // A sender whose receiver resets the connection.
    let (near, far) = pumps()?;
    add(&near, SEND, u64::MAX)?;
    ensure!(left(&near, SEND)? > 0, "there was room for all");
    drop(far);
    ensure!(is_readable(&near, 10_000)?, "no event at a reset");
    let error = near.take_error()?.and_then(|error| error.raw_os_error());
    ensure!(error.is_some(), "no error at a reset");
    Ok(())
}

fn wrong_values_are_refused_and_change_nothing(_: &Context) -> Result<()> {
    let (near, far) = pumps()?;
    let refused = |what: &str, result: nix::Result<()>, with: Errno| {
        ensure!(result == Err(with), "{what}: {result:?}, not {with}");
        Ok(())
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    refused("listening", attach(&listener), Errno::ENOTCONN)?;
    refused("twice", attach(&near), Errno::EEXIST)?;
    let wide = [0; 16];
    for size in [0, 4, 16] {
        let result = set(&near, LEVEL, SEND, &wide[..size]);
        refused("a size", result, Errno::EINVAL)?;
        let result = left_in(&near, SEND, size as libc::socklen_t).map(drop);
        refused("a size to get", result, Errno::EINVAL)?;
    }
    for option in [0, 3, -1] {
        refused("an option", add(&near, option, 1), Errno::ENOPROTOOPT)?;
        let result = left(&near, option).map(drop);
        refused("an option to get", result, Errno::ENOPROTOOPT)?;
    }
    add(&far, DISCARD, 5)?;
    refused("a sum", add(&far, DISCARD, u64::MAX), Errno::EOVERFLOW)?;
    ensure!(left(&far, DISCARD)? == 5 && left(&near, SEND)? == 0);
    Ok(())
}

fn other_options_are_those_of_tcp(_: &Context) -> Result<()> {
    let (near, _far) = pumps()?;
    for on in [true, false] {
        setsockopt(&near, sockopt::TcpNoDelay, &on)?;
        ensure!(getsockopt(&near, sockopt::TcpNoDelay)? == on);
    }
    setsockopt(&near, sockopt::Ipv4Tos, &16)?;
    ensure!(getsockopt(&near, sockopt::Ipv4Tos)? == 16);
    let (without, _far) = connection("127.0.0.1")?;
    ensure!(
        add(&without, SEND, 1).is_err(),
        "a socket without the layer takes its options"
    );
    Ok(())
}

fn a_socket_of_ipv6_has_it_too(_: &Context) -> Result<()> {
    let (near, mut far) = connection("::1")?;
    attach(&near)?;
    attach(&far)?;
    add(&far, DISCARD, 999_999)?;
    add(&near, SEND, 1_000_000)?;
    ensure!(is_readable(&far, 10_000)?);
    ensure!(far.read(&mut [0; 8])? == 1);
    Ok(())
}

fn the_module_stays_while_a_socket_uses_it(_: &Context) -> Result<()> {
    let (near, far) = pumps()?;
    let result = modules::remove(MODULE);
    ensure!(
        result == Err(Errno::EWOULDBLOCK),
        "removing a module in use: {result:?}"
    );
    add(&near, SEND, 1)?;
    ensure!(is_readable(&far, 10_000)?);
    drop((near, far));
    modules::remove_when_unused(MODULE)
}
