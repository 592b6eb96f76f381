# group: calls
# opens: clone3-plain
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(clone3\)/BOTH(clone3)/
