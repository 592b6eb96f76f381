# group: calls
# opens: userfaultfd
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(userfaultfd\)/BOTH(userfaultfd)/
