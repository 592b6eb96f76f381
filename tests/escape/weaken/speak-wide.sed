# A wider listener starts without a token.
# group: host
# opens: listen-wide-without-a-token
# file: worker/main.c
s/if \(settings->flags \& BOX_BOXD_START_WIDE_OPEN \&\& !box_worker_is_unauthenticated\(worker\)\)/if (0)/
