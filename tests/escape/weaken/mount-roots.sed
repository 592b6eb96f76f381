# Two defences: box-rpc compares texts, boxd compares opened folders.
# group: anywhere
# opens: source-folders-of-root image-outside-the-roots manifest-outside-the-roots
# file: runtime/config/host_path.c
s/if \(!is_under_one\(normal, config->mount_roots\)\) \{/if (false) {/
# file: boxd/files/mount_roots.c
s/if \(!walk\.in_root \|\| (\(roots->narrower)/if (\1/
