// SPDX-License-Identifier: MIT OR Apache-2.0

//! The laboratory: what is run on a fabric, and what came of it. Whoever asks for a run, be it a
//! command line or an experiment, builds a [`run::Run`]; nothing here reads arguments or prints.
//!
//! | module         | what it holds                                                           |
//! |----------------|-------------------------------------------------------------------------|
//! | [`run`]        | a run, from what was asked for to its results' file                     |
//! | [`fabric`]     | a topology, how much slower it is, and a scheme                         |
//! | [`topology`]   | topologies by name                                                      |
//! | [`scheme`]     | what ports, hosts and routing get: the folders of `tc-configs`          |
//! | [`parameter`]  | a scheme's parameters, and what they come to on a fabric                |
//! | [`variables`]  | `$name` in a scheme's files                                             |
//! | [`traffic`]    | which flows there are                                                   |
//! | [`fault`]      | what is done to a node meanwhile                                        |
//! | `process`      | what runs on nodes meanwhile, as the scheme says                        |
//! | [`session`]    | a person's own programs on a fabric, instead of a run's flows           |
//! | `signals`      | waiting for a command, whatever happens meanwhile                       |
//! | [`testbed`]    | a fabric on this machine: its plan, weft's programs at its ports        |
//! | `trial`        | flows on a woven fabric, from the first byte to the summary             |
//! | `follow`       | where packets to a host come by                                         |
//! | `hops`         | how many of a flow's packets took more hops than they had to            |
//! | `listen`       | a thread that listens to packets meanwhile                              |
//! | `ports`        | what ports say of themselves                                            |
//! | [`live`]       | what ports do from one moment to the next, for people to look at        |
//! | `gates`        | what a run must pass to be believed                                     |
//! | `inputs`       | what decides a result, as hashes                                        |
//! | [`results`]    | results, and what several of them come to                               |
//! | [`experiment`] | what a paper measured, as runs, and what it says of them                |
//! | [`number`]     | numbers as people read them                                             |
//! | [`words`]      | words of a command line                                                 |
//! | [`error`]      | what a person got wrong, told apart from what went wrong                |

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
