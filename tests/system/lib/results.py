"""A plugin of pytest (`-p results`): reports each test's result at once, so that results are not
lost when the machine hangs half-way. One JSON line each, {name, state, details}, to the file
descriptor BOX_RESULTS_FD. An error in the teardown of a file's fixtures is reported under the
file's name. Tests that BOX_RESULTS_KNOWN lists, one a line, are left out.
"""

import json
import os


def first_line(report):
    lines = str(getattr(report.longrepr, "reprcrash", report.longrepr) or "").splitlines()
    return lines[0][:200] if lines else ""


def why_skipped(report):
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    return reason.removeprefix("Skipped: ")


def outcome(report):
    """(name, state, details) if this report decides the result, else None."""
    if report.skipped:
        return report.nodeid, "skipped", why_skipped(report)
    if report.failed and report.when == "teardown":
        return report.nodeid.partition("::")[0], "failed", first_line(report)
    if report.failed:
        return report.nodeid, "failed", first_line(report)
    return (report.nodeid, "passed", "") if report.when == "call" else None


def pytest_collection_modifyitems(config, items):
    known = set(os.environ.get("BOX_RESULTS_KNOWN", "").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in known])
    items[:] = [item for item in items if item.nodeid not in known]


def pytest_runtest_logreport(report):
    told = outcome(report)
    if told:
        line = json.dumps(dict(zip(("name", "state", "details"), told)))
        os.write(int(os.environ["BOX_RESULTS_FD"]), line.encode() + b"\n")
