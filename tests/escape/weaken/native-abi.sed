# group: calls
# opens: i386-getpid
# file: plan/filter.c
/emit_head/,/^}/s/BPF_RET \| BPF_K, SECCOMP_RET_KILL_PROCESS/BPF_RET | BPF_K, SECCOMP_RET_ALLOW/
