# group: calls
# opens: kcmp
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(kcmp\)/BOTH(kcmp)/
