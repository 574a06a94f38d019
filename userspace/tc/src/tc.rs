// SPDX-License-Identifier: MIT OR Apache-2.0

//! The operations that `tc` provides to a qdisc's code.
//!
//! `tc` is the authority on the meaning of `10mbit` or `200us`, on rates in powers of 1000 or of
//! 1024 (`-iec`), on JSON (`-j`, `-p`) and on line ends (`-o`). So all of these go through
//! functions that `tc` exports. In use these traits call those functions; in tests they are
//! recorded.
//!
//! One function is left out: iproute2's `print_size()` takes 32 bits in 6.1 and 64 bits in 7.x.
//! [`size::text`](crate::size::text) replaces it.

use std::ffi::CStr;

/// Parses quantities like `tc`. `None` means that the text is not such a quantity.
pub trait Units {
    /// A rate such as `10mbit`, in bytes per second.
    fn rate(&self, text: &str) -> Option<u64>;
    /// A time such as `200us`, in nanoseconds. A bare number is nanoseconds.
    fn time(&self, text: &str) -> Option<u64>;
    /// A size such as `36kb`, in bytes. A bare number is bytes. It may exceed every option's limit.
    fn size(&self, text: &str) -> Option<u64>;
    /// A number; `0x10` and `020` are both 16.
    fn number(&self, text: &str) -> Option<u64>;
    /// The index of a device such as `eth0`.
    fn device(&self, name: &str) -> Option<u32>;
}

/// Prints like `tc`: text, or JSON after `tc -j`.
///
/// Each function serves one format and does nothing in the other, so that a caller calls the
/// functions of both and need not know the format. [`rate`](Self::rate) serves both.
pub trait Output {
    /// Text: a piece of the line.
    fn text(&self, text: &str);
    /// Text: ends the line, unless `tc -o` puts everything into one line.
    fn new_line(&self);
    /// A time in `tc`'s format, three digits and the unit: `200us`, `1.23ms`.
    fn time(&self, nanoseconds: u64) -> String;
    /// Text and JSON: a rate in bytes per second; as text in bits per second, with its unit.
    fn rate(&self, key: &CStr, bytes_per_second: u64);
    /// JSON: a number.
    fn number(&self, key: &CStr, value: u64);
    /// JSON: a boolean.
    fn boolean(&self, key: &CStr, value: bool);
    /// JSON: a string.
    fn string(&self, key: &CStr, value: &str);
    /// JSON: an array of numbers.
    fn array(&self, key: &CStr, values: &[u64]);
    /// JSON: an array of strings.
    fn strings(&self, key: &CStr, values: &[String]);
    /// The name of the device with an index; `if7` if it does not exist.
    fn device(&self, index: u32) -> String;
}
