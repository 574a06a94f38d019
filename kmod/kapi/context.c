// SPDX-License-Identifier: GPL-2.0-only
/* Where code runs, what belongs to the module, and warnings. */
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

/* The text has len bytes and no zero behind them. */
void weft_warn(const char *text, int len)
{
	WARN(1, "%s: %.*s\n", KBUILD_MODNAME, len, text);
}
