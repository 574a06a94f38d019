// SPDX-License-Identifier: GPL-2.0-only
/* The modules' own datagrams. */
#include "bindings.h"

#include <net/sock.h>

/* Ports that a process needs a privilege for, and that few services use. */
#define WEFT_FIRST_PORT 512
#define WEFT_LAST_PORT 1023

/* A UDP socket of the kernel, and the owner that receives its datagrams. */
struct weft_socket {
	struct socket *socket;
	void *owner;
	weft_datagram_fn receive;
	__be16 port;
};

/*
 * In softirq, under RCU: a datagram with a correct checksum, from its UDP header on. One that is
 * too long is passed on without content.
 */
static int weft_socket_receive(struct sock *sk, struct sk_buff *skb)
{
	const struct weft_socket *it = rcu_dereference_sk_user_data(sk);
	u32 len = skb->len - sizeof(struct udphdr);
	u8 data[WEFT_DATAGRAM];

	if (it) {
		if (len > sizeof(data) ||
		    skb_copy_bits(skb, sizeof(struct udphdr), data, len))
			len = 0;
		it->receive(it->owner, ntohl(ip_hdr(skb)->saddr),
			    ntohs(udp_hdr(skb)->source), data, len);
	}
	consume_skb(skb);
	return 0;
}

/*
 * Binds to a free port that a process needs CAP_NET_BIND_SERVICE for, as the first qdisc's owner
 * has it: the receiver of its datagrams can then tell them from a process's. Returns an error
 * pointer on failure.
 */
struct weft_socket *weft_socket_open(struct net *net, void *owner,
				     weft_datagram_fn receive)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct weft_socket *it = kzalloc(sizeof(*it), GFP_KERNEL_ACCOUNT);
	struct sock *sk;
	int error, port;

	if (!it)
		return ERR_PTR(-ENOMEM);
	it->owner = owner;
	it->receive = receive;
	error = sock_create_kern(net, PF_INET, SOCK_DGRAM, IPPROTO_UDP,
				 &it->socket);
	if (error)
		goto free;
	sk = it->socket->sk;
	/* Network control, by which a switch can classify them. */
	ip_sock_set_tos(sk, IPTOS_PREC_INTERNETCONTROL);
	sk->sk_priority = TC_PRIO_CONTROL;
	rcu_assign_sk_user_data(sk, it);
	WRITE_ONCE(udp_sk(sk)->encap_rcv, weft_socket_receive);
	WRITE_ONCE(udp_sk(sk)->encap_type, 1);
	if (!udp_test_and_set_bit(ENCAP_ENABLED, sk))
		udp_encap_enable();
	/*
	 * A port requested by its number is locked: it stays bound even if somebody has the socket
	 * aborted (__udp_disconnect(), net/ipv4/udp.c).
	 */
	for (port = WEFT_LAST_PORT; port >= WEFT_FIRST_PORT; port--) {
		any.sin_port = htons(port);
		error = kernel_bind(it->socket,
				    (struct sockaddr_unsized *)&any,
				    sizeof(any));
		if (error != -EADDRINUSE)
			break;
	}
	if (error)
		goto release;
	it->port = inet_sk(sk)->inet_sport;
	return it;
release:
	sock_release(it->socket);
free:
	kfree(it);
	return ERR_PTR(error);
}

/*
 * Sends one datagram, from softirq; false if it was not sent.
 *
 * This does not use kernel_sendmsg(): udp_sendmsg() (net/ipv4/udp.c) may take the socket's lock,
 * for which it may sleep, if the socket has no port (which the namespace's administrator can cause)
 * and some cgroup on the machine has a program for the destinations of datagrams. Otherwise this
 * does the same as udp_sendmsg() and udp_send_skb() for an unconnected socket, and takes no lock.
 * It does not fragment, so a datagram longer than the MTU is not sent.
 */
bool weft_socket_send(const struct weft_socket *it, u32 address, u16 port,
		      const u8 *data, u32 len)
{
	struct sock *sk = it->socket->sk;
	struct net *net = sock_net(sk);
	u32 whole = sizeof(struct udphdr) + len;
	u8 tos = READ_ONCE(inet_sk(sk)->tos);
	struct flowi4 way;
	struct rtable *route;
	struct sk_buff *skb;
	struct udphdr *udp;
	struct iphdr *ip;
	int error;

	/* The socket's share of memory, as for a process that sends. */
	if (refcount_read(&sk->sk_wmem_alloc) > READ_ONCE(sk->sk_sndbuf)) {
		UDP_INC_STATS(net, UDP_MIB_SNDBUFERRORS);
		return false;
	}
	flowi4_init_output(&way, READ_ONCE(sk->sk_bound_dev_if),
			   READ_ONCE(sk->sk_mark), tos & INET_DSCP_MASK,
			   RT_SCOPE_UNIVERSE, IPPROTO_UDP, 0, htonl(address), 0,
			   htons(port), it->port, sk_uid(sk));
	security_sk_classify_flow(sk, flowi4_to_flowi_common(&way));
	route = ip_route_output_flow(net, &way, sk);
	if (IS_ERR(route))
		return false;
	if (route->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST) ||
	    sizeof(*ip) + whole > dst_mtu(&route->dst))
		goto drop_route;
	skb = alloc_skb(LL_RESERVED_SPACE(route->dst.dev) + sizeof(*ip) + whole,
			GFP_ATOMIC);
	if (!skb)
		goto drop_route;
	skb_reserve(skb, LL_RESERVED_SPACE(route->dst.dev) + sizeof(*ip));
	skb_reset_transport_header(skb);
	udp = skb_put(skb, sizeof(*udp));
	skb_put_data(skb, data, len);
	*udp = (struct udphdr){
		.source = it->port,
		.dest = htons(port),
		.len = htons(whole),
	};
	udp_set_csum(false, skb, way.saddr, way.daddr, whole);

	ip = skb_push(skb, sizeof(*ip));
	skb_reset_network_header(skb);
	*ip = (struct iphdr){
		.version = 4,
		.ihl = sizeof(*ip) / 4,
		.tos = tos,
		.frag_off = ip_dont_fragment(sk, &route->dst) ? htons(IP_DF) : 0,
		.ttl = ip4_dst_hoplimit(&route->dst),
		.protocol = IPPROTO_UDP,
		.saddr = way.saddr,
		.daddr = way.daddr,
	};
	skb->ignore_df = ip_sk_ignore_df(sk);
	ip_select_ident(net, skb, sk);
	skb->priority = READ_ONCE(sk->sk_priority);
	skb->mark = READ_ONCE(sk->sk_mark);
	skb_set_owner_w(skb, sk);
	skb_dst_set(skb, &route->dst);
	error = ip_local_out(net, sk, skb);
	if (net_xmit_eval(error))
		return false;
	UDP_INC_STATS(net, UDP_MIB_OUTDATAGRAMS);
	return true;

drop_route:
	ip_rt_put(route);
	return false;
}

/* Whether the socket sent this outgoing packet; false if the packet has lost its socket. */
bool weft_socket_sent(const struct weft_socket *it, const struct sk_buff *skb)
{
	return skb->sk == it->socket->sk;
}

/* Stops passing on datagrams, and waits for callbacks under way. May sleep. */
void weft_socket_deafen(struct weft_socket *it)
{
	rcu_assign_sk_user_data(it->socket->sk, NULL);
	synchronize_rcu();
}

void weft_socket_close(struct weft_socket *it)
{
	kernel_sock_shutdown(it->socket, SHUT_RDWR);
	sock_release(it->socket);
	kfree(it);
}
