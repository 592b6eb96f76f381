"""The `box` command as a child of a test."""

import contextlib
import json
import signal
import subprocess

from boxdlib import FAKE, build, environment

SECONDS = 20


def variables(private, **extra):
    """A private boxd inherits them, and cannot check for leaks; `box` alone does."""
    made = {**environment(), "LANGBOT_BOX_CONFIG": json.dumps(FAKE)}
    made.pop("BOX_ENDPOINT", None)
    made["ASAN_OPTIONS"] = f"detect_leaks={int(not private)}"
    made.update(extra)
    return made


def start(*args, programs=None, private=True, env=None, **popen):
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [str((programs or build()) / "box"), *args]
    return subprocess.Popen(command, env=variables(private, **(env or {})), **{**pipes, **popen})


def interrupt(process):
    """Sends the signal repeatedly until it ends, since a signal that comes while another one is
    pending is lost. Returns its exit code."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(2)
    raise AssertionError("it goes on")


def box(*args, data=None, **options):
    """Runs box to its end: (code, stdout, stderr)."""
    if data is not None:
        options["stdin"] = subprocess.PIPE
    with start(*args, **options) as process:
        try:
            out, err = process.communicate(data, timeout=SECONDS)
        finally:
            process.kill()
    return process.returncode, (out or b"").decode(errors="surrogateescape"), err.decode()


def dialled(boxd, *args, **options):
    """box with an existing runtime; the options go after the verb."""
    command, *rest = args
    return box(command, f"--endpoint={boxd.url}", *rest, private=False, **options)
