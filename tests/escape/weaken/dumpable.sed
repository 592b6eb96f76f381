# The second of two defences: ids-and-capabilities, in this group, is the first.
# group: ids
# opens: see-pid-1 pid-1-mem pid-1-fd pid-1-root pid-1-cwd pid-1-environ pid-1-namespaces pid-1-maps-and-stack pid-1-exe-read pid-1-oom-score
# file: init/boot/boot.c
s/prctl\(PR_SET_DUMPABLE, 0L/prctl(PR_SET_DUMPABLE, 1L/
# A change of these ids makes a process not dumpable, too.
/^static void make_files_as_payload/,/^}/s/!boot\.facts\.same_uid/boot.facts.same_uid/
# file: boxd/host_state.c
s/fchmod\(fd, 0511\)/fchmod(fd, 0555)/
