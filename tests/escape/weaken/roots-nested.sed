# A mount root stays one, even when its path leads through another one.
# group: roots
# opens: root-swapped-before-the-next-start
# file: boxd/files/path_conflicts.c
s/while \(merge_one_by_its_[a-z]+\(roots\)\) \{/while (false) {/
