// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `port` qdisc: a switch's shared memory, and priority flow control.

use super::frame::{PRIORITIES, QUANTUM_BITS};
use crate::common::nla::Refusal;
use crate::common::on_wire::RATE_RANGE;
pub use crate::common::on_wire::{MAX_RATE, MIN_RATE};
use crate::common::options::Unit;
pub use crate::common::share::{ALPHA_1, ALPHA_OFF, MAX_ALPHA};

/// `MEMORY`: no limit.
pub const NO_LIMIT: u32 = 0;
/// Default of `ALPHA`: 1.
pub const DEFAULT_ALPHA: u32 = ALPHA_1;
/// The longest `HRTT` in ns: 10 s.
pub const MAX_TIME: u64 = 10_000_000_000;
/// Default of `XOFF`: "PFC … is set to trigger when traffic from an input port occupies more than
/// 11% of the free buffer" (BFC, §6.2.1).
pub const DEFAULT_XOFF: u32 = 11;
/// Default of `XON`: two full frames, as much as in the simulator of HPCC's authors (3 kB).
pub const DEFAULT_XON: u32 = 3_000;
/// The largest `QUANTA`, and its default, as in most switches.
pub const MAX_QUANTA: u32 = 65_535;
/// Default of `PRIORITY`: the usual one of RDMA traffic.
pub const DEFAULT_PRIORITY: u8 = 3;
/// The largest `PRIORITY`.
pub const MAX_PRIORITY: u8 = PRIORITIES as u8 - 1;
/// The shortest pause in ns: a refresh each half of it must not keep the processor busy.
pub const MIN_PAUSE: u64 = 10_000;
/// The longest `WATCHDOG` in ns: a minute.
pub const MAX_WATCHDOG: u64 = 60_000_000_000;

const NS_PER_S: u64 = 1_000_000_000;

crate::options! {
    /// The bytes of the switch's memory, which all ports share; [`NO_LIMIT`]: no limit.
    MEMORY = 1, memory: u32
        as "memory" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"]
            silent NO_LIMIT as u64,
        default |said| NO_LIMIT;
    /// The multiple, in 1/128s, of the free memory that this port may hold, at most [`MAX_ALPHA`];
    /// [`ALPHA_OFF`]: all that is free.
    ALPHA = 2, alpha: u32
        as "alpha" [
            Unit::Parts(ALPHA_1, "off"),
            "NUMBER",
            "a number or fraction, for example 8 or 1/2, or off"
        ] silent DEFAULT_ALPHA as u64,
        in (ALPHA_OFF, MAX_ALPHA), or c"Alpha must be between 1/128 and 128, or off",
        default |said| DEFAULT_ALPHA;
    /// Whether the port sends pause frames and obeys the ones that it receives.
    PFC = 3, pfc: bool
        as "pfc" [Unit::Switch("pfc", "nopfc"), "", ""],
        or c"PFC must be 0 or 1",
        default |said| false;
    /// The link's rate in bytes per second, [`MIN_RATE`] to [`MAX_RATE`]; 0 if unknown.
    RATE = 4, rate: u64
        as "rate" [Unit::Rate, "RATE", "a rate, for example 10gbit"] silent 0,
        in (MIN_RATE, MAX_RATE), besides 0, or RATE_RANGE,
        default |said| 0;
    /// The link's 1-hop round-trip time in ns, at most [`MAX_TIME`]; 0 if unknown.
    HRTT = 5, hrtt: u64
        as "hrtt" [Unit::Time, "TIME", "a time, for example 20us"] silent 0,
        in (0, MAX_TIME), or c"HRTT must be at most 10 s",
        default |said| 0;
    /// Bytes of the memory that are kept for what arrives after a pause was decided; 0: [as many
    /// as rate and HRTT need](Config::headroom_bytes).
    HEADROOM = 6, headroom: u32
        as "headroom" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"] silent 0,
        default |said| 0;
    /// The percentage of the free memory above which the packets of one neighbour pause it, 1 to
    /// 100.
    XOFF = 7, xoff: u32
        as "xoff" [Unit::Percent, "PERCENT", "a percentage"] silent DEFAULT_XOFF as u64,
        in (1, 100), or c"Xoff must be between 1 and 100 percent",
        default |said| DEFAULT_XOFF;
    /// Bytes below the pause threshold at which the neighbour is resumed.
    XON = 8, xon: u32
        as "xon" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"]
            silent DEFAULT_XON as u64,
        default |said| DEFAULT_XON;
    /// The time of a pause, in units of 512 bit times, 1 to [`MAX_QUANTA`].
    QUANTA = 9, quanta: u32
        as "quanta" [Unit::Number, "NUMBER", "a number of quanta"] silent MAX_QUANTA as u64,
        in (1, MAX_QUANTA), or c"Quanta must be between 1 and 65535",
        default |said| MAX_QUANTA;
    /// The priority of the port's packets in pause frames, at most [`MAX_PRIORITY`]. It cannot be
    /// changed.
    PRIORITY = 10, priority: u8
        as "priority" [Unit::Number, "NUMBER", "a priority"] silent DEFAULT_PRIORITY as u64,
        in (0, MAX_PRIORITY), or c"Priority must be at most 7",
        default |said| DEFAULT_PRIORITY;
    /// ns of uninterrupted pause after which pauses are ignored, at most [`MAX_WATCHDOG`]; 0:
    /// never.
    WATCHDOG = 11, watchdog: u64
        as "watchdog" [Unit::TimeOr("off", 0), "TIME", "a time, for example 20us, or off"] silent 0,
        in (0, MAX_WATCHDOG), or c"Watchdog must be at most 60 s",
        default |said| 0;
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// # Errors
    ///
    /// Refusals by [`Options::check`], and of options that contradict each other.
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        Self::filled(options).checked()
    }

    /// The configuration after a `change`: options that are not in the request stay.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and another priority.
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let config = self.changed(options);
        if config.priority != self.priority {
            return Err(Refusal::invalid(c"Priority cannot be changed"));
        }
        config.checked()
    }

    /// Refuses options that contradict each other.
    fn checked(self) -> Result<Self, Refusal> {
        if !self.pfc {
            return Ok(self);
        }
        if self.rate == 0 {
            let sentence = c"pfc needs the link's rate, because pauses are in bit times";
            return Err(Refusal::invalid(sentence));
        }
        if pause_time(self.quanta, self.rate) < MIN_PAUSE {
            let sentence = c"A pause must last at least 10 us: increase quanta";
            return Err(Refusal::invalid(sentence));
        }
        if self.memory != NO_LIMIT {
            if self.headroom == 0 && self.hrtt == 0 {
                let sentence = c"pfc with memory needs hrtt or headroom";
                return Err(Refusal::invalid(sentence));
            }
            if self.headroom_bytes(0) >= self.memory.into() {
                let sentence = c"The headroom must be less than the memory";
                return Err(Refusal::invalid(sentence));
            }
        }
        Ok(self)
    }

    /// The headroom in bytes: the option or, without one, what the link carries in one HRTT and two
    /// frames of `mtu` bytes. The pause frame waits for the frame that is being sent, and the
    /// neighbour completes the frame that it is sending.
    pub fn headroom_bytes(&self, mtu: u32) -> u64 {
        if self.headroom != 0 {
            return self.headroom.into();
        }
        let carried = self.rate.saturating_mul(self.hrtt).div_ceil(NS_PER_S);
        carried.saturating_add(2 * u64::from(mtu))
    }
}

/// How long a link of `rate` bytes per second, not 0, is paused by a number of quanta, in ns,
/// rounded up.
pub fn pause_time(quanta: u32, rate: u64) -> u64 {
    let bits = u64::from(quanta).saturating_mul(QUANTUM_BITS);
    let ns = (bits / 8).saturating_mul(NS_PER_S);
    ns.checked_add(rate.saturating_sub(1))
        .and_then(|ns| ns.checked_div(rate))
        .unwrap_or(u64::MAX)
}
