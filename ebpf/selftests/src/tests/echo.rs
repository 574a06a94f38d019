// SPDX-License-Identifier: MIT OR Apache-2.0

//! Utilisations on their way: `int` stamps packets, receivers send the stamps back, and HPCC's
//! congestion control reads them.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use weft_ebpf::{Attacher, Counter, HostConfig, Policy, SwitchConfig, Tagged};
use weft_ktap::{Namespace, Skip};
use weft_mechanisms::common::stamp::Stamps;

use crate::capture::Capture;
use crate::fabric::{Path, Version};
use crate::frame;
use crate::tests::wire::counters;
use crate::transfer::{self, Sink};

const SIZE: usize = 200_000;
/// The link between the switches.
const BITS_PER_SECOND: u64 = 10_000_000;

const CONFIG: HostConfig = HostConfig {
    policy: Policy::Echo,
    fallback: weft_ebpf::Fallback::Sent,
    fixed: 0,
    tagged: Tagged::All,
    gso: weft_ebpf::Gso::Off,
};

/// A path on which the first switch stamps packets to the receiver.
fn stamping() -> Result<Path> {
    let path = Path::new(1)?;
    path.attach(&CONFIG, &SwitchConfig::default())?;
    let tc = |line: String| path.first.command("tc", &line);
    tc(format!(
        "qdisc add dev right2 root handle 1: wire rate {BITS_PER_SECOND}bit"
    ))
    .map_err(|error| Skip(format!("needs weft's kernel modules: {error:#}")))?;
    tc(format!(
        "qdisc add dev right2 parent 1: handle 2: int rate {BITS_PER_SECOND}bit rtt 10ms"
    ))?;
    tc("qdisc add dev right2 parent 2: handle 3: pfifo limit 1000".to_owned())?;
    Ok(path)
}

fn the_largest_stamp_comes_back(version: Version) -> Result<String> {
    let path = stamping()?;
    let address = path.receiver_address(version);
    transfer::reach(&path.sender, &path.receiver, address)?;
    // It sees packets before they lose their tags, and acknowledgements with theirs.
    let capture = Capture::start(&path.receiver, "eth")?;
    let peer = transfer::send(&path.sender, &path.receiver, address, SIZE)?;
    let (mut stamps, mut echoes) = (Vec::new(), Vec::new());
    for frame in capture.frames()? {
        let Some(packet) = frame::parse(&frame)? else {
            continue;
        };
        let tag = packet.tag.context("a packet without a tag")?;
        let found = Stamps::from_rank(tag.rank).context("the rank is no stamp")?;
        if packet.destination_port == peer.port() {
            ensure!(found.stamp != 0, "a packet passed the link without a stamp");
            // Nothing stamps acknowledgements.
            ensure!(found.echo == 0, "{found:?}");
            stamps.push(found.stamp);
        } else {
            ensure!(found.stamp == 0, "{found:?}");
            if found.echo != 0 {
                ensure!(stamps.contains(&found.echo), "{} is no stamp", found.echo);
                echoes.push(found.echo);
            }
        }
    }
    let figures = format!("{} stamps, {} echoes", stamps.len(), echoes.len());
    ensure!(
        stamps.iter().max() == echoes.iter().max() && echoes.len() >= 20,
        "{figures}: the largest are {:?} and {:?}",
        stamps.iter().max(),
        echoes.iter().max()
    );
    let receiver = counters(&path.receiver, "eth")?;
    let echoed = receiver.get(Counter::TagEchoed);
    ensure!(echoed >= echoes.len() as u64, "{receiver:?}");
    ensure!(receiver.get(Counter::UntagStored) >= 100, "{receiver:?}");
    let sender = counters(&path.sender, "eth")?;
    ensure!(sender.get(Counter::TagEchoed) == 0, "{sender:?}");
    ensure!(
        sender.get(Counter::UntagStored) >= echoes.len() as u64,
        "{sender:?}"
    );
    Ok(figures)
}

pub(super) fn the_largest_stamp_comes_back_v4() -> Result<String> {
    the_largest_stamp_comes_back(Version::V4)
}

pub(super) fn the_largest_stamp_comes_back_v6() -> Result<String> {
    the_largest_stamp_comes_back(Version::V6)
}

pub(super) fn policy_echo_needs_tags_on_all_packets() -> Result<String> {
    refused(&HostConfig {
        tagged: Tagged::Data,
        ..CONFIG
    })
}

/// Attaches nothing, because of `--tagged`.
pub(super) fn refused(config: &HostConfig) -> Result<String> {
    let path = Path::new(1)?;
    let attach = || Attacher::new(&path.object, None).host("eth", config);
    let error = path
        .sender
        .enter(attach)?
        .err()
        .context("it was attached")?;
    ensure!(error.to_string().contains("--tagged all"), "{error:#}");
    ensure!(
        counters(&path.sender, "eth").is_err(),
        "something is attached"
    );
    Ok(String::new())
}

/// The three numbers that a socket's congestion control tells (`TCP_CC_INFO`).
fn info(stream: &TcpStream) -> Result<[u32; 3]> {
    const TCP_CC_INFO: i32 = 26;
    let mut words = [0_u32; 4];
    let mut size = size_of_val(&words) as libc::socklen_t;
    // SAFETY: The kernel writes at most `size` bytes, which there are.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_CC_INFO,
            words.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    Errno::result(result).context("TCP_CC_INFO")?;
    let [_, numbers @ ..] = words;
    Ok(numbers)
}

/// What a congestion control said of a long transfer, and how fast that was.
pub(super) struct Filled {
    /// Its three numbers, read again and again while the data is sent.
    readings: Vec<[u32; 3]>,
    /// The part of the link between the switches that the payload takes.
    pub(super) part: f64,
}

impl Filled {
    /// The mean of a number over the last two thirds of the transfer. A single reading would be
    /// anywhere in the oscillation around the target.
    pub(super) fn mean(&self, number: usize) -> u32 {
        let later = &self.readings[self.readings.len() / 3..];
        let sum: u64 = later.iter().map(|numbers| u64::from(numbers[number])).sum();
        (sum / later.len() as u64) as u32
    }

    /// The last reading of a number.
    pub(super) fn last(&self, number: usize) -> u32 {
        self.readings.last().map_or(0, |numbers| numbers[number])
    }
}

/// Sends 3 MB along a path with a congestion control that has these settings.
pub(super) fn fill(path: &Path, name: &str, settings: &[(&str, u32)]) -> Result<Filled> {
    const LONG: usize = 3_000_000;
    const READINGS: usize = 60;
    let address = path.receiver_address(Version::V4);
    let module = format!("tcp_{name}");
    let modprobe = |namespace: &Namespace| namespace.command("modprobe", &module);
    modprobe(&path.sender).map_err(|error| Skip(format!("needs {module}: {error:#}")))?;
    for (setting, value) in settings {
        let path_of = format!("net/ipv4/{module}/{setting}");
        path.sender.write_sysctl(&path_of, &value.to_string())?;
    }
    let sink = Sink::start(&path.receiver, address)?;
    let mut stream = sink.connect(&path.sender)?;
    setsockopt(&stream, sockopt::TcpCongestion, &name.into())?;
    let start = Instant::now();
    let mut readings = Vec::new();
    for part in transfer::bytes(LONG).chunks(LONG / READINGS) {
        stream.write_all(part)?;
        // The socket's buffer is still being sent.
        readings.push(info(&stream)?);
    }
    sink.finish(stream, LONG)?;
    let part = LONG as f64 * 8.0 / start.elapsed().as_secs_f64() / BITS_PER_SECOND as f64;
    Ok(Filled { readings, part })
}

/// A host with a link four times as fast as that between the switches.
pub(super) const SETTINGS: [(&str, u32); 4] = [
    ("rate_kbit", 40_000),
    ("packet_bytes", 1_514),
    ("base_rtt_us", 10_000),
    ("flows", 10),
];

pub(super) fn hpcc_keeps_the_link_near_its_target() -> Result<String> {
    let filled = fill(&stamping()?, "hpcc", &SETTINGS)?;
    let (utilisation, echoes, part) = (filled.mean(0), filled.last(2), filled.part);
    let figures = format!(
        "utilisation {utilisation} thousandths, {echoes} echoes, payload takes {part:.3} of the link"
    );
    // The target is 0.95, and 1448 of a packet's 1522 bytes are payload.
    ensure!(
        (850..=1_100).contains(&utilisation) && (0.8..0.96).contains(&part) && echoes >= 500,
        "{figures}"
    );
    Ok(figures)
}
