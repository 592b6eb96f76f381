# group: calls
# opens: adjtimex-read
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(adjtimex\)/BOTH(adjtimex)/
