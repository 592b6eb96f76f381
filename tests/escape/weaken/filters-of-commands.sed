# group: calls
# opens: filters-by-the-hundred
# file: runtime/plan/filter_table.c
s/WHEN\(seccomp, no_filters\)/BOTH(seccomp)/
