"""`box plan`: the complete plan for several sets of options, its refusals, and that boxes are made
as it says.

The expected texts are in plans/. What differs between hosts is removed from both before they are
compared: see `normal`.
"""

import os
import pathlib
import re

import pytest

import boxdlib
import doctorlib
import nativelib
from doctorlib import needs_root

PLANS = pathlib.Path(__file__).parent / "plans"
# Parts of the root that come from the host, as folder or link.
SYSTEM = re.compile(r"(folder|mount|link) +/(usr|bin|sbin|lib|lib32|lib64|libx32)\b")
# name: the mode, the options
CASES = {
    "default": ("root", []),
    "network": ("root", ["--network", "on", "--writable-root"]),
    "limits": ("root", ["--memory", "64", "--cpus", "0.25", "--pids", "7"]),
    "command": (
        "root",
        [
            *["--mount", "shown:/data:ro", "--mount", "shown:/workspace/in", "--timeout=5"],
            *["--workdir", "/data", "--env", "TOKEN=secret", "--env", "MODE=a", "--", "ls", "-l"],
        ],
    ),
    "rootless": ("rootless", []),
}


def normal(text, place=None):
    """The text without what differs between hosts."""
    lines = [line for line in text.splitlines() if not SYSTEM.match(line)]
    lines = [re.sub(r"^(landlock +abi) \d+$", r"\1 N", line) for line in lines]
    lines = [re.sub(r"^(open files +)\d+$", r"\1N", line) for line in lines]
    return "\n".join(lines).replace(str(place), "FOLDER") + "\n"


@pytest.fixture
def root():
    with doctorlib.Host("root") as made:
        yield made


def skip_without_landlock(out):
    if re.search(r"^landlock +none$", out, re.MULTILINE):
        pytest.skip("this kernel has no Landlock, and the expectation has")


@needs_root
@pytest.mark.parametrize("name", CASES)
def test_whole(name):
    mode, options = CASES[name]
    with doctorlib.Host(mode) as host:
        host.place.make("work", "shown")
        with doctorlib.nothing_left(), doctorlib.delegated(mode) as groups:
            code, out, err = host.box("plan", *options, joins=groups)
    assert (code, err) == (0, "")
    skip_without_landlock(out)
    assert normal(out, host.place.work) == (PLANS / f"{name}.txt").read_text()


@needs_root
def test_system_folders(root):
    """Every entry at the top of the host's root that a box takes from it, as it is on this host."""
    _, out, _ = root.box("plan")
    expected = []
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = f"/{name}"
        if os.path.islink(path):
            expected.append(["link", path, "to", os.readlink(path)])
        elif os.path.isdir(path):
            expected.append(["folder", path, "0755", "init"])
            expected.append(["mount", path, "host", "folder", path, "ro", "nosuid", "nodev"])
    assert [line.split() for line in out.splitlines() if SYSTEM.match(line)] == expected


def planned(out):
    """Target -> flags in the plan, for everything that stays mounted."""
    lines = [line.split() for line in out.splitlines() if line.startswith("mount ")]
    return {line[1]: {word for word in line if word in FLAGS} for line in lines}


FLAGS = {"ro", "rw", "nosuid", "nodev", "noexec"}


@needs_root
@pytest.mark.parametrize("options", [[], ["--writable-root", "--memory", "64", "--pids", "17"]])
def test_it_is_what_is_made(root, options):
    """The mounts and limits of a real box are those of the plan with the same options."""
    code, out, _ = root.box("plan", *options)
    assert code == 0
    command = "cat /proc/self/mountinfo; ulimit -n; id -u; hostname"
    code, inside, err = root.box("run", *options, "--", command, env={"LANGBOT_BOX_CONFIG": "{}"})
    assert (code, err) == (0, "")
    *mounts, files, uid, name = inside.splitlines()
    assert re.search(rf"^open files +{files}$", out, re.MULTILINE)
    assert re.search(rf"^hostname +{name}$", out, re.MULTILINE) and uid == "1000"
    made = {line.split()[4]: set(line.split()[5].split(",")) & FLAGS for line in mounts}
    expected = planned(out)
    if "freeze  /\n" in out:
        expected["/"] = expected["/"] - {"rw"} | {"ro"}
    assert {target: made.get(target) for target in expected} == expected
    # There are also masked and frozen paths in /proc, and the six devices.
    named = re.findall(r"^(?:mask|freeze) +(/proc/\S+)$", out, re.MULTILINE)
    rest = {target for target in made if target not in expected and target not in named}
    assert all(re.fullmatch(r"/dev/[a-z]+", target) for target in rest), rest


# Refusals.


@needs_root
@pytest.mark.parametrize(
    "options, said",
    [
        (["--memory", "8"], "BoxValidationError: "),
        (["--mount", "/etc:/data"], "extra_mounts.host_path /etc is blocked for security"),
        (["--mount", "/nonexistent:/data"], "extra_mounts.host_path /nonexistent does not exist"),
        (["--mount", "/tmp:/usr/lib"], "extra_mounts.mount_path"),
        (["--workdir", "relative"], "BoxValidationError: "),
        (["--cpus", "0"], '--cpus: "0" is not a number greater than 0'),
        (["--endpoint", "ws://127.0.0.1:1"], "plan: is about this host: leave out --endpoint"),
    ],
)
def test_refused(root, options, said):
    code, out, err = root.box("plan", *options)
    assert (code, out) == (125, "") and err.startswith("box: ") and err.count("\n") == 1
    assert said in err


@needs_root
@pytest.mark.parametrize("options", [["--memory", "8"], ["--mount", "/etc:/data"]])
def test_run_refuses_the_same(root, options):
    """The same text as boxd's, without boxd's prefix."""
    env = {"LANGBOT_BOX_CONFIG": "{}"}
    planned_code, _, planned_err = root.box("plan", *options)
    code, _, err = root.box("run", *options, "--", "true", env=env)
    assert (planned_code, code) == (125, 125)
    assert planned_err == err


@needs_root
def test_an_ordinary_user_without_a_cgroup():
    with doctorlib.Host("rootless") as host:
        code, out, err = host.box("plan")
    assert (code, out) == (125, "")
    assert err.startswith("box: BoxBackendUnavailableError: limits cannot be set: ")
    assert "local.degraded: true" in err


@needs_root
def test_a_network_that_cannot_be_had(root):
    if not os.path.isdir("/dev/net"):
        pytest.skip("not here: /dev/net")
    inside = "mount -t tmpfs none /dev/net"
    code, out, err = root.box("plan", "--network", "on", inside=inside)
    assert (code, out) == (125, "")
    assert "a network cannot be given: boxes cannot have a network: no /dev/net/tun" in err
    code, out, err = root.box("plan", "--network", "off", inside=inside)
    assert (code, err) == (0, "") and re.search("^network +off$", out, re.MULTILINE)


@pytest.mark.parametrize("mode", nativelib.MODES)
def test_box_init_is_missing(mode):
    with doctorlib.Host(mode) as host:
        (host.programs / "box-init").unlink()
        code, out, err = host.box("plan")
    said = "box-init is neither beside boxd nor installed (see box doctor)"
    assert (code, out) == (125, "")
    assert err == f"box: BoxBackendUnavailableError: boxes cannot be created on this host: {said}\n"


@needs_root
def test_no_user_namespaces():
    rules = [(doctorlib.UNSHARE, doctorlib.NEWUSER, doctorlib.EPERM)]
    with doctorlib.Host("rootless") as host:
        code, out, err = host.box("plan", preexec_fn=doctorlib.refuse(rules))
    assert (code, out) == (125, "") and "user namespaces cannot be made" in err


@needs_root
def test_what_is_printed_cannot_steer_a_terminal(root):
    odd = root.place.make("work", "a\x1b[31m\nb\x9b1mé")
    code, out, _ = root.box("plan", "--mount", f"{odd}:/data/x\x1by:ro")
    assert code == 0 and "\x1b" not in out
    line = next(line for line in out.splitlines() if line.startswith("command mount"))
    assert line.endswith(f"{root.place.work}/a\\x1b[31m\\x0ab\\xc2\\x9b1mé ro nosuid nodev")


def test_help():
    code, out, err = run_help()
    assert (code, err) == (0, "")
    assert out.startswith("Usage: box plan [OPTION]... [[--] CMD [ARG]...]\n")
    assert "--memory" in out and "--mount" in out and "--endpoint" not in out


def run_help():
    with doctorlib.Host("root" if boxdlib.ROOT else "rootless") as host:
        return host.box("plan", "--help")
