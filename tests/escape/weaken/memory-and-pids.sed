# group: limits
# opens: more-processes-than-given more-threads-than-given more-memory-than-given more-memory-by-memfd more-memory-by-shared-segments
# file: boxd/box/make.c
/^static int set_limits/,/^}/s/plan->limit_bytes/plan->limit_bytes * 16/
/^static int set_limits/,/^}/s/plan->limit_pids/plan->limit_pids * 16/
