// SPDX-License-Identifier: GPL-2.0-only
/* What weft's eBPF programs keep in a socket's storage: the description of a flow, utilisations. */
#include "bindings.h"

#include <linux/bpf_local_storage.h>

/*
 * Copies a value that weft's eBPF programs keep in a socket's storage. A module has no access to a
 * map, and a map may have no name, so the value identifies itself in its first bytes: a magic
 * number and the layout's version. Before the programs have stored anything, it begins with 0.
 */
static bool weft_stored(struct sock *sk, u32 magic, u32 layout, void *to, u32 size)
{
	bool found = false;
#ifdef CONFIG_BPF_SYSCALL
	struct bpf_local_storage *storage;
	struct bpf_local_storage_elem *elem;

	rcu_read_lock();
	storage = rcu_dereference(sk->sk_bpf_storage);
	if (storage) {
		hlist_for_each_entry_rcu(elem, &storage->list, snode) {
			const u32 *here = (void *)SDATA(elem)->data;
			struct bpf_local_storage_map *map;

			map = rcu_dereference(SDATA(elem)->smap);
			if (!map || map->map.value_size < sizeof(u64) ||
			    here[0] != magic)
				continue;
			if (here[1] != layout || map->map.value_size != size) {
				pr_warn_once("%s: the data of weft's eBPF programs cannot be read: they are of another version (layout %u, not %u); attach them again with this version's weft-tag\n",
					     KBUILD_MODNAME, here[1], layout);
				continue;
			}
			memcpy(to, here, size);
			found = true;
			break;
		}
	}
	rcu_read_unlock();
#endif
	return found;
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
