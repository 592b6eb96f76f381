# Two defences: box-rpc accepts no mount roots and no skill store from a client of its port, and boxd
# accepts none from box-rpc once it has its policy.
# group: roots
# opens: roots-by-box-init
# file: runtime/config/config_paths.c
s/bool settles = (paths->origin == BOX_CONFIG_OPERATOR \|\|)/bool settles = paths->local_is_new || \1/
# file: boxd/rpc/serve.c
s/policy, serve->host_state->alone && !serve->ever_asked\);/policy, true);/
