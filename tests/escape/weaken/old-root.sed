# group: limits
# opens: hosts-mounts-in-mountinfo
# file: boxd/box/first_process.c
s/umount2\("\.", MNT_DETACH\) < 0 \|\| //
