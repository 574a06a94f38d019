// SPDX-License-Identifier: GPL-2.0-only

//! The modules' own Ethernet frames, to a group address.

use core::slice;

use kernel::{prelude::*, sync::rcu};

use super::bindings::{
    dev_get_by_index_rcu, net, net_device, sk_buff, skb_copy_bits, skb_put, weft_dev_can_send,
    weft_dev_hard_header, weft_dev_queue_xmit, weft_dev_type, weft_frame_alloc, weft_skb_free,
    weft_skb_mac_header, weft_skb_mac_header_was_set, weft_skb_pkt_type, weft_skb_set_protocol,
    ARPHRD_ETHER, NET_XMIT_CN, NET_XMIT_SUCCESS, PACKET_MULTICAST, TC_PRIO_CONTROL, WEFT_SKB_LEN,
    WEFT_SKB_PRIORITY,
};
use crate::common::shared::Frames;

/// Sends a frame through a device's own qdiscs. Returns whether it was sent: not if there is no
/// such Ethernet device, it is down, its root qdisc is being replaced, or there is no memory or no
/// room.
///
/// # Safety
///
/// `net` is valid. No qdisc lock is held, and bottom halves are off or on.
pub(super) unsafe fn send(net: *mut net, index: u32, frames: &Frames, payload: &[u8]) -> bool {
    let Frames { ethertype, group } = *frames;
    let (Ok(index), Ok(len)) = (c_int::try_from(index), u32::try_from(payload.len())) else {
        return false;
    };
    let _rcu = rcu::read_lock();
    // SAFETY: `net` is valid. The device exists as long as the RCU lock is held, the packet until
    // it is freed or sent; it has room for its headers and `len` bytes.
    unsafe {
        let device = dev_get_by_index_rcu(net, index);
        if device.is_null()
            || !weft_dev_can_send(device)
            || c_uint::from(weft_dev_type(device)) != ARPHRD_ETHER
        {
            return false;
        }
        let skb = weft_frame_alloc(device, len);
        if skb.is_null() {
            return false;
        }
        let data = skb_put(skb, len).cast::<u8>();
        data.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        weft_skb_set_protocol(skb, ethertype);
        skb.wrapping_byte_add(WEFT_SKB_PRIORITY as usize)
            .cast::<u32>()
            .write(TC_PRIO_CONTROL);
        if weft_dev_hard_header(skb, device, ethertype, group.as_ptr(), len) < 0 {
            weft_skb_free(skb);
            return false;
        }
        // With NET_XMIT_CN a congested qdisc has accepted the frame.
        let code = weft_dev_queue_xmit(skb);
        code == NET_XMIT_SUCCESS as c_int || code == NET_XMIT_CN as c_int
    }
}

/// Reads a frame that a device received: the sender, and how many bytes it put into `payload`.
/// `None` for a frame that is not to the group, arrived through a device on top of another, or is
/// too long.
///
/// # Safety
///
/// `skb`, `device` and `origin` are the arguments of a running handler of a packet type.
pub(super) unsafe fn read(
    skb: *mut sk_buff,
    device: *const net_device,
    origin: *const net_device,
    group: &[u8; 6],
    payload: &mut [u8],
) -> Option<([u8; 6], usize)> {
    // SAFETY: As the caller promises. A packet of an Ethernet device whose MAC header was set has
    // such a header, of 14 bytes. skb_copy_bits() copies no more bytes than the packet has.
    unsafe {
        if c_uint::from(weft_dev_type(device)) != ARPHRD_ETHER
            || device != origin
            || !weft_skb_mac_header_was_set(skb)
            || c_uint::from(weft_skb_pkt_type(skb)) != PACKET_MULTICAST
        {
            return None;
        }
        let addresses = slice::from_raw_parts(weft_skb_mac_header(skb), 12);
        let (to, from) = addresses.split_at_checked(6)?;
        let from = <[u8; 6]>::try_from(from).ok()?;
        let len = skb
            .wrapping_byte_add(WEFT_SKB_LEN as usize)
            .cast::<u32>()
            .read() as usize;
        let room = payload.get_mut(..len)?;
        if to != group || skb_copy_bits(skb, 0, room.as_mut_ptr().cast(), len as c_int) != 0 {
            return None;
        }
        Some((from, len))
    }
}
