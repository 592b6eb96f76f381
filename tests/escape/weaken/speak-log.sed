# Every refused connection has a line in the log.
# group: host
# opens: strangers-fill-the-log
# file: base/tally.h
s/ \|\| \(tally->told \&\& now_ms - tally->told_ms < BOX_TALLY_MS\)//
