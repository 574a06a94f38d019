// SPDX-License-Identifier: GPL-2.0-only

//! A packet that leaves by a device other than the one it was routed to.
//!
//! Its layer 2 header is replaced. The kernel knows the station at the other end of the other link
//! from its neighbour tables, which have an entry for every station that the link was ever used to
//! send to: IPv4's or IPv6's, as both name the same station. No layer 3 address is needed, because
//! the packet is not addressed to that station: the station forwards it by its destination. The
//! packet is like any other that this switch forwards: its hop was counted when it was forwarded to
//! the first port, and the next station counts the next one.
//!
//! It stays in its own network: it goes only by devices of the same VRF, and it is not detoured if
//! the namespace did not route it ([`is_routed`]).

use kernel::{prelude::*, sync::rcu};

use super::{
    bindings::{
        dev_get_by_index_rcu, net, net_device, weft_dev_can_send, weft_dev_fits,
        weft_dev_hard_header, weft_dev_has_carrier, weft_dev_neighbour, weft_dev_queue_xmit,
        weft_dev_type, weft_dev_vrf, weft_skb_is_routed, weft_skb_leave_link, ARPHRD_ETHER,
        WEFT_SKB_LEN,
    },
    skb::Skb,
};

/// The length of the longest hardware address (`MAX_ADDR_LEN`).
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

/// Whether the device's namespace has routed a packet that is about to leave by it, to a single
/// station.
///
/// # Safety
///
/// `device` is valid.
pub(super) unsafe fn is_routed(device: *mut net_device, skb: &Skb) -> bool {
    let _rcu = rcu::read_lock();
    // SAFETY: As the caller promises, under RCU; the packet is valid (invariant of Skb).
    unsafe { weft_skb_is_routed(skb.as_ptr(), device) }
}

/// The device, and the address at the other end of its link. It must be an Ethernet device of the
/// VRF that is up, has a carrier and a known neighbour, and whose MTU fits the packet.
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
            && weft_dev_can_send(device)
            && weft_dev_has_carrier(device)
            && c_uint::from(weft_dev_type(device)) == ARPHRD_ETHER
            && weft_dev_vrf(device) == vrf
            && weft_dev_fits(device, skb.as_ptr())
            && weft_dev_neighbour(device, address.as_mut_ptr());
        is_usable.then_some((device, address))
    }
}

/// Whether a device can currently send a packet of a VRF.
///
/// # Safety
///
/// `net` is valid.
pub(super) unsafe fn takes(net: *mut net, vrf: u32, index: u32, skb: &Skb) -> bool {
    let _rcu = rcu::read_lock();
    // SAFETY: As the caller promises, under RCU.
    unsafe { find(net, vrf, index, skb) }.is_some()
}

/// Sends a packet of a VRF by a device, or drops it if the device cannot send it. Returns whether
/// the packet reached the device's qdiscs.
///
/// # Safety
///
/// `net` is valid. No qdisc lock is held, and bottom halves are off or on.
pub(super) unsafe fn send(net: *mut net, vrf: u32, index: u32, skb: Skb) -> bool {
    let _rcu = rcu::read_lock();
    let protocol = skb.protocol();
    // SAFETY: As the caller promises, under RCU: the device is valid until the packet is sent. The
    // packet is ours and has room for the device's header. It passes to the device's qdisc, or is
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
