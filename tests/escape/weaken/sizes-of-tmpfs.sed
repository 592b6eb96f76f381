# group: limits
# opens: fill-tmp fill-shm fill-home fill-run more-files-than-given
# file: base/fsmount.c
s/"size", options->size_bytes\)/"size", options->size_bytes * 16)/
s/"nr_inodes", options->inodes\)/"nr_inodes", options->inodes * 16)/
