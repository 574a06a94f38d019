// SPDX-License-Identifier: GPL-2.0-only
/* The next hop of a socket's packets. */
#include "bindings.h"

#include <linux/ipv6.h>

/*
 * The device by which a socket's packets leave, 0 if it has no route, and its peer's address, IPv4
 * as a mapped one. The socket is locked.
 */
u32 weft_sk_route(struct sock *sk, u8 *to)
{
	struct in6_addr *peer = (struct in6_addr *)to;
	const struct dst_entry *dst;
	u32 index = 0;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		*peer = sk->sk_v6_daddr;
	else
#endif
		ipv6_addr_set_v4mapped(sk->sk_daddr, peer);
	rcu_read_lock();
	dst = __sk_dst_get(sk);
	if (dst)
		index = READ_ONCE(READ_ONCE(dst->dev)->ifindex);
	rcu_read_unlock();
	return index;
}
