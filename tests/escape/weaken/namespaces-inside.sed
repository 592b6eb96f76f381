# Two defences: the filter, and the limits in /proc/sys/user.
# group: calls
# opens: unshare-user clone-user weaker-filter clone-high-bits
# file: plan/filter_table.c
s/DENY\(unshare\)/BOTH(unshare)/
s/(clone_rule = )ONLY\(clone_cases, EPERM\)/\1{.otherwise = 0}/
# file: base/root_builder.c
s/write_at\(proc, kinds\[i\]\.name, max\)/0/
