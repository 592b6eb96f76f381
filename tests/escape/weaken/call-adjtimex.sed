# group: calls
# opens: adjtimex-read
# file: plan/filter_table.c
s/(DENY|LACK)\(adjtimex\)/BOTH(adjtimex)/
