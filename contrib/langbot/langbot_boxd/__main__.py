"""`python -m langbot_boxd`: says whether LangBot's child is boxd in this environment."""

import importlib.util
import os
import subprocess
import sys

from langbot_boxd import EXIT_CANNOT_START, MODULE, OFF_VARIABLE, find_boxd, is_off


def check():
    """Makes LangBot's call with --version added, and says who answered. The exit code."""
    if importlib.util.find_spec("langbot_plugin") is None:
        print(f"langbot-boxd: {sys.executable} has no langbot_plugin: it is not LangBot's Python")
        return 1
    command = [sys.executable, "-m", MODULE, "box", "-s", "--version"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode == 0 and done.stdout.startswith("boxd "):
        print(f"langbot-boxd: LangBot's child is {find_boxd(os.environ)} ({done.stdout.strip()})")
        return 0
    if done.returncode == EXIT_CANNOT_START:
        print(done.stderr.strip())
    elif is_off(os.environ):
        print(f"langbot-boxd: {OFF_VARIABLE} is set: LangBot's child is its own runtime")
    else:
        answer = (done.stdout + done.stderr).strip()
        print(f"langbot-boxd: LangBot's child is not boxd; it said:\n{answer}")
    return 1


if __name__ == "__main__":
    sys.exit(check())
