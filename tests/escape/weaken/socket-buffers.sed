# In version 1 the socket buffers have a counter of their own.
# group: resources
# opens: memory-by-udp-buffers memory-by-tcp-buffers
# file: boxd/cgroup/cgroup_v1.c
s/return has_file\(folder, BOX_CGROUP_V1_SOCKETS\)/return false \&\& has_file(folder, BOX_CGROUP_V1_SOCKETS)/
