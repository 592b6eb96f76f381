# group: limits
# opens: crash-leaves-no-core raise-the-core-limit
# file: runtime/keeper/child.c
s/struct rlimit core = \{1, 1\}/struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY}/
