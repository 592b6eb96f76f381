# Any name is accepted as an instance.
# group: host
# opens: reserved-instances-by-tcp
# file: runtime/tenant.c
s/ \|\| !is_alnum\(id\.bytes\[0\]\)//
