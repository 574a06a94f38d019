// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! HPCC: a window that keeps the utilisation of the path's fullest link below a target.
//!
//! Y. Li, R. Miao, H. H. Liu, Y. Zhuang, F. Feng, L. Tang, Z. Cao, M. Zhang, F. Kelly, M. Alizadeh,
//! M. Yu: "HPCC: High Precision Congestion Control", SIGCOMM 2019, §3 and Algorithm 1; and in the
//! form of R. Ben Basat et al., "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020, in
//! which a packet carries one number. Where this account names the simulator, it is that of HPCC's
//! authors (alibaba-edu/High-Precision-Congestion-Control, `rdma-hw.cc`), which has both forms.
//!
//! # Vocabulary
//!
//! - **utilisation U**: the largest one among the links of the path, see [`int`](crate::int).
//! - **record**: a link's queue, bytes sent and time, see [`records`](crate::common::records).
//! - **η**: the target utilisation.
//! - **T**: the base round-trip time, the same for all flows.
//! - **W, W_c**: the window, and the reference window from which each W of a round-trip time is
//!   computed, so that the acknowledgements of one queue do not shrink the window again and again.
//! - **incStage**: round-trip times in a row in which the window grew additively.
//!
//! # Law
//!
//! ```text
//!     start      W = W_c = W_init = B_NIC × T
//!
//!     acknowledgement with a utilisation U:
//!         U ≥ η, or incStage ≥ maxStage      W = W_c / (U / η) + W_AI      incStage → 0
//!         otherwise                          W = W_c + W_AI                incStage → incStage + 1
//!
//!         the first of a packet sent after the last update:  W_c = W, and incStage changes
//!
//!     W_AI = W_init (1 - η) / N          rate = W / T
//! ```
//!
//! # U from records
//!
//! The acknowledgement brings the records of its packet's links, and L has those of the one before:
//!
//! ```text
//!     for each link:
//!         τ = ts - L.ts                  txRate = (txBytes - L.txBytes) / τ
//!         u = min(qlen, L.qlen) / (B T) + txRate / B
//!
//!     of the link with the largest u:
//!         τ = min(τ, T)
//!         U = (1 - τ/T) U + τ/T u
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`law`] | the utilisation of a path, and the window of a flow |
//! | `tcp_hpcc.rs` | the module: it reads records or U from the socket, and paces it |
//!
//! # The way of records and utilisations
//!
//! An eBPF program at the sender makes room for records, `int` adds that of each port, and another
//! program at the receiver takes them out. The socket's next packet without data brings them back,
//! and at the sender they are stored with the socket, where L is kept, too.
//!
//! In PINT's form `int` stamps U on the packets. At the receiver a program keeps the largest stamp
//! of a socket, and another one writes it into the socket's next packet as its echo, see
//! [`stamp`](crate::common::stamp).
//!
//! # Deviations
//!
//! - **Records can be missing**: a packet with data brings none back, and of several packets that
//!   share an acknowledgement only the last one's come back. L is then older, and τ longer.
//! - **PINT's form**: the average of U is computed at the link, links are not told apart, and each
//!   acknowledgement counts. The simulator can use a random part of them.
//!
//! # Choices that the paper leaves open
//!
//! - **W is at most W_init**, because a host sends no faster than its link: as in the simulator.
//! - **W is at least a sixteenth of a packet**. In a long queue the law leaves little more than
//!   W_AI. Where that is a small part of a packet, packets would be so far apart that their records
//!   could not be compared, and the flow would crawl for ever, see `LONGEST_GAP` in [`law`]. The
//!   simulator has a lowest rate for all its flows (`MIN_RATE`: 100 Mbit/s in `mix/config.txt`,
//!   1 Gbit/s in what `run.py` writes).
//! - **A connection whose data is all sent and acknowledged** restarts as a new flow when it has
//!   data again: in the paper each flow has its own connection (queue pair).
//! - **Losses and timeouts leave the window**: the paper's fabric is lossless.
//! - **An acknowledgement without records or an echo** leaves the window, and begins no round-trip
//!   time; likewise the first one, and one whose records have no link in common with L.
//! - **U of a new flow** is 1, as in the simulator (`rdma-queue-pair.cc`).
//! - **Values**: η (0.95), maxStage (5) and links of 100 Gbit/s are the paper's, and the first two
//!   also the defaults of the simulator (`TargetUtil`, `MiThresh` in `rdma-hw.cc`). N (100) gives
//!   the paper's W_AI of 80 bytes for its T of 13 µs; the simulator's is a rate (`RATE_AI` in
//!   `mix/config.txt`: 50 Mbit/s, which is 81 bytes in that time).

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("hpcc");
