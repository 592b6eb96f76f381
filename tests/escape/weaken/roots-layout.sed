# The layout of the operator's paths is not checked: neither texts nor opened folders are compared.
# group: roots
# opens: operators-files-in-a-root
# opens: images-of-the-operator-in-a-root images-of-the-operator-by-bind-mounts
# file: runtime/config/policy.c
s/(r =|return) check_layout\(policy, config, arena, err\)/\1 0/
# file: boxd/files/path_conflicts.c
s/if \(is_everything\(root\)\) \{/if (root) {/
