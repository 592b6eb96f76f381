# group: calls
# opens: get-mempolicy set-mempolicy
# file: plan/filter_table.c
s/(DENY|LACK)\(get_mempolicy\)/BOTH(get_mempolicy)/
s/(DENY|LACK)\(set_mempolicy\)/BOTH(set_mempolicy)/
