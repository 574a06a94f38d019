// SPDX-License-Identifier: GPL-2.0-only

//! Refuses to load where Rust and C disagree on a structure both touch.
//!
//! bindgen reads the headers with libclang, the kernel was compiled by GCC: flags that one of
//! them does not know could move a field. Each registration compares before anything is shared.

use core::mem::{offset_of, size_of};

use kernel::prelude::*;

use super::bindings::{
    ctl_table, netlink_ext_ack, pernet_operations, qdisc_watchdog, sk_buff, tcmsg,
    tcp_congestion_ops, weft_layout, Qdisc, Qdisc_class_ops, Qdisc_ops, WEFT_CB_DATA,
    WEFT_CB_PKT_LEN, WEFT_CB_PKT_SEGS, WEFT_SKB_DESTRUCTOR, WEFT_SKB_NEXT, WEFT_SKB_PRIORITY,
};

/// What is compared, in the order of `weft_layout()` in `helpers.c`.
const LAYOUT: [(&str, usize); 24] = [
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
    ("sizeof(struct ctl_table)", size_of::<ctl_table>()),
    (
        "offsetof(struct ctl_table, extra2)",
        offset_of!(ctl_table, extra2),
    ),
    (
        "sizeof(struct pernet_operations)",
        size_of::<pernet_operations>(),
    ),
    (
        "offsetof(struct pernet_operations, size)",
        offset_of!(pernet_operations, size),
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
