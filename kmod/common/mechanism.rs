// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What is known of a qdisc outside of the kernel: `tc`'s plugin, what weaves fabrics and the tests
//! of all qdiscs have nothing else of any one of them.

use super::nla::Refusal;
use super::options::Row;
use super::statistics::Table;

/// A qdisc.
#[derive(Clone, Copy, Debug)]
pub struct Qdisc {
    /// Its name, as in `tc qdisc add … KIND`; its module is `sch_KIND`.
    pub kind: &'static str,
    /// What it is told.
    pub options: &'static [Row],
    /// Reads a request, the payload of `TCA_OPTIONS`, as far as it can be judged without knowing
    /// whether it makes a qdisc or changes one.
    pub check: fn(&[u8]) -> Result<(), Refusal>,
    /// The same for a request that makes a qdisc.
    pub check_new: fn(&[u8]) -> Result<(), Refusal>,
    /// Reads a dump of the options.
    pub check_dump: fn(&[u8]) -> Result<(), Refusal>,
    /// What it tells of itself; the first set is the qdisc's own, others are its classes'.
    pub statistics: &'static [Table],
    /// Options that make one, if none at all do not.
    pub example: &'static str,
    /// Whether it is a tool of the tests and benchmarks.
    pub for_tests: bool,
}

/// The [`Qdisc`] of a mechanism whose `options` has what [`options!`](crate::options) makes. All
/// that is not said is nothing.
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
                example: "",
                for_tests: false,
            }
        };
    };
}
