# An empty list of mount roots means the host root.
# group: host
# opens: mount-by-an-empty-list-of-roots
# file: runtime/config/config_paths.c
s/\(file \&\& is_set\(local, "allowed_mount_roots"\)\)/false/
