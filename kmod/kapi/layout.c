// SPDX-License-Identifier: GPL-2.0-only
/* Layouts as the C compiler sees them. */
#include "bindings.h"

/*
 * Each structure and field of C that Rust reads or writes. Kbuild makes the table in layout.rs of
 * these lines.
 */
#define WEFT_SIZE(name, type) { #name, sizeof(type) }
#define WEFT_FIELD(name, field) { #name "." #field, offsetof(struct name, field) }
#define WEFT_CONSTANT(name) { #name, name }
/* bindgen's name, as the other is a word of Rust's. */
#define type_ type

static const struct {
	const char *name;
	size_t value;
} weft_places[] = {
	WEFT_SIZE(Qdisc, struct Qdisc),
	WEFT_FIELD(Qdisc, enqueue),
	WEFT_FIELD(Qdisc, dequeue),
	WEFT_FIELD(Qdisc, flags),
	WEFT_FIELD(Qdisc, ops),
	WEFT_FIELD(Qdisc, handle),
	WEFT_FIELD(Qdisc, dev_queue),
	WEFT_FIELD(Qdisc, cpu_bstats),
	WEFT_FIELD(Qdisc, q.qlen),
	WEFT_FIELD(Qdisc, bstats),
	WEFT_FIELD(Qdisc, bstats.bytes),
	WEFT_FIELD(Qdisc, bstats.packets),
	WEFT_FIELD(Qdisc, qstats.backlog),
	WEFT_FIELD(Qdisc, qstats.drops),
	WEFT_FIELD(Qdisc, qstats.overlimits),
	WEFT_FIELD(Qdisc, privdata),
	WEFT_SIZE(Qdisc_ops, struct Qdisc_ops),
	WEFT_FIELD(Qdisc_ops, cl_ops),
	WEFT_FIELD(Qdisc_ops, id),
	WEFT_FIELD(Qdisc_ops, priv_size),
	WEFT_FIELD(Qdisc_ops, enqueue),
	WEFT_FIELD(Qdisc_ops, dequeue),
	WEFT_FIELD(Qdisc_ops, peek),
	WEFT_FIELD(Qdisc_ops, init),
	WEFT_FIELD(Qdisc_ops, reset),
	WEFT_FIELD(Qdisc_ops, destroy),
	WEFT_FIELD(Qdisc_ops, change),
	WEFT_FIELD(Qdisc_ops, dump),
	WEFT_FIELD(Qdisc_ops, dump_stats),
	WEFT_FIELD(Qdisc_ops, owner),
	WEFT_SIZE(Qdisc_class_ops, struct Qdisc_class_ops),
	WEFT_FIELD(Qdisc_class_ops, graft),
	WEFT_FIELD(Qdisc_class_ops, leaf),
	WEFT_FIELD(Qdisc_class_ops, qlen_notify),
	WEFT_FIELD(Qdisc_class_ops, find),
	WEFT_FIELD(Qdisc_class_ops, walk),
	WEFT_FIELD(Qdisc_class_ops, dump),
	WEFT_FIELD(Qdisc_class_ops, dump_stats),
	WEFT_SIZE(qdisc_walker, struct qdisc_walker),
	WEFT_FIELD(qdisc_walker, stop),
	WEFT_FIELD(qdisc_walker, count),
	WEFT_SIZE(qdisc_watchdog, struct qdisc_watchdog),
	WEFT_SIZE(tcmsg, struct tcmsg),
	WEFT_FIELD(tcmsg, tcm_handle),
	WEFT_FIELD(tcmsg, tcm_info),
	WEFT_SIZE(gnet_stats_basic_sync, struct gnet_stats_basic_sync),
	WEFT_FIELD(gnet_stats_basic_sync, bytes),
	WEFT_FIELD(gnet_stats_basic_sync, packets),
	WEFT_SIZE(gnet_stats_queue, struct gnet_stats_queue),
	WEFT_FIELD(gnet_stats_queue, qlen),
	WEFT_FIELD(gnet_stats_queue, backlog),
	WEFT_FIELD(gnet_stats_queue, drops),
	WEFT_FIELD(gnet_stats_queue, requeues),
	WEFT_FIELD(gnet_stats_queue, overlimits),
	WEFT_SIZE(nlattr, struct nlattr),
	WEFT_FIELD(nlattr, nla_len),
	WEFT_SIZE(netlink_ext_ack, struct netlink_ext_ack),
	WEFT_FIELD(netlink_ext_ack, _msg),
	WEFT_FIELD(netlink_ext_ack, bad_attr),
	WEFT_SIZE(sk_buff, struct sk_buff),
	WEFT_SIZE(spinlock_t, spinlock_t),
	WEFT_SIZE(hrtimer, struct hrtimer),
	WEFT_SIZE(packet_type, struct packet_type),
	WEFT_FIELD(packet_type, type_),
	WEFT_FIELD(packet_type, ignore_outgoing),
	WEFT_FIELD(packet_type, dev),
	WEFT_FIELD(packet_type, func),
	WEFT_SIZE(pernet_operations, struct pernet_operations),
	WEFT_FIELD(pernet_operations, init),
	WEFT_FIELD(pernet_operations, exit),
	WEFT_FIELD(pernet_operations, id),
	WEFT_FIELD(pernet_operations, size),
	WEFT_SIZE(ctl_table, struct ctl_table),
	WEFT_FIELD(ctl_table, procname),
	WEFT_FIELD(ctl_table, data),
	WEFT_FIELD(ctl_table, maxlen),
	WEFT_FIELD(ctl_table, mode),
	WEFT_FIELD(ctl_table, proc_handler),
	WEFT_FIELD(ctl_table, extra1),
	WEFT_FIELD(ctl_table, extra2),
	WEFT_SIZE(tcp_congestion_ops, struct tcp_congestion_ops),
	WEFT_FIELD(tcp_congestion_ops, ssthresh),
	WEFT_FIELD(tcp_congestion_ops, cong_avoid),
	WEFT_FIELD(tcp_congestion_ops, set_state),
	WEFT_FIELD(tcp_congestion_ops, cwnd_event),
	WEFT_FIELD(tcp_congestion_ops, cwnd_event_tx_start),
	WEFT_FIELD(tcp_congestion_ops, in_ack_event),
	WEFT_FIELD(tcp_congestion_ops, min_tso_segs),
	WEFT_FIELD(tcp_congestion_ops, cong_control),
	WEFT_FIELD(tcp_congestion_ops, undo_cwnd),
	WEFT_FIELD(tcp_congestion_ops, get_info),
	WEFT_FIELD(tcp_congestion_ops, name),
	WEFT_FIELD(tcp_congestion_ops, owner),
	WEFT_FIELD(tcp_congestion_ops, init),
	WEFT_FIELD(tcp_congestion_ops, release),
	WEFT_FIELD(tcp_congestion_ops, flags),
	WEFT_SIZE(weft_described, struct weft_described),
	WEFT_FIELD(weft_described, base),
	WEFT_FIELD(weft_described, size),
	WEFT_FIELD(weft_described, deadline),
	WEFT_FIELD(weft_described, sent),
	WEFT_FIELD(weft_described, class),
	WEFT_FIELD(weft_described, flags),
	WEFT_SIZE(weft_echo, struct weft_echo),
	WEFT_FIELD(weft_echo, echoes),
	WEFT_FIELD(weft_echo, echo),
	WEFT_SIZE(weft_telemetry, struct weft_telemetry),
	WEFT_FIELD(weft_telemetry, echo_at),
	WEFT_FIELD(weft_telemetry, seen_at),
	WEFT_FIELD(weft_telemetry, echoes),
	WEFT_FIELD(weft_telemetry, echo),
	WEFT_FIELD(weft_telemetry, seen),
	WEFT_CONSTANT(WEFT_SKB_NEXT),
	WEFT_CONSTANT(WEFT_SKB_FLAGS),
	WEFT_CONSTANT(WEFT_SKB_HASH),
	WEFT_CONSTANT(WEFT_SKB_DEV),
	WEFT_CONSTANT(WEFT_SKB_PRIORITY),
	WEFT_CONSTANT(WEFT_SKB_PROTOCOL),
	WEFT_CONSTANT(WEFT_SKB_IIF),
	WEFT_CONSTANT(WEFT_SKB_LEN),
	WEFT_CONSTANT(WEFT_SKB_DATA_LEN),
	WEFT_CONSTANT(WEFT_SKB_DATA),
	WEFT_CONSTANT(WEFT_SKB_HEAD),
	WEFT_CONSTANT(WEFT_SKB_NETWORK_HEADER),
	WEFT_CONSTANT(WEFT_SKB_DESTRUCTOR),
	WEFT_CONSTANT(WEFT_CB_PKT_LEN),
	WEFT_CONSTANT(WEFT_CB_PKT_SEGS),
	WEFT_CONSTANT(WEFT_CB_DATA),
	WEFT_CONSTANT(WEFT_CB_DATA_SIZE),
	WEFT_CONSTANT(WEFT_NETDEV_QUEUE_DEV),
	WEFT_CONSTANT(WEFT_CA_PRIV_SIZE),
};

#undef type_

/* SIZE_MAX for an unknown name. */
size_t weft_layout(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(weft_places); i++)
		if (!strcmp(weft_places[i].name, name))
			return weft_places[i].value;
	return SIZE_MAX;
}
