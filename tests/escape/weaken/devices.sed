# group: limits
# opens: only-the-devices-that-are-declared
# file: runtime/keeper/template.c
s/"null", "zero", "full", "random", "urandom", "tty"\}/"null", "zero", "full", "random", "urandom", "tty", "fuse"}/
