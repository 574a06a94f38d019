// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests, one file per part.

mod bfc_options;
mod bfc_queues;
mod bfc_switch;
mod churn;
mod congestion;
mod dibs;
mod expresspass;
mod failing_memory;
mod fastpass;
mod fastpass_options;
mod flows;
mod leaks;
mod lifecycle;
mod options;
mod options_at_random;
mod parents;
mod pfabric_options;
mod pfabric_order;
mod plugin;
mod resend;
mod switch_port;
mod tcp_bfc;
mod tcp_d2tcp;
mod tcp_l2dct;
mod tcp_paced;
mod tcp_pase;
mod tcp_pfabric;
mod tcp_pfabric_handshake;
mod tcp_pfabric_lifetime;
mod tcp_pump;
mod telemetry;
mod traffic;
mod wire_children;
mod wire_options;
mod wire_slack;
mod wire_sockets;
mod wire_timing;

/// All parts, in the order in which they run.
pub(crate) const PARTS: &[weft_ktap::Part] = weft_ktap::parts![
    pfabric_options,
    wire_options,
    bfc_options,
    fastpass_options,
    options_at_random,
    pfabric_order,
    flows,
    bfc_queues,
    bfc_switch,
    dibs,
    switch_port,
    resend,
    expresspass,
    telemetry,
    fastpass,
    #[exact = "judges when packets arrive, to the nanosecond"]
    wire_timing,
    #[exact = "judges when packets arrive, to the nanosecond"]
    wire_slack,
    wire_sockets,
    parents,
    wire_children,
    lifecycle,
    traffic,
    congestion,
    tcp_pfabric,
    tcp_pfabric_handshake,
    tcp_pfabric_lifetime,
    tcp_bfc,
    tcp_pase,
    tcp_d2tcp,
    tcp_l2dct,
    tcp_paced,
    tcp_pump,
    plugin,
    churn,
    failing_memory,
    #[exact = "counts slab objects, and KASAN keeps freed ones; kmemleak checks instead"]
    leaks,
];
