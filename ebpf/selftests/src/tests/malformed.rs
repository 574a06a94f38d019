// SPDX-License-Identifier: MIT OR Apache-2.0

//! Malformed frames, at a host and at a switch.

use anyhow::{Context as _, Result, ensure};
use weft_ebpf::{Attacher, Counter, HostConfig, Object, SwitchConfig};
use weft_mechanisms::common::tag::{Tag, find_in_packet};

use crate::capture::Capture;
use crate::fabric::{Version, address, link};
use crate::frame;
use crate::tests::wire::counters;
use crate::transfer;
use weft_ktap::Namespace;

const TAG: Tag = Tag {
    rank: 1234,
    upstream_queue: 5,
};
const FRAMES: u32 = 20_000;

/// A sender without programs, connected to a host and to a switch.
struct Ends {
    sender: Namespace,
    host: Namespace,
    switch: Namespace,
}

impl Ends {
    fn new() -> Result<Self> {
        let object = Object::find(None)?;
        let ends = Self {
            sender: Namespace::forwarding()?,
            host: Namespace::forwarding()?,
            switch: Namespace::forwarding()?,
        };
        link(&ends.sender, "host", &ends.host, "eth", 1)?;
        link(&ends.sender, "switch", &ends.switch, "eth", 2)?;
        for device in ["host", "switch"] {
            ends.sender
                .ip(&format!("link set {device} address 02:00:00:00:00:01"))?;
        }
        for end in [&ends.host, &ends.switch] {
            // The frames' destination address, so that IP parses them.
            end.ip("link set eth address 02:00:00:00:00:02")?;
        }
        ends.host
            .enter(|| Attacher::new(&object, None).host("eth", &HostConfig::default()))??;
        ends.switch
            .enter(|| Attacher::new(&object, None).switch("eth", &SwitchConfig::default()))??;
        Ok(ends)
    }

    /// Well-formed packets still arrive.
    fn reach(&self) -> Result<()> {
        for version in [Version::V4, Version::V6] {
            for (number, end) in [(1, &self.host), (2, &self.switch)] {
                transfer::reach(&self.sender, end, address(version, number, 2))?;
            }
        }
        Ok(())
    }
}

fn ethernet(kind: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(kind.to_be_bytes());
    frame.extend(packet);
    frame
}

/// An IPv4 datagram without a receiver. The options' length and the checksum are right.
fn ipv4(options: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45 + (options.len() / 4) as u8, 0];
    packet.extend(((20 + options.len() + 30) as u16).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 9, 1, 1, 10, 9, 1, 2]);
    packet.extend(options);
    let sum = frame::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0x30, 0x39, 0, 9, 0, 30, 0, 0]);
    packet.resize(20 + options.len() + 30, 0);
    ethernet(0x0800, &packet)
}

fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(((rest.len() + 30) as u16).to_be_bytes());
    packet.extend([next, 64]);
    for host in [1, 2] {
        packet.extend([0xfd, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend(rest);
    packet.extend([0x30, 0x39, 0, 9, 0, 30, 0, 0]);
    packet.resize(40 + rest.len() + 30, 0);
    ethernet(0x86dd, &packet)
}

/// A good frame with its bytes changed.
fn with(mut frame: Vec<u8>, changes: &[(usize, u8)]) -> Vec<u8> {
    for (at, value) in changes {
        frame[14 + at] = *value;
    }
    frame
}

pub(super) fn malformed_tags_are_counted_and_not_changed() -> Result<String> {
    let ends = Ends::new()?;
    ends.reach()?;
    let (four, six) = (TAG.to_ipv4(), TAG.to_ipv6(17));
    let truncated = |frame: Vec<u8>, length: usize| frame[..14 + length].to_vec();
    let mut bad = vec![
        ipv4(&[four, four].concat()),
        ipv4(&[&[1, 1, 1, 1], &four[..]].concat()),
        ipv4(&[&four[..], &[7, 200, 4, 0]].concat()),
        ipv4(&four[..4]),
        ipv6(60, &[TAG.to_ipv6(60), six].concat()),
        // The header claims to be longer than the packet, and the packet longer than the frame.
        with(ipv4(&four), &[(2, 0), (3, 24)]),
        with(ipv4(&four), &[(2, 0xff), (3, 0xff)]),
        with(ipv4(&four), &[(0, 0x4f), (3, 58)]),
        with(ipv6(60, &six), &[(4, 0xff)]),
        with(ipv6(60, &six), &[(5, 4)]),
        truncated(ipv4(&four), 26),
        truncated(ipv6(60, &six), 44),
        truncated(ipv6(60, &six), 47),
    ];
    for length in (0..=255).filter(|length| *length != 8) {
        bad.push(with(ipv4(&four), &[(21, length)]));
    }
    for length in (0..=255).filter(|length| *length != 4) {
        bad.push(with(ipv6(60, &six), &[(43, length)]));
    }
    bad.extend((1..=255).map(|length| with(ipv6(60, &six), &[(41, length)])));
    for byte in [22, 23] {
        bad.push(with(ipv4(&four), &[(byte, 1)]));
    }
    for word in [[0x80, 0, 0, 0], [0, 0x7f, 0xff, 0xff]] {
        bad.push(ipv4(&[0x9e, 8, 0, 0, word[0], word[1], word[2], word[3]]));
        bad.push(ipv6(
            60,
            &[17, 0, 0x1e, 4, word[0], word[1], word[2], word[3]],
        ));
    }
    let good = [
        ipv4(&four),
        ipv6(60, &six),
        ipv4(&[&four[..], &[1, 1, 1, 0]].concat()),
    ];
    for (device, end, malformed, well) in [
        (
            "host",
            &ends.host,
            Counter::UntagMalformed,
            Counter::Untagged,
        ),
        (
            "switch",
            &ends.switch,
            Counter::ReadMalformed,
            Counter::Read,
        ),
    ] {
        let before = counters(end, "eth")?;
        let wire = Capture::start(&ends.sender, device)?;
        for frame in good.iter().chain(&bad) {
            wire.send(frame)
                .with_context(|| format!("sending {frame:x?}"))?;
        }
        wire.frames()?;
        let after = counters(end, "eth")?;
        let counted = after.get(malformed) - before.get(malformed);
        ensure!(
            counted == bad.len() as u64,
            "{device}: {counted} of {} counted",
            bad.len()
        );
        let counted = after.get(well) - before.get(well);
        ensure!(
            counted == good.len() as u64,
            "{device}: {counted} good ones"
        );
    }
    ends.reach()?;
    Ok(format!("{} malformed frames", bad.len()))
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

pub(super) fn random_bytes_break_nothing() -> Result<String> {
    let ends = Ends::new()?;
    ends.reach()?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut frames = Vec::new();
    for _ in 0..FRAMES {
        let mut frame = match random.below(4) {
            0 => ipv4(&TAG.to_ipv4()),
            1 => ipv4(&[TAG.to_ipv4(), [1; 8], [0; 8]].concat()),
            2 => ipv6(60, &TAG.to_ipv6(17)),
            _ => ipv6(60, &[TAG.to_ipv6(60), TAG.to_ipv6(17)].concat()),
        };
        // In the header and the options, which contain lengths.
        for _ in 0..1 + random.below(4) {
            let at = 14 + random.below(frame.len() - 14);
            let at = if random.below(2) == 0 {
                14 + at % 30
            } else {
                at
            };
            frame[at] = random.next() as u8;
        }
        if random.below(4) == 0 {
            frame.truncate(14 + random.below(frame.len() - 14));
        }
        frames.push(frame);
    }
    for (device, end, counts) in [
        (
            "host",
            &ends.host,
            [
                Counter::Untagged,
                Counter::UntagMalformed,
                Counter::UntagPassed,
                Counter::UntagFailed,
            ],
        ),
        (
            "switch",
            &ends.switch,
            [
                Counter::Read,
                Counter::ReadMalformed,
                Counter::ReadPassed,
                Counter::Read,
            ],
        ),
    ] {
        let before = counters(end, "eth")?;
        let wire = Capture::start(&ends.sender, device)?;
        let mut sent = 0;
        let mut tagged = 0;
        for frame in &frames {
            // The kernel itself refuses frames that are too short.
            if wire.send(frame).is_ok() {
                sent += 1;
                tagged += u64::from(matches!(find_in_packet(&frame[14..]), Ok(Some(_))));
            }
        }
        wire.frames()?;
        let after = counters(end, "eth")?;
        let delta = |counter| after.get(counter) - before.get(counter);
        let [well, malformed, passed, failed] = counts;
        let all = delta(well) + delta(malformed) + delta(passed);
        // The kernel's own packets (ARP replies, neighbour discovery) are among those that pass.
        ensure!(all >= sent, "{device}: {all} of {sent} frames counted");
        ensure!(delta(malformed) > 0 && delta(well) > 0);
        // The programs also check IP's length fields against the frame's length.
        ensure!(
            delta(well) <= tagged,
            "{device}: {} of at most {tagged} tags",
            delta(well)
        );
        ensure!(
            failed == well || delta(failed) == 0,
            "{device}: {} not removed",
            delta(failed)
        );
    }
    ends.reach()?;
    Ok(format!("{} frames each", frames.len()))
}
