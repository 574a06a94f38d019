// SPDX-License-Identifier: GPL-2.0-only
/* The modules' own Ethernet frames. */
#include "bindings.h"

/*
 * Whether a device may send. While its root qdisc is replaced, and while its
 * link is down, it has the noop qdisc, which drops each packet and answers that
 * the device is congested.
 */
bool weft_dev_can_send(const struct net_device *dev)
{
	const struct netdev_queue *queue = netdev_get_tx_queue(dev, 0);

	return netif_running(dev) &&
	       rcu_access_pointer(queue->qdisc) != &noop_qdisc;
}

u16 weft_dev_type(const struct net_device *dev)
{
	return dev->type;
}

int weft_dev_hard_header(struct sk_buff *skb, struct net_device *dev, u16 type,
			 const u8 *to, u32 len)
{
	return dev_hard_header(skb, dev, type, to, dev->dev_addr, len);
}

int weft_dev_queue_xmit(struct sk_buff *skb)
{
	return dev_queue_xmit(skb);
}

/* An empty packet with room for a device's frame of len bytes. */
struct sk_buff *weft_frame_alloc(struct net_device *dev, u32 len)
{
	u32 head = LL_RESERVED_SPACE(dev);
	struct sk_buff *skb;

	skb = alloc_skb(head + len + dev->needed_tailroom, GFP_ATOMIC);
	if (skb) {
		skb_reserve(skb, head);
		skb_reset_network_header(skb);
		skb->dev = dev;
	}
	return skb;
}

void weft_skb_set_protocol(struct sk_buff *skb, u16 type)
{
	skb->protocol = htons(type);
}

bool weft_skb_mac_header_was_set(const struct sk_buff *skb)
{
	return skb_mac_header_was_set(skb);
}

const u8 *weft_skb_mac_header(const struct sk_buff *skb)
{
	return skb_mac_header(skb);
}

u8 weft_skb_pkt_type(const struct sk_buff *skb)
{
	return skb->pkt_type;
}
