"""Runs attempts inside a box: main.py FACTS NAME.... A line of JSON for each."""

import sys

sys.dont_write_bytecode = True

import cgroups  # noqa: E402,F401
import fds  # noqa: E402,F401
import files  # noqa: E402,F401
import frame  # noqa: E402
import ids  # noqa: E402,F401
import mounts  # noqa: E402,F401
import neighbours  # noqa: E402,F401
import options  # noqa: E402,F401
import proc  # noqa: E402,F401
import sockets  # noqa: E402,F401
import syscalls  # noqa: E402,F401
import terminals  # noqa: E402,F401

if __name__ == "__main__":
    frame.main(sys.argv[1:])
