// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inline functions and macros of the kernel's headers, made callable from Rust.
 *
 * Nothing is decided here: each function is the C expression its name says.
 * Those on the packet path do in one call what would else be several, as a
 * call from Rust into C cannot be inlined.
 */
#include "bindings.h"

u32 weft_skb_flow(struct sk_buff *skb)
{
	return skb_get_hash(skb);
}

void weft_skb_orphan(struct sk_buff *skb)
{
	skb_orphan(skb);
}

void weft_skb_set_txtime(struct sk_buff *skb, u64 ns)
{
	skb_set_delivery_time(skb, ktime_get_clocktai_ns() + ns, SKB_CLOCK_TAI);
}

void weft_skb_set_due(struct sk_buff *skb, u64 ns)
{
	skb_set_delivery_time(skb, ns, SKB_CLOCK_MONOTONIC);
}

u64 weft_skb_due(const struct sk_buff *skb)
{
	return skb->tstamp_type == SKB_CLOCK_MONOTONIC ? skb->tstamp : U64_MAX;
}

void weft_skb_free(struct sk_buff *skb)
{
	kfree_skb_reason(skb, SKB_DROP_REASON_QDISC_DROP);
}

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

void weft_qdisc_dequeued(struct Qdisc *sch, struct sk_buff *skb)
{
	qdisc_update_stats_at_dequeue(sch, skb);
}

struct sk_buff *weft_qdisc_peek_dequeued(struct Qdisc *sch)
{
	return qdisc_peek_dequeued(sch);
}

u32 weft_qdisc_tx_queue_len(struct Qdisc *sch)
{
	return READ_ONCE(qdisc_dev(sch)->tx_queue_len);
}

bool weft_net_xmit_is_drop(int code)
{
	return net_xmit_drop_count(code);
}

struct Qdisc *weft_child_create(struct Qdisc *sch,
				struct netlink_ext_ack *extack)
{
	struct Qdisc *child;

	child = qdisc_create_dflt(sch->dev_queue, &pfifo_qdisc_ops,
				  TC_H_MAKE(sch->handle, 1), extack);
	if (child)
		qdisc_hash_add(child, true);
	return child;
}

void weft_child_purge(struct Qdisc *child)
{
	qdisc_purge_queue(child);
}

void weft_class_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop)
		tc_qdisc_stats_dump(sch, 1, walker);
}

int weft_class_stats(struct gnet_dump *d, struct Qdisc *child)
{
	if (gnet_stats_copy_basic(d, child->cpu_bstats, &child->bstats, true) < 0)
		return -1;
	return qdisc_qstats_copy(d, child) < 0 ? -1 : 0;
}

const struct nlattr *weft_nla_find(const struct nlattr *nest, int attr)
{
	return nla_find_nested(nest, attr);
}

struct nlattr *weft_nest_start(struct sk_buff *skb, int attr)
{
	return nla_nest_start_noflag(skb, attr);
}

int weft_nest_end(struct sk_buff *skb, struct nlattr *nest)
{
	return nla_nest_end(skb, nest);
}

void weft_nest_cancel(struct sk_buff *skb, struct nlattr *nest)
{
	nla_nest_cancel(skb, nest);
}

void *weft_ca_priv(struct sock *sk)
{
	return inet_csk_ca(sk);
}

u32 weft_tcp_snd_cwnd(const struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

void weft_tcp_set_snd_cwnd(struct sock *sk, u32 packets)
{
	/* tcp_snd_cwnd_set() warns about 0: a window is at least one packet */
	tcp_snd_cwnd_set(tcp_sk(sk), max(packets, 1U));
}

u32 weft_tcp_snd_ssthresh(const struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

bool weft_tcp_is_cwnd_limited(const struct sock *sk)
{
	return tcp_is_cwnd_limited(sk);
}

/* The order is that of kapi/layout.rs. */
size_t weft_layout(int which)
{
	switch (which) {
	case 0: return sizeof(struct Qdisc);
	case 1: return offsetof(struct Qdisc, flags);
	case 2: return offsetof(struct Qdisc, q);
	case 3: return offsetof(struct Qdisc, qstats);
	case 4: return sizeof(struct Qdisc_ops);
	case 5: return offsetof(struct Qdisc_ops, owner);
	case 6: return sizeof(struct Qdisc_class_ops);
	case 7: return sizeof(struct sk_buff);
	case 8: return WEFT_SKB_NEXT;
	case 9: return WEFT_SKB_PRIORITY;
	case 10: return sizeof(struct qdisc_watchdog);
	case 11: return sizeof(struct tcp_congestion_ops);
	case 12: return offsetof(struct tcp_congestion_ops, owner);
	case 13: return offsetof(struct netlink_ext_ack, bad_attr);
	case 14: return sizeof(struct tcmsg);
	case 15: return WEFT_SKB_DESTRUCTOR;
	case 16: return WEFT_CB_PKT_LEN;
	case 17: return WEFT_CB_PKT_SEGS;
	case 18: return WEFT_CB_DATA;
	case 19: return offsetof(struct Qdisc, privdata);
	}
	return 0;
}
