// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The switch of Backpressure Flow Control: per-hop, per-flow flow control with bounded state.
//!
//! P. Goyal, P. Shah, K. Zhao, G. Nikolaidis, M. Alizadeh, T. E. Anderson: "Backpressure Flow
//! Control", NSDI 2022, §3.3, Appendices A.2, A.3, A.7, A.8 and B.
//!
//! # Vocabulary
//!
//! - **switch**: forwards packets between its ports; in the kernel, a network namespace.
//! - **port**: a network device. A packet arrives on its **ingress** port and leaves by its
//!   **egress** port.
//! - **queue**: a first-in-first-out list of packets at an egress port. Queue 0 is for control
//!   frames and, if there are such, control packets.
//! - **upstream queue**: the queue in which a packet waited at the previous hop. Each packet
//!   carries its number, the paper's `upstreamQ`.
//! - **neighbour**: the node at the other end of a port's link; **upstream** for the packets that
//!   come from it, **downstream** for those that go to it.
//! - **HRTT**: 1-hop round-trip time. **µ**: a port's rate. **Th**: the pause threshold, in bytes.
//! - **active queue**: one that has packets and is not paused; N_active is their number at a port.
//! - **congested queue**: a packet found it longer than Th when it arrived.
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
//! **Assignment** (§3.3.1): a flow that becomes active gets an empty queue, or a random one if
//! there is none. It keeps the queue as long as it has packets inside and for 2 HRTT after that.
//! **Scheduling**: deficit round robin among the active queues, control frames first.
//! **Backpressure** (§3.3.2): as drawn above, with Th = HRTT · µ / N_active. "We pause an upstream
//! queue if *any* of its flows are assigned a congested queue, and we resume when *none* of its
//! flows have packets at a congested queue (as measured at the time the packet arrived at the
//! switch)." **Loss**: "we also periodically send a bitmap of the queues that should be paused at
//! the upstream".
//!
//! # Structure
//!
//! | file | contents | source |
//! |---|---|---|
//! | [`egress`] | one port's queues: what an arriving packet meets, which packet is sent next | §3.3 |
//! | [`flows`] | the flow table: the queue of each flow | §3.3.1 |
//! | [`rounds`] | deficit round robin | Shreedhar, Varghese (SIGCOMM 1995) |
//! | [`switch`] | the state that the ports of a switch share: counters, neighbours, the buffer | §3.3.2 |
//! | [`ingress`] | one port's pause counters, and the messages to the upstream neighbour | §3.3.2 |
//! | [`neighbour`] | the pauses of the downstream neighbour, and its identity | §3.3 |
//! | [`times`] | how long each queue has been paused | |
//! | [`elision`] | the ports between which there is no backpressure, so that no cycle of it deadlocks | App. B |
//! | [`queue_set`] | a set of queues, as a bitmap | §3.3.1 |
//! | [`fifo`] | one queue's packets | |
//! | [`window`] | the window of a host | App. A.1, A.8 |
//! | [`options`] | the qdisc's options, and their dump | |
//! | [`stats`] | the statistics of the qdisc and of its queues | |
//! | [`frame`] | the frames to the upstream neighbour | §3.3.2 |
//!
//! # Deviations from the paper
//!
//! - **A queue that is empty and paused is assigned last** of the empty ones. The paper's bitmap
//!   ignores pauses; a new flow would then wait for the resume of a flow that has left.
//! - **The search for an empty queue goes round**, as the paper's does among its pipelines. A queue
//!   thus stays unused for as long as possible after its flow has left it: that flow may return
//!   within 2 HRTT, and would share it.
//! - **The arriving packet does not count in its queue's length**: a packet alone in its queue
//!   causes no congestion, however short HRTT · µ is.
//! - **A pause whose resume follows before either is sent is not sent**, and several simultaneous
//!   changes are sent as one bitmap.
//! - **A pause lapses** if it is not refreshed, and a watchdog may end one that never ends: see
//!   [`neighbour`].
//! - **A port may hold α times the free part of the shared buffer**
//!   ([`Share`](crate::common::share::Share)), as in the switches whose "standard shared buffer
//!   memory model" (§6.2.1) the paper assumes; queues have no shares. A packet is dropped if its
//!   port holds its share, or if its port or the switch is full.
//! - **Priority classes and the label of incasts are the packet's rank**. With srf, whose rank is
//!   the flow's remaining size, there is therefore one class, and no label.
//! - **Four rules of the authors' simulator are options**: a higher threshold
//!   ([`percent`](egress::Threshold::OneHopBdp)), no backpressure by a flow's only packet
//!   ([`Pushback`](egress::Pushback)), acknowledgements in the control queue
//!   ([`control`](egress::Shape::control)), and a longer sticky time. The paper's text has none of
//!   them; `docs/bfc-simulator.md` says where its simulator has them.
//! - **The quantum grows** to the longest packet, so that a turn of the round robin always sends at
//!   least one packet.

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

use crate::common::mechanism::PortFigures;

/// The qdisc's name, as in `tc qdisc add … bfc`.
pub const KIND: &str = "bfc";

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE, stats::QueueStats::TABLE],
    port: PortFigures {
        group: "backpressure",
        sums: &[("backpressure.buffer_bytes", &["buffer_backlog"])],
    },
    example: "rate 10gbit hrtt 2us",
    pauses: Some(frame::ETHERTYPE),
    talks: true,
);

crate::congestion_control!("bfc");
