// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `hold`.

mod options;

use crate::common::tests::message;
