// SPDX-License-Identifier: MIT OR Apache-2.0

//! The laboratory: runs on fabrics, and their results. A caller that wants a run, such as a command
//! line or an experiment, builds a [`run::Run`]; nothing here reads arguments or prints.
//!
//! | module         | contents                                                                |
//! |----------------|-------------------------------------------------------------------------|
//! | [`run`]        | a run, from its options to its results' file                            |
//! | [`fabric`]     | a topology, its dilation, and a scheme                                  |
//! | [`topology`]   | topologies by name                                                      |
//! | [`scheme`]     | the settings of ports, hosts and routing: the folders of `tc-configs`   |
//! | [`parameter`]  | a scheme's parameters, and their values on a fabric                     |
//! | [`variables`]  | `$name` in a scheme's files                                             |
//! | [`traffic`]    | the flows of a run                                                      |
//! | [`fault`]      | faults of a node during a run                                           |
//! | `process`      | the scheme's processes on nodes during a run                            |
//! | [`session`]    | a person's own programs on a fabric, instead of a run's flows           |
//! | `signals`      | waiting for a command in spite of signals                               |
//! | [`testbed`]    | a fabric on this machine: its plan, and weft's programs at its ports    |
//! | `trial`        | flows on a woven fabric, from the first byte to the summary             |
//! | `follow`       | the paths of packets to a host                                          |
//! | `hops`         | how many of a flow's packets took more hops than necessary              |
//! | `listen`       | a thread that listens to packets during a run                           |
//! | `ports`        | the figures that ports report                                           |
//! | [`live`]       | the current activity of ports, for people to watch                      |
//! | `gates`        | the tests that a credible run must pass                                 |
//! | `inputs`       | the inputs that decide a result, as hashes                              |
//! | [`results`]    | results, and summaries of several of them                               |
//! | [`experiment`] | a paper's measurements, as runs, and its claims about them              |
//! | [`number`]     | numbers in a form for people                                            |
//! | [`words`]      | words of a command line                                                 |
//! | [`error`]      | a person's mistakes, as distinct from failures                          |

#[cfg(test)]
#[path = "../tests/documents/block.rs"]
mod block;
mod clock;
pub mod error;
pub mod experiment;
pub mod fabric;
pub mod fault;
mod follow;
mod gates;
mod hops;
mod inputs;
mod listen;
pub mod live;
pub mod number;
pub mod parameter;
mod ports;
mod process;
mod randomness;
pub mod results;
pub mod run;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;
pub mod scheme;
pub mod session;
mod shape;
mod signals;
pub mod testbed;
pub mod topology;
pub mod traffic;
mod trial;
pub mod variables;
pub mod words;
