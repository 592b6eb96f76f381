# group: router
# opens: net-hosts-addresses net-address-that-the-host-gets-later
# file: boxd/net/router.c
/^\t\{"host", "forward",.*NULL\},/d
