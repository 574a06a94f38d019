// SPDX-License-Identifier: GPL-2.0-only
/* A congestion control's place in its socket, and the events that reach it. */
#include "bindings.h"

/* The room for a congestion control's state, in use or not. */
void *weft_ca_room(struct sock *sk)
{
	return inet_csk_ca(sk);
}

/*
 * Between init() and release(), as net/ipv4/tcp_cong.c keeps it. Some callbacks run before, as for
 * a lost SYN.
 */
bool weft_ca_initialized(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_initialized;
}

/* The congestion control whose callbacks run. */
const void *weft_ca_ops(const struct sock *sk)
{
	return READ_ONCE(inet_csk(sk)->icsk_ca_ops);
}

/*
 * Switches to another table of the same congestion control, which needs no marks, as dctcp_init()
 * (net/ipv4/tcp_dctcp.c) does. tcp_ecn_send() (net/ipv4/tcp_output.c) reads the table's flags for
 * each packet.
 */
void weft_ca_without_ecn(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, ops);
	INET_ECN_dontxmit(sk);
}

/*
 * Switches back to the table that needs marks, for the next connection: tcp_disconnect()
 * (net/ipv4/tcp.c) keeps the socket's congestion control.
 */
void weft_ca_with_ecn(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, ops);
}

/* The handshake has ended; for a fast-open child, its SYN-ACK is acknowledged. */
bool weft_tcp_connected(const struct sock *sk)
{
	return !(BIT(sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT |
				      TCPF_SYN_RECV)) &&
	       !rcu_access_pointer(tcp_sk(sk)->fastopen_rsk);
}

/*
 * In init(): tcp_rcv_state_process() (net/ipv4/tcp_input.c) has tcp_init_transfer() call it just
 * before the passive side is established. If SYNs crossed, a SYN-ACK of this state may still be
 * out.
 */
bool weft_tcp_ends_handshake(const struct sock *sk)
{
	return sk->sk_state == TCP_SYN_RECV && !tcp_sk(sk)->packets_out &&
	       !rcu_access_pointer(tcp_sk(sk)->fastopen_rsk);
}

/*
 * In set_state(TCP_CA_Loss): whether the cause is a timeout outside of the handshake. Two functions
 * of net/ipv4/tcp_input.c enter that state:
 *
 * - tcp_enter_loss(), in a timeout. The timer's handler, tcp_write_timer_handler() (tcp_timer.c),
 *   has cleared icsk_pending. But an ICMP message that reports the peer unreachable may find the
 *   next timeout overdue and trigger it (tcp_ld_RTO_revert() of tcp_ipv4.c, RFC 6069), while the
 *   timer is pending. It does so only after another timeout without progress since: from this same
 *   state.
 * - tcp_simple_retransmit(), if the path MTU has become smaller: the timer is pending, as data is
 *   out, and never from this same state (tcp_non_congestion_loss_retransmit()).
 */
bool weft_tcp_timed_out(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return tcp_sk(sk)->packets_out &&
	       (!icsk->icsk_pending || icsk->icsk_ca_state == TCP_CA_Loss) &&
	       !(BIT(sk->sk_state) & (TCPF_SYN_SENT | TCPF_SYN_RECV));
}

/*
 * As dctcp_get_info() (net/ipv4/tcp_dctcp.c). Requested in the form of dctcp's or vegas's: a
 * request has no bit for others.
 */
size_t weft_ca_info(u32 ext, int *attr, union tcp_cc_info *info, u16 state,
		    u32 first, u32 second, u32 third)
{
	if (!(ext & (BIT(INET_DIAG_DCTCPINFO - 1) | BIT(INET_DIAG_VEGASINFO - 1))))
		return 0;
	info->dctcp = (struct tcp_dctcp_info) {
		.dctcp_enabled = 1,
		.dctcp_ce_state = state,
		.dctcp_alpha = first,
		.dctcp_ab_ecn = second,
		.dctcp_ab_tot = third,
	};
	*attr = INET_DIAG_DCTCPINFO;
	return sizeof(info->dctcp);
}

/* What tcp_tso_segs() (net/ipv4/tcp_output.c) takes where there is no callback. */
u32 weft_tcp_min_tso_segs(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}

u32 weft_rate_acked(const struct rate_sample *rs)
{
	return rs->acked_sacked;
}

bool weft_rate_is_retrans(const struct rate_sample *rs)
{
	return rs->is_retrans;
}

/* Negative: there is none. */
s64 weft_rate_rtt_us(const struct rate_sample *rs)
{
	return rs->rtt_us;
}
