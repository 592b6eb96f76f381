# Without mount settings in the file, everything may be mounted.
# group: neighbours
# opens: mount-by-no-list-of-roots
# file: runtime/config/config_paths.c
s/#define DEFAULT_HOST_ROOT "data\/box"/#define DEFAULT_HOST_ROOT "\/"/
