# group: calls
# opens: io-uring-setup
# file: plan/filter_table.c
s/(DENY|LACK)\(io_uring_setup\)/BOTH(io_uring_setup)/
