// SPDX-License-Identifier: GPL-2.0-only
/* Packets. */
#include "bindings.h"

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
 * reference to the socket, as netem's packets do (skb_orphan_partial(), net/core/sock.c). Two
 * kinds differ:
 * - A packet that the device has yet to encrypt continues to count. If it were orphaned, even
 *   partially, it would have no socket and be dropped.
 * - A TCP segment loses a socket that no layer below needs. TCP takes a clone with a socket for one
 *   that waits in the host (skb_still_in_host_queue(), net/ipv4/tcp_output.c), and would not
 *   retransmit packets lost on a long wire.
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

/* sk_pacing_shift_update() updates whole sockets only, not a request's or one in TIME-WAIT. */
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
