// SPDX-License-Identifier: GPL-2.0-only

//! The safe Rust face of the kernel's packet schedulers and congestion controls.
//!
//! A module implements [`qdisc::Qdisc`] (or [`congestion::CongestionControl`]) in safe code and
//! holds a registration; the `extern "C"` callbacks, the locking and the accounting that the
//! kernel asks for stay in here. This is the only place of weft's kernel code that has `unsafe`.
//!
//! # Vocabulary
//!
//! - *qdisc lock*: the spinlock of the root qdisc of a transmit queue. The kernel holds it, with
//!   bottom halves off, around enqueue, dequeue, peek and reset of the whole tree.
//! - *RTNL*: the mutex under which qdiscs are made, changed, dumped and destroyed.
//! - *backlog*: bytes, *qlen*: packets inside a qdisc, its children's included.
//!
//! # Lock order
//!
//! ```text
//! RTNL  →  qdisc lock (bottom halves off)  →  hrtimer base (watchdog), socket wake-ups (orphan)
//! ```
//!
//! The order continues with the lock of what the qdiscs of a namespace share, see [`namespace`].
//!
//! A module's state is reachable only through `Pin<&mut Self>` handed out under the qdisc lock.
//! Whatever sleeps or allocates (parsing, reserving memory, freeing it) happens outside of it, see
//! [`qdisc::Qdisc::prepare`].

pub mod bindings;
pub mod child;
pub mod clock;
pub mod congestion;
pub mod device;
pub mod flow;
mod layout;
pub mod namespace;
pub mod netlink;
pub mod qdisc;
pub mod settings;
pub mod skb;
pub mod store;
pub mod timeout_only;
pub mod watchdog;
