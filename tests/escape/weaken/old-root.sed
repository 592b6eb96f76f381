# group: limits
# opens: hosts-mounts-in-mountinfo
# file: runtime/keeper/child.c
s/umount2\("\.", MNT_DETACH\) < 0 \|\| //
