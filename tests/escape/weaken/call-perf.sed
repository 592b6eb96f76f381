# group: calls
# opens: perf-event-open
# file: plan/filter_table.c
s/(DENY|LACK)\(perf_event_open\)/BOTH(perf_event_open)/
