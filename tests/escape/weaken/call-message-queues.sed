# group: calls
# opens: message-queues
# file: runtime/plan/filter_table.c
s/(DENY|LACK)\(msgget\)/BOTH(msgget)/
