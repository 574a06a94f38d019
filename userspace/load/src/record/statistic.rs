// SPDX-License-Identifier: MIT OR Apache-2.0

//! Statistics of ports, as a table: [`port_statistics!`](crate::port_statistics) makes the records
//! that hold them from one row each, and the [`Statistic`]s for code that treats them alike.

/// A statistic of a record.
#[derive(Debug)]
pub struct Statistic<T: 'static> {
    /// Its key in the record; a dot separates the key of its group: `backpressure.paused`.
    pub name: &'static str,
    /// Whether it is a total.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// Its meaning.
    pub about: &'static str,
    /// Its column in `weft top`.
    pub column: Option<Column>,
    /// Its sum over all ports, in the summary of a run; for a counter.
    pub sum: Option<Sum>,
    /// Its value. `None` if the record lacks its group.
    pub get: fn(&T) -> Option<u64>,
    /// Sets its value, and adds its group if the record lacks that.
    pub set: fn(&mut T, u64),
}

/// Whether a statistic is a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The current value.
    Level,
    /// A total that does not decrease.
    Counter,
}

/// The unit of a statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count of other things.
    Number,
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// ns.
    Time,
}

impl Unit {
    /// Its name; empty for a number.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::Time => "ns",
        }
    }
}

/// A column of `weft top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Columns are in the order of their places.
    pub place: u8,
    /// Its key in JSON.
    pub key: &'static str,
    /// Its heading.
    pub head: &'static str,
}

/// A sum over all ports of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Its key in the summary.
    pub key: &'static str,
    /// Its name in a comparison.
    pub title: &'static str,
}

/// A type of a statistic's value.
pub trait Value: Copy {
    /// The value, if there is one.
    fn get(self) -> Option<u64>;

    /// Converts from `value`; a value that is too large becomes the largest possible one.
    fn of(value: u64) -> Self;
}

impl Value for u32 {
    fn get(self) -> Option<u64> {
        Some(self.into())
    }

    fn of(value: u64) -> Self {
        value.try_into().unwrap_or(Self::MAX)
    }
}

impl Value for u64 {
    fn get(self) -> Option<u64> {
        Some(self)
    }

    fn of(value: u64) -> Self {
        value
    }
}

impl Value for Option<u64> {
    fn get(self) -> Option<u64> {
        self
    }

    fn of(value: u64) -> Self {
        Some(value)
    }
}

/// The increase of a counter. If it decreased, it was reset and counts from 0.
#[must_use]
pub fn increase(last: u64, now: u64) -> u64 {
    now.checked_sub(last).unwrap_or(now)
}

/// Replaces counters by their increase since an earlier record.
pub fn since<T>(statistics: &[Statistic<T>], now: &mut T, last: &T) {
    for it in statistics.iter().filter(|it| it.kind == Kind::Counter) {
        if let Some(value) = (it.get)(now) {
            (it.set)(now, increase((it.get)(last).unwrap_or(0), value));
        }
    }
}

/// Adds the increase from `last` to `now` to counters, and copies levels from `now`. Statistics
/// that `now` lacks do not change.
pub fn accumulate<T>(statistics: &[Statistic<T>], all: &mut T, last: &T, now: &T) {
    for it in statistics {
        let Some(value) = (it.get)(now) else { continue };
        let value = match it.kind {
            Kind::Level => value,
            Kind::Counter => {
                (it.get)(all).unwrap_or(0) + increase((it.get)(last).unwrap_or(0), value)
            }
        };
        (it.set)(all, value);
    }
}

/// Divides statistics that are times.
pub fn divide_times<T>(statistics: &[Statistic<T>], record: &mut T, by: f64) {
    for it in statistics.iter().filter(|it| it.unit == Unit::Time) {
        if let Some(ns) = (it.get)(record) {
            (it.set)(record, (ns as f64 / by).round() as u64);
        }
    }
}

/// Defines a record with statistics, one per row; see [`PortSample`](crate::record::PortSample) for
/// an example.
///
/// Behind the record's other fields, a row is
///
/// ```text
/// /// Its meaning.
/// KIND UNIT name: type, top PLACE "key" "head", sum "key" "title";
/// ```
///
/// `top` defines a column of `weft top`, whose heading is its key if none is given, and `sum` a sum
/// in the summary of a run. Then come groups of rows that a record may lack.
#[doc(hidden)]
#[macro_export]
macro_rules! port_statistics {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Record:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident: $field_type:ty, )*
        }
        {
            $(
                $(#[doc = $about:literal])+
                $(#[serde($($serde:tt)*)])?
                $kind:ident $unit:ident $name:ident: $type:ty
                $(, top $place:literal $key:literal $($head:literal)?)?
                $(, sum $sum:literal $title:literal)?;
            )*
        }
        $(
            $(#[doc = $of_group:literal])+
            $group:ident:
            $(#[doc = $of_struct:literal])+
            $Group:ident {
                $(
                    $(#[doc = $row_about:literal])+
                    $(#[serde($($row_serde:tt)*)])?
                    $row_kind:ident $row_unit:ident $row:ident: $row_type:ty
                    $(, top $row_place:literal $row_key:literal $($row_head:literal)?)?
                    $(, sum $row_sum:literal $row_title:literal)?;
                )*
            }
        )*
    ) => {
        $(#[$meta])*
        $vis struct $Record {
            $( $(#[$field_meta])* $field_vis $field: $field_type, )*
            $(
                $(#[doc = $about])+
                $(#[serde($($serde)*)])?
                $vis $name: $type,
            )*
            $(
                $(#[doc = $of_group])+
                #[serde(default, skip_serializing_if = "Option::is_none")]
                $vis $group: Option<$Group>,
            )*
        }

        $(
            $(#[doc = $of_struct])+
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
            $vis struct $Group {
                $(
                    $(#[doc = $row_about])+
                    $(#[serde($($row_serde)*)])?
                    $vis $row: $row_type,
                )*
            }
        )*

        impl $Record {
            /// Its statistics, in the order of its fields.
            $vis const STATISTICS: &'static [$crate::record::statistic::Statistic<Self>] = &[
                $( $crate::record::statistic::Statistic {
                    name: stringify!($name),
                    kind: $crate::record::statistic::Kind::$kind,
                    unit: $crate::record::statistic::Unit::$unit,
                    about: concat!($($about),+),
                    column: $crate::port_statistics!(@column $($place $key $($head)?)?),
                    sum: $crate::port_statistics!(@sum $($sum $title)?),
                    get: |it| $crate::record::statistic::Value::get(it.$name),
                    set: |it, value| it.$name = $crate::record::statistic::Value::of(value),
                }, )*
                $( $( $crate::record::statistic::Statistic {
                    name: concat!(stringify!($group), ".", stringify!($row)),
                    kind: $crate::record::statistic::Kind::$row_kind,
                    unit: $crate::record::statistic::Unit::$row_unit,
                    about: concat!($($row_about),+),
                    column: $crate::port_statistics!(@column $($row_place $row_key $($row_head)?)?),
                    sum: $crate::port_statistics!(@sum $($row_sum $row_title)?),
                    get: |it| $crate::record::statistic::Value::get(it.$group.as_ref()?.$row),
                    set: |it, value| {
                        it.$group.get_or_insert_default().$row = $crate::record::statistic::Value::of(value);
                    },
                }, )* )*
            ];
        }
    };
    (@column) => { None };
    (@column $place:literal $key:literal) => { $crate::port_statistics!(@column $place $key $key) };
    (@column $place:literal $key:literal $head:literal) => {
        Some($crate::record::statistic::Column { place: $place, key: $key, head: $head })
    };
    (@sum) => { None };
    (@sum $key:literal $title:literal) => {
        Some($crate::record::statistic::Sum { key: $key, title: $title })
    };
}
