// SPDX-License-Identifier: MIT OR Apache-2.0

//! Weaves a topology out of network namespaces: a namespace for each node, a veth pair for each
//! link, addresses, routes and neighbours, and qdiscs at the ports. In one process, by netlink.
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
//! | [`qdisc`]     | lines of `tc` files, to what the kernel takes           |
//! | `plan`        | what is to be made, as data                             |
//! | `sysctl`      | variables of a namespace, as `sysctl -p` reads them     |
//! | `inherited`   | variables that a namespace takes from the machine       |
//! | `metrics`     | what a host's routes say besides their next hops        |
//! | `commands`    | the same as a shell script                              |
//! | [`machine`]   | hosts that are machines of their own                    |
//! | `part`        | fabrics over several machines                           |
//! | `mounts`      | whether a testbed is there when the process has ended   |
//! | `modules`     | loads kernel modules by their files                     |
//! | `up`          | builds a plan, or leaves nothing                        |
//! | `tc`          | the lines of `tc` files that only `tc` reads            |
//! | `down`        | removes a testbed, whatever there is of it              |
//! | `processes`   | starts what a plan names, ends it                       |
//! | `orphans`     | ends connections that no process has any more           |
//! | `testbed`     | which there are; into their nodes                       |
//! | `stats`       | what their qdiscs have counted                          |
//! | `follow`      | packets on their way to a host, node by node            |
//! | `layout`      | where a testbed is in the file system                   |
//! | `namespace`   | threads in namespaces                                   |
//! | `netlink`     | batches of requests, dumps                              |
//! | `links`       | a namespace's devices, and which of them are ports      |
//! | `attributes`  | what requests are made of                               |
//! | [`probe`]     | whether the kernel has a part                           |
//!
//! All state is the kernel's: whoever finds `/run/weft` and `/run/netns` finds the testbeds. A
//! testbed whose `up` or `down` was killed is removed by [`down`]; nothing of it survives a reboot.

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
pub use inherited::{tuned_settings, untuned};
pub use metrics::RouteMetrics;
pub use mounts::{Mounts, mounts};
pub use plan::{MAX_TESTBED_NAME, Plan, Settings, check_name};
pub use process::Process;
pub use processes::{Ended, Processes, watch};
pub use shell::quoted;
pub use stats::{QdiscStats, StatsReader};
pub use sysctl::Sysctl;
pub use testbed::{Record, Testbed, list, unblock_signals};
pub use up::{Hook, Visit, up, up_watched};
