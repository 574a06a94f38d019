// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The ingress ports whose packets cause no backpressure at an egress port (App. B, "Preventing
//! deadlocks").
//!
//! "To remove a backpressure edge B → A, we use the simple strategy of skipping the backpressure
//! operation for packets coming from A going to B at the switch corresponding to B. Note that, a
//! switch can identify such packets locally using the ingress and egress port of the packet." This
//! is the egress port's part of that table.

/// The most ingress ports in one egress port's table.
pub const MAX_ELIDED: usize = 64;

/// A set of devices, by their indices, none of which is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elision {
    /// In ascending order; unused entries hold the highest number.
    devices: [u32; MAX_ELIDED],
}

impl Elision {
    /// No device.
    pub const NONE: Self = Self {
        devices: [u32::MAX; MAX_ELIDED],
    };

    /// These devices; different ones beyond the first [`MAX_ELIDED`] are omitted.
    pub fn new(devices: impl Iterator<Item = u32>) -> Self {
        let mut this = Self::NONE;
        for device in devices {
            // Higher entries move up by one.
            let mut insert = device;
            for slot in &mut this.devices {
                if *slot == insert {
                    break;
                }
                if *slot > insert {
                    core::mem::swap(slot, &mut insert);
                }
            }
        }
        this
    }

    /// Whether a device is in the set.
    #[inline]
    pub fn contains(&self, device: u32) -> bool {
        device != u32::MAX && self.devices.binary_search(&device).is_ok()
    }
}

impl Default for Elision {
    fn default() -> Self {
        Self::NONE
    }
}
