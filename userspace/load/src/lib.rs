// SPDX-License-Identifier: MIT OR Apache-2.0

//! Traffic for weft's fabrics: workloads, and the results of their flows.
//!
//! | module         | contents                                                                   |
//! |----------------|----------------------------------------------------------------------------|
//! | [`sizes`]      | flow sizes: published tables, custom tables, fixed, uniform                |
//! | [`arrivals`]   | times between flows: Poisson, log-normal                                   |
//! | [`trace`]      | flows from a file                                                          |
//! | [`load`]       | the rate that makes a given load                                           |
//! | [`hosts`]      | names of a fabric's hosts in files                                         |
//! | [`pairs`]      | pairs of sender and receiver                                               |
//! | [`incast`]     | many hosts that answer one at once                                         |
//! | [`deadlines`]  | deadlines of flows                                                         |
//! | [`collective`] | all-reduce, all-to-all and replication, round after round                  |
//! | [`generate`]   | the flows of a workload and a seed, in order; open or closed loop          |
//! | [`framing`]    | bytes on the wire                                                          |
//! | [`ideal`]      | the schedule that pFabric calls ideal, and how long flows wait in it       |
//! | [`slowdown`]   | the best possible flow completion time, and a flow's slowdown              |
//! | [`statistics`] | means, percentiles, size buckets, confidence intervals                     |
//! | [`record`]     | the results' file                                                          |
//! | [`engine`]     | sends flows between the hosts of a fabric, and measures their times        |
//!
//! All modules except the last are pure: no clock, no socket, and random numbers only from a seed.

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
mod predecessors;
pub mod quantity;
pub mod random;
pub mod record;
pub mod sizes;
pub mod slowdown;
pub mod statistics;
mod strata;
pub mod trace;

pub use error::{Error, Result};
