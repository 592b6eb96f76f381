# group: calls
# opens: sync-of-all-disks syncfs
# file: plan/filter_table.c
s/(DENY|LACK)\(sync\)/BOTH(sync)/
s/(DENY|LACK)\(syncfs\)/BOTH(syncfs)/
