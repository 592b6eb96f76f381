# A client's map may set the operator's keys. Without effect where every user is let in anyway.
# group: neighbours
# opens: init-lets-in-everyone
# file: runtime/config/config.c
s/^\t\torigin != BOX_CONFIG_OPERATOR;/\t\tfalse;/
