#!/usr/bin/env python3
"""The reference runtime (langbot-plugin 0.7.x): how it is started, and with what environment.

By hand: tests/bench/reference.py VENV PORT [-s]
"""

import contextlib
import os
import shutil
import sys

INSTANCE = "bench-instance"
TOKEN = "a-control-token-of-the-benchmark-alone"
NSJAIL_FOLDER = "/tmp/langbot-box-nsjail"


def environment(folder):
    """The environment of both runtimes: of the caller's only PATH, a home of its own, and the
    access settings. The reference's `host` backend needs the token on WebSocket."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": folder,
        "TMPDIR": folder,
        "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE,
        "LANGBOT_BOX_CONTROL_TOKEN": TOKEN,
    }


@contextlib.contextmanager
def cleaned_up():
    """With nsjail on PATH it keeps a folder outside of TMPDIR, and leaves it behind."""
    ours = not os.path.exists(NSJAIL_FOLDER)
    try:
        yield
    finally:
        if ours:
            shutil.rmtree(NSJAIL_FOLDER, ignore_errors=True)


def command(venv, port, stdio=False):
    """The reference's command line."""
    return [
        os.path.join(venv, "bin", "python"),
        "-m",
        "langbot_plugin.cli.__init__",
        "box",
        *(["-s"] if stdio else []),
        "--host",
        "127.0.0.1",
        "--ws-control-port",
        str(port),
    ]


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["-s"]):
        sys.exit(__doc__.strip())
    argv = command(sys.argv[1], int(sys.argv[2]), stdio=len(sys.argv) == 4)
    os.execve(argv[0], argv, environment(os.environ.get("TMPDIR", "/tmp")))


if __name__ == "__main__":
    main()
