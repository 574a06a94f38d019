// SPDX-License-Identifier: MIT OR Apache-2.0

//! The statistics of the kernel's own qdiscs that are figures of their port, a row each.

use super::reading::PortReading;

/// Adds a qdisc's `TCA_STATS_APP` to its port.
type Add = fn(&mut PortReading, &[u8]);

const STOCK: &[(&str, Add)] = &[
    // struct tc_codel_xstats: seven fields of the queue's state and limits, the last of which is
    // ecn_mark; then dropping, and ce_mark, which counts marks by another threshold.
    ("codel", |port, app| {
        port.sample.marks = u64::from(word(app, 6)) + u64::from(word(app, 8));
    }),
    // struct tc_dualpi2_xstats: six fields of the queues' state, ecn_mark, step_marks.
    ("dualpi2", |port, app| {
        port.sample.marks = u64::from(word(app, 6)) + u64::from(word(app, 7));
    }),
    // struct tc_fq_qd_stats: eight of 64 bits, then flows, inactive_flows.
    ("fq", |port, app| {
        let idle = word(app, 17);
        port.flows = Some(word(app, 16).saturating_sub(idle).into());
    }),
    // struct tc_fq_codel_xstats: type (0: the qdisc's), maxpacket, drop_overlimit, ecn_mark. Then
    // new_flow_count, new_flows_len, old_flows_len.
    ("fq_codel", |port, app| {
        if word(app, 0) == 0 {
            port.sample.marks = word(app, 3).into();
            port.flows = Some(u64::from(word(app, 5)) + u64::from(word(app, 6)));
        }
    }),
    // struct tc_red_xstats: early, pdrop, other, marked. A port with several bands may have one for
    // each.
    ("red", |port, app| {
        port.sample.marks += u64::from(word(app, 3));
    }),
];

/// Adds the statistics of a qdisc, if it is one of these.
pub(super) fn add(port: &mut PortReading, kind: &str, app: &[u8]) {
    if let Some((_, add)) = STOCK.iter().find(|(it, _)| *it == kind) {
        add(port, app);
    }
}

/// The `index`th word of 32 bits; 0 if there is none.
fn word(bytes: &[u8], index: usize) -> u32 {
    let word = bytes.chunks_exact(4).nth(index);
    word.and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}
