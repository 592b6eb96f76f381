# A closed socket counts as that of its reported owner, which is root then.
# group: host
# opens: speak-by-a-socket-that-was-closed
# file: base/sock_diag.c
s/return answer->idiag_state == TCP_ESTABLISHED \&\& answer->idiag_inode != 0 \&\&/return/
s/ \|\| !is_established\(connection\)//
