# group: mounts
# opens: see-the-hosts-name
# file: boxd/box/first_process.c
s/return sethostname\(name, strlen\(name\)\) < 0 \? -errno : 0/(void)name; return 0/
# file: plan/plan.h
s/CLONE_NEWUTS \| CLONE_NEWCGROUP/CLONE_NEWCGROUP/
