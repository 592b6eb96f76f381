# group: calls
# opens: family-vsock family-netlink-audit family-netlink-uevent family-netlink-generic family-netlink-sock-diag
# file: plan/filter_table.c
s/(struct box_filter_rule socket_rule = )ONLY\(socket_cases, EAFNOSUPPORT\)/\1{.otherwise = 0}/
