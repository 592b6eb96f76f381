# group: calls
# opens: ptrace-own-child
# file: plan/filter_table.c
s/(DENY|LACK)\(ptrace\)/BOTH(ptrace)/
