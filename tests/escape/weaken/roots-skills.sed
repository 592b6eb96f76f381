# The skill store is treated like any other folder in a mount root.
# group: roots
# opens: skills-of-another-workspace
# file: boxd/files/mount_roots.c
s/return walk\.store && !is_package\(walk\.store, fd, asker\) \? BOX_MOUNT_ROOTS_DENIED_STORE : 0;/return 0;/
s/return above_store \? BOX_MOUNT_ROOTS_DENIED_STORE : 0;/return 0;/
