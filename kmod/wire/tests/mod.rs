// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `wire`, one file for each of its own.

mod line;
mod link;
mod options;

use crate::common::tests::message;
