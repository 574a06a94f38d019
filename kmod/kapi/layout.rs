// SPDX-License-Identifier: GPL-2.0-only

//! Refuses to load if Rust and C disagree on the layout of a structure that both access.
//!
//! bindgen reads the headers with libclang, but GCC compiled the kernel: a flag that one of them
//! does not know could move a field. Each registration compares before anything is shared: every
//! field that Rust reads or writes, by its name.

use core::mem::{offset_of, size_of};

use kernel::prelude::*;

use super::{
    bindings::{
        ctl_table, gnet_stats_basic_sync, gnet_stats_queue, hrtimer, netlink_ext_ack, nlattr,
        packet_type, pernet_operations, qdisc_walker, qdisc_watchdog, sk_buff, spinlock_t, tcmsg,
        tcp_congestion_ops, weft_described, weft_layout, Qdisc, Qdisc_class_ops, Qdisc_ops,
        WEFT_CA_PRIV_SIZE, WEFT_CB_DATA, WEFT_CB_DATA_SIZE, WEFT_CB_PKT_LEN, WEFT_CB_PKT_SEGS,
        WEFT_NETDEV_QUEUE_DEV, WEFT_SKB_DATA, WEFT_SKB_DATA_LEN, WEFT_SKB_DESTRUCTOR, WEFT_SKB_DEV,
        WEFT_SKB_FLAGS, WEFT_SKB_HASH, WEFT_SKB_HEAD, WEFT_SKB_IIF, WEFT_SKB_LEN,
        WEFT_SKB_NETWORK_HEADER, WEFT_SKB_NEXT, WEFT_SKB_PRIORITY, WEFT_SKB_PROTOCOL,
    },
    skb,
};

/// A size or an offset, its name, and the same name with a terminating zero for `weft_layout()` in
/// `layout.c`. Both are constants, because code that removes the zero could panic.
type Place = (&'static str, &'static str, usize);

/// The sizes of structures and the offsets of fields, and the values of constants.
macro_rules! places {
    (
        constants { $($constant:ident),* $(,)? }
        $($structure:ident { $($($field:ident).+),* $(,)? })*
    ) => {
        &[
            $((
                stringify!($constant),
                concat!(stringify!($constant), "\0"),
                $constant as usize,
            ),)*
            $(
                (
                    stringify!($structure),
                    concat!(stringify!($structure), "\0"),
                    size_of::<$structure>(),
                ),
                $(
                    (
                        concat!(stringify!($structure), $(".", stringify!($field)),+),
                        concat!(stringify!($structure), $(".", stringify!($field)),+, "\0"),
                        offset_of!($structure, $($field).+),
                    ),
                )*
            )*
        ]
    };
}

const PLACES: &[Place] = places! {
    constants {
        WEFT_SKB_NEXT, WEFT_SKB_FLAGS, WEFT_SKB_HASH, WEFT_SKB_DEV, WEFT_SKB_PRIORITY, WEFT_SKB_PROTOCOL, WEFT_SKB_IIF,
        WEFT_SKB_LEN, WEFT_SKB_DATA_LEN, WEFT_SKB_DATA, WEFT_SKB_HEAD, WEFT_SKB_NETWORK_HEADER,
        WEFT_SKB_DESTRUCTOR, WEFT_CB_PKT_LEN, WEFT_CB_PKT_SEGS, WEFT_CB_DATA, WEFT_CB_DATA_SIZE,
        WEFT_NETDEV_QUEUE_DEV, WEFT_CA_PRIV_SIZE,
    }
    Qdisc {
        enqueue, dequeue, flags, ops, handle, dev_queue, cpu_bstats, q.qlen, bstats, bstats.bytes,
        bstats.packets, qstats.backlog, qstats.drops, qstats.overlimits, privdata,
    }
    Qdisc_ops {
        cl_ops, id, priv_size, enqueue, dequeue, peek, init, reset, destroy, change, dump, dump_stats,
        owner,
    }
    Qdisc_class_ops { graft, leaf, qlen_notify, find, walk, dump, dump_stats }
    qdisc_walker { stop, count }
    qdisc_watchdog {}
    tcmsg { tcm_handle, tcm_info }
    gnet_stats_basic_sync { bytes, packets }
    gnet_stats_queue { qlen, backlog, drops, requeues, overlimits }
    nlattr { nla_len }
    netlink_ext_ack { _msg, bad_attr }
    sk_buff {}
    spinlock_t {}
    hrtimer {}
    packet_type { type_, ignore_outgoing, dev, func }
    pernet_operations { init, exit, id, size }
    ctl_table { procname, data, maxlen, mode, proc_handler, extra1, extra2 }
    tcp_congestion_ops {
        ssthresh, cong_avoid, set_state, cwnd_event, cwnd_event_tx_start, in_ack_event,
        min_tso_segs, cong_control, undo_cwnd, get_info, name, owner, init, release, flags,
    }
    weft_described { base, size, deadline, sent, class, flags }
};

/// Compares all places; logs each that differs and returns `EINVAL` if one does. Also locates the
/// bit-fields, which have no offset.
pub(super) fn check() -> Result {
    let mut agreed = true;
    for &(name, ended_name, rust) in PLACES {
        // SAFETY: A zero ends the name.
        let c = unsafe { weft_layout(ended_name.as_ptr().cast()) };
        if c != rust {
            pr_err!("{}: {} in Rust, {} in C\n", name, rust, c);
            agreed = false;
        }
    }
    if agreed {
        skb::learn_hash_bits()
    } else {
        Err(EINVAL)
    }
}
