// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! ExpressPass: a receiver sends credits, and its sender sends one frame for each.
//!
//! - I. Cho, K. Jang, D. Han: "Credit-Scheduled Delay-Bounded Congestion Control for Datacenters",
//!   SIGCOMM 2017. Below: the paper.
//! - The authors' simulator: <https://github.com/kaist-ina/ns2-xpass>, `xpass/xpass.cc` and
//!   `queue/xpass-drop-tail.cc`, read as a reference. No code was taken from it.
//!
//! Switches limit credits on each link to the rate at which the frames that they cause fill the
//! link in the other direction, and drop the rest. So congestion drops credits, and data finds
//! short queues.
//!
//! # Vocabulary
//!
//! - **credit**: a message from a flow's receiver to its sender, which takes 84 bytes of a link.
//! - **request**, **stop**: the messages by which a sender begins and ends the credits of a flow
//!   (CREDIT_REQUEST and CREDIT_STOP).
//! - **frame**: a packet with TCP payload on the wire. It **echoes** its credit: it carries the
//!   credit's number.
//! - **maximum rate**: 84 / (84 + 1538) of the link's rate. Credits at this rate and full frames
//!   take all of the link.
//!
//! # Algorithm
//!
//! ```text
//!   sender                        switches                       receiver
//!
//!   TCP ─▶ a queue per flow
//!             │  request ───────────────────────────────────────▶ begins the flow
//!             │                                                    │
//!             │ ◀─────────── tbf ◀──── drops ◀──── tbf ◀──────── credits, paced by Algorithm 1,
//!             ▼                                                    below the host's limit
//!          one frame ────────────────────────────────────────────▶ TCP, and the credit's number
//!             │
//!   no packet │  stop ──────────────────────────────────────────▶ ends the flow
//! ```
//!
//! - **Sender**: a packet with payload waits until a credit of its flow arrives. Handshakes and
//!   acknowledgements without payload need no credit.
//! - **Receiver**: each flow has a rate of credits, jittered by a tenth. Each round-trip time it
//!   follows the loss of credits, which are numbered: the numbers that frames echo show the gaps.
//! - **Links**: a token bucket of two credits and a queue of eight limit credits at each port:
//!   `tbf` below `prio` at switches, [`limiter`] at hosts.
//! - **Paths**: credits must take the path of the data in reverse. A symmetric hash of addresses
//!   chooses among next hops, and switches of one layer use one seed: see the scheme `expresspass`.
//!
//! # Structure
//!
//! | file | contents |
//! |---|---|
//! | [`message`] | requests, credits and stops, as UDP datagrams |
//! | [`segment`] | which packets need credits; the number that a frame echoes |
//! | [`rate`] | credit feedback control, Algorithm 1 |
//! | [`limiter`] | the credit limit of a host's link |
//! | [`flows`] | the active flows of a host |
//! | [`receiver`] | the receiving side |
//! | [`sender`] | the sending side |
//! | [`endpoint`] | both sides of a device, and its messages |
//! | [`options`] | the qdisc's options |
//! | [`stats`] | the qdisc's statistics |
//! | `sch_expresspass.rs` | the module: it holds the packets |
//!
//! # Choices of the authors' simulator
//!
//! The paper leaves these open, or the simulator has them beside the paper:
//!
//! - A flow with fewer than 40 frames begins with a part of the initial rate (`full`).
//! - The gaps of credits are jittered by ±10 %, and a burst has at most two credits.
//! - The average round-trip time has the weights 0.8 and 0.2. A period is a round-trip time in
//!   which some credit came back. A flow has at least one credit for each round-trip time.
//! - After a stop the sender waits for two round-trip times, and then for one without credits; if
//!   there were some, it repeats the stop. The simulator means to, but does not count the credits
//!   of the last round-trip time, and never repeats a stop.
//! - The simulator stops a flow early, when as many credits arrived in a round-trip time as frames
//!   wait. Here this is the option `early`, which is off: a host's queue holds the part of a flow
//!   that TCP has sent, which does not tell how much follows. If credits under way are lost, such a
//!   flow repeats its request, with the rate of the frames that are left. The completion times that
//!   the simulator writes count from the repeated request, and end with the stop: they are too
//!   short.
//!
//! Its feedback control differs from the paper's Algorithm 1: the target loss is 0.125 times the
//! unused part of the maximum rate, the aggressiveness grows by 0.05, the rate grows towards the
//! maximum, not beyond it, and falls to 1 + target loss times the rate at which credits came back.
//! A second fall for the same loss then changes little, where Algorithm 1 multiplies again. The
//! option `law` chooses between the two; its default is the paper's.
//!
//! The paper's text was not available when this was written: Algorithm 1 and the paper's constants
//! have not been compared with it.
//!
//! # Beside the authors' simulator
//!
//! The same flows on 16 hosts with links of 100 Gbit/s (Google's sizes at 60 % load, 28,700 flows
//! up to 100 kB, 2026-11-30): their P99 slowdown is 16.0 in the simulator, 16.7 here, and 15.3 with
//! its law (`law simulator loss 12`); the medians are 3.67, 3.73 and 3.62. On an idle fabric flows
//! of up to 40 packets take 0.3 to 2 % longer here, and one of 100 packets 4 % less.
//!
//! # Deviations
//!
//! - **TCP is above**: its acknowledgements, at most one for each frame, need no credit, and
//!   credits leave no room for them. Links that are full in both directions are overloaded by the
//!   acknowledgements' part, 3 % to 6 %; TCP's window then bounds the queue.
//! - **TCP retransmits**, in place of the simulator's negative acknowledgements. A packet that
//!   waits for a credit is not taken for a lost one, because it is in its host's queue.
//! - **The number has 16 bits** and is in the identification field of the IPv4 header, so frames
//!   are no longer than without ExpressPass.
//! - **Eight round-trip times of a flow are measured at a time**, because a frame does not carry
//!   the time of its credit. The simulator measures all.
//! - **All credits have 84 bytes.** The paper varies their sizes from 84 to 92 bytes, as a jitter,
//!   and the simulator from 76 to 92.
//! - **The hash is of addresses alone**, because credits are datagrams between two fixed ports. All
//!   flows between two hosts take one path. The simulator's hash has the flow's number too.
//!
//! # Choices of our own
//!
//! - A stop is sent when no packet has waited for two frames' time (`linger`), so that TCP can
//!   refill its queue.
//! - A request waits for one frame's time (`gather`), so that it counts the packets of its burst.
//! - A flow whose credits stay away for the timeout sends its request again; the simulator's waits
//!   for ever. A flow without data for eight timeouts ends at its receiver.
//! - A credit of an unknown flow is answered by a stop.
//! - A packet that has yet to be segmented waits for as many credits as it has segments, and echoes
//!   the last ones.
//! - IPv4 only: IPv6, UDP and all other protocols need no credits.

pub mod endpoint;
pub mod flows;
pub mod limiter;
pub mod message;
pub mod options;
pub mod rate;
pub mod receiver;
pub mod segment;
pub mod sender;
pub mod stats;

#[cfg(test)]
mod tests;

/// The qdisc's name, as in `tc qdisc add … expresspass`.
pub const KIND: &str = "expresspass";

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE],
    example: "rate 10gbit",
    talks: true,
);
