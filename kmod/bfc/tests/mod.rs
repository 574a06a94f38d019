// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tests of `bfc`: a file for each module, one for the rules of the authors' simulator, and a naive
//! model.

mod egress;
mod elision;
mod flows;
mod frame;
mod ingress;
mod model;
mod naive;
mod neighbour;
mod options;
mod queue_set;
mod rig;
mod rounds;
mod simulator;
mod stats;
mod switch;
mod window;

use crate::common::tests::message;
