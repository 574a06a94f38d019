// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of a `resend` qdisc.

crate::statistics! {
    /// Statistics of a port: drops and notices of a switch, copies of a host.
    Stats {
        /// Notices sent, one for each dropped segment.
        Counter Number noticed: u64,
        /// Notices that could not be sent: no memory, or too many at once.
        Counter Number unsent: u64,
        /// Packets that the child dropped and no notice names: of other protocols, of this host, or
        /// yet to be segmented.
        Counter Number unnamed: u64,
        /// Notices dropped because too many were waiting.
        Counter Number dropped_control: u64,
        /// Copies waiting to be sent.
        Gauge Number waiting: u32,
        /// Copies that are kept.
        Gauge Number copies: u32,
        /// The bytes of the copied packets.
        Gauge Size copied: u64,
        /// Packets of this host that were not copied: no memory, too long, or not copyable.
        Counter Number uncopied: u64,
        /// Notices received by this host.
        Counter Number received: u64,
        /// Copies sent by this host.
        Counter Number resent: u64,
        /// Notices of a packet that this host has no copy of.
        Counter Number missed: u64,
        /// Copies that this host could not send: no memory, or too many at once.
        Counter Number failed: u64,
        /// Notices refused by this host.
        Counter Number malformed: u64,
    }
    "  dropped noticed {noticed}p unsent {unsent}p unnamed {unnamed}p control {dropped_control}p"
    "  copies {copies}p {copied} waiting {waiting}p uncopied {uncopied}p"
    "  received notices {received} resent {resent}p missed {missed} failed {failed} malformed {malformed}"
}
