// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inline functions and macros of the kernel's headers, made callable from Rust.
 *
 * These functions decide nothing: each is the C expression that its name says, or has a comment
 * that gives the reason for more. Functions on the packet path combine several expressions, because
 * a call from Rust into C cannot be inlined.
 *
 * They replace the kernel's own Rust in two places:
 * - weft_lock*(): kernel::sync::SpinLock does not turn bottom halves off, and its guard asks
 *   lockdep by a separate call.
 * - the hrtimer of a namespace's shared state, see kapi/namespace.rs.
 */
#include "bindings.h"

#include <linux/bpf_local_storage.h>
#include <linux/ipv6.h>
#include <linux/workqueue.h>
#include <net/l3mdev.h>
#include <net/sock.h>

/*
 * Of the word at WEFT_SKB_FLAGS, the bit that says that a packet's hash covers its whole flow, or
 * the one that says that software computed it. Bit-fields have no address. 0: the bit is elsewhere.
 */
u32 weft_skb_hash_bit(bool software)
{
	struct sk_buff skb = {};
	u32 bit;

	if (software)
		skb.sw_hash = 1;
	else
		skb.l4_hash = 1;
	memcpy(&bit, (const u8 *)&skb + WEFT_SKB_FLAGS, sizeof(bit));
	return bit;
}

u32 weft_skb_dissected_hash(struct sk_buff *skb)
{
	return skb_get_hash(skb);
}

/* Whether a layer below the qdisc needs a packet's socket: to report the time, or to encrypt. */
static bool weft_skb_needs_socket(const struct sk_buff *skb)
{
	if (skb_shinfo(skb)->tx_flags & SKBTX_ANY_TSTAMP)
		return true;
#ifdef CONFIG_SOCK_VALIDATE_XMIT
	if (skb->sk && sk_fullsock(skb->sk) && skb->sk->sk_validate_xmit_skb)
		return true;
#endif
	return false;
}

/*
 * The packet no longer counts against its socket, so the socket can send more, but it keeps a
 * reference to the socket, as netem's packets do (skb_orphan_partial()). Two kinds differ:
 * - A packet that the device has yet to encrypt continues to count. If it were orphaned, even
 *   partially, it would have no socket and be dropped.
 * - A TCP segment loses a socket that no layer below needs. TCP takes a clone with a socket for one
 *   that waits in the host (skb_fclone_busy()), and would not retransmit packets lost on a long
 *   wire.
 */
void weft_skb_sent(struct sk_buff *skb)
{
	if (skb_is_decrypted(skb) || skb->destructor == sock_efree)
		return;
	if (skb->fclone == SKB_FCLONE_CLONE && !weft_skb_needs_socket(skb))
		skb_orphan(skb);
	else
		skb_orphan_partial(skb);
}

/* It updates whole sockets only, not a request's or one in TIME-WAIT. */
void weft_skb_set_pacing_shift(struct sk_buff *skb, u32 shift)
{
	sk_pacing_shift_update(skb->sk, shift);
}

void weft_skb_set_txtime(struct sk_buff *skb, u64 ns)
{
	skb_set_delivery_time(skb, ns, SKB_CLOCK_TAI);
}

void weft_skb_set_due(struct sk_buff *skb, u64 ns)
{
	skb_set_delivery_time(skb, ns, SKB_CLOCK_MONOTONIC);
}

/* Bit-fields have no address. U64_MAX: there is no time, or one of another clock. */
u64 weft_skb_due(const struct sk_buff *skb)
{
	return skb->tstamp_type == SKB_CLOCK_MONOTONIC ? skb->tstamp : U64_MAX;
}

void weft_skb_free(struct sk_buff *skb)
{
	kfree_skb_reason(skb, SKB_DROP_REASON_QDISC_DROP);
}

void weft_skb_consume(struct sk_buff *skb)
{
	consume_skb(skb);
}

/*
 * A checksum over the whole packet, computed by the device, no longer holds when the packet is
 * written to. One call does both, for each packet.
 */
bool weft_skb_make_writable(struct sk_buff *skb, u32 len)
{
	if (skb_ensure_writable(skb, len))
		return false;
	skb_forward_csum(skb);
	return true;
}

void weft_qdisc_lock(struct Qdisc *sch)
{
	sch_tree_lock(sch);
}

void weft_qdisc_unlock(struct Qdisc *sch)
{
	sch_tree_unlock(sch);
}

void weft_qdisc_drop(struct sk_buff *skb, struct Qdisc *sch,
		     struct sk_buff **to_free)
{
	qdisc_drop_reason(skb, sch, to_free, QDISC_DROP_OVERLIMIT);
}

struct sk_buff *weft_qdisc_peek_dequeued(struct Qdisc *sch)
{
	return qdisc_peek_dequeued(sch);
}

u32 weft_qdisc_tx_queue_len(struct Qdisc *sch)
{
	return READ_ONCE(qdisc_dev(sch)->tx_queue_len);
}

u32 weft_qdisc_mtu(struct Qdisc *sch)
{
	return psched_mtu(qdisc_dev(sch));
}

struct net_device *weft_qdisc_dev(struct Qdisc *sch)
{
	return qdisc_dev(sch);
}

bool weft_net_xmit_is_drop(int code)
{
	return net_xmit_drop_count(code);
}

void weft_qdisc_purge(struct Qdisc *sch)
{
	qdisc_purge_queue(sch);
}

bool weft_class_step(struct Qdisc *sch, unsigned long class,
		     struct qdisc_walker *walker)
{
	return tc_qdisc_stats_dump(sch, class, walker);
}

int weft_qdisc_copy_queue_stats(struct gnet_dump *d, struct Qdisc *sch)
{
	return qdisc_qstats_copy(d, sch);
}

void weft_basic_stats(struct gnet_stats_basic_sync *basic, u64 bytes,
		      u64 packets)
{
	gnet_stats_basic_sync_init(basic);
	_bstats_update(basic, bytes, packets);
}

void weft_lock_init(spinlock_t *lock)
{
	spin_lock_init(lock);
}

void weft_lock(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

void weft_unlock(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

void weft_lock_bh_off(spinlock_t *lock)
{
	spin_lock(lock);
}

void weft_unlock_bh_off(spinlock_t *lock)
{
	spin_unlock(lock);
}

struct net *weft_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}

u32 weft_dev_index(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}

void weft_dev_schedule(struct net_device *dev)
{
	netif_tx_schedule_all(dev);
}

bool weft_dev_is_running(const struct net_device *dev)
{
	return netif_running(dev);
}

u16 weft_dev_type(const struct net_device *dev)
{
	return dev->type;
}

int weft_dev_hard_header(struct sk_buff *skb, struct net_device *dev, u16 type,
			 const u8 *to, u32 len)
{
	return dev_hard_header(skb, dev, type, to, dev->dev_addr, len);
}

int weft_dev_queue_xmit(struct sk_buff *skb)
{
	return dev_queue_xmit(skb);
}

/* An empty packet with room for a device's frame of len bytes. */
struct sk_buff *weft_frame_alloc(struct net_device *dev, u32 len)
{
	u32 head = LL_RESERVED_SPACE(dev);
	struct sk_buff *skb;

	skb = alloc_skb(head + len + dev->needed_tailroom, GFP_ATOMIC);
	if (skb) {
		skb_reserve(skb, head);
		skb_reset_network_header(skb);
		skb->dev = dev;
	}
	return skb;
}

void weft_skb_set_protocol(struct sk_buff *skb, u16 type)
{
	skb->protocol = htons(type);
}

bool weft_skb_mac_header_was_set(const struct sk_buff *skb)
{
	return skb_mac_header_was_set(skb);
}

const u8 *weft_skb_mac_header(const struct sk_buff *skb)
{
	return skb_mac_header(skb);
}

u8 weft_skb_pkt_type(const struct sk_buff *skb)
{
	return skb->pkt_type;
}

bool weft_dev_has_carrier(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

/*
 * Like ip_exceeds_mtu(), for the part above layer 2, because the header is another device's. A
 * packet that has yet to be segmented fits if each of its segments fits.
 */
bool weft_dev_fits(const struct net_device *dev, const struct sk_buff *skb)
{
	u32 mtu = READ_ONCE(dev->mtu);

	return skb->len - skb_network_offset(skb) <= mtu ||
	       (skb_is_gso(skb) && skb_gso_validate_network_len(skb, mtu));
}

/* The index of the VRF that a device belongs to, 0 for none. Under RCU. */
u32 weft_dev_vrf(const struct net_device *dev)
{
	return l3mdev_master_ifindex_rcu(dev);
}

/*
 * Whether a packet that leaves by the device belongs to the network that the device's namespace
 * routes, and goes to a single station. It does not if it comes from a VLAN or another namespace
 * (macvlan) on top of the device, or from a bridge or the like that has the device as a port. Under
 * RCU.
 */
bool weft_skb_is_routed(const struct sk_buff *skb, struct net_device *dev)
{
	struct net_device *master = netdev_master_upper_dev_get_rcu(dev);

	if (skb_vlan_tag_present(skb) || (master && !netif_is_l3_master(master)))
		return false;
	if (skb->sk && sk_fullsock(skb->sk) &&
	    !net_eq(sock_net(skb->sk), dev_net(dev)))
		return false;
	/* Only on these devices does a packet begin with an Ethernet header. */
	return dev->type != ARPHRD_ETHER || skb_headlen(skb) < ETH_HLEN ||
	       !is_multicast_ether_addr(skb->data);
}

/*
 * The address of a known neighbour of the device, in whatever family: one station's, and not the
 * device's own. On a link of two stations this is the other end. n->type is not used, because it is
 * RTN_BROADCAST if a namespace has no address. Under RCU.
 */
bool weft_dev_neighbour(struct net_device *dev, u8 *address)
{
	/* A bound, because this runs under locks; a link of two has no more. */
	int table, left = 16;
	struct neighbour *n;

	for (table = 0; table < NEIGH_NR_TABLES; table++) {
		hlist_for_each_entry_rcu(n, &dev->neighbours[table], dev_list) {
			if (!left--)
				return false;
			if (!(READ_ONCE(n->nud_state) & NUD_VALID))
				continue;
			neigh_ha_snapshot(address, n, dev);
			if (is_valid_ether_addr(address) &&
			    !ether_addr_equal(address, dev->dev_addr))
				return true;
		}
	}
	return false;
}

/*
 * Removes the header of the link that the packet was to leave by, and makes room for the header of
 * the device by which it will leave.
 */
bool weft_skb_leave_link(struct sk_buff *skb, struct net_device *dev)
{
	int offset = skb_network_offset(skb);

	if (offset < 0 || !pskb_may_pull(skb, offset))
		return false;
	__skb_pull(skb, offset);
	if (skb_cow_head(skb, LL_RESERVED_SPACE(dev)))
		return false;
	skb_dst_drop(skb);
	skb->dev = dev;
	return true;
}

/*
 * Packets that go by another device, for each processor. The code that enqueued such a packet still
 * reads it after the qdisc has taken it, if qdisc_enqueue is traced: until bottom halves are on
 * again. Another processor must not have the packet before that. The work runs on the processor on
 * which it was queued, and not before bottom halves are on there.
 */
struct weft_leaving {
	struct work_struct work;
	struct llist_head packets;
};
static DEFINE_PER_CPU(struct weft_leaving, weft_leaving);
static weft_leave_fn weft_leave;

/* In the qdisc's part of a packet's cb. */
struct weft_leaving_cb {
	u64 stamp;
	void *to;
};

static void weft_leaving_work(struct work_struct *work)
{
	struct weft_leaving *it = container_of(work, struct weft_leaving, work);
	struct llist_node *list;
	struct sk_buff *skb, *next;

	list = llist_reverse_order(llist_del_all(&it->packets));
	llist_for_each_entry_safe(skb, next, list, ll_node) {
		const struct weft_leaving_cb *cb = (void *)qdisc_skb_cb(skb)->data;

		skb_mark_not_on_list(skb);
		weft_leave(cb->to, skb, cb->stamp);
	}
}

/* Call once, before the first packet. */
void weft_leaving_init(weft_leave_fn leave)
{
	int cpu;

	weft_leave = leave;
	for_each_possible_cpu(cpu) {
		struct weft_leaving *it = per_cpu_ptr(&weft_leaving, cpu);

		init_llist_head(&it->packets);
		INIT_WORK(&it->work, weft_leaving_work);
	}
}

/* Schedules that function for when the enqueuing code is done. Bottom halves are off. */
void weft_skb_leave(struct sk_buff *skb, void *to, u64 stamp)
{
	struct weft_leaving *it = this_cpu_ptr(&weft_leaving);
	struct weft_leaving_cb *cb = (void *)qdisc_skb_cb(skb)->data;

	qdisc_cb_private_validate(skb, sizeof(*cb));
	cb->stamp = stamp;
	cb->to = to;
	if (llist_add(&skb->ll_node, &it->packets))
		queue_work_on(smp_processor_id(), system_bh_wq, &it->work);
}

/* Waits until the function has been called for all packets. May sleep. */
void weft_leaving_flush(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		flush_work(&per_cpu_ptr(&weft_leaving, cpu)->work);
}

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
	 * aborted.
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
 * This does not use kernel_sendmsg(): udp_sendmsg() may take the socket's lock, for which it may
 * sleep, if the socket has no port (which the namespace's administrator can cause) and some cgroup
 * on the machine has a program for the destinations of datagrams. Otherwise this does the same as
 * udp_sendmsg() for an unconnected socket, and takes no lock. It does not fragment, so a datagram
 * longer than the MTU is not sent.
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

/* Does nothing if there is no such device. Under RCU. */
void weft_dev_schedule_by_index(struct net *net, u32 index)
{
	struct net_device *dev = dev_get_by_index_rcu(net, index);

	if (dev)
		netif_tx_schedule_all(dev);
}

/* A qdisc's lock counts in preempt_count() on every kernel: it is a _bh lock. */
bool weft_may_sleep(void)
{
	return !in_atomic() && !irqs_disabled();
}

bool weft_within_module(const void *place, struct module *module)
{
	return within_module((unsigned long)place, module);
}

const struct nlattr *weft_nla_find(const struct nlattr *nest, int attr)
{
	return nla_find_nested(nest, attr);
}

struct nlattr *weft_nest_start(struct sk_buff *skb, int attr)
{
	return nla_nest_start_noflag(skb, attr);
}

int weft_nest_end(struct sk_buff *skb, struct nlattr *nest)
{
	return nla_nest_end(skb, nest);
}

void weft_nest_cancel(struct sk_buff *skb, struct nlattr *nest)
{
	nla_nest_cancel(skb, nest);
}

void *weft_net_generic(const struct net *net, unsigned int id)
{
	return net_generic(net, id);
}

/* The room for a congestion control's state, in use or not. */
void *weft_ca_room(struct sock *sk)
{
	return inet_csk_ca(sk);
}

/* Between init() and release(). Some callbacks run before, as for a lost SYN. */
bool weft_ca_initialized(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_initialized;
}

/* The congestion control whose callbacks run. */
const void *weft_ca_ops(const struct sock *sk)
{
	return READ_ONCE(inet_csk(sk)->icsk_ca_ops);
}

/* Whether the two ends have agreed on marks, or may yet. */
bool weft_tcp_may_have_ecn(const struct sock *sk)
{
	return tcp_ecn_mode_any(tcp_sk(sk)) ||
	       BIT(sk->sk_state) & (TCPF_CLOSE | TCPF_LISTEN | TCPF_SYN_SENT);
}

/* Switches to another table of the same congestion control, which needs no marks. */
void weft_ca_without_ecn(struct sock *sk, const struct tcp_congestion_ops *ops)
{
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, ops);
	INET_ECN_dontxmit(sk);
}

/* Switches back to the table that needs marks, for the next connection. */
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
 * In init(): tcp_init_transfer() calls it just before the passive side is established. If SYNs
 * crossed, a SYN-ACK of this state may still be out.
 */
bool weft_tcp_ends_handshake(const struct sock *sk)
{
	return sk->sk_state == TCP_SYN_RECV && !tcp_sk(sk)->packets_out &&
	       !rcu_access_pointer(tcp_sk(sk)->fastopen_rsk);
}

/* Requested in the form of dctcp's or vegas's: a request has no bit for others. */
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

struct net *weft_sock_net(const struct sock *sk)
{
	return sock_net(sk);
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

u32 weft_tcp_min_tso_segs(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}

/*
 * In set_state(TCP_CA_Loss): whether the cause is a timeout outside of the handshake. Two functions
 * enter that state:
 *
 * - tcp_enter_loss(), in a timeout. The timer's handler has cleared icsk_pending. But an ICMP
 *   message that reports the peer unreachable may find the next timeout overdue and trigger it
 *   (tcp_ld_RTO_revert(), RFC 6069), while the timer is pending. It does so only after another
 *   timeout without progress since: from this same state.
 * - tcp_simple_retransmit(), if the path MTU has become smaller: the timer is pending, as data is
 *   out, and never from this same state.
 */
bool weft_tcp_timed_out(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);

	return tcp_sk(sk)->packets_out &&
	       (!icsk->icsk_pending || icsk->icsk_ca_state == TCP_CA_Loss) &&
	       !(BIT(sk->sk_state) & (TCPF_SYN_SENT | TCPF_SYN_RECV));
}

void weft_tcp_unpaced(struct sock *sk)
{
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
}

/*
 * The socket paces itself, with a high-resolution timer, unless fq does it. A rate of 0 would mean
 * that it is not paced.
 */
void weft_tcp_paced(struct sock *sk, u64 rate)
{
	u64 most = READ_ONCE(sk->sk_max_pacing_rate);

	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	WRITE_ONCE(sk->sk_pacing_rate, max(min(rate, most), 1ULL));
}

u32 weft_rate_acked(const struct rate_sample *rs)
{
	return rs->acked_sacked;
}

/*
 * 0: there is none. For a packet sent more than once it would come from timestamps, which have
 * millisecond resolution.
 */
u32 weft_rate_rtt_us(const struct rate_sample *rs)
{
	if (!rs->acked_sacked || rs->is_retrans || rs->rtt_us < 0)
		return 0;
	return clamp(rs->rtt_us, 1L, (long)U32_MAX);
}

u8 weft_sk_txrehash(const struct sock *sk)
{
	return sk->sk_txrehash;
}

void weft_sk_set_txrehash(struct sock *sk, u8 on)
{
	/* As setsockopt(SO_TXREHASH) does. */
	WRITE_ONCE(sk->sk_txrehash, on);
}

u32 weft_jiffy_us(void)
{
	return jiffies_to_usecs(1);
}

/*
 * Packets that were acknowledged. tp->delivered also counts unnecessary retransmissions
 * (tcp_dsack_seen()).
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

	/* The kernel is about to add one. */
	if (icsk->icsk_retransmits == U8_MAX)
		WRITE_ONCE(icsk->icsk_retransmits, U8_MAX - 1);
}

/*
 * When the next packet leaves the host's queues, tcp_wfree() will have tcp_tsq_write() called, as
 * for tcp_small_queue_check().
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

void weft_tcp_allow_tlp(struct sock *sk)
{
	tcp_sk(sk)->tlp_high_seq = 0;
}

void weft_tcp_timeout_only(struct sock *sk, u32 rto)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* No packet sent later was acknowledged, so RACK finds no loss. */
	tp->rack.advanced = 0;
	/* At a timeout, all packets out were sent longer ago than this. */
	tp->rack.rtt_us = 0;
	/* Prevents the kernel from finding a timeout spurious. */
	tp->frto = 0;
	tp->undo_marker = 0;
	/* Pretends that a tail loss probe is out; it will not be acknowledged. Not 0. */
	tp->tlp_high_seq = (tp->snd_una + BIT(30)) | 1;
	tp->tlp_retrans = 0;
	/* Probes of a closed window keep the kernel's backoff. */
	if (tp->snd_wnd)
		inet_csk(sk)->icsk_rto = rto;
}

/*
 * Reverts the loss marks of packets that were sent or retransmitted at `since_us` of tcp_mstamp or
 * later: the reverse of tcp_mark_skb_lost().
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

/*
 * The device by which a socket's packets leave, 0 if it has no route, and its peer's address, IPv4
 * as a mapped one. The socket is locked.
 */
u32 weft_sk_way(struct sock *sk, u8 *to)
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
 * Like setsockopt() of a stream with IP_TOS or IPV6_TCLASS, and SO_PRIORITY, but the route stays:
 * the packets' path does not depend on it.
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

/*
 * The data that weft's eBPF programs keep in a socket's storage. A module has no access to a map,
 * and a map may have no name, so the value identifies itself in its first bytes. Before the
 * application has declared anything, it begins with 0.
 */
bool weft_sk_described(struct sock *sk, struct weft_described *flow)
{
	bool found = false;
#ifdef CONFIG_BPF_SYSCALL
	struct bpf_local_storage *storage;
	struct bpf_local_storage_elem *elem;

	rcu_read_lock();
	storage = rcu_dereference(sk->sk_bpf_storage);
	if (storage) {
		hlist_for_each_entry_rcu(elem, &storage->list, snode) {
			const struct weft_described *here = (void *)SDATA(elem)->data;
			struct bpf_local_storage_map *map;

			map = rcu_dereference(SDATA(elem)->smap);
			if (!map || map->map.value_size < sizeof(u64) ||
			    here->magic != WEFT_DESCRIBED_MAGIC)
				continue;
			if (here->layout != WEFT_DESCRIBED_LAYOUT ||
			    map->map.value_size != sizeof(*flow)) {
				pr_warn_once("%s: what applications say of their flows is lost: weft's eBPF programs are of another version (layout %u, not %u); attach them again with this version's weft-tag\n",
					     KBUILD_MODNAME, here->layout,
					     WEFT_DESCRIBED_LAYOUT);
				continue;
			}
			memcpy(flow, here, sizeof(*flow));
			found = true;
			break;
		}
	}
	rcu_read_unlock();
#endif
	return found;
}

u64 weft_tcp_bytes_acked(const struct sock *sk)
{
	return tcp_sk(sk)->bytes_acked;
}

u32 weft_tcp_unacked_bytes(const struct sock *sk)
{
	return tcp_sk(sk)->write_seq - tcp_sk(sk)->snd_una;
}

bool weft_tcp_has_unsent(const struct sock *sk)
{
	return tcp_sk(sk)->write_seq != tcp_sk(sk)->snd_nxt;
}

bool weft_tcp_settled(const struct sock *sk)
{
	return !tcp_sk(sk)->packets_out;
}

u32 weft_tcp_snd_nxt(const struct sock *sk)
{
	return tcp_sk(sk)->snd_nxt;
}

/* Counts all copies, as dctcp does. */
u32 weft_tcp_arrived(const struct sock *sk)
{
	return tcp_sk(sk)->delivered;
}

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
 * In __tcp_retransmit_skb(), which then gives up: the timer is set and doubled as after any failed
 * retransmission. Instead, a header goes out whose sequence number is one before the first
 * unacknowledged byte, as in a keepalive probe: the peer answers with its state.
 */
static int weft_probe_rebuild_header(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 snd_nxt = tp->snd_nxt;

	weft_tcp_probe_over(sk);
	/* New data must not make the kernel find the timeout spurious. */
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
	 * Otherwise the packet is retransmitted. tcp_setsockopt() and tcp_getsockopt() read the pointer
	 * without the socket's lock, and must find the whole table behind it.
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

/* The data acknowledged now was not retransmitted: the timeout was spurious. */
void weft_tcp_nothing_resent(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->undo_marker && !tp->retrans_out)
		tp->undo_retrans = 0;
}

/* Under the names in kapi/layout.rs. */
#define WEFT_SIZE(structure, type) { #structure, sizeof(type) }
#define WEFT_FIELD(structure, field) \
	{ #structure "." #field, offsetof(struct structure, field) }
#define WEFT_CONSTANT(constant) { #constant, constant }

static const struct {
	const char *name;
	size_t value;
} weft_places[] = {
	WEFT_SIZE(Qdisc, struct Qdisc),
	WEFT_FIELD(Qdisc, enqueue),
	WEFT_FIELD(Qdisc, dequeue),
	WEFT_FIELD(Qdisc, flags),
	WEFT_FIELD(Qdisc, ops),
	WEFT_FIELD(Qdisc, handle),
	WEFT_FIELD(Qdisc, dev_queue),
	WEFT_FIELD(Qdisc, cpu_bstats),
	WEFT_FIELD(Qdisc, q.qlen),
	WEFT_FIELD(Qdisc, bstats),
	WEFT_FIELD(Qdisc, bstats.bytes),
	WEFT_FIELD(Qdisc, bstats.packets),
	WEFT_FIELD(Qdisc, qstats.backlog),
	WEFT_FIELD(Qdisc, qstats.drops),
	WEFT_FIELD(Qdisc, qstats.overlimits),
	WEFT_FIELD(Qdisc, privdata),
	WEFT_SIZE(Qdisc_ops, struct Qdisc_ops),
	WEFT_FIELD(Qdisc_ops, cl_ops),
	WEFT_FIELD(Qdisc_ops, id),
	WEFT_FIELD(Qdisc_ops, priv_size),
	WEFT_FIELD(Qdisc_ops, enqueue),
	WEFT_FIELD(Qdisc_ops, dequeue),
	WEFT_FIELD(Qdisc_ops, peek),
	WEFT_FIELD(Qdisc_ops, init),
	WEFT_FIELD(Qdisc_ops, reset),
	WEFT_FIELD(Qdisc_ops, destroy),
	WEFT_FIELD(Qdisc_ops, change),
	WEFT_FIELD(Qdisc_ops, dump),
	WEFT_FIELD(Qdisc_ops, dump_stats),
	WEFT_FIELD(Qdisc_ops, owner),
	WEFT_SIZE(Qdisc_class_ops, struct Qdisc_class_ops),
	WEFT_FIELD(Qdisc_class_ops, graft),
	WEFT_FIELD(Qdisc_class_ops, leaf),
	WEFT_FIELD(Qdisc_class_ops, qlen_notify),
	WEFT_FIELD(Qdisc_class_ops, find),
	WEFT_FIELD(Qdisc_class_ops, walk),
	WEFT_FIELD(Qdisc_class_ops, dump),
	WEFT_FIELD(Qdisc_class_ops, dump_stats),
	WEFT_SIZE(qdisc_walker, struct qdisc_walker),
	WEFT_FIELD(qdisc_walker, stop),
	WEFT_FIELD(qdisc_walker, count),
	WEFT_SIZE(qdisc_watchdog, struct qdisc_watchdog),
	WEFT_SIZE(tcmsg, struct tcmsg),
	WEFT_FIELD(tcmsg, tcm_handle),
	WEFT_FIELD(tcmsg, tcm_info),
	WEFT_SIZE(gnet_stats_basic_sync, struct gnet_stats_basic_sync),
	WEFT_FIELD(gnet_stats_basic_sync, bytes),
	WEFT_FIELD(gnet_stats_basic_sync, packets),
	WEFT_SIZE(gnet_stats_queue, struct gnet_stats_queue),
	WEFT_FIELD(gnet_stats_queue, qlen),
	WEFT_FIELD(gnet_stats_queue, backlog),
	WEFT_FIELD(gnet_stats_queue, drops),
	WEFT_FIELD(gnet_stats_queue, requeues),
	WEFT_FIELD(gnet_stats_queue, overlimits),
	WEFT_SIZE(nlattr, struct nlattr),
	WEFT_FIELD(nlattr, nla_len),
	WEFT_SIZE(netlink_ext_ack, struct netlink_ext_ack),
	WEFT_FIELD(netlink_ext_ack, _msg),
	WEFT_FIELD(netlink_ext_ack, bad_attr),
	WEFT_SIZE(sk_buff, struct sk_buff),
	WEFT_SIZE(spinlock_t, spinlock_t),
	WEFT_SIZE(hrtimer, struct hrtimer),
	WEFT_SIZE(packet_type, struct packet_type),
	/* A Rust keyword. */
	{ "packet_type.type_", offsetof(struct packet_type, type) },
	WEFT_FIELD(packet_type, ignore_outgoing),
	WEFT_FIELD(packet_type, dev),
	WEFT_FIELD(packet_type, func),
	WEFT_SIZE(pernet_operations, struct pernet_operations),
	WEFT_FIELD(pernet_operations, init),
	WEFT_FIELD(pernet_operations, exit),
	WEFT_FIELD(pernet_operations, id),
	WEFT_FIELD(pernet_operations, size),
	WEFT_SIZE(ctl_table, struct ctl_table),
	WEFT_FIELD(ctl_table, procname),
	WEFT_FIELD(ctl_table, data),
	WEFT_FIELD(ctl_table, maxlen),
	WEFT_FIELD(ctl_table, mode),
	WEFT_FIELD(ctl_table, proc_handler),
	WEFT_FIELD(ctl_table, extra1),
	WEFT_FIELD(ctl_table, extra2),
	WEFT_SIZE(tcp_congestion_ops, struct tcp_congestion_ops),
	WEFT_FIELD(tcp_congestion_ops, ssthresh),
	WEFT_FIELD(tcp_congestion_ops, cong_avoid),
	WEFT_FIELD(tcp_congestion_ops, set_state),
	WEFT_FIELD(tcp_congestion_ops, cwnd_event),
	WEFT_FIELD(tcp_congestion_ops, cwnd_event_tx_start),
	WEFT_FIELD(tcp_congestion_ops, in_ack_event),
	WEFT_FIELD(tcp_congestion_ops, min_tso_segs),
	WEFT_FIELD(tcp_congestion_ops, cong_control),
	WEFT_FIELD(tcp_congestion_ops, undo_cwnd),
	WEFT_FIELD(tcp_congestion_ops, get_info),
	WEFT_FIELD(tcp_congestion_ops, name),
	WEFT_FIELD(tcp_congestion_ops, owner),
	WEFT_FIELD(tcp_congestion_ops, init),
	WEFT_FIELD(tcp_congestion_ops, release),
	WEFT_FIELD(tcp_congestion_ops, flags),
	WEFT_SIZE(weft_described, struct weft_described),
	WEFT_FIELD(weft_described, base),
	WEFT_FIELD(weft_described, size),
	WEFT_FIELD(weft_described, deadline),
	WEFT_FIELD(weft_described, sent),
	WEFT_FIELD(weft_described, class),
	WEFT_FIELD(weft_described, flags),
	WEFT_CONSTANT(WEFT_SKB_NEXT),
	WEFT_CONSTANT(WEFT_SKB_FLAGS),
	WEFT_CONSTANT(WEFT_SKB_HASH),
	WEFT_CONSTANT(WEFT_SKB_DEV),
	WEFT_CONSTANT(WEFT_SKB_PRIORITY),
	WEFT_CONSTANT(WEFT_SKB_PROTOCOL),
	WEFT_CONSTANT(WEFT_SKB_IIF),
	WEFT_CONSTANT(WEFT_SKB_LEN),
	WEFT_CONSTANT(WEFT_SKB_DATA_LEN),
	WEFT_CONSTANT(WEFT_SKB_DATA),
	WEFT_CONSTANT(WEFT_SKB_HEAD),
	WEFT_CONSTANT(WEFT_SKB_NETWORK_HEADER),
	WEFT_CONSTANT(WEFT_SKB_DESTRUCTOR),
	WEFT_CONSTANT(WEFT_CB_PKT_LEN),
	WEFT_CONSTANT(WEFT_CB_PKT_SEGS),
	WEFT_CONSTANT(WEFT_CB_DATA),
	WEFT_CONSTANT(WEFT_CB_DATA_SIZE),
	WEFT_CONSTANT(WEFT_NETDEV_QUEUE_DEV),
	WEFT_CONSTANT(WEFT_CA_PRIV_SIZE),
};

/* SIZE_MAX for an unknown name. */
size_t weft_layout(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(weft_places); i++)
		if (!strcmp(weft_places[i].name, name))
			return weft_places[i].value;
	return SIZE_MAX;
}
