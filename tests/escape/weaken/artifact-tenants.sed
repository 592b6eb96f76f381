# A tree is given to anyone who names its digest, and a failed source fails for all tenants.
# group: neighbours
# opens: artifact-by-digest-alone false-fill-of-an-artifact
# file: boxd/files/artifacts.c
s/ \&\& strcmp\(tree->tenant, tenant\) == 0\) \{/) {/
s/return strcmp\(a->path, b->path\) == 0 .*/return a \&\& b;/
