// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The switch of Backpressure Flow Control: per-hop, per-flow flow control with bounded state.
//!
//! P. Goyal, P. Shah, K. Zhao, G. Nikolaidis, M. Alizadeh, T. E. Anderson: "Backpressure Flow
//! Control", NSDI 2022, §3.3, Appendices A.2, A.3, A.7, A.8 and B.
//!
//! # Vocabulary
//!
//! - **switch**: what forwards packets between its ports; in the kernel, a network namespace.
//! - **port**: a network device. **Ingress** is said of the port by which a packet comes,
//!   **egress** of the one by which it leaves.
//! - **queue**: a first-in-first-out list of packets at an egress port. Queue 0 is for control
//!   frames.
//! - **upstream queue**: the queue in which a packet waited at the hop before. Each packet carries
//!   its number, the paper's `upstreamQ`.
//! - **neighbour**: what is at the other end of a port's link; **upstream** for the packets that
//!   come from it, **downstream** for those that go to it.
//! - **HRTT**: 1-hop round-trip time. **µ**: a port's rate. **Th**: the pause threshold, in bytes.
//! - **active queue**: one that has packets and is not paused; N_active is their number at a port.
//! - **congested** is said of a queue, by the packet that found it longer than Th when it arrived.
//!
//! # Algorithm
//!
//! ```text
//!   upstream neighbour                    this switch                     downstream neighbour
//!
//!   queue 7 ──── packet (upstreamQ 7) ──▶ ingress a ─▶ egress b: queue 3 ── packet (upstreamQ 3) ──▶
//!      ▲                                     │            │ length > Th?
//!      │                                     │            ▼
//!      └──── pause 7 / resume 7 ◀───── counter[a][7] += 1, and −= 1 when that packet leaves
//!                                      0 → 1: pause    1 → 0: resume
//! ```
//!
//! **Assignment** (§3.3.1): a flow that becomes active gets an empty queue, a random one if there
//! is none, and keeps it as long as it has packets inside and for 2 HRTT after that.
//! **Scheduling**: deficit round robin among the active queues, control frames first.
//! **Backpressure** (§3.3.2): as drawn above, with Th = HRTT · µ / N_active. "We pause an upstream
//! queue if *any* of its flows are assigned a congested queue, and we resume when *none* of its
//! flows have packets at a congested queue (as measured at the time the packet arrived at the
//! switch)." **Loss**: "we also periodically send a bitmap of the queues that should be paused at
//! the upstream".
//!
//! # Structure
//!
//! | file | what it is | source |
//! |---|---|---|
//! | [`egress`] | one port's queues: what an arriving packet meets, which packet is sent next | §3.3 |
//! | [`flows`] | the flow table: which queue a flow has | §3.3.1 |
//! | [`rounds`] | deficit round robin | Shreedhar, Varghese (SIGCOMM 1995) |
//! | [`switch`] | what the ports of a switch share: counters, neighbours, the buffer | §3.3.2 |
//! | [`deadlines`] | which port's bitmap is due next | |
//! | [`ingress`] | one port's pause counters, and what the upstream neighbour is told | §3.3.2 |
//! | [`neighbour`] | what the downstream neighbour says, and whether it does | §3.3 |
//! | [`times`] | for how long each queue has been paused | |
//! | [`elision`] | between which ports there is no backpressure, lest a cycle of it deadlocks | App. B |
//! | [`queue_set`] | a set of queues, as a bitmap | §3.3.1 |
//! | [`fifo`] | one queue's packets | |
//! | [`window`] | the window of a host | App. A.1, A.8 |
//! | [`options`] | what `tc` says to the qdisc, and what it dumps | |
//! | [`stats`] | what the qdisc tells of itself and of its queues | |
//! | [`frame`] | what a switch tells the neighbour upstream | §3.3.2 |
//!
//! # Deviations from the paper
//!
//! - **A queue that is empty and paused is assigned last** of the empty ones. The paper's bitmap
//!   does not look at pauses; a new flow would then wait for the resume of one that has left.
//! - **The search for an empty queue goes round**, as the paper's does among its pipelines, so that
//!   a queue stays unused for as long as possible after its flow has left it: that flow may come
//!   back within 2 HRTT, and would share it.
//! - **A queue's length is what the arriving packet finds**, itself not included: a packet that is
//!   alone congests nothing, however short HRTT · µ is.
//! - **A pause that was followed by its resume before anybody was told is not told**, and several
//!   changes at once are told as one bitmap.
//! - **A pause lapses** that is not refreshed, and a watchdog may end one that has no end: see
//!   [`neighbour`].
//! - **Of the shared buffer, a port may have α times what is free**
//!   ([`Share`](crate::common::share::Share)), as in the switches whose "standard shared buffer
//!   memory model" (§6.2.1) the paper has; queues have no shares. A packet is dropped if its port
//!   has its share, or if its port or the switch is full.
//! - **Priority classes and the label of incasts are the packet's rank**; so with srf, whose rank
//!   is the flow's remaining size, there is one class, and no label.
//! - **The quantum grows** to the longest packet, so that a turn of the round robin always sends
//!   one.

pub mod deadlines;
pub mod egress;
pub mod elision;
pub mod fifo;
pub mod flows;
pub mod frame;
pub mod ingress;
pub mod neighbour;
pub mod options;
pub mod queue_set;
pub mod rounds;
pub mod stats;
pub mod switch;
pub mod times;
pub mod window;

#[cfg(test)]
mod tests;

/// The qdisc's name, as in `tc qdisc add … bfc`.
pub const KIND: &str = "bfc";

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE, stats::QueueStats::TABLE],
    example: "rate 10gbit hrtt 2us"
);
