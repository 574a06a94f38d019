// SPDX-License-Identifier: GPL-2.0-only
/* Packets that go by another device. */
#include "bindings.h"

#include <linux/workqueue.h>
#include <net/l3mdev.h>

bool weft_dev_has_carrier(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

/*
 * Like ip_exceeds_mtu() (net/ipv4/ip_forward.c), for the part above layer 2, because the header is
 * another device's. A packet that has yet to be segmented fits if each of its segments fits.
 */
bool weft_dev_fits(const struct net_device *dev, const struct sk_buff *skb)
{
	u32 mtu = READ_ONCE(dev->mtu);

	return skb->len - skb_network_offset(skb) <= mtu ||
	       (skb_is_gso(skb) && skb_gso_validate_network_len(skb, mtu));
}

/* The index of the VRF that a device belongs to, 0 for none. Under RCU. */
u32 weft_dev_vrf(const struct net_device *dev)
{
	return l3mdev_master_ifindex_rcu(dev);
}

/*
 * Whether a packet that leaves by the device belongs to the network that the device's namespace
 * routes, and goes to a single station. It does not if it comes from a VLAN or another namespace
 * (macvlan) on top of the device, or from a bridge or the like that has the device as a port. Under
 * RCU.
 */
bool weft_skb_is_routed(const struct sk_buff *skb, struct net_device *dev)
{
	struct net_device *master = netdev_master_upper_dev_get_rcu(dev);

	if (skb_vlan_tag_present(skb) || (master && !netif_is_l3_master(master)))
		return false;
	if (skb->sk && sk_fullsock(skb->sk) &&
	    !net_eq(sock_net(skb->sk), dev_net(dev)))
		return false;
	/* Only on these devices does a packet begin with an Ethernet header. */
	return dev->type != ARPHRD_ETHER || skb_headlen(skb) < ETH_HLEN ||
	       !is_multicast_ether_addr(skb->data);
}

/*
 * The address of a known neighbour of the device, in whatever family: one station's, and not the
 * device's own. On a link of two stations this is the other end. n->type is not used, because it is
 * RTN_BROADCAST if a namespace has no address. Under RCU.
 */
bool weft_dev_neighbour(struct net_device *dev, u8 *address)
{
	/* A bound, because this runs under locks; a link of two has no more. */
	int table, left = 16;
	struct neighbour *n;

	for (table = 0; table < NEIGH_NR_TABLES; table++) {
		hlist_for_each_entry_rcu(n, &dev->neighbours[table], dev_list) {
			if (!left--)
				return false;
			if (!(READ_ONCE(n->nud_state) & NUD_VALID))
				continue;
			neigh_ha_snapshot(address, n, dev);
			if (is_valid_ether_addr(address) &&
			    !ether_addr_equal(address, dev->dev_addr))
				return true;
		}
	}
	return false;
}

/*
 * Removes the header of the link that the packet was to leave by, and makes room for the header of
 * the device by which it will leave.
 */
bool weft_skb_leave_link(struct sk_buff *skb, struct net_device *dev)
{
	int offset = skb_network_offset(skb);

	if (offset < 0 || !pskb_may_pull(skb, offset))
		return false;
	__skb_pull(skb, offset);
	if (skb_cow_head(skb, LL_RESERVED_SPACE(dev)))
		return false;
	skb_dst_drop(skb);
	skb->dev = dev;
	return true;
}

/*
 * Packets that go by another device, for each processor. The code that enqueued such a packet still
 * reads it after the qdisc has taken it, if qdisc_enqueue is traced: until bottom halves are on
 * again. Another processor must not have the packet before that. The work runs on the processor on
 * which it was queued, and not before bottom halves are on there.
 */
struct weft_leaving {
	struct work_struct work;
	struct llist_head packets;
};
static DEFINE_PER_CPU(struct weft_leaving, weft_leaving);
static weft_leave_fn weft_leave;

/* In the qdisc's part of a packet's cb. */
struct weft_leaving_cb {
	u64 stamp;
	void *to;
};

static void weft_leaving_work(struct work_struct *work)
{
	struct weft_leaving *it = container_of(work, struct weft_leaving, work);
	struct llist_node *list;
	struct sk_buff *skb, *next;

	list = llist_reverse_order(llist_del_all(&it->packets));
	llist_for_each_entry_safe(skb, next, list, ll_node) {
		const struct weft_leaving_cb *cb = (void *)qdisc_skb_cb(skb)->data;

		skb_mark_not_on_list(skb);
		weft_leave(cb->to, skb, cb->stamp);
	}
}

/* Call once, before the first packet. */
void weft_leaving_init(weft_leave_fn leave)
{
	int cpu;

	weft_leave = leave;
	for_each_possible_cpu(cpu) {
		struct weft_leaving *it = per_cpu_ptr(&weft_leaving, cpu);

		init_llist_head(&it->packets);
		INIT_WORK(&it->work, weft_leaving_work);
	}
}

/* Schedules that function for when the enqueuing code is done. Bottom halves are off. */
void weft_skb_leave(struct sk_buff *skb, void *to, u64 stamp)
{
	struct weft_leaving *it = this_cpu_ptr(&weft_leaving);
	struct weft_leaving_cb *cb = (void *)qdisc_skb_cb(skb)->data;

	qdisc_cb_private_validate(skb, sizeof(*cb));
	cb->stamp = stamp;
	cb->to = to;
	if (llist_add(&skb->ll_node, &it->packets))
		queue_work_on(smp_processor_id(), system_bh_wq, &it->work);
}

/* Waits until the function has been called for all packets. May sleep. */
void weft_leaving_flush(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		flush_work(&per_cpu_ptr(&weft_leaving, cpu)->work);
}
