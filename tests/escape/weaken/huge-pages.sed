# group: calls
# opens: huge-pages-by-mmap huge-pages-by-memfd
# file: plan/filter_table.c
s/((mmap|memfd|shmget)_rule = )ONLY\([a-z_]*, E[A-Z]*\)/\1{.otherwise = 0}/
