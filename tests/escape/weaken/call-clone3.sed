# group: calls
# opens: clone3-plain
# file: plan/filter_table.c
s/(DENY|LACK)\(clone3\)/BOTH(clone3)/
