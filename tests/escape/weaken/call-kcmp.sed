# group: calls
# opens: kcmp
# file: plan/filter_table.c
s/(DENY|LACK)\(kcmp\)/BOTH(kcmp)/
