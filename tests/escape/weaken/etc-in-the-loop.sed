# The /etc of a caller's image is copied while boxd waits for it.
# group: neighbours
# opens: large-etc-of-an-image
# file: runtime/keeper/callers_roots.c
s/(r = box_helper_start\(\&helper, roots->epoll, run_child, \&work\);)/\1 if (r == 0) { (void)box_helper_has_ended(\&helper, -1); }/
# file: runtime/keeper/etc.c
s/copy->entries >= BOX_CALLERS_ETC_ENTRIES_MAX/copy->entries >= ENTRIES_MAX/
