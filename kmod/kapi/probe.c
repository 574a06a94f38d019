// SPDX-License-Identifier: GPL-2.0-only
/* A header in place of a retransmission. */
#include "bindings.h"

/*
 * The operations of an address family, except one, and their origin: IPv4, IPv6, mapped addresses,
 * and a spare one.
 */
static struct weft_probe_ops {
	struct inet_connection_sock_af_ops ops;
	const struct inet_connection_sock_af_ops *of;
} weft_probe_ops[4];
static DEFINE_SPINLOCK(weft_probe_lock);

/*
 * In __tcp_retransmit_skb() (net/ipv4/tcp_output.c), which then gives up: tcp_retransmit_timer()
 * (tcp_timer.c) sets and doubles the timer as after any failed retransmission. Instead, a header
 * goes out whose sequence number is one before the first unacknowledged byte, as in a keepalive
 * probe (tcp_xmit_probe_skb(), tcp_output.c): the peer answers with its state.
 *
 * tcp_connect() and tcp_init_transfer() call rebuild_header(), too: when a connection begins, so
 * with the family's own table, which release() puts back.
 */
static int weft_probe_rebuild_header(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 snd_nxt = tp->snd_nxt;

	weft_tcp_probe_over(sk);
	/* New data must not make tcp_process_loss() (tcp_input.c) find the timeout spurious. */
	tp->frto = 0;
	WRITE_ONCE(tp->snd_nxt, tp->snd_una - 1);
	__tcp_send_ack(sk, tp->rcv_nxt, 0);
	WRITE_ONCE(tp->snd_nxt, snd_nxt);
	return -EHOSTUNREACH;
}

void weft_tcp_probe_instead(struct sock *sk)
{
	const struct inet_connection_sock_af_ops *of = inet_csk(sk)->icsk_af_ops;
	struct weft_probe_ops *free = NULL;
	int i;

	if (of->rebuild_header == weft_probe_rebuild_header)
		return;
	spin_lock_bh(&weft_probe_lock);
	for (i = 0; i < ARRAY_SIZE(weft_probe_ops); i++) {
		struct weft_probe_ops *mine = &weft_probe_ops[i];

		if (!mine->of) {
			mine->ops = *of;
			mine->ops.rebuild_header = weft_probe_rebuild_header;
			mine->of = of;
		}
		if (mine->of == of) {
			free = mine;
			break;
		}
	}
	spin_unlock_bh(&weft_probe_lock);
	/*
	 * Otherwise the packet is retransmitted. tcp_setsockopt() and tcp_getsockopt() (net/ipv4/tcp.c)
	 * read the pointer without the socket's lock, and must find the whole table behind it.
	 */
	if (free)
		smp_store_release(&inet_csk(sk)->icsk_af_ops, &free->ops);
}

void weft_tcp_probe_over(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct weft_probe_ops *mine;

	if (icsk->icsk_af_ops->rebuild_header != weft_probe_rebuild_header)
		return;
	mine = container_of_const(icsk->icsk_af_ops, struct weft_probe_ops, ops);
	/* Paired with READ_ONCE() in tcp_(get|set)sockopt(), like the kernel's own writes. */
	WRITE_ONCE(icsk->icsk_af_ops, mine->of);
}

/*
 * Called before the module's memory is freed, when no socket has one of these tables.
 * tcp_(get|set)sockopt() may have read the pointer before the socket got its own table back, and
 * been preempted before using it. They do not sleep in between, so each is done once every task has
 * voluntarily left the processor once. synchronize_rcu() does not wait for a preempted task outside
 * of a reader's section.
 */
void weft_tcp_probes_end(void)
{
	bool any;

	spin_lock_bh(&weft_probe_lock);
	any = weft_probe_ops[0].of;
	spin_unlock_bh(&weft_probe_lock);
	if (any)
		synchronize_rcu_tasks();
}

/*
 * The data acknowledged now was not retransmitted: the timeout was spurious. tcp_init_undo()
 * (net/ipv4/tcp_input.c) began with a count that is never 0; tcp_may_undo() reverts the marks at 0.
 */
void weft_tcp_nothing_resent(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->undo_marker && !tp->retrans_out)
		tp->undo_retrans = 0;
}
