// SPDX-License-Identifier: GPL-2.0-only
/*
 * The heap of patch 15 beside a list in order, which is what the kernel's tree
 * keeps. vm/xtask/tests/timer_heap.rs takes heap.c from the patch.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t ktime_t;

#define __always_inline		inline __attribute__((always_inline))
#define __aligned(bytes)	__attribute__((aligned(bytes)))
#define EXPORT_SYMBOL_GPL(name)
#define core_param(name, variable, type, mode)
#define unlikely(condition)	(condition)
#define panic(...)		abort()
#define U64_MAX			UINT64_MAX
#define min(a, b)		((a) < (b) ? (a) : (b))

struct timerqueue_linked_node {
	struct {
		struct {
			unsigned long __rb_parent_color;
		} node;
	} node;
	ktime_t expires;
	/* The list. */
	struct timerqueue_linked_node *prev, *next;
	bool queued;
};

struct timerqueue_linked_head {
	struct timerqueue_heap *heap;
};

static void timerqueue_linked_init(struct timerqueue_linked_node *node)
{
	node->node.node.__rb_parent_color = -1UL;
}

#include "heap.c"

static struct timerqueue_linked_node *first;

static bool list_add(struct timerqueue_linked_node *node)
{
	struct timerqueue_linked_node *prev = NULL, *next = first;

	while (next && next->expires <= node->expires) {
		prev = next;
		next = next->next;
	}
	node->prev = prev;
	node->next = next;
	if (next)
		next->prev = node;
	if (prev)
		prev->next = node;
	else
		first = node;
	return !prev;
}

static bool list_del(struct timerqueue_linked_node *node)
{
	if (node->prev)
		node->prev->next = node->next;
	else
		first = node->next;
	if (node->next)
		node->next->prev = node->prev;
	return first;
}

/* hrtimer_can_update_in_place() of the kernel. */
static bool list_keeps_place(const struct timerqueue_linked_node *node, ktime_t expires)
{
	if (node->next && expires > node->next->expires)
		return false;
	return !node->prev || expires >= node->prev->expires;
}

static void check(bool holds, const char *what, unsigned int seed)
{
	if (!holds) {
		printf("%s (seed %u)\n", what, seed);
		exit(1);
	}
}

/* As remove_and_enqueue_same_base() does for a queued timer. */
static void put_off(struct timerqueue_heap *heap, struct timerqueue_linked_node *node,
		    ktime_t expires, unsigned int seed, long *kept)
{
	bool was_first = !node->prev, keeps = list_keeps_place(node, expires);
	bool is_first = was_first, heap_is_first = was_first;
	ktime_t before = node->expires;

	if (!keeps)
		list_del(node);
	node->expires = expires;
	if (!keeps)
		is_first = list_add(node);

	if (timerqueue_heap_update_in_place(heap, node, expires)) {
		*kept += expires != before;
	} else {
		timerqueue_heap_del(heap, node);
		heap_is_first = timerqueue_heap_add(heap, node);
	}
	check(is_first == heap_is_first, "first after a change", seed);
}

int main(void)
{
	static struct timerqueue_linked_node nodes[400];
	/* Many have the same expiry; some; none. */
	static const int ranges[] = { 5, 200, 1000000 };
	struct timerqueue_linked_head head;
	struct timerqueue_heap *heap;
	long kept = 0;

	timerqueue_heap_use(&head);
	heap = head.heap;
	for (unsigned int seed = 1; seed <= 60; seed++) {
		int range = ranges[seed % 3], count = 1 + seed * 97 % 400;

		srand(seed);
		for (int i = 0; i < 20000; i++) {
			struct timerqueue_linked_node *node = &nodes[rand() % count];
			/* Some before the clock's beginning. */
			ktime_t expires = rand() % range - (seed % 5 ? 0 : range / 2);
			int what = rand() % 4;

			if (!node->queued) {
				node->expires = expires;
				check(list_add(node) == timerqueue_heap_add(heap, node),
				      "first after an addition", seed);
				node->queued = true;
			} else if (what < 2) {
				if (what)
					node = first;
				check(list_del(node) == timerqueue_heap_del(heap, node),
				      "empty after a removal", seed);
				node->queued = false;
			} else {
				/* Half of them by a little. */
				if (what == 2)
					expires = node->expires + rand() % 3;
				put_off(heap, node, expires, seed, &kept);
			}
			check(timerqueue_heap_first(heap) == first, "the first", seed);
		}
		for (struct timerqueue_linked_node *node = first; node; node = node->next)
			check(timerqueue_heap_after(heap, node) == node->next, "the next", seed);
		while (first) {
			struct timerqueue_linked_node *node = timerqueue_heap_first(heap);

			check(node == first, "the order", seed);
			list_del(node);
			timerqueue_heap_del(heap, node);
			node->queued = false;
		}
	}
	/* The case for which timerqueue_heap_update_in_place() exists. */
	check(kept > 1000, "too few kept their place before others with the same expiry", 0);
	return 0;
}
