# group: calls
# opens: fanotify-init
# file: plan/filter_table.c
s/(DENY|LACK)\(fanotify_init\)/BOTH(fanotify_init)/
