// SPDX-License-Identifier: MIT OR Apache-2.0

//! What `tc` asks of a qdisc's code.

use crate::args::Complaint;
use crate::tc::{Output, Units};
use std::ffi::CStr;
use weft_core::common::nla::{NoRoom, Refusal, Sink};

/// One qdisc.
pub trait Qdisc {
    /// Its name in `tc qdisc add … KIND`.
    const KIND: &'static CStr;

    /// What a request to the kernel says.
    type Options;

    /// Reads the words behind the qdisc's name.
    ///
    /// Values out of range are refused here, as the kernel would refuse them. Whether options that
    /// are missing are needed is for the kernel to say: a `change` needs fewer than an `add`.
    ///
    /// # Errors
    ///
    /// What to say of a wrong command line.
    fn options(words: &[&str], units: &impl Units) -> Result<Self::Options, Complaint>;

    /// Writes the request.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the message is full.
    fn put(options: &Self::Options, sink: &mut impl Sink) -> Result<(), NoRoom>;

    /// Prints dumped options, the payload of `TCA_OPTIONS`: what follows `qdisc KIND 1: root …`.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if the dump is malformed; nothing is printed then.
    fn print_options(dump: &[u8], output: &impl Output) -> Result<(), Refusal>;

    /// Prints dumped statistics, the payload of `TCA_STATS_APP`: what follows ` backlog 0b 0p …`.
    ///
    /// # Errors
    ///
    /// [`TooShort`] if the dump lacks fields; nothing is printed then.
    fn print_statistics(dump: &[u8], output: &impl Output) -> Result<(), TooShort>;
}

/// Dumped statistics lack fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// How many bytes they need.
    pub needed: usize,
}
