// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! PowerTCP: a window that follows the power of the path's links, or of the round-trip time.
//!
//! V. Addanki, O. Michel, S. Schmid: "PowerTCP: Pushing the Performance Limits of Datacenter
//! Networks", NSDI 2022, §3 and Algorithms 1 and 2. PowerTCP reads queue lengths from the packets,
//! and θ-PowerTCP is the form for hosts alone. Both algorithms are taken as the authors'
//! implementation for Linux (inet-tub/powertcp-linux, `powertcp.c`) has them, and compared with
//! their simulation (inet-tub/ns3-datacenter, `rdma-hw.cc`).
//!
//! # Vocabulary
//!
//! - **θ**: the round-trip time RTT; **θ̇**: its gradient, the change of RTT per unit of time.
//! - **τ**: the base RTT, the largest one of the idle fabric.
//! - **record**: a link's queue `qlen`, bytes sent `txBytes`, time and rate b, which packets bring
//!   to the sender, see [`records`](crate::common::records). q̇ is the gradient of the queue, and µ
//!   the rate at which the link sends.
//! - **power Γ**: voltage times current. The voltage is what a full path holds: qlen + b τ, or in
//!   θ-PowerTCP RTT / τ. The current is the rate at which packets arrive at the bottleneck: q̇ + µ,
//!   or 1 + θ̇. Γ is in parts of an equilibrium without queue, so 1 is a link that is full and has
//!   no queue.
//!
//! # PowerTCP
//!
//! ```text
//!     start            window = host bandwidth × τ
//!
//!     acknowledgement with records, of each link dt after the last one:
//!         q̇ = (qlen - previous qlen) / dt
//!         µ = (txBytes - previous txBytes) / dt
//!         Γ = (q̇ + µ) (qlen + b τ) / (b² τ)
//!     Γ_norm is the largest Γ, and Δt = min(dt, τ) of its link:
//!         Γ_smooth = (Γ_smooth (τ - Δt) + Γ_norm Δt) / τ
//!         window = γ (old window / Γ_smooth + β) + (1 - γ) window
//!
//!     once in a round-trip time:
//!         old window = window
//!
//!     rate = window / τ
//! ```
//!
//! # θ-PowerTCP
//!
//! ```text
//!     start            window = host bandwidth × τ
//!
//!     acknowledgement, dt after the last one:
//!         θ̇ = (RTT - previous RTT) / dt
//!         Γ_norm = (θ̇ + 1) RTT / τ
//!         Γ_smooth = (Γ_smooth (τ - Δt) + Γ_norm Δt) / τ          Δt = min(dt, τ)
//!
//!     once in a round-trip time:
//!         window = γ (old window / Γ_smooth + β) + (1 - γ) window
//!             old window: when the acknowledged packet was sent
//!             β = host bandwidth × τ / N, the additive increase of one of N flows
//!
//!     rate = window / τ
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`law`] | the power and the window of a flow, in both forms |
//! | `tcp_powertcp.rs` | the module: it paces the socket at the window's rate |
//!
//! # Deviations
//!
//! - **Records can be missing**, as for [`hpcc`](crate::hpcc): dt is then longer.
//! - **The round-trip time** is measured in µs, on the last packet that an acknowledgement covers,
//!   from when it left the socket. It includes the host's own queue.
//!
//! # Choices that the paper leaves open
//!
//! The largest window and the effect of losses are as in the authors' implementation for Linux
//! (inet-tub/powertcp-linux). The least current is as in their simulation
//! (inet-tub/ns3-datacenter, `rdma-hw.cc`).
//!
//! - **The window is at most its first one**, host bandwidth × τ.
//! - **The window is at least a sixteenth of a packet** in PowerTCP, whose records could not be
//!   compared if packets were further apart, as for [`hpcc`](crate::hpcc). β is mostly larger.
//!   θ-PowerTCP needs no such limit.
//! - **A connection whose data is all sent and acknowledged** restarts as a new flow when it has
//!   data again: in the paper each flow has its own connection.
//! - **Losses and timeouts leave the window.**
//! - **The current is at least 1/2**: 1 + θ̇, and (q̇ + µ) / b. An RTT that shrinks faster than
//!   time passes would otherwise give a power of 0, and an endless window. The simulation computes
//!   q̇ + µ from a counter of the bytes that have arrived, and divides Γ by a target of 0.95, which the
//!   paper does not have.
//! - **The old window** of θ-PowerTCP is the present one: a window lasts from an update to the
//!   first acknowledgement of a packet sent after it, and this packet was sent under that window.
//! - **The power of a new flow** is 1. Its first RTT has no predecessor, and so no gradient.
//! - **An acknowledgement without a round-trip time**, of a retransmitted packet, changes nothing.
//! - **Values**: γ (0.9) and links of 25 Gbit/s are the paper's, and γ also that of the simulation
//!   with records (0.7 without). N (10) is that of the authors' implementation
//!   (`powertcp_defs.h`). The base RTT is a property of the fabric: 25 µs is a placeholder.

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("powertcp");
