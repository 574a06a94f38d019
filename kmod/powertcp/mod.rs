// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! θ-PowerTCP: a window that follows the power of the round-trip time.
//!
//! V. Addanki, O. Michel, S. Schmid: "PowerTCP: Pushing the Performance Limits of Datacenter
//! Networks", NSDI 2022, §3 and Algorithm 2. θ-PowerTCP is the form for hosts alone: PowerTCP
//! itself reads queue lengths from the packets. Algorithm 2 is taken as the authors' implementation
//! for Linux (inet-tub/powertcp-linux) quotes it.
//!
//! # Vocabulary
//!
//! - **θ**: the round-trip time RTT; **θ̇**: its gradient, the change of RTT per unit of time.
//! - **τ**: the base RTT, the largest one of the idle fabric.
//! - **power Γ**: voltage times current. The voltage is what a full path holds, RTT / τ. The
//!   current is the rate at which packets arrive at the bottleneck, 1 + θ̇. Both are in parts of an
//!   equilibrium without queue, so 1 is a link that is full and has no queue.
//!
//! # Law
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
//! | [`law`] | the power and the window of a flow |
//! | `tcp_powertcp.rs` | the module: it paces the socket at the window's rate |
//!
//! # Deviations
//!
//! - **The round-trip time** is measured in µs, on the last packet that an acknowledgement covers,
//!   from when it left the socket. It includes the host's own queue.
//!
//! # Choices that the paper leaves open
//!
//! The first two are those of the authors' implementation for Linux (inet-tub/powertcp-linux), the
//! third that of their ns-3 simulation.
//!
//! - **The window is at most its first one**, host bandwidth × τ.
//! - **Losses and timeouts leave the window.**
//! - **1 + θ̇ is at least 1/2.** An RTT that shrinks faster than time passes would otherwise give a
//!   power of 0, and an endless window.
//! - **The old window** is the present one: a window lasts from an update to the first
//!   acknowledgement of a packet sent after it, and this packet was sent under that window.
//! - **The power of a new flow** is 1. Its first RTT has no predecessor, and so no gradient.
//! - **An acknowledgement without a round-trip time**, of a retransmitted packet, changes nothing.
//! - **Values**: γ (0.9) and links of 25 Gbit/s are the paper's, N (10) that of the authors'
//!   implementation. The base RTT is a property of the fabric: 25 µs is a placeholder.

pub mod law;

#[cfg(test)]
mod tests;

crate::congestion_control!("powertcp");
