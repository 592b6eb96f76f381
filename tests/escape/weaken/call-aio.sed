# group: calls
# opens: kernel-aio
# file: plan/filter_table.c
s/(DENY|LACK)\(io_setup\)/BOTH(io_setup)/
