# Whatever is asked first claims the runtime.
# group: host
# opens: claim-by-looking
# file: handlers/dispatch.c
s/request->action->claims \&\& !request->is_operator/!request->is_operator/
