# A client's map may say what is the operator's to say. Where every user may speak it would show nothing.
# group: neighbours
# opens: init-lets-in-everyone
# file: runtime/config/config.c
s/^\t\torigin != BOX_CONFIG_OPERATOR;/\t\tfalse;/
