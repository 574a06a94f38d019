// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP's throughput over one veth, with and without programs, in alternation.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use weft_ebpf::{Attacher, Gso, HostConfig, Object, port};

use crate::fabric::{Version, address, link};
use weft_ktap::Namespace;

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(1000);

/// Bytes per second from one namespace to the other.
fn measure(from: &Namespace, to: &Namespace, version: Version) -> Result<f64> {
    let listener = to.enter(|| TcpListener::bind((address(version, 1, 2), 0)))??;
    let peer = listener.local_addr()?;
    let receiver = std::thread::spawn(move || -> Result<f64> {
        let (mut stream, _) = listener.accept()?;
        let mut buffer = vec![0; 1 << 20];
        let (start, mut count) = (Instant::now(), 0_usize);
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(count as f64 / start.elapsed().as_secs_f64()),
                length => count += length,
            }
        }
    });
    let mut stream = from.enter(|| TcpStream::connect(peer))??;
    let buffer = vec![0; 1 << 20];
    let start = Instant::now();
    while start.elapsed() < TIME {
        stream.write_all(&buffer)?;
    }
    drop(stream);
    receiver
        .join()
        .map_err(|_| anyhow::anyhow!("the receiver panicked"))?
}

/// Limits the segments that the stack may hand over as one packet, to the number that GSO off
/// allows, without programs.
fn limit_gso(end: &Namespace, segments: u32) -> Result<()> {
    let segments = segments.to_string();
    let arguments = ["link", "set", "eth", "gso_max_segs", &segments];
    let status = end.enter(|| Command::new("ip").args(arguments).status())??;
    ensure!(status.success(), "ip link set eth gso_max_segs {segments}");
    Ok(())
}

pub(crate) fn run() -> Result<()> {
    const SEGMENTS: u32 = 65_535;
    let object = Object::find(None)?;
    let (a, b) = (Namespace::forwarding()?, Namespace::forwarding()?);
    link(&a, "eth", &b, "eth", 1)?;
    let ways = [
        ("no program, GSO on", false, Gso::On),
        ("tag + untag, GSO on", true, Gso::On),
        ("no program, GSO off", false, Gso::Off),
        ("tag + untag, GSO off", true, Gso::Off),
    ];
    for version in [Version::V4, Version::V6] {
        let mut results = vec![Vec::new(); ways.len()];
        for _ in 0..ROUNDS {
            for ((_, programs, gso), results) in ways.iter().zip(&mut results) {
                for end in [&a, &b] {
                    if *programs {
                        let config = HostConfig {
                            gso: *gso,
                            ..HostConfig::default()
                        };
                        end.enter(|| Attacher::new(&object, None).host("eth", &config))??;
                    } else if *gso == Gso::Off {
                        limit_gso(end, 1)?;
                    }
                }
                results.push(measure(&a, &b, version)?);
                for end in [&a, &b] {
                    if *programs {
                        end.enter(|| port::detach("eth"))??;
                    } else {
                        limit_gso(end, SEGMENTS)?;
                    }
                }
            }
        }
        for ((name, ..), results) in ways.iter().zip(&mut results) {
            results.sort_by(f64::total_cmp);
            let gbit = |value: f64| value * 8e-9;
            println!(
                "{version:?} {name:22} median {:5.2} Gbit/s (least {:5.2}, most {:5.2}, {ROUNDS} runs of {} s)",
                gbit(results[ROUNDS / 2]),
                gbit(results[0]),
                gbit(results[ROUNDS - 1]),
                TIME.as_secs_f64(),
            );
        }
    }
    Ok(())
}
