// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Tests of weft-proto, one file for each of its own.

mod bfc_frame;
mod bfc_options;
mod bfc_stats;
mod check;
mod corpus;
mod hold;
mod message;
mod nla;
mod pfabric;
mod wire;
