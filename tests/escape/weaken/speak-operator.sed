# Everyone on the operator's socket is the operator, and everyone can connect to it.
# group: host
# opens: operators-socket-as-another-user operators-socket-with-a-loosened-mode
# file: transport/acceptor.c
s/peer->uid != 0 \&\& peer->uid != rules->operator_uid/peer->uid == rules->operator_uid + 1/
# file: boxd/operator_socket.c
s/umask\(0177\)/umask(0111)/
