// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What the ports of one switch share: pause counters, what the neighbours said, and the buffer.
//!
//! ```text
//!  egress a ──┐  take, release: the shared buffer         ┌─▶ frames to the neighbours  (next_tell)
//!  egress b ──┼─▶ Switch { port 0, port 1, …, bytes } ────┤
//!  egress c ──┘  count, uncount: ingress port, queue      └── frames from them          (hear)
//! ```
//!
//! A port is a network device, known by its index. It belongs to the switch as long as it has a
//! **member**: an [`Egress`](super::egress::Egress), or several where a device has several
//! queueing disciplines. Together they have at most 1,023 queues, each with a number on the wire of
//! its own: what a member calls queue q is number `base` + q there.
//!
//! A port whose last member has left stays for as long as packets inside the switch are counted
//! there: were it to come back meanwhile, its counters would be right.
//!
//! # Cost
//!
//! Everything that happens per packet, and per pause or resume, takes constant time; ports are found
//! by a hash table that is at most half full, and whose bitmap is due next by a heap. A port has
//! 4 KiB of counters, 16 bytes for each of its queues, and some 1,000 besides.

use super::deadlines::Deadlines;
use super::ingress::{Counters, Ingress, Tell};
use super::neighbour::{Heard, Neighbour, Rules, Verdict};
use super::queue_set::{QueueSet, MAX_QUEUES};
use super::times::Times;
use crate::common::store::Store;

/// The most ports of a switch.
pub const MAX_PORTS: u16 = 1024;

/// Not a port.
const NONE: u16 = u16::MAX;

/// 2^32 / φ, odd: Fibonacci hashing (Knuth vol. 3, §6.4).
const GOLDEN: u32 = 0x9E37_79B9;

/// What a member says about its port; the last one who says it is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// 1-hop round-trip time to the neighbour, in ns.
    pub hrtt: u64,
    /// ns between two bitmaps to the upstream neighbour.
    pub refresh: u64,
    /// What the downstream neighbour may demand.
    pub rules: Rules,
}

impl Default for Link {
    /// Nothing is known of it.
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
    /// Its queues have the numbers above this one.
    pub base: u16,
    /// How many.
    pub queues: u16,
}

/// An α of 1: see [`Share`].
pub const ALPHA_1: u32 = 128;

/// How much of the switch's buffer a port may have.
///
/// A. K. Choudhury, E. L. Hahne: "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
/// IEEE/ACM Transactions on Networking 6(2), 1998: a port may have α times what is free. A port that
/// is stuck then has at most α / (1 + α) of the buffer, the next one as much of the rest, and so on:
/// n of them leave 1 / (1 + α)^n to the others, or 1 / (1 + n α) if they fill up together. And a port
/// that is alone in the switch cannot have all of it: with an α of 8, eight ninths.
///
/// As long as the switch has no more than α / (1 + α) of its buffer, every port has its share, for no
/// port has more than the switch: so one comparison is all that this costs a packet until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    buffer: u64,
    alpha: u32,
    /// So many bytes in the switch, a packet that arrives included, concern nobody.
    plenty: u64,
}

impl Share {
    /// `buffer`: the most bytes of data in all ports of the switch. `alpha`: α in parts of
    /// [`ALPHA_1`], as switches have it, in which it is a power of two; 0: a port may have all that
    /// is free.
    pub const fn new(buffer: u64, alpha: u32) -> Self {
        let parts = (ALPHA_1 as u64).wrapping_add(alpha as u64);
        let share = buffer.saturating_mul(alpha as u64).checked_div(parts);
        let plenty = match share {
            Some(share) if alpha != 0 => share,
            _ => buffer,
        };
        Self {
            buffer,
            alpha,
            plenty,
        }
    }

    /// The most bytes of data in all ports of the switch.
    pub const fn buffer(&self) -> u64 {
        self.buffer
    }

    /// α in parts of [`ALPHA_1`]; 0 for none.
    pub const fn alpha(&self) -> u32 {
        self.alpha
    }
}

/// Why a member was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room for another port: see [`Switch::grow`].
    Full,
    /// The port's queues would be more than 1,023.
    Numbers,
}

/// A frame to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The device by which it goes.
    pub device: u32,
    /// Its number.
    pub sequence: u64,
    /// For how long it holds, in ns.
    pub hold: u64,
    /// What it says.
    pub tell: Tell,
}

/// What has happened at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Pauses told to the upstream neighbour.
    pub pauses_sent: u64,
    /// Resumes told.
    pub resumes_sent: u64,
    /// Bitmaps told.
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
    /// Frames ignored: nonsense.
    pub malformed: u64,
    /// Frames ignored: of somebody else than the neighbour.
    pub foreign: u64,
    /// Frames ignored: old.
    pub replayed: u64,
    /// Upstream queues that are to be paused now.
    pub pausing: u32,
}

struct Port<S: Store> {
    /// The device's index; 0: no port.
    device: u32,
    /// 0: only the packets inside are left of it.
    members: u16,
    /// Numbers in use.
    numbers: QueueSet,
    hrtt: u64,
    ingress: Ingress<S>,
    neighbour: Neighbour<S>,
    /// Of the frame sent last.
    sequence: u64,
    counters: PortCounters,
}

impl<S: Store> Port<S> {
    fn vacant() -> Self {
        Self {
            device: 0,
            members: 0,
            numbers: QueueSet::EMPTY,
            hrtt: 0,
            ingress: Ingress::new(Counters::none()),
            neighbour: Neighbour::new(Times::none()),
            sequence: 0,
            counters: PortCounters::default(),
        }
    }

    fn is_vacant(&self) -> bool {
        self.device == 0
    }
}

/// Memory of a port: of its pause counters, and of its queues' pauses.
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
    ports: S::Of<Port<S>>,
    /// Ports by device, each [`NONE`] or an index; a power of two, at least twice the ports.
    table: S::Of<u16>,
    /// 32 - log2 of the table's length.
    shift: u32,
    /// When the next bitmaps of ports with a member are due.
    deadlines: Deadlines<S>,
}

impl<S: Store> Room<S> {
    /// For `ports` ports, at most [`MAX_PORTS`].
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(ports: u16) -> Result<Self, S::Error> {
        let ports = ports.min(MAX_PORTS);
        let bits = 1_u32.wrapping_add(u16::BITS.wrapping_sub(ports.leading_zeros()));
        Ok(Self {
            ports: S::allocate(ports.into(), Port::vacant)?,
            table: S::allocate(1_usize.wrapping_shl(bits), || NONE)?,
            shift: u32::BITS.wrapping_sub(bits),
            deadlines: Deadlines::new(ports)?,
        })
    }

    /// Where in the table the search for a device begins.
    #[inline(always)]
    fn start(&self, device: u32) -> usize {
        device.wrapping_mul(GOLDEN).wrapping_shr(self.shift) as usize
    }

    #[inline]
    fn find(&self, device: u32) -> Option<u16> {
        let start = self.start(device);
        // From there to the end, and around.
        let (before, after) = self.table.split_at_checked(start)?;
        for &port in after.iter().chain(before) {
            if self.ports.get(usize::from(port))?.device == device {
                return Some(port);
            }
        }
        None
    }

    /// Says when a port's next bitmap is due, where that may have changed.
    #[inline]
    fn schedule(&mut self, number: u16) {
        let port = self.ports.get(usize::from(number));
        let port = port.filter(|port| port.members != 0);
        let due = port.and_then(|port| port.ingress.next_refresh());
        self.deadlines.set(number, due);
    }

    /// Puts all ports into the table anew.
    fn index(&mut self) {
        for slot in self.table.iter_mut() {
            *slot = NONE;
        }
        for number in 0..self.ports.len() {
            let Some(port) = self.ports.get(number).filter(|port| !port.is_vacant()) else {
                continue;
            };
            let start = self.start(port.device);
            let Some((before, after)) = self.table.split_at_mut_checked(start) else {
                return;
            };
            if let Some(slot) = after.iter_mut().chain(before).find(|slot| **slot == NONE) {
                *slot = number as u16;
            }
        }
    }
}

/// One switch.
pub struct Switch<S: Store> {
    room: Room<S>,
    /// Ports that have something to tell.
    telling: QueueSet,
    /// Bytes in all ports.
    bytes: u64,
    highest_bytes: u64,
    /// The longest HRTT of a port, and the longest of the others.
    longest: (u64, u16),
    second: u64,
}

impl<S: Store> Switch<S> {
    /// A switch without ports.
    pub fn new(room: Room<S>) -> Self {
        Self {
            room,
            telling: QueueSet::EMPTY,
            bytes: 0,
            highest_bytes: 0,
            longest: (0, NONE),
            second: 0,
        }
    }

    // ---- The buffer --------------------------------------------------------------------------

    /// Takes room for `len` bytes of a port that then has `bytes`. `false`: there is none in the
    /// switch ([`has_room`](Self::has_room)), or the port has its share.
    #[inline]
    pub fn take(&mut self, len: u32, bytes: u64, share: &Share) -> bool {
        let all = self.bytes.saturating_add(len.into());
        if all > share.plenty && !self.has_share(len, bytes, share) {
            return false;
        }
        self.bytes = all;
        self.highest_bytes = self.highest_bytes.max(all);
        true
    }

    #[cold]
    fn has_share(&self, len: u32, bytes: u64, share: &Share) -> bool {
        let free = share.buffer.saturating_sub(self.bytes);
        let most = free.saturating_mul(share.alpha.into()) / u64::from(ALPHA_1);
        self.has_room(len, share) && (share.alpha == 0 || bytes <= most)
    }

    /// Whether the switch has room for `len` bytes.
    pub fn has_room(&self, len: u32, share: &Share) -> bool {
        self.bytes.saturating_add(len.into()) <= share.buffer
    }

    /// Gives room back.
    #[inline]
    pub fn release(&mut self, len: u32) {
        self.bytes = self.bytes.saturating_sub(len.into());
    }

    /// Bytes in all ports, and the most there ever were.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.highest_bytes)
    }

    // ---- Pause counters ----------------------------------------------------------------------

    /// The port of a device, if it has a member.
    #[inline]
    pub fn find(&self, device: u32) -> Option<u16> {
        let port = self.room.find(device)?;
        (self.port(port)?.members != 0).then_some(port)
    }

    /// A packet that came by `port` from `upstream_queue` is enqueued above the threshold.
    ///
    /// Whether it counts, and then [`uncount`](Self::uncount) is to be called when it leaves.
    #[inline]
    pub fn count(&mut self, port: u16, upstream_queue: u16) -> bool {
        let number = port;
        let Some(port) = self.room.ports.get_mut(usize::from(port)) else {
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

    /// A packet that counts has left.
    #[inline]
    pub fn uncount(&mut self, port: u16, upstream_queue: u16) {
        let number = port;
        if let Some(port) = self.room.ports.get_mut(usize::from(port)) {
            port.ingress.uncount(upstream_queue);
            if port.ingress.has_news() {
                self.telling.insert(number);
            }
        }
    }

    /// The largest HRTT of the ports by which packets can come to `port`: all others; its own where
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

    /// Whether a neighbour is to be told something at once.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.telling.is_empty()
    }

    /// The next frame to be sent at `now` ns; to be called until there is none.
    pub fn next_frame(&mut self, now: u64) -> Option<Frame> {
        while let Some(number) = self.telling.first() {
            self.telling.remove(number);
            let Some(port) = self.room.ports.get_mut(usize::from(number)) else {
                continue;
            };
            if port.members == 0 {
                continue;
            }
            let Some(tell) = port.ingress.tell(now) else {
                self.room.schedule(number);
                continue;
            };
            let counters = &mut port.counters;
            let counter = match tell {
                Tell::Pause(_) => &mut counters.pauses_sent,
                Tell::Resume(_) => &mut counters.resumes_sent,
                Tell::State(_) => &mut counters.bitmaps_sent,
            };
            *counter = counter.wrapping_add(1);
            port.sequence = port.sequence.wrapping_add(1);
            let frame = Frame {
                device: port.device,
                sequence: port.sequence,
                hold: port.ingress.hold(),
                tell,
            };
            self.room.schedule(number);
            return Some(frame);
        }
        None
    }

    /// A frame could not be sent: its port tells the whole state when the next bitmap is due.
    pub fn unsent(&mut self, device: u32, now: u64) {
        let Some(number) = self.room.find(device) else {
            return;
        };
        if let Some(port) = self.room.ports.get_mut(usize::from(number)) {
            port.counters.unsent = port.counters.unsent.wrapping_add(1);
            let at = port.ingress.after(now);
            port.ingress.tell_again(at);
        }
        self.room.schedule(number);
    }

    /// Looks for bitmaps that are due at `now` ns: [`next_frame`](Self::next_frame) then has them.
    pub fn refresh(&mut self, now: u64) {
        while let Some((_, number)) = self.room.deadlines.first().filter(|(due, _)| *due <= now) {
            self.telling.insert(number);
            // Until it is told.
            self.room.deadlines.set(number, None);
        }
    }

    /// When the next bitmap is due, in ns, if one is that [`refresh`](Self::refresh) has not found.
    pub fn next_refresh(&self) -> Option<u64> {
        self.room.deadlines.first().map(|(due, _)| due)
    }

    /// A frame came in by a device at `now` ns. `None`: nobody there is interested.
    pub fn hear(&mut self, device: u32, heard: &Heard, now: u64) -> Option<Verdict> {
        let port = self.find(device)?;
        let port = self.room.ports.get_mut(usize::from(port))?;
        let verdict = port.neighbour.hear(heard, now);
        let counters = &mut port.counters;
        let counter = match (verdict, heard.tell) {
            (Verdict::Foreign, _) => &mut counters.foreign,
            (Verdict::Replayed, _) => &mut counters.replayed,
            (Verdict::Taken { .. }, Tell::Pause(_)) => &mut counters.pauses_received,
            (Verdict::Taken { .. }, Tell::Resume(_)) => &mut counters.resumes_received,
            (Verdict::Taken { .. }, Tell::State(_)) => &mut counters.bitmaps_received,
        };
        *counter = counter.wrapping_add(1);
        Some(verdict)
    }

    /// A frame that is none came in by a device.
    pub fn hear_nonsense(&mut self, device: u32) {
        let port = self.find(device);
        if let Some(port) = port.and_then(|port| self.room.ports.get_mut(usize::from(port))) {
            port.counters.malformed = port.counters.malformed.wrapping_add(1);
        }
    }

    /// What is to be paused at a member now: its own numbers for its queues. `None`: the same as
    /// when this returned the number `seen`.
    #[inline]
    pub fn paused(&mut self, place: &Place, seen: u32, now: u64) -> Option<(u32, QueueSet)> {
        let port = self.room.ports.get_mut(usize::from(place.port))?;
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

    /// Whether a member's queue is paused at `now` ns, and for how long it has been in all, in ns.
    pub fn pause(&mut self, place: &Place, queue: u16, now: u64) -> (bool, u64) {
        let Some(port) = self.room.ports.get_mut(usize::from(place.port)) else {
            return (false, 0);
        };
        port.neighbour.lapse(now);
        let number = place.base.wrapping_add(queue);
        let paused = port.neighbour.paused().contains(number);
        (paused, port.neighbour.times().so_far(number, now))
    }

    /// A port's link went down at `now` ns, or its packets were purged: its neighbour is forgotten.
    pub fn forget(&mut self, port: u16, now: u64) {
        if let Some(port) = self.room.ports.get_mut(usize::from(port)) {
            port.neighbour.forget(now);
        }
    }

    // ---- Members -----------------------------------------------------------------------------

    /// How many ports there should be room for before a port is added; `None` if there is.
    pub fn wanted_room(&self) -> Option<u16> {
        if self.room.ports.iter().any(Port::is_vacant) {
            return None;
        }
        let ports = self.room.ports.len() as u16;
        Some(ports.saturating_mul(2).clamp(2, MAX_PORTS))
    }

    /// Moves to a larger room; returns the one left behind, for its memory to be freed.
    pub fn grow(&mut self, mut room: Room<S>) -> Room<S> {
        for (new, old) in room.ports.iter_mut().zip(self.room.ports.iter_mut()) {
            core::mem::swap(new, old);
        }
        room.index();
        for number in 0..room.ports.len() {
            room.schedule(number as u16);
        }
        core::mem::replace(&mut self.room, room)
    }

    /// How many queue numbers the port of `device` needs memory for, if a member with `queues` queues
    /// is added.
    pub fn wanted_numbers(&self, device: u32, queues: u16) -> u16 {
        let port = self.room.find(device).and_then(|port| self.port(port));
        let base = port.map_or(Some(0), |port| port.numbers.gap(queues));
        let last = base.unwrap_or(0).saturating_add(queues);
        last.saturating_add(1).min(MAX_QUEUES)
    }

    /// Adds a member with `queues` queues to the port of `device`.
    ///
    /// The memory is for the port, if it is new or has more numbers than before; what is left in the
    /// argument is to be freed.
    /// `sequence`: the number before that of the port's first frame. `now`: ns.
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
        let number = match self.room.find(device) {
            Some(number) => number,
            None => {
                let mut numbers = (0..MAX_PORTS).zip(self.room.ports.iter());
                let vacant = numbers.find(|(_, port)| port.is_vacant());
                let (number, _) = vacant.ok_or(Refused::Full)?;
                number
            }
        };
        let port = self.room.ports.get_mut(usize::from(number));
        let port = port.ok_or(Refused::Full)?;
        let base = port.numbers.gap(queues).ok_or(Refused::Numbers)?;
        if port.is_vacant() {
            port.device = device;
            let counters = core::mem::replace(&mut memory.counters, Counters::none());
            port.ingress = Ingress::new(counters);
        }
        if port.members == 0 {
            port.sequence = port.sequence.max(sequence);
            port.counters = PortCounters::default();
            let times = port.neighbour.exchange(Times::none());
            port.neighbour = Neighbour::new(times);
            if port.ingress.inside() != 0 {
                // Nobody was told, or who was told is gone.
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
        port.members = port.members.wrapping_add(1);
        self.room.index();
        self.room.schedule(number);
        self.set_link(number, link);
        Ok(Place {
            port: number,
            base,
            queues,
        })
    }

    /// Sets what a port's link is like.
    pub fn set_link(&mut self, port: u16, link: &Link) {
        if let Some(port) = self.room.ports.get_mut(usize::from(port)) {
            port.hrtt = link.hrtt;
            port.ingress.set_refresh(link.refresh);
            port.neighbour.set_rules(link.rules);
        }
        self.find_longest();
    }

    /// Takes a member away, whose packets have all left.
    pub fn leave(&mut self, place: &Place) {
        if let Some(port) = self.room.ports.get_mut(usize::from(place.port)) {
            for queue in 1..=place.queues {
                port.numbers.remove(place.base.wrapping_add(queue));
            }
            port.members = port.members.saturating_sub(1);
            if port.members == 0 {
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
        let ended = |port: &&mut Port<S>| {
            !port.is_vacant() && port.members == 0 && port.ingress.inside() == 0
        };
        let port = self.room.ports.iter_mut().find(ended)?;
        let memory = PortMemory {
            counters: port.ingress.exchange(Counters::none()),
            times: port.neighbour.exchange(Times::none()),
        };
        *port = Port::vacant();
        self.room.index();
        Some(memory)
    }

    fn find_longest(&mut self) {
        self.longest = (0, NONE);
        self.second = 0;
        for (number, port) in (0..MAX_PORTS).zip(self.room.ports.iter()) {
            if port.hrtt > self.longest.0 {
                self.second = self.longest.0;
                self.longest = (port.hrtt, number);
            } else {
                self.second = self.second.max(port.hrtt);
            }
        }
    }

    // ---- What there is to see ----------------------------------------------------------------

    /// What has happened at a port.
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

    /// Packets inside that count at a port.
    pub fn inside(&self, port: u16) -> u32 {
        self.port(port).map_or(0, |port| port.ingress.inside())
    }

    /// Ports that are there, without members or with.
    pub fn ports(&self) -> usize {
        let ports = self.room.ports.iter();
        ports.fold(0, |sum, port| {
            sum.wrapping_add(usize::from(!port.is_vacant()))
        })
    }

    #[inline(always)]
    fn port(&self, port: u16) -> Option<&Port<S>> {
        self.room.ports.get(usize::from(port))
    }
}

const _: () = assert!(MAX_PORTS <= MAX_QUEUES, "a set holds the ports that tell");
