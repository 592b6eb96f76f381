# Root owns the user namespaces of boxes, so the kernel charges root for them.
# group: resources
# opens: inotify-instances-of-others inotify-watches-of-others timers-of-others queued-signals-of-others
# file: boxd/box/make.c
s/resources->has_ids \? box_userns_owner_begin\(resources->first_id\) : 0/0/
# file: boxd/box/first_process.c
s/RLIMIT_SIGPENDING, /RLIMIT_MSGQUEUE, /
