# group: roots
# opens: second-name-of-an-image-file
# file: boxd/files/path_conflicts.c
s/status\.st_nlink > 1\) \{/status.st_nlink < 1) {/
