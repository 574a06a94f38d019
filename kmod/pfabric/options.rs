// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options and statistics of the `pfabric` qdisc (Alizadeh et al., "pFabric: Minimal Near-Optimal
//! Datacenter Transport", SIGCOMM 2013, section 4.1).
//!
//! | type | attribute               | payload | meaning                            | range        |
//! |------|-------------------------|---------|------------------------------------|--------------|
//! | 1    | `LIMIT`                 | `u32`   | queue limit in packets             | 1 to 65,536  |
//! | 2    | `LIMIT_BYTES`           | `u32`   | queue limit in bytes, 0 is none    | any          |
//! | 3    | `STARVATION_PREVENTION` | `u8`    | send the earliest packet of a flow | 0 or 1       |

use crate::common::nla::{self, Attributes, FieldReader, FieldWriter, NoRoom, Refusal, Sink};

/// The qdisc's name, as in `tc qdisc add … pfabric`.
pub const KIND: &str = "pfabric";

/// The limit in packets if the request names none: "typically less than two bandwidth-delay
/// products (~36KB or 24 full-sized packets in our simulations)" (section 4.1).
pub const DEFAULT_LIMIT: u32 = 24;

/// The largest limit in packets. All memory of a queue is reserved when it is made.
pub const MAX_LIMIT: u32 = 65_536;

/// The smallest Ethernet frame without its check sequence, in bytes: as many packets as can fill
/// a byte limit.
const SMALLEST_FRAME: u32 = 60;

/// Types of the attributes nested in `TCA_OPTIONS`.
pub mod attr {
    /// Queue limit in packets, `u32`, 1 to [`MAX_LIMIT`](super::MAX_LIMIT).
    pub const LIMIT: u16 = 1;
    /// Queue limit in bytes, `u32`; 0 is none.
    pub const LIMIT_BYTES: u16 = 2;
    /// Whether the earliest packet of the most urgent packet's flow is sent, `u8`, 0 or 1.
    pub const STARVATION_PREVENTION: u16 = 3;
}

/// What a request says; `None` is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Queue limit in packets, 1 to [`MAX_LIMIT`].
    pub limit: Option<u32>,
    /// Queue limit in bytes; 0 is none.
    pub limit_bytes: Option<u32>,
    /// Whether the earliest packet of the most urgent packet's flow is sent, rather than the most
    /// urgent packet itself.
    pub starvation_prevention: Option<bool>,
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
            attr::LIMIT => nla::say_once(&mut self.limit, attr, nla::read_u32(attr, value)?)?,
            attr::LIMIT_BYTES => {
                nla::say_once(&mut self.limit_bytes, attr, nla::read_u32(attr, value)?)?;
            }
            attr::STARVATION_PREVENTION => {
                let on = match nla::read_u8(attr, value)? {
                    0 => false,
                    1 => true,
                    _ => {
                        let sentence = c"Starvation prevention must be 0 or 1";
                        return Err(Refusal::range(sentence, attr));
                    }
                };
                nla::say_once(&mut self.starvation_prevention, attr, on)?;
            }
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
        match self.limit {
            Some(limit) if !(1..=MAX_LIMIT).contains(&limit) => Err(Refusal::range(
                c"Limit must be between 1 and 65536 packets",
                attr::LIMIT,
            )),
            _ => Ok(()),
        }
    }

    /// Writes the request: what is said, and nothing else.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    pub fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom> {
        if let Some(limit) = self.limit {
            sink.put(attr::LIMIT, &limit.to_ne_bytes())?;
        }
        if let Some(limit_bytes) = self.limit_bytes {
            sink.put(attr::LIMIT_BYTES, &limit_bytes.to_ne_bytes())?;
        }
        if let Some(on) = self.starvation_prevention {
            sink.put(attr::STARVATION_PREVENTION, &[u8::from(on)])?;
        }
        Ok(())
    }
}

/// All that a `pfabric` qdisc is told: a request with its gaps filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Queue limit in packets, 1 to [`MAX_LIMIT`].
    pub limit: u32,
    /// Queue limit in bytes; 0 is none.
    pub limit_bytes: u32,
    /// Whether the earliest packet of the most urgent packet's flow is sent.
    pub starvation_prevention: bool,
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// Without any limit it is [`DEFAULT_LIMIT`] packets. With a byte limit only, the packet limit
    /// is as many of the smallest Ethernet frames (60 bytes) as fill it, within 1 and
    /// [`MAX_LIMIT`], so that bytes are what limits. Starvation prevention is on, as in the paper.
    ///
    /// # Errors
    ///
    /// What [`Options::check`] refuses.
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        let limit_bytes = options.limit_bytes.unwrap_or(0);
        let limit = match (options.limit, limit_bytes) {
            (Some(limit), _) => limit,
            (None, 0) => DEFAULT_LIMIT,
            (None, bytes) => (bytes / SMALLEST_FRAME).clamp(1, MAX_LIMIT),
        };
        Ok(Self {
            limit,
            limit_bytes,
            starvation_prevention: options.starvation_prevention.unwrap_or(true),
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
            limit: options.limit.unwrap_or(self.limit),
            limit_bytes: options.limit_bytes.unwrap_or(self.limit_bytes),
            starvation_prevention: options
                .starvation_prevention
                .unwrap_or(self.starvation_prevention),
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
            limit: Some(self.limit),
            limit_bytes: Some(self.limit_bytes),
            starvation_prevention: Some(self.starvation_prevention),
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
        match said {
            Options {
                limit: Some(limit),
                limit_bytes: Some(limit_bytes),
                starvation_prevention: Some(starvation_prevention),
            } => Ok(Self {
                limit,
                limit_bytes,
                starvation_prevention,
            }),
            _ => Err(Refusal::invalid(c"The dump lacks an attribute")),
        }
    }
}

/// Statistics, the payload of `TCA_STATS_APP`: no padding bytes, host-endian. New fields may be
/// added at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stats {
    /// Queued packets dropped to make room for a more urgent one.
    pub evicted: u64,
    /// Packets dropped on arrival, being the least urgent.
    pub rejected: u64,
    /// Dequeues in which starvation prevention chose another packet than the most urgent.
    pub overtaken: u64,
    /// Bytes of the packets in `evicted`.
    pub evicted_bytes: u64,
    /// Bytes of the packets in `rejected`.
    pub rejected_bytes: u64,
    /// Flows that have packets in the queue now.
    pub flows: u32,
    /// Most packets that were ever in the queue at once.
    pub highest_backlog: u32,
    /// Most bytes that were ever in the queue at once.
    pub highest_backlog_bytes: u64,
}

impl Stats {
    /// Size of the encoding in bytes.
    pub const SIZE: usize = core::mem::size_of::<Self>();

    /// Encodes the statistics.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let mut fields = FieldWriter::new(&mut bytes);
        fields.put_u64(self.evicted);
        fields.put_u64(self.rejected);
        fields.put_u64(self.overtaken);
        fields.put_u64(self.evicted_bytes);
        fields.put_u64(self.rejected_bytes);
        fields.put_u32(self.flows);
        fields.put_u32(self.highest_backlog);
        fields.put_u64(self.highest_backlog_bytes);
        bytes
    }

    /// Decodes statistics, passing over the fields of a newer version; `None` if `bytes` is
    /// shorter than [`SIZE`](Self::SIZE).
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader::new(bytes);
        Some(Self {
            evicted: fields.take_u64()?,
            rejected: fields.take_u64()?,
            overtaken: fields.take_u64()?,
            evicted_bytes: fields.take_u64()?,
            rejected_bytes: fields.take_u64()?,
            flows: fields.take_u32()?,
            highest_backlog: fields.take_u32()?,
            highest_backlog_bytes: fields.take_u64()?,
        })
    }
}
