// SPDX-License-Identifier: GPL-2.0-only
/* A TCP socket that sends and discards bytes by itself, see pump.rs. */
#include "bindings.h"

#include <linux/bvec.h>

#define WEFT_PUMP "weft-pump"

/* The options of a socket, each a u64. */
enum {
	/* Level of setsockopt() and getsockopt(): "pump". */
	WEFT_SOL_PUMP = 0x70756d70,
	/* Set: how many zero bytes to send more. Get: how many of them have no room yet. */
	WEFT_PUMP_SEND = 1,
	/* Set: how many bytes to discard more. Get: how many of them have not arrived yet. */
	WEFT_PUMP_DISCARD = 2,
};

enum {
	/* Bytes per tcp_sendmsg_locked(): as many as the traffic engine has per write. */
	WEFT_PUMP_CHUNK = 256 << 10,
	/* Zeros in one piece. */
	WEFT_PUMP_ZEROS = 64 << 10,
	/*
	 * Segments per call while the socket's backlog is processed: with one more
	 * tcp_sendmsg_locked() (net/ipv4/tcp.c) would process later packets first.
	 */
	WEFT_PUMP_NESTED = 16,
};

/* A socket's state, used with the socket locked. */
struct weft_pump {
	u64 to_send;
	u64 to_discard;
	bool sending;
	/* What the socket had before. */
	struct proto *proto;
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	gfp_t allocation;
	bool use_task_frag;
};

/* Operations of sockets of IPv4 and IPv6: those of TCP with other options. */
static struct {
	const struct proto *original;
	struct proto proto;
} weft_pump_protos[2];
static DEFINE_MUTEX(weft_pump_protos_lock);

static struct weft_pump *weft_pump(const struct sock *sk)
{
	/* Set as long as the socket has this layer's functions. */
	return (__force struct weft_pump *)inet_csk(sk)->icsk_ulp_data;
}

/* All segments point to the same zeros: bytes that nobody reads take no memory of their own. */
static struct page *weft_pump_zeros;

static int weft_pump_send_chunk(struct sock *sk, u64 bytes, u32 most)
{
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES,
	};
	struct bio_vec pieces[WEFT_PUMP_CHUNK / WEFT_PUMP_ZEROS];
	u32 chunk = min_t(u64, bytes, most);
	u32 count = 0, at;

	for (at = 0; at < chunk; at += WEFT_PUMP_ZEROS)
		bvec_set_page(&pieces[count++], weft_pump_zeros,
			      min_t(u32, chunk - at, WEFT_PUMP_ZEROS), 0);
	if (chunk < bytes)
		msg.msg_flags |= MSG_MORE;
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, pieces, count, chunk);
	return tcp_sendmsg_locked(sk, &msg, chunk);
}

static void weft_pump_send(struct sock *sk, struct weft_pump *pump, u32 chunk)
{
	/* tcp_sendmsg_locked() may call write_space(); without a process it must not be called. */
	if (pump->sending || !sk->sk_socket)
		return;
	pump->sending = true;
	while (pump->to_send) {
		u32 asked = min_t(u64, pump->to_send, chunk);
		int sent = weft_pump_send_chunk(sk, pump->to_send, chunk);

		if (sent <= 0) {
			/* No acknowledgement will call: the process has to, or sees the error. */
			if (sent != -EAGAIN || tcp_rtx_and_write_queues_empty(sk))
				pump->write_space(sk);
			break;
		}
		pump->to_send -= min_t(u32, sent, asked);
		if (sent < asked)
			break;
	}
	pump->sending = false;
}

/* sk_write_space: as sk_stream_write_space() (net/core/stream.c), which wakes the process. */
static void weft_pump_write_space(struct sock *sk)
{
	struct weft_pump *pump = weft_pump(sk);

	if (!pump->to_send) {
		pump->write_space(sk);
	} else if (sk->sk_socket && sk_stream_is_writeable(sk)) {
		bool nested = sock_owned_by_user_nocheck(sk);
		u32 chunk = WEFT_PUMP_CHUNK;

		if (nested)
			chunk = min(chunk, WEFT_PUMP_NESTED * tcp_sk(sk)->mss_cache);
		clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		weft_pump_send(sk, pump, chunk);
	}
}

static int weft_pump_take(read_descriptor_t *desc, struct sk_buff *skb,
			  unsigned int offset, size_t len)
{
	struct weft_pump *pump = desc->arg.data;
	size_t taken = min_t(u64, len, pump->to_discard);

	pump->to_discard -= taken;
	desc->count = pump->to_discard > 0;
	return taken;
}

/*
 * Discards as soon as a process would read that set SO_RCVLOWAT for all bytes up to the first one
 * that is not to be discarded, or for a part of them: when the threshold is reached, which near the
 * end is lower. tcp_data_ready() (net/ipv4/tcp_input.c) asks for it.
 */
static void weft_pump_discard(struct sock *sk, struct weft_pump *pump)
{
	read_descriptor_t desc = { .arg.data = pump, .count = 1 };

	if (!pump->to_discard)
		return;
	tcp_read_sock(sk, &desc, weft_pump_take);
	if (pump->to_discard < sk->sk_rcvlowat)
		WRITE_ONCE(sk->sk_rcvlowat, (int)pump->to_discard + 1);
}

/* sk_data_ready: the process wakes for bytes that are not to be discarded, or at the end. */
static void weft_pump_data_ready(struct sock *sk)
{
	struct weft_pump *pump = weft_pump(sk);

	weft_pump_discard(sk, pump);
	if (!pump->to_discard || sk->sk_err || sk->sk_shutdown & RCV_SHUTDOWN)
		pump->data_ready(sk);
}

static int weft_pump_setsockopt(struct sock *sk, int level, int option, sockptr_t value,
				unsigned int len)
{
	struct weft_pump *pump = weft_pump(sk);
	int err = 0;
	u64 bytes;

	if (level != WEFT_SOL_PUMP)
		return pump->proto->setsockopt(sk, level, option, value, len);
	if (option != WEFT_PUMP_SEND && option != WEFT_PUMP_DISCARD)
		return -ENOPROTOOPT;
	if (len != sizeof(bytes))
		return -EINVAL;
	if (copy_from_sockptr(&bytes, value, sizeof(bytes)))
		return -EFAULT;
	lock_sock(sk);
	if (option == WEFT_PUMP_SEND) {
		if (bytes > U64_MAX - pump->to_send)
			err = -EOVERFLOW;
		else
			pump->to_send += bytes;
		weft_pump_send(sk, pump, WEFT_PUMP_CHUNK);
	} else {
		if (bytes > U64_MAX - pump->to_discard)
			err = -EOVERFLOW;
		else
			pump->to_discard += bytes;
		weft_pump_discard(sk, pump);
	}
	release_sock(sk);
	return err;
}

static int weft_pump_getsockopt(struct sock *sk, int level, int option, char __user *value,
				int __user *len)
{
	struct weft_pump *pump = weft_pump(sk);
	u64 bytes;
	int size;

	if (level != WEFT_SOL_PUMP)
		return pump->proto->getsockopt(sk, level, option, value, len);
	if (option != WEFT_PUMP_SEND && option != WEFT_PUMP_DISCARD)
		return -ENOPROTOOPT;
	if (get_user(size, len))
		return -EFAULT;
	if (size != sizeof(bytes))
		return -EINVAL;
	lock_sock(sk);
	bytes = option == WEFT_PUMP_SEND ? pump->to_send : pump->to_discard;
	release_sock(sk);
	return copy_to_user(value, &bytes, sizeof(bytes)) ? -EFAULT : 0;
}

/* TCP's operations with these options. NULL if the socket's operations are not TCP's own. */
static struct proto *weft_pump_proto(const struct sock *sk)
{
	typeof(&weft_pump_protos[0]) its = &weft_pump_protos[sk->sk_family == AF_INET6];
	struct proto *proto = NULL;

	mutex_lock(&weft_pump_protos_lock);
	if (!its->original) {
		its->proto = *sk->sk_prot;
		its->proto.setsockopt = weft_pump_setsockopt;
		its->proto.getsockopt = weft_pump_getsockopt;
		its->original = sk->sk_prot;
	}
	if (its->original == sk->sk_prot)
		proto = &its->proto;
	mutex_unlock(&weft_pump_protos_lock);
	return proto;
}

static int weft_pump_init(struct sock *sk)
{
	struct proto *proto;
	struct weft_pump *pump;

	if (sk->sk_state != TCP_ESTABLISHED)
		return -ENOTCONN;
	proto = weft_pump_proto(sk);
	if (!proto)
		return -EBUSY;
	pump = kzalloc(sizeof(*pump), GFP_KERNEL);
	if (!pump)
		return -ENOMEM;
	pump->proto = sk->sk_prot;
	/* It sends from softirqs, too, where nothing may sleep. */
	pump->allocation = sk->sk_allocation;
	pump->use_task_frag = sk->sk_use_task_frag;
	sk->sk_allocation = GFP_ATOMIC;
	sk->sk_use_task_frag = false;
	rcu_assign_pointer(inet_csk(sk)->icsk_ulp_data, pump);
	write_lock_bh(&sk->sk_callback_lock);
	pump->data_ready = sk->sk_data_ready;
	pump->write_space = sk->sk_write_space;
	WRITE_ONCE(sk->sk_data_ready, weft_pump_data_ready);
	WRITE_ONCE(sk->sk_write_space, weft_pump_write_space);
	write_unlock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_prot, proto);
	return 0;
}

static void weft_pump_release(struct sock *sk)
{
	struct weft_pump *pump = weft_pump(sk);

	WRITE_ONCE(sk->sk_prot, pump->proto);
	write_lock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_data_ready, pump->data_ready);
	WRITE_ONCE(sk->sk_write_space, pump->write_space);
	write_unlock_bh(&sk->sk_callback_lock);
	sk->sk_allocation = pump->allocation;
	sk->sk_use_task_frag = pump->use_task_frag;
	RCU_INIT_POINTER(inet_csk(sk)->icsk_ulp_data, NULL);
	kfree(pump);
}

static struct tcp_ulp_ops weft_pump_ops = {
	.name = WEFT_PUMP,
	.init = weft_pump_init,
	.release = weft_pump_release,
};

int weft_pump_register(struct module *module)
{
	int err;

	weft_pump_zeros = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP,
				      get_order(WEFT_PUMP_ZEROS));
	if (!weft_pump_zeros)
		return -ENOMEM;
	weft_pump_ops.owner = module;
	err = tcp_register_ulp(&weft_pump_ops);
	if (err)
		put_page(weft_pump_zeros);
	return err;
}

void weft_pump_unregister(void)
{
	tcp_unregister_ulp(&weft_pump_ops);
	/* Packets that are still out have references of their own. */
	put_page(weft_pump_zeros);
}
