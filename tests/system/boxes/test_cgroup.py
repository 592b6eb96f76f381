"""Cgroups of boxes on this host, driven by tests/drivers/cgroup_driver.c: limits hold, and nothing
is left behind.
"""

import errno
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import boxdlib
import pytest

MIB = 1 << 20
CGROUP_PARENT = re.compile(r"box-[0-9a-f]{16}")

pytestmark = pytest.mark.skipif(not boxdlib.ROOT, reason="making cgroups needs root here")


def program():
    found = [path for path in sorted(boxdlib.build().rglob("cgroup_driver")) if path.is_file()]
    assert found, f"no cgroup_driver in {boxdlib.build()}"
    return found[0]


def alive(pid):
    """A zombie counts as dead: its parent may never reap it."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def launch(*command, **options):
    return subprocess.Popen(
        command or [str(program())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=boxdlib.environment(),
        **options,
    )


class Owner:
    """cgroup_driver, which owns cgroup parents. ask() sends it a command and returns the words of the
    answer."""

    def __init__(self, *command, **options):
        self.process = launch(*command, **options)
        self.mode, _, self.why = self.ask_line("mode").partition(" ")
        self.parents = self.find_parents()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        self.process.stdout.close()

    def ask_line(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, command):
        return self.ask_line(command).split()

    def make(self, name, memory=0, pids=0, cpu=0):
        assert self.ask(f"make {name} {memory} {pids} {cpu}") == ["ok"]

    def start(self, name, what, amount=0):
        word, pid = self.ask(f"start {name} {what} {amount}")
        assert word == "pid"
        return int(pid)

    def wait(self, pid):
        how, number, cpu_us = self.ask(f"wait {pid}")
        return how, int(number), int(cpu_us)

    def kills(self, name):
        return int(self.ask(f"kills {name}")[1])

    def part(self, name, number, mib):
        assert self.ask(f"part make {name} {number} {mib}") == ["ok"]

    def start_in(self, name, number, what, amount=0):
        word, pid = self.ask(f"part start {name} {number} {what} {amount}")
        assert word == "pid"
        return int(pid)

    def part_kills(self, name, number):
        """Kills in the part, in its box, and in the rest of the box."""
        return tuple(map(int, self.ask(f"part kills {name} {number}")[1:]))

    def remove(self, name):
        assert self.ask(f"remove {name}")[0] == "removed"

    def find_parents(self):
        """Found by its fds, because other owners may be at work on this host."""
        folder = pathlib.Path(f"/proc/{self.process.pid}/fd")
        places = {pathlib.Path(os.readlink(fd)) for fd in folder.iterdir()}
        return sorted(place for place in places if CGROUP_PARENT.fullmatch(place.name))

    def files(self, box):
        """The values of a box's limit files, by name."""
        return {
            path.name: path.read_text().strip()
            for parent in self.parents
            for path in (parent / box).iterdir()
            if path.name.startswith(("memory.", "pids.", "cpu."))
            and path.stat().st_mode & 0o600 == 0o600
        }

    def pids(self, box):
        """In version 2 also those in cgroups below; in version 1 every process is in the box's own
        cgroup."""
        names = (f"{box}/cgroup.procs", f"{box}/*/cgroup.procs")
        paths = [path for parent in self.parents for name in names for path in parent.glob(name)]
        lists = [path.read_text() for path in paths]
        return {int(pid) for text in lists for pid in text.split()}


@pytest.fixture
def owner():
    with Owner() as started:
        if started.mode == "none":
            pytest.skip(f"no limits can be set on this host: {started.why}")
        yield started
    assert started.process.returncode == 0
    assert [parent for parent in started.parents if parent.exists()] == []


def test_cgroup_parents_are_there_while_their_owner_lives(owner):
    assert owner.why == ""
    assert len(owner.parents) == {"v1": 3, "v2": 1}[owner.mode]
    for parent in owner.parents:
        assert parent.stat().st_mode & 0o777 == 0o700


def test_limits_are_what_was_asked_for(owner):
    owner.make("small", memory=50_000_001, pids=17, cpu=5)
    owner.make("large", memory=512 * MIB, pids=4_000, cpu=1_500)
    owner.make("free")
    expected = {
        "v1": {
            "small": ("memory.limit_in_bytes", "49999872", "cpu.cfs_quota_us", "1000"),
            "large": ("memory.limit_in_bytes", str(512 * MIB), "cpu.cfs_quota_us", "150000"),
            "free": ("memory.limit_in_bytes", "9223372036854771712", "cpu.cfs_quota_us", "-1"),
        },
        "v2": {
            "small": ("memory.max", "49999872", "cpu.max", "1000 100000"),
            "large": ("memory.max", str(512 * MIB), "cpu.max", "150000 100000"),
            "free": ("memory.max", "max", "cpu.max", "max 100000"),
        },
    }[owner.mode]
    for name, pids in (("small", "17"), ("large", "4000"), ("free", "max")):
        found = owner.files(name)
        memory_file, memory, cpu_file, cpu = expected[name]
        assert (found[memory_file], found["pids.max"], found[cpu_file]) == (memory, pids, cpu)
        if "memory.memsw.limit_in_bytes" in found:
            assert found["memory.memsw.limit_in_bytes"] == memory
        if "memory.swap.max" in found:
            assert found["memory.swap.max"] == ("max" if name == "free" else "0")
        assert found.get("memory.oom.group", "0") == "0"
        owner.remove(name)


def test_who_eats_too_much_is_killed_and_counted(owner):
    owner.make("greedy", memory=48 * MIB)
    owner.make("neighbour", memory=48 * MIB)
    beside, neighbour = owner.start("greedy", "stay"), owner.start("neighbour", "stay")
    assert owner.wait(owner.start("greedy", "eat", 100))[:2] == ("signal", signal.SIGKILL)
    assert (owner.kills("greedy"), owner.kills("neighbour")) == (1, 0)
    assert alive(beside) and alive(neighbour)
    assert owner.wait(owner.start("greedy", "eat", 100))[:2] == ("signal", signal.SIGKILL)
    assert owner.kills("greedy") == 2
    owner.remove("greedy")
    owner.remove("neighbour")


def test_who_eats_less_is_not(owner):
    owner.make("modest", memory=48 * MIB)
    assert owner.wait(owner.start("modest", "eat", 16))[:2] == ("exit", 0)
    assert owner.kills("modest") == 0
    owner.remove("modest")


@pytest.mark.parametrize(("limit", "count"), [(1, 0), (20, 19), (0, 250)])
def test_forks_end_at_the_limit(owner, limit, count):
    """The first process counts, too; it tries to start 250."""
    owner.make("many", pids=limit)
    assert owner.wait(owner.start("many", "forks"))[:2] == ("exit", count)
    assert len(owner.pids("many")) == count
    owner.remove("many")


def test_a_processor_is_shared_as_asked(owner):
    """How much a process without a limit gets depends on what else the host does."""
    for _ in range(3):
        owner.make("slow", cpu=200)
        owner.make("quick")
        share = {}
        for name in ("slow", "quick"):
            begun = time.monotonic()
            how, code, cpu_us = owner.wait(owner.start(name, "spin", 2000))
            share[name] = cpu_us / 1e6 / (time.monotonic() - begun)
            assert (how, code) == ("exit", 0)
            owner.remove(name)
        assert share["slow"] < 0.35
        if share["slow"] > 0.1 and share["quick"] > 1.3 * share["slow"]:
            return
    raise AssertionError(share)


def test_a_running_fork_bomb_is_removed(owner):
    owner.make("bomb", pids=100)
    owner.start("bomb", "breed")
    boxdlib.wait_until(lambda: len(owner.pids("bomb")) >= 90, what="a hundred processes")
    pids = owner.pids("bomb")
    owner.remove("bomb")
    assert [pid for pid in pids if alive(pid)] == []
    assert [parent / "bomb" for parent in owner.parents if (parent / "bomb").exists()] == []


# Parts: cgroups of single processes below that of a box.


def test_a_part_has_a_limit_of_its_own(owner):
    owner.make("box", memory=96 * MIB, pids=60, cpu=1000)
    before = {owner.start("box", "stay") for _ in range(5)}
    owner.part("box", 1, 24)
    owner.part("box", 2, 24)
    beside = owner.start_in("box", 2, "stay")
    assert owner.wait(owner.start_in("box", 1, "eat", 40))[:2] == ("signal", signal.SIGKILL)
    # Version 2 kills everything in the part, and counts the first process twice.
    assert owner.part_kills("box", 1) == ({"v1": 1, "v2": 2}[owner.mode], 0, 0)
    assert owner.part_kills("box", 2) == (0, 0, 0)
    assert owner.wait(owner.start_in("box", 2, "eat", 8))[:2] == ("exit", 0)
    assert owner.pids("box") == before | {beside}
    # The box's own limits cover all its parts.
    owner.part("box", 3, 4096)
    assert owner.wait(owner.start_in("box", 3, "eat", 200))[:2] == ("signal", signal.SIGKILL)
    assert owner.part_kills("box", 3)[0] > 0
    assert owner.wait(owner.start_in("box", 3, "forks"))[:2] == ("exit", 60 - 7)
    assert owner.ask("part remove box 1") == ["removed"]
    assert owner.ask("part remove box 2") == ["busy"]
    assert owner.ask("part make box 2 24")[0] == "error"
    os.kill(beside, signal.SIGKILL)
    owner.wait(beside)
    assert owner.ask("part remove box 2") == ["removed"]
    assert owner.ask("part remove box 2") == ["removed"]
    owner.remove("box")
    assert not [pid for pid in before if alive(pid)]
    assert [path for parent in owner.parents for path in parent.iterdir() if path.is_dir()] == []


def test_what_is_in_no_part_is_counted_after_the_division(owner):
    owner.make("box", memory=64 * MIB)
    assert owner.wait(owner.start("box", "eat", 100))[:2] == ("signal", signal.SIGKILL)
    # The process stays alive while it is moved.
    late = owner.start("box", "later", 100)
    owner.part("box", 1, 32)
    assert owner.part_kills("box", 1) == (0, 1, 0)
    os.kill(late, signal.SIGUSR1)
    assert owner.wait(late)[:2] == ("signal", signal.SIGKILL)
    in_part, in_box, in_rest = owner.part_kills("box", 1)
    assert (in_part, in_box + in_rest) == (0, 2)
    owner.remove("box")


def test_a_running_fork_bomb_is_divided(owner):
    owner.make("bomb", pids=100)
    owner.start("bomb", "breed")
    boxdlib.wait_until(lambda: len(owner.pids("bomb")) >= 50, what="fifty processes")
    begun = time.monotonic()
    owner.part("bomb", 1, 32)
    assert time.monotonic() - begun < 5 + boxdlib.STALL_SECONDS
    owner.remove("bomb")
    assert [parent / "bomb" for parent in owner.parents if (parent / "bomb").exists()] == []


def test_an_open_procs_file_is_for_its_box_alone(owner):
    """A holder of such a file, as box-rpc is, can move no other process of the host into the
    cgroup."""
    root, other = 0x7FFF0000, 61184
    owner.make("box", memory=96 * MIB)
    assert owner.ask(f"give box {root}") == ["ok"]
    owner.part("box", 1, 24)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        for uid in (other, root):
            assert owner.ask(f"part push box 1 {stranger.pid} {uid}") == ["pushed", str(errno.EACCES)]
        assert owner.pids("box") == set()
        if owner.mode == "v1":  # in version 2 it must come from the box: tests/unit/boxd/test_cgroup_v2.c
            assert owner.ask(f"part push box 1 0 {root}") == ["pushed", "0"]
        owner.remove("box")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_parts_of_a_dead_owner_are_swept(owner):
    with Owner() as dead:
        dead.make("box")
        pids = {dead.start("box", "stay")}
        dead.part("box", 1, 32)
        pids.add(dead.start_in("box", 1, "stay"))
        boxdlib.wait_until(lambda: dead.pids("box") == pids, what="both are in")
        dead.process.kill()
        dead.process.wait(timeout=10)
    with Owner():
        assert [parent for parent in dead.parents if parent.exists()] == []
        assert [pid for pid in pids if alive(pid)] == []


def test_a_limit_that_the_kernel_cuts_down_is_refused(owner):
    word, *text = owner.ask(f"make vast {2**64 - 1} 5 100")
    file = {"v1": "memory.limit_in_bytes", "v2": "memory.max"}[owner.mode]
    assert (word, text[0]) == ("error", file)
    word, *text = owner.ask(f"make vast {MIB} 4294967295 100")
    assert (word, text[:5]) == ("error", ["cannot", "write", "4294967295", "to", "pids.max:"])
    assert [path for parent in owner.parents for path in parent.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("name", [".", "..", "a/b", "../a", "\u00e4", "n" * 201, "a*"])
def test_a_name_that_is_none_is_refused(owner, name):
    assert owner.ask_line(f"make {name} 0 0 0") == "error not the name of a cgroup"


def test_a_name_is_taken_once(owner):
    owner.make("one", pids=7)
    assert owner.ask_line("make one 0 9 0") == "error cannot make the cgroup one: File exists"
    assert owner.files("one")["pids.max"] == "7"
    owner.remove("one")
    owner.make("one", pids=9)
    owner.remove("one")


def test_two_owners_do_not_touch_each_other(owner):
    owner.make("mine", pids=30)
    pid = owner.start("mine", "stay")
    with Owner() as other:
        assert other.mode == owner.mode
        assert not set(other.parents) & set(owner.parents)
        other.make("mine", pids=31)
        assert owner.files("mine")["pids.max"] == "30"
        other.remove("mine")
    assert all(parent.exists() for parent in owner.parents)
    assert alive(pid)
    assert owner.pids("mine") == {pid}
    owner.remove("mine")


def test_many_begin_at_once(owner):
    """All remove leftovers while others are between making a cgroup parent and locking it."""
    for _ in range(4):
        others = [launch() for _ in range(8)]
        for other in others:
            answer, _ = other.communicate("mode\nmake a 0 5 0\nremove a\n", timeout=60)
            assert answer == f"{owner.mode} \nok\nremoved 1\n"
    assert all(parent.exists() for parent in owner.parents)


def test_the_cgroup_parents_of_a_dead_owner_are_swept(owner):
    with Owner() as dead:
        dead.make("stays")
        dead.make("breeds", pids=60)
        dead.make("empty", memory=MIB)
        stays = dead.start("stays", "stay")
        dead.start("breeds", "breed")
        boxdlib.wait_until(lambda: len(dead.pids("breeds")) >= 50, what="fifty processes")
        dead.process.kill()
        dead.process.wait(timeout=10)
        pids = {stays} | dead.pids("breeds")
        assert all(parent.exists() for parent in dead.parents)
    with Owner():
        assert [parent for parent in dead.parents if parent.exists()] == []
        assert [pid for pid in pids if alive(pid)] == []
        assert all(parent.exists() for parent in owner.parents)


def test_cgroup_parents_that_were_being_made_are_swept_and_others_are_not(owner):
    half_made = [parent.parent / "box-0123456789abcdef" for parent in owner.parents]
    foreign = [parent.parent / f"box-test-{os.getpid()}.service" for parent in owner.parents]
    try:
        for folder in half_made + foreign:
            folder.mkdir()
        (half_made[0] / "a-box").mkdir()
        with Owner():
            assert [folder for folder in half_made if folder.exists()] == []
            assert [folder for folder in foreign if not folder.exists()] == []
    finally:
        for folder in [half_made[0] / "a-box", *half_made, *foreign]:
            if folder.exists():
                folder.rmdir()


def in_mounts(script):
    """An owner in a mount namespace of its own, in which a script ran first."""
    return Owner("unshare", "--mount", "sh", "-ec", f'{script}\nexec "$0"', str(program()))


def cgroup_mounts():
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if " - cgroup" in line]


def test_without_rights_it_says_so():
    folder = tempfile.mkdtemp()
    try:
        os.chmod(folder, 0o755)
        shutil.copy(program(), folder)
        with Owner(f"{folder}/cgroup_driver", user=65534, group=65534, extra_groups=[]) as nobody:
            assert nobody.mode == "none"
            assert "Permission denied; start boxd in a cgroup of its own" in nobody.why
            refused = nobody.ask_line("make a 0 5 0")
            assert refused == f"error no limits can be set here: {nobody.why}"
    finally:
        shutil.rmtree(folder)


def test_mounted_for_reading_only_it_says_so():
    script = "\n".join(f"mount -o remount,bind,ro {mount}" for mount in cgroup_mounts())
    with in_mounts(script) as reader:
        assert reader.mode == "none"
        assert reader.why.endswith("Read-only file system; mount cgroups writable")


def test_a_writable_mount_is_found_beside_one_for_reading(owner, tmp_path):
    mounts = cgroup_mounts()
    lines = []
    for number, mount in enumerate(mounts):
        (tmp_path / str(number)).mkdir()
        lines += [f"mount --bind {mount} {tmp_path}/{number}", f"mount -o remount,bind,ro {mount}"]
    with in_mounts("\n".join(lines)) as other:
        assert other.mode == owner.mode
        assert all(parent.is_relative_to(tmp_path) for parent in other.parents)


def test_nothing_mounted_it_says_so():
    script = "\n".join(f"umount -l {mount}" for mount in reversed(cgroup_mounts()))
    with in_mounts(script) as bare:
        assert (bare.mode, bare.why) == (
            "none",
            "no cgroup hierarchy with our group in it is mounted",
        )


def test_a_mount_that_is_covered_is_not_taken_for_what_covers_it():
    covers = "\n".join(f"mount -t tmpfs none {mount}" for mount in cgroup_mounts())
    with in_mounts(covers) as misled:
        assert misled.mode == "none"
        assert misled.parents == []


def test_nor_is_one_that_another_hierarchy_covers(owner):
    pids = [mount for mount in cgroup_mounts() if pathlib.Path(mount).name == "pids"]
    memory = [mount for mount in cgroup_mounts() if pathlib.Path(mount).name == "memory"]
    if not pids or not memory:
        pytest.skip("the controllers are not in hierarchies of their own here")
    with in_mounts(f"mount --bind {memory[0]} {pids[0]}") as misled:
        assert (misled.mode, misled.parents) == ("none", [])
        assert misled.why == f"{pids[0]}/: cannot open it: No such device"
