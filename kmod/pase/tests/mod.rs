// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `pase`, one file for each module, and naive models of an arbitrator and of a fabric.

mod arbiter;
mod criterion;
mod delegation;
mod global;
mod guard;
mod host;
mod local;
mod message;
mod naive;
mod path;
mod probe;
mod window;
