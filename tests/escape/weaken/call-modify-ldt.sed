# group: calls
# opens: modify-ldt
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(modify_ldt\)/BOTH(modify_ldt)/
