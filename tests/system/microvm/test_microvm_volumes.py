"""Volumes of a session in a microVM work as in native boxes (test_volumes.py)."""

import pytest

import boxdlib
import filelib
import microvmlib
from microvmlib import SECONDS

pytestmark = [
    pytest.mark.microvm,
    pytest.mark.whole,
    pytest.mark.usefixtures("nothing_left"),
]


@pytest.fixture(scope="module", params=["root", "rootless"])
def runtime(nothing_left, request):
    with microvmlib.Place(request.param) as place, microvmlib.Runtime(place) as made:
        yield made


def test_all_that_runs_sees_them(runtime):
    rw, ro = runtime.place.make("rw"), runtime.place.make("ro")
    runtime.place.write(ro / "given", "given\n")
    volumes = [
        {"host_path": str(rw), "mount_path": "/data", "mode": "rw"},
        {"host_path": str(ro), "mount_path": "/workspace/in", "mode": "ro"},
    ]
    spec = {"volumes": volumes}
    ask = runtime.client.ask
    assert runtime.out("cat /workspace/in/given; echo x >/data/one", **spec) == "given"
    assert (rw / "one").read_text() == "x\n"

    script = "cat /workspace/in/given >/data/two; (echo x >/workspace/in/no); cat; : >/data/three"
    process = {"process_id": "p", "command": "sh", "args": ["-c", script]}
    ask("box_start_managed_process", {"session_id": "main", "spec": process}, SECONDS)
    boxdlib.wait_until((rw / "two").exists, SECONDS, "it writes")
    # Another command comes and goes with its own mounts; those of the process stay.
    assert runtime.out("cat /workspace/in/given", **spec) == "given"
    runtime.boxd.kill_worker()
    runtime.boxd.wait_served(2)
    runtime.client.close()
    runtime.client = runtime.dial()
    ask = runtime.client.ask
    assert runtime.out("cat /workspace/in/given", **spec) == "given"

    files = filelib.Files(runtime.client, "main")
    assert files.read("/data/two") == b"given\n"
    assert files.names("/workspace") == ["in"]
    files.write("/data/four", b"written")
    assert (rw / "four").read_bytes() == b"written"
    assert "ead-only" in files.tell("write", "/workspace/in/x", data="y")
    assert [path.name for path in ro.iterdir()] == ["given"]

    stopped = {"session_id": "main", "process_id": "p"}
    assert ask("box_stop_managed_process", stopped, SECONDS) == {"stopped": "p"}
    assert not (rw / "three").exists()
    limited = {"process_id": "q", "command": "sh", "args": ["-c", script], "memory_mb": 32}
    (rw / "two").unlink()
    ask("box_start_managed_process", {"session_id": "main", "spec": limited}, SECONDS)
    boxdlib.wait_until((rw / "two").exists, SECONDS, "the limited one writes")
    assert runtime.run("true", "other")["exit_code"] == 0
    assert runtime.run("ls /data", "other")["exit_code"] != 0
    runtime.delete("other")
