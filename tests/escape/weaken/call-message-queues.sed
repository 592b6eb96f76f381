# group: calls
# opens: message-queues
# file: plan/filter_table.c
s/(DENY|LACK)\(msgget\)/BOTH(msgget)/
