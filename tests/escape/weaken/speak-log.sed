# Every refused connection has a line in the log.
# group: host
# opens: strangers-fill-the-log
# file: base/rate_limit.h
s/ \|\| \(tally->told \&\& now_ms - tally->told_ms < BOX_RATE_LIMIT_MS\)//
