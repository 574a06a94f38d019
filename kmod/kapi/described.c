// SPDX-License-Identifier: GPL-2.0-only
/* What weft's eBPF programs keep in a socket's storage: what a flow says, and what links say. */
#include "bindings.h"

#include <linux/bpf_local_storage.h>

/*
 * Finds a value that weft's eBPF programs keep in a socket's storage, under RCU. A module has no
 * access to a map, and a map may have no name, so the value identifies itself in its first bytes:
 * a magic number and the layout's version. Before the programs have stored anything, it begins
 * with 0.
 */
static void *weft_find(struct sock *sk, u32 magic, u32 layout, u32 size)
{
#ifdef CONFIG_BPF_SYSCALL
	struct bpf_local_storage *storage;
	struct bpf_local_storage_elem *elem;

	storage = rcu_dereference(sk->sk_bpf_storage);
	if (!storage)
		return NULL;
	hlist_for_each_entry_rcu(elem, &storage->list, snode) {
		u32 *here = (void *)SDATA(elem)->data;
		struct bpf_local_storage_map *map;

		map = rcu_dereference(SDATA(elem)->smap);
		if (!map || map->map.value_size < sizeof(u64) ||
		    here[0] != magic)
			continue;
		if (here[1] == layout && map->map.value_size == size)
			return here;
		pr_warn_once("%s: the data of weft's eBPF programs cannot be read: they are of another version (layout %u, not %u); attach them again with this version's weft-tag\n",
			     KBUILD_MODNAME, here[1], layout);
	}
#endif
	return NULL;
}

static bool weft_stored(struct sock *sk, u32 magic, u32 layout, void *to, u32 size)
{
	const void *value;

	rcu_read_lock();
	value = weft_find(sk, magic, layout, size);
	if (value)
		memcpy(to, value, size);
	rcu_read_unlock();
	return value;
}

bool weft_sk_described(struct sock *sk, struct weft_described *flow)
{
	return weft_stored(sk, WEFT_DESCRIBED_MAGIC, WEFT_DESCRIBED_LAYOUT, flow,
			   sizeof(*flow));
}

bool weft_sk_echo(struct sock *sk, struct weft_echo *echo)
{
	return weft_stored(sk, WEFT_ECHO_MAGIC, WEFT_ECHO_LAYOUT, echo,
			   sizeof(*echo));
}

/*
 * Copies the records, if others than the first `seen` have come back, and marks them as seen in the
 * socket's storage. The programs change the value without a lock: records that come back meanwhile
 * may be copied in part, and are counted next time.
 */
bool weft_sk_telemetry(struct sock *sk, u32 seen,
		       struct weft_telemetry *telemetry)
{
	struct weft_telemetry *value;
	bool found = false;

	rcu_read_lock();
	value = weft_find(sk, WEFT_TELEMETRY_MAGIC, WEFT_TELEMETRY_LAYOUT,
			  sizeof(*value));
	if (value && READ_ONCE(value->echoes) != seen) {
		memcpy(telemetry, value, sizeof(*value));
		memcpy(value->seen, telemetry->echo, sizeof(value->seen));
		value->seen_at = telemetry->echo_at;
		found = true;
	}
	rcu_read_unlock();
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
