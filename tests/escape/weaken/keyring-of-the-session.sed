# Two defences: the filtered calls (call-keys, in this group) and the session keyring that is left behind.
# group: calls
# opens: keys-of-the-hosts-session
# file: boxd/box/first_process.c
s/syscall\(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL\)/0/
