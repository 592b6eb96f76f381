# Any client sees the sessions of all workspaces.
# group: host
# opens: sessions-of-all-workspaces-by-a-token
# file: handlers/session_actions.c
s/of_all \&\& !request->is_operator/false/
