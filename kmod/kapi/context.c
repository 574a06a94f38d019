// SPDX-License-Identifier: GPL-2.0-only
/* Where code runs, and what belongs to the module. */
#include "bindings.h"

/* A qdisc's lock counts in preempt_count() on every kernel: it is a _bh lock. */
bool weft_may_sleep(void)
{
	return !in_atomic() && !irqs_disabled();
}

bool weft_within_module(const void *place, struct module *module)
{
	return within_module((unsigned long)place, module);
}
