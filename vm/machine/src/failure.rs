// SPDX-License-Identifier: MIT OR Apache-2.0

//! Failures with an exit status of their own.

use std::fmt;

/// The host lacks something that the message tells how to get (as clap's usage errors).
const SETUP: u8 = 2;
/// The guest printed nothing for too long (as `timeout`).
pub const HANG: u8 = 124;
/// The guest's kernel is in trouble, whatever the command said.
pub const KERNEL: u8 = 125;

/// An error that ends the program with a certain status.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    message: String,
}

impl Failure {
    /// With a status.
    pub fn new(status: u8, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// The host lacks something that the message tells how to get.
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
