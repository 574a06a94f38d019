// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which clock this machine has.

const MODEL: &str = "model";

/// Whether the machine computes in no time.
pub(crate) fn is_model_clock() -> bool {
    clock().as_deref() == Some(MODEL)
}

/// What the machine's clock is, which only the one who made the machine knows.
pub fn clock() -> Option<String> {
    std::env::var("WEFT_CLOCK")
        .ok()
        .filter(|name| !name.is_empty())
}
