// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A qdisc's statistics, written once: a row for each figure, and the lines in which `tc` prints
//! them.
//!
//! [`statistics!`](crate::statistics) generates from a table the structure that the module fills,
//! its bytes (the payload of `TCA_STATS_APP`: no padding, host-endian, new figures at the end
//! only), and the [`Figure`]s by which `tc`'s plugin prints them.

use super::nla::{FieldReader, FieldWriter};

/// A statistic, for code that prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The name of its field.
    pub name: &'static str,
    /// Its key in JSON.
    pub key: &'static str,
    /// Whether it can decrease.
    pub sort: Sort,
    /// The unit in which it is printed.
    pub unit: Unit,
    /// Bytes of one value.
    pub width: usize,
    /// How many values it has.
    pub values: usize,
}

/// Whether a figure can decrease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The current value.
    Gauge,
    /// A total: it does not decrease while the qdisc exists.
    Counter,
    /// The highest value so far.
    Highest,
}

/// The unit in which a figure is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number.
    Number,
    /// Bytes: `1514b`, `36Kb`.
    Size,
    /// Nanoseconds: `1.2ms`.
    Time,
    /// A histogram of times by powers of two: value 0 counts those of 0 ns, value `i` those with
    /// `2^(i-1) <= ns < 2^i`, the last one all longer ones. Empty buckets are not printed.
    Times,
}

/// The contents of one set of statistics.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The first field, a `u32`, if it distinguishes several sets.
    pub tag: Option<u32>,
    /// The figures, in the order of their bytes.
    pub figures: &'static [Figure],
    /// The printed lines. `{name}` is a figure, in its unit; `{key=sum/count}` the mean of two
    /// figures, in the first one's unit, and 0 if the count is 0; `{name?this|that}` is this if the
    /// figure is not 0, otherwise that; `{!name}` is in JSON only. JSON has the figures in the same
    /// order.
    pub lines: &'static [&'static str],
}

impl Table {
    /// Size of the encoding in bytes.
    pub const fn size(&self) -> usize {
        let mut size = if self.tag.is_some() { 4 } else { 0 };
        let mut i = 0;
        while i < self.figures.len() {
            size += self.figures[i].width * self.figures[i].values;
            i += 1;
        }
        size
    }
}

/// A type of a figure.
pub trait Value: Sized {
    /// Bytes of one value.
    const WIDTH: usize;
    /// The number of values.
    const VALUES: usize;

    /// Encodes it.
    fn put(&self, fields: &mut Writer<'_>);

    /// Decodes it; `None` if the bytes are used up.
    fn take(fields: &mut Reader<'_>) -> Option<Self>;
}

/// The destination of encoded figures.
pub struct Writer<'a>(FieldWriter<'a>);

impl<'a> Writer<'a> {
    /// Writes from the first byte on.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self(FieldWriter::new(bytes))
    }
}

/// The source of decoded figures.
pub struct Reader<'a>(FieldReader<'a>);

impl<'a> Reader<'a> {
    /// Reads from the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(FieldReader::new(bytes))
    }
}

impl Value for u32 {
    const WIDTH: usize = 4;
    const VALUES: usize = 1;

    fn put(&self, fields: &mut Writer<'_>) {
        fields.0.put_u32(*self);
    }

    fn take(fields: &mut Reader<'_>) -> Option<Self> {
        fields.0.take_u32()
    }
}

impl Value for u64 {
    const WIDTH: usize = 8;
    const VALUES: usize = 1;

    fn put(&self, fields: &mut Writer<'_>) {
        fields.0.put_u64(*self);
    }

    fn take(fields: &mut Reader<'_>) -> Option<Self> {
        fields.0.take_u64()
    }
}

impl<const N: usize> Value for [u64; N] {
    const WIDTH: usize = 8;
    const VALUES: usize = N;

    fn put(&self, fields: &mut Writer<'_>) {
        self.iter().for_each(|value| value.put(fields));
    }

    fn take(fields: &mut Reader<'_>) -> Option<Self> {
        let mut values = [0; N];
        for value in &mut values {
            *value = u64::take(fields)?;
        }
        Some(values)
    }
}

/// A set of statistics: see the module's head, and any mechanism's `stats.rs` for an example.
///
/// A row is `/// Description.` and `sort unit name: type`, then `as "key"` if its key in JSON is
/// not its name.
#[macro_export]
macro_rules! statistics {
    (
        $(#[$doc:meta])*
        $name:ident $(is $tag:literal)? {
            $(
                $(#[$figure_doc:meta])*
                $sort:ident $unit:ident $figure:ident: $type:ty $(as $key:literal)?,
            )*
        }
        $($line:literal)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$figure_doc])* pub $figure: $type, )*
        }

        impl $name {
            $( /// The first field.
            pub const KIND: u32 = $tag; )?

            /// The figures, for code that prints them.
            pub const TABLE: $crate::common::statistics::Table = $crate::common::statistics::Table {
                tag: $crate::statistics!(@option $($tag)?),
                figures: &[$(
                    $crate::common::statistics::Figure {
                        name: stringify!($figure),
                        key: $crate::statistics!(@key $figure $($key)?),
                        sort: $crate::common::statistics::Sort::$sort,
                        unit: $crate::common::statistics::Unit::$unit,
                        width: <$type as $crate::common::statistics::Value>::WIDTH,
                        values: <$type as $crate::common::statistics::Value>::VALUES,
                    },
                )*],
                lines: &[$($line),*],
            };

            /// Size of the encoding in bytes.
            pub const SIZE: usize = Self::TABLE.size();

            /// Encodes the statistics.
            pub fn to_bytes(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                let mut fields = $crate::common::statistics::Writer::new(&mut bytes);
                $(
                    let tag: u32 = $tag;
                    $crate::common::statistics::Value::put(&tag, &mut fields);
                )?
                $( $crate::common::statistics::Value::put(&self.$figure, &mut fields); )*
                bytes
            }

            /// Decodes statistics, skipping the figures of a newer version; `None` if `bytes` is
            /// shorter than [`SIZE`](Self::SIZE), or of another set.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let mut fields = $crate::common::statistics::Reader::new(bytes);
                $( if <u32 as $crate::common::statistics::Value>::take(&mut fields)? != $tag {
                    return None;
                } )?
                Some(Self {
                    $( $figure: $crate::common::statistics::Value::take(&mut fields)?, )*
                })
            }
        }
    };
    (@option) => { None };
    (@option $tag:literal) => { Some($tag) };
    (@key $figure:ident) => { stringify!($figure) };
    (@key $figure:ident $key:literal) => { $key };
}
