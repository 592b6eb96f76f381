# group: router
# opens: net-metadata net-reserved-addresses
# file: runtime/keeper/router.c
/^\t\{"special", "forward",/,/NULL\},/d
