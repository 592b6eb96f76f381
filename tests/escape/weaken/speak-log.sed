# Every refused connection has a line in the log.
# group: host
# opens: strangers-fill-the-log
# file: base/rate_limit.h
s/ \|\| \(tally->logged \&\& now_ms - tally->logged_ms < BOX_RATE_LIMIT_MS\)//
