// SPDX-License-Identifier: MIT OR Apache-2.0

//! Counters of the programs.

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// Index of a counter. Each counter belongs to the one program that its name begins with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Counter { $($(#[doc = $doc])* $variant,)* }

        impl Counter {
            /// All counters, in the order of their indices.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The number of counters.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name, `program.what`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

counters! {
    /// Packets that got a tag, or hop records or room for them.
    Tagged = "tag.tagged",
    /// Packets left unchanged: they carry no payload of a TCP or UDP socket of this host, or are
    /// not IP.
    TagPassed = "tag.passed",
    /// Packets that got a rank but no tag: with it they would exceed the MTU or 65,535 bytes.
    TagTooLong = "tag.too_long",
    /// Packets that got a rank but no tag: no room in the options, extension headers before the
    /// transport header, or the kernel refused to make room.
    TagNoRoom = "tag.no_room",
    /// Packets ranked by the fallback: their flow did not declare what the policy needs.
    TagFallback = "tag.fallback",
    /// Packets with bytes beyond the declared size of their flow; ranked by the fallback.
    TagBeyondSize = "tag.beyond_size",
    /// Packets that carry an echo: a utilisation, or the records, that their socket has received.
    TagEchoed = "tag.echoed",
    /// Packets that lost their tag or hop records.
    Untagged = "untag.untagged",
    /// Packets with neither.
    UntagPassed = "untag.passed",
    /// Packets left unchanged because their tag is malformed.
    UntagMalformed = "untag.malformed",
    /// Packets whose tag the kernel refused to remove.
    UntagFailed = "untag.failed",
    /// Packets whose utilisations or records were stored with their socket.
    UntagStored = "untag.stored",
    /// Packets with utilisations or records of no established connection of this host.
    UntagStray = "untag.stray",
    /// Packets whose tag was read.
    Read = "read.read",
    /// Packets without a tag.
    ReadPassed = "read.passed",
    /// Packets whose tag is malformed: treated like packets without a tag.
    ReadMalformed = "read.malformed",
    /// Packets without a tag, or with a malformed one, that are long enough to hold data and got
    /// the least urgent rank for that reason.
    ReadLast = "read.last",
    /// Packets that got a hash of their own.
    Sprayed = "read.sprayed",
    /// Options that were set.
    OptionSet = "flow_size.set",
    /// Options that were read.
    OptionGot = "flow_size.got",
    /// Requests that were refused.
    OptionRefused = "flow_size.refused",
}
