# A mount root is looked up by its path for every request, and nested ones are not merged.
# group: paths
# opens: root-swapped-for-a-link
# file: boxd/files/path_conflicts.c
s/while \(merge_one_by_its_[a-z]+\(roots\)\) \{/while (false) {/
# file: boxd/files/mount_roots.c
s/refresh\(&roots->roots\.items\[i\], NULL\);/struct box_mount_roots_path *one = \&roots->roots.items[i]; box_close_p(\&one->fd); (void)hold(one, one->path, NULL, NULL);/
