// SPDX-License-Identifier: MIT OR Apache-2.0

//! Datacenter topologies as data. A specification becomes a [`Topology`] of nodes, links and
//! addresses, which has routes and paths. Nothing here changes the machine.
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
//! | [`spec`]        | specifications: the list of all topologies, a module each         |
//! | [`mod@file`]    | custom nodes and links in a TOML file                             |
//! | `options`       | the options after the colon                                       |
//! | [`units`]       | rates and delays                                                  |
//! | [`topology`]    | nodes, ports, links, groups of hosts                              |
//! | [`address`]     | addresses of nodes                                                |
//! | [`route`]       | routing tables                                                    |
//! | [`path`]        | shortest paths, round-trip times, bandwidth-delay products        |
//! | [`elision`]     | pairs of ports whose backpressure BFC elides                      |
//! | `describe`      | the whole plan as text                                            |
//! | `dilation`      | the same fabric with all times multiplied                         |

//! # What a kernel needs for these plans
//!
//! - A node's two addresses on its `lo`, as `/32` and `/128`; none on ports.
//! - On each port, the MAC address of the plan and no link-local address. Neighbours are permanent
//!   entries, so no neighbour discovery precedes the first packet.
//! - Routes with the flag `onlink`; routes without next hops have type `unreachable`.
//! - Forwarding in switches, and `rp_filter=0` everywhere, because the reverse path may differ.
//!   Where there are several paths, each switch needs its own hash that distinguishes flows by
//!   ports, like the papers' ECMP.

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
