# boxd copies /etc of a caller's image in its own thread and waits for it.
# group: neighbours
# opens: large-etc-of-an-image
# file: boxd/image/caller_roots.c
s/(r = box_subprocess_start\(\&helper, roots->epoll, BOX_CALLERS_ROOT_MS, run_child, \&work\);)/\1 if (r == 0) { (void)box_subprocess_has_ended(\&helper, -1); }/
# file: boxd/image/etc.c
s/copy->entries >= BOX_CALLERS_ETC_ENTRIES_MAX/copy->entries >= ENTRIES_MAX/
