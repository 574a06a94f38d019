// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The state that the ports of one switch share: the memory, and the pauses.
//!
//! ```text
//!                 arrive                                depart
//!   packet ──▶ ┌ shared memory ─────────────────────┐ ──▶ egress port b
//!   (ingress   │ held[b][a], bytes of a, bytes of b │
//!    port a)   ├ headroom of a ─────────────────────┤
//!              └────────────────────────────────────┘
//!                 bytes of a > xoff × free: pause a's neighbour
//!                 bytes of a + xon ≤ xoff × free, and nothing in its headroom: resume it
//! ```
//!
//! The packets themselves are elsewhere: in the child of each port. The caller reports each packet
//! that arrives and each that leaves. A child may also drop packets that it has accepted; the
//! caller then reports only how many bytes are gone ([`lose`](Switch::lose)).
//!
//! # Admission
//!
//! A packet is **lossless** if its ingress port has priority flow control. Others may join the
//! shared memory if their egress port then holds at most α times its free part
//! ([`Share`]): dynamic thresholds. For a lossless packet only the bytes of its ingress port
//! count, because these pause the neighbour, and the egress port's threshold would drop packets
//! before that. It joins the shared memory if those bytes are then at most `xoff` of its free part,
//! and the headroom of its ingress port otherwise. This is the memory of HPCC's simulator, whose
//! authors describe it as that of Broadcom's switches; switches that run SONiC are configured
//! accordingly (lossless egress queues have no dynamic limit).
//!
//! The shared memory is the memory less the headrooms of all ports. A packet that leaves is taken
//! from the headroom of its ingress port first.
//!
//! # Priorities
//!
//! A device may have ports with different priorities. Each is a port of this switch: it has a
//! threshold, a headroom and a pause of its own, and a packet that waits in a port of one priority
//! counts only for ingress ports of the same priority.
//!
//! # Ingress ports
//!
//! A packet counts for the port of the device by which it entered the switch, if that device has
//! one with the priority of its egress port. A packet that leaves is subtracted there. When a child
//! drops packets that it has accepted, their ingress ports are unknown: the bytes are subtracted
//! from the ingress port that has the most in this egress port. Such an error ends at the latest
//! when the egress port is empty.
//!
//! # Cost
//!
//! Each packet, pause and resume takes constant time, except for a heap of the ports that are to
//! send frames. What a child drops after it was accepted takes time linear in the ports. For n
//! ports the switch has 4 n² bytes.

use super::frame::{Frame, PRIORITIES};
use super::options::{pause_time, Config};
use super::paused::Paused;
use super::pausing::{Pausing, Tell};
use crate::common::deadlines::Deadlines;
use crate::common::ports::{Ports, MAX_PORTS};
use crate::common::share::{Buffer, Share};
use crate::common::store::Store;

/// What identifies a port: its device, and the priority of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    /// The device's index, not 0.
    pub device: u32,
    /// Less than [`PRIORITIES`].
    pub priority: u8,
}

impl Id {
    /// The number by which [`Ports`] finds it; `None` if the device's index is too large for that.
    #[inline]
    fn number(self) -> Option<u32> {
        let first = self.device.checked_mul(PRIORITIES as u32)?;
        first.checked_add(self.priority.into())
    }

    fn of(number: u32) -> Self {
        Self {
            device: number / PRIORITIES as u32,
            priority: (number % PRIORITIES as u32) as u8,
        }
    }
}

/// The priority flow control of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// The link's rate in bytes per second, not 0.
    pub rate: u64,
    /// The time of a pause in quanta.
    pub quanta: u16,
    /// Bytes of headroom.
    pub headroom: u64,
    /// The percentage of the free memory above which the neighbour is paused.
    pub xoff: u64,
    /// Bytes below that at which it is resumed.
    pub xon: u64,
    /// ns of uninterrupted pause by the neighbour after which its pauses are ignored; 0 for never.
    pub watchdog: u64,
}

/// A member's options for its port; the latest member's apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of the switch's memory, by which this port computes its thresholds; `u64::MAX` for no
    /// limit.
    pub memory: u64,
    /// See [`Share::new`].
    pub alpha: u32,
    /// Its priority flow control.
    pub pfc: Option<Pfc>,
}

impl Terms {
    /// A port without limits.
    const NONE: Self = Self {
        memory: u64::MAX,
        alpha: 0,
        pfc: None,
    };

    /// The terms that follow from the options, for a device whose longest packet has `mtu` bytes.
    pub fn new(config: &Config, mtu: u32) -> Self {
        let memory = match config.memory {
            0 => u64::MAX,
            bytes => bytes.into(),
        };
        let pfc = Pfc {
            rate: config.rate,
            quanta: u16::try_from(config.quanta).unwrap_or(u16::MAX),
            // Without a limit nothing is ever paused.
            headroom: match config.memory {
                0 => 0,
                _ => config.headroom_bytes(mtu),
            },
            xoff: config.xoff.into(),
            xon: config.xon.into(),
            watchdog: config.watchdog,
        };
        Self {
            memory,
            alpha: config.alpha,
            pfc: config.pfc.then_some(pfc),
        }
    }

    fn headroom(&self) -> u64 {
        self.pfc.map_or(0, |pfc| pfc.headroom)
    }
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its egress port holds its share.
    Share,
    /// The memory is full.
    Memory,
    /// The headroom of its ingress port is full.
    Headroom,
}

/// Why a member was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The device's index is at least 2^29.
    Device,
    /// There is no room for another port: see [`Switch::grow`].
    Full,
    /// The headrooms of all ports would take the whole memory.
    Headroom,
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The device by which it goes.
    pub device: u32,
    /// The frame.
    pub frame: Frame,
}

/// The events at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets dropped, by [`Cause`].
    pub dropped: [u64; 3],
    /// The most bytes that the port has held.
    pub highest: u64,
    /// The most bytes in the switch that have arrived at it.
    pub highest_ingress: u64,
    /// The most bytes in its headroom.
    pub highest_headroom: u64,
    /// Pauses sent.
    pub pauses_sent: u64,
    /// Resumes sent.
    pub resumes_sent: u64,
    /// Frames that could not be sent.
    pub unsent: u64,
    /// Pauses received.
    pub pauses_received: u64,
    /// Resumes received.
    pub resumes_received: u64,
    /// Frames ignored: malformed.
    pub malformed: u64,
}

/// The present state of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Its events.
    pub counters: Counters,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Bytes that it may hold; `None` for no limit.
    pub share: Option<u64>,
    /// Bytes in the switch that have arrived at it.
    pub ingress: u64,
    /// Of these, bytes in its headroom.
    pub headroom: u64,
    /// The value of `ingress` above which its neighbour is paused, if it can be.
    pub threshold: Option<u64>,
    /// Whether its neighbour should be paused.
    pub pausing: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// ns for which it has been paused.
    pub paused_ns: u64,
    /// Pauses whose time was over.
    pub lapsed: u64,
    /// Pauses that the watchdog ended.
    pub released: u64,
    /// Pauses ignored since then.
    pub ignored: u64,
}

struct PortState {
    terms: Terms,
    /// Of the shared memory.
    share: Share,
    /// Bytes that wait in it.
    bytes: u64,
    /// Bytes in the switch that have arrived at it.
    ingress: u64,
    /// Of these, bytes in its headroom.
    over: u64,
    pausing: Pausing,
    paused: Paused,
    counters: Counters,
}

impl PortState {
    fn vacant() -> Self {
        Self {
            terms: Terms::NONE,
            share: Share::new(u64::MAX, 0),
            bytes: 0,
            ingress: 0,
            over: 0,
            pausing: Pausing::new(),
            paused: Paused::default(),
            counters: Counters::default(),
        }
    }

    /// The bytes of an ingress port above which its neighbour is paused, if the shared memory holds
    /// `used` bytes.
    #[inline]
    fn threshold(&self, pfc: &Pfc, used: u64) -> u64 {
        match self.share.buffer() {
            u64::MAX => u64::MAX,
            shared => shared.saturating_sub(used).saturating_mul(pfc.xoff) / 100,
        }
    }

    /// Whether its neighbour should be paused.
    #[inline]
    fn should_pause(&self, used: u64) -> bool {
        let Some(pfc) = &self.terms.pfc else {
            return false;
        };
        let threshold = self.threshold(pfc, used);
        if self.pausing.is_wanted() {
            let is_low = self.ingress == 0 || self.ingress.saturating_add(pfc.xon) <= threshold;
            self.over != 0 || !is_low
        } else {
            self.over != 0 || self.ingress > threshold
        }
    }

    /// ns between two pauses: half of a pause's time, as usual in switches. 0 for a port that no
    /// longer pauses, and may have to resume.
    fn refresh(&self) -> u64 {
        let pfc = self.terms.pfc;
        pfc.map_or(0, |pfc| pause_time(pfc.quanta.into(), pfc.rate) / 2)
    }

    /// Whether nothing refers to it.
    fn is_unused(&self) -> bool {
        self.bytes == 0 && self.ingress == 0 && self.pausing.next().is_none()
    }
}

/// Room for the ports of a switch.
pub struct Room<S: Store> {
    ports: Ports<S, PortState>,
    /// When each port is to send a frame.
    deadlines: Deadlines<S>,
    /// For each egress port, the bytes of packets without an ingress port, and of each ingress
    /// port.
    held: S::Of<u32>,
}

impl<S: Store> Room<S> {
    /// For `ports` ports, at most [`MAX_PORTS`].
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(ports: u16) -> Result<Self, S::Error> {
        let ports = ports.min(MAX_PORTS);
        Ok(Self {
            ports: Ports::new(ports, PortState::vacant)?,
            deadlines: Deadlines::new(ports)?,
            held: S::allocate(row_start(ports, ports), || 0)?,
        })
    }

    /// Where an egress port's bytes are.
    #[inline]
    fn row(&mut self, egress: u16) -> &mut [u32] {
        let places = self.ports.places();
        let (start, end) = (
            row_start(egress, places),
            row_start(egress.wrapping_add(1), places),
        );
        self.held.get_mut(start..end).unwrap_or_default()
    }

    #[inline]
    fn port(&self, number: u16) -> Option<&PortState> {
        self.ports.get(number).map(|port| &port.state)
    }

    #[inline]
    fn port_mut(&mut self, number: u16) -> Option<&mut PortState> {
        self.ports.get_mut(number).map(|port| &mut port.state)
    }
}

/// Where an egress port's bytes begin, in a room for `places` ports.
#[inline]
fn row_start(egress: u16, places: u16) -> usize {
    let columns = usize::from(places).wrapping_add(1);
    usize::from(egress).wrapping_mul(columns)
}

/// The column of an ingress port; 0 is that of packets without one.
#[inline]
fn column(ingress: Option<u16>) -> u16 {
    ingress.map_or(0, |port| port.wrapping_add(1))
}

/// One switch.
pub struct Switch<S: Store> {
    room: Room<S>,
    /// The shared memory.
    shared: Buffer,
    /// Bytes in all headrooms.
    over: u64,
    /// The most bytes in both.
    highest: u64,
    /// The headrooms of all ports.
    headrooms: u64,
    /// The time at which [`tick`](Self::tick) was called last, ns.
    ticked: u64,
    /// The port of the last frame.
    told: u16,
}

impl<S: Store> Switch<S> {
    /// A switch without ports.
    pub fn new(room: Room<S>) -> Self {
        Self {
            room,
            shared: Buffer::EMPTY,
            over: 0,
            highest: 0,
            headrooms: 0,
            ticked: 0,
            told: 0,
        }
    }

    // ---- Packets -----------------------------------------------------------------------------

    /// A packet of `len` bytes that came by a device (0: from this node) arrives at an egress port.
    ///
    /// # Errors
    ///
    /// The cause, if it must be dropped.
    #[inline]
    pub fn arrive(&mut self, egress: u16, device: u32, len: u32) -> Result<(), Cause> {
        let ingress = self.ingress(egress, device);
        let lossless = ingress.and_then(|number| {
            let pfc = self.room.port(number)?.terms.pfc?;
            Some((number, pfc))
        });
        let into_headroom = match lossless {
            Some((number, pfc)) => self.admit_lossless(egress, number, &pfc, len)?,
            None => {
                self.admit(egress, len)?;
                false
            }
        };
        self.add(egress, ingress, len.into(), into_headroom);
        Ok(())
    }

    /// Whether the egress port's share has room.
    #[inline]
    fn admit(&mut self, egress: u16, len: u32) -> Result<(), Cause> {
        let used = self.shared.bytes();
        let Some(port) = self.room.port_mut(egress) else {
            return Err(Cause::Memory);
        };
        let bytes = port.bytes.saturating_add(len.into());
        if port.share.admits(used, len, bytes) {
            return Ok(());
        }
        let cause = match port.share.has_room(used, len) {
            true => Cause::Share,
            false => Cause::Memory,
        };
        count(&mut port.counters, cause);
        Err(cause)
    }

    /// Whether a lossless packet goes into the headroom.
    #[inline]
    fn admit_lossless(
        &mut self,
        egress: u16,
        ingress: u16,
        pfc: &Pfc,
        len: u32,
    ) -> Result<bool, Cause> {
        let len = u64::from(len);
        let Some(port) = self.room.port(ingress) else {
            return Err(Cause::Memory);
        };
        let threshold = port.threshold(pfc, self.shared.bytes());
        if port.ingress.saturating_add(len) <= threshold {
            return Ok(false);
        }
        if port.over.saturating_add(len) <= pfc.headroom {
            return Ok(true);
        }
        // There is no room there, but there may be room here.
        let shared = port.ingress.saturating_sub(port.over);
        if shared.saturating_add(len) <= threshold {
            return Ok(false);
        }
        if let Some(port) = self.room.port_mut(egress) {
            count(&mut port.counters, Cause::Headroom);
        }
        Err(Cause::Headroom)
    }

    /// Adds bytes to an egress port.
    #[inline]
    fn add(&mut self, egress: u16, ingress: Option<u16>, bytes: u64, into_headroom: bool) {
        match into_headroom {
            true => self.over = self.over.saturating_add(bytes),
            false => self.shared.add(bytes),
        }
        self.highest = self.highest.max(self.bytes());
        let column = usize::from(column(ingress));
        if let Some(held) = self.room.row(egress).get_mut(column) {
            *held = held.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        if let Some(port) = self.room.port_mut(egress) {
            port.bytes = port.bytes.saturating_add(bytes);
            port.counters.highest = port.counters.highest.max(port.bytes);
        }
        let Some(number) = ingress else {
            return;
        };
        if let Some(port) = self.room.port_mut(number) {
            port.ingress = port.ingress.saturating_add(bytes);
            if into_headroom {
                port.over = port.over.saturating_add(bytes);
            }
            let counters = &mut port.counters;
            counters.highest_ingress = counters.highest_ingress.max(port.ingress);
            counters.highest_headroom = counters.highest_headroom.max(port.over);
        }
        self.review(number);
    }

    /// A packet of `len` bytes that came by a device has left an egress port.
    #[inline]
    pub fn depart(&mut self, egress: u16, device: u32, len: u32) {
        let left = self.subtract_from(egress, device, len.into());
        if left != 0 {
            self.lose(egress, left, None);
        }
    }

    /// An egress port has lost bytes of unknown packets. `device`: the device by which they came,
    /// if it is known.
    #[cold]
    pub fn lose(&mut self, egress: u16, bytes: u64, device: Option<u32>) {
        let mut left = bytes;
        if let Some(device) = device {
            left = self.subtract_from(egress, device, left);
        }
        if left != 0 {
            let row = (0..=MAX_PORTS).zip(self.room.row(egress).iter());
            let largest = row.max_by_key(|(_, held)| **held).map(|(column, _)| column);
            if let Some(column) = largest {
                left = left.saturating_sub(self.subtract(egress, column, left));
            }
        }
        for column in 0..=self.room.ports.places() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(self.subtract(egress, column, left));
        }
    }

    /// An egress port has more bytes, because its child cut a packet into segments. `device`: the
    /// device by which the packet came.
    #[cold]
    pub fn gain(&mut self, egress: u16, bytes: u64, device: u32) {
        let ingress = self.ingress(egress, device);
        self.add(egress, ingress, bytes, false);
    }

    /// Subtracts bytes of packets that came by a device from an egress port; returns how many it
    /// does not have.
    #[inline]
    fn subtract_from(&mut self, egress: u16, device: u32, bytes: u64) -> u64 {
        let id = self.ingress_id(egress, device);
        let number = id.and_then(Id::number);
        let column = column(number.and_then(|number| self.room.ports.find(number)));
        let left = bytes.saturating_sub(self.subtract(egress, column, bytes));
        if left == 0 || column == 0 {
            return left;
        }
        // They came while the device had no member.
        left.saturating_sub(self.subtract(egress, 0, left))
    }

    /// Subtracts at most `bytes` of a column of an egress port; returns how many it had.
    #[inline]
    fn subtract(&mut self, egress: u16, column: u16, bytes: u64) -> u64 {
        let Some(held) = self.room.row(egress).get_mut(usize::from(column)) else {
            return 0;
        };
        let some = u32::try_from(bytes).unwrap_or(u32::MAX).min(*held);
        *held = held.wrapping_sub(some);
        let bytes = u64::from(some);
        if let Some(port) = self.room.port_mut(egress) {
            port.bytes = port.bytes.saturating_sub(bytes);
        }
        let Some(ingress) = column.checked_sub(1) else {
            self.shared.release(bytes);
            return bytes;
        };
        let mut over = 0;
        if let Some(port) = self.room.port_mut(ingress) {
            over = port.over.min(bytes);
            port.over = port.over.wrapping_sub(over);
            port.ingress = port.ingress.saturating_sub(bytes);
        }
        self.over = self.over.saturating_sub(over);
        self.shared.release(bytes.wrapping_sub(over));
        self.review(ingress);
        bytes
    }

    /// Decides again whether to pause a port's neighbour.
    #[inline]
    fn review(&mut self, number: u16) {
        let used = self.shared.bytes();
        let Some(port) = self.room.ports.get_mut(number) else {
            return;
        };
        let is_vacated = port.members() == 0;
        let port = &mut port.state;
        let wanted = port.should_pause(used);
        port.pausing.want(wanted);
        let next = port.pausing.next();
        self.room.deadlines.set(number, next);
        if is_vacated {
            self.remove(number);
        }
    }

    // ---- Frames ------------------------------------------------------------------------------

    /// Whether there is a frame to send.
    #[inline]
    pub fn has_news(&self) -> bool {
        let first = self.room.deadlines.first();
        first.is_some_and(|(at, _)| at <= self.ticked)
    }

    /// The time is `now` ns.
    pub fn tick(&mut self, now: u64) {
        self.ticked = self.ticked.max(now);
    }

    /// When there is a frame to send, in ns, if ever.
    pub fn next_event(&self) -> Option<u64> {
        self.room.deadlines.first().map(|(at, _)| at)
    }

    /// The next frame to send at `now` ns; call it until there is none.
    pub fn next_frame(&mut self, now: u64) -> Option<Sending> {
        // Each turn gives a port a later time, or none.
        for _ in 0..=self.room.ports.places() {
            let (_, number) = self.room.deadlines.first().filter(|(at, _)| *at <= now)?;
            // Other ports may have changed what is free.
            self.review(number);
            let sending = self.tell(number, now);
            self.review(number);
            if sending.is_some() {
                return sending;
            }
        }
        None
    }

    fn tell(&mut self, number: u16, now: u64) -> Option<Sending> {
        let port = self.room.ports.get_mut(number)?;
        let Id { device, priority } = Id::of(port.device());
        let port = &mut port.state;
        let refresh = port.refresh();
        let tell = port.pausing.tell(refresh, now)?;
        let (counter, quanta) = match (tell, &port.terms.pfc) {
            (Tell::Pause, Some(pfc)) => (&mut port.counters.pauses_sent, pfc.quanta),
            _ => (&mut port.counters.resumes_sent, 0),
        };
        *counter = counter.wrapping_add(1);
        self.told = number;
        Some(Sending {
            device,
            frame: Frame::about(priority, quanta),
        })
    }

    /// A device could not send its last frame.
    pub fn unsent(&mut self, device: u32, now: u64) {
        let number = self.told;
        let port = self.room.ports.get(number);
        if port.is_none_or(|port| Id::of(port.device()).device != device) {
            return;
        }
        if let Some(port) = self.room.port_mut(number) {
            port.counters.unsent = port.counters.unsent.wrapping_add(1);
            let refresh = port.refresh();
            port.pausing.unsent(refresh, now);
        }
        self.review(number);
    }

    /// A frame arrived on a device at `now` ns. Returns whether to ask its ports for packets.
    pub fn hear(&mut self, device: u32, frame: &Frame, now: u64) -> bool {
        let mut resumed = false;
        for priority in 0..PRIORITIES as u8 {
            if let Some(quanta) = frame.time(priority) {
                resumed |= self.hear_time(Id { device, priority }, quanta, now);
            }
        }
        resumed
    }

    /// The same, for one port and its time in the frame.
    fn hear_time(&mut self, id: Id, quanta: u16, now: u64) -> bool {
        let Some(port) = self.member(id) else {
            return false;
        };
        let Some(pfc) = &port.terms.pfc else {
            return false;
        };
        let counter = match quanta {
            0 => &mut port.counters.resumes_received,
            _ => &mut port.counters.pauses_received,
        };
        *counter = counter.wrapping_add(1);
        port.paused.hear(pause_time(quanta.into(), pfc.rate), now)
    }

    /// A malformed frame arrived on a device. The port with the lowest priority counts it.
    pub fn hear_nonsense(&mut self, device: u32) {
        let ids = (0..PRIORITIES as u8).map(|priority| Id { device, priority });
        let number = ids.filter_map(|id| self.find(id)).next();
        if let Some(port) = number.and_then(|number| self.room.port_mut(number)) {
            port.counters.malformed = port.counters.malformed.wrapping_add(1);
        }
    }

    /// Until when a port is paused, in ns, unless something changes earlier; `None`: it may send.
    #[inline]
    pub fn paused_until(&mut self, number: u16, now: u64) -> Option<u64> {
        self.room.port_mut(number)?.paused.until(now)
    }

    /// A port's link went down at `now` ns, or its packets were purged: it may send.
    pub fn forget(&mut self, number: u16, now: u64) {
        if let Some(port) = self.room.port_mut(number) {
            port.paused.forget(now);
        }
    }

    // ---- Members -----------------------------------------------------------------------------

    /// The number of ports to make room for before a port is added; `None` if there is room.
    pub fn wanted_room(&self) -> Option<u16> {
        self.room.ports.wanted_places()
    }

    /// Moves to a larger room; returns the old one, for its memory to be freed.
    pub fn grow(&mut self, room: Room<S>) -> Room<S> {
        let Room {
            ports,
            deadlines,
            mut held,
        } = room;
        let (old, new) = (self.room.ports.places(), ports.places());
        for egress in 0..old {
            let to = row_start(egress, new);
            let to = held.get_mut(to..).unwrap_or_default();
            for (to, from) in to.iter_mut().zip(self.room.row(egress).iter()) {
                *to = *from;
            }
        }
        let behind = Room {
            ports: self.room.ports.grow(ports),
            deadlines: core::mem::replace(&mut self.room.deadlines, deadlines),
            held: core::mem::replace(&mut self.room.held, held),
        };
        for number in 0..new {
            let port = self.room.port(number);
            let next = port.and_then(|port| port.pausing.next());
            self.room.deadlines.set(number, next);
        }
        behind
    }

    /// Adds a member to a port; returns the port's number.
    ///
    /// # Errors
    ///
    /// [`Refused`].
    pub fn join(&mut self, id: Id, terms: &Terms) -> Result<u16, Refused> {
        let key = id.number().ok_or(Refused::Device)?;
        let number = self.room.ports.find(key);
        let port = number.and_then(|number| self.room.port(number));
        let before = port.map_or(0, |port| port.terms.headroom());
        let headrooms = self.headrooms.saturating_sub(before);
        let is_first = headrooms == 0;
        if !is_first && headrooms.saturating_add(terms.headroom()) >= terms.memory {
            return Err(Refused::Headroom);
        }
        let number = self.room.ports.join(key).ok_or(Refused::Full)?;
        let port = self.room.ports.get_mut(number).ok_or(Refused::Full)?;
        if port.members() == 1 {
            let port = &mut port.state;
            port.counters = Counters::default();
            port.paused = Paused::default();
        }
        self.set_terms(number, terms);
        Ok(number)
    }

    /// Sets a port's terms.
    pub fn set_terms(&mut self, number: u16, terms: &Terms) {
        if let Some(port) = self.room.port_mut(number) {
            port.terms = *terms;
            let watchdog = terms.pfc.map_or(0, |pfc| pfc.watchdog);
            port.paused.set_watchdog(watchdog);
        }
        let ports = self.room.ports.iter();
        let headrooms = ports.map(|(_, port)| port.state.terms.headroom());
        self.headrooms = headrooms.fold(0, u64::saturating_add);
        for port in self.room.ports.iter_mut() {
            let port = &mut port.state;
            let shared = match port.terms.memory {
                u64::MAX => u64::MAX,
                memory => memory.saturating_sub(self.headrooms),
            };
            port.share = Share::new(shared, port.terms.alpha);
        }
        for number in 0..self.room.ports.places() {
            self.review(number);
        }
    }

    /// Removes a member whose packets have all left.
    pub fn leave(&mut self, number: u16) {
        if self.room.ports.leave(number) {
            self.set_terms(number, &Terms::NONE);
        }
    }

    /// Removes a port that has neither members, nor packets, nor a frame to send.
    fn remove(&mut self, number: u16) {
        if self.room.port(number).is_some_and(PortState::is_unused) {
            self.room.ports.remove(number);
        }
    }

    // ---- Statistics ---------------------------------------------------------------------------

    /// The state of a port.
    pub fn state(&mut self, number: u16, now: u64) -> State {
        let used = self.shared.bytes();
        let Some(port) = self.room.port_mut(number) else {
            return State::default();
        };
        let threshold = port.terms.pfc.map(|pfc| port.threshold(&pfc, used));
        let is_limited = port.share.buffer() != u64::MAX;
        State {
            counters: port.counters,
            bytes: port.bytes,
            share: is_limited.then_some(port.share.most(used)),
            ingress: port.ingress,
            headroom: port.over,
            threshold: threshold.filter(|_| is_limited),
            pausing: port.pausing.is_wanted(),
            paused: port.paused.until(now).is_some(),
            paused_ns: port.paused.paused_ns(now),
            lapsed: port.paused.lapsed(),
            released: port.paused.releases(),
            ignored: port.paused.ignored(),
        }
    }

    /// Bytes in all ports.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes().saturating_add(self.over)
    }

    /// The most bytes in all ports at once.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The number of ports, with members or without.
    pub fn ports(&self) -> u16 {
        self.room.ports.len()
    }

    /// What identifies the ingress port of packets that wait in an egress port and came by a
    /// device; `None` if they are this node's.
    #[inline]
    fn ingress_id(&self, egress: u16, device: u32) -> Option<Id> {
        let Id { priority, .. } = Id::of(self.room.ports.get(egress)?.device());
        (device != 0).then_some(Id { device, priority })
    }

    /// That port, if it has a member.
    #[inline]
    fn ingress(&self, egress: u16, device: u32) -> Option<u16> {
        self.find(self.ingress_id(egress, device)?)
    }

    /// A port, if it has a member.
    #[inline]
    fn find(&self, id: Id) -> Option<u16> {
        self.room.ports.find_member(id.number()?)
    }

    #[inline]
    fn member(&mut self, id: Id) -> Option<&mut PortState> {
        let number = self.find(id)?;
        self.room.port_mut(number)
    }
}

/// Counts a dropped packet.
fn count(counters: &mut Counters, cause: Cause) {
    if let Some(counter) = counters.dropped.get_mut(cause as usize) {
        *counter = counter.wrapping_add(1);
    }
}
