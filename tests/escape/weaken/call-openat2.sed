# group: calls
# opens: openat2
# file: plan/filter_table.c
s/(DENY|LACK)\(openat2\)/BOTH(openat2)/
