# group: router
# opens: net-server-of-another-box
# file: runtime/keeper/router.c
s/"oifname \\"b\*\\" " REFUSE, "oifname/"oifname \\"b*\\" accept " MARK, "oifname/
