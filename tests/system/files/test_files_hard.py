"""File actions under stress: large and many files, races with renames, processes that die, slow
readers, and a payload that interferes with the process that does the file work.
"""

import contextlib
import hashlib
import os
import pathlib
import threading
import time

import pytest

import boxdlib
import clientlib
import filelib
import nativelib
from crowdlib import percentile

PIECE = 8 << 20
SIZES = {"short": 40 << 20, "long": 100 << 20}
ENTRIES = {"short": 25_000, "long": 100_000}  # some pages of 10000
SWAP_SECONDS = {"short": 3, "long": 8}


pytestmark = pytest.mark.usefixtures("nothing_left")


# `make soak` runs the tests that use it with larger numbers.
FORMS = pytest.mark.parametrize(
    "form", ["short", pytest.param("long", marks=[pytest.mark.soak, pytest.mark.timeout(300)])]
)


@pytest.fixture(scope="module", params=nativelib.MODES)
def started(request, nothing_left):
    with filelib.started(request.param) as made:
        yield made


@pytest.fixture
def boxd(started):
    return started[0]


@pytest.fixture
def files(boxd):
    with filelib.dialled(boxd, "msgpack") as made:
        yield made


def workers_of_files(boxd):
    """The processes that do file work, as the host sees them."""
    found = []
    for pid in nativelib.descendants(boxd.process.pid):
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "box-file\n":
                found.append(pid)
    return found


# -- large ones


@FORMS
@pytest.mark.parametrize("codec", filelib.CODECS)
def test_a_large_file_both_ways(started, codec, form):
    boxd, place = started
    size = SIZES[form]
    folder = place.make("large", form, codec)
    dice = hashlib.sha256()
    back = hashlib.sha256()
    with filelib.dialled(boxd, codec, "large", host_path=str(folder)) as files:
        for offset in range(0, size, PIECE):
            data = os.urandom(min(PIECE, size - offset))
            dice.update(data)
            assert files.write("big", data, offset=offset)["size"] == offset + len(data)
        assert files.sh("sha256sum <big").split()[0] == dice.hexdigest()
        offset = 0
        while True:
            answer = files.client.ask("box_file_read", files.data("big", offset=offset), 60)
            data = files.bytes_of(answer)
            back.update(data)
            offset += len(data)
            if answer["eof"]:
                break
        assert offset == size == answer["size"] and back.hexdigest() == dice.hexdigest()
    (folder / "big").unlink()


@FORMS
def test_a_folder_of_many(started, form):
    """Page by page, while others are answered."""
    boxd, place = started
    count = ENTRIES[form]
    # The box's memory has room for so many short names; on a disk each would take time.
    where = {"host_path": str(place.make("many"))} if form == "long" else {}
    with filelib.dialled(boxd, "msgpack", "many", **where) as files:
        files.sh(f"seq -f 'name-%06.0f' {count} | shuf | xargs touch", timeout_sec=90)
        waits, done = [], threading.Event()

        def ping():
            with boxd.web() as other:
                while not done.wait(0.01):
                    began = time.monotonic()
                    other.ask("__ping")
                    waits.append(time.monotonic() - began)

        pinging = threading.Thread(target=ping)
        pinging.start()
        found, after = [], ""
        while True:
            page = files.list(".", limit=10000, after=after)
            found += [entry["name"] for entry in page["entries"]]
            after = found[-1]
            if not page["more"]:
                break
        done.set()
        pinging.join()
        assert found == [f"name-{number:06}" for number in range(1, count + 1)]
        assert percentile(waits, 0.9) < 2.0, sorted(waits)
        assert max(waits) < 2.0 + boxdlib.STALL_SECONDS, sorted(waits)[-10:]
        files.remove("/workspace/name-000001")
        files.sh("mkdir t; cp /usr/bin/env t; mv name-* t", timeout_sec=90)
        files.remove("t", recursive=True)
        assert files.names(".") == []


class Held(clientlib.MsgpackWeb):
    """A client that reads nothing until it is released."""

    def __init__(self, *args, **options):
        self.gate = threading.Event()
        super().__init__(*args, **options)

    def _read(self):
        self.gate.wait()
        super()._read()


def await_calm(pid):
    """Waits until the process has not grown for a while: then it has read as much as it will."""
    before, since = boxdlib.rss_kb(pid), time.monotonic()
    end = since + 10
    while time.monotonic() < min(since + 0.7, end):
        time.sleep(0.05)
        if (now := boxdlib.rss_kb(pid)) > before:
            before, since = now, time.monotonic()


def test_many_large_reads_at_once_wait_for_their_reader(boxd, files):
    """320 MiB are requested at once, and the queue of a connection ends at 256."""
    files.sh("head -c 8388608 /dev/urandom > big")
    whole = files.read("big")
    held = Held(boxd)
    try:
        asked = [held.start("box_file_read", files.data("big")) for _ in range(40)]
        await_calm(boxd.worker)
        assert files.read("big", length=100) == whole[:100]
        held.gate.set()
        for seq in asked:
            answer = clientlib.success(held.wait(seq, 60))
            assert answer["eof"] is True and answer["data"] == whole
    finally:
        held.gate.set()
        held.close()
    files.remove("big")


# -- a payload that swaps files

SWAP = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def swap(a, b):
    libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
os.makedirs('/tmp/out/sub')
for path in ('/tmp/out/f', '/tmp/out/sub/f', '/tmp/victim'):
    open(path, 'w').write('outside')
os.chdir('/workspace')
os.makedirs('d/sub')
for path in ('d/f', 'd/sub/f', 'file'):
    open(path, 'w').write('inside')
os.symlink('/tmp/out', 'l')
os.symlink('../../tmp/out/sub', 'd/k')
os.symlink('/tmp/victim', 'v')
os.mkfifo('p')
open('ready', 'w')
while True:
    swap('d', 'l'); swap('d', 'l'); swap('d/sub', 'd/k'); swap('d/sub', 'd/k')
    swap('file', 'v'); swap('file', 'v'); swap('file', 'p'); swap('file', 'p')
"""


@FORMS
def test_nothing_outside_is_reached_by_a_swap(files, form):
    """Folders are replaced by links to the outside while they are walked: nothing outside is read
    or written."""
    client = files.client
    files.write("swap.py", SWAP.encode())
    stream = client.start("box_exec_stream", {"session_id": "s", "cmd": "exec python3 swap.py"})
    boxdlib.wait_until(lambda: "ready" in files.names("."), 20)
    inside = refused = 0
    began = time.monotonic()
    while (took := time.monotonic() - began) < SWAP_SECONDS[form] or (
        took < 30 and (inside <= 50 or refused <= 20)
    ):
        for path in ("d/f", "d/sub/f", "file"):
            answer = client.call("box_file_read", files.data(path))
            if answer["code"] == 0:
                assert answer["data"]["data"] == b"inside"
                inside += 1
            else:
                assert "Error: [E" in answer["message"], answer
                refused += 1
            client.call("box_file_write", files.data(path, data=b"inside", offset=0))
        answer = client.call("box_file_list", files.data("d/sub/"))
        if answer["code"] == 0:
            assert "victim" not in str(answer["data"])
        client.call("box_file_write", files.data("d/sub/new", data=b"n"))
        client.call("box_file_remove", files.data("d/sub/f2", recursive=True))
    assert inside > 50 and refused > 20, (inside, refused)
    client.ask("__cancel_action", {"seq_id": stream})
    assert files.sh("cd /tmp; cat out/f out/sub/f victim; ls -A out out/sub") == (
        "outsideoutsideoutsideout:\nf\nsub\n\nout/sub:\nf"
    )


# -- a payload that interferes


def status(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines)


def inner_pid(boxd):
    """The pid, inside the box, of the process that does the file work."""
    (pid,) = workers_of_files(boxd)
    return status(pid)["NSpid"].split()[-1]


RIGHTS = ("Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")


def test_the_process_has_no_more_rights_than_a_command(started):
    """Its ids, capabilities, filter and fds; and no process in the box can inspect it."""
    boxd, _ = started
    with filelib.dialled(boxd) as files:
        files.watch("/workspace")
        (pid,) = workers_of_files(boxd)
        sleep = nativelib.marker()
        files.sh(f"sleep {sleep} >/dev/null 2>&1 &")
        (other,) = [
            one
            for one in nativelib.descendants(boxd.process.pid)
            if sleep in pathlib.Path(f"/proc/{one}/cmdline").read_text()
        ]
        assert {key: status(pid)[key] for key in RIGHTS} == {
            key: status(other)[key] for key in RIGHTS
        }
        assert status(pid)["CapEff"] == "0" * 16 and status(pid)["Seccomp"] == "2"
        fds = {os.readlink(fd).split(":")[0] for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
        assert fds <= {"/dev/null", "pipe", "anon_inode", "/workspace", "/"}, fds
        inner = inner_pid(boxd)
        for secret in ("mem", "environ", "maps", "fd/1", "root/etc/passwd", "cwd/etc/passwd"):
            told = files.client.exec(f"head -c 1 /proc/{inner}/{secret} && echo got")
            assert "got" not in told["stdout"], secret
            told = files.client.exec(f"echo x >/proc/{inner}/{secret}")
            assert told["exit_code"] != 0, secret


def test_a_payload_ends_or_stops_it(boxd, files):
    watch = files.watch("/workspace")
    inner = inner_pid(boxd)
    files.sh(f"kill -STOP {inner}")
    files.write("a", b"others go on")
    assert files.read("a") == b"others go on"
    files.sh(f"kill -9 {inner}")
    told = clientlib.failure(files.client.wait(watch.seq))
    assert told == "BoxError: the process of the file operation ended (exit code 137)"
    assert files.read("a") == b"others go on"


# -- watches under load

CHANGES = """
import os
os.chdir('/workspace/w')
for number in range(COUNT):
    with open(f'f{number}', 'w') as file:
        file.write('x')
open('last', 'w').close()
"""


# How often how many files are made. A slow client misses events at 10000: the kernel queues 16384
# events, of which each file causes several.
QUICK = {
    (False, "short"): (1, 3000),
    (True, "short"): (1, 10000),
    (False, "long"): (1, 10000),
    (True, "long"): (6, 10000),
}


@FORMS
@pytest.mark.parametrize("slow", [False, True])
def test_quick_changes(boxd, slow, form):
    """Every event arrives, or the loss of some is reported; also to a client that reads slowly."""
    times, count = QUICK[slow, form]
    with filelib.dialled(boxd, "msgpack", "quick") as files:
        files.mkdir("w")
        files.write("c.py", CHANGES.replace("COUNT", str(count)).encode())
        watch = files.watch("w", flow=True)
        if slow:
            files.sh(f"for i in $(seq {times}); do python3 c.py; rm w/*; done")
        else:
            files.sh("python3 c.py &")
        seen, overflow, last = set(), False, False
        while not last:
            event = watch.take()
            if event["event"] == "overflow":
                overflow = True
                last = slow
            else:
                seen.add(event["path"])
                last = not slow and event["path"] == "/workspace/w/last"
        assert overflow or len(seen) == count + 1
        files.write("w/after", b"x")
        while watch.take().get("path") != "/workspace/w/after":
            pass
        watch.cancel()


# -- ends


def test_a_session_that_is_deleted_meanwhile(boxd):
    """By a second client, since a client that receives much does not read answers to its own
    requests."""
    with filelib.CODECS["msgpack"](boxd) as client, filelib.CODECS["msgpack"](boxd) as writer:
        client.ask("box_create_session", {"session_id": "gone"})
        files = filelib.Files(client, "gone")
        watch = files.watch("/workspace")
        files.sh("head -c 60000000 /dev/zero >big")
        asked = [
            client.start("box_file_read", files.data("big", offset=n * PIECE)) for n in range(7)
        ]
        write = writer.start("box_file_write", files.data("x", data=bytes(15 << 20)))
        assert writer.ask("box_delete_session", {"session_id": "gone"}) == {"deleted": "gone"}
        for seq in [watch.seq, *asked]:
            answer = client.wait(seq)
            while seq == watch.seq and answer["code"] == 0:
                answer = client.wait(seq)
            assert answer["code"] == 0 or "was removed while it was in use" in answer["message"]
        answer = writer.wait(write)
        assert answer["code"] == 0 or "was removed while it was in use" in answer["message"]
        told = client.fail("box_file_stat", files.data("."))
        assert told.startswith("BoxSessionNotFoundError: ")
    assert workers_of_files(boxd) == []


def test_a_connection_that_ends_meanwhile(started):
    """No half-written file is left, and no process."""
    boxd, place = started
    folder = place.make("half")
    spec = {"session_id": "half", "host_path": str(folder)}
    for _ in range(5):
        with filelib.CODECS["msgpack"](boxd) as client:
            client.ask("box_create_session", spec)
            files = filelib.Files(client, "half")
            files.write("a", b"old")
            files.watch(".")
            client.start("box_file_write", files.data("a", data=bytes(15 << 20)))
            client.socket.socket.shutdown(2)
        boxdlib.wait_until(lambda: not workers_of_files(boxd), 10)
        found = set(os.listdir(folder))
        assert found == {"a"} and (folder / "a").stat().st_size in (3, 15 << 20), found
    with filelib.CODECS["msgpack"](boxd) as client:
        client.ask("box_delete_session", {"session_id": "half"})


def test_kill_of_box_rpc(started):
    """Requests in flight end, leave nothing behind, and the files are there."""
    boxd, place = started
    folder = place.make("killed")
    spec = {"session_id": "killed", "host_path": str(folder)}
    with filelib.CODECS["msgpack"](boxd) as client:
        client.ask("box_create_session", spec)
        files = filelib.Files(client, "killed")
        files.write("a", b"old")
        files.watch(".", recursive=True)
        client.start("box_file_write", files.data("a", data=bytes(15 << 20)))
        served = len(boxd.events("serving"))
        boxd.kill_worker()
    boxd.wait_served(served + 1)
    with filelib.CODECS["msgpack"](boxd) as client:
        files = filelib.Files(client, "killed")
        assert files.stat("a")["size"] in (3, 15 << 20)
        assert files.names(".") == ["a"]
        boxdlib.wait_until(lambda: not workers_of_files(boxd), 10)
        files.write("a", b"new")
        assert (folder / "a").read_bytes() == b"new"
        client.ask("box_delete_session", {"session_id": "killed"})


def test_only_so_much_at_once(files):
    """Too many are refused with an error, and the others keep working."""
    files.sh("head -c 1000000 /dev/zero >big")
    asked = [files.client.start("box_file_read", files.data("big")) for _ in range(100)]
    answers = [files.client.wait(seq, 60) for seq in asked]
    told = {answer["message"] for answer in answers if answer["code"] != 0}
    good = [answer for answer in answers if answer["code"] == 0]
    assert len(good) >= 64 and all(len(answer["data"]["data"]) == 1000000 for answer in good)
    assert len(told) <= 1 and all("BoxCapacityExceededError" in text for text in told), told


# -- the strict filter


def test_the_strict_filter():
    """All actions but watches, for which the filter lacks the system calls: the error says so."""
    with filelib.started("root", "local:\n  seccomp: strict\n") as (boxd, _):
        with filelib.dialled(boxd) as files:
            files.write("d/a", b"x" * 100000, parents=True)
            assert files.read("d/a") == b"x" * 100000
            files.write("d/a", b"new")
            assert files.names("d") == ["a"] and files.stat("d/a")["size"] == 3
            files.move("d", "e")
            told = files.tell("watch", "e")
            assert told.startswith("BoxBackendUnavailableError: [ENOSYS] /workspace/e: cannot be")
            files.remove("e", recursive=True)
            assert files.names(".") == []
