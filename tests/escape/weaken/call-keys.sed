# group: calls
# opens: add-a-key join-a-session-keyring
# file: plan/filter_table.c
s/(DENY|LACK)\(keyctl\)/BOTH(keyctl)/
s/(DENY|LACK)\(add_key\)/BOTH(add_key)/
