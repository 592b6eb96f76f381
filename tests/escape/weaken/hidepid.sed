# group: mounts
# opens: see-pid-1 list-foreign-processes
# file: base/fsmount.c
s/= set_text\(fs, "hidepid", "invisible"\)/= set_text(fs, "hidepid", "off")/
