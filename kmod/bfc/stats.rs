// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What a `bfc` qdisc tells of itself (`TCA_STATS_APP` of the qdisc) and of each queue (of a class):
//! no padding bytes, host-endian. New fields may be added at the end.
//!
//! The first field says which of both it is, as `tc` prints them by the same function.

use crate::common::nla::{FieldReader, FieldWriter};

macro_rules! statistics {
    (
        $(#[$doc:meta])*
        $name:ident is $kind:literal {
            $( $(#[$field_doc:meta])* $field:ident: $type:ident by $put:ident $take:ident, )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_doc])* pub $field: $type, )*
        }

        impl $name {
            /// The first field.
            pub const KIND: u32 = $kind;

            /// Size of the encoding in bytes.
            pub const SIZE: usize = 4 $( + core::mem::size_of::<$type>() )*;

            /// Encodes the statistics.
            pub fn to_bytes(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                let mut fields = FieldWriter::new(&mut bytes);
                fields.put_u32(Self::KIND);
                $( fields.$put(self.$field); )*
                bytes
            }

            /// Decodes statistics, passing over the fields of a newer version; `None` if `bytes` is
            /// shorter than [`SIZE`](Self::SIZE) or of the other kind.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let mut fields = FieldReader::new(bytes);
                if fields.take_u32()? != Self::KIND {
                    return None;
                }
                Some(Self { $( $field: fields.$take()?, )* })
            }
        }
    };
}

statistics! {
    /// Statistics of a port, of its neighbours, and of its switch.
    Stats is 0 {
        /// Data queues that have packets.
        occupied: u32 by put_u32 take_u32,
        /// Data queues that the downstream neighbour has paused.
        paused: u32 by put_u32 take_u32,
        /// Data queues that have packets and are not paused: N_active.
        active: u32 by put_u32 take_u32,
        /// Pause threshold now, in bytes.
        threshold: u64 by put_u64 take_u64,
        /// The largest HRTT of the ingresses, in ns.
        hrtt: u64 by put_u64 take_u64,
        /// Times a flow became active.
        activations: u64 by put_u64 take_u64,
        /// Of these, those in which its queue had packets of another flow.
        collisions: u64 by put_u64 take_u64,
        /// Packets that found their queue above the threshold.
        congested: u64 by put_u64 take_u64,
        /// Of these, those whose backpressure was elided.
        elided: u64 by put_u64 take_u64,
        /// Of these, those that came from another port, but of no known upstream queue.
        unmarked: u64 by put_u64 take_u64,
        /// Packets dropped as the port was full.
        dropped_limit: u64 by put_u64 take_u64,
        /// Packets dropped as the switch was full.
        dropped_buffer: u64 by put_u64 take_u64,
        /// Packets dropped as there was no memory to write their tag.
        dropped_memory: u64 by put_u64 take_u64,
        /// Control frames dropped as too many waited.
        dropped_control: u64 by put_u64 take_u64,
        /// The most bytes of data that were in the port at once.
        highest_backlog: u64 by put_u64 take_u64,
        /// ns for which queues were paused, of all queues together; pauses that have ended.
        paused_ns: u64 by put_u64 take_u64,
        /// Upstream queues that are to be paused now.
        pausing: u32 by put_u32 take_u32,
        /// Pauses sent to the upstream neighbour.
        pauses_sent: u64 by put_u64 take_u64,
        /// Resumes sent.
        resumes_sent: u64 by put_u64 take_u64,
        /// Bitmaps sent.
        bitmaps_sent: u64 by put_u64 take_u64,
        /// Frames that could not be sent.
        unsent: u64 by put_u64 take_u64,
        /// Pauses received from the downstream neighbour.
        pauses_received: u64 by put_u64 take_u64,
        /// Resumes received.
        resumes_received: u64 by put_u64 take_u64,
        /// Bitmaps received.
        bitmaps_received: u64 by put_u64 take_u64,
        /// Pauses that lapsed.
        lapsed: u64 by put_u64 take_u64,
        /// Frames ignored: malformed.
        malformed: u64 by put_u64 take_u64,
        /// Frames ignored: not the neighbour's.
        foreign: u64 by put_u64 take_u64,
        /// Frames ignored: received before, or overtaken.
        replayed: u64 by put_u64 take_u64,
        /// Bytes of data in all ports of the switch.
        buffer_backlog: u64 by put_u64 take_u64,
        /// The most there ever were.
        highest_buffer_backlog: u64 by put_u64 take_u64,
        /// Bytes in the longest data queue.
        longest: u64 by put_u64 take_u64,
    }
}

statistics! {
    /// Statistics of one queue.
    QueueStats is 1 {
        /// Its number on the wire; 0 for the control queue.
        number: u32 by put_u32 take_u32,
        /// Its priority class.
        class: u32 by put_u32 take_u32,
        /// 1 if it is paused, else 0.
        paused: u32 by put_u32 take_u32,
        /// ns for which it has been paused so far.
        paused_ns: u64 by put_u64 take_u64,
    }
}
