# group: calls
# opens: handle-of-a-file
# file: plan/filter_table.c
s/(DENY|LACK)\(name_to_handle_at\)/BOTH(name_to_handle_at)/
