// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `d2tcp`.

mod law;
