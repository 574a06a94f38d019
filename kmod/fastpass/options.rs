// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `fastpass` qdisc.

use super::address::{Addresses, MAX_ENDPOINTS};
use super::host::{Shape, Terms};
use super::queues::{Order, ORDERS};
use super::timing;
use crate::common::nla::Refusal;
use crate::common::on_wire::{
    self, MAX_MPU, MAX_OVERHEAD, MAX_RATE, MIN_RATE, MPU_RANGE, OVERHEAD_RANGE, RATE_RANGE,
};
use crate::common::options::Unit;

/// The most hosts of a rack, racks of a pod, and pods.
pub const MAX_OF_EACH: u32 = 256;
/// Default UDP port of the arbiter: `FC`.
pub const DEFAULT_PORT: u32 = 0x4643;
/// The shortest timeslot in nanoseconds.
pub const MIN_TIMESLOT: u64 = 10;
/// The longest timeslot in nanoseconds: 1 s.
pub const MAX_TIMESLOT: u64 = 1_000_000_000;
/// The longest of the other times, in nanoseconds: 100 s.
pub const MAX_TIME: u64 = 100_000_000_000;
/// The shortest time before a message is repeated, in nanoseconds: 10 µs. Otherwise a user who may
/// add a qdisc in a namespace of their own could keep a processor busy with repeated messages.
pub const MIN_PERIOD: u64 = 10_000;
/// The largest limit in packets.
pub const MAX_LIMIT: u32 = 1_000_000;
/// The bytes that Ethernet has around a frame: preamble, checksum, gap.
pub const DEFAULT_OVERHEAD: u32 = 24;
/// The bytes that the shortest frame occupies on a link.
pub const DEFAULT_MPU: u32 = 84;
/// Default limit of packets to a destination.
pub const DEFAULT_LIMIT: u32 = 1000;
/// The bytes that a frame of 1514 bytes occupies on an Ethernet link.
const FRAME: u64 = 1538;
/// In timeslots: how late a packet may leave, and when a message to the arbiter is repeated.
const DEFAULT_LATE: u64 = 4;
const DEFAULT_TIMEOUT: u64 = 256;
/// In timeslots: the time between two reports on the paths.
const DEFAULT_REPORT: u64 = 512;
/// The most paths.
pub const MAX_PATHS: u32 = 256;
/// The most classes of urgency.
pub const MAX_CLASSES: u32 = 4;
/// Default bound on the ranks of the most urgent class: a flow's first 11 packets, a
/// bandwidth-delay product.
pub const DEFAULT_URGENT: u32 = 16_384;
/// Each class has ranks up to 2^this times those of the previous class.
const CLASS_SHIFT: u32 = 3;

/// The time of a frame of full size at a rate, in nanoseconds, rounded up.
fn frame_time(rate: Option<u64>) -> u64 {
    let rate = rate.unwrap_or(MIN_RATE);
    let rounded_up = (FRAME * 1_000_000_000).saturating_add(rate.saturating_sub(1));
    let time = rounded_up.checked_div(rate).unwrap_or(MAX_TIMESLOT);
    time.clamp(MIN_TIMESLOT, MAX_TIMESLOT)
}

fn timeslot(said: &Options) -> u64 {
    said.timeslot.unwrap_or_else(|| frame_time(said.rate))
}

crate::options! {
    /// This host's address. It is required.
    ADDRESS = 1, address: u32
        as "address" [Unit::Address, "ADDRESS", "an IPv4 address"] is needed,
        default |said| 0;
    /// The address of endpoint 0. It is required.
    FIRST = 2, first: u32
        as "first" [Unit::Address, "ADDRESS", "an IPv4 address"] is needed,
        default |said| 0;
    /// Hosts per rack, 1 to [`MAX_OF_EACH`], with consecutive addresses. It is required.
    HOSTS = 3, hosts: u32
        as "hosts" [Unit::Number, "NUMBER", "a number of hosts"] is needed,
        in (1, MAX_OF_EACH), or c"Hosts of a rack must be between 1 and 256",
        default |said| 0;
    /// Racks per pod, 1 to [`MAX_OF_EACH`]: 256 addresses apart.
    RACKS = 4, racks: u32
        as "racks" [Unit::Number, "NUMBER", "a number of racks"],
        in (1, MAX_OF_EACH), or c"Racks of a pod must be between 1 and 256",
        default |said| 1;
    /// Pods, 1 to [`MAX_OF_EACH`]: 65,536 addresses apart.
    PODS = 5, pods: u32
        as "pods" [Unit::Number, "NUMBER", "a number of pods"],
        in (1, MAX_OF_EACH), or c"Pods must be between 1 and 256",
        default |said| 1;
    /// The arbiter's address. It is required.
    ARBITER = 6, arbiter: u32
        as "arbiter" [Unit::Address, "ADDRESS", "an IPv4 address"] is needed,
        default |said| 0;
    /// The arbiter's UDP port.
    PORT = 7, port: u32
        as "port" [Unit::Number, "NUMBER", "a UDP port"],
        in (1, 65_535), or c"Port must be between 1 and 65535",
        default |said| DEFAULT_PORT;
    /// Rate of the host's link in bytes per second, [`MIN_RATE`] to [`MAX_RATE`]. It is required.
    RATE = 8, rate: u64
        as "rate" [Unit::Rate, "RATE", "a rate, for example 10gbit"] is needed,
        in (MIN_RATE, MAX_RATE), or RATE_RANGE,
        default |said| 0;
    /// Nanoseconds of a timeslot, [`MIN_TIMESLOT`] to [`MAX_TIMESLOT`]; by default the time of a
    /// frame of 1514 bytes.
    TIMESLOT = 9, timeslot: u64
        as "timeslot" [Unit::Time, "TIME", "a time, for example 1231ns"],
        in (MIN_TIMESLOT, MAX_TIMESLOT), or c"Timeslot must be between 10 ns and 1 s",
        default |said| frame_time(said.rate);
    /// Bytes added to each frame, at most [`MAX_OVERHEAD`].
    OVERHEAD = 10, overhead: u32
        as "overhead" [Unit::Bytes, "BYTES", "a number of bytes"],
        in (0, MAX_OVERHEAD), or OVERHEAD_RANGE,
        default |said| DEFAULT_OVERHEAD;
    /// Fewest bytes that a frame counts for, overhead included, at most [`MAX_MPU`].
    MPU = 11, mpu: u32
        as "mpu" [Unit::Size, "BYTES", "a number of bytes"],
        in (0, MAX_MPU), or MPU_RANGE,
        default |said| DEFAULT_MPU;
    /// The most packets that wait for one destination, and the most of each kind that needs no
    /// timeslot, 1 to [`MAX_LIMIT`].
    LIMIT = 12, limit: u32
        as "limit" [Unit::Packets, "PACKETS", "a number of packets"],
        in (1, MAX_LIMIT), or c"Limit must be between 1 and 1000000 packets",
        default |said| DEFAULT_LIMIT;
    /// Nanoseconds after the beginning of its timeslot within which a packet may leave, at most
    /// [`MAX_TIME`].
    LATE = 13, late: u64
        as "late" [Unit::Time, "TIME", "a time, for example 5us"],
        in (0, MAX_TIME), or c"Late must be at most 100 s",
        default |said| timeslot(said).saturating_mul(DEFAULT_LATE);
    /// Shortest time in nanoseconds between two requests to the arbiter, at most [`MAX_TIME`]; 0:
    /// the default of [`timing`].
    INTERVAL = 14, interval: u64
        as "interval" [Unit::Time, "TIME", "a time, for example 20us"] silent 0,
        in (0, MAX_TIME), or c"Interval must be at most 100 s",
        default |said| 0;
    /// Nanoseconds until an unanswered request is repeated, [`MIN_PERIOD`] to [`MAX_TIME`].
    TIMEOUT = 16, timeout: u64
        as "timeout" [Unit::Time, "TIME", "a time, for example 300us"],
        in (MIN_PERIOD, MAX_TIME), or c"Timeout must be between 10 us and 100 s",
        default |said| timeslot(said).saturating_mul(DEFAULT_TIMEOUT).clamp(MIN_PERIOD, MAX_TIME);
    /// The address of a second arbiter, at the same port, which can take over from the first one;
    /// 0.0.0.0: there is none.
    STANDBY = 17, standby: u32
        as "standby" [Unit::Address, "ADDRESS", "an IPv4 address"],
        default |said| 0;
    /// Nanoseconds by which this host's clock is behind that of the others, at most [`MAX_TIME`].
    SKEW = 18, skew: u64
        as "skew" [Unit::Time, "TIME", "a time, for example 500ns"],
        in (0, MAX_TIME), or c"Skew must be at most 100 s",
        default |said| 0;
    /// The number of paths, at most [`MAX_PATHS`]: with two or more, the packets on each are
    /// counted and reported to the arbiter.
    PATHS = 19, paths: u32
        as "paths" [Unit::Number, "NUMBER", "a number of paths"],
        in (0, MAX_PATHS), or c"Paths must be at most 256",
        default |said| 0;
    /// Nanoseconds between two reports, [`MIN_PERIOD`] to [`MAX_TIME`].
    REPORT = 20, report: u64
        as "report" [Unit::Time, "TIME", "a time, for example 600us"],
        in (MIN_PERIOD, MAX_TIME), or c"Report must be between 10 us and 100 s",
        default |said| timeslot(said).saturating_mul(DEFAULT_REPORT).clamp(MIN_PERIOD, MAX_TIME);
    /// Nanoseconds that a request waits for other packets of its burst, at most [`MAX_TIME`]; by
    /// default one timeslot.
    GATHER = 21, gather: u64
        as "gather" [Unit::Time, "TIME", "a time, for example 1us"],
        in (0, MAX_TIME), or c"Gather must be at most 100 s",
        default |said| timeslot(said);
    /// The data that a TCP socket may have waiting, in nanoseconds at its pacing rate, at most
    /// [`MAX_TIME`]; 0: the kernel's value, 1 ms.
    SMALL_QUEUE = 22, small_queue: u64
        as "smallqueue" [Unit::Time, "TIME", "a time, for example 500us"],
        in (0, MAX_TIME), or c"Smallqueue must be at most 100 s",
        default |said| 0;
    /// Nanoseconds for which a pure TCP acknowledgement waits for others, to share a timeslot with
    /// them, at most [`MAX_TIME`]; 0: it does not wait.
    HOLD = 23, hold: u64
        as "hold" [Unit::Time, "TIME", "a time, for example 100us"],
        in (0, MAX_TIME), or c"Hold must be at most 100 s",
        default |said| 0;
    /// The order in which flows to one destination are served.
    ORDER = 24, order: Order
        as "order" [Unit::Choice(ORDERS), "fifo|drr|rank", "fifo, drr or rank"],
        or c"Order must be fifo, drr or rank",
        default |said| Order::Fifo;
    /// Classes of urgency, 1 to [`MAX_CLASSES`]: the arbiter gives timeslots to the most urgent
    /// first. A packet's class follows from its rank.
    CLASSES = 25, classes: u32
        as "classes" [Unit::Number, "NUMBER", "a number of classes"],
        in (1, MAX_CLASSES), or c"Classes must be between 1 and 4",
        default |said| 1;
    /// Ranks below this are in the most urgent class, and those below 8 times this in the next.
    URGENT = 26, urgent: u32
        as "urgent" [Unit::Size, "BYTES", "a size, for example 16kb"],
        in (1, u32::MAX), or c"Urgent must be at least 1 byte",
        default |said| DEFAULT_URGENT;
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if a required option is missing, there are fewer than 2 endpoints or more than
    /// [`MAX_ENDPOINTS`], the host is none of them, or its link cannot send a frame of full size in
    /// a timeslot; and any refusal by [`Options::check`].
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let missing = |sentence| Err(Refusal::invalid(sentence));
        if options.address.is_none() {
            return missing(c"Address is required: the host's own");
        }
        if options.first.is_none() {
            return missing(c"First is required: the address of endpoint 0");
        }
        if options.hosts.is_none() {
            return missing(c"Hosts is required: how many a rack has");
        }
        if options.arbiter.is_none() {
            return missing(c"Arbiter is required: its address");
        }
        if options.rate.is_none() {
            return missing(c"Rate is required, for example rate 10gbit");
        }
        let config = Self::filled(options);
        let addresses = config.addresses();
        if !(2..=MAX_ENDPOINTS).contains(&addresses.count()) {
            let sentence = c"Hosts times racks times pods must be between 2 and 4096";
            return Err(Refusal::range(sentence, attr::HOSTS));
        }
        let last = addresses.count().saturating_sub(1) as u16;
        if addresses.address(last).is_none() {
            let sentence = c"The last endpoint would be beyond 255.255.255.255";
            return Err(Refusal::range(sentence, attr::FIRST));
        }
        if addresses.endpoint(config.address).is_none() {
            let sentence = c"Address must be that of an endpoint, by first, hosts, racks and pods";
            return Err(Refusal::range(sentence, attr::ADDRESS));
        }
        if config.standby == config.arbiter {
            let sentence = c"Standby must be another one than the arbiter";
            return Err(Refusal::range(sentence, attr::STANDBY));
        }
        if config.terms().capacity == 0 {
            let sentence = c"In a timeslot the rate must send a byte at least";
            return Err(Refusal::range(sentence, attr::TIMESLOT));
        }
        Ok(config)
    }

    /// The configuration after a `change`: options that are not in the request stay. Only limit,
    /// late, gather, interval, timeout, skew, report, smallqueue, hold and urgent may change: the
    /// others are agreed upon with the arbiter.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if any other option changes, and any refusal by [`Options::check`].
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let changed = self.changed(options);
        let allowed = Self {
            limit: changed.limit,
            late: changed.late,
            gather: changed.gather,
            interval: changed.interval,
            timeout: changed.timeout,
            skew: changed.skew,
            report: changed.report,
            small_queue: changed.small_queue,
            hold: changed.hold,
            urgent: changed.urgent,
            ..self
        };
        if changed != allowed {
            return Err(Refusal::invalid(
                c"Only limit, late, gather, interval, timeout, skew, report, smallqueue, hold and urgent can be changed",
            ));
        }
        Ok(changed)
    }

    /// The addresses of the endpoints.
    pub fn addresses(&self) -> Addresses {
        Addresses {
            first: self.first,
            hosts: self.hosts,
            racks: self.racks,
            pods: self.pods,
        }
    }

    /// The parameters of the host.
    pub fn terms(&self) -> Terms {
        let bytes = u128::from(self.rate).saturating_mul(self.timeslot.into()) / 1_000_000_000;
        Terms {
            timeslot: self.timeslot.max(1),
            capacity: bytes.try_into().unwrap_or(u32::MAX),
            limit: self.limit,
            late: self.late,
            gather: self.gather,
            hold: self.hold,
            interval: self.interval(),
            timeout: self.timeout,
            skew: self.skew,
            report: self.report,
        }
    }

    /// The shortest time between two requests to the arbiter, in ns.
    fn interval(&self) -> u64 {
        match self.interval {
            0 => timing::batch(self.addresses().count()).saturating_mul(self.timeslot),
            interval => interval,
        }
    }

    /// The pacing shift for TCP small queues: a socket may have 2^-shift seconds of its pacing rate
    /// waiting.
    ///
    /// It is the largest shift that covers `smallqueue`. The kernel's own is 10, 1 ms. On a fabric
    /// that is slowed 1000 times that would be 1 µs of the fabric's time, less than a packet.
    #[inline]
    pub fn pacing_shift(&self) -> Option<u32> {
        let parts = 1_000_000_000_u64.checked_div(self.small_queue)?;
        Some(parts.checked_ilog2().unwrap_or(0))
    }

    /// The host that this endpoint is; `id` is its number.
    pub fn shape(&self, id: u16) -> Shape {
        Shape {
            id,
            endpoints: self.addresses().count() as u16,
            paths: self.counted_paths(),
            classes: self.classes as u16,
            order: self.order,
        }
    }

    /// The class of a packet of this rank.
    #[inline]
    pub fn class(&self, rank: u32) -> u16 {
        let mut limit = u64::from(self.urgent);
        let mut class = 0;
        while u64::from(rank) >= limit && class < self.classes.saturating_sub(1) {
            limit = limit.wrapping_shl(CLASS_SHIFT);
            class = class.wrapping_add(1);
        }
        class as u16
    }

    /// The number of paths whose packets are counted. A single path is not, because it could not be
    /// avoided, whatever its losses.
    #[inline]
    pub fn counted_paths(&self) -> u16 {
        match self.paths {
            0 | 1 => 0,
            paths => paths as u16,
        }
    }

    /// Bytes of a timeslot that a packet takes.
    #[inline]
    pub fn cost(&self, len: u32, segments: u32) -> u32 {
        let bytes = on_wire::bytes(len, segments, self.overhead, self.mpu);
        bytes.try_into().unwrap_or(u32::MAX)
    }
}
