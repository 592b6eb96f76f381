# Misspelt keys are reported and ignored.
# group: host
# opens: mount-by-a-misspelt-list-of-roots misspelt-members misspelt-members-of-the-variable slip-in-a-reload
# file: runtime/config/config_members.c
s/^\tbool wrong = check->rules == BOX_CONFIG_MEMBERS_OWN \|\|/\tbool wrong = false \&\&/
