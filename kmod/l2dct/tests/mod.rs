// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `l2dct`.

mod law;
