// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `bfc` qdisc.
//!
//! | type | attribute   | payload | meaning                                | range                        |
//! |------|-------------|---------|----------------------------------------|------------------------------|
//! | 1    | `QUEUES`    | `u32`   | queues, the control queue included     | 2 to 1,024                   |
//! | 2    | `FACTOR`    | `u32`   | entries of the flow table per queue    | 1 to 1,000                   |
//! | 3    | `ASSIGN`    | `u8`    | 0 dynamic, 1 stochastic, 2 single      | 0 to 2                       |
//! | 4    | `SCHEDULER` | `u8`    | 0 fq, 1 srf                            | 0 or 1                       |
//! | 5    | `CLASSES`   | `u8`    | priority classes                       | 1 to 8; with srf 1           |
//! | 6    | `INCAST`    | `u32`   | rank that labels incast packets        | any; not with srf            |
//! | 7    | `SAMPLE`    | `u8`    | packets sampled, percent               | 1 to 100                     |
//! | 8    | `RATE`      | `u64`   | µ: bytes per second, 0 is unknown      | 0; 125 to 50,000,000,000     |
//! | 9    | `HRTT`      | `u64`   | 1-hop round-trip time in ns, 0 unknown | 0 to 10,000,000,000          |
//! | 10   | `TH`        | `u32`   | pause threshold in bytes, 0 computed   | any                          |
//! | 11   | `STICKY`    | `u64`   | ns an idle flow keeps its queue        | 0 to 10,000,000,000; 2^64−1: 2 HRTT |
//! | 12   | `LIMIT`     | `u32`   | bytes in this port, 0 is any number    | any                          |
//! | 13   | `BUFFER`    | `u32`   | bytes in the switch, 0 is any number   | any                          |
//! | 14   | `REFRESH`   | `u64`   | ns between two bitmaps                 | 10,000 to 10,000,000,000     |
//! | 15   | `PAD`       | none    | aligns what follows to 8 bytes         | ignored                      |
//! | 16   | `QUANTUM`   | `u32`   | bytes per turn, 0: the device's MTU    | 0 to 1,048,576               |
//! | 17   | `ELIDE`     | `u32`s  | devices whose packets push back nobody | at most 64, none of them 0   |
//!
//! `QUEUES` to `INCAST` are fixed when the qdisc is made. A dump has all attributes but `PAD`, and
//! `INCAST` only if there is such a label.

use crate::common::nla::{self, Attributes, NoRoom, Refusal, Sink};

/// Queues if the request says nothing: "32 physical queues per port (consistent with Tofino2)"
/// (§6.2.1).
pub const DEFAULT_QUEUES: u32 = 32;
/// The most queues.
pub const MAX_QUEUES: u32 = 1024;
/// Entries of the flow table per queue if the request says nothing: "we set the size of the flow
/// table to 100× the number of queues" (§3.3.1).
pub const DEFAULT_FACTOR: u32 = 100;
/// The most entries per queue.
pub const MAX_FACTOR: u32 = 1_000;
/// The most priority classes.
pub const MAX_CLASSES: u8 = 8;
/// The lowest rate in bytes per second: 1 kbit/s.
pub const MIN_RATE: u64 = 125;
/// The highest rate in bytes per second: 400 Gbit/s.
pub const MAX_RATE: u64 = 50_000_000_000;
/// The longest time in ns: 10 s.
pub const MAX_TIME: u64 = 10_000_000_000;
/// `STICKY`: 2 HRTT (§3.3.2).
pub const STICKY_AUTO: u64 = u64::MAX;
/// Bytes in the switch if the request says nothing: "the switch buffer size is set to 12 MB"
/// (§6.2.1).
pub const DEFAULT_BUFFER: u32 = 12_000_000;
/// The shortest time in ns between two bitmaps.
pub const MIN_REFRESH: u64 = 10_000;
/// Time in ns between two bitmaps if neither it nor HRTT is known.
pub const DEFAULT_REFRESH: u64 = 1_000_000;
/// Time between two bitmaps, in HRTT, if it is not said: at 100 Gbit/s and 2 µs, a bitmap of 32
/// queues (84 bytes on the wire) each 20 µs is 0.03 % of the rate.
pub const REFRESH_HRTTS: u64 = 10;
/// The largest quantum in bytes.
pub const MAX_QUANTUM: u32 = 1 << 20;
/// The most devices in `ELIDE`.
pub const MAX_ELIDED: usize = 64;

/// Types of the attributes nested in `TCA_OPTIONS`; see the table above.
#[allow(missing_docs)]
pub mod attr {
    pub const QUEUES: u16 = 1;
    pub const FACTOR: u16 = 2;
    pub const ASSIGN: u16 = 3;
    pub const SCHEDULER: u16 = 4;
    pub const CLASSES: u16 = 5;
    pub const INCAST: u16 = 6;
    pub const SAMPLE: u16 = 7;
    pub const RATE: u16 = 8;
    pub const HRTT: u16 = 9;
    pub const TH: u16 = 10;
    pub const STICKY: u16 = 11;
    pub const LIMIT: u16 = 12;
    pub const BUFFER: u16 = 13;
    pub const REFRESH: u16 = 14;
    pub const PAD: u16 = 15;
    pub const QUANTUM: u16 = 16;
    pub const ELIDE: u16 = 17;
}

/// How a flow gets its queue (§6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assign {
    /// An empty queue if there is one.
    #[default]
    Dynamic,
    /// The queue that its hash says.
    Stochastic,
    /// All flows the same one.
    Single,
}

/// In which order queues are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Fair queuing.
    #[default]
    Fq,
    /// Shortest remaining flow first (App. A.2).
    Srf,
}

/// Devices, by their indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Devices {
    indices: [u32; MAX_ELIDED],
    count: usize,
}

impl Devices {
    /// None.
    pub const NONE: Self = Self {
        indices: [0; MAX_ELIDED],
        count: 0,
    };

    /// Adds one; `false` if there is no room for it.
    pub fn push(&mut self, index: u32) -> bool {
        let Some(slot) = self.indices.get_mut(self.count) else {
            return false;
        };
        *slot = index;
        self.count = self.count.wrapping_add(1);
        true
    }

    /// Their indices, as they were added.
    pub fn indices(&self) -> &[u32] {
        self.indices.get(..self.count).unwrap_or_default()
    }

    fn read(payload: &[u8]) -> Result<Self, Refusal> {
        let mut devices = Self::NONE;
        let chunks = payload.chunks_exact(4);
        if !chunks.remainder().is_empty() {
            let sentence = c"Attribute has the wrong size";
            return Err(Refusal::invalid_attr(sentence, attr::ELIDE));
        }
        for chunk in chunks {
            let index = nla::read_u32(attr::ELIDE, chunk)?;
            if index == 0 {
                let sentence = c"A device's index must not be 0";
                return Err(Refusal::range(sentence, attr::ELIDE));
            }
            if !devices.push(index) {
                let sentence = c"At most 64 devices can be elided";
                return Err(Refusal::range(sentence, attr::ELIDE));
            }
        }
        Ok(devices)
    }

    fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        let mut bytes = [0; 4 * MAX_ELIDED];
        let content = self.indices.iter().flat_map(|index| index.to_ne_bytes());
        for (byte, content) in bytes.iter_mut().zip(content) {
            *byte = content;
        }
        let payload = bytes.get(..self.count.wrapping_mul(4)).unwrap_or_default();
        sink.put(attr::ELIDE, payload)
    }
}

impl Default for Devices {
    fn default() -> Self {
        Self::NONE
    }
}

/// What a request says; `None` is not said. For ranges see the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Queues, the control queue included.
    pub queues: Option<u32>,
    /// Entries of the flow table per queue.
    pub factor: Option<u32>,
    /// How a flow gets its queue.
    pub assign: Option<Assign>,
    /// In which order queues are served.
    pub scheduler: Option<Scheduler>,
    /// Priority classes.
    pub classes: Option<u8>,
    /// The rank that labels incast packets.
    pub incast: Option<u32>,
    /// Packets sampled, in percent.
    pub sample: Option<u8>,
    /// µ in bytes per second; 0 is unknown.
    pub rate: Option<u64>,
    /// 1-hop round-trip time in ns; 0 is unknown.
    pub hrtt: Option<u64>,
    /// Pause threshold in bytes; 0: HRTT · µ / N_active.
    pub th: Option<u32>,
    /// ns for which an idle flow keeps its queue; [`STICKY_AUTO`]: 2 HRTT.
    pub sticky: Option<u64>,
    /// Bytes in this port; 0 is any number.
    pub limit: Option<u32>,
    /// Bytes in the switch; 0 is any number.
    pub buffer: Option<u32>,
    /// ns between two bitmaps.
    pub refresh: Option<u64>,
    /// Bytes per turn of the round robin; 0: the device's MTU.
    pub quantum: Option<u32>,
    /// Devices whose packets cause no backpressure here.
    pub elide: Option<Devices>,
}

/// Writes an attribute that is said.
fn put<const N: usize>(
    sink: &mut impl Sink,
    attr: u16,
    payload: Option<[u8; N]>,
) -> Result<(), NoRoom> {
    match payload {
        Some(payload) => sink.put(attr, &payload),
        None => Ok(()),
    }
}

fn choice<T: Copy>(
    attr: u16,
    payload: &[u8],
    choices: &[T],
    sentence: &'static core::ffi::CStr,
) -> Result<T, Refusal> {
    let number = nla::read_u8(attr, payload)?;
    let choice = choices.get(usize::from(number)).copied();
    choice.ok_or(Refusal::range(sentence, attr))
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
        use nla::{read_u32, read_u64, read_u8, say_once};
        match attr {
            attr::QUEUES => say_once(&mut self.queues, attr, read_u32(attr, value)?)?,
            attr::FACTOR => say_once(&mut self.factor, attr, read_u32(attr, value)?)?,
            attr::ASSIGN => {
                let choices = [Assign::Dynamic, Assign::Stochastic, Assign::Single];
                let sentence = c"Assignment must be 0, 1 or 2";
                let assign = choice(attr, value, &choices, sentence)?;
                say_once(&mut self.assign, attr, assign)?;
            }
            attr::SCHEDULER => {
                let choices = [Scheduler::Fq, Scheduler::Srf];
                let scheduler = choice(attr, value, &choices, c"Scheduler must be 0 or 1")?;
                say_once(&mut self.scheduler, attr, scheduler)?;
            }
            attr::CLASSES => say_once(&mut self.classes, attr, read_u8(attr, value)?)?,
            attr::INCAST => say_once(&mut self.incast, attr, read_u32(attr, value)?)?,
            attr::SAMPLE => say_once(&mut self.sample, attr, read_u8(attr, value)?)?,
            attr::RATE => say_once(&mut self.rate, attr, read_u64(attr, value)?)?,
            attr::HRTT => say_once(&mut self.hrtt, attr, read_u64(attr, value)?)?,
            attr::TH => say_once(&mut self.th, attr, read_u32(attr, value)?)?,
            attr::STICKY => say_once(&mut self.sticky, attr, read_u64(attr, value)?)?,
            attr::LIMIT => say_once(&mut self.limit, attr, read_u32(attr, value)?)?,
            attr::BUFFER => say_once(&mut self.buffer, attr, read_u32(attr, value)?)?,
            attr::REFRESH => say_once(&mut self.refresh, attr, read_u64(attr, value)?)?,
            attr::PAD => {}
            attr::QUANTUM => say_once(&mut self.quantum, attr, read_u32(attr, value)?)?,
            attr::ELIDE => say_once(&mut self.elide, attr, Devices::read(value)?)?,
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
        fn within<T: PartialOrd>(
            value: Option<T>,
            least: T,
            most: T,
            attr: u16,
            sentence: &'static core::ffi::CStr,
        ) -> Result<(), Refusal> {
            match value {
                Some(value) if value < least || value > most => Err(Refusal::range(sentence, attr)),
                _ => Ok(()),
            }
        }
        let sentence = c"Queues must be between 2 and 1024";
        within(self.queues, 2, MAX_QUEUES, attr::QUEUES, sentence)?;
        let sentence = c"Factor must be between 1 and 1000";
        within(self.factor, 1, MAX_FACTOR, attr::FACTOR, sentence)?;
        let sentence = c"Classes must be between 1 and 8";
        within(self.classes, 1, MAX_CLASSES, attr::CLASSES, sentence)?;
        let sentence = c"Sample must be between 1 and 100 percent";
        within(self.sample, 1, 100, attr::SAMPLE, sentence)?;
        let rate = self.rate.filter(|rate| *rate != 0);
        let sentence = c"Rate must be between 1 kbit/s and 400 Gbit/s";
        within(rate, MIN_RATE, MAX_RATE, attr::RATE, sentence)?;
        let sentence = c"HRTT must be at most 10 s";
        within(self.hrtt, 0, MAX_TIME, attr::HRTT, sentence)?;
        let sticky = self.sticky.filter(|sticky| *sticky != STICKY_AUTO);
        let sentence = c"Sticky time must be at most 10 s";
        within(sticky, 0, MAX_TIME, attr::STICKY, sentence)?;
        let sentence = c"Refresh must be between 10 us and 10 s";
        within(self.refresh, MIN_REFRESH, MAX_TIME, attr::REFRESH, sentence)?;
        let sentence = c"Quantum must be at most 1048576 bytes";
        within(self.quantum, 0, MAX_QUANTUM, attr::QUANTUM, sentence)
    }

    /// Writes the request: what is said, and nothing else.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        let u32s = |value: Option<u32>| value.map(u32::to_ne_bytes);
        let u64s = |value: Option<u64>| value.map(u64::to_ne_bytes);
        put(sink, attr::QUEUES, u32s(self.queues))?;
        put(sink, attr::FACTOR, u32s(self.factor))?;
        put(sink, attr::ASSIGN, self.assign.map(|it| [it as u8]))?;
        put(sink, attr::SCHEDULER, self.scheduler.map(|it| [it as u8]))?;
        put(sink, attr::CLASSES, self.classes.map(|it| [it]))?;
        put(sink, attr::INCAST, u32s(self.incast))?;
        put(sink, attr::SAMPLE, self.sample.map(|it| [it]))?;
        put(sink, attr::RATE, u64s(self.rate))?;
        put(sink, attr::HRTT, u64s(self.hrtt))?;
        put(sink, attr::TH, u32s(self.th))?;
        put(sink, attr::STICKY, u64s(self.sticky))?;
        put(sink, attr::LIMIT, u32s(self.limit))?;
        put(sink, attr::BUFFER, u32s(self.buffer))?;
        put(sink, attr::REFRESH, u64s(self.refresh))?;
        put(sink, attr::QUANTUM, u32s(self.quantum))?;
        match &self.elide {
            Some(devices) => devices.put(sink),
            None => Ok(()),
        }
    }
}

/// All that a `bfc` qdisc is told: a request with its gaps filled. For the fields see [`Options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Config {
    pub queues: u32,
    pub factor: u32,
    pub assign: Assign,
    pub scheduler: Scheduler,
    pub classes: u8,
    pub incast: Option<u32>,
    pub sample: u8,
    pub rate: u64,
    pub hrtt: u64,
    pub th: u32,
    pub sticky: u64,
    pub limit: u32,
    pub buffer: u32,
    pub refresh: u64,
    pub quantum: u32,
    pub elide: Devices,
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// # Errors
    ///
    /// What [`Options::check`] refuses, and what does not go together: see
    /// [`check`](Self::check).
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let hrtt = options.hrtt.unwrap_or(0);
        let refresh = match hrtt {
            0 => DEFAULT_REFRESH,
            hrtt => hrtt
                .saturating_mul(REFRESH_HRTTS)
                .clamp(MIN_REFRESH, MAX_TIME),
        };
        let config = Self {
            queues: options.queues.unwrap_or(DEFAULT_QUEUES),
            factor: options.factor.unwrap_or(DEFAULT_FACTOR),
            assign: options.assign.unwrap_or_default(),
            scheduler: options.scheduler.unwrap_or_default(),
            classes: options.classes.unwrap_or(1),
            incast: options.incast,
            sample: options.sample.unwrap_or(100),
            rate: options.rate.unwrap_or(0),
            hrtt,
            th: options.th.unwrap_or(0),
            sticky: options.sticky.unwrap_or(STICKY_AUTO),
            limit: options.limit.unwrap_or(0),
            buffer: options.buffer.unwrap_or(DEFAULT_BUFFER),
            refresh: options.refresh.unwrap_or(refresh),
            quantum: options.quantum.unwrap_or(0),
            elide: options.elide.unwrap_or_default(),
        };
        config.check()?;
        Ok(config)
    }

    /// The configuration after a `change`: what the request does not say stays.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and where it says another value of what is fixed.
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
            && (options.incast.is_none() || options.incast == self.incast);
        if !stays {
            return Err(Refusal::invalid(
                c"Queues, factor, assign, scheduler, classes and incast cannot be changed",
            ));
        }
        let config = Self {
            sample: options.sample.unwrap_or(self.sample),
            rate: options.rate.unwrap_or(self.rate),
            hrtt: options.hrtt.unwrap_or(self.hrtt),
            th: options.th.unwrap_or(self.th),
            sticky: options.sticky.unwrap_or(self.sticky),
            limit: options.limit.unwrap_or(self.limit),
            buffer: options.buffer.unwrap_or(self.buffer),
            refresh: options.refresh.unwrap_or(self.refresh),
            quantum: options.quantum.unwrap_or(self.quantum),
            elide: options.elide.unwrap_or(self.elide),
            ..self
        };
        config.check()?;
        Ok(config)
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

    /// Checks what goes together.
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
        let per_class = if self.incast.is_some() { 2 } else { 1 };
        if self.queues.wrapping_sub(1) < u32::from(self.classes).wrapping_mul(per_class) {
            let sentence = c"Each class needs a queue, or two if there is an incast label";
            return Err(Refusal::invalid(sentence));
        }
        Ok(())
    }

    /// Dumps the configuration, every attribute of it.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        Options {
            queues: Some(self.queues),
            factor: Some(self.factor),
            assign: Some(self.assign),
            scheduler: Some(self.scheduler),
            classes: Some(self.classes),
            incast: self.incast,
            sample: Some(self.sample),
            rate: Some(self.rate),
            hrtt: Some(self.hrtt),
            th: Some(self.th),
            sticky: Some(self.sticky),
            limit: Some(self.limit),
            buffer: Some(self.buffer),
            refresh: Some(self.refresh),
            quantum: Some(self.quantum),
            elide: Some(self.elide),
        }
        .put(sink)
    }

    /// Reads a dump.
    ///
    /// Attributes of a newer kernel module are passed over, and no range is checked: what the
    /// kernel has, it may have.
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
        fn need<T>(value: Option<T>) -> Result<T, Refusal> {
            value.ok_or(Refusal::invalid(c"The dump lacks an attribute"))
        }
        Ok(Self {
            queues: need(said.queues)?,
            factor: need(said.factor)?,
            assign: need(said.assign)?,
            scheduler: need(said.scheduler)?,
            classes: need(said.classes)?,
            incast: said.incast,
            sample: need(said.sample)?,
            rate: need(said.rate)?,
            hrtt: need(said.hrtt)?,
            th: need(said.th)?,
            sticky: need(said.sticky)?,
            limit: need(said.limit)?,
            buffer: need(said.buffer)?,
            refresh: need(said.refresh)?,
            quantum: need(said.quantum)?,
            elide: need(said.elide)?,
        })
    }
}
