# group: calls
# opens: modify-ldt
# file: plan/filter_table.c
s/(DENY|LACK)\(modify_ldt\)/BOTH(modify_ldt)/
