# The skill store is a folder like any other in a root.
# group: roots
# opens: skills-of-another-workspace
# file: runtime/keeper/mount_roots.c
s/return way\.store && !is_package\(way\.store, fd, asker\) \? BOX_MOUNT_STORE : 0;/return 0;/
s/return above_store \? BOX_MOUNT_STORE : 0;/return 0;/
