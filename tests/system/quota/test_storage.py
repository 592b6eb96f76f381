"""box_get_storage_analysis: how much the folder and the boxes of a workspace hold.

Measured from outside, whatever the boxes do meanwhile. As root and as an ordinary user.
"""

import json
import os
import subprocess
import time

import pytest

import boxdlib
import clientlib
import nativelib
import testpaths
from storagelib import (  # noqa: F401
    ACTION,
    BOX_KEYS,
    HOST_KEYS,
    NOTHING,
    PAGE,
    analyse,
    box,
    children_of,
    local,
    make_tenant,
    numbers,
    pages,
    place,
    run,
    sizes,
    tenant,
)

# The answer.


def test_without_a_workspace_and_sessions(client):
    """Over both transports, without configuration."""
    assert client.ask(ACTION) == {
        "size_bytes": 0,
        "directories": [],
        "active_sessions": 0,
        "managed_processes": 0,
    }


def test_backend_that_measures_nothing(dial):
    box = dial().init(local={"host_root": "r"})
    box.exec("echo x", "a")
    box.exec("echo x", "b")
    answer = analyse(box)
    assert answer["active_sessions"] == 2
    for key, path in zip(BOX_KEYS, ("/workspace", "/root/.cache", "/tmp")):
        assert answer["directories"][key]["path"] == f"{path} (2 sandbox sessions)"
        assert numbers(answer, key) == NOTHING


def test_empty_workspace(box):
    """The folder of a workspace is created with its first file."""
    answer = analyse(box)
    top = str(tenant(box.place))
    paths = [one["path"] for one in answer["directories"].values()]
    assert paths == [top, top + "/.mcp", top + "/inbox", top + "/outbox"]
    assert [numbers(answer, key) for key in HOST_KEYS] == [NOTHING] * 4
    assert (answer["size_bytes"], answer["active_sessions"]) == (0, 0)


def test_no_default_workspace_any_more(box):
    """The folder that was created first may be gone, or be something else."""
    (box.place.work / "default").rmdir()
    assert analyse(box)["directories"] == {}
    box.place.write(box.place.work / "default", "text")
    assert analyse(box)["directories"] == {}


def test_folder(box):
    top = make_tenant(
        box.place,
        {".mcp/a": 100, ".mcp/d/b": 20, "inbox/c": 3000, "d/e/f": 50000, "g": 1, "d/inbox/h": 7},
    )
    make_tenant(box.place, {"inbox/theirs": 999}, "ws2")
    (top / "to-root").symlink_to("/")
    (top / "outbox").symlink_to("/usr")
    os.mkfifo(top / "inbox" / "fifo")
    answer = analyse(box)
    whole = 100 + 20 + 3000 + 50000 + 1 + 7 + len("/") + len("/usr")
    assert numbers(answer, "workspace") == (True, whole, 9, 0)
    assert numbers(answer, "mcp") == (True, 120, 2, 0)
    assert numbers(answer, "inbox") == (True, 3000, 2, 0)
    assert numbers(answer, "outbox") == (True, 4, 1, 0)
    assert answer["size_bytes"] == whole
    theirs = analyse(box, context=clientlib.context("ws2"))
    assert numbers(theirs, "workspace") == (True, 999, 1, 0)


def test_folder_behind_links(box):
    """Neither the folder nor any folder on the way from the default workspace may be a link."""
    real = box.place.make("elsewhere")
    (real / "secret").write_text("x" * 500)
    top = tenant(box.place)
    top.parent.mkdir()
    top.symlink_to(real)
    assert numbers(analyse(box), "workspace") == (True, len(str(real)), 1, 0)
    top.unlink()
    top.parent.rmdir()
    top.parent.symlink_to(real)
    (real / top.name).mkdir()
    (real / top.name / "file").write_text("x" * 500)
    assert numbers(analyse(box), "workspace") == (False, 0, 0, 1)


def test_boxes(box):
    """Sums over the sessions of the placement, in blocks."""
    for number, session in enumerate(("a", "b"), 1):
        run(
            box,
            f"head -c {10000 * number} /dev/zero >/tmp/t;"
            f"mkdir -p ~/.cache/x/y; head -c {70000 * number} /dev/zero >~/.cache/x/y/c;"
            f"head -c {200000 * number} /dev/zero >/workspace/w; ln -s /usr /workspace/link;"
            "mkfifo ~/.cache/fifo; echo x >~/not-cached",
            session,
        )
    answer = analyse(box)
    assert answer["active_sessions"] == 2
    assert numbers(answer, "session_workspaces") == (True, pages(200000, 400000), 2, 0)
    assert numbers(answer, "session_caches") == (True, pages(70000, 140000), 2, 0)
    assert numbers(answer, "session_temp") == (True, pages(10000, 20000), 2, 0)
    elsewhere = analyse(box, context=clientlib.context("ws2"))
    assert (elsewhere["active_sessions"], set(elsewhere["directories"])) == (0, set(HOST_KEYS))
    newer = analyse(box, context=clientlib.context(generation=2))
    assert (newer["active_sessions"], set(newer["directories"])) == (0, set(HOST_KEYS))


def test_new_box(box):
    run(box, "true")
    answer = analyse(box)
    assert numbers(answer, "session_workspaces") == (True, 0, 0, 0)
    assert numbers(answer, "session_caches") == NOTHING
    assert numbers(answer, "session_temp") == (True, 0, 0, 0)


def test_workspace_of_the_host_counts_as_folder(box):
    """And so does what such a mount hides."""
    top = make_tenant(box.place, {"inbox/a": 30})
    write = "head -c 5000 /dev/zero >"
    run(box, f"{write}/workspace/b; {write}/tmp/c", "plain", host_path=str(top))
    other = box.place.make("other")
    run(box, f"{write}/tmp/d", "tmp", host_path=str(other), mount_path="/tmp")
    home = box.place.make("home-of-box")
    run(
        box,
        f"mkdir /home/box/.cache; {write}/home/box/.cache/e",
        "home",
        host_path=str(home),
        mount_path="/home/box",
    )
    answer = analyse(box)
    assert numbers(answer, "workspace") == (True, 5030, 2, 0)
    assert numbers(answer, "session_workspaces") == NOTHING
    assert numbers(answer, "session_caches") == NOTHING
    assert numbers(answer, "session_temp") == (True, pages(5000), 1, 0)


@pytest.mark.parametrize(
    ("mount_path", "expected"),
    [
        # workspaces, caches, temp
        ("/data", [pages(9000), pages(7000), pages(5000)]),
        ("/tmp", [pages(9000) + pages(5000), pages(7000), 0]),
        ("/tmp/deep/er", [pages(9000), pages(7000), pages(5000)]),
        ("/home/box", [pages(9000), pages(7000), pages(5000)]),
    ],
)
def test_nothing_is_counted_twice(box, mount_path, expected):
    run(
        box,
        f"head -c 9000 /dev/zero >{mount_path}/w; head -c 5000 /dev/zero >/tmp/t;"
        "mkdir ~/.cache; head -c 7000 /dev/zero >~/.cache/c",
        mount_path=mount_path,
    )
    answer = analyse(box)
    assert sizes(answer) == expected
    assert answer["size_bytes"] == pages(9000, 7000, 5000)


# Hostile boxes.


def test_sizes_that_are_not_there(box):
    """Holes take no blocks; hard links count once."""
    run(
        box,
        "mkdir ~/.cache; cd ~/.cache; truncate -s 1T hole; head -c 1000000 /dev/zero >file;"
        "for i in $(seq 200); do ln file $i; done; truncate -s 1T /tmp/hole /workspace/hole",
    )
    answer = analyse(box)
    assert sizes(answer) == [0, pages(1000000), 0]


def test_cache_that_is_none(box):
    run(box, "ln -s / ~/.cache", "link")
    run(box, "mkfifo ~/.cache", "fifo")
    run(box, "head -c 5000 /dev/zero >~/.cache", "file")
    run(box, "ln -s /proc/1/root ~/.cache", "magic")
    run(box, "mkdir -p ~/.cache/a; echo x >~/.cache/a/b; chmod 0 ~/.cache/a ~/.cache", "shut")
    answer = analyse(box)
    assert numbers(answer, "session_caches") == (True, pages(5000, 2), 2, 0)
    assert answer["directories"]["session_caches"]["path"] == "/root/.cache (5 sandbox sessions)"


def test_busy_sessions_are_measured(box):
    """Neither a running command nor a stopped process delays the answer."""
    busy = [
        box.start("box_exec", {"cmd": "echo x >/tmp/x; kill -STOP 0; sleep 60", "session_id": "a"}),
        box.start("box_exec", {"cmd": "echo x >/tmp/x; while :; do :; done", "session_id": "b"}),
    ]
    boxdlib.wait_until(lambda: sizes(analyse(box))[2] == pages(1, 1), what="both have begun")
    started = time.monotonic()
    analyse(box)
    assert time.monotonic() - started < 5
    assert not any(map(box.has_answer, busy))
    for session in ("a", "b"):
        box.ask("box_delete_session", {"session_id": session})


# Folders and links replace each other, in all three places at once.
SWAP = r"""
import os
for top in ("/tmp", os.path.expanduser("~/.cache"), "/workspace"):
    os.makedirs(top + "/real/a/b", exist_ok=True)
    open(top + "/real/a/b/file", "w").write("x" * 3000)
names = ["real/a", "real", "real/a/b"]
while True:
    for top in ("/tmp", os.path.expanduser("~/.cache"), "/workspace"):
        for name in names:
            for target in ("/", "/usr", "../../..", "/proc/1/root", "."):
                try:
                    os.rename(f"{top}/{name}", top + "/away")
                    os.symlink(target, f"{top}/{name}")
                    os.unlink(f"{top}/{name}")
                    os.rename(top + "/away", f"{top}/{name}")
                except OSError:
                    pass
"""


def test_swapped_folders(box):
    """Measured 200 times while the box replaces folders by links to the outside."""
    run(box, f"cat >/workspace/swap.py <<'END'\n{SWAP}\nEND\nmkdir ~/.cache")
    swap = {"cmd": "python3 /workspace/swap.py", "session_id": "s", "timeout_sec": 100}
    seq = box.start("box_exec", swap)
    boxdlib.wait_until(lambda: min(sizes(analyse(box))) > 0, what="it has begun")
    most = [pages(3000, 3000, len(SWAP) + 2), pages(3000), pages(3000)]
    for _ in range(200):
        answer = analyse(box)
        assert all(one["error_count"] == 0 for one in answer["directories"].values())
        assert all(size <= limit for size, limit in zip(sizes(answer), most)), answer
    assert not box.has_answer(seq)
    box.ask("box_delete_session", {"session_id": "s"})


def test_swapped_host_folder(box):
    """The same in the workspace's folder, where a box may write."""
    top = make_tenant(box.place, {"inbox/a/b/file": 3000, "inbox/c": 20})
    names = "inbox/a inbox inbox/a/b"
    loop = (
        f"cd /workspace; while :; do for n in {names}; do for t in / /usr .. /proc/1/root; do"
        " mv -T $n away; ln -s $t $n; rm -f $n; mv -T away $n; done; done; done 2>/dev/null"
    )
    seq = box.start(
        "box_exec",
        {"cmd": loop, "session_id": "s", "host_path": str(top), "timeout_sec": 100},
    )
    boxdlib.wait_running(box)
    for _ in range(200):
        exists, size, files, errors = numbers(analyse(box), "workspace")
        # A folder that moves during the walk may count twice.
        assert exists and size <= 2 * 3100 and files <= 8 and errors == 0
    assert not box.has_answer(seq)
    box.ask("box_delete_session", {"session_id": "s"})


def test_boxes_that_end_meanwhile(box):
    """Every answer is complete: each box is either measured, or counted as one that could not be."""
    for _ in range(8):
        for number in range(6):
            run(box, "echo x >/tmp/x", str(number))
        asked = [box.start(ACTION) for _ in range(4)]
        ending = [box.start("box_delete_session", {"session_id": str(n)}) for n in range(6)]
        asked += [box.start(ACTION) for _ in range(4)]
        for seq in asked:
            answer = clientlib.success(box.wait(seq))
            temp = [one for one in answer["directories"] if one["key"] == "session_temp"]
            for one in temp:
                count = int(one["path"].split("(")[1].split()[0])
                assert count + one["error_count"] == answer["active_sessions"]
                assert one["size_bytes"] == count * PAGE
            assert temp or answer["active_sessions"] == 0
        for seq in ending:
            clientlib.success(box.wait(seq))
    assert analyse(box)["active_sessions"] == 0


# Many requests, and missing boxes.


def test_many_at_once(box):
    for number in range(8):
        run(box, "echo x >/tmp/x", str(number))
    seqs = [box.start(ACTION) for _ in range(40)]
    for seq in seqs:
        answer = clientlib.success(box.wait(seq, 60))
        assert answer["size_bytes"] == 8 * PAGE and answer["active_sessions"] == 8


def test_asked_and_left(place):
    """The request of a client that disconnects is dropped, and the next one is served."""
    with nativelib.dialled(place, config=local(place)) as box:
        for number in range(6):
            run(box, "echo x >/tmp/x", str(number))
        for _ in range(20):
            with box.boxd.web() as gone:
                for _ in range(10):
                    gone.start(ACTION)
        seq = box.start(ACTION)
        assert box.ask("__cancel_action", {"seq_id": seq}) in (
            {"cancelled": True},
            {"cancelled": False},
        )
        assert analyse(box)["size_bytes"] == 6 * PAGE


def test_box_rpc_dies_meanwhile(place):
    """A successor measures the same boxes, and no child of the old requests is left."""
    with nativelib.dialled(place, config=local(place)) as box:
        run(box, "echo x >/tmp/x")
        # One box, and the watcher where there are cgroups.
        stay = children_of(box.boxd.pid) - {box.boxd.worker}
        assert len(stay) in (1, 2)
        for _ in range(10):
            box.start(ACTION)
        box.boxd.kill_worker()
        box.closed()
        box.boxd.wait_served(2)
        with box.boxd.web() as again:
            assert analyse(again)["size_bytes"] == PAGE
            boxdlib.wait_until(
                lambda: children_of(box.boxd.pid) == stay | {box.boxd.worker},
                what="what was there before, and a new box-rpc",
            )


SCRIPT = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from client_script import Drive

class Storage(Drive):
    async def storage(self):
        await self.client.init(self.wanted["config"])
        await self.execute("echo x >/tmp/x")
        self.results["storage"] = await self.client.get_storage_analysis(self.context())

print(json.dumps(asyncio.run(Storage(json.loads(sys.argv[2])).run())))
"""


def test_real_client(place):
    """langbot-plugin 0.7.18; older clients do not know the action."""
    wanted = {
        "carrier": "stdio",
        "instance": clientlib.INSTANCE,
        "scenario": "storage",
        "command": place.command("-s", "--ws-control-port", "0"),
        "env": place.environment(LANGBOT_BOX_TRUSTED_INSTANCE_UUID=clientlib.INSTANCE),
        "config": {"backend": "local", **local(place)},
    }
    here = str(testpaths.SCRIPTS)
    python = os.path.join(os.environ["BOX_VENV_NEW"], "bin", "python")
    done = subprocess.run(
        [python, "-c", SCRIPT, here, json.dumps(wanted)],
        cwd=place.work,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer = json.loads(done.stdout)["storage"]
    assert [one["key"] for one in answer["directories"]] == HOST_KEYS + BOX_KEYS
    assert (answer["size_bytes"], answer["active_sessions"]) == (PAGE, 1)
    assert answer["directories"][-1]["path"] == "/tmp (1 sandbox sessions)"
