# group: mounts
# opens: see-the-hosts-cgroups
# file: runtime/keeper/child.c
s/return unshare\(CLONE_NEWCGROUP\) < 0 \? -errno : 0/return 0/
