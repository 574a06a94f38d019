// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The ports of one switch, found by their devices.
//!
//! A port is a network device, known by its index. It belongs to the switch as long as it has a
//! **member**: a queueing discipline, or several if a device has several. A port whose last member
//! has left stays, with its state, until it is [removed](Ports::remove): packets inside the switch
//! may still refer to its number, which stays correct if a member joins again meanwhile.
//!
//! The mechanism defines the state of a port. Places for ports are reserved before the lock is
//! taken; moving to a [larger list](Ports::grow) adds more.
//!
//! # Cost
//!
//! Finding a port takes constant time: a hash table that is at most half full. A port's number does
//! not change as long as the port exists. Operations that add or remove ports are linear in their
//! number.

use super::store::Store;

/// The most ports of a switch.
pub const MAX_PORTS: u16 = 1024;

/// Not a port.
const NONE: u16 = u16::MAX;

/// 2^32 / φ, odd: Fibonacci hashing (Knuth vol. 3, §6.4).
const GOLDEN: u32 = 0x9E37_79B9;

/// A port, or a place for one.
pub struct Port<T> {
    /// The device's index; 0: no port.
    device: u32,
    /// 0: only its state remains.
    members: u16,
    /// The mechanism's state of it.
    pub state: T,
}

impl<T> Port<T> {
    /// The device's index; 0 if there is no port.
    #[inline]
    pub fn device(&self) -> u32 {
        self.device
    }

    /// How many members it has.
    #[inline]
    pub fn members(&self) -> u16 {
        self.members
    }

    /// Whether this is a place without a port.
    #[inline]
    pub fn is_vacant(&self) -> bool {
        self.device == 0
    }
}

/// The ports of a switch, each with a `T`.
pub struct Ports<S: Store, T> {
    ports: S::Of<Port<T>>,
    /// Ports by device, each [`NONE`] or a number; a power of two, at least twice the ports.
    table: S::Of<u16>,
    /// 32 - log2 of the table's length.
    shift: u32,
}

impl<S: Store, T> Ports<S, T> {
    /// Places for `places` ports, at most [`MAX_PORTS`], each with a state from `vacant`.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(places: u16, mut vacant: impl FnMut() -> T) -> Result<Self, S::Error> {
        let places = places.min(MAX_PORTS);
        let bits = 1_u32.wrapping_add(u16::BITS.wrapping_sub(places.leading_zeros()));
        Ok(Self {
            ports: S::allocate(places.into(), || Port {
                device: 0,
                members: 0,
                state: vacant(),
            })?,
            table: S::allocate(1_usize.wrapping_shl(bits), || NONE)?,
            shift: u32::BITS.wrapping_sub(bits),
        })
    }

    /// The number of places, with a port or without: ports' numbers are below it.
    pub fn places(&self) -> u16 {
        self.ports.len() as u16
    }

    /// How many ports there are, with members or without.
    pub fn len(&self) -> u16 {
        let ports = self.iter().filter(|(_, port)| !port.is_vacant());
        ports.fold(0, |sum, _| sum.wrapping_add(1))
    }

    /// Whether there is no port.
    pub fn is_empty(&self) -> bool {
        self.iter().all(|(_, port)| port.is_vacant())
    }

    /// All places, in the order of their numbers.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Port<T>)> {
        (0..MAX_PORTS).zip(self.ports.iter())
    }

    /// All places, in the order of their numbers.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Port<T>> {
        self.ports.iter_mut()
    }

    /// The port or place with this number.
    #[inline(always)]
    pub fn get(&self, number: u16) -> Option<&Port<T>> {
        self.ports.get(usize::from(number))
    }

    /// The port or place with this number.
    #[inline(always)]
    pub fn get_mut(&mut self, number: u16) -> Option<&mut Port<T>> {
        self.ports.get_mut(usize::from(number))
    }

    /// The number of a device's port, with members or without.
    #[inline]
    pub fn find(&self, device: u32) -> Option<u16> {
        let start = self.start(device);
        // From there to the end, then from the beginning.
        let (before, after) = self.table.split_at_checked(start)?;
        for &number in after.iter().chain(before) {
            if self.get(number)?.device == device {
                return Some(number);
            }
        }
        None
    }

    /// The number of a device's port, if it has a member.
    #[inline]
    pub fn find_member(&self, device: u32) -> Option<u16> {
        let number = self.find(device)?;
        (self.get(number)?.members != 0).then_some(number)
    }

    /// The number of places that are needed before a port is added; `None` if one is free.
    pub fn wanted_places(&self) -> Option<u16> {
        if self.iter().any(|(_, port)| port.is_vacant()) {
            return None;
        }
        Some(self.places().saturating_mul(2).clamp(2, MAX_PORTS))
    }

    /// Moves to a larger list without ports; returns the old one, for its memory to be freed. Ports
    /// keep their numbers.
    pub fn grow(&mut self, mut larger: Self) -> Self {
        for (new, old) in larger.ports.iter_mut().zip(self.ports.iter_mut()) {
            core::mem::swap(new, old);
        }
        larger.index();
        core::mem::replace(self, larger)
    }

    /// Adds a member to the port of `device`, an index that is not 0, and creates the port if there
    /// is none; returns its number. `None` if there is no free place, see
    /// [`wanted_places`](Self::wanted_places), or the port has 65,535 members.
    ///
    /// The state of a new port is the state at its place: the initial one, or that of an earlier
    /// port.
    pub fn join(&mut self, device: u32) -> Option<u16> {
        if device == 0 {
            return None;
        }
        let number = match self.find(device) {
            Some(number) => number,
            None => self.iter().find(|(_, port)| port.is_vacant())?.0,
        };
        let port = self.get_mut(number)?;
        port.members = port.members.checked_add(1)?;
        if port.is_vacant() {
            port.device = device;
            self.index();
        }
        Some(number)
    }

    /// Removes a member from a port. Returns whether it was the last: then the port may be
    /// [removed](Self::remove).
    pub fn leave(&mut self, number: u16) -> bool {
        let Some(port) = self.get_mut(number) else {
            return false;
        };
        let left = port.members.checked_sub(1);
        port.members = left.unwrap_or(0);
        left == Some(0)
    }

    /// Removes a port, unless it has members: its place is free, and the state stays there for the
    /// next port.
    pub fn remove(&mut self, number: u16) {
        if let Some(port) = self.get_mut(number).filter(|port| port.members == 0) {
            port.device = 0;
            self.index();
        }
    }

    /// Where the search for a device begins in the table.
    #[inline(always)]
    fn start(&self, device: u32) -> usize {
        device.wrapping_mul(GOLDEN).wrapping_shr(self.shift) as usize
    }

    /// Rebuilds the table of all ports.
    fn index(&mut self) {
        for slot in self.table.iter_mut() {
            *slot = NONE;
        }
        for number in 0..self.places() {
            let Some(port) = self.get(number).filter(|port| !port.is_vacant()) else {
                continue;
            };
            let start = self.start(port.device);
            let Some((before, after)) = self.table.split_at_mut_checked(start) else {
                return;
            };
            if let Some(slot) = after.iter_mut().chain(before).find(|slot| **slot == NONE) {
                *slot = number;
            }
        }
    }
}
