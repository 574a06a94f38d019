// SPDX-License-Identifier: GPL-2.0-only
/*
 * Errors on purpose, one at a time: insmod control.ko what=NAME. Does the kernel report them? The
 * list of names, and of what each has to make the kernel say, is in
 * selftests/guest/src/detectors.rs.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/ref_tracker.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

static char *what = "";
module_param(what, charp, 0);

#define LOST 10

struct object {
	struct list_head list;
	struct timer_list timer;
	char bytes[64];
};

/* Read at run time: the compiler shall not know that it is wrong. */
static volatile int over = sizeof_field(struct object, bytes) + 1;
static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);

static struct object *allocated(void)
{
	return kzalloc(sizeof(struct object), GFP_KERNEL);
}

static void use_after_free(void)
{
	struct object *o = allocated();
	volatile char *bytes = o->bytes;

	kfree(o);
	bytes[3] = 1;
}

static void out_of_bounds(void)
{
	struct object *o = allocated();
	volatile char *bytes = o->bytes;

	bytes[over] = 1;
	kfree(o);
}

static void vmalloc_out_of_bounds(void)
{
	volatile char *bytes = vmalloc(PAGE_SIZE - 32);

	bytes[PAGE_SIZE - 32 + over - (int)sizeof_field(struct object, bytes)] = 1;
	vfree((void *)bytes);
}

static void double_free(void)
{
	struct object *o = allocated();

	kfree(o);
	kfree(o);
}

static void lock_inversion(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);
	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

static void sleep_in_atomic(void)
{
	spin_lock(&first);
	might_sleep();
	spin_unlock(&first);
}

static void rcu_without_a_lock(void)
{
	static void __rcu *pointer;

	(void)rcu_dereference(pointer);
}

static void list_corruption(void)
{
	struct object *a = allocated(), *b = allocated();
	LIST_HEAD(head);

	list_add(&a->list, &head);
	b->list.next = b->list.prev = &b->list;
	a->list.prev = &b->list;
	list_del(&a->list);
	kfree(a);
	kfree(b);
}

static void nothing(struct timer_list *timer)
{
}

static void active_timer_freed(void)
{
	struct object *o = allocated();

	timer_setup(&o->timer, nothing, 0);
	mod_timer(&o->timer, jiffies + 1000 * HZ);
	kfree(o);
}

static void refcount_underflow(void)
{
	refcount_t count = REFCOUNT_INIT(1);

	refcount_dec(&count);
	(void)refcount_dec_and_test(&count);
}

static void lost_reference(void)
{
	struct ref_tracker_dir *dir = kzalloc(sizeof(*dir), GFP_KERNEL);
	struct ref_tracker *tracker;

	ref_tracker_dir_init(dir, 4, "weft_control");
	ref_tracker_alloc(dir, &tracker, GFP_KERNEL);
	ref_tracker_dir_exit(dir);
	kfree(dir);
}

static void shift_out_of_bounds(void)
{
	volatile int shifted = 1;

	shifted <<= over;
}

static void preemptible_processor(void)
{
	(void)smp_processor_id();
}

static void warning(void)
{
	WARN_ON(over);
}

/* Nothing points to them any more. */
static void leak(void)
{
	for (int i = 0; i < LOST; i++) {
		struct object *o = allocated();

		o->bytes[0] = i;
		OPTIMIZER_HIDE_VAR(o);
	}
}

static const struct {
	const char *name;
	void (*make)(void);
} errors[] = {
#define ERROR(name) { #name, name }
	ERROR(use_after_free),
	ERROR(out_of_bounds),
	ERROR(vmalloc_out_of_bounds),
	ERROR(double_free),
	ERROR(lock_inversion),
	ERROR(sleep_in_atomic),
	ERROR(rcu_without_a_lock),
	ERROR(list_corruption),
	ERROR(active_timer_freed),
	ERROR(refcount_underflow),
	ERROR(lost_reference),
	ERROR(shift_out_of_bounds),
	ERROR(preemptible_processor),
	ERROR(warning),
	ERROR(leak),
};

/* Fails if it knows no such error, and otherwise too: it is gone then, and can be loaded again. */
static int __init control_init(void)
{
	for (int i = 0; i < ARRAY_SIZE(errors); i++) {
		if (strcmp(errors[i].name, what))
			continue;
		errors[i].make();
		return -ECANCELED;
	}
	return -EINVAL;
}
module_init(control_init);

MODULE_DESCRIPTION("errors on purpose, for a kernel that looks for errors");
MODULE_LICENSE("GPL");
