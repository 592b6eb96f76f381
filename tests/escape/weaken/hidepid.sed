# group: mounts
# opens: see-pid-1 list-foreign-processes
# file: runtime/keeper/filesystem.c
s/return set_text\(fs, "hidepid", "invisible"\)/return set_text(fs, "hidepid", "off")/
