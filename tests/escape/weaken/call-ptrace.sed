# group: calls
# opens: ptrace-own-child
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(ptrace\)/BOTH(ptrace)/
