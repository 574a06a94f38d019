// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The packets that a timeslot is for.
//!
//! The paper has a queue for each destination (§6.1) and leaves open which of its packets go first.
//! The authors' client has a FIFO. Everything else here is ours.
//!
//! # Streams and bins
//!
//! A **stream** is the unit for which a host requests timeslots: a destination and, if there are
//! several classes of urgency, a class. Its number in the protocol is `destination * classes +
//! class`, and class 0 is the most urgent. A stream's packets wait in **bins**, each a FIFO: one
//! for all packets, or one for each flow by its hash. A further bin is for pure TCP
//! acknowledgements.
//!
//! A timeslot is for one bin, and as many of its first packets are sent as fit: "it greedily sends
//! packets while their total transmission time is less than the timeslot length" (§6.1). So the
//! number of timeslots that a bin needs is known when its packets arrive: a packet either fits into
//! the rest of the last timeslot, or begins another. A packet longer than a timeslot saves up as
//! many as it needs, and is sent in the last of them.
//!
//! # Order
//!
//! | order | the bin that gets the timeslot |
//! |---|---|
//! | fifo | the only one |
//! | drr  | the bins in turn. A turn is a timeslot, and all timeslots are equally long, so it is deficit round robin |
//! | rank | the one whose first packet has the lowest rank |
//!
//! # Acknowledgements
//!
//! A pure acknowledgement takes a twentieth of a timeslot, so acknowledgements wait for each other.
//! The timeslots for all that arrive within `hold` of a stream's first one are requested together.
//! The same datagram requests the timeslots of other streams whose acknowledgements have waited for
//! half of `hold`. After that acknowledgements and flows get the stream's timeslots in turn. If
//! either always went first, it could keep the other waiting for as long as a long flow lasts: a
//! timeslot is requested for each of them, but the first one may need another before it arrives.
//!
//! # Connections
//!
//! A SYN or a SYN-ACK gets its stream's next timeslot, before any data. Linux repeats it after a
//! second, whatever the round-trip time, and behind the data of several long flows it could wait
//! longer than that on a fabric that is slowed a thousand times. It overtakes no packet of its own
//! flow, because it is the first one.

use crate::common::store::Store;

/// Bins for flows in each stream, unless it is a FIFO.
pub const FLOWS: u32 = 16;

/// The shift that reduces a 32-bit product to a bin.
const BIN_SHIFT: u32 = u32::BITS - FLOWS.ilog2();

/// The order in which a stream's flows are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// In order of arrival.
    #[default]
    Fifo,
    /// In turn.
    Drr,
    /// The lowest rank first.
    Rank,
}

crate::choice!(Order { Fifo, Drr, Rank });

/// The words for [`Order`], in its order.
pub const ORDERS: &[&str] = &["fifo", "drr", "rank"];

impl Order {
    /// Bins of a stream.
    #[inline]
    pub const fn bins(self) -> u32 {
        self.openings().wrapping_add(1)
    }

    /// The bin of the packets that open connections, the last one.
    #[inline]
    pub const fn openings(self) -> u32 {
        self.acks().wrapping_add(1)
    }

    /// The bin of pure acknowledgements. It follows the bins of the flows.
    #[inline]
    pub const fn acks(self) -> u32 {
        match self {
            Self::Fifo => 1,
            Self::Drr | Self::Rank => FLOWS,
        }
    }

    /// The bin of a flow's packets.
    #[inline]
    pub fn bin(self, hash: u32) -> u32 {
        match self {
            Self::Fifo => 0,
            // The top bits of a product, because the hash's lower bits may already select a queue
            // or a path.
            Self::Drr | Self::Rank => hash.wrapping_mul(0x9e37_79b1) >> BIN_SHIFT,
        }
    }
}

const _: () = assert!(FLOWS.is_power_of_two() && Order::Drr.bins() <= u32::BITS);

/// The first packet of a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The bytes that it occupies on the link.
    pub cost: u32,
    /// Its rank; a lower one is more urgent.
    pub rank: u32,
}

/// The state of a bin; the caller holds its packets.
#[derive(Clone, Copy, Debug)]
struct Bin {
    packets: u32,
    /// Timeslots that they need.
    needed: u32,
    /// Bytes left in the last of these.
    room: u32,
    /// Timeslots saved up by its first packet, which is longer than one.
    saved: u32,
    /// The flow of its last packet, by its hash.
    flow: u32,
}

impl Bin {
    const EMPTY: Self = Self {
        packets: 0,
        needed: 0,
        room: 0,
        saved: 0,
        flow: 0,
    };
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    packets: u32,
    /// Timeslots that all its bins need.
    needed: u32,
    /// Timeslots in the calendar for it.
    kept: u32,
    /// Bins that are not empty, one bit each.
    filled: u32,
    /// The flows' bin that had the last timeslot of all flows.
    last: u8,
    /// Whether acknowledgements have had a timeslot since then.
    had_acks: bool,
    /// Until when the timeslots of its latest acknowledgements are not requested, and how many
    /// these are.
    held: Option<u64>,
    held_slots: u32,
}

impl Stream {
    const EMPTY: Self = Self {
        packets: 0,
        needed: 0,
        kept: 0,
        filled: 0,
        last: 0,
        had_acks: false,
        held: None,
        held_slots: 0,
    };
}

/// The fate of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// There is no room for it, or no such stream or bin.
    Full,
    /// It shares a timeslot with others.
    Shares,
    /// It needs another timeslot.
    Needs,
    /// It needs another timeslot, which is not requested before this time.
    Held(u64),
}

/// A timeslot begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Nothing waits.
    Wasted,
    /// The first packet of a bin needs more timeslots than it has saved up.
    Saved,
    /// The packets of this bin are sent, up to this many bytes.
    Open(u32, u32),
}

/// All streams of a host.
pub struct Queues<S: Store> {
    order: Order,
    streams: S::Of<Stream>,
    /// By stream, and by bin.
    bins: S::Of<Bin>,
}

impl<S: Store> Queues<S> {
    /// This many streams, all empty.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(streams: usize, order: Order) -> Result<Self, S::Error> {
        let bins = streams.wrapping_mul(order.bins() as usize);
        Ok(Self {
            order,
            streams: S::allocate(streams, || Stream::EMPTY)?,
            bins: S::allocate(bins, || Bin::EMPTY)?,
        })
    }

    /// The number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.streams.len() == 0
    }

    #[inline]
    fn both(&mut self, stream: u16, bin: u32) -> Option<(&mut Stream, &mut Bin)> {
        let bins = self.order.bins();
        if bin >= bins {
            return None;
        }
        let place = u32::from(stream).wrapping_mul(bins).wrapping_add(bin);
        let stream = self.streams.get_mut(usize::from(stream))?;
        Some((stream, self.bins.get_mut(place as usize)?))
    }

    /// A packet arrives that takes `cost` bytes. A timeslot has `capacity` bytes, and a stream
    /// holds `limit` packets. Acknowledgements are held for `hold` ns.
    #[inline]
    pub fn arrive(
        &mut self,
        now: u64,
        (stream, bin): (u16, u32),
        cost: u32,
        (capacity, limit, hold): (u32, u32, u64),
    ) -> Arrived {
        let is_held = bin == self.order.acks() && hold > 0;
        let Some((stream, queue)) = self.both(stream, bin) else {
            return Arrived::Full;
        };
        if stream.packets >= limit {
            return Arrived::Full;
        }
        stream.packets = stream.packets.wrapping_add(1);
        stream.filled |= bit(bin);
        queue.packets = queue.packets.wrapping_add(1);
        if cost <= queue.room {
            queue.room = queue.room.wrapping_sub(cost);
            return Arrived::Shares;
        }
        let slots = slots(cost, capacity);
        queue.needed = queue.needed.saturating_add(slots);
        stream.needed = stream.needed.saturating_add(slots);
        // The rest of several timeslots is not shared.
        queue.room = match slots {
            1 => capacity.saturating_sub(cost),
            _ => 0,
        };
        if is_held && slots == 1 {
            let until = *stream.held.get_or_insert(now.saturating_add(hold));
            stream.held_slots = stream.held_slots.wrapping_add(1);
            return Arrived::Held(until);
        }
        Arrived::Needs
    }

    /// Timeslots that a stream needs in addition to those in the calendar.
    #[inline]
    pub fn missing(&self, stream: u16) -> u32 {
        let stream = self.streams.get(usize::from(stream));
        stream.map_or(0, |it| {
            it.needed
                .saturating_sub(it.kept.saturating_add(it.held_slots))
        })
    }

    /// The time until which a stream's acknowledgements are held, if it is in the future. Otherwise
    /// they are released.
    pub fn release(&mut self, now: u64, stream: u16) -> Option<u64> {
        let stream = self.streams.get_mut(usize::from(stream))?;
        stream.held = stream.held.filter(|until| *until > now);
        if stream.held.is_none() {
            stream.held_slots = 0;
        }
        stream.held
    }

    /// The calendar has a timeslot for a stream. Returns whether the stream exists.
    pub fn keep(&mut self, stream: u16) -> bool {
        let Some(stream) = self.streams.get_mut(usize::from(stream)) else {
            return false;
        };
        stream.kept = stream.kept.saturating_add(1);
        true
    }

    /// Whether the calendar has a timeslot for a stream.
    #[inline]
    pub fn has_kept(&self, stream: u16) -> bool {
        let stream = self.streams.get(usize::from(stream));
        stream.is_some_and(|it| it.kept > 0)
    }

    /// Its timeslot is no longer in the calendar.
    #[inline]
    pub fn unkeep(&mut self, stream: u16) {
        if let Some(stream) = self.streams.get_mut(usize::from(stream)) {
            stream.kept = stream.kept.saturating_sub(1);
        }
    }

    /// A stream's timeslot begins. `first` is the first packet of a bin.
    #[inline]
    pub fn begin(
        &mut self,
        stream: u16,
        capacity: u32,
        first: &impl Fn(u16, u32) -> Option<Head>,
    ) -> Begun {
        let Some(bin) = self.choose(stream, first) else {
            return Begun::Wasted;
        };
        let acks = self.order.acks();
        let (Some((state, queue)), Some(head)) = (self.both(stream, bin), first(stream, bin))
        else {
            return Begun::Wasted;
        };
        if bin < acks {
            state.last = bin as u8;
        }
        if bin <= acks {
            state.had_acks = bin == acks;
        }
        let used = queue.needed.min(1);
        queue.needed = queue.needed.wrapping_sub(used);
        state.needed = state.needed.saturating_sub(used);
        let slots = queue.saved.saturating_add(1);
        let room = slots.saturating_mul(capacity);
        if head.cost > room {
            queue.saved = slots;
            return Begun::Saved;
        }
        Begun::Open(bin, room)
    }

    /// The bin that gets the next timeslot.
    #[inline]
    fn choose(&mut self, stream: u16, first: &impl Fn(u16, u32) -> Option<Head>) -> Option<u32> {
        let order = self.order;
        let (acks, openings) = (order.acks(), order.openings());
        let (state, queue) = self.both(stream, acks)?;
        if state.filled & bit(openings) != 0 {
            return Some(openings);
        }
        let is_ripe = queue.needed > state.held_slots;
        let flows = state.filled & !bit(acks);
        if flows == 0 || (is_ripe && !state.had_acks) {
            let is_there = state.filled & bit(acks) != 0;
            if is_there && flows == 0 && !is_ripe {
                // They get the timeslot, because nothing else waits.
                state.held_slots = state.held_slots.saturating_sub(1);
                if state.held_slots == 0 {
                    state.held = None;
                }
            }
            return is_there.then_some(acks);
        }
        match order {
            Order::Fifo => Some(0),
            Order::Drr => {
                let after = flows & u32::MAX.wrapping_shl(u32::from(state.last).wrapping_add(1));
                let next = if after == 0 { flows } else { after };
                Some(next.trailing_zeros())
            }
            Order::Rank => {
                let ranks = (0..acks).filter(|bin| flows & bit(*bin) != 0);
                ranks.min_by_key(|bin| first(stream, *bin).map_or(u32::MAX, |head| head.rank))
            }
        }
    }

    /// The packets that were not sent in an open timeslot need another one.
    pub fn miss(&mut self, stream: u16, bin: u32) {
        if let Some((stream, queue)) = self.both(stream, bin) {
            let more = queue.saved.saturating_add(1);
            queue.saved = 0;
            queue.needed = queue.needed.saturating_add(more);
            stream.needed = stream.needed.saturating_add(more);
        }
    }

    /// The first packet of a bin was sent. Returns whether more of it may be sent in the same
    /// timeslot.
    #[inline]
    pub fn sent(&mut self, stream: u16, bin: u32) -> bool {
        let acks = self.order.acks();
        let Some((stream, queue)) = self.both(stream, bin) else {
            return false;
        };
        stream.packets = stream.packets.saturating_sub(1);
        queue.packets = queue.packets.saturating_sub(1);
        let was_saved = core::mem::take(&mut queue.saved) > 0;
        if queue.packets == 0 {
            // The next packet begins another timeslot.
            stream.needed = stream.needed.saturating_sub(queue.needed);
            stream.filled &= !bit(bin);
            *queue = Bin::EMPTY;
            if bin == acks {
                stream.held = None;
                stream.held_slots = 0;
            }
            return false;
        }
        !was_saved
    }

    /// Keeps the order of a flow's packets if the flow becomes more urgent: returns the class in
    /// which the next packet waits, which is `class` or a less urgent one. `base` is the
    /// destination's first stream, and `classes` the number of classes.
    ///
    /// Only the last packet of a bin is examined. A short flow that shares its bin with a long one
    /// does not join the long one's class.
    #[inline]
    pub fn in_order(
        &mut self,
        base: u16,
        classes: u16,
        class: u16,
        (bin, flow): (u32, u32),
    ) -> u16 {
        let later = class.wrapping_add(1)..classes;
        let mut found = class;
        for class in later.rev() {
            let both = self.both(base.wrapping_add(class), bin);
            if both.is_some_and(|(_, queue)| queue.packets > 0 && queue.flow == flow) {
                found = class;
                break;
            }
        }
        if let Some((_, queue)) = self.both(base.wrapping_add(found), bin) {
            queue.flow = flow;
        }
        found
    }

    /// All packets are gone; the calendar's timeslots stay.
    pub fn clear(&mut self) {
        for stream in self.streams.iter_mut() {
            *stream = Stream {
                kept: stream.kept,
                ..Stream::EMPTY
            };
        }
        self.bins.iter_mut().for_each(|bin| *bin = Bin::EMPTY);
    }
}

/// A bin's bit; there are at most 32 bins.
#[inline]
const fn bit(bin: u32) -> u32 {
    1_u32.wrapping_shl(bin)
}

/// Timeslots for a packet that shares no earlier timeslot.
fn slots(cost: u32, capacity: u32) -> u32 {
    let rounded_up = cost.saturating_add(capacity.saturating_sub(1));
    rounded_up.checked_div(capacity).unwrap_or(1).max(1)
}
