"""The tests of microVMs, in the machine of tests/vm. Under emulation it stands still now and then, or a guest
in it. So what failed, or was not come to, is tried again in a new machine; what passed once has passed.

BOX_TEST_UNTIL in the environment (seconds since 1970) is when all tests must be over.
"""

import json
import os
import subprocess
import time
from pathlib import Path

REPORT = Path(__file__).resolve().parent.parent / "build" / "microvm.results"
MACHINES_MAX = 3  # for one run
MACHINE_SECONDS = 180  # that one must have left, to boot and to do something
PYTEST_FAILED, PYTEST_NOTHING = 1, 5  # its exit codes when tests failed, and when none was selected

# What the machine needs: first packages, then two things of a minute or two when nothing is there yet,
# which are made side by side.
PACKAGES = ["scripts/deps", "vm"]
PARTS = [["scripts/libkrun", "--own"], ["tests/vm/image"]]


def why_none():
    """Brings what the machine needs. What was said last where that cannot be had, else None."""
    return why_not_made([PACKAGES]) or why_not_made(PARTS)


def why_not_made(commands):
    """Runs all at once: what the first one that failed said last, or None."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    started = [
        subprocess.Popen(command, text=True, errors="replace", **pipes) for command in commands
    ]
    said = [process.communicate()[0].strip().splitlines() for process in started]
    for process, lines in zip(started, said):
        if process.returncode != 0:
            return f"{' '.join(process.args)}: {lines[-1] if lines else process.returncode}"
    return None


def seconds_left():
    """None where nobody counts."""
    until = os.environ.get("BOX_TEST_UNTIL")
    return None if until is None else int(until) - int(time.time())


def is_late():
    """Whether there is no time left for a machine."""
    left = seconds_left()
    return left is not None and left < MACHINE_SECONDS


def read_results():
    """{name: (state, details)} as far as the machine came; the last line may be half a one."""
    results = {}
    lines = REPORT.read_text(errors="replace").split("\n") if REPORT.exists() else [""]
    for line in lines[:-1]:
        told = json.loads(line)
        results[told["name"]] = (told["state"], told["details"])
    return results


def run_one(form, options, known):
    """What came of one machine without the tests that are known, and what happened to the machine itself or
    None."""
    REPORT.unlink(missing_ok=True)
    left = seconds_left()
    command = ["tests/vm/microvm", *(["--short"] if form == "short" else [])]
    command += [] if left is None else ["--within", str(max(left, 1))]
    environment = {**os.environ, "BOX_RESULTS_KNOWN": "\n".join(known)}
    code = subprocess.run([*command, str(REPORT), *options], env=environment).returncode
    ended = code in (0, PYTEST_FAILED, PYTEST_NOTHING)
    return read_results(), None if ended else f"exit code {code}"


def failed_of(results):
    return [name for name, (state, _) in results.items() if state == "failed"]


def settled_of(results):
    """What need not be run again: not what failed, and not the rest of a file whose fixtures did."""
    failed = failed_of(results)
    return [name for name in results if name not in failed and name.partition("::")[0] not in failed]


def merge(results, found, whole):
    """What a machine found joins what those before it did; `whole`: it came to its end."""
    for name in failed_of(results):
        again = any(one.startswith(f"{name}::") for one in found)
        if whole and again and name not in found:
            del results[name]  # a file whose fixtures ended well this time
    for name, result in found.items():
        if results.get(name, ("failed",))[0] == "failed":
            results[name] = result


def run(form, options):
    """In up to MACHINES_MAX of them, as long as there is time. The results, the names of what passed at last,
    and what happened to the last machine."""
    results, once_failed, accidents, accident = {}, [], 0, "there was no time"
    for _ in range(MACHINES_MAX):
        if is_late():
            print(f"microvm: no time for another machine: {seconds_left()} s", flush=True)
            break
        found, accident = run_one(form, options, settled_of(results))
        merge(results, found, accident is None)
        once_failed += [name for name in failed_of(results) if name not in once_failed]
        if accident:
            accidents += 1
            print(f"microvm: the machine: {accident}", flush=True)
        elif not failed_of(results):
            break
    retried = [name for name in once_failed if name not in failed_of(results)]
    if accidents and not accident:
        retried.append("the machine of microVMs itself")
    return results, retried, accident
