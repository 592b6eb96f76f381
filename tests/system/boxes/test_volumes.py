"""Volumes of a session: visible to everything that runs in the session (commands, managed
processes, file actions) and to nothing else.
"""


import pytest

import boxdlib
import filelib
import nativelib

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


class Session:
    """A session with a volume to read and one to write."""

    def __init__(self, client, place, name):
        self.client, self.name = client, name
        self.rw, self.ro = place.make(name, "rw"), place.make(name, "ro")
        place.write(self.ro / "given", "given\n")
        self.spec = {
            "volumes": [
                {"host_path": str(self.rw), "mount_path": "/data", "mode": "rw"},
                {"host_path": str(self.ro), "mount_path": "/workspace/in", "mode": "ro"},
            ]
        }
        client.ask("box_create_session", {"session_id": name, **self.spec})
        self.files = filelib.Files(client, name, **self.spec)

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.client.call("box_delete_session", {"session_id": self.name})

    def start(self, script, name="p", **more):
        spec = {"process_id": name, "command": "sh", "args": ["-c", script], **more}
        return self.client.ask("box_start_managed_process", {"session_id": self.name, "spec": spec})

    def info(self, name="p"):
        asked = {"session_id": self.name, "process_id": name}
        return self.client.ask("box_get_managed_process", asked)

    def ended(self, name="p"):
        boxdlib.wait_until(lambda: self.info(name)["status"] == "exited", 20, f"the end of {name}")
        return self.info(name)


@pytest.fixture
def session(client, place, request):
    with Session(client, place, f"s{request.node.name.split('[')[0][-12:]}") as made:
        yield made


def test_a_managed_process(session):
    script = "cat /workspace/in/given >/data/seen; echo x >/workspace/in/no; echo $? >/data/code"
    session.start(script)
    info = session.ended()
    assert (info["exit_code"], info["end"]["reason"]) == (0, "exit"), info
    assert "Read-only" in info["stderr_preview"]
    assert (session.rw / "seen").read_text() == "given\n"
    assert (session.rw / "code").read_text() != "0\n"
    assert (session.rw / "seen").stat().st_uid == session.rw.stat().st_uid
    assert sorted(path.name for path in session.ro.iterdir()) == ["given"]


def test_one_with_memory_of_its_own(session, place):
    if not nativelib.has_limits(place.mode):
        pytest.skip(nativelib.UNLIMITED)
    session.start("cat /workspace/in/given >/data/seen; exec tail /dev/zero", memory_mb=32)
    assert session.ended()["end"] == {"reason": "memory", "signal": 9}
    assert (session.rw / "seen").read_text() == "given\n"


def test_a_process_whose_volume_is_gone(session, place):
    """The process is not started without the volume; the error names it."""
    (session.ro / "given").unlink()
    session.ro.rmdir()
    info = session.start("echo started >/data/started")
    info = session.ended()
    assert info["exit_code"] == 127 and str(session.ro) in info["stderr_preview"], info
    assert not (session.rw / "started").exists()
    assert "does not exist" in session.files.tell("read", "/data/x")


def test_a_process_is_asked_to_end_at_once(session):
    """Also while the volumes are being opened."""
    for number in range(20):
        session.start("sleep 1000", f"n{number}")
        asked = {"session_id": session.name, "process_id": f"n{number}"}
        assert session.client.ask("box_stop_managed_process", asked) == {"stopped": f"n{number}"}
    result = session.client.exec("pgrep -c sleep", session.name, **session.spec)
    assert result["stdout"].strip() == "0"


def test_file_actions(session):
    files = session.files
    assert files.read("/workspace/in/given") == b"given\n"
    assert files.read("in/given") == b"given\n"
    files.write("/data/new", b"written")
    assert (session.rw / "new").read_bytes() == b"written"
    assert (session.rw / "new").stat().st_uid == session.rw.stat().st_uid
    assert files.names("/data") == ["new"]
    assert files.stat("/data/new")["size"] == 7
    files.mkdir("/data/d")
    files.move("/data/new", "/data/d/moved")
    assert (session.rw / "d" / "moved").read_bytes() == b"written"
    files.remove("/data/d", recursive=True)
    assert list(session.rw.iterdir()) == []
    assert "ead-only" in files.tell("write", "/workspace/in/x", data="y")
    assert files.names("/workspace") == ["in"]


def test_a_watch(session):
    watch = session.files.watch("/data")
    session.files.write("/data/new", b"x")  # by another process, in mounts of its own
    watch.until("/data/new", "created")
    watch.cancel()


def test_a_link_of_a_volume_leads_nowhere_else(session, place):
    secret = place.write(place.folder / "secret", "hidden")
    (session.rw / "out").symlink_to(secret)
    assert "hidden" not in session.files.tell("read", "/data/out")


def test_other_sessions_do_not_see_them(client, place, session):
    client.ask("box_create_session", {"session_id": "other"})
    try:
        assert client.exec("ls -d /data /workspace/in", "other")["exit_code"] != 0
        assert "o such file" in filelib.Files(client, "other").tell("read", "/data/x")
    finally:
        client.call("box_delete_session", {"session_id": "other"})


def test_they_stay_when_box_rpc_dies(place, nothing_left):
    """A running process keeps its mount, the next one gets a new one."""
    with nativelib.dialled(place) as client:
        session = Session(client, place, "kill")
        session.start("while :; do cat /workspace/in/given >>/data/log; sleep 0.05; done", "loop")
        boxdlib.wait_until((session.rw / "log").exists, 10, "it writes")
        client.boxd.kill_worker()
        client.boxd.wait_served(2)
        with client.boxd.web() as again:
            session.client = again
            session.files.client = again
            size = (session.rw / "log").stat().st_size
            boxdlib.wait_until(
                lambda: (session.rw / "log").stat().st_size > size, 10, "it writes on"
            )
            assert session.info("loop")["status"] == "running"
            session.start("cat /workspace/in/given >/data/second", "second")
            assert session.ended("second")["exit_code"] == 0
            assert (session.rw / "second").read_text() == "given\n"
            again.call("box_delete_session", {"session_id": "kill"})
