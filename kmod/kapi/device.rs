// SPDX-License-Identifier: GPL-2.0-only

//! The network device that a qdisc belongs to.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};

use super::{
    bindings::{dev_mc_add, dev_mc_del, net_device, weft_dev_index, weft_qdisc_dev},
    qdisc::Setup,
};

/// A group address that the device receives, until dropped.
///
/// # Invariants
///
/// `device` is valid: a qdisc keeps its device until after its destroy callback, and this value is
/// part of a qdisc. The address was added once for this value.
pub struct Group {
    device: NonNull<net_device>,
    address: [u8; 6],
}

// SAFETY: The device's list of addresses has a lock of its own.
unsafe impl Send for Group {}

impl Group {
    /// Makes the device of a qdisc receive frames to `address`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn join(setup: &Setup, address: [u8; 6]) -> Result<Self> {
        // SAFETY: `setup` is a valid qdisc.
        let device = NonNull::new(unsafe { weft_qdisc_dev(setup.as_ptr()) }).ok_or(ENODEV)?;
        // SAFETY: The device is valid. Of the address as many bytes are read as the device's have:
        // 6 for Ethernet, more for some that have no use of it; hence the longer array.
        to_result(unsafe { dev_mc_add(device.as_ptr(), padded(address).as_ptr()) })?;
        // INVARIANT: Added just now.
        Ok(Self { device, address })
    }

    /// The device's index.
    pub fn device(&self) -> u32 {
        // SAFETY: Valid (invariant).
        unsafe { weft_dev_index(self.device.as_ptr()) }
    }
}

/// As long as the longest hardware address (`MAX_ADDR_LEN`).
fn padded([a, b, c, d, e, f]: [u8; 6]) -> [u8; 32] {
    let mut long = [0; 32];
    if let Some(first) = long.first_chunk_mut() {
        *first = [a, b, c, d, e, f];
    }
    long
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: Valid (invariant), the address as in `join`. Whether it was still in the list is
        // of no interest: a device that goes away has flushed it.
        unsafe { dev_mc_del(self.device.as_ptr(), padded(self.address).as_ptr()) };
    }
}
