// SPDX-License-Identifier: MIT OR Apache-2.0

//! Datacenter topologies as data. Nothing here touches a machine: a specification becomes a
//! [`Topology`] of nodes, links and addresses, and that has routes and paths.
//!
//! ```
//! use weft_topo::Spec;
//!
//! let fabric = "leaf-spine:leaves=9,spines=4,hosts=16".parse::<Spec>()?.topology();
//! let (h0, h143) = (fabric.find("h0").unwrap(), fabric.find("h143").unwrap());
//! assert_eq!(fabric.hops(h0, h143), Some(4));
//! assert_eq!(fabric.path_count(h0, h143), 4);
//! # Ok::<(), weft_topo::Error>(())
//! ```
//!
//! | module          | part                                                              |
//! |-----------------|-------------------------------------------------------------------|
//! | [`spec`]        | what a person writes: the list of all topologies, a module each   |
//! | [`mod@file`]    | a TOML file's own nodes and links                                 |
//! | `options`       | the options after the colon                                       |
//! | [`units`]       | rates and delays                                                  |
//! | [`topology`]    | nodes, ports, links, groups of hosts                              |
//! | [`address`]     | who has which address                                             |
//! | [`route`]       | routing tables                                                    |
//! | [`path`]        | shortest paths, round-trip times, bandwidth-delay products        |
//! | [`elision`]     | between which ports BFC elides backpressure                       |
//! | `describe`      | all of it as text                                                 |
//! | `dilation`      | the same fabric, slower                                           |

//! # What a kernel needs for these plans
//!
//! - A node's two addresses on its `lo`, as `/32` and `/128`; none on ports.
//! - On each port the MAC address of the plan, and no link-local address: neighbours are permanent
//!   entries, so nothing is asked or detected before the first packet.
//! - Routes with the flag `onlink`; those without next hops of type `unreachable`.
//! - In switches forwarding, and everywhere `rp_filter=0`, for the way back may be another; where
//!   there are several ways, a hash of each switch's own that tells flows by ports, as the papers'
//!   ECMP does.

#![forbid(unsafe_code)]

pub mod address;
pub mod bfc_testbed;
mod describe;
mod dilation;
pub mod dumbbell;
pub mod elision;
mod error;
pub mod fat_tree;
pub mod file;
pub mod leaf_spine;
mod options;
pub mod path;
mod picture;
pub mod rack;
pub mod route;
pub mod spec;
pub mod topology;
pub mod units;

pub use address::{Address, Mac};
pub use elision::Elision;
pub use error::Error;
pub use path::{BestPaths, Path};
pub use route::{NextHop, Prefix, Route, Routes};
pub use spec::Spec;
pub use topology::{Bisection, Group, Kind, Link, Node, NodeId, Port, Topology, Wire};
pub use units::{Delay, Rate};
