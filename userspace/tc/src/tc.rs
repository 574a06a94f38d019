// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a qdisc's code may ask of `tc`.
//!
//! `tc` is the authority on what `10mbit` or `200us` mean, on whether rates are printed in powers
//! of 1000 or of 1024 (`-iec`), on how JSON is written (`-j`, `-p`) and on what ends a line
//! (`-o`), so all of it goes through functions that `tc` exports. In use these traits are
//! implemented on those functions; in tests they are recorded.
//!
//! One function is left out on purpose: iproute2's `print_size()` takes 32 bits in 6.1 and 64 bits
//! in 7.x, hence [`size::text`](crate::size::text).

use std::ffi::CStr;

/// How `tc` reads quantities. `None` is "that is none".
pub trait Units {
    /// A rate such as `10mbit`, in bytes per second.
    fn rate(&self, text: &str) -> Option<u64>;
    /// A time such as `200us`, in nanoseconds. A bare number is nanoseconds.
    fn time(&self, text: &str) -> Option<u64>;
    /// A size such as `36kb`, in bytes. A bare number is bytes. It may be more than any option
    /// takes.
    fn size(&self, text: &str) -> Option<u64>;
    /// A number; `0x10` and `020` are both 16.
    fn number(&self, text: &str) -> Option<u64>;
    /// A device such as `eth0`, its index.
    fn device(&self, name: &str) -> Option<u32>;
}

/// How `tc` prints: text, or JSON after `tc -j`.
///
/// Each function serves one of the two and does nothing in the other, so that a caller goes
/// through both without asking which it is. [`rate`](Self::rate) serves both.
pub trait Output {
    /// Text: a piece of the line.
    fn text(&self, text: &str);
    /// Text: ends the line, unless `tc -o` puts everything into one.
    fn new_line(&self);
    /// A time as `tc` writes it, three digits and the unit: `200us`, `1.23ms`.
    fn time(&self, nanoseconds: u64) -> String;
    /// Text and JSON: a rate in bytes per second; as text in bits per second, with its unit.
    fn rate(&self, key: &CStr, bytes_per_second: u64);
    /// JSON: a number.
    fn number(&self, key: &CStr, value: u64);
    /// JSON: a truth.
    fn boolean(&self, key: &CStr, value: bool);
    /// JSON: a string.
    fn string(&self, key: &CStr, value: &str);
    /// JSON: an array of numbers.
    fn array(&self, key: &CStr, values: &[u64]);
    /// JSON: an array of strings.
    fn strings(&self, key: &CStr, values: &[String]);
    /// The name of a device, by its index; `if7` where there is none.
    fn device(&self, index: u32) -> String;
}
