// SPDX-License-Identifier: GPL-2.0-only
/* Marks of congestion. */
#include "bindings.h"

u32 weft_tcp_delivered_ce(const struct sock *sk)
{
	return tcp_sk(sk)->delivered_ce;
}

u32 weft_tcp_rcv_nxt(const struct sock *sk)
{
	return tcp_sk(sk)->rcv_nxt;
}

/*
 * dctcp_ece_ack_update() of net/ipv4/tcp_dctcp.h, which is not a public header. Do not call it from
 * a callback: if a local qdisc answers the acknowledgement with NET_XMIT_CN, tcp_enter_cwr() calls
 * ssthresh() and set_state() of this congestion control.
 */
void weft_tcp_ce_arrived(struct sock *sk, bool ce, bool prior_ce,
			 u32 prior_rcv_nxt)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (prior_ce != ce) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			if (prior_ce)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			__tcp_send_ack(sk, prior_rcv_nxt, 0);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}
