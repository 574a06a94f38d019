// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `resend`, one file for each module, and a naive model of a host.

mod copies;
mod host;
mod notice;
mod options;
pub(crate) mod packets;
mod segment;

use crate::common::tests::message;
