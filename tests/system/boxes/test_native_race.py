"""Host folders that are swapped while boxes mount them: nothing outside the mount roots is reached.

swap_racer.c replaces the requested folder and its parents with links to /etc, with a victim folder
outside the operator's mount roots, with other folders, or with nothing.
"""

import contextlib
import hashlib
import os
import pathlib
import subprocess
import threading

import pytest

from boxdlib import build, fast_build
from leftoverlib import HostState, Traces, compile_program, native_boxd, needs_root

pytestmark = needs_root

THREADS = 3
PATHS = ("top", "top/mid", "top/mid/leaf")
SECRET = "the-secret-of-the-victim"
# Prints what is there, and writes wherever it can. A link below the mounted folder leads to what
# the box itself has at that path: its own /etc, not the victim.
CMD = (
    "for d in {places}; do ls -a $d $d/*/ $d/*/*/;"
    " cat $d/secret $d/*/secret $d/*/*/secret $d/shadow $d/*/shadow;"
    " for e in $d $d/* $d/*/*; do [ -d $e ] && echo box >$e/made-by-box; done; done 2>/dev/null;"
    " true"
)
VICTIM_WORDS = {"secret", "writable", SECRET}
REFUSALS = (
    "is blocked for security",
    "is outside allowed_mount_roots",
    "does not exist",
    "cannot be opened",
    "is a link, and none is followed below allowed_mount_roots",
)


def tree_hash(folder, contents):
    """Names, kinds, owners, times and, where asked for, contents of everything below."""
    digest = hashlib.sha256()
    for path, names, files in os.walk(folder):
        names.sort()
        for name in sorted([*names, *files, "."]):
            whole = os.path.join(path, name)
            status = os.lstat(whole)
            fields = (whole, status.st_mode, status.st_uid, status.st_gid, status.st_nlink)
            times = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            digest.update(repr((*fields, *times)).encode())
            if contents and os.path.isfile(whole) and not os.path.islink(whole):
                digest.update(pathlib.Path(whole).read_bytes())
    return digest.hexdigest()


class Racer:
    """The running program; `turns` is set when it has ended."""

    def __init__(self, program, arena, victim):
        self.process = subprocess.Popen(
            [program, arena, victim], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        out, _ = self.process.communicate(timeout=10)
        assert self.process.returncode == 0
        self.turns = int(out)


class Tally:
    """Results of the attempts, from all threads."""

    def __init__(self, wanted, forbidden):
        self._lock = threading.Lock()
        self.left = wanted
        self.forbidden = forbidden
        self.made = 0
        self.refused = 0
        self.mounted = 0
        self.not_mounted = 0
        self.wrong = []

    def next(self):
        with self._lock:
            self.left -= 1
            return self.left if self.left >= 0 and not self.wrong else None

    def count(self, answer, good, bad):
        with self._lock:
            if answer["code"] == 0:
                setattr(self, good, getattr(self, good) + 1)
                self._look_at(answer["data"]["stdout"])
            elif any(text in answer["message"] for text in REFUSALS):
                setattr(self, bad, getattr(self, bad) + 1)
            else:
                self.wrong.append(answer)

    def _look_at(self, text):
        """Nothing of the victim, and nothing that only the host's /etc has."""
        seen = self.forbidden & set(text.splitlines())
        if seen:
            self.wrong.append(sorted(seen))


def host_words(boxd):
    """Names that the host's /etc has and a box's has not, and the contents of its shadow file."""
    with boxd.web() as client:
        own = client.exec("ls -aRL /etc", "look")["stdout"].splitlines()
        client.ask("box_delete_session", {"session_id": "look"})
    words = set(os.listdir("/etc")) - set(own)
    assert "shadow" in words
    return words | set(pathlib.Path("/etc/shadow").read_text().splitlines())


def attempt(client, arena, number, tally):
    """A box with a host folder, and a command in it with two mounts of its own."""
    path = str(arena / PATHS[number % 3])
    other = str(arena / PATHS[number // 3 % 3])
    session = f"race-{number % 1000}"
    spec = {"session_id": session, "host_path": path, "timeout_sec": 20}
    answer = client.call("box_exec", {**spec, "cmd": CMD.format(places="/workspace")}, 30)
    tally.count(answer, "made", "refused")
    if answer["code"] == 0:
        mounts = [
            {"host_path": other, "mount_path": "/data", "mode": "rw"},
            {"host_path": path, "mount_path": "/more", "mode": "ro"},
        ]
        data = {**spec, "cmd": CMD.format(places="/data /more"), "extra_mounts": mounts}
        tally.count(client.call("box_exec", data, 30), "mounted", "not_mounted")
        client.ask("box_delete_session", {"session_id": session}, 30)


def work(boxd, arena, tally):
    try:
        with boxd.web() as client:
            while (number := tally.next()) is not None:
                attempt(client, arena, number, tally)
    except Exception as error:  # pylint: disable=broad-except
        tally.wrong.append(repr(error))


def make_victim(folder):
    """A tree with the same names as in the arena, so that a swapped parent leads to something."""
    leaf = folder / PATHS[-1]
    leaf.mkdir(parents=True)
    for path in (folder, *(folder / name for name in PATHS)):
        (path / "secret").write_text(f"{SECRET}\n")
        (path / "writable").mkdir()
        (path / "writable").chmod(0o777)
        path.chmod(0o777)


@contextlib.contextmanager
def untouched(victim):
    """Neither the victim nor /etc was changed."""
    before = tree_hash(victim, True), tree_hash("/etc", False)
    yield
    assert (tree_hash(victim, True), tree_hash("/etc", False)) == before


def check_race(tmp_path, creations, programs):
    racer_program = compile_program("swap_racer.c", tmp_path / "swap_racer")
    victim, arena = tmp_path / "victim", tmp_path / "arena"
    make_victim(victim)
    arena.mkdir()
    host = HostState()
    config = {"local": {"allowed_mount_roots": [str(arena)]}}
    options = {"programs": programs, "config": config, "mount_roots": ()}
    with untouched(victim), native_boxd(tmp_path, **options) as boxd:
        traces = Traces(boxd, host)
        tally = Tally(creations, VICTIM_WORDS | host_words(boxd))
        with Racer(racer_program, arena, victim) as racer:
            threads = [
                threading.Thread(target=work, args=(boxd, arena, tally), daemon=True)
                for _ in range(THREADS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert tally.wrong == [], boxd.tail()
        assert len(boxd.workers()) == 1, boxd.tail()
        traces.check_boxes(0)
    traces.check_gone()
    print(
        f"{creations} creations, {racer.turns} turns of the racer: {tally.made} made, "
        f"{tally.refused} refused; {tally.mounted} mounted, {tally.not_mounted} not"
    )
    assert tally.made + tally.refused == creations
    assert tally.mounted + tally.not_mounted == tally.made
    # Both must have happened, else there was no race.
    for number in (tally.made, tally.refused, tally.mounted, tally.not_mounted):
        assert number > creations // 50
    assert racer.turns > creations


@pytest.mark.timeout(120)
def test_swap_race(tmp_path):
    check_race(tmp_path, 300, build())


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_swap_race_10000_times(tmp_path):
    check_race(tmp_path, 10000, fast_build())
