# Artifacts have no memory limit, neither in total nor per workspace.
# group: neighbours
# opens: memory-of-artifacts
# file: boxd/files/artifacts.c
s/uint64_t room = BOX_MIN\(own, all\);/uint64_t room = TREE_BYTES_MAX + own - own + all - all;/
