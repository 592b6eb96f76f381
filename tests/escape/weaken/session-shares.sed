# One workspace may have every session.
# group: neighbours
# opens: all-sessions-taken
# file: runtime/config/ceilings.c
s/if \(is_above\(use->workspace_sessions, 1, ceilings->workspace_sessions\)\)/if (0)/
