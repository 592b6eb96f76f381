# group: calls
# opens: io-uring-setup
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(io_uring_setup\)/BOTH(io_uring_setup)/
