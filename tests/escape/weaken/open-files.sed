# group: limits
# opens: inherited-3-to-1023
# file: init/run/launch.c
s/return syscall\(SYS_close_range, SCRIPT_FD \+ \(script_fd >= 0\), ~0U, 0\) < 0 \? -errno : 0/return 0/
