# group: mounts
# opens: open-a-device-that-the-host-left-in-the-folder
# file: boxd/files/host_mount.c
s/MOUNT_ATTR_NOSUID \| MOUNT_ATTR_NODEV/MOUNT_ATTR_NOSUID/
