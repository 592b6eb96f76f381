"""boxd's part of microVM boxes, with a box-vmm that boots no guest (fake_vmm.c).

What box-vmm is started with, the jail that it is in, and what happens to a box when one of them
fails. Skipped where /dev/kvm cannot be opened: boxd does not start box-vmm there.
"""

import os
import pathlib
import re
import signal

import pytest

from boxdlib import is_alive, wait_until
from leftoverlib import (
    HostState,
    Traces,
    compile_program,
    copy_programs,
    inits,
    native_boxd,
    needs_root,
)

pytestmark = [
    needs_root,
    pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no /dev/kvm"),
]

KRUN = {"backend": "krun"}
MEMORY_MB = 256
EXTRA_MB = 128  # BOX_MICROVM_OVERHEAD_BYTES
RESERVE_MB = 256  # BOX_MICROVM_RESERVE_BYTES_MIN
FREE_MB_MIN = 2560


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("krun")
    copy_programs(folder, "boxd", "box-rpc", "box-init")
    compile_program("fake_vmm.c", folder / "box-vmm", "-static")
    return folder


@pytest.fixture
def boxd(programs, tmp_path, note):
    host = HostState()
    with native_boxd(tmp_path, programs=programs, config=KRUN) as started:
        traces = Traces(started, host)
        yield started
    traces.check_gone()


def spec(session, **more):
    return {"session_id": session, "cmd": "look", "memory_mb": MEMORY_MB, **more}


def look(client, session="s", **more):
    result = client.ask("box_exec", spec(session, **more))
    assert result["exit_code"] == 0, result
    return result["stdout"] + "\n"


def test_what_box_vmm_is_started_with(boxd):
    with boxd.web() as client:
        seen = look(client, cpus=1, pids_limit=77)
        info = client.ask("box_get_session", {"session_id": "s"})
        assert info["backend_name"] == "krun"
        assert client.ask("box_status")["backend"] == {"name": "krun", "available": True}
    fds = dict(re.findall(r"^fd (\d+) (\w+)$", seen, re.M))
    assert fds == {
        **{"0": "device", "1": "device", "2": "device", "3": "socket", "4": "pipe", "5": "file"},
        **{"6": "folder", "7": "socket", "9": "file", "10": "folder"},
    }
    assert "host 1\n" in seen  # its libraries are in sight until it pivots
    root_steps = re.search(r"^boot (.*) root_steps=(\d+) deadline=10000 network=0$", seen, re.M)
    assert root_steps[1] == f"same_uid=0 memory={MEMORY_MB} cpus=1 pids=77", seen
    assert int(root_steps[2]) > 20


def test_the_jail(boxd):
    with boxd.web() as client:
        seen = look(client)
    inside = {}
    for folder, name in re.findall(r"^in (\S+) (\S+)$", seen, re.M):
        inside.setdefault(folder, set()).add(name)
    assert inside["/"] == {"dev", "proc", "run", "share"}
    assert inside["/dev"] == {"kvm"}
    assert inside["/proc"] == {"self", "thread-self"}  # and processes
    assert inside["/share"] == {"trees", "workspace", "mounts"}
    assert {"usr", "etc"} <= inside["/share/trees"]
    assert "/run" not in inside and "/share/mounts" not in inside  # empty
    assert "kvm 666 10:232 open 1\n" in seen
    assert "root writable 0\n" in seen
    assert "tree writable 0\n" in seen


def test_limits_hold_the_machine_and_what_runs_it(boxd):
    with boxd.web() as client:
        look(client)
        (vmm,) = [pid for pid in inits(boxd) if name_of(pid) == "box-vmm"]
        groups = pathlib.Path(f"/proc/{vmm}/cgroup").read_text()
        assert limit_of(groups) == (MEMORY_MB + EXTRA_MB) << 20


def name_of(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def limit_of(groups):
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            file = pathlib.Path("/sys/fs/cgroup/memory" + path) / "memory.limit_in_bytes"
        elif controllers == "":
            file = pathlib.Path("/sys/fs/cgroup" + path) / "memory.max"
        else:
            continue
        if file.exists():
            return int(file.read_text())
    raise AssertionError(groups)


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (
            "panic",
            "BoxError: the box cannot be made: box-vmm: the microVM ended before it was ready: No "
            "child processes; its console: booting|Kernel panic - ?[31mno init",
        ),
        ("die", "BoxError: the box cannot be made: it ended before it was ready"),
        ("plain", "BoxError: the box cannot be made: it ended before it was ready"),
    ],
)
def test_a_guest_that_does_not_come_up(boxd, tmp_path, mode, why):
    folder = tmp_path / mode
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "boot").write_text(mode)
    with boxd.web() as client:
        told = client.fail("box_exec", spec("bad", host_path=str(folder)))
        assert told.startswith(why), told
        look(client, "good")
        assert len(inits(boxd)) == 1


def test_no_warm_boxes_of_microvms(boxd):
    """MicroVMs are never made in advance: that would use memory."""
    with boxd.web() as client:
        look(client)
        client.ask("box_delete_session", {"session_id": "s"})
        wait_until(lambda: not inits(boxd), what="the box is gone")
        assert [pid for pid in inits(boxd) if name_of(pid) == "box-vmm"] == []


def memory_mb(name):
    meminfo = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(rf"^{name}: +(\d+) kB", meminfo, re.M)[1]) // 1024


def test_more_than_the_host_has(boxd):
    """50 at once on a host with memory for 10: refused before the host swaps."""
    total_mb, free_mb = memory_mb("MemTotal"), memory_mb("MemAvailable")
    if free_mb < FREE_MB_MIN:
        pytest.skip(f"{free_mb} MiB of memory are free, less than {FREE_MB_MIN}")
    taken_mb = max(free_mb // 10, EXTRA_MB + 64)
    each_mb = taken_mb - EXTRA_MB
    most = (free_mb - max(total_mb // 16, RESERVE_MB)) // taken_mb  # the host keeps a part for itself
    with boxd.web() as client:
        asked = {
            f"s{i}": client.start("box_exec", {**spec(f"s{i}"), "memory_mb": each_mb})
            for i in range(50)
        }
        answers = {session: client.wait(seq, 60) for session, seq in asked.items()}
        good = [session for session, answer in answers.items() if answer["code"] == 0]
        refused = [answer["message"] for answer in answers.values() if answer["code"] != 0]
        # Other processes may use or free some of it meanwhile.
        assert most - 1 <= len(good) <= most + 1, (most, refused)
        assert len(good) + len(refused) == 50
        for message in refused:
            assert "BoxCapacityExceededError: there is no memory for another microVM" in message
        # A box that ends releases its reservation.
        client.ask("box_delete_session", {"session_id": good[0]})
        again = client.wait(client.start("box_exec", {**spec("n"), "memory_mb": each_mb}), 30)
        assert again["code"] == 0, again


def test_death_of_box_rpc(boxd):
    with boxd.web() as client:
        look(client)
    (vmm,) = [pid for pid in inits(boxd) if name_of(pid) == "box-vmm"]
    worker = boxd.worker
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: boxd.worker not in (None, worker), what="a new box-rpc")
    with boxd.web() as client:
        look(client)
        assert is_alive(vmm)
        info = client.ask("box_get_session", {"session_id": "s"})
        assert info["backend_name"] == "krun"


def test_death_of_box_vmm(boxd):
    with boxd.web() as client:
        look(client)
        (vmm,) = [pid for pid in inits(boxd) if name_of(pid) == "box-vmm"]
        os.kill(vmm, signal.SIGKILL)
        wait_until(lambda: not is_alive(vmm), what="its end")
        look(client)  # in a new one


def test_storage_is_not_known(boxd):
    with boxd.web() as client:
        look(client)
        answer = client.ask("box_get_storage_analysis")
        (workspaces,) = [
            entry for entry in answer["directories"] if entry["key"] == "session_workspaces"
        ]
        assert workspaces["error_count"] == 1
        assert workspaces["size_bytes"] == 0


def test_death_of_boxd(programs, tmp_path, note):
    host = HostState()
    boxd = native_boxd(tmp_path, programs=programs, config=KRUN)
    traces = Traces(boxd, host)
    with boxd.web() as client:
        look(client)
        (vmm,) = [pid for pid in inits(boxd) if name_of(pid) == "box-vmm"]
        os.kill(boxd.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(vmm), what="the end of box-vmm")
    boxd.stop(check=False)
    traces.check_gone(groups=False)
