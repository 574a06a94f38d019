// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `bfc` qdisc.

use crate::common::nla::{self, NoRoom, Refusal, Sink};
use crate::common::on_wire::RATE_RANGE;
pub use crate::common::on_wire::{MAX_RATE, MIN_RATE};
use crate::common::options::{Field, Unit};
pub use crate::common::share::{ALPHA_1, ALPHA_OFF, MAX_ALPHA};
use core::ffi::CStr;

/// Default of `QUEUES`: "32 physical queues per port (consistent with Tofino2)" (§6.2.1).
pub const DEFAULT_QUEUES: u32 = 32;
/// The most queues.
pub const MAX_QUEUES: u32 = 1024;
/// Default of `FACTOR`, entries of the flow table per queue: "we set the size of the flow table to
/// 100× the number of queues" (§3.3.1).
pub const DEFAULT_FACTOR: u32 = 100;
/// The most entries per queue.
pub const MAX_FACTOR: u32 = 1_000;
/// The most queues times entries per queue: 2 MiB of flow table. The default factor is allowed with
/// any number of queues.
pub const MAX_ENTRIES: u32 = 1 << 17;
/// The most priority classes.
pub const MAX_CLASSES: u8 = 8;
/// The longest time in ns: 10 s.
pub const MAX_TIME: u64 = 10_000_000_000;
/// `STICKY`: 2 HRTT (§3.3.2).
pub const STICKY_AUTO: u64 = u64::MAX;
/// Default of `BUFFER`, bytes in the switch: "the switch buffer size is set to 12 MB" (§6.2.1).
pub const DEFAULT_BUFFER: u32 = 12_000_000;
/// The shortest time in ns between two bitmaps.
pub const MIN_REFRESH: u64 = 10_000;
/// Default time in ns between two bitmaps, if HRTT is unknown.
pub const DEFAULT_REFRESH: u64 = 1_000_000;
/// Default time between two bitmaps, in HRTT: at 100 Gbit/s and 2 µs, a bitmap of 32 queues (84
/// bytes on the wire) each 20 µs is 0.03 % of the rate.
pub const REFRESH_HRTTS: u64 = 10;
/// The largest quantum in bytes.
pub const MAX_QUANTUM: u32 = 1 << 20;
/// The most devices in `ELIDE`.
pub const MAX_ELIDED: usize = 64;
/// Default of `ALPHA`: 8, as usual in switches for ports that may drop. A single stuck port leaves
/// a ninth of the buffer to the others.
pub const DEFAULT_ALPHA: u32 = 8 * ALPHA_1;
/// The longest `HOLD` and `WATCHDOG` in ns: a minute, which is also a frame's longest hold time.
pub const MAX_HOLD: u64 = 60_000_000_000;
/// The largest `SCALE` in percent.
pub const MAX_SCALE: u32 = 10_000;
/// The shortest `HOLD` in ns.
pub const MIN_HOLD: u64 = 10_000;
/// Default of `HOLD`, in times between two bitmaps. The neighbour's frames carry four times its own
/// interval, which is the same unless somebody set it, ...
pub const HOLD_REFRESHES: u64 = 16;
/// ... and no less than this, in ns.
pub const DEFAULT_HOLD: u64 = 1_000_000_000;

/// Default of `REFRESH`, for a given HRTT.
fn default_refresh(hrtt: Option<u64>) -> u64 {
    match hrtt.unwrap_or(0) {
        0 => DEFAULT_REFRESH,
        hrtt => hrtt
            .saturating_mul(REFRESH_HRTTS)
            .clamp(MIN_REFRESH, MAX_TIME),
    }
}

/// Default of `HOLD`.
pub fn default_hold(refresh: u64) -> u64 {
    let hold = refresh.saturating_mul(HOLD_REFRESHES);
    hold.clamp(DEFAULT_HOLD, MAX_HOLD)
}

/// The refusal of more devices.
const TOO_MANY: &CStr = c"At most 64 devices can be elided";

/// How a flow gets its queue (§6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assign {
    /// An empty queue, if there is one.
    #[default]
    Dynamic,
    /// The queue given by its hash.
    Stochastic,
    /// The same queue for all flows.
    Single,
}

/// The order in which queues are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Fair queuing.
    #[default]
    Fq,
    /// Shortest remaining flow first (App. A.2).
    Srf,
}

/// The packets above the threshold that cause backpressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pushback {
    /// Every one (§3.3.2).
    #[default]
    All,
    /// Those whose flow has another packet in the port.
    Backlogged,
}

/// Devices, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Devices {
    indices: [u32; MAX_ELIDED],
    count: usize,
}

impl Devices {
    /// No devices.
    pub const NONE: Self = Self {
        indices: [0; MAX_ELIDED],
        count: 0,
    };

    /// Adds a device; `false` if there is no room for it.
    pub fn push(&mut self, index: u32) -> bool {
        let Some(slot) = self.indices.get_mut(self.count) else {
            return false;
        };
        *slot = index;
        self.count = self.count.wrapping_add(1);
        true
    }

    /// Their indices, in the order in which they were added.
    pub fn indices(&self) -> &[u32] {
        self.indices.get(..self.count).unwrap_or_default()
    }
}

impl Field for Devices {
    const WIDTH: usize = 4;

    fn read(attr: u16, payload: &[u8], _: &'static CStr) -> Result<Self, Refusal> {
        let mut devices = Self::NONE;
        let chunks = payload.chunks_exact(4);
        if !chunks.remainder().is_empty() {
            let sentence = c"Attribute has the wrong size";
            return Err(Refusal::invalid_attr(sentence, attr));
        }
        for chunk in chunks {
            let index = nla::read_u32(attr, chunk)?;
            if index == 0 {
                let sentence = c"A device's index must not be 0";
                return Err(Refusal::range(sentence, attr));
            }
            if !devices.push(index) {
                let sentence = TOO_MANY;
                return Err(Refusal::range(sentence, attr));
            }
        }
        Ok(devices)
    }

    fn put(self, attr: u16, sink: &mut impl Sink) -> Result<(), NoRoom> {
        let mut bytes = [0; 4 * MAX_ELIDED];
        let content = self.indices.iter().flat_map(|index| index.to_ne_bytes());
        for (byte, content) in bytes.iter_mut().zip(content) {
            *byte = content;
        }
        let payload = bytes.get(..self.count.wrapping_mul(4)).unwrap_or_default();
        sink.put(attr, payload)
    }
}

impl Default for Devices {
    fn default() -> Self {
        Self::NONE
    }
}

crate::choice!(Assign {
    Dynamic,
    Stochastic,
    Single
});
crate::choice!(Scheduler { Fq, Srf });
crate::choice!(Pushback { All, Backlogged });

// `QUEUES` to `INCAST`, and `CONTROL`, are fixed when the qdisc is created.
crate::options! {
    /// µ in bytes per second, [`MIN_RATE`] to [`MAX_RATE`]; 0 if unknown.
    RATE = 8, rate: u64
        as "rate" [Unit::Rate, "RATE", "a rate, for example 10gbit"] is needed silent 0,
        in (MIN_RATE, MAX_RATE), besides 0, or RATE_RANGE,
        default |said| 0;
    /// 1-hop round-trip time in ns, at most [`MAX_TIME`]; 0 if unknown.
    HRTT = 9, hrtt: u64
        as "hrtt" [Unit::Time, "TIME", "a time, for example 20us"] is needed silent 0,
        in (0, MAX_TIME), or c"HRTT must be at most 10 s",
        default |said| 0;
    /// Pause threshold in bytes; 0: HRTT · µ / N_active.
    TH = 10, th: u32
        as "th" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"] silent 0,
        default |said| 0;
    /// Queues, including the control queue, 2 to [`MAX_QUEUES`].
    QUEUES = 1, queues: u32
        as "queues" [Unit::Number, "NUMBER", "a number of queues"],
        in (2, MAX_QUEUES), or c"Queues must be between 2 and 1024",
        default |said| DEFAULT_QUEUES;
    /// Entries of the flow table per queue, 1 to [`MAX_FACTOR`].
    FACTOR = 2, factor: u32
        as "factor" [Unit::Number, "NUMBER", "a number"],
        in (1, MAX_FACTOR), or c"Factor must be between 1 and 1000",
        default |said| DEFAULT_FACTOR;
    /// How a flow gets its queue.
    ASSIGN = 3, assign: Assign
        as "assign" [
            Unit::Choice(&["dynamic", "stochastic", "single"]),
            "",
            "dynamic, stochastic or single"
        ],
        or c"Assignment must be 0, 1 or 2",
        default |said| Assign::Dynamic;
    /// The order in which queues are served.
    SCHEDULER = 4, scheduler: Scheduler
        as "scheduler" [Unit::Choice(&["fq", "srf"]), "", "fq or srf"],
        or c"Scheduler must be 0 or 1",
        default |said| Scheduler::Fq;
    /// Priority classes, 1 to [`MAX_CLASSES`]; with srf 1.
    CLASSES = 5, classes: u8
        as "classes" [Unit::Number, "NUMBER", "a number"] silent 1,
        in (1, MAX_CLASSES), or c"Classes must be between 1 and 8",
        default |said| 1;
    /// The rank that labels incast packets; not with srf.
    INCAST = 6, incast: u32
        as "incast" [Unit::Number, "RANK", "a rank"] is optional;
    /// Packets sampled, in percent, 1 to 100.
    SAMPLE = 7, sample: u8
        as "sample" [Unit::Percent, "PERCENT", "a percentage"] silent 100,
        in (1, 100), or c"Sample must be between 1 and 100 percent",
        default |said| 100;
    /// ns for which an inactive flow keeps its queue, at most [`MAX_TIME`]; [`STICKY_AUTO`]: 2
    /// HRTT.
    STICKY = 11, sticky: u64
        as "sticky" [Unit::TimeOr("auto", STICKY_AUTO), "TIME", "a time, for example 20us, or auto"]
            silent STICKY_AUTO,
        in (0, MAX_TIME), besides STICKY_AUTO, or c"Sticky time must be at most 10 s",
        default |said| STICKY_AUTO;
    /// The most bytes in this port; 0: no limit.
    LIMIT = 12, limit: u32
        as "limit" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"] silent 0,
        default |said| 0;
    /// The most bytes in the switch; 0: no limit.
    BUFFER = 13, buffer: u32
        as "buffer" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"],
        default |said| DEFAULT_BUFFER;
    /// ns between two bitmaps, [`MIN_REFRESH`] to [`MAX_TIME`]; [`REFRESH_HRTTS`] HRTT by default.
    REFRESH = 14, refresh: u64
        as "refresh" [Unit::Time, "TIME", "a time, for example 20us"],
        in (MIN_REFRESH, MAX_TIME), or c"Refresh must be between 10 us and 10 s",
        default |said| default_refresh(said.hrtt);
    /// Bytes per turn of the round robin, at most [`MAX_QUANTUM`]; 0: the device's MTU.
    QUANTUM = 16, quantum: u32
        as "quantum" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"] silent 0,
        in (0, MAX_QUANTUM), or c"Quantum must be at most 1048576 bytes",
        default |said| 0;
    /// Devices whose packets cause no backpressure here.
    ELIDE = 17, elide: Devices
        as "elide" [Unit::Devices(MAX_ELIDED, "noelide", TOO_MANY), "DEV", "a device"],
        default |said| Devices::NONE;
    /// The multiple, in 1/128s, of the switch's free buffer that this port may hold, at most
    /// [`MAX_ALPHA`]; [`ALPHA_OFF`]: all that is free.
    ALPHA = 18, alpha: u32
        as "alpha" [
            Unit::Parts(ALPHA_1, "off"),
            "NUMBER",
            "a number or fraction, for example 8 or 1/2, or off"
        ] silent DEFAULT_ALPHA as u64,
        in (ALPHA_OFF, MAX_ALPHA), or c"Alpha must be between 1/128 and 128, or off",
        default |said| DEFAULT_ALPHA;
    /// The longest time in ns for which a frame is obeyed, [`MIN_HOLD`] to [`MAX_HOLD`]; see
    /// [`default_hold`].
    HOLD = 19, hold: u64
        as "hold" [Unit::Time, "TIME", "a time, for example 20us"],
        in (MIN_HOLD, MAX_HOLD), or c"Hold must be between 10 us and 60 s",
        default |said| default_hold(said.refresh.unwrap_or(default_refresh(said.hrtt)));
    /// ns of uninterrupted pause after which a queue is released, at most [`MAX_HOLD`]; 0: never.
    WATCHDOG = 20, watchdog: u64
        as "watchdog" [Unit::TimeOr("off", 0), "TIME", "a time, for example 20us, or off"] silent 0,
        in (0, MAX_HOLD), or c"Watchdog must be at most 60 s",
        default |said| 0;
    /// The packets above the threshold that cause backpressure.
    PUSHBACK = 21, pushback: Pushback
        as "pushback" [Unit::Choice(&["all", "backlogged"]), "", "all or backlogged"] silent 0,
        or c"Pushback must be 0 or 1",
        default |said| Pushback::All;
    /// The computed threshold in percent of HRTT · µ / N_active, 1 to [`MAX_SCALE`].
    SCALE = 22, scale: u32
        as "scale" [Unit::Percent, "PERCENT", "a percentage"] silent 100,
        in (1, MAX_SCALE), or c"Scale must be between 1 and 10000 percent",
        default |said| 100;
    /// The rank of packets that wait in the control queue.
    CONTROL = 23, control: u32
        as "control" [Unit::Number, "RANK", "a rank"] is optional;
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// # Errors
    ///
    /// Refusals by [`Options::check`], and of options that contradict each other: see
    /// [`check`](Self::check).
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let config = Self::filled(options);
        config.check()?;
        Ok(config)
    }

    /// The configuration after a `change`: options that are not in the request stay.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and a refusal if it changes a fixed option.
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        fn is<T: PartialEq>(said: Option<T>, value: T) -> bool {
            said.is_none_or(|said| said == value)
        }
        let stays = is(options.queues, self.queues)
            && is(options.factor, self.factor)
            && is(options.assign, self.assign)
            && is(options.scheduler, self.scheduler)
            && is(options.classes, self.classes)
            && (options.incast.is_none() || options.incast == self.incast)
            && (options.control.is_none() || options.control == self.control);
        if !stays {
            return Err(Refusal::invalid(
                c"Queues, factor, assign, scheduler, classes, incast and control cannot be changed",
            ));
        }
        let config = self.changed(options);
        config.check()?;
        Ok(config)
    }

    /// Checks that the options do not contradict each other.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] of kind `Invalid`.
    fn check(&self) -> Result<(), Refusal> {
        if self.th == 0 && (self.rate == 0 || self.hrtt == 0) {
            let sentence = c"A threshold is required: rate and hrtt, or th";
            return Err(Refusal::invalid(sentence));
        }
        if self.scheduler == Scheduler::Srf && (self.classes != 1 || self.incast.is_some()) {
            let sentence = c"srf takes the rank for a size: it has one class and no incast label";
            return Err(Refusal::invalid(sentence));
        }
        if self.control.is_some() && self.control == self.incast {
            let sentence = c"The ranks of control packets and of incasts must differ";
            return Err(Refusal::invalid(sentence));
        }
        if self.queues.saturating_mul(self.factor) > MAX_ENTRIES {
            let sentence = c"Queues times factor must be at most 131072";
            return Err(Refusal::invalid(sentence));
        }
        let per_class = if self.incast.is_some() { 2 } else { 1 };
        if self.queues.wrapping_sub(1) < u32::from(self.classes).wrapping_mul(per_class) {
            let sentence = c"Each class needs a queue, or two if there is an incast label";
            return Err(Refusal::invalid(sentence));
        }
        Ok(())
    }
}
