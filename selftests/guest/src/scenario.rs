// SPDX-License-Identifier: MIT OR Apache-2.0

//! A short scenario for the proof of determinism: in virtual time the output is a function of the
//! machine's seed, byte by byte.
//!
//! ```text
//!   host ── wire+pfabric ──▶ switch ── wire+pfabric ──▶ host
//! ```
//!
//! Two TCP flows and bursts of UDP of random ranks meet at the switch, where the second wire is the
//! slower one. Every packet that arrives is printed with its time.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};
use weft_mechanisms::wire::options as wire;

use crate::netlink::{Handle, Nest, Netlink, QdiscRequest, Verb, Veth};
use crate::packets::Receiver;
use crate::port::{limit, rate};
use crate::random::Random;
use crate::transfer::{Connection, Plan};
use weft_ktap::Namespace;

const LEFT: [u8; 4] = [10, 1, 0, 1];
const RIGHT: [u8; 4] = [10, 2, 0, 1];
const LEFT_INDEX: u32 = 10;
const RIGHT_INDEX: u32 = 20;

/// Runs the scenario and prints each packet's arrival in ns, its length and its first bytes.
pub(crate) fn run() -> Result<()> {
    let mut seed = [0; 8];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut seed)?;
    let seed = u64::from_ne_bytes(seed);
    println!("seed {seed:#018x}");
    let (left, switch, right) = (
        Namespace::without_ipv6()?,
        Namespace::without_ipv6()?,
        Namespace::without_ipv6()?,
    );
    link(&left, &switch, LEFT_INDEX, LEFT)?;
    link(&right, &switch, RIGHT_INDEX, RIGHT)?;
    switch.write_sysctl("net/ipv4/ip_forward", "1")?;
    // The rank stays with a packet that is forwarded.
    switch.write_sysctl("net/ipv4/ip_forward_update_priority", "0")?;
    port(&left, LEFT_INDEX, 20_000_000)?;
    port(&switch, RIGHT_INDEX, 10_000_000)?;
    port(&right, RIGHT_INDEX, 20_000_000)?;
    port(&switch, LEFT_INDEX, 20_000_000)?;
    let receivers = [
        ("right", Receiver::open(&right)?),
        ("left", Receiver::open(&left)?),
    ];
    let connect = |number| {
        let plan = Plan {
            seed,
            ranks: 8,
            ..Plan::new((RIGHT, number), 150_000)
        };
        Connection::open(&left, &right, &plan)
    };
    let connections = [connect(1000)?, connect(1001)?];
    let transfers = connections.map(Connection::start);
    datagrams(&left, seed)?;
    for transfer in transfers {
        transfer.finish()?;
    }
    std::thread::sleep(Duration::from_millis(100));
    for (place, receiver) in receivers {
        for frame in receiver.frames()? {
            let start = frame.bytes();
            let start = &start[..start.len().min(54)];
            println!(
                "{place} {} ns, {} bytes, {start:02x?}",
                frame.time, frame.len
            );
        }
    }
    Ok(())
}

/// Connects a host to the switch: `.1` is the host, `.254` the switch.
fn link(host: &Namespace, switch: &Namespace, index: u32, ip: [u8; 4]) -> Result<()> {
    let gateway = [ip[0], ip[1], ip[2], 254];
    let end = |side| Veth {
        name: if index == LEFT_INDEX { "left" } else { "right" }.to_owned(),
        index,
        mac: [2, 0, 0, 0, index as u8, side],
        tx_queues: 1,
    };
    let (mut near, mut far) = (Netlink::open(host)?, Netlink::open(switch)?);
    near.add_veth(&end(1), &end(2), switch)?;
    near.add_address(index, ip)?;
    far.add_address(index, gateway)?;
    near.set_up(index, true)?;
    far.set_up(index, true)?;
    let gateway = std::net::Ipv4Addr::from(gateway).to_string();
    let mut command = Command::new("ip");
    command.args(["route", "add", "default", "via", &gateway]);
    let status = host.enter(|| command.status())??;
    ensure!(
        status.success(),
        "ip route add default via {gateway}: {status}"
    );
    Ok(())
}

fn port(namespace: &Namespace, index: u32, bits: u64) -> Result<()> {
    let mut netlink = Netlink::open(namespace)?;
    let mut add = |kind, parent, handle, options| {
        let request = QdiscRequest {
            index,
            parent,
            handle,
            kind,
            options: Some(options),
        };
        netlink.qdisc(Verb::Add, &request)
    };
    let wire = wire::Options {
        delay: Some(500_000),
        ..rate(bits)
    };
    let payload = Nest::of(|nest| wire.put(nest));
    add(wire::KIND, Handle::ROOT, Handle::new(1, 0), payload)?;
    let payload = Nest::of(|nest| limit(24).put(nest));
    add("pfabric", Handle::new(1, 1), Handle::new(2, 0), payload)
}

/// Bursts of datagrams whose size, rank, port and time are random.
fn datagrams(from: &Namespace, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let socket = from.enter(|| UdpSocket::bind(SocketAddr::from((LEFT, 0))))??;
    for _ in 0..20 {
        for _ in 0..random.between(1, 30) {
            setsockopt(&socket, sockopt::Priority, &(random.below(8) as i32))?;
            let payload = vec![0; random.between(18, 1400) as usize];
            let port = random.between(2000, 2007) as u16;
            socket
                .send_to(&payload, (std::net::Ipv4Addr::from(RIGHT), port))
                .or_else(ignore_errors)?;
        }
        std::thread::sleep(Duration::from_micros(random.below(8000).into()));
    }
    Ok(())
}

/// The queue may drop a datagram, and nobody listens for those that arrive.
fn ignore_errors(error: std::io::Error) -> Result<usize> {
    use std::io::ErrorKind::ConnectionRefused;
    let dropped = error.raw_os_error() == Some(libc::ENOBUFS);
    if dropped || error.kind() == ConnectionRefused {
        return Ok(0);
    }
    Err(error).context("sending a datagram")
}
