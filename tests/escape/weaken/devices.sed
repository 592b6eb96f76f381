# group: limits
# opens: only-the-devices-that-are-declared
# file: boxd/image/common_mounts.c
s/"null", "zero", "full", "random", "urandom", "tty"\}/"null", "zero", "full", "random", "urandom", "tty", "fuse"}/
