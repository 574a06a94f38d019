// SPDX-License-Identifier: GPL-2.0-only

//! The network device that a qdisc belongs to.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};

use super::bindings::{dev_mc_add, dev_mc_del, net_device, weft_qdisc_dev, Qdisc};

/// A group address that the device receives, until dropped.
///
/// # Invariants
///
/// `device` is valid: a qdisc keeps its device until after its destroy callback, and this value is
/// dropped there. The address was added once for this value.
pub(super) struct Group {
    device: NonNull<net_device>,
    address: [u8; 6],
}

impl Group {
    /// Makes the device of a qdisc receive frames to `address`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `sch` is valid, and its destroy callback does not end before the value is dropped.
    pub(super) unsafe fn join(sch: *mut Qdisc, address: [u8; 6]) -> Result<Self> {
        // SAFETY: As the caller promises.
        let device = NonNull::new(unsafe { weft_qdisc_dev(sch) }).ok_or(ENODEV)?;
        // SAFETY: The device is valid. Of the address as many bytes are read as the device's have:
        // 6 for Ethernet, more for some that have no use of it; hence the longer array.
        to_result(unsafe { dev_mc_add(device.as_ptr(), padded(address).as_ptr()) })?;
        // INVARIANT: Added just now.
        Ok(Self { device, address })
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
