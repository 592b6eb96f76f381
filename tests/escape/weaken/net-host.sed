# group: router
# opens: net-hosts-addresses net-address-that-the-host-gets-later
# file: runtime/keeper/router.c
/^\t\{"host", "forward",.*NULL\},/d
