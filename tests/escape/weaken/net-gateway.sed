# group: router
# opens: net-gateway
# file: boxd/net/router.c
/^\t\{"gateway", "forward",.*NULL\},/d
