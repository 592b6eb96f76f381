# Two defences: box-rpc compares texts, boxd compares opened folders.
# group: mounts
# opens: source-below-etc source-link-to-etc source-below-a-link source-bind-mount-of-etc source-etc
# file: runtime/config/host_path.c
s/"\/etc", "\/proc", "\/sys"/"\/proc", "\/sys"/
# file: boxd/files/location.c
/\{"\/", "etc", "\/etc"\},/d
