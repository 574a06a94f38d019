// SPDX-License-Identifier: GPL-2.0-only
/* Copies of packets, and packets that leave later. */
#include "bindings.h"

#include <linux/workqueue.h>
#include <net/l3mdev.h>

/* Packets that wait, at most, for each processor. */
#define WEFT_OUTBOX_LIMIT 4096

/*
 * A processor's packets that leave later. Bottom halves are off where a packet is added, and the
 * work runs in a softirq of the same processor: only one of them runs at a time.
 */
struct weft_outbox {
	struct work_struct work;
	struct llist_head packets;
	u32 waiting;
	/* The packet that the work is handing to its device; only compared. */
	const struct sk_buff *carried;
};
static DEFINE_PER_CPU(struct weft_outbox, weft_outbox);

/* In the qdisc's part of a packet's cb: the receiver of a message, 0 for a packet with headers. */
struct weft_outbox_cb {
	__be32 to;
};

/*
 * Gives an ICMP message its IP header and sends it, or drops it if it has no route to a single
 * other host. skb->dev is a device of its namespace and VRF. In softirq, under RCU.
 */
static void weft_outbox_route(struct sk_buff *skb, __be32 to)
{
	struct net *net = dev_net(skb->dev);
	const u8 tos = IPTOS_PREC_INTERNETCONTROL;
	struct flowi4 way;
	struct rtable *route;
	struct iphdr *ip;

	flowi4_init_output(&way, l3mdev_master_ifindex_rcu(skb->dev), 0,
			   tos & INET_DSCP_MASK, RT_SCOPE_UNIVERSE,
			   IPPROTO_ICMP, 0, to, 0, 0, 0, sock_net_uid(net, NULL));
	route = ip_route_output_key(net, &way);
	if (IS_ERR(route))
		goto drop;
	if (route->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST | RTCF_LOCAL)) {
		ip_rt_put(route);
		goto drop;
	}
	ip = skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	*ip = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*ip) / 4,
		.tos = tos,
		.frag_off = htons(IP_DF),
		.ttl = ip4_dst_hoplimit(&route->dst),
		.protocol = IPPROTO_ICMP,
		.saddr = way.saddr,
		.daddr = way.daddr,
	};
	ip_select_ident(net, skb, NULL);
	skb->priority = TC_PRIO_CONTROL;
	skb_dst_set(skb, &route->dst);
	ip_local_out(net, NULL, skb);
	return;
drop:
	kfree_skb_reason(skb, SKB_DROP_REASON_IP_OUTNOROUTES);
}

static void weft_outbox_work(struct work_struct *work)
{
	struct weft_outbox *it = container_of(work, struct weft_outbox, work);
	struct llist_node *list;
	struct sk_buff *skb, *next;

	list = llist_reverse_order(llist_del_all(&it->packets));
	llist_for_each_entry_safe(skb, next, list, ll_node) {
		const struct weft_outbox_cb *cb = (void *)qdisc_skb_cb(skb)->data;
		struct net_device *dev = skb->dev;
		__be32 to = cb->to;

		skb_mark_not_on_list(skb);
		it->waiting--;
		if (to) {
			rcu_read_lock();
			weft_outbox_route(skb, to);
			rcu_read_unlock();
		} else {
			it->carried = skb;
			dev_queue_xmit(skb);
			it->carried = NULL;
		}
		dev_put(dev);
	}
}

/* Call once, before the first packet. */
void weft_outbox_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct weft_outbox *it = per_cpu_ptr(&weft_outbox, cpu);

		init_llist_head(&it->packets);
		INIT_WORK(&it->work, weft_outbox_work);
	}
}

/* Waits until all packets have left. May sleep. */
void weft_outbox_flush(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		flush_work(&per_cpu_ptr(&weft_outbox, cpu)->work);
}

/*
 * Adds a packet, which leaves as soon as bottom halves are on again, and which keeps its device
 * until then. Bottom halves are off. Frees the packet and returns false if too many wait.
 */
static bool weft_outbox_add(struct sk_buff *skb, struct net_device *dev, __be32 to)
{
	struct weft_outbox_cb *cb = (void *)qdisc_skb_cb(skb)->data;
	struct weft_outbox *it = this_cpu_ptr(&weft_outbox);

	qdisc_cb_private_validate(skb, sizeof(*cb));
	if (it->waiting >= WEFT_OUTBOX_LIMIT) {
		kfree_skb_reason(skb, SKB_DROP_REASON_QDISC_DROP);
		return false;
	}
	it->waiting++;
	cb->to = to;
	skb->dev = dev;
	dev_hold(dev);
	if (llist_add(&skb->ll_node, &it->packets))
		queue_work_on(smp_processor_id(), system_bh_wq, &it->work);
	return true;
}

/* Sends a packet, from its link's header on, by a device's own qdiscs. Bottom halves are off. */
bool weft_outbox_send(struct sk_buff *skb, struct net_device *dev)
{
	return weft_outbox_add(skb, dev, 0);
}

/*
 * Sends an ICMP message from a device's namespace and VRF. Bottom halves are off. False if there is
 * no memory, or too many wait. A message without a route is lost, as it could be on its path.
 */
bool weft_outbox_notify(struct net_device *dev, u32 address, const u8 *message, u32 len)
{
	struct sk_buff *skb;

	if (!address)
		return false;
	skb = alloc_skb(LL_MAX_HEADER + sizeof(struct iphdr) + len,
			GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return false;
	skb_reserve(skb, LL_MAX_HEADER + sizeof(struct iphdr));
	skb_reset_transport_header(skb);
	skb_put_data(skb, message, len);
	return weft_outbox_add(skb, dev, htonl(address));
}

/*
 * Whether this is the packet that the work of this processor is handing to its device. Bottom
 * halves are off.
 */
bool weft_outbox_carries(const struct sk_buff *skb)
{
	return this_cpu_read(weft_outbox.carried) == skb;
}

/* Keeps a device; bottom halves may be off. */
void weft_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void weft_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

/*
 * A copy of a packet that may wait for long. It shares the packet's data, so each of them is made
 * writable before it is written to (skb_ensure_writable(), skb_cow_head()). It has no socket, which
 * TCP would take for a packet that waits in the host, no route, no connection of netfilter and no
 * time, because a namespace that ends waits for those.
 *
 * NULL if there is no memory, and for a packet that has yet to be segmented or encrypted, or whose
 * sender waits for its data to become free (MSG_ZEROCOPY).
 */
struct sk_buff *weft_skb_copy_of(struct sk_buff *skb)
{
	struct sk_buff *copy;

	if (skb_is_gso(skb) || skb_zcopy(skb) || skb_is_decrypted(skb))
		return NULL;
	copy = skb_clone(skb, GFP_ATOMIC | __GFP_NOWARN);
	if (!copy)
		return NULL;
	skb_dst_drop(copy);
	nf_reset_ct(copy);
	skb_ext_reset(copy);
	skb_set_delivery_time(copy, 0, SKB_CLOCK_REALTIME);
	return copy;
}
