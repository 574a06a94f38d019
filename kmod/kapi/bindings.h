/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of C that weft's kernel code needs, for bindgen and for kapi's C files.
 *
 * The kernel's own `bindings` crate has neither the qdisc nor the congestion control interface, so
 * the modules bring their own: the headers below, and a function for each inline function, macro or
 * bit-field that Rust cannot use. A C file has the functions of one subject, mostly those of the
 * Rust file of its name; a module has the C files of which its Rust code calls something (Kbuild).
 *
 * Most functions are the C expression that their name says. Functions on the packet path combine
 * several expressions, because a call from Rust into C cannot be inlined. Some functions decide
 * something, because they decide by what only C can read, or at a point where only C can be called:
 *
 * - weft_skb_sent(): whether a packet keeps a reference to its socket.
 * - weft_dev_fits(), weft_dev_neighbour(), weft_skb_is_routed(): where a packet can be detoured.
 * - weft_outbox_notify(), weft_skb_copy_of(): whether a message goes; which packets have copies.
 * - weft_socket_open(), weft_socket_send(): a port; whether a datagram goes.
 * - weft_tcp_timed_out(), weft_tcp_refused(), weft_tcp_unmark_lost(), weft_probe_rebuild_header():
 *   what the kernel's loss recovery has done, and what it finds next.
 * - weft_pump_register(): sockets that send and discard bytes by themselves, see pump.rs.
 *
 * Where a function depends on what the kernel's own code does, or replaces it, its comment names
 * that code, as it is in Linux 7.2.
 *
 * C replaces the kernel's own Rust in two places:
 * - weft_lock*(): kernel::sync::SpinLock does not turn bottom halves off, and its guard asks
 *   lockdep by a separate call.
 * - the hrtimer of a namespace's shared state, see namespace.rs.
 */
#ifndef WEFT_BINDINGS_H
#define WEFT_BINDINGS_H

#include <linux/etherdevice.h>
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/sysctl.h>
#include <net/gen_stats.h>
#include <net/ip.h>
#include <net/neighbour.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <net/netns/generic.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/route.h>
#include <net/sch_generic.h>
#include <net/tcp.h>
#include <net/udp.h>

/* Macros that bindgen cannot evaluate. */
enum {
	WEFT_CA_PRIV_SIZE = ICSK_CA_PRIV_SIZE,
	WEFT_NET_XMIT_STOLEN = __NET_XMIT_STOLEN,
	WEFT_CONG_NEEDS_ECN = TCP_CONG_NEEDS_ECN,
	/* All flags of a sender that needs accurate ECN; none of them on a kernel that lacks it. */
#if defined(TCP_CONG_NEEDS_ACCECN) && defined(TCP_CONG_ECT_1_NEGOTIATION) && \
	defined(TCP_CONG_NO_FALLBACK_RFC3168)
	WEFT_CONG_ACCECN = TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION |
			   TCP_CONG_NO_FALLBACK_RFC3168,
#else
	WEFT_CONG_ACCECN = 0,
#endif
};

/*
 * Offsets of the packet fields that the packet path reads: a call into C for each would cost more
 * than the rest. kapi/layout.rs compares them with those of the kernel's compiler.
 */
#define WEFT_SKB(field) offsetof(struct sk_buff, field)
#define WEFT_CB(field) (WEFT_SKB(cb) + offsetof(struct qdisc_skb_cb, field))
enum {
	WEFT_SKB_NEXT = WEFT_SKB(next),
	WEFT_SKB_DEV = WEFT_SKB(dev),
	WEFT_SKB_PRIORITY = WEFT_SKB(priority),
	WEFT_SKB_PROTOCOL = WEFT_SKB(protocol),
	WEFT_SKB_IIF = WEFT_SKB(skb_iif),
	/* Bit-fields begin here. */
	WEFT_SKB_FLAGS = WEFT_SKB(__mono_tc_offset),
	WEFT_SKB_HASH = WEFT_SKB(hash),
	WEFT_SKB_LEN = WEFT_SKB(len),
	WEFT_SKB_DATA_LEN = WEFT_SKB(data_len),
	WEFT_SKB_DATA = WEFT_SKB(data),
	WEFT_SKB_HEAD = WEFT_SKB(head),
	WEFT_SKB_NETWORK_HEADER = WEFT_SKB(network_header),
	WEFT_SKB_DESTRUCTOR = WEFT_SKB(destructor),
	WEFT_CB_PKT_LEN = WEFT_CB(pkt_len),
	WEFT_CB_PKT_SEGS = WEFT_CB(pkt_segs),
	WEFT_CB_DATA = WEFT_CB(data),
	WEFT_CB_DATA_SIZE = QDISC_CB_PRIV_LEN,
	WEFT_NETDEV_QUEUE_DEV = offsetof(struct netdev_queue, dev),
};

/* sk_buff */
u32 weft_skb_hash_bit(bool software);
u32 weft_skb_dissected_hash(struct sk_buff *skb);
void weft_skb_sent(struct sk_buff *skb);
void weft_skb_set_pacing_shift(struct sk_buff *skb, u32 shift);
void weft_skb_set_txtime(struct sk_buff *skb, u64 ns);
void weft_skb_set_due(struct sk_buff *skb, u64 ns);
u64 weft_skb_due(const struct sk_buff *skb);
void weft_skb_free(struct sk_buff *skb);
void weft_skb_consume(struct sk_buff *skb);
bool weft_skb_make_writable(struct sk_buff *skb, u32 len);

/* Qdisc */
void weft_qdisc_lock(struct Qdisc *sch);
void weft_qdisc_unlock(struct Qdisc *sch);
void weft_qdisc_drop(struct sk_buff *skb, struct Qdisc *sch,
		     struct sk_buff **to_free);
struct sk_buff *weft_qdisc_peek_dequeued(struct Qdisc *sch);
u32 weft_qdisc_mtu(struct Qdisc *sch);
struct net_device *weft_qdisc_dev(struct Qdisc *sch);

/* A classful qdisc's child */
bool weft_net_xmit_is_drop(int code);
void weft_qdisc_purge(struct Qdisc *sch);

/* Classes */
bool weft_class_step(struct Qdisc *sch, unsigned long class,
		     struct qdisc_walker *walker);
int weft_qdisc_copy_queue_stats(struct gnet_dump *d, struct Qdisc *sch);
void weft_basic_stats(struct gnet_stats_basic_sync *basic, u64 bytes,
		      u64 packets);

/* State shared by the devices of a namespace */
void weft_lock_init(spinlock_t *lock);
void weft_lock(spinlock_t *lock);
void weft_unlock(spinlock_t *lock);
void weft_lock_bh_off(spinlock_t *lock);
void weft_unlock_bh_off(spinlock_t *lock);
void *weft_net_generic(const struct net *net, unsigned int id);
struct net *weft_dev_net(const struct net_device *dev);
u32 weft_dev_index(const struct net_device *dev);
void weft_dev_schedule(struct net_device *dev);

/* The modules' own Ethernet frames */
bool weft_dev_can_send(const struct net_device *dev);
u16 weft_dev_type(const struct net_device *dev);
int weft_dev_hard_header(struct sk_buff *skb, struct net_device *dev, u16 type,
			 const u8 *to, u32 len);
int weft_dev_queue_xmit(struct sk_buff *skb);
struct sk_buff *weft_frame_alloc(struct net_device *dev, u32 len);
void weft_skb_set_protocol(struct sk_buff *skb, u16 type);
bool weft_skb_mac_header_was_set(const struct sk_buff *skb);
const u8 *weft_skb_mac_header(const struct sk_buff *skb);
u8 weft_skb_pkt_type(const struct sk_buff *skb);

/* Packets that go by another device */
bool weft_dev_has_carrier(const struct net_device *dev);
bool weft_dev_fits(const struct net_device *dev, const struct sk_buff *skb);
bool weft_dev_neighbour(struct net_device *dev, u8 *address);
u32 weft_dev_vrf(const struct net_device *dev);
bool weft_skb_is_routed(const struct sk_buff *skb, struct net_device *dev);
bool weft_skb_leave_link(struct sk_buff *skb, struct net_device *dev);
typedef void (*weft_leave_fn)(void *to, struct sk_buff *skb, u64 stamp);
void weft_leaving_init(weft_leave_fn leave);
void weft_skb_leave(struct sk_buff *skb, void *to, u64 stamp);
void weft_leaving_flush(void);

/* Copies of packets, and packets that leave later */
void weft_outbox_init(void);
void weft_outbox_flush(void);
bool weft_outbox_send(struct sk_buff *skb, struct net_device *dev);
bool weft_outbox_notify(struct net_device *dev, u32 address, const u8 *message,
			u32 len);
bool weft_outbox_carries(const struct sk_buff *skb);
void weft_dev_hold(struct net_device *dev);
void weft_dev_put(struct net_device *dev);
struct sk_buff *weft_skb_copy_of(struct sk_buff *skb);

/* The modules' own datagrams */
enum {
	/* The longest, in bytes: DATAGRAM of common/shared.rs. */
	WEFT_DATAGRAM = 608,
};
struct weft_socket;
typedef void (*weft_datagram_fn)(void *owner, u32 address, u16 port,
				 const u8 *data, u32 len);
struct weft_socket *weft_socket_open(struct net *net, void *owner,
				     weft_datagram_fn receive);
bool weft_socket_send(const struct weft_socket *it, u32 address, u16 port,
		      const u8 *data, u32 len);
bool weft_socket_sent(const struct weft_socket *it, const struct sk_buff *skb);
void weft_socket_deafen(struct weft_socket *it);
void weft_socket_close(struct weft_socket *it);
void weft_dev_schedule_by_index(struct net *net, u32 index);

/* Context */
bool weft_may_sleep(void);
bool weft_within_module(const void *place, struct module *module);
void weft_warn(const char *text, int len);

/* Netlink */
const struct nlattr *weft_nla_find(const struct nlattr *nest, int attr);
struct nlattr *weft_nest_start(struct sk_buff *skb, int attr);
int weft_nest_end(struct sk_buff *skb, struct nlattr *nest);
void weft_nest_cancel(struct sk_buff *skb, struct nlattr *nest);

/* Congestion control */
void *weft_ca_room(struct sock *sk);
bool weft_ca_initialized(const struct sock *sk);
const void *weft_ca_ops(const struct sock *sk);
bool weft_tcp_may_have_ecn(const struct sock *sk);
void weft_ca_without_ecn(struct sock *sk, const struct tcp_congestion_ops *ops);
void weft_ca_with_ecn(struct sock *sk, const struct tcp_congestion_ops *ops);
bool weft_tcp_connected(const struct sock *sk);
bool weft_tcp_ends_handshake(const struct sock *sk);
size_t weft_ca_info(u32 ext, int *attr, union tcp_cc_info *info, u16 state,
		    u32 first, u32 second, u32 third);
struct net *weft_sock_net(const struct sock *sk);
u32 weft_tcp_snd_cwnd(const struct sock *sk);
void weft_tcp_set_snd_cwnd(struct sock *sk, u32 packets);
u32 weft_tcp_snd_ssthresh(const struct sock *sk);
void weft_tcp_set_snd_ssthresh(struct sock *sk, u32 packets);
bool weft_tcp_is_cwnd_limited(const struct sock *sk);
bool weft_tcp_all_acked(const struct sock *sk);
u32 weft_tcp_snd_wnd(const struct sock *sk);
u32 weft_tcp_min_tso_segs(const struct sock *sk);
bool weft_tcp_timed_out(const struct sock *sk);
void weft_tcp_unpaced(struct sock *sk);
void weft_tcp_paced(struct sock *sk, u64 rate);
u32 weft_rate_acked(const struct rate_sample *rs);
bool weft_rate_is_retrans(const struct rate_sample *rs);
s64 weft_rate_rtt_us(const struct rate_sample *rs);

/* Sockets that send and discard bytes by themselves, see pump.rs */
int weft_pump_register(struct module *module);
void weft_pump_unregister(void);

/* Loss recovery by a fixed timeout only, see timeout_only.rs */
u8 weft_sk_txrehash(const struct sock *sk);
void weft_sk_set_txrehash(struct sock *sk, u8 on);
u32 weft_jiffy_us(void);
u32 weft_tcp_delivered(const struct sock *sk);
u32 weft_tcp_retransmits(const struct sock *sk);
u32 weft_tcp_lost(const struct sock *sk);
u64 weft_tcp_now_us(const struct sock *sk);
void weft_tcp_set_rto(struct sock *sk, u32 jiffies);
void weft_tcp_set_snd_wnd(struct sock *sk, u32 bytes);
void weft_tcp_allow_tlp(struct sock *sk);
void weft_tcp_count_timeouts(struct sock *sk);
void weft_tcp_call_when_sent(struct sock *sk);
bool weft_tcp_refused(struct sock *sk, u32 rto);
void weft_tcp_timeout_only(struct sock *sk, u32 rto);
void weft_tcp_unmark_lost(struct sock *sk, u64 since_us);

/* The queue in which a socket's packets wait, see class.rs */
u8 weft_sk_dscp(const struct sock *sk);
u32 weft_sk_priority(const struct sock *sk);
void weft_sk_set_class(struct sock *sk, u8 dscp, u32 priority);

/* The next hop of a socket's packets, see route.rs */
u32 weft_sk_route(struct sock *sk, u8 *to);

/* The description of a flow, see described.rs */
enum {
	/* Flow::KEY of ebpf/common: "weft", and the version of the layout. */
	WEFT_DESCRIBED_MAGIC = 0x74666577,
	WEFT_DESCRIBED_LAYOUT = 1,
};
struct weft_described {
	u32 magic;
	u32 layout;
	u64 base;
	u64 size;
	u64 deadline;
	u64 sent;
	u32 class;
	u32 flags;
};
bool weft_sk_described(struct sock *sk, struct weft_described *flow);

/* The utilisations that packets have brought to a socket, see echo.rs */
enum {
	/* Echo::KEY of ebpf/common: "wech", and the version of the layout. */
	WEFT_ECHO_MAGIC = 0x68636577,
	WEFT_ECHO_LAYOUT = 1,
};
struct weft_echo {
	u32 magic;
	u32 layout;
	u32 echoes;
	u32 echo;
	u32 stamp;
	u32 reserved;
};
bool weft_sk_echo(struct sock *sk, struct weft_echo *echo);

/* The hop records that packets have brought to a socket, see returned.rs */
enum {
	/* Telemetry::KEY of ebpf/common: "wint", and the version of the layout. */
	WEFT_TELEMETRY_MAGIC = 0x746e6977,
	WEFT_TELEMETRY_LAYOUT = 1,
	/* BLOCK of common/records.rs. */
	WEFT_RECORDS = 38,
};
struct weft_telemetry {
	u32 magic;
	u32 layout;
	u64 echo_at;
	u64 seen_at;
	u32 echoes;
	u32 waits;
	u8 received[WEFT_RECORDS];
	u8 echo[WEFT_RECORDS];
	u8 seen[WEFT_RECORDS];
	u8 reserved[6];
};
bool weft_sk_telemetry(struct sock *sk, u32 seen,
		       struct weft_telemetry *telemetry);

/* The data of a socket, see described.rs */
u64 weft_tcp_bytes_acked(const struct sock *sk);
u32 weft_tcp_unacked_bytes(const struct sock *sk);
bool weft_tcp_has_unsent(const struct sock *sk);
bool weft_tcp_settled(const struct sock *sk);

/* Windows of data, see round.rs */
u32 weft_tcp_snd_nxt(const struct sock *sk);
u32 weft_tcp_arrived(const struct sock *sk);
bool weft_tcp_round_over(const struct sock *sk, u32 *end);
bool weft_tcp_round_passed(const struct sock *sk, u32 end);
u32 weft_tcp_mss(const struct sock *sk);
u32 weft_tcp_smoothed_rtt_us(const struct sock *sk);

/* Marks of congestion, see ecn.rs */
u32 weft_tcp_delivered_ce(const struct sock *sk);
u32 weft_tcp_rcv_nxt(const struct sock *sk);
void weft_tcp_ce_arrived(struct sock *sk, bool ce, bool prior_ce,
			 u32 prior_rcv_nxt);

/* A header in place of a retransmission, see probe.rs */
void weft_tcp_probe_instead(struct sock *sk);
void weft_tcp_probe_over(struct sock *sk);
void weft_tcp_probes_end(void);
void weft_tcp_nothing_resent(struct sock *sk);

/* Layouts as the C compiler sees them, compared with Rust's at load. */
size_t weft_layout(const char *name);

#endif
