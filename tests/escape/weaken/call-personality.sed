# group: calls
# opens: personality-no-random-addresses personality-read-implies-exec
# file: plan/filter_table.c
s/ROW\(personality, 0, personality_rule, absent\)/BOTH(personality)/
