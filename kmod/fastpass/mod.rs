// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Fastpass: an arbiter says when each packet leaves its host, and by which path.
//!
//! J. Perry, A. Ousterhout, H. Balakrishnan, D. Shah, H. Fugal: "Fastpass: A Centralized
//! 'Zero-Queue' Datacenter Network", SIGCOMM 2014.
//!
//! # Vocabulary
//!
//! - **endpoint**: a host, by its number. The **arbiter** gives it timeslots.
//! - **timeslot**: the time that a packet of full size takes on a host's link, by its number.
//! - **stream**: a destination and a class of urgency, by its number. Where the protocol has a
//!   destination it is a stream.
//! - **total**: how many timeslots were asked for, or given, of one endpoint to one stream, since
//!   the session began.
//! - **session**: what an endpoint and the arbiter agree upon begins with a **nonce**, a number
//!   that nobody else knows. All checksums depend on it.
//! - **cookie**: what an endpoint says in every packet, and whoever sends it a RESET must repeat.
//!
//! # The control protocol (§5.3)
//!
//! Packets may be lost, delayed, reordered and duplicated, and are not sent again as they were:
//! what they said is out of date by then. Each end says **totals**. An endpoint says how many
//! timeslots to a destination it has asked for in all; what the arbiter has not heard of before is
//! new. The arbiter says how many it has given in all; what exceeds those that came is lost, and
//! the endpoint asks for as many more. To hear a total twice does nothing, so that whoever has not
//! had an answer for a short time says his totals again.
//!
//! An arbiter that knows nothing of an endpoint (it has restarted, or has taken over) finds that
//! its checksums are wrong, and answers with a RESET that has a new nonce. The endpoint asks anew
//! for what it is still owed; all that takes one round trip. An endpoint that has restarted has no
//! nonce, so that its first packet has the same effect.
//!
//! # Structure
//!
//! | file | what it is | source |
//! |---|---|---|
//! | [`frame`] | the packets | §5.3 |
//! | [`endpoint`] | an endpoint's end | §5.3 |
//! | [`session`] | the arbiter's end, of one endpoint | §5.3, §5.1 |
//! | [`siphash`] | the checksum | |
//! | [`address`] | who is which endpoint, and which packets are scheduled | §6.1 |
//! | [`host`] | what a host asks for, and what it sends in a timeslot | §6.1, §6.3 |
//! | [`queues`] | which packets a timeslot is for | §6.1 |
//! | [`calendar`] | the timeslots that it was given | |
//! | [`timing`] | how often host and arbiter speak | |
//! | [`options`] | what `tc` says to the qdisc | |
//! | [`ledger`] | what goes by each path, and what is lost there | §5.2 |
//! | [`ways`] | by which paths control packets go | |
//! | [`stats`] | what the qdisc tells of itself | |
//!
//! All of it is without a clock, memory of its own, and I/O: packets and time come in, packets and
//! timeslots go out.
//!
//! # How the host and the arbiter reach each other
//!
//! By UDP: the kernel has a socket in each namespace with an endpoint, and the arbiter has an
//! ordinary one. Frames to a group address, like BFC's, would reach a neighbour only, and the
//! arbiter is any host of the fabric.
//!
//! Control packets wait for no timeslot, and go before all others. They are known by both ends, and
//! not by a port, which any program could use: to an arbiter's address and port, sent by the
//! kernel's own socket; or from an arbiter's port, where the host's own address is that arbiter's.
//! The kernel's socket has a port below 1024, so that the arbiter can reject the packets of
//! unprivileged processes.
//!
//! # Deviations from the paper, and what it leaves open
//!
//! - **The checksum is a keyed hash** (SipHash-2-4) and not the sum that would find bit errors
//!   only: who does not see an endpoint's packets can forge none, of it or to it.
//! - **A session begins when the endpoint uses its new nonce**, not when the arbiter finds a wrong
//!   checksum: forged packets end no session. The arbiter answers a forged packet with a RESET, at
//!   most a few times per timeout, and keeps no state for it. An endpoint accepts only a RESET that
//!   repeats its cookie, and has another cookie after each.
//! - **A nonce is offered to one cookie only**: an endpoint that restarts gets another nonce, and
//!   its former packets are void.
//! - **An endpoint says that it has taken up a nonce**, even if it has nothing to ask for, until it
//!   is answered.
//! - **An ALLOC that comes after a later one** brings nothing: its timeslots were lost, and asked
//!   for again, when that one came.
//! - **Totals begin with `FIRST`**, and not with zero: soon they wrap, and no rare case is left
//!   untried.
//! - **TCP small queues stay on**, as in the authors' client, which never orphans a packet. Linux
//!   has had them since 3.6 (commit 46d3ceabd8d9, July 2012: 128 kB for each socket), and the
//!   authors' tree has configurations for Linux 3.10 and 3.12. The budget has to cover what a flow
//!   needs in flight: halves of an interval and of a batch, and the lead. That is 34 packets with
//!   16 hosts and 62 with 144. What is more makes short flows of the pair wait longer. Linux today
//!   allows 1 ms of a socket's pacing rate and `tcp_limit_output_bytes`, whichever is less;
//!   `smallqueue` states that time in the fabric's time. `tcp_autocorking` has to be off: it keeps
//!   a flow's last segment until the one before it has left, which costs another round trip to the
//!   arbiter.
//! - **Which of a destination's packets goes first** the paper leaves open; the authors' client has
//!   a FIFO, and so has this one by default. Flows in turn, flows by rank and classes of urgency
//!   ([`queues`]) are ours. The paper's min-fct (§3) goes by what a pair has asked for, whatever
//!   flows that is of.
//! - **Pure acknowledgements of TCP's wait for each other**, to share a timeslot, where `hold` says
//!   so. One for each acknowledgement would be an eighth of all timeslots.
//! - **A request waits for the rest of its burst**, one timeslot. The authors' client waits 1 µs.
//! - **REQUEST and ALLOC take acknowledgements along.** The authors' datagrams, too, say all there
//!   is to say.
//! - **Batch, interval and lead follow from the number of endpoints** ([`timing`]); the paper has
//!   one lead, 65 µs.
//! - **Drops are found by numbers** that packets carry in their tag, in the place of a rank, and
//!   told by the control protocol, REPORT; the paper does not say how endpoints find them.
//! - **Control packets go by paths that have just carried an answer**, or by any: a link that has
//!   failed cuts nobody off.
//! - **What is outstanding is bounded** ([`MAX_OUTSTANDING`]); what is more waits at the endpoint.

pub mod address;
pub mod calendar;
pub mod endpoint;
pub mod frame;
pub mod host;
pub mod ledger;
mod marks;
pub mod options;
pub mod queues;
pub mod session;
pub mod siphash;
pub mod stats;
pub mod timing;
pub mod ways;

#[cfg(test)]
mod tests;

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE],
    example: "address 10.0.0.2 first 10.0.0.2 hosts 2 arbiter 10.0.0.3 rate 10mbit",
);

/// The qdisc's name, as in `tc qdisc add … fastpass`.
pub const KIND: &str = "fastpass";

/// Timeslots that an endpoint may wait for, to one destination: 80 ms at 10 Gbit/s.
pub const MAX_OUTSTANDING: u32 = 65_535;

/// Totals begin so near to their largest number that each session sees them go beyond it.
const FIRST: u32 = u32::MAX - 19;

/// Whether a total is later than another one, modulo 2^32.
fn newer(total: u32, than: u32) -> bool {
    total != than && total.wrapping_sub(than) < 1 << 31
}
