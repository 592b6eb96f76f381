"""`box doctor`: its report on a healthy host, and the fix that it names when one thing is missing.

Each thing is missing for one child only; see doctorlib.
"""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import textwrap

import pytest

import parallellib
import boxdlib
import doctorlib
import nativelib
import proclib
from doctorlib import CLONE, CLONE3, ENOSYS, EPERM, LANDLOCK, NEWUSER, UNSHARE, needs_root

NAMES = [
    *["user namespaces", "namespaces", "/proc", "mounts", "tmpfs", "overlay", "ids"],
    *["owners in .", "owners in /tmp", "cgroups", "resources", "quotas", "landlock", "seccomp"],
    *["network", "microVMs", "port 5410", "programs", "a box", "sh and python3", "runtime"],
]
# Without these no box can be made; the others may be missing on a host that passes.
NEEDED = ["user namespaces", "namespaces", "/proc", "mounts", "tmpfs", "seccomp", "programs"]
LINE = re.compile(r"(ok|limited|missing) +(.{16}) (.+)")


@pytest.fixture(params=nativelib.MODES)
def host(request):
    with doctorlib.Host(request.param) as made:
        yield made


@pytest.fixture
def root():
    with doctorlib.Host("root") as made:
        yield made


@pytest.fixture(scope="module")
def scenes(request):
    with parallellib.begun(request) as made:
        yield made


@pytest.fixture
def groups(host):
    """Cgroups in which boxes can be made."""
    with doctorlib.delegated(host.place.mode) as made:
        yield made


def examine(host, *args, **options):
    """The exit code, and the checks by name."""
    code, out, err = host.box("doctor", "--json", *args, **options)
    assert err == "", err
    report = json.loads(out)
    assert [check["name"] for check in report["checks"]] == NAMES
    assert set(report) == {"boxes", "checks"} and code == (0 if report["boxes"] else 1)
    for check in report["checks"]:
        assert set(check) == {"name", "state", "text", "cure"} and check["text"]
        assert check["state"] in ("ok", "limited", "missing")
        assert check["state"] != "ok" or check["cure"] is None
        assert check["state"] != "missing" or check["cure"]
    return code, {check["name"]: check for check in report["checks"]}


def assert_cure(check, state, text, cure):
    assert check["state"] == state, check
    assert text in check["text"], check
    assert cure in check["cure"], check


# A host that has everything.


def test_a_good_host(host, groups):
    with doctorlib.nothing_left():
        code, checks = examine(host, joins=groups)
    assert code == 0, checks
    for name in [*NEEDED, "cgroups", "a box"]:
        assert checks[name]["state"] == "ok", checks[name]
    assert re.fullmatch(
        r"`true` ran in a new box in \d+\.\d ms, and again in \d+\.\d ms", checks["a box"]["text"]
    )
    if host.place.mode == "root":
        assert checks["ids"]["text"] == "each box gets its own range of 65536 ids"
    else:
        assert_cure(checks["ids"], "limited", "a single id: commands in boxes run as uid", "as root")
    version = re.fullmatch(
        r"sh and python3 (3\.\d+\.\d+) work in boxes", checks["sh and python3"]["text"]
    )
    found = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, text=True, timeout=20)
    assert version and found.stdout == f"Python {version[1]}\n"
    where = host.programs
    found = ", ".join(f"{where}/{name}" for name in ("box-init", "box-rpc", "box-skills"))
    assert checks["programs"]["text"] == found


def test_lines_for_people(host, groups):
    code, out, err = host.box("doctor", joins=groups)
    assert (code, err) == (0, "")
    *lines, empty, last = out.splitlines()
    assert (empty, last) == ("", "Boxes can be created on this host.")
    cures = [line for line in lines if line.startswith(" " * 25)]
    assert all(line.startswith(" " * 26 + "fix: ") for line in cures)
    checks = [LINE.fullmatch(line) for line in lines if line not in cures]
    assert all(checks) and [check[2].rstrip() for check in checks] == NAMES
    assert "\x1b" not in out


@pytest.mark.usefixtures("scenes")  # they wait while others work
@needs_root
def test_an_ordinary_user_without_a_cgroup():
    with doctorlib.Host("rootless") as host:
        code, checks = examine(host)
    assert code == 1
    assert_cure(checks["cgroups"], "missing", "limits cannot be set", "Delegate=yes")
    assert "local.degraded: true" in checks["cgroups"]["cure"]
    assert_cure(checks["resources"], "limited", "without limit: memory, TCP and UDP", "cgroups")
    assert_cure(checks["a box"], "missing", "limits cannot be set", "box doctor -v")
    assert checks["sh and python3"]["text"] == "skipped: boxes cannot be created"
    assert all(checks[name]["state"] == "ok" for name in NEEDED)


# A terminal.


def on_terminal(host, env):
    """What doctor writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [str(host.programs / "box"), "doctor"],
        env=host.place.environment(**env),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        text = b""
        while select.select([ours], [], [], doctorlib.SECONDS)[0]:
            try:
                text += os.read(ours, 65536)
            except OSError:  # the end of a terminal
                break
        process.wait(doctorlib.SECONDS)
    os.close(ours)
    return text.decode()


@needs_root
def test_colours_on_a_terminal_only_when_wanted(root):
    assert "\x1b[32mok      \x1b[0m user namespaces" in on_terminal(root, {"NO_COLOR": ""})
    assert "\x1b" not in on_terminal(root, {"NO_COLOR": "1"})


# No user namespaces.


def test_none_are_allowed(host):
    """In a user namespace of our own, whose limit for further ones is 0."""
    before = [*host.place.before, "unshare", "-Ur", "sh", "-ec"]
    line = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$0" doctor --json'
    done = subprocess.run(
        [*before, line, str(host.programs / "box")],
        env=host.place.environment(),
        cwd=host.place.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=doctorlib.SECONDS,
    )
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1 and done.stderr == b""
    cure = "sysctl -w user.max_user_namespaces=15000"
    said = "user.max_user_namespaces is 0 (ENOSPC)"
    assert_cure(checks["user namespaces"], "missing", said, cure)
    assert_cure(checks["namespaces"], "missing", "mount (ENOSPC) pid", "fix user namespaces first")
    # Root of such a namespace has no range of ids, either.
    assert_cure(checks["ids"], "missing", "this user namespace has too few", "map all ids")
    assert checks["a box"]["state"] == "missing"


def test_a_container_forbids_them(host):
    """By a seccomp filter such as containers have."""
    rules = [(UNSHARE, NEWUSER, EPERM), (CLONE, NEWUSER, EPERM), (CLONE3, 0, ENOSYS)]
    code, checks = examine(host, preexec_fn=doctorlib.refuse(rules))
    assert code == 1
    cure = "docker run --security-opt seccomp=unconfined"
    assert_cure(checks["user namespaces"], "missing", "a seccomp filter forbids them", cure)
    assert checks["a box"]["state"] == "missing"


@needs_root
def test_a_chroot(root, tmp_path):
    """The root folder is not the root of its mount namespace."""
    new = tmp_path / "root"
    new.mkdir()
    # A folder of the same file system, so that it is not a mount point.
    binds = "usr bin sbin lib lib64 proc sys dev etc tmp"
    inside = f"""
        cd {new}
        for name in {binds}; do
            [ -d /$name ] || continue
            if [ -L /$name ]; then cp -P /$name $name; continue; fi
            mkdir -p $name
            mount --rbind /$name $name
        done
        set -- chroot {new} "$@"
    """
    code, checks = examine(root, inside=textwrap.dedent(inside))
    assert code == 1
    said = "the kernel does not create them in a chroot (EPERM)"
    assert_cure(checks["user namespaces"], "missing", said, "outside of the chroot")


# One thing is missing.


@needs_root
def test_parts_of_proc_are_covered(root):
    code, checks = examine(root, inside="mount --bind /dev/null /proc/version")
    assert code == 1
    cure = "docker run --security-opt systempaths=unconfined"
    assert_cure(checks["/proc"], "missing", "parts of /proc are masked here", cure)
    assert all(checks[name]["state"] == "ok" for name in NEEDED if name != "/proc")


def found_programs(*names):
    return [path for name in names if (path := shutil.which(name))]


def cover(paths, folder, script=None):
    """Shell lines that mount a script, or a file that nobody can execute, over each of these."""
    other = folder / "other"
    other.write_text(f"#!/bin/sh\n{script}\n")
    other.chmod(0o755 if script else 0o644)
    return "\n".join(f"mount --bind {other} {os.path.realpath(path)}" for path in paths)


@needs_root
@pytest.mark.parametrize(
    "names, said", [(("pasta", "passt"), "pasta is missing"), (("nft",), "nft is missing")]
)
def test_a_program_for_the_network_is_missing(root, tmp_path, names, said):
    paths = found_programs(*names)
    if not paths:
        pytest.skip(f"not here: {names}")
    code, checks = examine(root, inside=cover(paths, tmp_path))
    assert code == 0 and checks["a box"]["state"] == "ok"
    assert_cure(checks["network"], "limited", said, "apt install passt nftables")


@needs_root
def test_the_network_device_is_missing(root):
    if not os.path.isdir("/dev/net"):
        pytest.skip("not here: /dev/net")
    code, checks = examine(root, inside="mount -t tmpfs none /dev/net")
    assert code == 0 and checks["a box"]["state"] == "ok"
    assert_cure(checks["network"], "limited", "no /dev/net/tun", "modprobe tun")


def test_landlock_is_missing(host, groups):
    refused = [(LANDLOCK, 0, ENOSYS)]
    code, checks = examine(host, joins=groups, preexec_fn=doctorlib.refuse(refused))
    said = "not available, so files have one layer of protection less"
    assert_cure(checks["landlock"], "limited", said, "use kernel 5.13 or newer")
    assert code == 0 and checks["a box"]["state"] == "ok"


@needs_root
def test_cgroups_cannot_be_written(root):
    lines = "grep cgroup /proc/mounts | while read -r _ at type _; do\n"
    lines += 'case $type in cgroup*) mount -o remount,ro,bind "$at" ;; esac\ndone'
    code, checks = examine(root, inside=lines)
    assert code == 1
    assert_cure(checks["cgroups"], "missing", "Read-only file system", "/sys/fs/cgroup writable")
    assert checks["a box"]["state"] == "missing"


@needs_root
@pytest.mark.parametrize(
    "script, said",
    [
        pytest.param(None, "which LangBot's file tools need, is missing", id="none"),
        pytest.param("echo 3.7.17", "python3 in boxes is 3.7.17: LangBot's file tools", id="old"),
        pytest.param("exit 3", "python3 does not start in boxes: code 3", id="broken"),
    ],
)
def test_python_in_boxes(root, tmp_path, script, said):
    places = ["/usr/local/bin/python3", "/usr/bin/python3", "/bin/python3"]
    found = [place for place in places if os.path.exists(place)]
    if not found:
        pytest.skip("not here: python3")
    code, checks = examine(root, inside=cover(found, tmp_path, script))
    assert code == 0 and checks["a box"]["state"] == "ok"
    assert_cure(checks["sh and python3"], "limited", said, "install python3")


@pytest.mark.parametrize("name", ["box-init", "box-rpc"])
def test_a_program_of_ours_is_missing(host, name):
    (host.programs / name).unlink()
    code, checks = examine(host)
    assert code == 1
    said = f"{name} is neither beside boxd nor installed"
    assert_cure(checks["programs"], "missing", said, "in one folder")
    assert checks["a box"]["state"] == "missing" and said in checks["a box"]["text"]


def test_the_skill_store_is_missing(host):
    """Boxes work without it."""
    (host.programs / "box-skills").unlink()
    _, checks = examine(host)
    assert "box-skills" not in checks["a box"]["text"]
    said = "box-skills is neither beside boxd nor installed: boxes work, skills do not"
    assert_cure(checks["programs"], "limited", said, "beside boxd")


def test_boxd_itself_is_missing(host):
    (host.programs / "boxd").unlink()
    code, checks = examine(host, env={"PATH": "/usr/bin:/bin"})
    said = "boxd was not found next to this program, where it is installed, or on PATH"
    assert code == 1 and checks["a box"]["text"] == said


def test_a_boxd_that_fails(host):
    """Its last output is reported."""
    lines = ["#!/bin/sh", "echo some line >&2", "echo it broke >&2", "exit 1", ""]
    (host.programs / "boxd").write_text("\n".join(lines))
    code, checks = examine(host)
    assert code == 1 and "it broke" in checks["a box"]["text"]
    assert "some line" not in checks["a box"]["text"]


@parallellib.scene
def test_a_boxd_that_hangs(mode):
    """It has a timeout, after which it is killed."""
    marker = nativelib.marker()
    with doctorlib.Host(mode) as host:
        (host.place.folder / "boxd").write_text(f"#!/bin/sh\nexec sleep {marker}\n")
        nativelib.copy([host.place.folder / "boxd"], host.programs)
        code, checks = examine(host)
    assert code == 1 and proclib.find(marker) == []
    assert_cure(checks["a box"], "missing", "no answer within 15", "box doctor -v")
    assert checks["sh and python3"]["text"] == "skipped: boxes cannot be created"


# The port, in a separate network namespace.

SILENT = """
import socket
kept = socket.create_server(("127.0.0.1", 5410))
"""
WEB = """
import http.server, threading
server = http.server.HTTPServer(("127.0.0.1", 5410), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""


@contextlib.contextmanager
def own_network(server):
    """A process that holds a network namespace with a listener; its pid."""
    ours, theirs = socket.socketpair()
    line = 'ip link set lo up; exec "$@"'
    command = ["unshare", "-n", "sh", "-ec", line, "sh", *server_command(server)]
    with ours, subprocess.Popen(
        command, stdin=theirs, stdout=theirs, env=boxdlib.environment()
    ) as process:
        theirs.close()
        try:
            ours.settimeout(20)
            assert ours.recv(16) == b"ready"
            yield process.pid
        finally:
            process.kill()


def server_command(code):
    return [
        sys.executable,
        "-c",
        f"{code}\nprint('ready', end='', flush=True)\nimport sys\nsys.stdin.read()",
    ]


@needs_root
@pytest.mark.parametrize(
    "server, state, said",
    [
        pytest.param("pass", "ok", "free on 127.0.0.1", id="free"),
        pytest.param(SILENT, "limited", "in use by a program that does not answer", id="silent"),
        pytest.param(WEB, "limited", "in use by a program that is not boxd", id="other"),
    ],
)
def test_the_port(root, server, state, said):
    if not shutil.which("ip"):
        pytest.skip("not here: ip")
    with own_network(server) as pid:
        code, checks = examine(root, inside=f'set -- nsenter -t {pid} -n "$@"')
    check = checks["port 5410"]
    assert (code, check["state"], check["text"]) == (0, state, said)
    assert state == "ok" or ("ss -ltnp" in check["cure"] and "--ws-control-port" in check["cure"])


@needs_root
def test_a_boxd_has_the_port(root):
    if not shutil.which("ip"):
        pytest.skip("not here: ip")
    with own_network("pass") as pid:
        enter = ("nsenter", "-t", str(pid), "-n")
        with root.place.start("--ws-control-port=5410", before=enter) as boxd:
            boxd.wait_served()
            code, checks = examine(root, inside=f'set -- nsenter -t {pid} -n "$@"')
    assert code == 0
    assert checks["port 5410"]["text"] == "boxd answers there"


@needs_root
@pytest.mark.parametrize(
    "config, state, said",
    [
        ("local: {}", "ok", "the running boxd can create boxes (native)"),
        ("local: {rootfs: /nope}", "missing", "the running boxd cannot create boxes: "),
    ],
)
def test_a_boxd_that_runs(root, config, state, said):
    """Private boxes are possible, but boxes of the boxd that was asked for are not."""
    if not shutil.which("ip"):
        pytest.skip("not here: ip")
    with own_network("pass") as pid:
        enter = ("nsenter", "-t", str(pid), "-n")
        path = root.place.write(root.place.folder / "runs.yaml", config)
        flags = ("--ws-control-port=5410", "--config", str(path))
        with root.place.start(*flags, before=enter, instance=None) as boxd:
            boxd.wait_served()
            # Without the operator's socket of a boxd that runs on this host.
            alone = f'mount -t tmpfs none /run; set -- nsenter -t {pid} -n "$@"'
            code, checks = examine(root, inside=alone)
    check = checks["runtime"]
    assert check["state"] == state and check["text"].startswith(said), check
    assert code == (0 if state == "ok" else 1)
    assert state == "ok" or ("rootfs" in check["text"] and "--check-config" in check["cure"])


# The command line.


@pytest.mark.parametrize(
    "args, said",
    [
        (["word"], "box: doctor: takes no arguments (see box doctor --help)\n"),
        (
            ["--endpoint", "ws://127.0.0.1:1"],
            "box: doctor: checks this host: leave out --endpoint (see box doctor --help)\n",
        ),
        (["--memory", "64"], "box: unknown option --memory\n"),
    ],
)
def test_misuse(host, args, said):
    assert host.box("doctor", *args) == (125, "", said)


def test_help(host):
    code, out, err = host.box("doctor", "--help")
    assert (code, err) == (0, "") and out.startswith("Usage: box doctor [OPTION]...\n")
    assert "--json" in out and "--endpoint" not in out
