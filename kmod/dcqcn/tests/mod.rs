// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `dcqcn`, one file for each module.

mod rate;
