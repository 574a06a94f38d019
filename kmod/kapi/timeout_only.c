// SPDX-License-Identifier: GPL-2.0-only
/* Loss recovery by a fixed timeout only. */
#include "bindings.h"

u8 weft_sk_txrehash(const struct sock *sk)
{
	return sk->sk_txrehash;
}

void weft_sk_set_txrehash(struct sock *sk, u8 on)
{
	/* As sk_setsockopt(SO_TXREHASH) does; sk_rethink_txhash() (include/net/sock.h) reads it. */
	WRITE_ONCE(sk->sk_txrehash, on);
}

u32 weft_jiffy_us(void)
{
	return jiffies_to_usecs(1);
}

/*
 * Packets that were acknowledged. tp->delivered also counts unnecessary retransmissions
 * (tcp_dsack_seen(), net/ipv4/tcp_input.c).
 */
u32 weft_tcp_delivered(const struct sock *sk)
{
	return tcp_sk(sk)->delivered - tcp_sk(sk)->dsack_dups;
}

u32 weft_tcp_retransmits(const struct sock *sk)
{
	return inet_csk(sk)->icsk_retransmits;
}

u32 weft_tcp_lost(const struct sock *sk)
{
	return tcp_sk(sk)->lost;
}

u64 weft_tcp_now_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

void weft_tcp_set_rto(struct sock *sk, u32 jiffies)
{
	inet_csk(sk)->icsk_rto = jiffies;
	inet_csk(sk)->icsk_backoff = 0;
}

void weft_tcp_set_snd_wnd(struct sock *sk, u32 bytes)
{
	tcp_sk(sk)->snd_wnd = bytes;
}

/* Keeps the byte from wrapping if there are more consecutive timeouts than it can count. */
void weft_tcp_count_timeouts(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	/* tcp_update_rto_stats() (net/ipv4/tcp_timer.c) is about to add one. */
	if (icsk->icsk_retransmits == U8_MAX)
		WRITE_ONCE(icsk->icsk_retransmits, U8_MAX - 1);
}

/*
 * When the next packet leaves the host's queues, tcp_wfree() will have tcp_tsq_write() called, as
 * for tcp_small_queue_check() (all of net/ipv4/tcp_output.c).
 */
void weft_tcp_call_when_sent(struct sock *sk)
{
	set_bit(TSQ_THROTTLED, &sk->sk_tsq_flags);
}

static void weft_tcp_timer_within(struct sock *sk, int what, u32 jiffies_away)
{
	if (time_after(tcp_timeout_expires(sk), jiffies + jiffies_away))
		tcp_reset_xmit_timer(sk, what, jiffies_away, false);
}

/*
 * Whether the host's own queue refused a packet that was sent with no other in flight: nothing is
 * in flight, and the timer is the one for that case. Returns whether the packet is new, which the
 * kernel does not count as sent.
 *
 * Assumed of net/ipv4:
 * - A new packet: tcp_write_xmit() (tcp_output.c) leaves it the send queue's head, and
 *   tcp_check_probe_timer() (include/net/tcp.h) sets the timer of window probes. tcp_send_probe0()
 *   (tcp_output.c) counts its tries in icsk_probes_out, and tcp_probe_timer() (tcp_timer.c) gives
 *   the connection up by that count.
 * - A retransmission: tcp_retransmit_timer() (tcp_timer.c) sets the timer of retransmissions and
 *   leaves the packet lost and not retransmitted. The marks set here are tcp_retransmit_skb()'s
 *   (tcp_output.c) for one that was sent.
 */
bool weft_tcp_refused(struct sock *sk, u32 rto)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *skb;

	if (!tp->packets_out) {
		skb = tcp_send_head(sk);
		if (!skb || icsk->icsk_pending != ICSK_TIME_PROBE0 ||
		    !before(TCP_SKB_CB(skb)->seq, tcp_wnd_end(tp)))
			return false;
		if (icsk->icsk_probes_tstamp) {
			u32 tries = (tcp_jiffies32 - icsk->icsk_probes_tstamp) /
				    TCP_RESOURCE_PROBE_INTERVAL;

			if (icsk->icsk_probes_out > tries)
				WRITE_ONCE(icsk->icsk_probes_out, tries);
		}
		weft_tcp_timer_within(sk, ICSK_TIME_PROBE0, rto);
		return true;
	}

	skb = tcp_rtx_queue_head(sk);
	if (!skb || icsk->icsk_pending != ICSK_TIME_RETRANS ||
	    icsk->icsk_ca_state != TCP_CA_Loss || tcp_packets_in_flight(tp) ||
	    (TCP_SKB_CB(skb)->sacked & (TCPCB_LOST | TCPCB_SACKED_RETRANS)) != TCPCB_LOST)
		return false;
	TCP_SKB_CB(skb)->sacked |= TCPCB_RETRANS;
	tp->retrans_out += tcp_skb_pcount(skb);
	weft_tcp_timer_within(sk, ICSK_TIME_RETRANS, rto);
	return false;
}

/* tcp_send_loss_probe() (net/ipv4/tcp_output.c) sends one probe at a time. */
void weft_tcp_allow_tlp(struct sock *sk)
{
	tcp_sk(sk)->tlp_high_seq = 0;
}

/* Turns off what the table in timeout_only.rs lists. The functions named here read the field. */
void weft_tcp_timeout_only(struct sock *sk, u32 rto)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* No packet sent later was acknowledged: tcp_rack_mark_lost() (tcp_recovery.c) ends. */
	tp->rack.advanced = 0;
	/* tcp_rack_skb_timeout(): at a timeout, all packets out were sent longer ago than this. */
	tp->rack.rtt_us = 0;
	/* tcp_process_loss() and tcp_may_undo() (tcp_input.c) find no timeout spurious. */
	tp->frto = 0;
	tp->undo_marker = 0;
	/*
	 * tcp_send_loss_probe() (tcp_output.c): a probe is out already. tcp_process_tlp_ack()
	 * (tcp_input.c) does not find it acknowledged. Not 0.
	 */
	tp->tlp_high_seq = (tp->snd_una + BIT(30)) | 1;
	tp->tlp_retrans = 0;
	/* In place of tcp_set_rto() (tcp_input.c). Probes of a closed window keep its backoff. */
	if (tp->snd_wnd)
		inet_csk(sk)->icsk_rto = rto;
}

/*
 * Reverts the loss marks of packets that were sent or retransmitted at `since_us` of tcp_mstamp or
 * later: the reverse of tcp_mark_skb_lost() (net/ipv4/tcp_input.c).
 */
void weft_tcp_unmark_lost(struct sock *sk, u64 since_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *skb = tcp_rtx_queue_head(sk);

	skb_rbtree_walk_from(skb) {
		struct tcp_skb_cb *cb = TCP_SKB_CB(skb);

		if ((cb->sacked & (TCPCB_LOST | TCPCB_SACKED_RETRANS)) != TCPCB_LOST ||
		    tcp_skb_timestamp_us(skb) < since_us)
			continue;
		if (cb->sacked & TCPCB_EVER_RETRANS) {
			/* Lost before, by a timeout, and retransmitted since. */
			cb->sacked |= TCPCB_SACKED_RETRANS;
			tp->retrans_out += tcp_skb_pcount(skb);
		} else {
			cb->sacked &= ~TCPCB_LOST;
			tp->lost_out -= tcp_skb_pcount(skb);
		}
	}
	tcp_clear_all_retrans_hints(tp);
}
