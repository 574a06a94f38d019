// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `timely`, one file for each module.

mod rate;
