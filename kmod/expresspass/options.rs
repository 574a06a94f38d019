// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `expresspass` qdisc: the host's link, and the constants of the paper.

use super::flows::MAX_FLOWS;
use super::limiter::MAX_CREDITS;
use super::rate::{Form, Law, FRACTION, ONE};
use super::sender::Terms;
use crate::common::nla::Refusal;
use crate::common::on_wire::RATE_RANGE;
pub use crate::common::on_wire::{MAX_RATE, MIN_RATE};
use crate::common::options::Unit;

/// The bytes that a credit occupies on an Ethernet link.
pub const CREDIT: u64 = 84;
/// Default of `FRAME`: a frame of 1514 bytes on an Ethernet link.
pub const DEFAULT_FRAME: u32 = 1538;
/// The largest `FRAME`.
pub const MAX_FRAME: u32 = 10_000;
/// `ALPHA` and `WINIT`: the whole.
pub const WHOLE: u32 = 1000;
/// Default of `ALPHA`: 1/2.
pub const DEFAULT_ALPHA: u32 = WHOLE / 2;
/// Default of `WINIT`: 1/2.
pub const DEFAULT_WINIT: u32 = WHOLE / 2;
/// Default of `LOSS`, in percent.
pub const DEFAULT_LOSS: u32 = 10;
/// The largest `LOSS`, in percent.
pub const MAX_LOSS: u32 = 50;
/// Default of `FULL`: 40 frames, as in the authors' simulator.
pub const DEFAULT_FULL: u32 = 40;
/// The largest `FULL`.
pub const MAX_FULL: u32 = 65_535;
/// Default of `CREDITS`.
pub const DEFAULT_CREDITS: u32 = 8;
/// Default of `FLOWS`.
pub const DEFAULT_FLOWS: u32 = 1024;
/// Default of `LIMIT`.
pub const DEFAULT_LIMIT: u32 = 10_000;
/// The largest `LIMIT`.
pub const MAX_LIMIT: u32 = 100_000;
/// The words of `LAW`.
pub const FORMS: &[&str] = &["paper", "simulator"];
/// The shortest `TIMEOUT` in ns: a repetition must not keep the processor busy.
pub const MIN_TIMEOUT: u64 = 10_000;
/// The longest time in ns: 100 s.
pub const MAX_TIME: u64 = 100_000_000_000;
/// Default of `PORT`: the first one that a namespace's socket tries.
pub const DEFAULT_PORT: u32 = 1023;
/// In frames: defaults of the times.
const TIMEOUT: u64 = 1000;
const LINGER: u64 = 2;

const NS_PER_S: u64 = 1_000_000_000;

/// The time of some frames at the rate of a request, in ns.
fn frames(number: u64, said: &Options) -> u64 {
    let bytes = u64::from(said.frame.unwrap_or(DEFAULT_FRAME)).saturating_mul(NS_PER_S);
    let frame = bytes.checked_div(said.rate.unwrap_or(MAX_RATE));
    frame.unwrap_or(0).saturating_mul(number)
}

crate::options! {
    /// Rate of the host's link in bytes per second, [`MIN_RATE`] to [`MAX_RATE`]. It is required.
    RATE = 1, rate: u64
        as "rate" [Unit::Rate, "RATE", "a rate, for example 10gbit"] is needed,
        in (MIN_RATE, MAX_RATE), or RATE_RANGE,
        default |said| 0;
    /// The bytes that a full frame occupies on the link, 84 to [`MAX_FRAME`].
    FRAME = 2, frame: u32
        as "frame" [Unit::Size, "BYTES", "a size, for example 1538b"],
        in (CREDIT as u32, MAX_FRAME), or c"Frame must be between 84 and 10000 bytes",
        default |said| DEFAULT_FRAME;
    /// The initial rate of a flow's credits, in thousandths of the maximum, 1 to [`WHOLE`].
    ALPHA = 3, alpha: u32
        as "alpha" [Unit::Number, "NUMBER", "a number of thousandths, for example 500"],
        in (1, WHOLE), or c"Alpha must be between 1 and 1000 thousandths",
        default |said| DEFAULT_ALPHA;
    /// The initial aggressiveness of a flow, in thousandths, 1 to half of [`WHOLE`].
    WINIT = 4, winit: u32
        as "winit" [Unit::Number, "NUMBER", "a number of thousandths, for example 63"],
        in (1, WHOLE / 2), or c"Winit must be between 1 and 500 thousandths",
        default |said| DEFAULT_WINIT;
    /// The target loss of credits, in percent, at most [`MAX_LOSS`].
    LOSS = 5, loss: u32
        as "loss" [Unit::Percent, "PERCENT", "a percentage"],
        in (0, MAX_LOSS), or c"Loss must be at most 50 percent",
        default |said| DEFAULT_LOSS;
    /// A flow begins with all of alpha if this many frames wait, and with a part of it if fewer do,
    /// 1 to [`MAX_FULL`].
    FULL = 6, full: u32
        as "full" [Unit::Packets, "PACKETS", "a number of packets"],
        in (1, MAX_FULL), or c"Full must be between 1 and 65535 packets",
        default |said| DEFAULT_FULL;
    /// The most credits that wait at this host, 1 to [`MAX_CREDITS`].
    CREDITS = 7, credits: u32
        as "credits" [Unit::Packets, "PACKETS", "a number of packets"],
        in (1, MAX_CREDITS), or c"Credits must be between 1 and 64",
        default |said| DEFAULT_CREDITS;
    /// The most flows in each direction, 1 to [`MAX_FLOWS`].
    FLOWS = 8, flows: u32
        as "flows" [Unit::Number, "NUMBER", "a number of flows"],
        in (1, MAX_FLOWS), or c"Flows must be between 1 and 4096",
        default |said| DEFAULT_FLOWS;
    /// The most packets that wait, and the most that need no credit, 1 to [`MAX_LIMIT`].
    LIMIT = 9, limit: u32
        as "limit" [Unit::Packets, "PACKETS", "a number of packets"],
        in (1, MAX_LIMIT), or c"Limit must be between 1 and 100000 packets",
        default |said| DEFAULT_LIMIT;
    /// Nanoseconds until a request is repeated, [`MIN_TIMEOUT`] to [`MAX_TIME`].
    TIMEOUT = 10, timeout: u64
        as "timeout" [Unit::Time, "TIME", "a time, for example 1ms"],
        in (MIN_TIMEOUT, MAX_TIME), or c"Timeout must be between 10 us and 100 s",
        default |said| frames(TIMEOUT, said).clamp(MIN_TIMEOUT, MAX_TIME);
    /// Nanoseconds that a request waits for other packets of its burst, at most [`MAX_TIME`].
    GATHER = 11, gather: u64
        as "gather" [Unit::Time, "TIME", "a time, for example 1us"],
        in (0, MAX_TIME), or c"Gather must be at most 100 s",
        default |said| frames(1, said).min(MAX_TIME);
    /// Nanoseconds for which no packet of a flow must wait before it stops, at most [`MAX_TIME`].
    LINGER = 12, linger: u64
        as "linger" [Unit::Time, "TIME", "a time, for example 2us"],
        in (0, MAX_TIME), or c"Linger must be at most 100 s",
        default |said| frames(LINGER, said).min(MAX_TIME);
    /// Whether a flow stops when as many credits arrived in a round-trip time as frames wait.
    EARLY = 13, early: bool
        as "early" [Unit::Switch("early", "noearly"), "", ""],
        or c"Early must be 0 or 1",
        default |said| false;
    /// The data that a TCP socket may have waiting, in nanoseconds at its pacing rate, at most
    /// [`MAX_TIME`]; 0: the kernel's value, 1 ms.
    SMALL_QUEUE = 14, small_queue: u64
        as "smallqueue" [Unit::Time, "TIME", "a time, for example 500us"],
        in (0, MAX_TIME), or c"Smallqueue must be at most 100 s",
        default |said| 0;
    /// The UDP port of the other hosts.
    PORT = 16, port: u32
        as "port" [Unit::Number, "NUMBER", "a UDP port"],
        in (1, 1023), or c"Port must be between 1 and 1023",
        default |said| DEFAULT_PORT;
    /// The form of credit feedback control.
    LAW = 17, form: Form
        as "law" [Unit::Choice(FORMS), "paper|simulator", "paper or simulator"],
        or c"Law must be paper or simulator",
        default |said| Form::Paper;
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if the rate is missing, and any refusal by [`Options::check`].
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        if options.rate.is_none() {
            return Err(Refusal::invalid(
                c"Rate is required, for example rate 10gbit",
            ));
        }
        Ok(Self::filled(options))
    }

    /// The configuration after a `change`: options that are not in the request stay.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if flows or limit change, for which memory is reserved, and any refusal by
    /// [`Options::check`].
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let changed = self.changed(options);
        if (changed.flows, changed.limit) != (self.flows, self.limit) {
            return Err(Refusal::invalid(
                c"Flows and limit cannot be changed: delete the qdisc and add it",
            ));
        }
        Ok(changed)
    }

    /// The constants of credit feedback control.
    pub fn law(&self) -> Law {
        let part = |number: u32, whole: u32| {
            let ones = u64::from(number).saturating_mul(ONE);
            ones.checked_div(whole.into()).unwrap_or(ONE)
        };
        // The maximum rate of credits is that at which they and the frames that they cause take all
        // of the link.
        let pair = CREDIT.saturating_add(self.frame.into());
        let gap = pair.saturating_mul(NS_PER_S << FRACTION);
        Law {
            form: self.form,
            alpha: part(self.alpha, WHOLE),
            w_init: part(self.winit, WHOLE),
            target: part(self.loss, 100),
            full: self.full,
            gap: gap.checked_div(self.rate).unwrap_or(0).clamp(1, MAX_GAP),
        }
    }

    /// The constants of the sending side.
    pub fn terms(&self) -> Terms {
        Terms {
            port: self.port as u16,
            limit: self.limit,
            timeout: self.timeout,
            gather: self.gather,
            linger: self.linger,
            early: self.early,
        }
    }

    /// The pacing shift for TCP small queues: a socket may have 2^-shift seconds of its pacing rate
    /// waiting. It is the largest shift that covers `smallqueue`.
    #[inline]
    pub fn pacing_shift(&self) -> Option<u32> {
        let parts = NS_PER_S.checked_div(self.small_queue)?;
        Some(parts.checked_ilog2().unwrap_or(0))
    }
}

/// The longest gap between two credits at the maximum rate, in 2^-8 ns: half a minute.
const MAX_GAP: u64 = 1 << 43;
