# group: roots
# opens: second-name-of-an-image-file
# file: runtime/keeper/layout.c
s/status\.st_nlink > 1\) \{/status.st_nlink < 1) {/
