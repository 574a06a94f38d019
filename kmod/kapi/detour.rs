// SPDX-License-Identifier: GPL-2.0-only

//! A packet that leaves by another device than the one it was routed to.
//!
//! Its header of layer 2 is replaced. Who is at the other end of the other link the kernel knows
//! from its neighbour tables, which have an entry for whoever the link was ever used to send to:
//! IPv4's or IPv6's, as both name the same station. No address of layer 3 is needed, for the packet
//! is not sent to anybody there: he is to forward it, by its destination. It is as any packet that
//! this switch forwards: its hop was counted when it was forwarded to the first port, and the next
//! is counted there.
//!
//! It stays in its own network: it goes by devices of the same VRF only, and not at all if the
//! namespace did not route it ([`is_routed`]).

use kernel::{prelude::*, sync::rcu};

use super::{
    bindings::{
        dev_get_by_index_rcu, net, net_device, weft_dev_fits, weft_dev_hard_header,
        weft_dev_has_carrier, weft_dev_is_running, weft_dev_neighbour, weft_dev_queue_xmit,
        weft_dev_type, weft_dev_vrf, weft_skb_is_routed, weft_skb_leave_link, ARPHRD_ETHER,
        WEFT_SKB_LEN,
    },
    skb::Skb,
};

/// As long as the longest hardware address (`MAX_ADDR_LEN`).
type Address = [u8; 32];

/// The VRF of a device; 0 for none.
///
/// # Safety
///
/// `device` is valid.
pub(super) unsafe fn vrf(device: *const net_device) -> u32 {
    let _rcu = rcu::read_lock();
    // SAFETY: As the caller promises, under RCU.
    unsafe { weft_dev_vrf(device) }
}

/// Whether the device's namespace has routed a packet that is about to leave by it, to one station.
///
/// # Safety
///
/// `device` is valid.
pub(super) unsafe fn is_routed(device: *mut net_device, skb: &Skb) -> bool {
    let _rcu = rcu::read_lock();
    // SAFETY: As the caller promises, under RCU; the packet is valid (invariant of Skb).
    unsafe { weft_skb_is_routed(skb.as_ptr(), device) }
}

/// The device, and who is at the other end of its link: an Ethernet device of a VRF that is up, has
/// a carrier and a neighbour that is known, and for which the packet is not too long.
///
/// # Safety
///
/// `net` is valid, and the RCU lock is held for as long as the device is used.
unsafe fn find(
    net: *mut net,
    vrf: u32,
    index: u32,
    skb: &Skb,
) -> Option<(*mut net_device, Address)> {
    let index = c_int::try_from(index).ok()?;
    let mut address = [0; 32];
    // SAFETY: As the caller promises; the packet is valid (invariant of Skb). An Ethernet device's
    // address has 6 bytes, for which there is room.
    unsafe {
        let device = dev_get_by_index_rcu(net, index);
        let is_usable = !device.is_null()
            && weft_dev_is_running(device)
            && weft_dev_has_carrier(device)
            && c_uint::from(weft_dev_type(device)) == ARPHRD_ETHER
            && weft_dev_vrf(device) == vrf
            && weft_dev_fits(device, skb.as_ptr())
            && weft_dev_neighbour(device, address.as_mut_ptr());
        is_usable.then_some((device, address))
    }
}

/// Whether a device can send a packet of a VRF, now.
///
/// # Safety
///
/// `net` is valid.
pub(super) unsafe fn takes(net: *mut net, vrf: u32, index: u32, skb: &Skb) -> bool {
    let _rcu = rcu::read_lock();
    // SAFETY: As the caller promises, under RCU.
    unsafe { find(net, vrf, index, skb) }.is_some()
}

/// Sends a packet of a VRF by a device, or drops it where that cannot. Whether the device's qdiscs
/// have had it.
///
/// # Safety
///
/// `net` is valid. No qdisc lock is held, and bottom halves are off or on.
pub(super) unsafe fn send(net: *mut net, vrf: u32, index: u32, skb: Skb) -> bool {
    let _rcu = rcu::read_lock();
    let protocol = skb.protocol();
    // SAFETY: As the caller promises, under RCU: the device is valid until the packet is sent. The
    // packet is ours; it has room for the device's header, and passes to the device's qdisc, or is
    // dropped.
    unsafe {
        let Some((device, address)) = find(net, vrf, index, &skb) else {
            return false;
        };
        if !weft_skb_leave_link(skb.as_ptr(), device) {
            return false;
        }
        let len = skb
            .as_ptr()
            .wrapping_byte_add(WEFT_SKB_LEN as usize)
            .cast::<u32>()
            .read();
        if weft_dev_hard_header(skb.as_ptr(), device, protocol, address.as_ptr(), len) < 0 {
            return false;
        }
        weft_dev_queue_xmit(skb.into_raw());
        true
    }
}
