// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Fastpass: an arbiter decides when each packet leaves its host, and by which path.
//!
//! J. Perry, A. Ousterhout, H. Balakrishnan, D. Shah, H. Fugal: "Fastpass: A Centralized
//! 'Zero-Queue' Datacenter Network", SIGCOMM 2014.
//!
//! # Vocabulary
//!
//! - **endpoint**: a host, by its number. The **arbiter** gives it timeslots.
//! - **timeslot**: the time that a packet of full size takes on a host's link, by its number.
//! - **stream**: a destination and a class of urgency, by its number. A destination in the protocol
//!   is a stream.
//! - **total**: how many timeslots one endpoint has requested, or been given, for one stream since
//!   the session began.
//! - **session**: the shared state of an endpoint and the arbiter. It begins with a **nonce**, a
//!   number that nobody else knows. All checksums depend on it.
//! - **cookie**: a number that an endpoint puts into every packet, and that a RESET to it must
//!   repeat.
//!
//! # The control protocol (§5.3)
//!
//! Packets may be lost, delayed, reordered and duplicated. They are not retransmitted, because
//! their contents are out of date by then. Each end sends **totals**. An endpoint sends how many
//! timeslots to a destination it has requested in total; the arbiter takes the increase over the
//! last total that it has heard as new demand. The arbiter sends how many it has given in total;
//! the excess over those that arrived is lost, and the endpoint requests as many more. A repeated
//! total has no effect, so an end that has had no answer for a short time repeats its totals.
//!
//! An arbiter without state of an endpoint (it has restarted, or has taken over) finds that the
//! endpoint's checksums are wrong, and answers with a RESET that has a new nonce. The endpoint then
//! requests again the timeslots that it is still owed; all this takes one round trip. An endpoint
//! that has restarted has no nonce, so its first packet has the same effect.
//!
//! # Structure
//!
//! | file | contents | source |
//! |---|---|---|
//! | [`frame`] | the packets | §5.3 |
//! | [`endpoint`] | an endpoint's end | §5.3 |
//! | [`session`] | the arbiter's end, of one endpoint | §5.3, §5.1 |
//! | [`siphash`] | the checksum | |
//! | [`address`] | the addresses of endpoints, and which packets are scheduled | §6.1 |
//! | [`host`] | the timeslots that a host requests, and the packets that it sends in them | §6.1, §6.3 |
//! | [`queues`] | the packets that a timeslot is for | §6.1 |
//! | [`calendar`] | the timeslots that the host was given | |
//! | [`timing`] | how often host and arbiter communicate | |
//! | [`options`] | the qdisc's options | |
//! | [`ledger`] | the packets sent and lost on each path | §5.2 |
//! | [`control_paths`] | the paths of control packets | |
//! | [`stats`] | the qdisc's statistics | |
//!
//! None of it has a clock, memory of its own, or I/O: packets and time come in, packets and
//! timeslots go out.
//!
//! # How the host and the arbiter reach each other
//!
//! They use UDP: the kernel has a socket in each namespace with an endpoint, and the arbiter has an
//! ordinary one. Frames to a group address, like BFC's, would reach only a neighbour, and the
//! arbiter can be any host of the fabric.
//!
//! Control packets wait for no timeslot, and go before all others. They are identified by both
//! ends, not by a port, which any program could use: to an arbiter's address and port, sent by the
//! kernel's own socket; or from an arbiter's port, if the host's own address is that arbiter's. The
//! kernel's socket has a port below 1024, so that the arbiter can reject the packets of
//! unprivileged processes.
//!
//! # Deviations from the paper, and choices that it leaves open
//!
//! - **The checksum is a keyed hash** (SipHash-2-4), not a sum that would detect only bit errors:
//!   an attacker who does not see an endpoint's packets can forge none, from it or to it.
//! - **A session begins when the endpoint uses its new nonce**, not when the arbiter finds a wrong
//!   checksum: forged packets end no session. The arbiter answers a forged packet with a RESET, at
//!   most a few times per timeout, and keeps no state for it. An endpoint accepts only a RESET that
//!   repeats its cookie, and changes the cookie after each.
//! - **A nonce is offered to one cookie only**: an endpoint that restarts gets another nonce, and
//!   its former packets are void.
//! - **An endpoint announces that it uses a nonce**, even if it has nothing to request, until it is
//!   answered.
//! - **An ALLOC that arrives after a later one** has no effect: its timeslots were counted as lost,
//!   and requested again, when the later one arrived.
//! - **Totals begin with `FIRST`**, not with zero: they soon wrap, so this rare case is always
//!   exercised.
//! - **TCP small queues stay on**, as in the authors' client, which never orphans a packet. Linux
//!   has had them since 3.6 (commit 46d3ceabd8d9, July 2012: 128 kB for each socket), and the
//!   authors' tree has configurations for Linux 3.10 and 3.12. The budget has to cover the data
//!   that a flow needs in flight: halves of an interval and of a batch, and the lead. That is 25
//!   packets with 16 hosts and 51 with 144. A larger budget makes short flows of the pair wait
//!   longer. Linux today allows 1 ms of a socket's pacing rate and `tcp_limit_output_bytes`,
//!   whichever is less; `smallqueue` states that time in the fabric's time. `tcp_autocorking` has
//!   to be off: it keeps a flow's last segment until the one before it has left, which costs
//!   another round trip to the arbiter.
//! - **The order of a destination's packets** is left open by the paper. The authors' client has a
//!   FIFO, and so has this one by default. Flows in turn, flows by rank and classes of urgency
//!   ([`queues`]) are ours. The paper's min-fct (§3) uses the demand of a pair, regardless of its
//!   flows.
//! - **Pure TCP acknowledgements wait for each other**, to share a timeslot, if `hold` is set. A
//!   timeslot for each acknowledgement would take an eighth of all timeslots. They and the flows of
//!   their pair get timeslots in turn.
//! - **A connection is opened before data is sent** ([`queues`]): its SYN and SYN-ACK take the next
//!   timeslot of their pair.
//! - **A request waits for the rest of its burst**, one timeslot. The authors' client waits 1 µs.
//!   It also waits for the interval since the last message, or a quarter of it for the first packet
//!   of a burst ([`host`]).
//! - **REQUEST and ALLOC carry acknowledgements.** The authors' datagrams, too, contain all pending
//!   information.
//! - **Batch, interval and lead follow from the number of endpoints** ([`timing`]); the paper has
//!   one lead, 65 µs.
//! - **A request gets leftovers at once**: timeslots before the next batch in which its sender, its
//!   receiver and a path are free. The paper's arbiter allocates a timeslot once, so a request
//!   waits for the next one that is not allocated, at least the lead.
//! - **Batches may be allocated ahead** of the lead while no request has to wait for it, up to 256
//!   timeslots (`ahead.rs` of the arbiter). A datagram then names all of them, as runs ([`frame`]):
//!   otherwise its headers take more bytes than its timeslots.
//! - **Drops are detected by sequence numbers**, which packets carry in their tag in the field for
//!   the rank, and reported by the control protocol, REPORT; the paper does not say how endpoints
//!   detect them.
//! - **Control packets go by paths that have just carried an answer**, or by any path, so a failed
//!   link does not cut off an endpoint.
//! - **Outstanding timeslots are bounded** ([`MAX_OUTSTANDING`]); further demand waits at the
//!   endpoint.

pub mod address;
pub mod calendar;
pub mod control_paths;
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

#[cfg(test)]
mod tests;

crate::qdisc!(
    KIND,
    options,
    &[stats::Stats::TABLE],
    example: "address 10.0.0.2 first 10.0.0.2 hosts 2 arbiter 10.0.0.3 rate 10mbit",
    talks: true,
    one_clock: true,
);

/// The qdisc's name, as in `tc qdisc add … fastpass`.
pub const KIND: &str = "fastpass";

/// Timeslots that an endpoint may wait for, to one destination: 80 ms at 10 Gbit/s.
pub const MAX_OUTSTANDING: u32 = 65_535;

/// Totals begin so close to their maximum that they wrap in each session.
const FIRST: u32 = u32::MAX - 19;

/// Whether a total is later than another one, modulo 2^32.
fn newer(total: u32, than: u32) -> bool {
    total != than && total.wrapping_sub(than) < 1 << 31
}
