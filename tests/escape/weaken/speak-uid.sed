# Every user of this machine may speak without a token.
# group: host
# opens: speak-as-another-user
# file: transport/acceptor.c
s/if \(r == 0 \&\& \(uid == 0 \|\| .*/if (r == 0) {/
