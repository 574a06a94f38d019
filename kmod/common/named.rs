// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Choices with a number for programs and a name for people.

/// Makes an enumeration of choices, each with its number and its name.
#[macro_export]
macro_rules! named {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $variant_doc:literal])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[doc = $variant_doc])* $variant = $value,)* }

        impl $name {
            /// All choices.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The choice with this number.
            #[inline(always)]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($value => Some(Self::$variant),)* _ => None }
            }
        }
    };
}
