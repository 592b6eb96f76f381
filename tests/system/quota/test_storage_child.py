"""The process that measures for box_get_storage_analysis: its privileges, and how it ends."""

import contextlib
import os
import signal
import time

import pytest

import boxdlib
import clientlib
from storagelib import (  # noqa: F401
    ACTION,
    CAP_DAC_READ_SEARCH,
    PAGE,
    analyse,
    box,
    children_of,
    make_tenant,
    numbers,
    place,
    run,
    sizes,
    tenant,
)

MANY = 30000


def walking(boxd, before, top):
    """The child of boxd that has a folder below `top` open, or None."""
    for pid in children_of(boxd.pid) - before:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if any(name.startswith(f"{top}/") for name in boxdlib.fd_names(pid).values()):
                return pid
    return None


@contextlib.contextmanager
def stopped_child(box):
    """A request whose child is stopped during its walk: (seq_id, pid)."""
    before = children_of(box.boxd.pid)
    pid = None
    for _ in range(100):
        seq = box.start(ACTION)
        end = time.monotonic() + 0.5
        while not (pid := walking(box.boxd, before, tenant(box.place))):
            if time.monotonic() > end:
                break
        with contextlib.suppress(ProcessLookupError):
            if pid:
                os.kill(pid, signal.SIGSTOP)
                if not box.has_answer(seq) and boxdlib.is_alive(pid):
                    break
        box.wait(seq)
    else:
        pytest.fail("no child could be stopped")
    try:
        yield seq, pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def slow(box):
    """A client whose workspace takes some time to measure."""
    if not boxdlib.ROOT:
        pytest.skip("only root sees the fds of a process that is not dumpable")
    folder = make_tenant(box.place, {"d/0": 0}) / "d"
    for number in range(1, MANY):
        os.link(folder / "0", folder / str(number))
    return box


def test_child_has_little(slow):
    """Of boxd's capabilities the child keeps reading files, and of its fds those that it needs."""
    with stopped_child(slow) as (seq, pid):
        status = boxdlib.status_of(pid)
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 1 << CAP_DAC_READ_SEARCH
        assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        held = boxdlib.fd_names(pid)
        ours = [name for name in held.values() if name.startswith(str(slow.place.work))]
        others = [name for fd, name in held.items() if fd != 2 and name not in ours]
        assert len(ours) >= 2 and len(others) <= 2, held
        assert not [name for name in others if "socket" in name], held
        os.kill(pid, signal.SIGCONT)
        answer = clientlib.success(slow.wait(seq))
        assert answer["directories"][0]["file_count"] == MANY


def test_child_that_hangs_holds_up_nobody(slow):
    with stopped_child(slow) as (seq, _):
        for _ in range(3):
            run(slow, "echo x >/tmp/x", context=clientlib.context("ws2"))
            other = analyse(slow, context=clientlib.context("ws2"))
            assert sizes(other)[2] == PAGE
        assert not slow.has_answer(seq)


def test_child_that_dies(slow):
    """What it should have measured becomes an error, and nothing else fails."""
    with stopped_child(slow) as (seq, pid):
        os.kill(pid, signal.SIGKILL)
        answer = clientlib.success(slow.wait(seq))
        first = answer["directories"][0]
        assert (first["exists"], first["size_bytes"], first["error_count"]) == (False, 0, 1)
    assert numbers(analyse(slow), "workspace") == (True, 0, MANY, 0)


def test_child_ends_with_boxd(slow):
    with stopped_child(slow) as (_, pid):
        os.kill(slow.boxd.pid, signal.SIGKILL)
        slow.boxd.process.wait(10)
        boxdlib.wait_until(lambda: not boxdlib.is_alive(pid), what="the child has ended")


def test_child_ends_with_its_request(slow):
    """The child ends with the box-rpc that asked."""
    with stopped_child(slow) as (_, pid):
        slow.boxd.kill_worker()
        boxdlib.wait_until(lambda: not boxdlib.is_alive(pid), what="the child has ended")


@pytest.mark.soak
def test_child_that_takes_too_long(slow):
    started = time.monotonic()
    with stopped_child(slow) as (seq, pid):
        answer = clientlib.success(slow.wait(seq, 40))
        assert 25 < time.monotonic() - started < 35
        assert answer["directories"][0]["error_count"] == 1
        boxdlib.wait_until(lambda: not boxdlib.is_alive(pid), what="the child has ended")


# Clients.
