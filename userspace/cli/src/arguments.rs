// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options that several commands share, and their conversion to the library's types.

use std::time::Duration;

use weft_topo::Delay;

pub(crate) mod fabric;
pub(crate) mod guest;
pub(crate) mod run;
pub(crate) mod said;
mod traffic;
pub(crate) mod variants;

/// Parses a time in fabric time.
///
/// # Errors
///
/// The form of a time.
pub(crate) fn time(text: &str) -> Result<Duration, &'static str> {
    let time = text.parse::<Delay>().ok();
    let time = time.map(|time| Duration::from_nanos(time.ns()));
    time.ok_or("expected a time up to 10s, such as 100us")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(time("60ns"), Ok(Duration::from_nanos(60)));
        assert_eq!(time("1.5us"), Ok(Duration::from_nanos(1500)));
        assert_eq!(time("0ns"), Ok(Duration::ZERO));
        for text in ["", "60", "-1ns", "soon", "11s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
