# group: calls
# opens: lease-on-a-file-of-a-host-folder notice-of-changes-by-fcntl
# file: plan/filter_options.c
s/(struct box_filter_rule box_filter_fcntl = ).*/\1{.otherwise = 0};/
