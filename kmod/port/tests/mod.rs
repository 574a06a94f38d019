// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `port`, one file for each module, and a naive model of a switch.

mod frame;
mod naive;
mod options;
mod paused;
mod pausing;
mod switch;

use crate::common::tests::message;
