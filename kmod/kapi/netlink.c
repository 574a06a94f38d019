// SPDX-License-Identifier: GPL-2.0-only
/* Attributes of netlink messages. */
#include "bindings.h"

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
