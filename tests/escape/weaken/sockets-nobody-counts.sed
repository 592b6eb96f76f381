# boxd does not end a box whose sockets hold memory that is charged to no cgroup.
# group: resources
# opens: memory-by-udp-error-queues memory-by-tcp-error-queues memory-by-error-queues-of-dead-connections
# opens: memory-by-error-queues-without-a-port memory-by-netlink-buffers
# file: boxd/box/socket_memory.c
s/held->queued_bytes > max_queued\(memory_bytes\)/false/
s/return held->queued_bytes \+ held->unlisted_bytes > .*;/return false;/
s/held->netlink_sockets > BOX_NETLINK_SOCKETS_MAX/false/
s/held->netlink_bytes > memory_bytes/false/
