# Commands keep PID 1's privileges, exec drops none of root's, and anyone may raise limits.
# group: ids
# opens: setuid-to-others setresuid-to-others setgid-to-others setgroups capabilities-that-were-left pid-1-kill pid-1-kill-by-pidfd kill-everything pid-1-limits pid-1-priority-and-cpus
# file: init/run/launch.c
/^int box_launch_change_ids/,/^}/s/!ids\.same/ids.same/
s/= box_caps_drop_all\(\)/= 0/
# file: plan/filter_table.c
s/WHEN\(prlimit64, prlimit_rule\)/BOTH(prlimit64)/
# file: init/boot/boot.c
/^static int drop_bounding_set/,/^}/s/prctl\(PR_CAPBSET_READ, capability\) >= 0/capability > 63/
/^static int lock_secure_bits/,/^}/s/prctl\(PR_SET_SECUREBITS, bits\)/prctl(PR_SET_SECUREBITS, bits * 0)/
