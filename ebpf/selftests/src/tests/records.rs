// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hop records on their way: `int` adds them to data, receivers send them back, and congestion
//! controls read them.

use anyhow::{Result, ensure};
use weft_ebpf::{Attacher, Counter, HostConfig, Policy, SwitchConfig, Tagged};
use weft_ktap::Skip;
use weft_mechanisms::common::records::{self, BLOCK, IPV4_SIZE, IPV6_SIZE, Records};

use crate::capture::Capture;
use crate::fabric::{Path, Version};
use crate::frame;
use crate::tests::echo::{SETTINGS, fill, refused};
use crate::tests::wire::counters;
use crate::transfer;

const SIZE: usize = 200_000;
/// The links of the sender and between the switches.
const BITS_PER_SECOND: u64 = 10_000_000;
const MTU: usize = 1_500;

const CONFIG: HostConfig = HostConfig {
    policy: Policy::Records,
    fallback: weft_ebpf::Fallback::Sent,
    fixed: 0,
    tagged: Tagged::Data,
    gso: weft_ebpf::Gso::Off,
};

/// A path on which the sender, at four times the rate, and the first switch record their links.
fn recording() -> Result<Path> {
    let path = Path::new(1)?;
    path.attach(&CONFIG, &SwitchConfig::default())?;
    for (namespace, device, rate) in [
        (&path.sender, "eth", BITS_PER_SECOND * 4),
        (&path.first, "right2", BITS_PER_SECOND),
    ] {
        let tc = |line: String| namespace.command("tc", &line);
        tc(format!(
            "qdisc add dev {device} root handle 1: wire rate {rate}bit"
        ))
        .map_err(|error| Skip(format!("needs weft's kernel modules: {error:#}")))?;
        tc(format!(
            "qdisc add dev {device} parent 1: handle 2: int rate {rate}bit rtt 10ms"
        ))?;
        tc(format!(
            "qdisc add dev {device} parent 2: handle 3: pfifo limit 1000"
        ))?;
    }
    Ok(path)
}

/// The block of a captured frame.
fn block(frame: &[u8]) -> Option<&[u8; BLOCK]> {
    let packet = frame.get(14..)?;
    let (at, _) = records::find(packet)?;
    packet.get(at..)?.first_chunk()
}

fn the_records_of_each_packet_come_back(version: Version) -> Result<String> {
    let path = recording()?;
    let address = path.receiver_address(version);
    transfer::reach(&path.sender, &path.receiver, address)?;
    // It sees packets before they lose their records, and acknowledgements with theirs.
    let capture = Capture::start(&path.receiver, "eth")?;
    let peer = transfer::send(&path.sender, &path.receiver, address, SIZE)?;
    let (mut sent, mut returned, mut longest) = (Vec::new(), Vec::new(), 0);
    for frame in capture.frames()? {
        let Some(packet) = frame::parse(&frame)? else {
            continue;
        };
        if packet.destination_port == peer.port() {
            ensure!(
                (packet.payload != 0) == block(&frame).is_some(),
                "{packet:?}"
            );
            let Some(block) = block(&frame) else { continue };
            let head = Records::from_block(block).head();
            ensure!(head.hops() == 2 && !head.echo, "{head:?}");
            sent.push(block[2..].to_vec());
            longest = longest.max(packet.length);
        } else if let Some(block) = block(&frame) {
            ensure!(packet.payload == 0, "{packet:?}");
            let head = Records::from_block(block).head();
            ensure!(head.hops() == 2 && head.echo, "{head:?}");
            let records = block[2..].to_vec();
            ensure!(sent.contains(&records), "no packet had {records:?}");
            returned.push(records);
        }
    }
    let figures = format!("{} packets, {} returned", sent.len(), returned.len());
    let room = match version {
        Version::V4 => IPV4_SIZE,
        Version::V6 => IPV6_SIZE,
    };
    ensure!(longest == MTU, "{longest} bytes with {room} of records");
    ensure!(returned.len() >= sent.len() / 3, "{figures}");
    let receiver = counters(&path.receiver, "eth")?;
    ensure!(receiver.get(Counter::UntagMalformed) == 0, "{receiver:?}");
    ensure!(
        receiver.get(Counter::TagEchoed) >= returned.len() as u64
            && receiver.get(Counter::UntagStored) >= 100,
        "{receiver:?}"
    );
    let sender = counters(&path.sender, "eth")?;
    ensure!(
        sender.get(Counter::UntagStored) >= returned.len() as u64
            && sender.get(Counter::TagTooLong) == 0,
        "{sender:?}"
    );
    Ok(figures)
}

pub(super) fn the_records_of_each_packet_come_back_v4() -> Result<String> {
    the_records_of_each_packet_come_back(Version::V4)
}

pub(super) fn the_records_of_each_packet_come_back_v6() -> Result<String> {
    the_records_of_each_packet_come_back(Version::V6)
}

pub(super) fn policy_records_adds_no_tags() -> Result<String> {
    refused(&HostConfig {
        tagged: Tagged::All,
        ..CONFIG
    })
}

pub(super) fn detaching_gives_the_room_back() -> Result<String> {
    let path = Path::new(1)?;
    let ipv6 = || {
        path.sender
            .command("cat", "/proc/sys/net/ipv6/conf/eth/mtu")
    };
    let attach = || Attacher::new(&path.object, None).host("eth", &CONFIG);
    path.sender.enter(attach)??;
    let routes = path.sender.ip("route show dev eth")?;
    ensure!(routes.contains("mtu lock 1460"), "{routes}");
    ensure!(ipv6()?.trim() == "1452", "IPv6 has {}", ipv6()?);
    path.sender.enter(|| weft_ebpf::port::detach("eth"))??;
    let routes = path.sender.ip("route show dev eth")?;
    ensure!(!routes.contains("mtu"), "{routes}");
    ensure!(ipv6()?.trim() == "1500", "IPv6 has {}", ipv6()?);
    Ok(String::new())
}

/// Routes of the device's MTU: the receiver's announces the size of segments.
pub(super) fn a_packet_without_room_goes_as_it_is() -> Result<String> {
    let path = recording()?;
    for (host, gateway) in [(&path.sender, "10.9.1.2"), (&path.receiver, "10.9.9.1")] {
        host.ip(&format!(
            "route replace default via {gateway} mtu lock 1500"
        ))?;
    }
    let address = path.receiver_address(Version::V4);
    let capture = Capture::start(&path.receiver, "eth")?;
    let peer = transfer::send(&path.sender, &path.receiver, address, SIZE)?;
    let mut longest = 0;
    for frame in capture.frames()? {
        let Some(packet) = frame::parse(&frame)? else {
            continue;
        };
        if packet.destination_port == peer.port() && packet.length == MTU {
            ensure!(block(&frame).is_none(), "{packet:?}");
            longest += 1;
        }
    }
    let sender = counters(&path.sender, "eth")?;
    let too_long = sender.get(Counter::TagTooLong);
    ensure!(
        longest >= 100 && too_long >= longest,
        "{longest}: {sender:?}"
    );
    Ok(format!("{too_long} too long"))
}

pub(super) fn hpcc_keeps_the_link_near_its_target() -> Result<String> {
    let filled = fill(&recording()?, "hpcc", &SETTINGS)?;
    let (utilisation, returned, part) = (filled.mean(0), filled.last(2), filled.part);
    let figures = format!(
        "utilisation {utilisation} thousandths, {returned} returned, payload takes {part:.3} of the link"
    );
    // The target is 0.95, and 1408 of a packet's 1514 bytes are payload.
    ensure!(
        (850..=1_100).contains(&utilisation) && (0.75..0.93).contains(&part) && returned >= 500,
        "{figures}"
    );
    Ok(figures)
}

/// With an increase β of a tenth of the host's BDP, which is 4 times the link's, the power P at the
/// equilibrium is W / (W - β) for a window W: the link is full, and has a queue.
pub(super) fn powertcp_fills_the_link() -> Result<String> {
    let settings = [&SETTINGS[..], &[("records", 1)]].concat();
    let filled = fill(&recording()?, "powertcp", &settings)?;
    let (rtt_us, kbit, power, part) = (filled.last(0), filled.mean(1), filled.mean(2), filled.part);
    let figures = format!("power {power}, {kbit} kbit/s, payload takes {part:.3} of the link");
    // With records it measures no round-trip time. 1408 of 1514 bytes are payload.
    ensure!(
        rtt_us == 0 && (1_000..=2_000).contains(&power) && (0.85..0.931).contains(&part),
        "{figures}"
    );
    Ok(figures)
}
