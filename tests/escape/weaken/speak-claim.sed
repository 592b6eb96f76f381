# Any first request claims the runtime.
# group: host
# opens: claim-by-looking
# file: handlers/dispatch.c
s/request->action->claims \&\& !request->is_operator/!request->is_operator/
