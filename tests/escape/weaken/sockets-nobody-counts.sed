# boxd does not end a box for what its sockets hold that no cgroup is charged for.
# group: resources
# opens: memory-by-udp-error-queues memory-by-netlink-buffers
# file: runtime/keeper/sockets_held.c
s/held->udp_bytes > memory_bytes \+ memory_bytes \/ 4/false/
s/held->netlink_bytes > memory_bytes/false/
