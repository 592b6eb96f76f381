"""Limits of native boxes: memory, processes, processor time, and how much of the root can be
written.

The first three need a cgroup: without one (an ordinary user on this host, allowed by the operator's
`degraded: true`) these tests skip.
"""

import json
import time

import pytest

import boxdlib
import nativelib
import proclib

EATER = "python3 -c 'x = bytearray({} << 20); print(len(x))'"
SPIN = (
    "import json, time\n"
    "began = time.process_time()\n"
    "end = time.monotonic() + 1.5\n"
    "while time.monotonic() < end: pass\n"
    "print(json.dumps([time.process_time() - began, end - 1.5, time.monotonic()]))\n"
)


def make_steps(place, generation, carrier, mode):
    small = {"session_id": "small", "memory_mb": 64, "pids_limit": 20}
    big = {"session_id": "big", "memory_mb": 256}
    return {
        "init": {"do": "init", "backend": "local"},
        "neighbour": {"do": "exec", "cmd": "echo here >/tmp/f; sleep 100 & true", **big},
        "before": {"do": "exec", "cmd": "echo x >/tmp/f; sleep 100 & true", **small},
        "fits": {"do": "exec", "cmd": EATER.format(16), **small},
        "excess": {"do": "exec", "cmd": "exec " + EATER.format(128), **small},
        "after": {"do": "exec", "cmd": "cat /tmp/f; pgrep -cx sleep", **small},
        "neighbour fits": {"do": "exec", "cmd": EATER.format(128), **big},
        "neighbour after": {"do": "exec", "cmd": "cat /tmp/f; pgrep -cx sleep", **big},
        "crowd": {
            "do": "exec",
            "cmd": "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); done",
            "timeout_sec": 10,
            **small,
        },
        "neighbour runs": {"do": "exec", "cmd": "echo fine", **big},
        "sessions": {"do": "list"},
    }


LIMITED = [who for who in nativelib.EVERYONE if who[2] == "root"]


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def flows(nothing_left):
    with nativelib.Flows(make_steps, LIMITED) as made:
        yield made


@pytest.fixture(scope="module", params=LIMITED, ids=nativelib.names(LIMITED))
def flow(request, flows):
    return flows.results(request.param)


# With the real clients.


def test_memory_excess_ends_the_command_only(flow):
    assert flow.gave("fits")["stdout"] == str(16 << 20)
    excess = flow.gave("excess")
    assert (excess["status"], excess["exit_code"], excess["stdout"]) == ("completed", 137, "")
    assert flow.gave("after")["stdout"] == "x\n1"
    assert flow.gave("neighbour fits")["stdout"] == str(128 << 20)
    assert flow.gave("neighbour after")["stdout"] == "here\n1"


def test_processes_are_bounded(flow):
    crowd = flow.gave("crowd")
    assert "ork" in crowd["stderr"], crowd  # dash: Cannot fork
    assert flow.gave("neighbour runs")["stdout"] == "fine"
    assert {one["session_id"] for one in flow.gave("sessions")} >= {"big"}


# In detail, with a test client.


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture
def limited(place, client):
    if not nativelib.has_limits(place.mode):
        pytest.skip(nativelib.UNLIMITED)
    return client


def test_memory_excess_is_named(limited):
    """Whether the shell was killed, or reports that its child was."""
    for command in ("exec " + EATER.format(256), EATER.format(256) + "; exit $?"):
        result = limited.exec(command, "m", memory_mb=96)
        assert (result["exit_code"], result["stdout"]) == (137, "")
        assert result["end"]["reason"] == "memory", result
    assert limited.exec("echo on", "m", memory_mb=96)["stdout"] == "on"


def test_memory_excess_of_files_in_tmp(limited):
    """/tmp is memory, too: its files count for the box."""
    spec = {"memory_mb": 64, "timeout_sec": 20}
    filled = limited.exec("head -c 200000000 /dev/zero >/tmp/f; echo $?", "tmp", 30, **spec)
    assert filled["stdout"] != "0", filled
    assert limited.exec("rm -f /tmp/f; echo on", "tmp", **spec)["stdout"] == "on"


def test_eaters_side_by_side_do_not_end_each_other_s_session(limited):
    specs = [
        {"cmd": f"exec {EATER.format(300)}", "session_id": f"e{n}", "memory_mb": 64}
        for n in range(4)
    ]
    started = [limited.start("box_exec", spec) for spec in specs]
    started.append(limited.start("box_exec", {"cmd": "sleep 1; echo x", "session_id": "calm"}))
    results = [limited.wait(seq, 30)["data"] for seq in started]
    assert [one["end"]["reason"] for one in results] == ["memory"] * 4 + ["exit"]
    for n in range(4):
        again = limited.exec("echo on", f"e{n}", memory_mb=64)
        assert again["stdout"] == "on"


def test_fork_bomb(limited):
    """The fork bomb ends by its timeout; meanwhile others are served normally. The first shell
    forks only once: its children may use up all processes before it could fork again."""
    bomb = {
        "cmd": "b() { b | b & }; b & exec sleep 60",
        "session_id": "bomb",
        "pids_limit": 32,
        "timeout_sec": 3,
    }
    seq = limited.start("box_exec", bomb)
    end = time.monotonic() + 2.5
    count = 0
    while time.monotonic() < end:
        assert limited.exec("echo x", "calm")["stdout"] == "x"
        count += 1
    assert count > 5
    assert limited.wait(seq)["data"]["status"] == "timed_out"
    assert limited.exec("echo on", "bomb", pids_limit=32)["stdout"] == "on"


def test_pids_limit_is_exact_enough(limited):
    """Of 40 processes, as many as fit in 16 with the box's own."""
    code = (
        "import os, time\n"
        "made = 0\n"
        "for _ in range(40):\n"
        "    try:\n"
        "        if os.fork() == 0: time.sleep(30)\n"
        "        made += 1\n"
        "    except BlockingIOError: pass\n"
        "print(made)\n"
    )
    result = limited.exec(f"python3 -c '{code}'; true", "count", pids_limit=16)
    assert 8 <= int(result["stdout"].splitlines()[0]) <= 15, result


def spin(client, session, cpus):
    """Seconds of processor time, and when the measurement began and ended."""
    return json.loads(client.exec(f"python3 -c '{SPIN}'", session, cpus=cpus)["stdout"])


def test_cpus(limited):
    """In 1.5 s a box with 0.2 processors gets 0.3 s, within a period of the scheduler. How much one
    with a higher limit gets depends on what else the host does."""
    for _ in range(3):
        little, began, ended = spin(limited, "c1", 0.2)
        much = spin(limited, "c2", 2.0)[0]
        assert little < 0.2 * (ended - began) + 0.25, (little, began, ended)
        if much > 1.3 * little:
            return
    raise AssertionError((little, much))


def test_cpus_are_shared_by_the_commands_of_a_session(limited):
    started = [
        limited.start(
            "box_exec", {"cmd": f"python3 -c '{SPIN}'", "session_id": "c3", "cpus": 0.2}
        )
        for _ in range(3)
    ]
    results = [json.loads(limited.wait(seq, 30)["data"]["stdout"]) for seq in started]
    used, began, ended = zip(*results)
    assert sum(used) < 0.2 * (max(ended) - min(began)) + 0.6, results


# Limits that hold without a cgroup, too.


ROOTS = ["/", "/etc", "/usr", "/usr/bin", "/opt", "/var/lib", "/srv", "/home", "/dev"]
WRITABLE = ["/tmp", "/var/tmp", "/dev/shm", "/home/box", "/workspace", "/run"]


def try_to_write(client, session, folders, **spec):
    """The folders among these in which a file can be created."""
    command = "; ".join(f"(echo x >{one}/probe) 2>/dev/null && echo {one}" for one in folders)
    return client.exec(command + "; true", session, **spec)["stdout"].split()


def test_read_only_root(client):
    assert try_to_write(client, "ro", ROOTS, read_only_rootfs=True) == []
    assert try_to_write(client, "ro", WRITABLE, read_only_rootfs=True) == WRITABLE


def test_writable_root(client):
    """The box's own folders are writable, those that come from the host are not."""
    spec = {"read_only_rootfs": False}
    written = try_to_write(client, "rw", ROOTS, **spec)
    assert {"/opt", "/srv", "/var/lib"} <= set(written)
    assert not {"/usr", "/usr/bin", "/dev"} & set(written)
    assert try_to_write(client, "rw", WRITABLE, **spec) == WRITABLE
    assert client.exec("pwd", "rw", workdir="/opt/a/b", **spec)["stdout"] == "/opt/a/b"


def test_no_box_sees_what_another_wrote(client):
    client.exec("for d in /tmp /dev/shm ~ /workspace /run; do echo x >$d/mine; done", "w1")
    seen = client.exec("ls -A /tmp /dev/shm ~ /workspace /run | grep mine", "w2")
    assert (seen["stdout"], seen["exit_code"]) == ("", 1)


def test_temporary_space_is_bounded(client):
    """Limited by the box's memory: half of it for /tmp, whoever runs boxd."""
    spec = {"memory_mb": 64}
    free = client.exec("stat -f -c '%S %b' /tmp /dev/shm ~ /workspace", "space", **spec)["stdout"]
    for line in free.splitlines():
        block, count = map(int, line.split())
        assert 0 < block * count <= 64 << 20, free


def test_open_files_are_bounded(client):
    assert int(client.exec("ulimit -Hn", "files")["stdout"]) <= 1 << 20


def test_no_core_is_written(client):
    result = client.exec("ulimit -Hc; cd /tmp; sh -c 'kill -SEGV $$'; ls -A", "core")
    assert result["stdout"] == "0"


@pytest.mark.parametrize("wanted", [0, -1])
def test_limits_that_make_no_sense(client, wanted):
    for member in ("memory_mb", "pids_limit", "cpus", "timeout_sec"):
        error = client.fail("box_exec", {"cmd": "true", "session_id": "x", member: wanted})
        assert error.startswith("BoxValidationError: ") and member in error


def test_a_sleeping_box_can_be_left_alone(client):
    """Background processes survive many other execs and end with the box."""
    mark = nativelib.marker()
    client.exec(f"sleep {mark} &", "still")
    for turn in range(20):
        client.exec("true", f"busy{turn % 3}")
    proclib.find_one(mark)
    client.ask("box_delete_session", {"session_id": "still"})
    boxdlib.wait_until(lambda: not proclib.find(mark), what="the process died")
