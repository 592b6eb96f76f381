# group: limits
# opens: read-the-hosts-shared-memory shared-memory-of-a-box shared-memory-of-a-tenant all-namespaces-differ-from-the-hosts
# file: plan/plan.h
s/CLONE_NEWNET \| CLONE_NEWIPC/CLONE_NEWNET/
