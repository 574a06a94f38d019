// SPDX-License-Identifier: MIT OR Apache-2.0

//! A mount namespace with its own `/run`, and a network namespace to which the tests can return.

/// The process must still have one thread.
pub(crate) fn enter() -> Result<(), String> {
    weft_net::rootless::enter()
        .map_err(|error| format!("these tests need root, or user namespaces: {error}"))
}
