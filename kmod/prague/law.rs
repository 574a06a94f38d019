// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The window of a Prague flow.

use crate::common::{pacing::window_rate, window::Ack};

/// Windows are counted in 2^-24 packets: with a virtual round-trip time one packet adds little.
pub const FRACTION_BITS: u32 = 24;
/// One packet.
pub const ONE: u64 = 1 << FRACTION_BITS;

/// α is counted in 2^-20.
pub const ALPHA_ONE: u32 = 1 << 20;

/// The weight of the last round trip in α is 2^-4.
const G_SHIFT: u32 = 4;

/// The largest window, in packets.
pub const LARGEST: u32 = u16::MAX as u32;

/// The least window after marks and losses, in packets.
pub const LEAST_WINDOW: u32 = 2;

/// The longest virtual round-trip time, in µs.
pub const LONGEST_US: u32 = 1_000_000;

/// A window in 2^-16 packets, rounded down.
fn coarse(window: u64) -> u32 {
    u32::try_from(window >> (FRACTION_BITS - 16)).unwrap_or(u32::MAX)
}

/// The opposite of [`coarse`].
fn fine(coarse: u32) -> u64 {
    u64::from(coarse) << (FRACTION_BITS - 16)
}

/// One flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prague {
    /// In 2^-24 packets, from 1 to [`LARGEST`] packets.
    window: u64,
    /// When α was last updated, and when a mark last reduced the window, in ns.
    averaged: u64,
    reduced: u64,
    /// The slow start threshold, in 2^-16 packets, as the socket has no room for more.
    threshold: u32,
    /// The window before the last loss, and before the last reduction by a mark, in the same unit.
    before_loss: u32,
    before_mark: u32,
    /// Packets that arrived since α was updated, and how many of them were marked.
    delivered: u32,
    marked: u32,
    /// In 2^-20.
    alpha: u32,
    /// The virtual round-trip time in µs; 0: none.
    virtual_us: u32,
}

impl Prague {
    /// A flow whose first window has `packets` packets.
    pub fn new(packets: u32, virtual_us: u32) -> Self {
        let window = u64::from(packets.clamp(1, LARGEST)) << FRACTION_BITS;
        Self {
            window,
            averaged: 0,
            reduced: 0,
            threshold: LARGEST << 16,
            before_loss: 0,
            before_mark: coarse(window),
            delivered: 0,
            marked: 0,
            alpha: ALPHA_ONE,
            virtual_us: virtual_us.min(LONGEST_US),
        }
    }

    /// The window in 2^-24 packets.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The most packets that may be in flight, at least 1.
    pub fn packets(&self) -> u32 {
        // At most 2^16.
        (self.window >> FRACTION_BITS) as u32
    }

    /// The slow start threshold, in packets.
    pub fn threshold(&self) -> u32 {
        self.threshold >> 16
    }

    /// α in 2^-20.
    pub fn alpha(&self) -> u32 {
        self.alpha
    }

    /// Whether the window is below the threshold.
    pub fn slow_start(&self) -> bool {
        coarse(self.window) < self.threshold
    }

    /// The pacing rate in bytes a second, where a packet counts as `packet` bytes: a window in each
    /// round-trip time, or two while the window is below half the threshold.
    pub fn pacing(&self, packet: u32, rtt_us: u32) -> u64 {
        let double = u32::from(coarse(self.window) < self.threshold >> 1);
        window_rate(self.window << double, FRACTION_BITS, packet, rtt_us)
    }

    /// Counts `delivered` packets that arrived, `marked` of them with a mark.
    pub fn arrived(&mut self, delivered: u32, marked: u32) {
        self.delivered = self.delivered.saturating_add(delivered);
        self.marked = self.marked.saturating_add(marked);
    }

    /// A round trip has ended at `now`: updates α, unless less than a virtual one has passed.
    pub fn round(&mut self, now: u64) {
        if now.saturating_sub(self.averaged) < self.virtual_ns() {
            return;
        }
        self.averaged = now;
        let delivered = self.delivered.max(1);
        // At most 2^32 times 2^20, and at most 2^20 in the end.
        let fraction = u64::from(self.marked.min(delivered))
            .wrapping_mul(ALPHA_ONE.into())
            .checked_div(delivered.into())
            .unwrap_or(0) as u32;
        // A small α loses at least one each time, and reaches 0.
        let part = (self.alpha >> G_SHIFT).max(1);
        self.alpha = self
            .alpha
            .saturating_sub(part)
            .saturating_add(fraction >> G_SHIFT)
            .min(ALPHA_ONE);
        (self.delivered, self.marked) = (0, 0);
    }

    fn virtual_ns(&self) -> u64 {
        u64::from(self.virtual_us).wrapping_mul(1_000)
    }

    /// An acknowledgement arrived at `now`, after the last round-trip time `rtt_us`. `round_over`:
    /// a round trip has passed since the last reduction by a mark. `recovering`: a loss is being
    /// repaired. Returns whether the window was reduced.
    pub fn on_ack(
        &mut self,
        ack: Ack,
        rtt_us: u32,
        round_over: bool,
        recovering: bool,
        now: u64,
    ) -> bool {
        let marked = ack.marked.min(ack.packets);
        let may_reduce =
            round_over && now.saturating_sub(self.reduced) >= self.virtual_ns() && !recovering;
        // A mark can come with an acknowledgement of nothing new.
        let reduce = ack.marked != 0 && may_reduce;
        if reduce {
            self.before_mark = coarse(self.window);
            // At most 2^40 times 2^20.
            let part = self.window.wrapping_mul(self.alpha.into()) >> 21;
            self.shrink(self.window.saturating_sub(part));
            self.reduced = now;
        }
        if ack.limited && !recovering {
            self.grow(ack.packets.saturating_sub(marked), rtt_us);
        }
        reduce
    }

    /// Sets the window and the threshold, at least [`LEAST_WINDOW`].
    fn shrink(&mut self, window: u64) {
        let window = window.max(u64::from(LEAST_WINDOW) << FRACTION_BITS);
        self.window = window.min(self.window.max(ONE));
        self.threshold = coarse(window);
    }

    fn grow(&mut self, packets: u32, rtt_us: u32) {
        let packets = u64::from(packets.min(LARGEST));
        let max = u64::from(LARGEST) << FRACTION_BITS;
        if self.slow_start() {
            // What is left at the threshold is dropped.
            let grown = self.window.wrapping_add(packets << FRACTION_BITS);
            self.window = grown.min(fine(self.threshold)).min(max);
            return;
        }
        // Below 2^32 times 2^16 times 2^16; the window has 24 bits of the result's scale.
        let gain = self.increase(rtt_us).wrapping_mul(packets) << (2 * FRACTION_BITS - 32);
        let gain = gain.checked_div(self.window).unwrap_or(0);
        self.window = self.window.wrapping_add(gain).min(max);
    }

    /// k, the additive increase of a round trip, in 2^-32 packets.
    fn increase(&self, rtt_us: u32) -> u64 {
        if rtt_us >= self.virtual_us {
            return 1 << 32;
        }
        // Below 1, so its square fits.
        let ratio = (u64::from(rtt_us) << 32)
            .checked_div(self.virtual_us.into())
            .unwrap_or(0);
        ratio.wrapping_mul(ratio) >> 32
    }

    /// Losses were found by acknowledgements. `round_over`: see [`Self::on_ack`].
    pub fn on_loss(&mut self, round_over: bool) {
        self.before_loss = coarse(self.window);
        self.shrink(self.half(round_over).min(self.window));
    }

    /// Half of the window, or of that before a mark of the same round trip.
    fn half(&self, round_over: bool) -> u64 {
        let before = if round_over {
            self.window
        } else {
            fine(self.before_mark).max(self.window)
        };
        before >> 1
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self, round_over: bool) {
        // Of several timeouts in a row, the first one counts.
        if self.window > ONE {
            self.on_loss(round_over);
        }
        self.window = ONE;
    }

    /// The last loss was none.
    pub fn undo(&mut self) {
        if fine(self.before_loss) > self.window {
            self.window = fine(self.before_loss);
            self.threshold = self.threshold.max(self.before_loss);
        }
    }
}
