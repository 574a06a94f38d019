// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures of a run, from its flows, its ports and its summary.

mod growth;
mod of;
mod port;
mod receiver;
mod senders;
mod subject;
mod table;

pub(crate) use of::Of;
pub(super) use port::Place;
pub(super) use subject::Subject;
pub(super) use table::{Asked, Where};
