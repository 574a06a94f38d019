// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `carry`.

mod options;
mod telemetry;

use crate::common::tests::message;
