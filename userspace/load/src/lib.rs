// SPDX-License-Identifier: MIT OR Apache-2.0

//! Traffic for weft's fabrics: what flows there are, and how they fared.
//!
//! | module         | what it holds                                                              |
//! |----------------|----------------------------------------------------------------------------|
//! | [`sizes`]      | how large flows are: published tables, a person's own, fixed, uniform      |
//! | [`arrivals`]   | the times between them: Poisson, log-normal                                |
//! | [`trace`]      | flows from a file                                                          |
//! | [`load`]       | the rate that makes a given load                                           |
//! | [`hosts`]      | what files call the hosts of a fabric                                      |
//! | [`pairs`]      | who sends to whom                                                          |
//! | [`incast`]     | many that answer one at once                                               |
//! | [`deadlines`]  | in how much time they have to be done                                      |
//! | [`collective`] | all-reduce, all-to-all and replication, round after round                  |
//! | [`generate`]   | all of it and a seed: the flows, in order; open or closed loop             |
//! | [`framing`]    | what bytes become on a wire                                                |
//! | [`ideal`]      | the schedule that pFabric calls ideal, and what flows wait in it           |
//! | [`slowdown`]   | the best possible flow completion time, and how far from it a flow was     |
//! | [`statistics`] | means, percentiles, size buckets, confidence intervals                     |
//! | [`record`]     | the results' file                                                          |
//! | [`engine`]     | sends the flows between the hosts of a fabric, and takes their times       |
//!
//! All but the last is pure: no clock, no socket, and random numbers only from a seed.

mod after;
pub mod arrivals;
pub mod collective;
pub mod deadlines;
pub mod engine;
mod error;
pub mod framing;
pub mod generate;
pub mod hosts;
pub mod ideal;
pub mod incast;
mod lines;
pub mod load;
pub mod pairs;
pub mod quantity;
pub mod random;
pub mod record;
pub mod sizes;
pub mod slowdown;
pub mod statistics;
mod strata;
pub mod trace;

pub use error::{Error, Result};
