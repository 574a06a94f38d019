// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `fastpass`: its packets, and both ends of the protocol over a network that does what it likes.

mod exchange;
mod forgery;
mod frame;
mod siphash;

use crate::common::tests::heap;
