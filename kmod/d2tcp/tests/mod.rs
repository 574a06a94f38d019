// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `d2tcp`, one file for each module.

mod law;
mod power;
