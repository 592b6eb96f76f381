"""MicroVM boxes in detail: terminals, msb, host folders, limits, the jail around them."""

import contextlib
import os
import pathlib
import time

import pytest

import boxdlib
import microvmlib
from microvmlib import SECONDS, SPEC, Live, group_of, only_microvms

pytestmark = [pytest.mark.microvm, pytest.mark.usefixtures("nothing_left")]

SYS_ADMIN = 1 << 21
EXTRA_MB = 256  # of memory that the jail may have beyond the guest's


@pytest.fixture(scope="module")
def runtime(nothing_left):
    with microvmlib.Place("root") as place, microvmlib.Runtime(place) as made:
        assert made.out("echo first") == "first"
        yield made


def mount(source, target, mode="ro"):
    return {"host_path": str(source), "mount_path": target, "mode": mode}


# Commands that are looked at while they run.


def test_a_terminal(runtime):
    live = Live(runtime, "stty size; read x; echo got $x", tty={"rows": 33, "cols": 101})
    live.until("33 101\r\n")
    live.input("words\n")
    assert live.end() == 0
    assert live.out.endswith("got words\r\n")


@pytest.mark.whole
def test_much_output(runtime):
    """More than one packet, and more than fits into a socket."""
    assert runtime.out("head -c 3000000 /dev/zero | tr '\\0' x") == "x" * 3000000


def test_the_verbs_of_msb(runtime):
    """The verbs in the order in which agents call them."""
    folder = runtime.place.make("volume")
    runtime.place.write(folder / "in", "of the host\n")
    how = ["--cpus", "1", "--memory", "128M", "--no-network", "--volume", f"{folder}:/data:ro"]
    code, version, _ = runtime.msb("--version")
    assert code == 0 and version.startswith("msb "), version
    made = runtime.msb("create", "--name", "agent", "--replace", "--quiet", *how, "alpine")
    assert made == (0, "", "")
    assert runtime.msb("exec", "agent", "--", "cat", data=b"in\nput") == (0, "in\nput", "")
    script = 'echo "$ONE"; echo kept >note; cat /data/in; exit 7'
    said = runtime.msb("exec", "--env", "ONE=a b", "agent", "--", "sh", "-c", script)
    assert said == (7, "a b\nof the host\n", "")
    assert runtime.msb("exec", "agent", "--", "cat", "note") == (0, "kept\n", "")
    assert "agent" in runtime.msb("ls", "-q")[1].split()
    assert runtime.msb("stop", "--quiet", "agent") == (0, "", "")
    assert runtime.msb("remove", "--quiet", "agent") == (0, "", "")
    assert "agent" not in runtime.msb("ls", "-q")[1].split()


# Host folders.


def test_an_extra_mount(runtime):
    one, two = runtime.place.make("extra", "one"), runtime.place.make("extra", "two")
    runtime.place.write(one / "name", "one")
    mounts = [mount(one, "/data"), mount(two, "/deep/er", "rw")]
    cmd = "cat /data/name; (echo x >/data/name); rm -f /data/name; echo new >/deep/er/f; exit 0"
    result = runtime.run(cmd, extra_mounts=mounts)
    assert result["stdout"] == "one" and "Read-only" in result["stderr"], result
    assert (one / "name").read_text() == "one" and (two / "f").read_text() == "new\n"
    assert "name" not in runtime.run("ls -A /data")["stdout"]


@pytest.mark.whole
def test_mounts_side_by_side(runtime):
    """Commands that run at the same time see their own mounts only."""
    folders = [runtime.place.make("many", str(n)) for n in range(4)]
    for n, folder in enumerate(folders):
        runtime.place.write(folder / "n", str(n))
    spec = {"cmd": "cat /data/n; sleep 1; cat /data/n", "session_id": "main", **SPEC}
    started = [
        runtime.client.start("box_exec", {**spec, "extra_mounts": [mount(folder, "/data")]})
        for folder in folders
    ]
    answers = [runtime.client.wait(seq, SECONDS)["data"]["stdout"] for seq in started]
    assert answers == [f"{n}{n}" for n in range(4)]


@pytest.mark.whole
def test_links_of_a_mount_lead_nowhere(runtime):
    """Links are resolved inside the guest, where the host's files do not exist."""
    folder = runtime.place.make("links")
    secret = runtime.place.write(runtime.place.folder / "secret", "hidden")
    (folder / "out").symlink_to(secret)
    (folder / "up").symlink_to("../" * 20)
    cmd = f"cat /data/out; cat /data/up{secret}; ls -d /data/up/workspace; exit 0"
    result = runtime.run(cmd, extra_mounts=[mount(folder, "/data")])
    assert "hidden" not in result["stdout"], result


def test_a_folder_of_the_host(runtime):
    folder = runtime.place.make("host", "rw")
    runtime.place.write(folder / "in", "from outside")
    spec = {"session": "rw", "host_path": str(folder)}
    assert runtime.out("cat in; echo from inside >out; mkdir d; mv out d/", **spec) == "from outside"
    assert (folder / "d" / "out").read_text() == "from inside\n"
    runtime.place.write(folder / "later", "seen")
    assert runtime.out("cat later", **spec) == "seen"
    # A setuid file of a box gives nobody on the host its owner's rights.
    runtime.run("cp /bin/true t; chmod 6755 t; mknod n c 1 3; exit 0", **spec)
    assert not (folder / "t").stat().st_mode & 0o6000 and not (folder / "n").exists()
    runtime.delete("rw")


# Inside the guest.


def test_the_root_is_read_only(runtime):
    cmd = "for f in / /etc /usr/bin /opt /dev; do (: >$f/x) 2>/dev/null && echo $f; done; exit 0"
    assert runtime.run(cmd)["stdout"] == ""
    assert runtime.out("for f in /tmp /run ~ /workspace /dev/shm; do : >$f/x; done") == ""


def test_no_network_no_card(runtime):
    """Some kernels have a dummy0, which leads nowhere; the only route is to the box itself."""
    lines = runtime.out("cat /proc/net/dev /proc/net/route /proc/net/ipv6_route").splitlines()
    cards = {line.split(":")[0].strip() for line in lines if ":" in line}
    assert "lo" in cards and cards <= {"lo", "dummy0"}, cards
    routes = [line for line in lines if ":" not in line and "|" not in line]
    assert all(line.split()[0] == "Iface" or line.split()[-1] == "lo" for line in routes), routes


def test_payload_has_no_rights(runtime):
    status = runtime.out("cat /proc/self/status")
    found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {int(found[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert found["NoNewPrivs"] == "1" and found["Seccomp"] == "2"


def test_the_guest_s_own_files_are_out_of_reach(runtime):
    """The share, box-init and the boot file: a command sees the plan's root only."""
    cmd = "cat /init.krun /boot.box; ls -d /share; grep virtiofs /proc/mounts | grep -v ' ro,'"
    result = runtime.run(cmd)
    assert (result["stdout"], result["exit_code"]) == ("", 1), result


def test_time(runtime):
    before = time.time()
    there = float(runtime.out("date +%s.%N"))
    assert before - 5 < there < time.time() + 5


@pytest.mark.whole
def test_random_numbers(runtime):
    assert len(runtime.out("head -c 8 /dev/urandom | od -An -tx1").split()) == 8


# The jail.


@only_microvms
def test_limits_of_the_jail(runtime):
    init = runtime.boxes()[0]
    group = group_of(init)
    most = int((group / "memory.max").read_text()) >> 20
    assert microvmlib.MEMORY_MB < most <= microvmlib.MEMORY_MB + EXTRA_MB
    assert (group / "cpu.max").read_text().split() == ["100000", "100000"]
    assert all(group_of(pid) == group for pid in runtime.pids_of(init))


@only_microvms
def test_rights_of_the_processes(runtime):
    """Three processes, of which one may mount. What an attacker gets who takes over the virtual
    machine: test_microvm_taken_over."""
    (machine,) = microvmlib.machines(runtime)
    found = {boxdlib.status_of(pid)["Name"]: pid for pid in runtime.pids_of(runtime.boxes()[0])}
    assert set(found) == {"box-bridge", "box-mnt-helper", "box-microvm"}
    assert found["box-microvm"] == machine
    for name, pid in found.items():
        status = boxdlib.status_of(pid)
        may = {key: int(status[key], 16) for key in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh")}
        mount = SYS_ADMIN if name == "box-mnt-helper" else 0
        assert may == {"CapEff": mount, "CapPrm": mount, "CapBnd": 0, "CapAmb": 0, "CapInh": 0}, name
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), name
        assert int(status["Uid"].split()[1]) != 0
    devices = [name for name in boxdlib.fd_names(machine).values() if name.startswith("/dev/")]
    assert set(devices) <= {"/dev/kvm", "/dev/null"}, devices


@only_microvms
def test_the_jail_s_root(runtime):
    """As the virtual machine's process sees it: no shell, no program, one device, nothing writable
    but its own."""
    (machine,) = microvmlib.machines(runtime)
    root = f"/proc/{machine}/root"
    assert set(os.listdir(root)) <= {"proc", "dev", "share", "run"}
    assert set(os.listdir(f"{root}/dev")) == {"kvm"}
    for kind in ("mnt", "pid", "net", "user", "ipc", "uts"):
        ours, its = (os.readlink(f"/proc/{one}/ns/{kind}") for one in ("self", machine))
        assert ours != its, kind
    mountinfo = pathlib.Path(f"/proc/{machine}/mountinfo").read_text()
    mounts = [line.split()[4:6] for line in mountinfo.splitlines()]
    writable = {place for place, options in mounts if "ro" not in options.split(",")}
    assert writable <= {"/run", "/share/mounts", "/dev/kvm", "/proc"}, writable
    assert "/share/trees/usr" in {place for place, _ in mounts}


def used_seconds(group):
    lines = (group / "cpu.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6


def test_processor_time(runtime):
    """Measured on the host, for a busy box with a fraction of a processor."""
    spec = {"session": "part", "cpus": 0.6}
    runtime.out("true", **spec)
    group = max((group_of(pid) for pid in runtime.boxes()), key=lambda one: one.stat().st_ctime)
    assert (group / "cpu.max").read_text().split() == ["60000", "100000"]
    began, before = time.monotonic(), used_seconds(group)
    result = runtime.run("while :; do :; done", timeout_sec=4, **spec)
    assert result["status"] == "timed_out"
    with contextlib.suppress(OSError):  # a box that had a timeout goes
        used, passed = used_seconds(group) - before, time.monotonic() - began
        assert used < 0.75 * passed, (used, passed)


# Ends.


def test_delete_leaves_nothing(runtime):
    runtime.out("sleep 1000 >/dev/null 2>&1 & echo x", "gone", extra_mounts=[])
    count = len(runtime.boxes())
    newest = max(runtime.boxes())
    group, pids = group_of(newest), runtime.pids_of(newest)
    runtime.delete("gone")
    runtime.await_boxes(count - 1)
    boxdlib.wait_until(lambda: not group.exists(), 20, f"{group} is gone")
    assert not [pid for pid in pids if boxdlib.is_alive(pid)]
    assert runtime.out("echo here") == "here"
