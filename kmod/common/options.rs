// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What a qdisc is told, written once: a row for each option.
//!
//! [`options!`](crate::options) makes of a table the request ([`Row`]s and a structure with what is
//! said), its reading, writing and checking; and of the same rows the configuration (a request with
//! its gaps filled), its change, dump and reading of a dump. `tc`'s plugin and the weaver of
//! fabrics read words and print by the rows, and have nothing of any one qdisc.
//!
//! The format on the wire is that of [`nla`](super::nla): attributes nested in `TCA_OPTIONS`, one
//! for each row.

use super::nla::{self, NoRoom, Refusal, Sink};
use core::ffi::CStr;

/// Type of an attribute without content that aligns the next one's payload to 8 bytes. It says
/// nothing.
pub const PAD: u16 = 15;

/// An option, for whoever reads its words or prints it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Type of its attribute.
    pub attr: u16,
    /// Its name: the word on the command line, unless the unit has words of its own, and the key in
    /// JSON.
    pub name: &'static str,
    /// What its value is.
    pub unit: Unit,
    /// Bytes of its payload, or of one of several in it.
    pub width: usize,
    /// What stands for its value in a usage, such as `PACKETS`.
    pub metavariable: &'static str,
    /// What is said to be expected, where a value is none.
    pub expected: &'static str,
    /// Whether a usage shows it as needed.
    pub needed: bool,
    /// Whether it has a range: then more than its payload holds is refused as being out of that.
    pub ranged: bool,
    /// The value that is not printed as text, if there is one.
    pub silent: Option<u64>,
}

/// What a value is, hence how it is read and printed.
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
    /// So many parts are one: `8`, `1/2`; or the word for none.
    Parts(u32, &'static str),
    /// Hundredths, with or without `%`.
    Percent,
    /// An IPv4 address: `10.0.0.2`.
    Address,
    /// Its words, by value from 0 on.
    Choice(&'static [&'static str]),
    /// A truth: the word for it, and the one for the contrary. They are given without a value.
    Switch(&'static str, &'static str),
    /// Devices, by their indices, at most so many, each given by the option anew; the word for
    /// none; and the sentence for too many.
    Devices(usize, &'static str, &'static CStr),
}

/// A type that an option's value has.
pub trait Field: Copy + Sized {
    /// Bytes of the payload, or of one of several in it.
    const WIDTH: usize;

    /// Reads the payload; `sentence` is for a value that is none of its type's.
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

/// Makes an enumeration without content a [`Field`]: its values are the variants', in their order
/// from 0 on.
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

/// Refuses a value that is said and is not between `least` and `most`, both included, unless it is
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

/// All that a qdisc is told, as [`options!`](crate::options) makes it.
pub trait Configuration: Copy {
    /// What a new qdisc of a request, the payload of `TCA_OPTIONS`, is told, or one that is
    /// `current` and is changed by it.
    ///
    /// # Errors
    ///
    /// Whatever is refused, with the sentence for the user.
    fn requested(current: Option<Self>, payload: &[u8]) -> Result<Self, Refusal>;

    /// Dumps the configuration, every attribute of it.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the sink is full.
    fn put(&self, sink: &mut impl Sink) -> Result<(), NoRoom>;

    /// Reads a dump.
    ///
    /// Attributes of a newer kernel module are passed over, and no range is checked: what the
    /// kernel has, it may have.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] for bytes that are no attributes, and for a known attribute that is missing,
    /// malformed or given twice.
    fn parse(payload: &[u8]) -> Result<Self, Refusal>;
}

/// What a dump lacks.
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
/// A default may depend on what is `said`, the request. A row that `is optional` has none: the
/// configuration may lack it, too. All of the second half, and the flags, can be left out.
#[macro_export]
macro_rules! options {
    (
        $(
            $(#[$doc:meta])*
            $NAME:ident = $attr:literal, $field:ident: $type:ty
                as $word:literal [$unit:expr, $metavariable:literal, $expected:literal]
                $(is $flag:ident)? $(silent $silent:expr)?
                $(, in $range:expr $(, besides $besides:expr)?)?
                $(, or $sentence:literal)?
                $(, default |$said:ident| $default:expr)?
                ;
        )*
    ) => {
        /// Types of the attributes nested in `TCA_OPTIONS`.
        pub mod attr {
            $( $(#[$doc])* pub const $NAME: u16 = $attr; )*
            pub use $crate::common::options::PAD;
        }

        /// The options, for whoever reads their words or prints them.
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

        /// What a request says; `None` is not said.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Options {
            $( $(#[$doc])* pub $field: Option<$type>, )*
        }

        impl Options {
            /// Reads a request: the payload of `TCA_OPTIONS`.
            ///
            /// # Errors
            ///
            /// A `Refusal` for bytes that are no attributes, an unknown attribute, one of the wrong
            /// size or given twice, and whatever [`check`](Self::check) refuses.
            pub fn parse(payload: &[u8]) -> Result<Self, $crate::common::nla::Refusal> {
                let mut options = Self::default();
                $crate::common::nla::each(payload, |attr, value| options.say(attr, value))?;
                options.check()?;
                Ok(options)
            }

            /// Takes in one attribute; `false` if its type is unknown.
            fn say(&mut self, attr: u16, value: &[u8]) -> Result<bool, $crate::common::nla::Refusal> {
                match attr {
                    $( attr::$NAME => {
                        let sentence = $crate::options!(@sentence $($sentence)?);
                        let value = $crate::common::options::Field::read(attr, value, sentence)?;
                        $crate::common::nla::say_once(&mut self.$field, attr, value)?;
                    } )*
                    // Only what has 8 bytes is ever aligned to them.
                    attr::PAD if ROWS.iter().any(|row| row.width == 8) => {}
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// Checks that each value that is said is in its range.
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

            /// Writes the request: what is said, and nothing else.
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

        /// All that the qdisc is told: a request with its gaps filled.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Config {
            $( $(#[$doc])* pub $field: $crate::options!(@type $type $(, $flag)?), )*
        }

        impl Config {
            /// A request with its gaps filled by what is the default.
            fn filled(options: &Options) -> Self {
                Self { $(
                    $field: $crate::options!(@fill options $field $(|$said| $default)? $(, $flag)?),
                )* }
            }

            /// This configuration after a request; what is not said stays. Nothing is checked.
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
    (@check $value:tt $attr:tt [] [$($sentence:literal)?]) => {};
    (@check ($value:expr) ($attr:expr) [$range:expr $(; $besides:expr)?] [$($sentence:literal)?]) => {
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
    (@sentence $sentence:literal) => { $sentence };
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
                #[allow(unused_variables)]
                let $said = $options;
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

/// `Config::new` and `Config::updated` where each option is checked by itself alone, and each can
/// be changed. Others say in their own what does not go together, or stays.
#[macro_export]
macro_rules! independent_options {
    () => {
        impl Config {
            /// The configuration of a new qdisc.
            ///
            /// # Errors
            ///
            /// What [`Options::check`] refuses.
            pub fn new(options: &Options) -> Result<Self, $crate::common::nla::Refusal> {
                options.check()?;
                Ok(Self::filled(options))
            }

            /// The configuration after a `change`: what the request does not say stays.
            ///
            /// # Errors
            ///
            /// What [`Options::check`] refuses.
            pub fn updated(self, options: &Options) -> Result<Self, $crate::common::nla::Refusal> {
                options.check()?;
                Ok(self.changed(options))
            }
        }
    };
}
