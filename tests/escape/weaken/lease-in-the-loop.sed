# With etc-in-the-loop, which is in the same build: boxd waits for the child, which waits for the lease.
# group: neighbours
# opens: lease-in-the-etc-of-an-image
# file: boxd/image/etc.c
s/O_NOFOLLOW \| O_NONBLOCK \| O_NOCTTY/O_NOFOLLOW | O_NOCTTY/
