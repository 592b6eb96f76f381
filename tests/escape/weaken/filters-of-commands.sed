# group: calls
# opens: filters-by-the-hundred
# file: plan/filter_table.c
s/WHEN\(seccomp, no_filters\)/BOTH(seccomp)/
