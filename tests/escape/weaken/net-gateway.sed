# group: router
# opens: net-gateway
# file: runtime/keeper/router.c
/^\t\{"gateway", "forward",.*NULL\},/d
