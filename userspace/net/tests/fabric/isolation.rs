// SPDX-License-Identifier: MIT OR Apache-2.0

//! A mount namespace with a `/run` of its own, and a network namespace to which the tests may come
//! back from those that they make.

/// The process has one thread yet.
pub(crate) fn enter() -> Result<(), String> {
    weft_net::rootless::enter()
        .map_err(|error| format!("these tests need root, or user namespaces: {error}"))
}
