// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! One switch: how full its ports are, and the fate of a packet that arrives at one of them.
//!
//! ```text
//!                     arrive
//!    packet ──▶ port a ─┬─▶ Queue ──▶ it waits in a        ──▶ Departures::count
//!                       ├─▶ Detour: a place at b is reserved
//!                       │          ╰─▶ embark ──▶ arrive at b, carried ──▶ Queue, always
//!                       └─▶ Drop
//! ```
//!
//! The packets themselves are elsewhere. The caller carries out each decision: it holds the waiting
//! packets, and carries those that go by another port, between [`embark`](Switch::embark) and
//! [`landed`](Switch::landed), one at a time. All places are counted here, including reserved ones.
//! So each decision takes all of them into account, and no port ever exceeds its limit.
//!
//! # Departures
//!
//! A packet that leaves a port is counted in the port's [`Departures`], without access to the
//! switch. When a packet arrives at a port, the port's departures are subtracted from the switch's
//! counts. Before a decision that depends on all ports, the departures of all ports are subtracted.
//! Between these moments, a count may be too high, and is never too low.
//!
//! # Cost
//!
//! A packet that finds room costs constant time. Any other costs as much for each port of the
//! switch.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::ip::{Ecn, Reach};
use super::options::{Config, Policy};
use super::policy::{self, Choice};
use crate::common::ports::{Ports, MAX_PORTS};
use crate::common::share::Share;
use crate::common::store::Store;
use crate::common::xorshift::Xorshift32;

/// A member's options for its port; the latest member's apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most packets.
    limit: u32,
    /// The most bytes.
    limit_bytes: u64,
    share: Share,
    /// The number of waiting packets from which on a packet is marked.
    mark: u32,
    detour_to: bool,
    policy: Policy,
    from: u32,
    ranks: u32,
}

impl Terms {
    /// The terms that follow from the options.
    pub fn new(config: &Config) -> Self {
        let or_none = |value: u32| match value {
            0 => u32::MAX,
            value => value,
        };
        let or_all = |bytes: u32| match bytes {
            0 => u64::MAX,
            bytes => bytes.into(),
        };
        Self {
            limit: or_none(config.limit),
            limit_bytes: or_all(config.limit_bytes),
            share: Share::new(or_all(config.share), config.alpha),
            mark: or_none(config.mark),
            detour_to: config.detour_to,
            policy: config.policy,
            from: config.from,
            ranks: config.ranks,
        }
    }
}

/// All packets that have left a port, and their bytes, over all qdiscs of its device.
#[derive(Debug, Default)]
pub struct Departures {
    packets: AtomicU32,
    bytes: AtomicU64,
}

impl Departures {
    /// Counts a waiting packet that has left the port.
    #[inline]
    pub fn count(&self, len: u32) {
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(len.into(), Ordering::Relaxed);
    }

    fn held(&self) -> Held {
        Held {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// The properties of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes.
    pub len: u32,
    /// Lower is more urgent.
    pub rank: u32,
    /// Its flow; used by [`Policy::Flow`] only.
    pub flow: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// The nodes that can use it.
    pub reach: Reach,
    /// Whether it is the packet being carried now: see [`Switch::embark`].
    pub carried: bool,
}

/// Questions about an arriving packet that finds no room.
pub trait Exits {
    /// Whether the switch has routed it, so that it can go by another port.
    fn is_routed(&mut self) -> bool;

    /// Whether a device can currently send it.
    fn takes(&mut self, device: u32) -> bool;
}

/// For a packet that was routed.
impl<F: FnMut(u32) -> bool> Exits for F {
    fn is_routed(&mut self) -> bool {
        true
    }

    fn takes(&mut self, device: u32) -> bool {
        self(device)
    }
}

/// Why a packet does not wait in its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The port holds its limit of packets.
    Limit,
    /// The port holds its limit of bytes.
    Bytes,
    /// The port holds its share of the switch's buffer, or the buffer is full.
    Share,
    /// The port has room, but keeps it for more urgent packets.
    Early,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No port has room.
    Full,
    /// It has no hop left for a detour.
    Ttl,
    /// Only nodes at the other end of the link can use it.
    Link,
    /// The port does not detour.
    Off,
}

/// The fate of a packet. With `mark`, mark it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It waits in its port, until its [departure](Departures) is counted.
    Queue {
        /// Whether to mark it.
        mark: bool,
    },
    /// It goes by another port, where it has a place: see [`Switch::embark`].
    Detour {
        /// The other port's number.
        port: u16,
        /// Whether to mark it.
        mark: bool,
        /// The reason.
        reason: Reason,
    },
    /// It is dropped.
    Drop(Cause),
}

/// The events at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets detoured, by [`Reason`].
    pub detoured: [u64; 4],
    /// Packets dropped, by [`Cause`].
    pub dropped: [u64; 4],
    /// Packets that came from other ports.
    pub received: u64,
    /// Packets that a decision marked.
    pub marked: u64,
    /// The most packets that have waited at once.
    pub highest: u32,
    /// The most bytes that have waited at once.
    pub highest_bytes: u64,
}

/// The events in the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// The most bytes in all ports.
    pub highest_bytes: u64,
    /// Packets whose chosen port had disappeared, and that found no other with room, or whose other
    /// port had also disappeared.
    pub lost: u64,
    /// Packets whose chosen port had disappeared, and that went by another.
    pub diverted: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    packets: u32,
    bytes: u64,
}

impl Held {
    fn add(&mut self, len: u32) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len.into());
    }

    fn remove(&mut self, len: u32) {
        self.packets = self.packets.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(len.into());
    }
}

/// The state of a port.
pub struct PortState<S: Store> {
    terms: Option<Terms>,
    waiting: Held,
    /// Places of packets on their way here.
    reserved: Held,
    /// `None` if the port has no members.
    departures: Option<S::Shared<Departures>>,
    /// The departures already subtracted from `waiting`.
    settled: Held,
    counters: Counters,
}

impl<S: Store> PortState<S> {
    fn vacant() -> Self {
        Self {
            terms: None,
            waiting: Held::default(),
            reserved: Held::default(),
            departures: None,
            settled: Held::default(),
            counters: Counters::default(),
        }
    }

    /// Subtracts departed packets from the waiting ones; returns their bytes.
    #[inline]
    fn settle(&mut self) -> u64 {
        let Some(departures) = &self.departures else {
            return 0;
        };
        let (before, now) = (self.settled, departures.held());
        let packets = now.packets.wrapping_sub(before.packets);
        let bytes = now.bytes.wrapping_sub(before.bytes);
        self.settled = now;
        self.waiting.packets = self.waiting.packets.saturating_sub(packets);
        self.waiting.bytes = self.waiting.bytes.saturating_sub(bytes);
        bytes
    }

    /// Packets inside, including those on their way here.
    fn packets(&self) -> u32 {
        self.waiting.packets.saturating_add(self.reserved.packets)
    }

    fn bytes(&self) -> u64 {
        self.waiting.bytes.saturating_add(self.reserved.bytes)
    }

    /// The port's own limit that one more packet would exceed.
    #[inline]
    fn own_limit(&self, terms: &Terms, len: u32) -> Option<Reason> {
        if self.packets() >= terms.limit {
            return Some(Reason::Limit);
        }
        let bytes = self.bytes().saturating_add(len.into());
        (bytes > terms.limit_bytes).then_some(Reason::Bytes)
    }

    /// Whether its share of the switch, which has `all` bytes, has room for one more packet.
    #[inline]
    fn has_share(&self, terms: &Terms, all: u64, len: u32) -> bool {
        let bytes = self.bytes().saturating_add(len.into());
        terms.share.admits(all, len, bytes)
    }
}

/// A place at a port, for the packet that is carried.
#[derive(Clone, Copy, Debug)]
struct Place {
    port: u16,
    len: u32,
}

/// A switch.
pub struct Switch<S: Store> {
    ports: Ports<S, PortState<S>>,
    /// Bytes in all ports, including reserved places.
    bytes: u64,
    counters: SwitchCounters,
    random: Xorshift32,
    carried: Option<Place>,
}

/// Places for ports, see [`Switch::grow`].
///
/// # Errors
///
/// No memory.
pub fn places<S: Store>(places: u16) -> Result<Ports<S, PortState<S>>, S::Error> {
    Ports::new(places, PortState::vacant)
}

impl<S: Store> Switch<S> {
    /// A switch without ports. `seed` is for its random choices.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(seed: u32) -> Result<Self, S::Error> {
        Ok(Self {
            ports: places(0)?,
            bytes: 0,
            counters: SwitchCounters::default(),
            random: Xorshift32::new(seed),
            carried: None,
        })
    }

    // ---- Packets -----------------------------------------------------------------------------

    /// A packet of `len` bytes arrives that is not being carried. `true`: it waits in its port, and
    /// must not be marked, whatever its header says. `false`: nothing has happened; call
    /// [`arrive`](Self::arrive).
    #[inline]
    pub fn admit(&mut self, number: u16, len: u32) -> bool {
        self.settle(number);
        let Some(port) = self.ports.get(number).map(|port| &port.state) else {
            return false;
        };
        let is_plain = port.terms.as_ref().is_some_and(|terms| {
            terms.policy != Policy::Probabilistic
                && port.waiting.packets < terms.mark
                && port.own_limit(terms, len).is_none()
                && port.has_share(terms, self.bytes, len)
        });
        if is_plain {
            self.enter(number, len, false);
        }
        is_plain
    }

    /// A packet arrives at a port. The decision is final: its place is already counted.
    #[inline]
    pub fn arrive(&mut self, number: u16, arrival: &Arrival, exits: impl Exits) -> Decision {
        self.settle(number);
        let carried = arrival.carried && self.land(number);
        let len = arrival.len;
        let Some((port, terms)) = self.member(number) else {
            return Decision::Drop(Cause::Off);
        };
        let lacks = match port.own_limit(&terms, len) {
            Some(reason) => Some(reason),
            // Its place was reserved for it, whatever others have since taken of the shared buffer.
            None if carried || port.has_share(&terms, self.bytes, len) => None,
            None => self.lacks_share(number, &terms, len),
        };
        let early = || terms.policy == Policy::Probabilistic && !carried;
        let reason = match lacks {
            Some(reason) => Some(reason),
            None if early() && self.is_early(number, &terms, arrival) => Some(Reason::Early),
            None => None,
        };
        match reason {
            None => self.queue(number, &terms, arrival, carried),
            Some(reason) => self.detour(number, &terms, arrival, reason, exits),
        }
    }

    #[inline]
    fn queue(&mut self, number: u16, terms: &Terms, arrival: &Arrival, carried: bool) -> Decision {
        let Some(port) = self.port_mut(number) else {
            return Decision::Drop(Cause::Off);
        };
        let mark = port.waiting.packets >= terms.mark && arrival.ecn == Ecn::Capable;
        let counters = &mut port.counters;
        counters.marked = counters.marked.wrapping_add(mark.into());
        self.enter(number, arrival.len, carried);
        Decision::Queue { mark }
    }

    /// Adds a packet to those waiting in a port.
    #[inline]
    fn enter(&mut self, number: u16, len: u32, carried: bool) {
        self.take(len);
        if let Some(port) = self.port_mut(number) {
            port.waiting.add(len);
            let (waiting, counters) = (port.waiting, &mut port.counters);
            counters.received = counters.received.wrapping_add(carried.into());
            counters.highest = counters.highest.max(waiting.packets);
            counters.highest_bytes = counters.highest_bytes.max(waiting.bytes);
        }
    }

    // Row `dibs full` of `cargo xtask bench qdisc` measures this path, and row `dibs` the path that
    // it is kept out of.
    #[cold]
    fn detour(
        &mut self,
        number: u16,
        terms: &Terms,
        arrival: &Arrival,
        reason: Reason,
        mut exits: impl Exits,
    ) -> Decision {
        let other = match (terms.policy, arrival.reach) {
            (Policy::Off, _) => Err(Cause::Off),
            (_, Reach::Link) => Err(Cause::Link),
            (_, Reach::Expires) => Err(Cause::Ttl),
            (_, Reach::Routed) if !exits.is_routed() => Err(Cause::Link),
            (policy, Reach::Routed) => {
                let choice = policy::Choice::new(policy, arrival.flow);
                self.choose(number, arrival.len, choice, |device| exits.takes(device))
                    .ok_or(Cause::Full)
            }
        };
        match other {
            Ok(port) => {
                self.reserve(port, arrival.len);
                let mark = arrival.ecn == Ecn::Capable;
                if let Some(PortState { counters, .. }) = self.port_mut(number) {
                    count(&mut counters.detoured, reason as usize);
                    counters.marked = counters.marked.wrapping_add(mark.into());
                }
                Decision::Detour { port, mark, reason }
            }
            // There is room, so it stays.
            Err(_) if reason == Reason::Early => self.queue(number, terms, arrival, false),
            Err(cause) => {
                if let Some(PortState { counters, .. }) = self.port_mut(number) {
                    count(&mut counters.dropped, cause as usize);
                }
                Decision::Drop(cause)
            }
        }
    }

    /// Checks again, with the current counts of all ports.
    fn lacks_share(&mut self, number: u16, terms: &Terms, len: u32) -> Option<Reason> {
        self.settle_all();
        let port = &self.ports.get(number)?.state;
        (!port.has_share(terms, self.bytes, len)).then_some(Reason::Share)
    }

    /// Subtracts the packets that have left a port from its count.
    #[inline]
    fn settle(&mut self, number: u16) {
        if let Some(port) = self.port_mut(number) {
            let bytes = port.settle();
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Settles all ports.
    pub fn settle_all(&mut self) {
        let Self { ports, bytes, .. } = self;
        for port in ports.iter_mut() {
            *bytes = bytes.saturating_sub(port.state.settle());
        }
    }

    /// Chooses among the ports that face a switch, have room, and can send a packet of `len` bytes.
    /// The packet's own output port is excluded; the port on which it arrived is not.
    ///
    /// Only the chosen port is asked whether it can send, because that takes longer than all the
    /// rest. If it cannot, the choice is repeated among the others.
    fn choose(
        &mut self,
        own: u16,
        len: u32,
        choice: Choice,
        mut takes: impl FnMut(u32) -> bool,
    ) -> Option<u16> {
        self.settle_all();
        let all = self.bytes;
        let Self { ports, random, .. } = self;
        let mut failed = [0_u64; MAX_PORTS as usize / u64::BITS as usize];
        // Each port may fail once, and the last iteration finds no port left.
        for _ in 0..=ports.places() {
            let mut choice = choice;
            for (number, port) in ports.iter() {
                let (state, device) = (&port.state, port.device());
                let Some(terms) = &state.terms else {
                    continue;
                };
                let may = number != own && port.members() != 0 && terms.detour_to;
                if may
                    && !has(&failed, number)
                    && state.own_limit(terms, len).is_none()
                    && state.has_share(terms, all, len)
                {
                    choice.offer(number, device, state.bytes(), random);
                }
            }
            let chosen = choice.chosen()?;
            if takes(ports.get(chosen)?.device()) {
                return Some(chosen);
            }
            insert(&mut failed, chosen);
        }
        None
    }

    /// Whether to detour a packet although there is room, to keep the room for more urgent ones.
    fn is_early(&mut self, number: u16, terms: &Terms, arrival: &Arrival) -> bool {
        let Some(port) = self.ports.get(number) else {
            return false;
        };
        let state = &port.state;
        let occupancy = policy::occupancy(
            (state.packets().into(), terms.limit.into()),
            (state.bytes(), terms.limit_bytes),
        );
        let chance = policy::chance(occupancy, terms.from, arrival.rank, terms.ranks);
        chance != 0 && self.random.below(policy::ONE) < chance
    }

    // ---- Packets that go by another port -----------------------------------------------------

    /// A packet of `len` bytes that has a place at a port is about to be carried there: it is the
    /// packet being carried until [`landed`](Self::landed). Returns the device by which it goes:
    /// that port's, or another's if the port has disappeared. `None`: drop it.
    pub fn embark(
        &mut self,
        number: u16,
        len: u32,
        mut takes: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.clear_place();
        self.settle(number);
        let port = self.ports.get(number)?;
        let (device, has_members) = (port.device(), port.members() != 0);
        let terms = port.state.terms.filter(|terms| {
            // Within the current limits.
            has_members && terms.detour_to && port.state.packets() <= terms.limit
        });
        if terms.is_some() && takes(device) {
            self.carried = Some(Place { port: number, len });
            return Some(device);
        }
        self.unreserve(Place { port: number, len });
        let choice = Choice::new(Policy::Random, 0);
        let Some(other) = self.choose(number, len, choice, takes) else {
            self.counters.lost = self.counters.lost.wrapping_add(1);
            return None;
        };
        self.counters.diverted = self.counters.diverted.wrapping_add(1);
        self.reserve(other, len);
        self.carried = Some(Place { port: other, len });
        self.ports.get(other).map(|port| port.device())
    }

    /// The carried packet has been handed over or, if not `sent`, no device accepted it. If it has
    /// not arrived at its port, its place is free again.
    pub fn landed(&mut self, sent: bool) {
        self.clear_place();
        if !sent {
            self.counters.lost = self.counters.lost.wrapping_add(1);
        }
    }

    fn clear_place(&mut self) {
        if let Some(place) = self.carried.take() {
            self.unreserve(place);
        }
    }

    /// The carried packet arrives at a port. Returns whether it has a place there. It is then no
    /// longer carried, and the caller gives it another place.
    fn land(&mut self, number: u16) -> bool {
        match self.carried {
            Some(place) if place.port == number => {
                self.clear_place();
                true
            }
            _ => false,
        }
    }

    fn reserve(&mut self, number: u16, len: u32) {
        if let Some(port) = self.port_mut(number) {
            port.reserved.add(len);
        }
        self.take(len);
    }

    fn unreserve(&mut self, place: Place) {
        if let Some(port) = self.port_mut(place.port) {
            port.reserved.remove(place.len);
        }
        self.release(place.len);
        self.remove(place.port);
    }

    #[inline]
    fn take(&mut self, len: u32) {
        self.bytes = self.bytes.saturating_add(len.into());
        if self.bytes > self.counters.highest_bytes {
            self.settle_all();
            self.counters.highest_bytes = self.counters.highest_bytes.max(self.bytes);
        }
    }

    fn release(&mut self, len: u32) {
        self.bytes = self.bytes.saturating_sub(len.into());
    }

    // ---- Members -----------------------------------------------------------------------------

    /// The number of places for ports that are needed before one is added; `None` if there are
    /// enough.
    pub fn wanted_places(&self) -> Option<u16> {
        self.ports.wanted_places()
    }

    /// Moves to more places; returns the old ones, for their memory to be freed.
    pub fn grow(&mut self, larger: Ports<S, PortState<S>>) -> Ports<S, PortState<S>> {
        self.ports.grow(larger)
    }

    /// Adds a member to the port of a device. Returns the port's number, and the counter of its
    /// departures, which is the given one if this is the first member. `None`: there is no free
    /// place.
    pub fn join(
        &mut self,
        device: u32,
        terms: &Terms,
        departures: S::Shared<Departures>,
    ) -> Option<(u16, S::Shared<Departures>)> {
        let number = self.ports.join(device)?;
        let port = self.ports.get_mut(number)?;
        if port.members() == 1 {
            // Packets may be on their way here from the time when the port last had members.
            let reserved = port.state.reserved;
            port.state = PortState {
                reserved,
                departures: Some(departures),
                ..PortState::vacant()
            };
        }
        port.state.terms = Some(*terms);
        Some((number, port.state.departures.clone()?))
    }

    /// The counter of a port's departures, if it has members.
    pub fn departures(&self, number: u16) -> Option<&S::Shared<Departures>> {
        self.ports.get(number)?.state.departures.as_ref()
    }

    /// Changes a port's terms.
    pub fn set_terms(&mut self, number: u16, terms: &Terms) {
        if let Some(port) = self.port_mut(number) {
            port.terms = Some(*terms);
        }
    }

    /// Whether a port exceeds its limits because they were lowered.
    pub fn is_over(&mut self, number: u16) -> bool {
        self.settle(number);
        let Some(port) = self.ports.get(number) else {
            return false;
        };
        let state = &port.state;
        state
            .terms
            .is_some_and(|terms| state.packets() > terms.limit || state.bytes() > terms.limit_bytes)
    }

    /// Removes a member whose packets have all left; returns the part of the port that is no longer
    /// needed, for its memory to be freed.
    pub fn leave(&mut self, number: u16) -> Option<S::Shared<Departures>> {
        self.settle(number);
        let departures = match self.ports.leave(number) {
            true => self.port_mut(number)?.departures.take(),
            false => None,
        };
        self.remove(number);
        departures
    }

    /// Removes a port that has neither members nor packets on their way to it.
    fn remove(&mut self, number: u16) {
        let Some(port) = self.ports.get(number) else {
            return;
        };
        if port.members() == 0 && port.state.reserved.packets == 0 {
            self.ports.remove(number);
        }
    }

    // ---- Statistics ---------------------------------------------------------------------------

    /// The events at a port.
    pub fn counters(&self, number: u16) -> Counters {
        let port = self.ports.get(number);
        port.map_or_else(Counters::default, |port| port.state.counters)
    }

    /// The events in the switch.
    pub fn switch_counters(&self) -> SwitchCounters {
        self.counters
    }

    /// Packets waiting in a port, and packets on their way to it; see
    /// [`settle_all`](Self::settle_all).
    pub fn packets(&self, number: u16) -> (u32, u32) {
        let port = self.ports.get(number);
        port.map_or((0, 0), |port| {
            (port.state.waiting.packets, port.state.reserved.packets)
        })
    }

    /// Bytes in all ports, including reserved places; see [`settle_all`](Self::settle_all).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of ports, with members or without.
    pub fn ports(&self) -> u16 {
        self.ports.len()
    }

    #[inline]
    fn member(&self, number: u16) -> Option<(&PortState<S>, Terms)> {
        let port = &self.ports.get(number)?.state;
        Some((port, port.terms?))
    }

    #[inline]
    fn port_mut(&mut self, number: u16) -> Option<&mut PortState<S>> {
        self.ports.get_mut(number).map(|port| &mut port.state)
    }
}

/// Whether a number is in a set.
fn has(set: &[u64], number: u16) -> bool {
    let word = set.get(usize::from(number / 64));
    word.is_some_and(|word| word >> (number % 64) & 1 != 0)
}

fn insert(set: &mut [u64], number: u16) {
    if let Some(word) = set.get_mut(usize::from(number / 64)) {
        *word |= 1 << (number % 64);
    }
}

fn count(counters: &mut [u64; 4], which: usize) {
    if let Some(counter) = counters.get_mut(which) {
        *counter = counter.wrapping_add(1);
    }
}
