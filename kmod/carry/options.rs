// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `carry` qdisc, which gives packets an IPv4 option for benchmarks.

use crate::common::options::Unit;

/// The qdisc's name.
pub const KIND: &str = "carry";

/// What packets carry for the `int` qdisc, in an IPv4 option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Telemetry {
    /// Nothing: packets stay as they are.
    #[default]
    None,
    /// Room for the records of six links, as their sender sends them.
    Room,
    /// The records of three links, and room for three.
    Records,
    /// The records of six links, and no room.
    Full,
    /// A tag without a stamp.
    Tag,
}

crate::choice!(Telemetry {
    None,
    Room,
    Records,
    Full,
    Tag
});

crate::options! {
    /// What each packet gets to carry for `int`, if it is UDP over IPv4 without options.
    TELEMETRY = 1, telemetry: Telemetry
        as "telemetry" [
            Unit::Choice(&["none", "room", "records", "full", "tag"]),
            "",
            "none, room, records, full or tag"
        ],
        or c"Telemetry must be 0 to 4",
        default |said| Telemetry::None;
}

crate::independent_options!();
