// SPDX-License-Identifier: GPL-2.0-only

//! The network device that a qdisc belongs to.

use core::{mem::MaybeUninit, ptr::NonNull};

use kernel::{alloc::flags::GFP_KERNEL_ACCOUNT, error::to_result, prelude::*};

use super::bindings::{
    dev_add_pack, dev_mc_add, dev_mc_del, dev_remove_pack, net_device, packet_type, sk_buff,
    weft_qdisc_dev, Qdisc,
};

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
    /// Makes a qdisc's device receive frames to `address`.
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
        // SAFETY: The device is valid. As many bytes of the address are read as the device's
        // addresses have: 6 for Ethernet, more for some devices that have no use for it; hence the
        // longer array.
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
        // SAFETY: Valid (invariant), the address as in `join`. It does not matter whether the
        // address was still in the list: a device that goes away has flushed it.
        unsafe { dev_mc_del(self.device.as_ptr(), padded(self.address).as_ptr()) };
    }
}

/// Packets of all EtherTypes (`ETH_P_ALL`): their handlers run before the device's filters.
const ALL: u16 = 3;

/// A function called with each packet that arrives on a device.
pub(super) type Handler =
    unsafe extern "C" fn(*mut sk_buff, *mut net_device, *mut packet_type, *mut net_device) -> c_int;

/// A handler that sees each packet arriving on a device before all others do, and no outgoing
/// packets; until dropped.
///
/// # Invariants
///
/// The structure is registered and, in its box, does not move.
pub(super) struct Tap(KBox<packet_type>);

impl Tap {
    /// Makes a qdisc's device call the handler.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// As for [`Group::join`]. The handler may be called with any packet of the device until the
    /// value is dropped.
    pub(super) unsafe fn new(sch: *mut Qdisc, handler: Handler) -> Result<Self> {
        let tap = packet_type {
            type_: ALL.to_be(),
            // Otherwise each outgoing packet would be cloned.
            ignore_outgoing: true,
            // SAFETY: As the caller promises.
            dev: unsafe { weft_qdisc_dev(sch) },
            func: Some(handler),
            // SAFETY: All other fields are pointers or integers, for which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        };
        // Accounted as in [`KernelStore`](super::store::KernelStore).
        let mut tap = KBox::new(tap, GFP_KERNEL_ACCOUNT)?;
        // SAFETY: The structure is complete and does not move. The device is valid.
        unsafe { dev_add_pack(&raw mut *tap) };
        // INVARIANT: Registered just now.
        Ok(Self(tap))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // SAFETY: Registered (invariant), on a device that lives as long as its qdisc. The call
        // waits for packets that are being handled.
        unsafe { dev_remove_pack(&raw mut *self.0) };
    }
}
