# group: calls
# opens: openat2
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(openat2\)/BOTH(openat2)/
