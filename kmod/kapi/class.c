// SPDX-License-Identifier: GPL-2.0-only
/* The queue in which a socket's packets wait. */
#include "bindings.h"

#include <linux/ipv6.h>

u8 weft_sk_dscp(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		return inet6_sk(sk)->tclass >> 2;
#endif
	return READ_ONCE(inet_sk(sk)->tos) >> 2;
}

u32 weft_sk_priority(const struct sock *sk)
{
	return READ_ONCE(sk->sk_priority);
}

/*
 * Like setsockopt() of a stream with IP_TOS (__ip_sock_set_tos(), net/ipv4/ip_sockglue.c) or
 * IPV6_TCLASS (do_ipv6_setsockopt(), net/ipv6/ipv6_sockglue.c), and SO_PRIORITY, but the route
 * stays: the packets' path does not depend on it.
 */
void weft_sk_set_class(struct sock *sk, u8 dscp, u32 priority)
{
	struct inet_sock *inet = inet_sk(sk);

	WRITE_ONCE(inet->tos, dscp << 2 | (inet->tos & INET_ECN_MASK));
#if IS_ENABLED(CONFIG_IPV6)
	if (inet6_sk(sk)) {
		struct ipv6_pinfo *np = inet6_sk(sk);

		np->tclass = dscp << 2 | (np->tclass & INET_ECN_MASK);
	}
#endif
	WRITE_ONCE(sk->sk_priority, priority);
}
