// SPDX-License-Identifier: GPL-2.0-only

//! Refuses to load where Rust and C disagree on a structure both touch.
//!
//! bindgen reads the headers with libclang, the kernel was compiled by GCC: flags that one of
//! them does not know could move a field. Each registration compares before anything is shared.

use core::mem::{offset_of, size_of};

use kernel::prelude::*;

use super::bindings::{
    ctl_table, gnet_stats_basic_sync, gnet_stats_queue, hrtimer, netlink_ext_ack, packet_type,
    pernet_operations, qdisc_watchdog, sk_buff, spinlock_t, tcmsg, tcp_congestion_ops, weft_layout,
    Qdisc, Qdisc_class_ops, Qdisc_ops, WEFT_CB_DATA, WEFT_CB_PKT_LEN, WEFT_CB_PKT_SEGS,
    WEFT_NETDEV_QUEUE_DEV, WEFT_SKB_DATA, WEFT_SKB_DATA_LEN, WEFT_SKB_DESTRUCTOR, WEFT_SKB_DEV,
    WEFT_SKB_HEAD, WEFT_SKB_IIF, WEFT_SKB_LEN, WEFT_SKB_NETWORK_HEADER, WEFT_SKB_NEXT,
    WEFT_SKB_PRIORITY, WEFT_SKB_PROTOCOL,
};

/// What is compared, in the order of `weft_layout()` in `helpers.c`.
const LAYOUT: [(&str, usize); 42] = [
    ("sizeof(struct Qdisc)", size_of::<Qdisc>()),
    ("offsetof(struct Qdisc, flags)", offset_of!(Qdisc, flags)),
    ("offsetof(struct Qdisc, q)", offset_of!(Qdisc, q)),
    ("offsetof(struct Qdisc, qstats)", offset_of!(Qdisc, qstats)),
    ("sizeof(struct Qdisc_ops)", size_of::<Qdisc_ops>()),
    (
        "offsetof(struct Qdisc_ops, owner)",
        offset_of!(Qdisc_ops, owner),
    ),
    (
        "sizeof(struct Qdisc_class_ops)",
        size_of::<Qdisc_class_ops>(),
    ),
    ("sizeof(struct sk_buff)", size_of::<sk_buff>()),
    ("offsetof(struct sk_buff, next)", WEFT_SKB_NEXT as usize),
    (
        "offsetof(struct sk_buff, priority)",
        WEFT_SKB_PRIORITY as usize,
    ),
    ("sizeof(struct qdisc_watchdog)", size_of::<qdisc_watchdog>()),
    (
        "sizeof(struct tcp_congestion_ops)",
        size_of::<tcp_congestion_ops>(),
    ),
    (
        "offsetof(struct tcp_congestion_ops, owner)",
        offset_of!(tcp_congestion_ops, owner),
    ),
    (
        "offsetof(struct netlink_ext_ack, bad_attr)",
        offset_of!(netlink_ext_ack, bad_attr),
    ),
    ("sizeof(struct tcmsg)", size_of::<tcmsg>()),
    (
        "offsetof(struct sk_buff, destructor)",
        WEFT_SKB_DESTRUCTOR as usize,
    ),
    (
        "qdisc_skb_cb.pkt_len in struct sk_buff",
        WEFT_CB_PKT_LEN as usize,
    ),
    (
        "qdisc_skb_cb.pkt_segs in struct sk_buff",
        WEFT_CB_PKT_SEGS as usize,
    ),
    ("qdisc_skb_cb.data in struct sk_buff", WEFT_CB_DATA as usize),
    (
        "offsetof(struct Qdisc, privdata)",
        offset_of!(Qdisc, privdata),
    ),
    ("sizeof(spinlock_t)", size_of::<spinlock_t>()),
    ("offsetof(struct sk_buff, dev)", WEFT_SKB_DEV as usize),
    ("sizeof(struct hrtimer)", size_of::<hrtimer>()),
    (
        "sizeof(struct pernet_operations)",
        size_of::<pernet_operations>(),
    ),
    ("sizeof(struct packet_type)", size_of::<packet_type>()),
    (
        "offsetof(struct packet_type, func)",
        offset_of!(packet_type, func),
    ),
    (
        "offsetof(struct sk_buff, protocol)",
        WEFT_SKB_PROTOCOL as usize,
    ),
    ("offsetof(struct sk_buff, skb_iif)", WEFT_SKB_IIF as usize),
    ("offsetof(struct sk_buff, len)", WEFT_SKB_LEN as usize),
    (
        "offsetof(struct sk_buff, data_len)",
        WEFT_SKB_DATA_LEN as usize,
    ),
    ("offsetof(struct sk_buff, data)", WEFT_SKB_DATA as usize),
    ("offsetof(struct sk_buff, head)", WEFT_SKB_HEAD as usize),
    (
        "offsetof(struct sk_buff, network_header)",
        WEFT_SKB_NETWORK_HEADER as usize,
    ),
    ("sizeof(struct ctl_table)", size_of::<ctl_table>()),
    (
        "offsetof(struct ctl_table, extra2)",
        offset_of!(ctl_table, extra2),
    ),
    (
        "offsetof(struct pernet_operations, size)",
        offset_of!(pernet_operations, size),
    ),
    (
        "offsetof(struct Qdisc, dev_queue)",
        offset_of!(Qdisc, dev_queue),
    ),
    ("offsetof(struct Qdisc, bstats)", offset_of!(Qdisc, bstats)),
    (
        "offsetof(struct netdev_queue, dev)",
        WEFT_NETDEV_QUEUE_DEV as usize,
    ),
    ("offsetof(struct Qdisc, handle)", offset_of!(Qdisc, handle)),
    (
        "sizeof(struct gnet_stats_basic_sync)",
        size_of::<gnet_stats_basic_sync>(),
    ),
    (
        "sizeof(struct gnet_stats_queue)",
        size_of::<gnet_stats_queue>(),
    ),
];

/// Compares all layouts; logs each that differs and returns `EINVAL` if one does.
pub(super) fn check() -> Result {
    let mut which: c_int = 0;
    let mut agreed = true;
    for (name, rust) in LAYOUT {
        // SAFETY: A C function without pointers or preconditions.
        let c = unsafe { weft_layout(which) };
        if c != rust {
            pr_err!("{}: {} in Rust, {} in C\n", name, rust, c);
            agreed = false;
        }
        which = which.wrapping_add(1);
    }
    if agreed {
        Ok(())
    } else {
        Err(EINVAL)
    }
}
