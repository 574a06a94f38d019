// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `wire`, one file for each module.

mod line;
mod link;
mod options;

use crate::common::tests::message;
