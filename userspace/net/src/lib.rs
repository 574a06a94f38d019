// SPDX-License-Identifier: MIT OR Apache-2.0

//! Builds a topology from network namespaces: a namespace for each node, a veth pair for each link,
//! addresses, routes and neighbours, and qdiscs at the ports. In one process, by netlink.
//!
//! ```no_run
//! use weft_net::{Plan, Settings, qdisc};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fabric = "fat-tree:k=4,rate=10mbit".parse::<weft_topo::Spec>()?.topology();
//! let mut plan = Plan::new("mine", &fabric, Settings::default())?;
//! plan.set_qdiscs(|_, port, link| {
//!     let (dev, wire) = (&port.name, link.wire);
//!     let lines = format!(
//!         "qdisc add dev {dev} root handle 1: wire rate {} delay {}\n\
//!          qdisc add dev {dev} parent 1: handle 10: pfabric limit 24",
//!         wire.rate, wire.delay
//!     );
//!     qdisc::parse("pfabric", &lines)
//! })?;
//! print!("{}", plan.commands());
//! let testbed = weft_net::up(&plan, None)?;
//! testbed.command("h0", "ping")?.args(["-c", "1", "h15"]).status()?;
//! weft_net::down("mine")?;
//! # Ok(())
//! # }
//! ```
//!
//! | module        | part                                                    |
//! |---------------|---------------------------------------------------------|
//! | [`qdisc`]     | parses lines of `tc` files into kernel requests         |
//! | `plan`        | the testbed to build, as data                           |
//! | `sysctl`      | variables of a namespace, as `sysctl -p` reads them     |
//! | `inherited`   | variables that a namespace inherits from the machine    |
//! | `metrics`     | the metrics of a host's routes                          |
//! | `commands`    | the plan as a shell script                              |
//! | [`machine`]   | hosts that are separate machines                        |
//! | `part`        | fabrics over several machines                           |
//! | `mounts`      | whether a testbed outlives the process                  |
//! | `modules`     | loads kernel modules from files                         |
//! | `up`          | builds a plan, completely or not at all                 |
//! | `tc`          | the lines of `tc` files that only `tc` can read         |
//! | `down`        | removes a testbed, complete or not                      |
//! | `processes`   | starts and ends a plan's processes                      |
//! | `orphans`     | ends connections that no process holds any more         |
//! | `testbed`     | existing testbeds; entering their nodes                 |
//! | `stats`       | the statistics of their qdiscs                          |
//! | `follow`      | packets on their way to a host, node by node            |
//! | `layout`      | the places of a testbed in the file system              |
//! | `namespace`   | threads in namespaces                                   |
//! | `netlink`     | batches of requests, dumps                              |
//! | `ring`        | dumps of many sockets by one system call                |
//! | `links`       | a namespace's devices, and which of them are ports      |
//! | `attributes`  | the attributes of requests                              |
//! | [`probe`]     | whether the kernel has a part                           |
//!
//! All state is the kernel's: `/run/weft` and `/run/netns` contain the testbeds. [`down`] removes a
//! testbed whose `up` or `down` was killed; nothing of it survives a reboot.

mod attributes;
mod commands;
mod down;
mod error;
mod follow;
mod inherited;
mod layout;
mod links;
pub mod machine;
mod metrics;
mod modules;
mod mounts;
mod namespace;
mod netlink;
mod orphans;
mod part;
mod plan;
pub mod probe;
mod process;
mod processes;
pub mod qdisc;
mod requirement;
mod ring;
pub mod rootless;
mod shell;
mod stats;
mod sysctl;
mod tc;
mod testbed;
mod up;

pub use commands::{Commands, ProcessCommands};
pub use down::{Removed, down, kill};
pub use error::{Error, Result};
pub use follow::{Follower, Identity, Seen};
pub use inherited::{tuned_settings, untune};
pub use metrics::RouteMetrics;
pub use mounts::{Mounts, mounts};
pub use plan::{MAX_TESTBED_NAME, Plan, Settings, check_name};
pub use process::Process;
pub use processes::{Ended, Processes, watch};
pub use stats::{QdiscStats, StatsReader};
pub use sysctl::Sysctl;
pub use testbed::{Record, Testbed, list, unblock_signals};
pub use up::{Hook, Visit, up, up_watched};
