// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kind of this machine's clock.

const MODEL: &str = "model";

/// Whether computation takes no time on this machine's clock.
pub(crate) fn is_model_clock() -> bool {
    clock().as_deref() == Some(MODEL)
}

/// The kind of the machine's clock, which only the creator of the machine knows.
pub fn clock() -> Option<String> {
    std::env::var("WEFT_CLOCK")
        .ok()
        .filter(|name| !name.is_empty())
}
