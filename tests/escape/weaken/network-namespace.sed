# group: network
# opens: abstract-socket-of-the-host pass-fds-to-the-host udp-to-the-hosts-loopback 127.0.0.1 0.0.0.0 localhost-by-name old-forms-of-loopback ipv6-loopback ipv4-mapped-loopback abstract-socket-of-a-box abstract-socket-of-a-tenant tcp-server-of-a-box tcp-server-of-a-tenant
# file: boxd/box/make.c
/^static int clone_in_network/,/^}/s/box_netns_enter\(host_state->netns, warm->resources.netns\)/0/
