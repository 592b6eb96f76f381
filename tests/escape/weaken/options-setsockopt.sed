# group: calls
# opens: attach-a-packet-filter attach-a-packet-filter-with-high-bits choose-listeners-by-a-packet-filter udp-encapsulation udp-in-large-pieces tcp-md5-signatures busy-poll timestamps-of-all-packets-of-the-host send-pages-from-where-they-lie packet-filters-take-the-hosts-memory
# file: plan/filter_table.c
s/box_filter_setsockopt, box_filter_setsockopt_strict/answer, answer/
