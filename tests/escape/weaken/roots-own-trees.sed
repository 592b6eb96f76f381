# What is Box's own is mounted like anything else, where everything may be mounted.
# group: roots
# opens: source-images-of-the-operator operators-socket-in-a-box
# file: runtime/keeper/mount_roots.c
s/if \(way\.in_own\) \{/if (false) {/
s/if \(box_held_is_whole\(&roots->own\[i\]\) &&/if (false \&\&/
s/if \(has_place\(&roots->above_own, &place\)\) \{/if (false) {/
