# group: limits
# opens: hosts-mounts-in-mountinfo
# file: base/fsmount.c
s/syscall\(SYS_umount2, "\.", DETACH\) < 0 \|\| //
