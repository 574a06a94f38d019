// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options and statistics of the `wire` qdisc: one wire's serialization and propagation.
//!
//! | type | attribute  | payload | meaning                          | range                        |
//! |------|------------|---------|----------------------------------|------------------------------|
//! | 1    | `RATE`     | `u64`   | bytes per second                 | 125 to 50,000,000,000        |
//! | 2    | `DELAY`    | `u64`   | propagation in nanoseconds       | 0 to 10,000,000,000          |
//! | 3    | `OVERHEAD` | `u32`   | bytes added to each frame        | 0 to 1,000                   |
//! | 4    | `MPU`      | `u32`   | fewest bytes a frame counts for  | 0 to 2,000                   |
//! | 5    | `SLACK`    | `u32`   | how late timers may be, in ns    | 0 to 1,000,000,000           |
//! | 15   | `PAD`      | none    | aligns what follows to 8 bytes   | ignored                      |

use crate::common::nla::{self, Attributes, FieldReader, FieldWriter, NoRoom, Refusal, Sink};
use core::num::NonZeroU64;

/// The qdisc's name, as in `tc qdisc add … wire`.
pub const KIND: &str = "wire";

/// The lowest rate in bytes per second: 1 kbit/s.
pub const MIN_RATE: u64 = 125;
/// The highest rate in bytes per second: 400 Gbit/s.
pub const MAX_RATE: u64 = 50_000_000_000;
/// The longest propagation delay in nanoseconds: 10 s.
pub const MAX_DELAY: u64 = 10_000_000_000;
/// The largest overhead in bytes.
pub const MAX_OVERHEAD: u32 = 1_000;
/// The largest minimum packet unit in bytes.
pub const MAX_MPU: u32 = 2_000;
/// The largest slack in nanoseconds: 1 s.
pub const MAX_SLACK: u32 = 1_000_000_000;

/// Types of the attributes nested in `TCA_OPTIONS`.
pub mod attr {
    /// Rate in bytes per second, `u64`, [`MIN_RATE`](super::MIN_RATE) to
    /// [`MAX_RATE`](super::MAX_RATE).
    pub const RATE: u16 = 1;
    /// Propagation delay in nanoseconds, `u64`, at most [`MAX_DELAY`](super::MAX_DELAY).
    pub const DELAY: u16 = 2;
    /// Bytes added to each frame, `u32`, at most [`MAX_OVERHEAD`](super::MAX_OVERHEAD).
    pub const OVERHEAD: u16 = 3;
    /// Fewest bytes that a frame counts for, overhead included, `u32`, at most
    /// [`MAX_MPU`](super::MAX_MPU).
    pub const MPU: u16 = 4;
    /// How late a delivery may be so that timers fire together, in nanoseconds, `u32`, at most
    /// [`MAX_SLACK`](super::MAX_SLACK).
    pub const SLACK: u16 = 5;
    /// An empty attribute that aligns the next one's payload to 8 bytes. It says nothing.
    pub const PAD: u16 = 15;
}

/// What a request says; `None` is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Rate in bytes per second, [`MIN_RATE`] to [`MAX_RATE`].
    pub rate: Option<u64>,
    /// Propagation delay in nanoseconds, at most [`MAX_DELAY`].
    pub delay: Option<u64>,
    /// Bytes added to each frame, at most [`MAX_OVERHEAD`].
    pub overhead: Option<u32>,
    /// Fewest bytes that a frame counts for, overhead included, at most [`MAX_MPU`].
    pub mpu: Option<u32>,
    /// How late a delivery may be in nanoseconds, at most [`MAX_SLACK`].
    pub slack: Option<u32>,
}

impl Options {
    /// Reads a request: the payload of `TCA_OPTIONS`.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] for bytes that are no attributes, an unknown attribute, one of the wrong size
    /// or given twice, and whatever [`check`](Self::check) refuses.
    pub fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        nla::each(payload, |attr, value| options.say(attr, value))?;
        options.check()?;
        Ok(options)
    }

    /// Takes in one attribute; `false` if its type is unknown.
    fn say(&mut self, attr: u16, value: &[u8]) -> Result<bool, Refusal> {
        match attr {
            attr::RATE => nla::say_once(&mut self.rate, attr, nla::read_u64(attr, value)?)?,
            attr::DELAY => nla::say_once(&mut self.delay, attr, nla::read_u64(attr, value)?)?,
            attr::OVERHEAD => nla::say_once(&mut self.overhead, attr, nla::read_u32(attr, value)?)?,
            attr::MPU => nla::say_once(&mut self.mpu, attr, nla::read_u32(attr, value)?)?,
            attr::SLACK => nla::say_once(&mut self.slack, attr, nla::read_u32(attr, value)?)?,
            attr::PAD => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that each value that is said is in its range.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] of kind `Range` that names the attribute and its range.
    pub fn check(&self) -> Result<(), Refusal> {
        if self
            .rate
            .is_some_and(|rate| !(MIN_RATE..=MAX_RATE).contains(&rate))
        {
            let sentence = c"Rate must be between 1 kbit/s and 400 Gbit/s";
            return Err(Refusal::range(sentence, attr::RATE));
        }
        if self.delay.is_some_and(|delay| delay > MAX_DELAY) {
            return Err(Refusal::range(c"Delay must be at most 10 s", attr::DELAY));
        }
        if self.overhead.is_some_and(|bytes| bytes > MAX_OVERHEAD) {
            let sentence = c"Overhead must be at most 1000 bytes";
            return Err(Refusal::range(sentence, attr::OVERHEAD));
        }
        if self.mpu.is_some_and(|bytes| bytes > MAX_MPU) {
            return Err(Refusal::range(c"MPU must be at most 2000 bytes", attr::MPU));
        }
        if self.slack.is_some_and(|time| time > MAX_SLACK) {
            return Err(Refusal::range(c"Slack must be at most 1 s", attr::SLACK));
        }
        Ok(())
    }

    /// Writes the request: what is said, and nothing else.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        if let Some(rate) = self.rate {
            sink.put(attr::RATE, &rate.to_ne_bytes())?;
        }
        if let Some(delay) = self.delay {
            sink.put(attr::DELAY, &delay.to_ne_bytes())?;
        }
        if let Some(overhead) = self.overhead {
            sink.put(attr::OVERHEAD, &overhead.to_ne_bytes())?;
        }
        if let Some(mpu) = self.mpu {
            sink.put(attr::MPU, &mpu.to_ne_bytes())?;
        }
        if let Some(slack) = self.slack {
            sink.put(attr::SLACK, &slack.to_ne_bytes())?;
        }
        Ok(())
    }
}

/// All that a `wire` qdisc is told: a request with its gaps filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rate in bytes per second, [`MIN_RATE`] to [`MAX_RATE`].
    pub rate: NonZeroU64,
    /// Propagation delay in nanoseconds, at most [`MAX_DELAY`].
    pub delay: u64,
    /// Bytes added to each frame, at most [`MAX_OVERHEAD`].
    pub overhead: u32,
    /// Fewest bytes that a frame counts for, overhead included, at most [`MAX_MPU`].
    pub mpu: u32,
    /// How late a delivery may be, so that timers fire together, in nanoseconds, at most
    /// [`MAX_SLACK`].
    pub slack: u32,
}

impl Config {
    /// The configuration of a new qdisc. The rate has to be said; the rest is 0 if it is not.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if there is no rate, and what [`Options::check`] refuses.
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        // The check above leaves no 0; one that slipped through would be as good as none.
        let Some(rate) = options.rate.and_then(NonZeroU64::new) else {
            let sentence = c"Rate is required, for example rate 10gbit";
            return Err(Refusal::invalid(sentence));
        };
        Ok(Self {
            rate,
            delay: options.delay.unwrap_or(0),
            overhead: options.overhead.unwrap_or(0),
            mpu: options.mpu.unwrap_or(0),
            slack: options.slack.unwrap_or(0),
        })
    }

    /// The configuration after a `change`: what the request does not say stays.
    ///
    /// # Errors
    ///
    /// What [`Options::check`] refuses.
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        Ok(Self {
            rate: options.rate.and_then(NonZeroU64::new).unwrap_or(self.rate),
            delay: options.delay.unwrap_or(self.delay),
            overhead: options.overhead.unwrap_or(self.overhead),
            mpu: options.mpu.unwrap_or(self.mpu),
            slack: options.slack.unwrap_or(self.slack),
        })
    }

    /// What a new qdisc of this request, or one that is `current` and is changed by it, is told.
    ///
    /// # Errors
    ///
    /// What [`Options::parse`], [`new`](Self::new) and [`updated`](Self::updated) refuse.
    pub fn requested(current: Option<Self>, payload: &[u8]) -> Result<Self, Refusal> {
        let options = Options::parse(payload)?;
        match current {
            Some(config) => config.updated(&options),
            None => Self::new(&options),
        }
    }

    /// Dumps the configuration, every attribute of it.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        Options {
            rate: Some(self.rate.get()),
            delay: Some(self.delay),
            overhead: Some(self.overhead),
            mpu: Some(self.mpu),
            slack: Some(self.slack),
        }
        .put(sink)
    }

    /// Reads a dump.
    ///
    /// Attributes of a newer kernel module are passed over, and no range is checked, except that
    /// no wire has a rate of 0: what the kernel has, it may have.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] for bytes that are no attributes, and for a known attribute that is missing,
    /// malformed or given twice.
    pub fn parse(payload: &[u8]) -> Result<Self, Refusal> {
        let mut said = Options::default();
        for attribute in Attributes::new(payload) {
            let (attr, value) = attribute?;
            said.say(attr, value)?;
        }
        match said {
            Options {
                rate: Some(rate),
                delay: Some(delay),
                overhead: Some(overhead),
                mpu: Some(mpu),
                slack: Some(slack),
            } => Ok(Self {
                rate: NonZeroU64::new(rate)
                    .ok_or(Refusal::range(c"The dumped rate is 0", attr::RATE))?,
                delay,
                overhead,
                mpu,
                slack,
            }),
            _ => Err(Refusal::invalid(c"The dump lacks an attribute")),
        }
    }
}

/// Buckets of the lateness histogram.
pub const LATENESS_BUCKETS: usize = 32;

/// Statistics, the payload of `TCA_STATS_APP`: no padding bytes, host-endian. New fields may be
/// added at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stats {
    /// Time spent serializing, in nanoseconds.
    pub busy_ns: u64,
    /// Packets on the wire: their serialization has begun and they are not delivered yet.
    pub in_flight: u32,
    /// Bytes of the packets in `in_flight`.
    pub in_flight_bytes: u32,
    /// Packets delivered. Each is so much later than it should be as the timer was.
    pub late_count: u64,
    /// Sum of their lateness in nanoseconds.
    pub late_sum_ns: u64,
    /// The worst of it in nanoseconds.
    pub late_max_ns: u64,
    /// Packets by lateness: bucket 0 counts those in time, bucket `i` those with
    /// `2^(i-1) <= ns < 2^i`; the last one has no upper end.
    pub late_histogram: [u64; LATENESS_BUCKETS],
}

impl Stats {
    /// Size of the encoding in bytes.
    pub const SIZE: usize = core::mem::size_of::<Self>();

    /// Encodes the statistics.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.put_u64(self.busy_ns);
        fields.put_u32(self.in_flight);
        fields.put_u32(self.in_flight_bytes);
        fields.put_u64(self.late_count);
        fields.put_u64(self.late_sum_ns);
        fields.put_u64(self.late_max_ns);
        for bucket in self.late_histogram {
            fields.put_u64(bucket);
        }
        bytes
    }

    /// Decodes statistics, passing over the fields of a newer version; `None` if `bytes` is
    /// shorter than [`SIZE`](Self::SIZE).
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader::new(bytes);
        let mut stats = Self {
            busy_ns: fields.take_u64()?,
            in_flight: fields.take_u32()?,
            in_flight_bytes: fields.take_u32()?,
            late_count: fields.take_u64()?,
            late_sum_ns: fields.take_u64()?,
            late_max_ns: fields.take_u64()?,
            late_histogram: [0; LATENESS_BUCKETS],
        };
        for bucket in &mut stats.late_histogram {
            *bucket = fields.take_u64()?;
        }
        Some(stats)
    }
}
