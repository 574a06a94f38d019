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
//! A module's state is reachable only through `&mut self` handed out under the qdisc lock. Whatever
//! sleeps or allocates (parsing, reserving memory, freeing it) happens outside of it, see
//! [`qdisc::Qdisc::prepare`].
//!
//! # Why no safe call can break memory
//!
//! - *What is locked is proved.* Child, timer, group address, namespace and counters are the
//!   adapter's, beside the module's state and not in it. A callback borrows them through a
//!   [`qdisc::Sch`] (the lock is held), [`qdisc::Rtnl`] or [`qdisc::Setup`] (nobody else is there)
//!   that it cannot keep: its lifetime is the callback's, and a module's state is `'static`. It
//!   gets one of them at a time, so it can neither mix up two qdiscs nor swap their parts.
//! - *Counters follow from what happens.* A packet that arrives comes with an
//!   [`admission::Admission`], and the only way to an answer is to say what became of it; that
//!   counts it. A dequeue counts what leaves, and a qdisc that counts no packet is not asked for
//!   one. So what parents are told always fits what they count, and they, who free by these
//!   numbers, meet at worst a qdisc that withholds packets, as a shaper does.
//! - *A packet has one owner*, [`skb::Skb`], and is freed once. What a module may read or write of
//!   it lies between its first and last byte. Kept for too long it is at worst not freed: its
//!   device, the one thing it refers to without a reference, is looked at only after it was set
//!   anew.
//! - *The order of beginning and end is the adapter's.* It initialises the timer in place and stops
//!   it before the qdisc goes; it registers what the namespaces share before the qdiscs, and takes
//!   it away after them; a registration is pinned in the module's memory, so that it ends with the
//!   module.
//! - *What one type wrote no other reads.* The kernel finds a namespace's state by a number that
//!   this module has once, for the one type it was registered for; Rust and C agree on every
//!   structure both touch, or nothing is registered ([`layout`]).
//!
//! Left to the modules is what breaks no memory: how long they take, what they withhold, and not to
//! sleep (the kernel crate's own functions can; of these here only [`store`] would, and refuses
//! to). The congestion control side ([`congestion`], [`settings`], [`timeout_only`], [`class`],
//! [`described`], [`ecn`], [`probe`], [`round`], [`way`]) copies a flow's state in and out of a
//! socket that is locked for as long as a callback.

mod adapter;
pub mod admission;
pub mod bindings;
mod child;
pub mod class;
pub mod clock;
pub mod congestion;
pub mod described;
mod detour;
mod device;
pub mod ecn;
pub mod flow;
mod frame;
mod layout;
mod lent;
pub mod namespace;
pub mod netlink;
mod private;
pub mod probe;
pub mod qdisc;
pub mod registration;
pub mod round;
mod scope;
pub mod settings;
pub mod skb;
pub mod socket;
pub mod store;
pub mod tagged;
pub mod timeout_only;
mod watchdog;
pub mod way;
pub mod window;
