// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The state that the ports of one switch share: pause counters, the neighbours' pauses, and the
//! buffer.
//!
//! ```text
//!  egress a ──┐  take, release: the shared buffer         ┌─▶ frames to the neighbours  (next_tell)
//!  egress b ──┼─▶ Switch { port 0, port 1, …, bytes } ────┤
//!  egress c ──┘  count, uncount: ingress port, queue      └── frames from them          (hear)
//! ```
//!
//! A port is one of [`Ports`]; each of its members is an [`Egress`](super::egress::Egress).
//! Together the members have at most 1,023 queues, each with its own number on the wire: a member's
//! queue q has the number `base` + q there.
//!
//! A port whose last member has left stays for as long as packets inside the switch are counted
//! there: if it returned meanwhile, its counters would be correct.
//!
//! # Cost
//!
//! All work per packet, and per pause or resume, takes constant time; a heap finds the port whose
//! bitmap is due next, and a pause changes nothing there if bitmaps of its port are due anyway. A
//! port has 4 KiB of counters, 16 bytes for each of its queues, and some 1,000 bytes besides.

use super::ingress::{Counters, Ingress, Tell};
use super::neighbour::{Heard, Neighbour, Rules, Treatment};
use super::queue_set::{QueueSet, MAX_QUEUES};
use super::times::Times;
use crate::common::deadlines::Deadlines;
use crate::common::ports::{Ports, MAX_PORTS};
use crate::common::share::{Buffer, Share};
use crate::common::store::Store;

/// Not a port.
const NONE: u16 = u16::MAX;

/// A member's options for its port; the latest member's apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// 1-hop round-trip time to the neighbour, in ns.
    pub hrtt: u64,
    /// ns between two bitmaps to the upstream neighbour.
    pub refresh: u64,
    /// The limits on the downstream neighbour's pauses.
    pub rules: Rules,
}

impl Default for Link {
    /// An unknown link.
    fn default() -> Self {
        Self {
            hrtt: 0,
            refresh: 0,
            rules: Rules::NONE,
        }
    }
}

/// A member's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its port.
    pub port: u16,
    /// The number below its queues' numbers.
    pub base: u16,
    /// The number of its queues.
    pub queues: u16,
}

/// Why a member was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room for another port: see [`Switch::grow`].
    Full,
    /// The port's queues would be more than 1,023.
    Numbers,
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The device by which it goes.
    pub device: u32,
    /// Its number.
    pub sequence: u64,
    /// The time for which it is obeyed, in ns.
    pub hold: u64,
    /// Its message.
    pub tell: Tell,
}

/// The events at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Pauses sent to the upstream neighbour.
    pub pauses_sent: u64,
    /// Resumes sent.
    pub resumes_sent: u64,
    /// Bitmaps sent.
    pub bitmaps_sent: u64,
    /// Frames that could not be sent.
    pub unsent: u64,
    /// Pauses obeyed.
    pub pauses_received: u64,
    /// Resumes obeyed.
    pub resumes_received: u64,
    /// Bitmaps obeyed.
    pub bitmaps_received: u64,
    /// Pauses that lapsed.
    pub lapsed: u64,
    /// Queues that the watchdog released.
    pub released: u64,
    /// Frames ignored: malformed.
    pub malformed: u64,
    /// Frames ignored: not from the neighbour.
    pub foreign: u64,
    /// Frames ignored: received before, or overtaken.
    pub replayed: u64,
    /// Upstream queues that are currently to be paused.
    pub pausing: u32,
}

struct PortState<S: Store> {
    /// The numbers in use.
    numbers: QueueSet,
    hrtt: u64,
    ingress: Ingress<S>,
    neighbour: Neighbour<S>,
    /// The number of the frame sent last.
    sequence: u64,
    counters: PortCounters,
}

impl<S: Store> PortState<S> {
    fn vacant() -> Self {
        Self {
            numbers: QueueSet::EMPTY,
            hrtt: 0,
            ingress: Ingress::new(Counters::none()),
            neighbour: Neighbour::new(Times::none()),
            sequence: 0,
            counters: PortCounters::default(),
        }
    }
}

/// The memory of a port: its pause counters, and its queues' pauses.
pub struct PortMemory<S: Store> {
    counters: Counters<S>,
    times: Times<S>,
}

impl<S: Store> PortMemory<S> {
    /// For a port with `numbers` queue numbers: see [`Switch::wanted_numbers`].
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(numbers: u16) -> Result<Self, S::Error> {
        Ok(Self {
            counters: Counters::new()?,
            times: Times::new(numbers)?,
        })
    }
}

/// Room for the ports of a switch.
pub struct Room<S: Store> {
    ports: Ports<S, PortState<S>>,
    /// When the next bitmaps are due, for ports with a member.
    deadlines: Deadlines<S>,
}

impl<S: Store> Room<S> {
    /// For `ports` ports, at most [`MAX_PORTS`].
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(ports: u16) -> Result<Self, S::Error> {
        Ok(Self {
            ports: Ports::new(ports, PortState::vacant)?,
            deadlines: Deadlines::new(ports.min(MAX_PORTS))?,
        })
    }

    #[inline(always)]
    fn port(&self, number: u16) -> Option<&PortState<S>> {
        self.ports.get(number).map(|port| &port.state)
    }

    #[inline(always)]
    fn port_mut(&mut self, number: u16) -> Option<&mut PortState<S>> {
        self.ports.get_mut(number).map(|port| &mut port.state)
    }

    /// Updates when a port's next bitmap is due, if that may have changed.
    #[inline]
    fn schedule(&mut self, number: u16) {
        let port = self.ports.get(number);
        let port = port.filter(|port| port.members() != 0);
        let due = port.and_then(|port| port.state.ingress.next_refresh());
        self.deadlines.set(number, due);
    }
}

/// One switch.
pub struct Switch<S: Store> {
    room: Room<S>,
    /// Ports with a message to send.
    telling: QueueSet,
    buffer: Buffer,
    /// The longest HRTT of a port, and that port; and the longest of the others.
    longest: (u64, u16),
    second: u64,
}

impl<S: Store> Switch<S> {
    /// A switch without ports.
    pub fn new(room: Room<S>) -> Self {
        Self {
            room,
            telling: QueueSet::EMPTY,
            buffer: Buffer::EMPTY,
            longest: (0, NONE),
            second: 0,
        }
    }

    // ---- The buffer --------------------------------------------------------------------------

    /// Reserves `len` bytes of the buffer for a port that then has `bytes`. `false`: the switch has
    /// no room ([`has_room`](Self::has_room)), or the port holds its share.
    #[inline]
    pub fn take(&mut self, len: u32, bytes: u64, share: &Share) -> bool {
        self.buffer.take(len, bytes, share)
    }

    /// Whether the switch has room for `len` bytes.
    pub fn has_room(&self, len: u32, share: &Share) -> bool {
        share.has_room(self.buffer.bytes(), len)
    }

    /// Returns bytes to the buffer.
    #[inline]
    pub fn release(&mut self, len: u32) {
        self.buffer.release(len.into());
    }

    /// Bytes in all ports, and the highest value so far.
    pub fn bytes(&self) -> (u64, u64) {
        (self.buffer.bytes(), self.buffer.highest())
    }

    // ---- Pause counters ----------------------------------------------------------------------

    /// The port of a device, if it has a member.
    #[inline]
    pub fn find(&self, device: u32) -> Option<u16> {
        self.room.ports.find_member(device)
    }

    /// A packet that arrived on `port` from `upstream_queue` is enqueued above the threshold.
    ///
    /// Returns whether it counts; call [`uncount`](Self::uncount) when it then leaves.
    #[inline]
    pub fn count(&mut self, port: u16, upstream_queue: u16) -> bool {
        let number = port;
        let Some(port) = self.room.port_mut(port) else {
            return false;
        };
        if !port.ingress.count(upstream_queue) {
            return false;
        }
        if port.ingress.has_news() {
            self.telling.insert(number);
        }
        true
    }

    /// A counted packet has left.
    #[inline]
    pub fn uncount(&mut self, port: u16, upstream_queue: u16) {
        let number = port;
        if let Some(port) = self.room.port_mut(port) {
            port.ingress.uncount(upstream_queue);
            if port.ingress.has_news() {
                self.telling.insert(number);
            }
        }
    }

    /// The largest HRTT of the ports from which packets can go to `port`: all others; its own if
    /// there is no other.
    #[inline]
    pub fn hrtt(&self, port: u16) -> u64 {
        let (longest, whose) = self.longest;
        let others = if whose == port { self.second } else { longest };
        if others == 0 {
            longest
        } else {
            others
        }
    }

    // ---- Frames ------------------------------------------------------------------------------

    /// Whether there is a message to a neighbour to send at once.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.telling.is_empty()
    }

    /// The next frame to send at `now` ns; call it until there is none.
    pub fn next_frame(&mut self, now: u64) -> Option<Frame> {
        while let Some(number) = self.telling.first() {
            self.telling.remove(number);
            let Some(port) = self.room.ports.get_mut(number) else {
                continue;
            };
            if port.members() == 0 {
                continue;
            }
            let Some(tell) = port.state.ingress.tell(now) else {
                self.room.schedule(number);
                continue;
            };
            let counters = &mut port.state.counters;
            let counter = match tell {
                Tell::Pause(_) => &mut counters.pauses_sent,
                Tell::Resume(_) => &mut counters.resumes_sent,
                Tell::State(_) => &mut counters.bitmaps_sent,
            };
            *counter = counter.wrapping_add(1);
            port.state.sequence = port.state.sequence.wrapping_add(1);
            let frame = Frame {
                device: port.device(),
                sequence: port.state.sequence,
                hold: port.state.ingress.hold(),
                tell,
            };
            self.room.schedule(number);
            return Some(frame);
        }
        None
    }

    /// A frame could not be sent: see [`Ingress::unsent`].
    pub fn unsent(&mut self, device: u32, now: u64) {
        let Some(number) = self.room.ports.find(device) else {
            return;
        };
        if let Some(port) = self.room.port_mut(number) {
            port.counters.unsent = port.counters.unsent.wrapping_add(1);
            port.ingress.unsent(now);
        }
        self.room.schedule(number);
    }

    /// Finds the bitmaps that are due at `now` ns: [`next_frame`](Self::next_frame) then returns
    /// them.
    pub fn refresh(&mut self, now: u64) {
        while let Some((_, number)) = self.room.deadlines.first().filter(|(due, _)| *due <= now) {
            self.telling.insert(number);
            // Until it is sent.
            self.room.deadlines.set(number, None);
        }
    }

    /// When the next bitmap is due, in ns, except those that [`refresh`](Self::refresh) has found.
    pub fn next_refresh(&self) -> Option<u64> {
        self.room.deadlines.first().map(|(due, _)| due)
    }

    /// A frame arrived on a device at `now` ns. `None`: the device has no member.
    pub fn hear(&mut self, device: u32, heard: &Heard, now: u64) -> Option<Treatment> {
        let port = self.find(device)?;
        let port = self.room.port_mut(port)?;
        let verdict = port.neighbour.hear(heard, now);
        let counters = &mut port.counters;
        let counter = match (verdict, heard.tell) {
            (Treatment::Foreign, _) => &mut counters.foreign,
            (Treatment::Replayed, _) => &mut counters.replayed,
            (Treatment::Taken { .. }, Tell::Pause(_)) => &mut counters.pauses_received,
            (Treatment::Taken { .. }, Tell::Resume(_)) => &mut counters.resumes_received,
            (Treatment::Taken { .. }, Tell::State(_)) => &mut counters.bitmaps_received,
        };
        *counter = counter.wrapping_add(1);
        Some(verdict)
    }

    /// A malformed frame arrived on a device.
    pub fn hear_nonsense(&mut self, device: u32) {
        let port = self.find(device);
        if let Some(port) = port.and_then(|port| self.room.port_mut(port)) {
            port.counters.malformed = port.counters.malformed.wrapping_add(1);
        }
    }

    /// The member's queues that are currently paused, by the member's own numbers. `None`:
    /// unchanged since this returned the version `seen`.
    #[inline]
    pub fn paused(&mut self, place: &Place, seen: u32, now: u64) -> Option<(u32, QueueSet)> {
        let port = self.room.port_mut(place.port)?;
        port.neighbour.lapse(now);
        let version = port.neighbour.version();
        if version == seen {
            return None;
        }
        let paused = port.neighbour.paused().above(place.base, place.queues);
        Some((version, paused))
    }

    /// When pauses at a port end by themselves, in ns, if there are any.
    #[inline]
    pub fn lapse(&self, port: u16) -> Option<u64> {
        self.port(port)?.neighbour.until()
    }

    /// Whether a member's queue is paused at `now` ns, and its total paused time, in ns.
    pub fn pause(&mut self, place: &Place, queue: u16, now: u64) -> (bool, u64) {
        let Some(port) = self.room.port_mut(place.port) else {
            return (false, 0);
        };
        port.neighbour.lapse(now);
        let number = place.base.wrapping_add(queue);
        let paused = port.neighbour.paused().contains(number);
        (paused, port.neighbour.times().so_far(number, now))
    }

    /// A port's link went down at `now` ns, or its packets were purged: its neighbour is forgotten.
    pub fn forget(&mut self, port: u16, now: u64) {
        if let Some(port) = self.room.port_mut(port) {
            port.neighbour.forget(now);
        }
    }

    // ---- Members -----------------------------------------------------------------------------

    /// The number of ports to make room for before a port is added; `None` if there is room.
    pub fn wanted_room(&self) -> Option<u16> {
        self.room.ports.wanted_places()
    }

    /// Moves to a larger room; returns the old one, for its memory to be freed.
    pub fn grow(&mut self, room: Room<S>) -> Room<S> {
        let behind = Room {
            ports: self.room.ports.grow(room.ports),
            deadlines: core::mem::replace(&mut self.room.deadlines, room.deadlines),
        };
        for number in 0..self.room.ports.places() {
            self.room.schedule(number);
        }
        behind
    }

    /// The number of queue numbers for which the port of `device` needs memory if a member with
    /// `queues` queues is added.
    pub fn wanted_numbers(&self, device: u32, queues: u16) -> u16 {
        let base = self.base(device, queues).unwrap_or(0);
        let last = base.saturating_add(queues);
        last.saturating_add(1).min(MAX_QUEUES)
    }

    /// The number above which the port of `device` has `queues` unused numbers.
    fn base(&self, device: u32, queues: u16) -> Option<u16> {
        let number = self.room.ports.find(device);
        let port = number.and_then(|number| self.room.port(number));
        port.map_or(QueueSet::EMPTY, |port| port.numbers)
            .gap(queues)
    }

    /// Adds a member with `queues` queues to the port of `device`.
    ///
    /// The port takes the memory if it is new or has more numbers than before. The caller frees the
    /// argument's remaining content. The port's first frame has the number `sequence` + 1. `now`:
    /// ns.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn join(
        &mut self,
        device: u32,
        queues: u16,
        link: &Link,
        sequence: u64,
        now: u64,
        memory: &mut PortMemory<S>,
    ) -> Result<Place, Refused> {
        let is_new = self.room.ports.find(device).is_none();
        if is_new && self.wanted_room().is_some() {
            return Err(Refused::Full);
        }
        let base = self.base(device, queues).ok_or(Refused::Numbers)?;
        let ports = &mut self.room.ports;
        let number = ports.join(device).ok_or(Refused::Full)?;
        let port = ports.get_mut(number).ok_or(Refused::Full)?;
        let is_first = port.members() == 1;
        let port = &mut port.state;
        if is_new {
            let counters = core::mem::replace(&mut memory.counters, Counters::none());
            port.ingress = Ingress::new(counters);
        }
        if is_first {
            port.sequence = port.sequence.max(sequence);
            port.counters = PortCounters::default();
            let times = port.neighbour.exchange(Times::none());
            port.neighbour = Neighbour::new(times);
            if port.ingress.inside() != 0 {
                // Either no neighbour was sent the state, or that neighbour is gone.
                port.ingress.tell_again(now);
                self.telling.insert(number);
            }
        }
        port.neighbour.grow(&mut memory.times);
        for queue in 1..=queues {
            let number = base.wrapping_add(queue);
            port.numbers.insert(number);
            port.neighbour.renew(number, now);
        }
        self.room.schedule(number);
        self.set_link(number, link);
        Ok(Place {
            port: number,
            base,
            queues,
        })
    }

    /// Sets the properties of a port's link.
    pub fn set_link(&mut self, port: u16, link: &Link) {
        if let Some(port) = self.room.port_mut(port) {
            port.hrtt = link.hrtt;
            port.ingress.set_refresh(link.refresh);
            port.neighbour.set_rules(link.rules);
        }
        self.find_longest();
    }

    /// Removes a member whose packets have all left.
    pub fn leave(&mut self, place: &Place) {
        let was_last = self.room.ports.leave(place.port);
        if let Some(port) = self.room.port_mut(place.port) {
            for queue in 1..=place.queues {
                port.numbers.remove(place.base.wrapping_add(queue));
            }
            if was_last {
                let times = port.neighbour.exchange(Times::none());
                port.neighbour = Neighbour::new(times);
                port.hrtt = 0;
            }
        }
        self.room.schedule(place.port);
        self.find_longest();
    }

    /// Removes a port that has neither members nor packets inside; returns its memory, to be freed.
    pub fn reap(&mut self) -> Option<PortMemory<S>> {
        let (number, _) = self.room.ports.iter().find(|(_, port)| {
            !port.is_vacant() && port.members() == 0 && port.state.ingress.inside() == 0
        })?;
        let port = self.room.port_mut(number)?;
        let memory = PortMemory {
            counters: port.ingress.exchange(Counters::none()),
            times: port.neighbour.exchange(Times::none()),
        };
        *port = PortState::vacant();
        self.room.ports.remove(number);
        Some(memory)
    }

    fn find_longest(&mut self) {
        self.longest = (0, NONE);
        self.second = 0;
        for (number, port) in self.room.ports.iter() {
            let hrtt = port.state.hrtt;
            if hrtt > self.longest.0 {
                self.second = self.longest.0;
                self.longest = (hrtt, number);
            } else {
                self.second = self.second.max(hrtt);
            }
        }
    }

    // ---- Statistics ---------------------------------------------------------------------------

    /// The events at a port.
    pub fn counters(&self, port: u16) -> PortCounters {
        let Some(port) = self.port(port) else {
            return PortCounters::default();
        };
        PortCounters {
            lapsed: port.neighbour.lapsed(),
            released: port.neighbour.releases(),
            pausing: port.ingress.paused().count(),
            ..port.counters
        }
    }

    /// The pause counter of an upstream queue.
    pub fn counter(&self, port: u16, upstream_queue: u16) -> u32 {
        let ingress = self.port(port).map(|port| &port.ingress);
        ingress.map_or(0, |ingress| ingress.counter(upstream_queue))
    }

    /// Counted packets inside, at a port.
    pub fn inside(&self, port: u16) -> u32 {
        self.port(port).map_or(0, |port| port.ingress.inside())
    }

    /// The number of ports, with members or without.
    pub fn ports(&self) -> usize {
        self.room.ports.len().into()
    }

    #[inline(always)]
    fn port(&self, port: u16) -> Option<&PortState<S>> {
        self.room.port(port)
    }
}

const _: () = assert!(MAX_PORTS <= MAX_QUEUES, "a set holds the ports that tell");
