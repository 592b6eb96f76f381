# The memory of artifacts is within no total and no share.
# group: neighbours
# opens: memory-of-artifacts
# file: boxd/files/artifacts.c
s/uint64_t room = BOX_MIN\(own, all\);/uint64_t room = TREE_BYTES_MAX + own - own + all - all;/
