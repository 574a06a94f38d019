// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP's throughput over one veth, with and without programs, in alternation.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;
use weft_ebpf::{Gso, HostConfig, Object, port};

use crate::fabric::{Version, address, link};
use crate::netns::Namespace;

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

pub(crate) fn run() -> Result<()> {
    let object = Object::find(None)?;
    let (a, b) = (Namespace::new()?, Namespace::new()?);
    link(&a, "eth", &b, "eth", 1)?;
    let ways = [
        ("no program", None),
        ("tag + untag, GSO on", Some(Gso::On)),
        ("tag + untag, GSO off", Some(Gso::Off)),
    ];
    for version in [Version::V4, Version::V6] {
        let mut results = vec![Vec::new(); ways.len()];
        for _ in 0..ROUNDS {
            for ((_, gso), results) in ways.iter().zip(&mut results) {
                if let Some(gso) = gso {
                    let config = HostConfig {
                        gso: *gso,
                        ..HostConfig::default()
                    };
                    for end in [&a, &b] {
                        end.enter(|| port::attach_host(&object, "eth", &config, None))??;
                    }
                }
                results.push(measure(&a, &b, version)?);
                if gso.is_some() {
                    for end in [&a, &b] {
                        end.enter(|| port::detach("eth"))??;
                    }
                }
            }
        }
        for ((name, _), results) in ways.iter().zip(&mut results) {
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
