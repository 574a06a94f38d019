// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `int`, one file for each module.

mod meter;
mod options;

use crate::common::tests::message;
