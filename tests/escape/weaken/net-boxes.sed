# group: router
# opens: net-server-of-another-box
# file: boxd/net/router.c
s/"oifname \\"b\*\\" " REFUSE, "oifname/"oifname \\"b*\\" accept " MARK, "oifname/
