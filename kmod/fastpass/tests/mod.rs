// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `fastpass`: its packets, both ends of the protocol over a faulty network, and a host
//! between its packets and an arbiter.

mod address;
mod arbiter;
mod calendar;
mod control_paths;
mod exchange;
mod forgery;
mod frame;
mod host;
mod ledger;
mod naive;
mod options;
mod siphash;

use crate::common::tests::message;
