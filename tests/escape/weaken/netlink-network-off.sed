# group: limits
# opens: netlink-with-the-network-off
# file: plan/filter.c
s/network \|\| !rule->cases\[i\]\.network/true/
