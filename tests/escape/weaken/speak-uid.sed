# Every user of the host is let in without a token.
# group: host
# opens: speak-as-another-user
# file: transport/acceptor.c
s/if \(r == 0 \&\& \(uid == 0 \|\| .*/if (r == 0) {/
