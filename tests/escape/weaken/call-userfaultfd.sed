# group: calls
# opens: userfaultfd
# file: plan/filter_table.c
s/(DENY|LACK)\(userfaultfd\)/BOTH(userfaultfd)/
