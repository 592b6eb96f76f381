# group: router
# opens: net-metadata net-reserved-addresses
# file: boxd/net/router.c
/^\t\{"special", "forward",/,/NULL\},/d
