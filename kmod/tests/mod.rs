// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Properties of the formats of all mechanisms.

pub(crate) mod check;
pub(crate) mod corpus;

use crate::common::tests::message;
