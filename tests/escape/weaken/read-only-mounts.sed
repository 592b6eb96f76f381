# Two defences for a read-only workspace: the mount and Landlock, which get the same flag.
# group: mounts
# opens: write-to-a-read-only-extra-mount write-to-a-read-only-workspace write-to-a-read-only-mount-by-another-way
# file: boxd/files/host_mount.c
s/\(read_only \? MOUNT_ATTR_RDONLY : 0\)/0U * read_only/
# file: plan/plan.c
s/tree->read_only = maker->ask->host_mode == BOX_PLAN_MOUNT_RO/tree->read_only = false/
