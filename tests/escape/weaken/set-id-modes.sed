# group: calls
# opens: make-a-setuid-file-by-chmod make-a-setgid-file-by-fchmod make-a-setuid-file-by-fchmodat2 make-a-setuid-file-by-open make-a-setuid-file-by-mknod make-a-setgid-folder
# file: plan/filter_table.c
s/((mode_1|mode_2|open|openat|mknod|mknodat)_rule = )ONLY\([a-z0-9_]*, EPERM\)/\1{.otherwise = 0}/
