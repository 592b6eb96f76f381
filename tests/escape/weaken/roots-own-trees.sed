# Box's own folders may be mounted, too, where everything may be mounted.
# group: roots
# opens: source-images-of-the-operator operators-socket-in-a-box
# file: boxd/files/mount_roots.c
s/if \(walk\.in_own\) \{/if (false) {/
s/if \(box_mount_roots_path_is_complete\(&roots->own\[i\]\) &&/if (false \&\&/
s/if \(has_place\(&roots->above_own, &place\)\) \{/if (false) {/
