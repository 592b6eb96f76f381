# group: limits
# opens: crash-leaves-no-core raise-the-core-limit
# file: boxd/box/first_process.c
s/struct rlimit core = \{1, 1\}/struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY}/
