# group: mounts
# opens: see-the-hosts-cgroups
# file: boxd/box/first_process.c
s/return unshare\(CLONE_NEWCGROUP\) < 0 \? -errno : 0/return 0/
