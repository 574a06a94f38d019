// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loads weft's eBPF programs and attaches them.
//!
//! ```no_run
//! use weft_ebpf::{Attacher, FlowSizes, HostConfig, Object, SwitchConfig};
//!
//! # fn main() -> anyhow::Result<()> {
//! let object = Object::find(None)?;
//! let flows = FlowSizes::attach(&object, "/sys/fs/cgroup/weft".as_ref())?;
//! let mut attacher = Attacher::new(&object, Some(&flows));
//! attacher.host("eth0", &HostConfig::default())?;
//! // In the switch's network namespace:
//! attacher.switch("port1", &SwitchConfig::default())?;
//! # Ok(())
//! # }
//! ```
//!
//! Programs stay attached until [`port::detach`] and [`FlowSizes::detach`], or until their device
//! or cgroup is gone; the process may end. Nothing is pinned: the state of an attachment is in the
//! maps of its programs, which are found through the device. A device belongs to the network
//! namespace of the calling thread.

mod bpf;
mod btf;
mod counters;
mod device;
mod filter;
mod flow_size;
mod object;
pub mod port;
mod routes;
mod sysctl;

pub use counters::Counters;
pub use flow_size::FlowSizes;
pub use object::Object;
pub use port::{Attacher, Gso, Hook, HostConfig, SwitchConfig};
pub use weft_ebpf_common::{
    counter::Counter,
    port::{Fallback, Policy, Role, Spray, Tagged, Untagged},
};
