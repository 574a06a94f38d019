// SPDX-License-Identifier: GPL-2.0-only
/* Windows of data. */
#include "bindings.h"

u32 weft_tcp_snd_nxt(const struct sock *sk)
{
	return tcp_sk(sk)->snd_nxt;
}

/* Counts all copies, as dctcp_update_alpha() (net/ipv4/tcp_dctcp.c) does. */
u32 weft_tcp_arrived(const struct sock *sk)
{
	return tcp_sk(sk)->delivered;
}

/* As dctcp_update_alpha() and dctcp_reset() (net/ipv4/tcp_dctcp.c) delimit windows. */
bool weft_tcp_round_over(const struct sock *sk, u32 *end)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (before(tp->snd_una, *end))
		return false;
	*end = tp->snd_nxt;
	return true;
}

/* Also something that was sent after the window's beginning. */
bool weft_tcp_round_passed(const struct sock *sk, u32 end)
{
	return after(tcp_sk(sk)->snd_una, end);
}

u32 weft_tcp_mss(const struct sock *sk)
{
	return tcp_sk(sk)->mss_cache;
}

u32 weft_tcp_smoothed_rtt_us(const struct sock *sk)
{
	return tcp_sk(sk)->srtt_us >> 3;
}
