// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `pfabric`, one file for each module, and a naive model.

mod naive;
mod options;
mod queue;
mod rate;
mod scenarios;

use crate::common::tests::message;
