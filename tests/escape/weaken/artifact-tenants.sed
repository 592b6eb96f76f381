# A tree is given to whoever names its digest, and a source that fails is everybody's fault.
# group: neighbours
# opens: artifact-by-digest-alone false-fill-of-an-artifact
# file: boxd/files/artifacts.c
s/ \&\& strcmp\(tree->tenant, tenant\) == 0\) \{/) {/
s/return strcmp\(a->path, b->path\) == 0 .*/return a \&\& b;/
