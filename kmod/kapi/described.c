// SPDX-License-Identifier: GPL-2.0-only
/* The description of a flow. */
#include "bindings.h"

#include <linux/bpf_local_storage.h>

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
