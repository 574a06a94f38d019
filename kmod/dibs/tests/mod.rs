// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `dibs`, one file for each module, and a naive model of a switch.

mod ip;
mod naive;
mod options;
mod policy;
mod switch;

use crate::common::tests::message;
