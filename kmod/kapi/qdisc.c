// SPDX-License-Identifier: GPL-2.0-only
/* Qdiscs, their one child, and their classes. */
#include "bindings.h"

void weft_qdisc_lock(struct Qdisc *sch)
{
	sch_tree_lock(sch);
}

void weft_qdisc_unlock(struct Qdisc *sch)
{
	sch_tree_unlock(sch);
}

void weft_qdisc_drop(struct sk_buff *skb, struct Qdisc *sch,
		     struct sk_buff **to_free)
{
	qdisc_drop_reason(skb, sch, to_free, QDISC_DROP_OVERLIMIT);
}

struct sk_buff *weft_qdisc_peek_dequeued(struct Qdisc *sch)
{
	return qdisc_peek_dequeued(sch);
}

u32 weft_qdisc_mtu(struct Qdisc *sch)
{
	return psched_mtu(qdisc_dev(sch));
}

struct net_device *weft_qdisc_dev(struct Qdisc *sch)
{
	return qdisc_dev(sch);
}

bool weft_net_xmit_is_drop(int code)
{
	return net_xmit_drop_count(code);
}

void weft_qdisc_purge(struct Qdisc *sch)
{
	qdisc_purge_queue(sch);
}

bool weft_class_step(struct Qdisc *sch, unsigned long class,
		     struct qdisc_walker *walker)
{
	return tc_qdisc_stats_dump(sch, class, walker);
}

int weft_qdisc_copy_queue_stats(struct gnet_dump *d, struct Qdisc *sch)
{
	return qdisc_qstats_copy(d, sch);
}

void weft_basic_stats(struct gnet_stats_basic_sync *basic, u64 bytes,
		      u64 packets)
{
	gnet_stats_basic_sync_init(basic);
	_bstats_update(basic, bytes, packets);
}
