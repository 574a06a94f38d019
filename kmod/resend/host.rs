// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A host: the copies of what its devices have sent, and the notices that arrive.

use super::copies::Copies;
use super::notice;
use super::segment::Segment;
use crate::common::store::Store;

/// The most devices of a host whose packets are kept: a notice is looked up in the copies of each.
pub const DEVICES: usize = 16;

/// What has happened in a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Notices that arrived, without the malformed ones.
    pub received: u64,
    /// Notices that were refused.
    pub malformed: u64,
    /// Copies that were sent.
    pub resent: u64,
    /// Notices of a segment that has no copy.
    pub missed: u64,
    /// Copies that could not be sent.
    pub failed: u64,
}

/// A device, by the caller's means `O` to send by it.
struct Device<S: Store, P, O> {
    copies: Copies<S, P>,
    outlet: Option<O>,
}

/// The devices of a host.
pub struct Host<S: Store, P, O> {
    devices: [Option<Device<S, P, O>>; DEVICES],
    counters: Counters,
}

/// Adds one to a counter.
pub fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

impl<S: Store, P, O> Host<S, P, O> {
    /// A host without devices.
    pub fn new() -> Self {
        Self {
            devices: [const { None }; DEVICES],
            counters: Counters::default(),
        }
    }

    /// Adds a device; returns its number, by which it is called below.
    ///
    /// # Errors
    ///
    /// The copies, if the host has [`DEVICES`] devices.
    pub fn join(&mut self, copies: Copies<S, P>) -> Result<u8, Copies<S, P>> {
        let free = self.devices.iter_mut().zip(0..).find(|it| it.0.is_none());
        let Some((place, number)) = free else {
            return Err(copies);
        };
        *place = Some(Device {
            copies,
            outlet: None,
        });
        Ok(number)
    }

    /// Removes a device; returns its parts, which the caller drops when it holds no lock.
    pub fn leave(&mut self, number: u8) -> Option<(Copies<S, P>, Option<O>)> {
        let device = self.devices.get_mut(usize::from(number))?.take()?;
        Some((device.copies, device.outlet))
    }

    /// Gives a device its means to send.
    pub fn connect(&mut self, number: u8, outlet: O) -> Option<O> {
        self.device(number)?.outlet.replace(outlet)
    }

    /// Gives a device other room for copies; returns what it had.
    ///
    /// # Errors
    ///
    /// The new room, if there is no such device.
    pub fn replace(
        &mut self,
        number: u8,
        copies: Copies<S, P>,
    ) -> Result<Copies<S, P>, Copies<S, P>> {
        match self.device(number) {
            Some(device) => Ok(core::mem::replace(&mut device.copies, copies)),
            None => Err(copies),
        }
    }

    /// Keeps the copy of a segment that a device sends. Returns the copy that it replaces.
    ///
    /// # Errors
    ///
    /// The copy, if it is not kept.
    pub fn keep(
        &mut self,
        number: u8,
        segment: Segment,
        packet: P,
        bytes: u32,
    ) -> Result<Option<P>, P> {
        match self.device(number) {
            Some(device) => device.copies.keep(segment, packet, bytes),
            None => Err(packet),
        }
    }

    /// Takes the oldest copy of a device.
    pub fn pop(&mut self, number: u8) -> Option<P> {
        self.device(number)?.copies.pop()
    }

    /// A packet with this EtherType has arrived, which begins with `header`. If it is a notice of a
    /// segment that has a copy, `send` gets the copy, and returns whether it sent it.
    pub fn hear(&mut self, protocol: u16, header: &[u8], send: impl FnOnce(&O, &P) -> bool) {
        let segment = match notice::decode(protocol, header) {
            None => return,
            Some(Err(_)) => return count(&mut self.counters.malformed),
            Some(Ok(segment)) => segment,
        };
        count(&mut self.counters.received);
        for device in self.devices.iter_mut().flatten() {
            let Device {
                copies,
                outlet: Some(outlet),
            } = device
            else {
                continue;
            };
            if let Some(packet) = copies.renew(&segment) {
                return count(match send(outlet, packet) {
                    true => &mut self.counters.resent,
                    false => &mut self.counters.failed,
                });
            }
        }
        count(&mut self.counters.missed);
    }

    /// The number of copies of a device, and their bytes.
    pub fn copies(&self, number: u8) -> (u32, u64) {
        let device = self.devices.get(usize::from(number)).map(Option::as_ref);
        device.flatten().map_or((0, 0), |device| {
            (device.copies.len(), device.copies.bytes())
        })
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn device(&mut self, number: u8) -> Option<&mut Device<S, P, O>> {
        self.devices.get_mut(usize::from(number))?.as_mut()
    }
}

impl<S: Store, P, O> Default for Host<S, P, O> {
    fn default() -> Self {
        Self::new()
    }
}
