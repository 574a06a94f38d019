// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `hpcc`, one file for each module.

mod law;
