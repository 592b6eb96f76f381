# group: calls
# opens: tiocsti tiocsti-with-high-bits load-a-line-discipline
# file: runtime/plan/filter_table.c
s/(ioctl_rule = )EXCEPT\(ioctl_cases, EPERM\)/\1{.otherwise = 0}/
