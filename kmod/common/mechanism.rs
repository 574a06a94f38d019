// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The description of a mechanism outside of the kernel: its qdisc, its congestion control. `tc`'s
//! plugin, the fabric weaver and the tests of all qdiscs use nothing else of any particular one.

use super::nla::Refusal;
use super::options::Row;
use super::statistics::Table;

/// A qdisc.
#[derive(Clone, Copy, Debug)]
pub struct Qdisc {
    /// Its name, as in `tc qdisc add … KIND`; its module is `sch_KIND`.
    pub kind: &'static str,
    /// Its options.
    pub options: &'static [Row],
    /// Checks a request, the payload of `TCA_OPTIONS`, as far as possible without knowing whether
    /// it creates a qdisc or changes one.
    pub check: fn(&[u8]) -> Result<(), Refusal>,
    /// Checks a request that creates a qdisc.
    pub check_new: fn(&[u8]) -> Result<(), Refusal>,
    /// Checks a dump of the options.
    pub check_dump: fn(&[u8]) -> Result<(), Refusal>,
    /// Its statistics; the first set is the qdisc's own, the others are its classes'.
    pub statistics: &'static [Table],
    /// Which of them are figures of its port, in samples of a run.
    pub port: PortFigures,
    /// Options that create one, if it cannot be created without options.
    pub example: &'static str,
    /// The EtherType of the frames with which it pauses its neighbours.
    pub pauses: Option<u16>,
    /// Whether a host's one exchanges messages with other nodes, from its own namespace.
    pub talks: bool,
    /// Whether it uses one clock for all hosts.
    pub one_clock: bool,
    /// Whether it exists only for tests and benchmarks.
    pub for_tests: bool,
}

/// The statistics of a qdisc that are figures of its port.
#[derive(Clone, Copy, Debug)]
pub struct PortFigures {
    /// The group of figures that the qdisc reports, empty for none. A figure of the group has the
    /// value of the qdisc's statistic that has the same name.
    pub group: &'static str,
    /// Other figures, each with the statistics whose sum it is.
    pub sums: &'static [(&'static str, &'static [&'static str])],
}

impl PortFigures {
    /// No figures.
    pub const NONE: Self = Self {
        group: "",
        sums: &[],
    };
}

/// A congestion control of TCP.
#[derive(Clone, Copy, Debug)]
pub struct CongestionControl {
    /// Its name, as in `congctl NAME`. Its module is `tcp_NAME`, its settings are
    /// `net.ipv4.tcp_NAME.…`.
    pub name: &'static str,
    /// Whether hosts with some settings compare times of their clocks with each other's.
    pub one_clock: Option<OneClock>,
}

/// The value of a setting, by the last part of its name, or `None` for the default.
pub type Settings<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// The settings with which hosts need one clock.
#[derive(Clone, Copy, Debug)]
pub struct OneClock {
    /// Whether hosts with these settings do.
    pub applies: fn(Settings<'_>) -> bool,
    /// Why, and which settings to use on several machines.
    pub sentence: &'static str,
}

/// The [`Qdisc`] of a mechanism whose `options` is made by [`options!`](crate::options). Fields
/// that are not given are empty.
#[macro_export]
macro_rules! qdisc {
    ($kind:expr, $options:ident, $statistics:expr $(, $field:ident: $value:expr)* $(,)?) => {
        /// The qdisc.
        pub const QDISC: $crate::common::mechanism::Qdisc = $crate::common::mechanism::Qdisc {
            $( $field: $value, )*
            ..$crate::common::mechanism::Qdisc {
                kind: $kind,
                options: $options::ROWS,
                check: |payload| $options::Options::parse(payload).map(|_| ()),
                check_new: |payload| {
                    <$options::Config as $crate::common::options::Configuration>::requested(None, payload).map(|_| ())
                },
                check_dump: |payload| {
                    <$options::Config as $crate::common::options::Configuration>::parse(payload).map(|_| ())
                },
                statistics: $statistics,
                port: $crate::common::mechanism::PortFigures::NONE,
                example: "",
                pauses: None,
                talks: false,
                one_clock: false,
                for_tests: false,
            }
        };
    };
}

/// The [`CongestionControl`] of a mechanism. Fields that are not given are empty.
#[macro_export]
macro_rules! congestion_control {
    ($name:literal $(, $field:ident: $value:expr)* $(,)?) => {
        /// The congestion control.
        pub const CONGESTION_CONTROL: $crate::common::mechanism::CongestionControl =
            $crate::common::mechanism::CongestionControl {
                $( $field: $value, )*
                ..$crate::common::mechanism::CongestionControl {
                    name: $name,
                    one_clock: None,
                }
            };
    };
}
