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
//!   there were some, it repeats the stop.
//! - The simulator stops a flow early, when as many credits arrived in a round-trip time as frames
//!   wait. Here this is the option `early`, which is off: a host's queue holds the part of a flow
//!   that TCP has sent, which does not tell how much follows.
//!
//! Its feedback control differs from the paper's Algorithm 1: the target loss is 0.125 times the
//! unused part of the maximum rate, the aggressiveness grows by 0.05, and the rate falls to the
//! rate at which credits came back. The option `law` chooses between the two; its default is the
//! paper's.
//!
//! The paper's text was not available when this was written: Algorithm 1 and the paper's constants
//! have not been compared with it.
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
//! - **One round-trip time is measured at a time**: a frame does not carry the time of its credit.
//! - **All credits have 84 bytes.** The paper varies their sizes from 84 to 92 bytes, as a jitter.
//! - **The hash is of addresses alone**, because credits are datagrams between two fixed ports. All
//!   flows between two hosts take one path.
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
