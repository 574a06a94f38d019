// SPDX-License-Identifier: GPL-2.0-only

//! A queueing discipline as a trait. `adapter` connects it to the kernel;
//! [`registration`](super::registration) makes it a module.
//!
//! ```text
//!            requested → prepare → new           requested → prepare → apply → drop what is left
//!   RTNL     ───────────────────────────         ────────────────────[ lock ]──────────────────
//!   add ───▶ init                        change ─▶
//!
//!   qdisc lock:  enqueue, dequeue, peek, reset;  config and stats (copied out for dumps)
//! ```
//!
//! The adapter owns the parts of a qdisc other than its own state: its child, its timer, its place
//! in the state shared by the qdiscs of a namespace, and its counters. It lends them for the length
//! of a callback, through a value that proves which locks are held:
//!
//! | lends | in | held |
//! |---|---|---|
//! | [`Setup`] | `new` | RTNL; nothing else knows the qdisc |
//! | [`Sch`] | enqueue, dequeue, apply, stats, queue | the qdisc lock, bottom halves off |
//! | [`Rtnl`] | reset, destroy | nothing else uses the qdisc |
//!
//! Memory is reserved in [`Qdisc::prepare`] and returned by [`Qdisc::apply`], both outside of the
//! lock: nothing is allocated or freed under it.

use kernel::{error::VTABLE_DEFAULT_ERROR, prelude::*};

pub use super::scope::{Rtnl, Sch, Setup};
use super::{
    admission::{Admission, Verdict},
    namespace::Sharing,
    skb::{Purge, Skb},
};
use crate::common::discipline::Next;
use crate::common::options::Configuration;

/// A queueing discipline.
///
/// All methods with `self` run under the qdisc lock: they must not sleep, allocate, panic, or loop
/// without a bound.
#[vtable]
pub trait Qdisc: Sized + Send + 'static {
    /// The kind, as in `tc qdisc add … KIND`; at most 15 bytes. The module's alias is
    /// `net-sch-KIND`.
    const KIND: &'static str;

    /// Whether a packet may bypass an empty queue, straight to an idle device.
    const CAN_BYPASS: bool;

    /// Whether it returns the same packet whenever it is asked, early or late. A `wire` above need
    /// not ask such a qdisc in time.
    const TIMELESS: bool = false;

    /// Whether it has a child, class `:1`: a pfifo by default, which can be replaced.
    const CHILD: bool = false;

    /// Whether it has a timer, for [`Next::Wait`] and [`Sch::wake_at`].
    const WATCHDOG: bool = false;

    /// The state that it shares with the other qdiscs of its namespace, `()` for none. Its device
    /// receives that state's frames.
    type Shared: Sharing;

    /// The complete configuration from the options.
    type Config: Configuration;

    /// The resources of a configuration that cannot be obtained under the lock: memory.
    type Prepared;

    /// The statistics as they are dumped (`TCA_STATS_APP`).
    type Stats: AsRef<[u8]>;

    /// The statistics of a queue shown as a class; `[u8; 0]` if there are none.
    type QueueStats: AsRef<[u8]>;

    /// Reserves the resources of `config`, which replaces `current` in a change; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn prepare(current: Option<&Self::Config>, config: &Self::Config) -> Result<Self::Prepared>;

    /// Whether its device's packets are shown to the shared state, if that state sees arriving
    /// packets (`ARRIVALS`). This is read when the qdisc is added; a `change` does not affect it.
    fn sees_arrivals(_config: &Self::Config) -> bool {
        true
    }

    /// A new, empty qdisc.
    ///
    /// # Errors
    ///
    /// Whatever prevents its creation.
    fn new(
        config: Self::Config,
        prepared: Self::Prepared,
        setup: &mut Setup<'_, Self>,
    ) -> Result<Self>;

    /// Puts a new configuration in force; returns the old resources, to be freed outside of the
    /// lock.
    fn apply(
        &mut self,
        sch: &mut Sch<'_, Self>,
        config: Self::Config,
        prepared: Self::Prepared,
        purge: &mut Purge<'_>,
    ) -> Self::Prepared;

    /// The configuration in force.
    fn config(&self) -> Self::Config;

    /// The statistics now.
    fn stats(&mut self, sch: &mut Sch<'_, Self>) -> Self::Stats;

    /// Catches up with everything due before now. Called before the child is replaced, changed or
    /// shown.
    fn catch_up(&mut self, _sch: &mut Sch<'_, Self>) {}

    /// The child was replaced, and its packets are gone.
    fn child_replaced(&mut self, _sch: &mut Sch<'_, Self>) {}

    /// A packet arrives. The returned verdict states its fate.
    fn enqueue<'a>(
        &mut self,
        sch: &mut Sch<'_, Self>,
        skb: Skb,
        admission: Admission<'a>,
    ) -> Verdict<'a>;

    /// The device, or the parent, asks for a packet, and there is one inside.
    fn dequeue(&mut self, sch: &mut Sch<'_, Self>) -> Next<Skb>;

    /// The packet that dequeue would return now. Omit it if the qdisc cannot tell without
    /// dequeuing: the packet is then dequeued and kept for the next dequeue.
    fn peek(&self) -> Option<&Skb> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Resets to empty. The child is empty and the timer stopped; the counters of packets and bytes
    /// inside are adjusted afterwards.
    fn reset(&mut self, rtnl: &mut Rtnl<'_, Self>, purge: &mut Purge<'_>);

    /// The last callback, after a reset.
    fn destroy(&mut self, _rtnl: &mut Rtnl<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The number of queues shown as classes (`tc class show`), for a qdisc with such queues. It
    /// then has no child.
    fn queues(&self) -> u32 {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// One of those queues; `None` if it is not worth showing now.
    fn queue(
        &mut self,
        _sch: &mut Sch<'_, Self>,
        _queue: u32,
    ) -> Option<QueueView<Self::QueueStats>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// A queue shown as a class.
pub struct QueueView<S> {
    /// The minor number of the class, 1 to 65,535.
    pub minor: u16,
    /// Packets inside.
    pub packets: u32,
    /// Bytes inside.
    pub bytes: u32,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Further statistics of the queue (`TCA_STATS_APP`).
    pub stats: S,
}

/// A kind in the kernel's format: 16 bytes, zero-terminated.
pub(super) const fn id(kind: &str) -> [c_char; 16] {
    let mut id = [0; 16];
    let mut rest = kind.as_bytes();
    let mut i = 0;
    while let [first, tail @ ..] = rest {
        // The last byte stays zero. A longer kind would not be found by its name.
        if i < 15 {
            id[i] = *first as c_char;
        }
        i += 1;
        rest = tail;
    }
    id
}
