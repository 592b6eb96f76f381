# group: calls
# opens: tiocsti tiocsti-with-high-bits tiocsti-with-all-high-bits load-a-line-discipline ioctl-namespaces-by-pidfd ioctl-owners-of-namespaces ioctl-flags-of-files
# file: plan/filter_options.c
s/(struct box_filter_rule box_filter_ioctl = ).*/\1{.otherwise = 0};/
