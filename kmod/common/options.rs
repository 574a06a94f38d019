// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A qdisc's options, written once: a row for each option.
//!
//! [`options!`](crate::options) generates code from a table: the request ([`Row`]s and a structure
//! with the given values), with its reading, writing and checking; and from the same rows the
//! configuration (a request with its gaps filled), its change, its dump and the reading of a dump.
//! `tc`'s plugin and the fabric weaver read words and print by the rows, and contain nothing
//! specific to one qdisc.
//!
//! The format on the wire is that of [`nla`](super::nla): attributes nested in `TCA_OPTIONS`, one
//! for each row.

use super::nla::{self, NoRoom, Refusal, Sink};
use core::ffi::CStr;

/// Type of an attribute without content or meaning that aligns the next one's payload to 8 bytes.
pub const PAD: u16 = 15;

/// An option, for code that reads its words or prints it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Type of its attribute.
    pub attr: u16,
    /// Its name: the word on the command line, unless the unit has words of its own, and the key in
    /// JSON.
    pub name: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// Bytes of its payload, or of one of the values in it.
    pub width: usize,
    /// The placeholder for its value in a usage line, such as `PACKETS`.
    pub metavariable: &'static str,
    /// The expected value, as an error message names it.
    pub expected: &'static str,
    /// Whether a usage line shows it as required.
    pub needed: bool,
    /// Whether it has a range: a value too large for its payload is then refused as out of range.
    pub ranged: bool,
    /// The value that is not printed as text, if there is one: the default of every request. The
    /// printed words then make the same qdisc.
    pub silent: Option<u64>,
}

/// The unit of a value, which determines how it is read and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number.
    Number,
    /// A number, of packets: `24p`.
    Packets,
    /// A number, printed in hexadecimal digits.
    Mask,
    /// Bytes, printed as a number alone.
    Bytes,
    /// Bytes: `1514b`, `36Kb`.
    Size,
    /// Bytes per second, read and printed as bits: `10Gbit`.
    Rate,
    /// Nanoseconds: `200us`.
    Time,
    /// Nanoseconds, or a word for a value.
    TimeOr(&'static str, u64),
    /// A number of parts that make one: `8`, `1/2`; or the word for none.
    Parts(u32, &'static str),
    /// Hundredths, with or without `%`.
    Percent,
    /// An IPv4 address: `10.0.0.2`.
    Address,
    /// Its words, by value from 0 on.
    Choice(&'static [&'static str]),
    /// A boolean: the word for true, and the word for false. They are given without a value.
    Switch(&'static str, &'static str),
    /// Devices, by their indices: the most devices, each given by a further use of the option; the
    /// word for none; and the sentence for too many.
    Devices(usize, &'static str, &'static CStr),
}

/// A type of an option's value.
pub trait Field: Copy + Sized {
    /// Bytes of the payload, or of one of the values in it.
    const WIDTH: usize;

    /// Reads the payload; `sentence` is for a value that its type does not have.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names the attribute.
    fn read(attr: u16, payload: &[u8], sentence: &'static CStr) -> Result<Self, Refusal>;

    /// Writes the attribute.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    fn put(self, attr: u16, sink: &mut impl Sink) -> Result<(), NoRoom>;
}

macro_rules! number {
    ($type:ty, $read:path) => {
        impl Field for $type {
            const WIDTH: usize = core::mem::size_of::<Self>();

            fn read(attr: u16, payload: &[u8], _: &'static CStr) -> Result<Self, Refusal> {
                $read(attr, payload)
            }

            fn put(self, attr: u16, sink: &mut impl Sink) -> Result<(), NoRoom> {
                sink.put(attr, &self.to_ne_bytes())
            }
        }
    };
}

number!(u8, nla::read_u8);
number!(u32, nla::read_u32);
number!(u64, nla::read_u64);

impl Field for bool {
    const WIDTH: usize = 1;

    fn read(attr: u16, payload: &[u8], sentence: &'static CStr) -> Result<Self, Refusal> {
        match nla::read_u8(attr, payload)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Refusal::range(sentence, attr)),
        }
    }

    fn put(self, attr: u16, sink: &mut impl Sink) -> Result<(), NoRoom> {
        sink.put(attr, &[u8::from(self)])
    }
}

/// Makes an enumeration without content a [`Field`]: the variants' values count from 0, in their
/// order.
#[macro_export]
macro_rules! choice {
    ($type:ident { $($variant:ident),+ $(,)? }) => {
        impl $crate::common::options::Field for $type {
            const WIDTH: usize = 1;

            fn read(
                attr: u16,
                payload: &[u8],
                sentence: &'static core::ffi::CStr,
            ) -> Result<Self, $crate::common::nla::Refusal> {
                let number = $crate::common::nla::read_u8(attr, payload)?;
                let choices = [$($type::$variant),+];
                let choice = choices.get(usize::from(number)).copied();
                choice.ok_or($crate::common::nla::Refusal::range(sentence, attr))
            }

            fn put(
                self,
                attr: u16,
                sink: &mut impl $crate::common::nla::Sink,
            ) -> Result<(), $crate::common::nla::NoRoom> {
                sink.put(attr, &[self as u8])
            }
        }
    };
}

/// Refuses a given value that is not between `least` and `most`, both included, unless it is
/// `besides`.
///
/// # Errors
///
/// A [`Refusal`] of kind `Range`.
pub fn within<T: PartialOrd + Copy>(
    value: Option<T>,
    (least, most): (T, T),
    besides: Option<T>,
    attr: u16,
    sentence: &'static CStr,
) -> Result<(), Refusal> {
    match value {
        Some(value) if (value < least || value > most) && besides != Some(value) => {
            Err(Refusal::range(sentence, attr))
        }
        _ => Ok(()),
    }
}

/// A qdisc's complete configuration, as [`options!`](crate::options) makes it.
pub trait Configuration: Copy {
    /// The configuration of a new qdisc from a request, the payload of `TCA_OPTIONS`; or, with
    /// `current`, that of a qdisc changed by the request.
    ///
    /// # Errors
    ///
    /// Any refusal, with the sentence for the user.
    fn requested(current: Option<Self>, payload: &[u8]) -> Result<Self, Refusal>;

    /// Dumps the configuration, every attribute of it.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom>;

    /// Reads a dump.
    ///
    /// Attributes of a newer kernel module are skipped, and no range is checked: the kernel's
    /// values are valid.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] for bytes that are not attributes, and for a known attribute that is missing,
    /// malformed or given twice.
    fn parse(payload: &[u8]) -> Result<Self, Refusal>;
}

/// A dump without a required attribute.
pub const LACKS: Refusal = Refusal::invalid(c"The dump lacks an attribute");

/// A qdisc's options: see the module's head, and any mechanism's `options.rs` for an example.
///
/// A row is
///
/// ```text
/// /// What it is.
/// NAME = attribute, field: type
///     as "name" [unit, "METAVARIABLE", "what is expected"] is needed silent VALUE,
///     in (least, most), besides value, or c"The sentence, if it is out of range",
///     default |said| value;
/// ```
///
/// A default may depend on `said`, the request. A row that `is optional` has none: the
/// configuration may also lack it. The second half and the flags are optional.
#[macro_export]
macro_rules! options {
    (
        $(
            $(#[$doc:meta])*
            $NAME:ident = $attr:literal, $field:ident: $type:ty
                as $word:literal [$unit:expr, $metavariable:literal, $expected:literal]
                $(is $flag:ident)? $(silent $silent:expr)?
                $(, in $range:expr $(, besides $besides:expr)?)?
                $(, or $sentence:expr)?
                $(, default |$said:ident| $default:expr)?
                ;
        )*
    ) => {
        /// Types of the attributes nested in `TCA_OPTIONS`.
        pub mod attr {
            $( $(#[$doc])* pub const $NAME: u16 = $attr; )*
            pub use $crate::common::options::PAD;
        }

        /// The options, for code that reads their words or prints them.
        pub const ROWS: &[$crate::common::options::Row] = &[
            $( $crate::common::options::Row {
                attr: $attr,
                name: $word,
                unit: $unit,
                width: <$type as $crate::common::options::Field>::WIDTH,
                metavariable: $metavariable,
                expected: $expected,
                needed: $crate::options!(@needed $($flag)?),
                ranged: $crate::options!(@ranged $($range)?),
                silent: $crate::options!(@option $($silent)?),
            }, )*
        ];

        /// The values in a request; `None` is not given.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Options {
            $( $(#[$doc])* pub $field: Option<$type>, )*
        }

        impl Options {
            /// Reads a request: the payload of `TCA_OPTIONS`.
            ///
            /// # Errors
            ///
            /// A `Refusal` for bytes that are not attributes, an unknown attribute, one of the
            /// wrong size or given twice, and any refusal by [`check`](Self::check).
            pub fn parse(payload: &[u8]) -> Result<Self, $crate::common::nla::Refusal> {
                let mut options = Self::default();
                $crate::common::nla::each(payload, |attr, value| options.say(attr, value))?;
                options.check()?;
                Ok(options)
            }

            /// Stores one attribute; `false` if its type is unknown.
            fn say(&mut self, attr: u16, value: &[u8]) -> Result<bool, $crate::common::nla::Refusal> {
                match attr {
                    $( attr::$NAME => {
                        let sentence = $crate::options!(@sentence $($sentence)?);
                        let value = $crate::common::options::Field::read(attr, value, sentence)?;
                        $crate::common::nla::say_once(&mut self.$field, attr, value)?;
                    } )*
                    // Only 8-byte payloads are ever aligned to 8 bytes.
                    attr::PAD if ROWS.iter().any(|row| row.width == 8) => {}
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Checks that each given value is in its range.
            ///
            /// # Errors
            ///
            /// A `Refusal` of kind `Range` that names the attribute and its range.
            pub fn check(&self) -> Result<(), $crate::common::nla::Refusal> {
                $( $crate::options!(
                    @check (self.$field) (attr::$NAME) [$($range $(; $besides)?)?] [$($sentence)?]
                ); )*
                Ok(())
            }

            /// Writes the request: the given values, and nothing else.
            ///
            /// # Errors
            ///
            /// `NoRoom` if the sink is full.
            pub fn put(
                &self,
                sink: &mut impl $crate::common::nla::Sink,
            ) -> Result<(), $crate::common::nla::NoRoom> {
                $( if let Some(value) = self.$field {
                    $crate::common::options::Field::put(value, attr::$NAME, sink)?;
                } )*
                Ok(())
            }
        }

        /// The qdisc's configuration: a request with its gaps filled.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Config {
            $( $(#[$doc])* pub $field: $crate::options!(@type $type $(, $flag)?), )*
        }

        impl Config {
            /// A request with its gaps filled by the defaults.
            fn filled(options: &Options) -> Self {
                Self { $(
                    $field: $crate::options!(@fill options $field $(|$said| $default)? $(, $flag)?),
                )* }
            }

            /// This configuration after a request; options that are not given stay. Nothing is
            /// checked.
            fn changed(self, options: &Options) -> Self {
                Self { $( $field: $crate::options!(@change self options $field $($flag)?), )* }
            }
        }

        impl $crate::common::options::Configuration for Config {
            fn requested(
                current: Option<Self>,
                payload: &[u8],
            ) -> Result<Self, $crate::common::nla::Refusal> {
                let options = Options::parse(payload)?;
                match current {
                    Some(config) => config.updated(&options),
                    None => Self::new(&options),
                }
            }

            fn put(
                &self,
                sink: &mut impl $crate::common::nla::Sink,
            ) -> Result<(), $crate::common::nla::NoRoom> {
                Options {
                    $( $field: $crate::options!(@some self $field $($flag)?), )*
                }
                .put(sink)
            }

            fn parse(payload: &[u8]) -> Result<Self, $crate::common::nla::Refusal> {
                let mut said = Options::default();
                for attribute in $crate::common::nla::Attributes::new(payload) {
                    let (attr, value) = attribute?;
                    said.say(attr, value)?;
                }
                Ok(Self {
                    $( $field: $crate::options!(@need said $field $($flag)?), )*
                })
            }
        }
    };
    (@check $value:tt $attr:tt [] [$($sentence:expr)?]) => {};
    (@check ($value:expr) ($attr:expr) [$range:expr $(; $besides:expr)?] [$($sentence:expr)?]) => {
        $crate::common::options::within(
            $value,
            $range,
            $crate::options!(@option $($besides)?),
            $attr,
            $crate::options!(@sentence $($sentence)?),
        )?;
    };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
    (@sentence) => { c"Value is out of range" };
    (@sentence $sentence:expr) => { $sentence };
    (@ranged) => { false };
    (@ranged $range:expr) => { true };
    (@needed needed) => { true };
    (@needed $($flag:ident)?) => { false };
    (@type $type:ty, optional) => { Option<$type> };
    (@type $type:ty $(, $flag:ident)?) => { $type };
    (@fill $options:ident $field:ident |$said:ident| $default:expr $(, $flag:ident)?) => {
        match $options.$field {
            Some(value) => value,
            None => {
                let $said = $options;
                // Not each default depends on other options.
                let _ = $said;
                $default
            }
        }
    };
    (@fill $options:ident $field:ident , optional) => { $options.$field };
    (@change $self:ident $options:ident $field:ident optional) => { $options.$field.or($self.$field) };
    (@change $self:ident $options:ident $field:ident $($flag:ident)?) => {
        $options.$field.unwrap_or($self.$field)
    };
    (@some $self:ident $field:ident optional) => { $self.$field };
    (@some $self:ident $field:ident $($flag:ident)?) => { Some($self.$field) };
    (@need $said:ident $field:ident optional) => { $said.$field };
    (@need $said:ident $field:ident $($flag:ident)?) => {
        $said.$field.ok_or($crate::common::options::LACKS)?
    };
}

/// `Config::new` and `Config::updated` for options that are each checked independently and can all
/// be changed. Other mechanisms write their own, which refuse combinations or changes.
#[macro_export]
macro_rules! independent_options {
    () => {
        impl Config {
            /// The configuration of a new qdisc.
            ///
            /// # Errors
            ///
            /// Refusals by [`Options::check`].
            pub fn new(options: &Options) -> Result<Self, $crate::common::nla::Refusal> {
                options.check()?;
                Ok(Self::filled(options))
            }

            /// The configuration after a `change`: options that are not in the request stay.
            ///
            /// # Errors
            ///
            /// Refusals by [`Options::check`].
            pub fn updated(self, options: &Options) -> Result<Self, $crate::common::nla::Refusal> {
                options.check()?;
                Ok(self.changed(options))
            }
        }
    };
}
