// SPDX-License-Identifier: GPL-2.0-only
/* A TCP socket: its windows and its pace. */
#include "bindings.h"

struct net *weft_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}

/*
 * Whether the two ends have agreed on marks, or may yet: tcp_ecn_rcv_synack()
 * (include/net/tcp_ecn.h) and tcp_ecn_create_request() (net/ipv4/tcp_input.c) decide it.
 */
bool weft_tcp_may_have_ecn(const struct sock *sk)
{
	return tcp_ecn_mode_any(tcp_sk(sk)) ||
	       BIT(sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT);
}

u32 weft_tcp_snd_cwnd(const struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

void weft_tcp_set_snd_cwnd(struct sock *sk, u32 packets)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* tcp_snd_cwnd_set() warns about 0: a window is at least one packet */
	tcp_snd_cwnd_set(tp, max(min(packets, tp->snd_cwnd_clamp), 1U));
}

u32 weft_tcp_snd_ssthresh(const struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

void weft_tcp_set_snd_ssthresh(struct sock *sk, u32 packets)
{
	WRITE_ONCE(tcp_sk(sk)->snd_ssthresh, packets);
}

bool weft_tcp_is_cwnd_limited(const struct sock *sk)
{
	return tcp_is_cwnd_limited(sk);
}

bool weft_tcp_all_acked(const struct sock *sk)
{
	return tcp_rtx_and_write_queues_empty(sk);
}

u32 weft_tcp_snd_wnd(const struct sock *sk)
{
	return tcp_sk(sk)->snd_wnd;
}

void weft_tcp_unpaced(struct sock *sk)
{
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
}

/*
 * The socket paces itself, with a high-resolution timer, unless fq does it, as in bbr_init()
 * (net/ipv4/tcp_bbr.c). With a rate of 0 tcp_update_skb_after_send() (tcp_output.c) would not pace.
 */
void weft_tcp_paced(struct sock *sk, u64 rate)
{
	u64 most = READ_ONCE(sk->sk_max_pacing_rate);

	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	WRITE_ONCE(sk->sk_pacing_rate, max(min(rate, most), 1ULL));
}
