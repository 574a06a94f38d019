// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A path of one link on which a single flow sends full packets, spaced at the rate of its window;
//! and what their records tell the flow.

use weft_mechanisms::common::records::{
    append, find, to_ipv4, Change, Departure, Records, BLOCK, IPV4_SIZE,
};

/// The link, in ns of floating point.
pub(crate) struct IdleLink {
    rtt: f64,
    /// Of a packet.
    bytes: f64,
    /// The time to send it.
    busy: f64,
    now: f64,
    sent: f64,
    before: Records,
}

impl IdleLink {
    /// The link has just sent the flow's first packet.
    pub(crate) fn new(rate_kbit: u32, base_rtt_us: u32, packet_bytes: u32) -> Self {
        let bytes = f64::from(packet_bytes);
        let mut new = Self {
            rtt: f64::from(base_rtt_us) * 1e3,
            bytes,
            busy: bytes * 8e6 / f64::from(rate_kbit),
            now: 0.0,
            sent: 0.0,
            before: Records::default(),
        };
        new.before = new.records();
        new
    }

    fn records(&self) -> Records {
        let mut packet = [0; 20 + IPV4_SIZE];
        packet[0] = 0x4f;
        packet[20..].copy_from_slice(&to_ipv4([0; BLOCK]));
        let found = find(&packet).expect("it has a block");
        let departure = Departure {
            queue: 0,
            sent: self.sent as u64,
            time: self.now as u64,
        };
        assert!(append(&mut packet, found, 1, self.rtt as u64, departure));
        Records::from_block(packet[22..].first_chunk().expect("it is whole"))
    }

    /// The next packet of a flow with a window of `window` bytes: what the link did since the one
    /// before, as far as the records say.
    pub(crate) fn send(&mut self, window: f64) -> Option<Change> {
        let gap = self.rtt * self.bytes / window;
        self.now += gap;
        self.sent += self.busy;
        let records = self.records();
        let change = records.since(&self.before, gap as u64).next();
        self.before = records;
        change
    }

    /// The time since the first packet, in base round-trip times.
    pub(crate) fn now(&self) -> f64 {
        self.now / self.rtt
    }
}

/// The base round-trip times, at most 1,000, after which a flow of packets of 1,538 bytes has 90 %
/// of a link of 10 Gbit/s and 20 µs. `window`: its window in bytes. `learn`: records arrived, of a
/// packet that was sent after the last update of the window or not.
pub(crate) fn recovery<F>(
    flow: &mut F,
    window: impl Fn(&F) -> f64,
    mut learn: impl FnMut(&mut F, Change, bool),
) -> Option<f64> {
    let mut link = IdleLink::new(10_000_000, 20, 1_538);
    let mut updated = 0.0;
    while link.now() < 1_000.0 {
        if let Some(change) = link.send(window(flow)) {
            let updates = link.now() - updated >= 1.0;
            learn(flow, change, updates);
            if updates {
                updated = link.now();
            }
        }
        if window(flow) >= 0.9 * 25_000.0 {
            return Some(link.now());
        }
    }
    None
}
