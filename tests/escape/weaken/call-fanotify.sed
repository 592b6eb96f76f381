# group: calls
# opens: fanotify-init
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(fanotify_init\)/BOTH(fanotify_init)/
