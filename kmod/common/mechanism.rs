// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The description of a qdisc outside of the kernel: `tc`'s plugin, the fabric weaver and the tests
//! of all qdiscs use nothing else of any particular qdisc.

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
    /// Options that create one, if it cannot be created without options.
    pub example: &'static str,
    /// Whether it exists only for tests and benchmarks.
    pub for_tests: bool,
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
                example: "",
                for_tests: false,
            }
        };
    };
}
