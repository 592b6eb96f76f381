# group: calls
# opens: i386-getpid
# file: runtime/plan/filter.c
/emit_head/,/^}/s/BPF_RET \| BPF_K, SCMP_ACT_KILL_PROCESS/BPF_RET | BPF_K, SCMP_ACT_ALLOW/
