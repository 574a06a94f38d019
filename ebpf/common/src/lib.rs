// SPDX-License-Identifier: MIT OR Apache-2.0

//! Definitions that weft's eBPF programs and user space share: the socket options of weft's own
//! level, the maps' names and values, the counters.
//!
//! | module      | contents                                                      |
//! |-------------|---------------------------------------------------------------|
//! | [`counter`] | counters of the programs                                      |
//! | [`port`]    | the configuration of a device's programs                      |
//! | [`sockopt`] | socket options by which an application describes its flow     |

#![no_std]

pub mod counter;
pub mod port;
pub mod sockopt;

use weft_mechanisms::common::records::BLOCK;

/// A flow as declared by its socket's application, and how much was sent: a value in socket
/// storage. All in host byte order.
///
/// Offsets count the bytes of the socket's stream, from an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    /// [`KEY`](Self::KEY) once the application has declared something; 0 before.
    pub key: u64,
    /// Offset of the flow's first byte; meaningless without [`BASE_KNOWN`](Self::BASE_KNOWN).
    pub base: u64,
    /// Bytes of the flow; 0 means unknown.
    pub size: u64,
    /// Deadline in ns of `CLOCK_MONOTONIC`; 0 means none.
    pub deadline: u64,
    /// Datagram sockets: payload bytes sent so far. Stream sockets: scratch of `weft_setsockopt`,
    /// 0 outside of it.
    pub sent: u64,
    /// The class, 0 to [`sockopt::MAX_CLASS`].
    pub class: u32,
    /// A combination of the flags below.
    pub flags: u32,
}

impl Flow {
    /// weft's congestion controls find the value in a socket's storage by this key: a module has no
    /// other access to a map, and on some kernels the loader gives maps no names. It is `"weft"`
    /// and the version of this layout. A module warns if the version differs from its own.
    pub const KEY: u64 = (Self::LAYOUT as u64) << 32 | u32::from_le_bytes(*b"weft") as u64;

    /// The version of this layout; it changes whenever the fields do.
    pub const LAYOUT: u32 = 1;

    /// The flow's first byte is known.
    pub const BASE_KNOWN: u32 = 1;
}

/// The utilisations that packets have brought to a TCP socket, as codes of
/// [`stamp`](weft_mechanisms::common::stamp): a value in socket storage. All in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Echo {
    /// [`KEY`](Self::KEY) once a packet has brought one; 0 before.
    pub key: u64,
    /// Echoes that have arrived so far; wraps.
    pub echoes: u32,
    /// The last one.
    pub echo: u32,
    /// The largest stamp that has arrived since the socket's last packet; 0 for none.
    pub stamp: u32,
    /// 0.
    pub reserved: u32,
}

impl Echo {
    /// weft's congestion controls find the value by this key, see [`Flow::KEY`]. It is `"wech"` and
    /// the version of this layout.
    pub const KEY: u64 = (Self::LAYOUT as u64) << 32 | u32::from_le_bytes(*b"wech") as u64;

    /// The version of this layout; it changes whenever the fields do.
    pub const LAYOUT: u32 = 1;
}

/// The hop records that packets have brought to a TCP socket, as blocks of
/// [`records`](weft_mechanisms::common::records): a value in socket storage. Numbers are in host
/// byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Telemetry {
    /// [`KEY`](Self::KEY) once a packet has brought some; 0 before.
    pub key: u64,
    /// When the last records came back, in ns of `CLOCK_MONOTONIC`.
    pub echo_at: u64,
    /// When [`seen`](Self::seen) came back; 0 if that is empty.
    pub seen_at: u64,
    /// How many records have come back so far; wraps.
    pub echoes: u32,
    /// 1 if [`received`](Self::received) has arrived since the socket's last acknowledgement.
    pub waits: u32,
    /// The last records of a packet from the other end.
    pub received: [u8; BLOCK],
    /// The last records that came back.
    pub echo: [u8; BLOCK],
    /// Those that came back before, and that the congestion control has seen. It moves them here
    /// itself.
    pub seen: [u8; BLOCK],
    /// 0.
    pub reserved: [u8; 6],
}

impl Telemetry {
    /// weft's congestion controls find the value by this key, see [`Flow::KEY`]. It is `"wint"` and
    /// the version of this layout.
    pub const KEY: u64 = (Self::LAYOUT as u64) << 32 | u32::from_le_bytes(*b"wint") as u64;

    /// The version of this layout; it changes whenever the fields do.
    pub const LAYOUT: u32 = 1;
}

/// Names of the maps, at most 15 bytes, which is the kernel's limit.
pub mod map {
    /// Socket storage of [`Flow`](super::Flow).
    pub const FLOWS: &str = "WEFT_FLOWS";
    /// Socket storage of [`Echo`](super::Echo).
    pub const ECHOES: &str = "WEFT_ECHOES";
    /// Socket storage of [`Telemetry`](super::Telemetry).
    pub const TELEMETRY: &str = "WEFT_TELEMETRY";
    /// Per-CPU array of `u64`, indexed by [`Counter`](super::counter::Counter).
    pub const COUNTERS: &str = "WEFT_COUNTERS";
    /// Array of [`Port`](super::port::Port): one entry, or, where ports share programs, one for
    /// each, at the number of its filter's class.
    pub const PORT: &str = "WEFT_PORT";
}

/// Names of the programs, at most 15 bytes, which is the kernel's limit.
pub mod program {
    /// A host's egress: ranks and tags packets.
    pub const TAG: &str = "weft_tag";
    /// A host's ingress: removes the tag.
    pub const UNTAG: &str = "weft_untag";
    /// A switch's ingress: reads the tag, and sprays.
    pub const READ: &str = "weft_read";
    /// A spraying switch's egress: restores the hash of the packet's flow.
    pub const UNSPRAY: &str = "weft_unspray";
    /// `setsockopt` of weft's level.
    pub const SETSOCKOPT: &str = "weft_setsockopt";
    /// `getsockopt` of weft's level.
    pub const GETSOCKOPT: &str = "weft_getsockopt";
}

/// The programs' global variable that is 1 if ports share them, else 0.
pub const SHARED: &str = "SHARED";
/// The programs' global variable with the offset in bytes of `write_seq` in `struct tcp_sock`.
pub const WRITE_SEQ_OFFSET: &str = "WRITE_SEQ_OFFSET";
