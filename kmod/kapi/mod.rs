// SPDX-License-Identifier: GPL-2.0-only

//! The safe Rust interface to the kernel's packet schedulers and congestion controls.
//!
//! A module implements [`qdisc::Qdisc`] (or [`congestion::CongestionControl`]) in safe code and
//! holds a registration. The `extern "C"` callbacks, the locking and the accounting that the kernel
//! requires stay in here. This is the only place of weft's kernel code that has `unsafe`.
//!
//! # Vocabulary
//!
//! - *qdisc lock*: the spinlock of the root qdisc of a transmit queue. The kernel holds it, with
//!   bottom halves off, around enqueue, dequeue, peek and reset of the whole tree.
//! - *RTNL*: the mutex under which qdiscs are created, changed, dumped and destroyed.
//! - *backlog*: bytes, *qlen*: packets inside a qdisc, including its children's.
//!
//! # Lock order
//!
//! ```text
//! RTNL  →  qdisc lock (bottom halves off)  →  hrtimer base (watchdog), socket wake-ups (orphan)
//! ```
//!
//! The order continues with the lock of the state that the qdiscs of a namespace share, see
//! [`namespace`].
//!
//! A module's state is reachable only through `&mut self`, handed out under the qdisc lock. Work
//! that sleeps or allocates (parsing, reserving memory, freeing it) happens outside of it, see
//! [`qdisc::Qdisc::prepare`].
//!
//! # Why no safe call can break memory
//!
//! - *Types prove which locks are held.* Child, timer, group address, namespace and counters belong
//!   to the adapter, beside the module's state and not in it. A callback borrows them through a
//!   [`qdisc::Sch`] (the lock is held), [`qdisc::Rtnl`] or [`qdisc::Setup`] (access is exclusive),
//!   which it cannot keep: its lifetime is the callback's, and a module's state is `'static`. A
//!   callback gets one of them at a time, so it can neither mix up two qdiscs nor swap their parts.
//! - *Counters follow from events.* A packet that arrives comes with an [`admission::Admission`],
//!   and the only way to a return code is to state the packet's fate, which counts it. A dequeue
//!   counts the packet that leaves, and a qdisc that counts no packet is not asked for one. So the
//!   numbers that parents receive always match their own counts. Parents free memory by these
//!   numbers; at worst they meet a qdisc that withholds packets, as a shaper does.
//! - *A packet has one owner*, [`skb::Skb`], and is freed once. A module can read or write only
//!   between the packet's first and last byte. If it keeps a packet too long, the packet is at
//!   worst not freed: its device, the one thing to which it refers without a reference, is used
//!   only after it was set anew.
//! - *The adapter orders initialisation and teardown.* It initialises the timer in place and stops
//!   it before the qdisc is freed. It registers the state that namespaces share before the qdiscs,
//!   and unregisters it after them. A registration is pinned in the module's memory, so it ends
//!   with the module.
//! - *Memory written as one type is never read as another.* The kernel finds a namespace's state by
//!   a number that this module has once, for the one type that it registered. Rust and C agree on
//!   every structure that both access, or nothing is registered ([`layout`]).
//!
//! The modules remain responsible for matters that cannot break memory: how long they take, which
//! packets they withhold, and not sleeping (the kernel crate's own functions can sleep; of the
//! functions here only [`store`] would, and it refuses to under a lock). The congestion control
//! side ([`congestion`], [`settings`], [`timeout_only`], [`class`], [`dctcp`], [`described`],
//! [`echo`], [`ecn`], [`probe`], [`recovery`], [`returned`], [`round`], [`route`]) copies a flow's
//! state in and out of a socket that is locked for the length of a callback.

#[macro_use]
pub(crate) mod invariant;

mod adapter;
pub mod admission;
pub mod bindings;
mod child;
pub mod class;
pub mod clock;
pub mod congestion;
pub mod dctcp;
pub mod described;
mod detour;
mod device;
pub mod echo;
pub mod ecn;
pub mod flow;
mod frame;
mod layout;
mod lent;
pub mod namespace;
pub mod netlink;
pub mod outbox;
mod private;
pub mod probe;
pub mod pump;
pub mod qdisc;
pub mod recovery;
pub mod registration;
pub mod returned;
pub mod round;
mod scope;
#[macro_use]
pub mod settings;
pub mod route;
pub mod skb;
pub mod socket;
pub mod store;
pub mod tagged;
pub mod timeout_only;
mod watchdog;
pub mod window;
