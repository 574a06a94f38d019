// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors with their own exit status.

use std::fmt;

/// The host lacks something; the message states the cure (same status as clap's usage errors).
const SETUP: u8 = 2;
/// The guest printed nothing for too long (same status as `timeout`).
pub const HANG: u8 = 124;
/// The guest's kernel is in trouble, whatever the command's exit status.
pub const KERNEL: u8 = 125;

/// An error that ends the program with a given status.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    message: String,
}

impl Failure {
    /// An error with a status.
    pub fn new(status: u8, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// The host lacks something; the message states the cure.
    pub fn setup(message: impl Into<String>) -> Self {
        Self::new(SETUP, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
