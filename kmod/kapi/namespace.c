// SPDX-License-Identifier: GPL-2.0-only
/* The state of a network namespace: its lock, and the devices in it. */
#include "bindings.h"

void weft_lock_init(spinlock_t *lock)
{
	spin_lock_init(lock);
}

void weft_lock(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

void weft_unlock(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

void weft_lock_bh_off(spinlock_t *lock)
{
	spin_lock(lock);
}

void weft_unlock_bh_off(spinlock_t *lock)
{
	spin_unlock(lock);
}

void *weft_net_generic(const struct net *net, unsigned int id)
{
	return net_generic(net, id);
}

struct net *weft_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

u32 weft_dev_index(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}

void weft_dev_schedule(struct net_device *dev)
{
	netif_tx_schedule_all(dev);
}

/* Does nothing if there is no such device. Under RCU. */
void weft_dev_schedule_by_index(struct net *net, u32 index)
{
	struct net_device *dev = dev_get_by_index_rcu(net, index);

	if (dev)
		netif_tx_schedule_all(dev);
}
