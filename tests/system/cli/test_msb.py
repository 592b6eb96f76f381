"""The verbs of msb in the order in which agents call them, with a real boxd and native boxes."""

import contextlib
import json
import os
import signal
import subprocess
import time

import parallellib
import boxdlib
import clilib
import imagelib
import nativelib
import pytest
from clientlib import INSTANCE

pytestmark = pytest.mark.usefixtures("nothing_left", "scenes")

WHO = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}
IMAGE = "alpine"  # a label: the box has the usual root


@pytest.fixture(scope="module")
def boxd(place):
    with nativelib.dialled(place) as client:
        yield client.boxd


@pytest.fixture(scope="module")
def scenes(request, nothing_left):
    with parallellib.begun(request) as made:
        yield made


def msb(boxd, verb, *args, **more):
    """`box msb`, with the endpoint behind the verb: (code, stdout, stderr)."""
    endpoint = ["--endpoint", boxd.url, "--workspace", "ws1"]
    return clilib.box("msb", verb, *endpoint, *map(str, args), private=False, env=WHO, **more)


def create(boxd, name, *args, image=IMAGE):
    assert msb(boxd, "create", "--quiet", "--no-network", "--name", name, *args, image) == (0, "", "")


@contextlib.contextmanager
def made(boxd, name, *args, image=IMAGE):
    create(boxd, name, *args, image=image)
    try:
        yield name
    finally:
        msb(boxd, "remove", name)


def sh(boxd, name, script, **more):
    return msb(boxd, "exec", name, "--", "sh", "-c", script, **more)


def listed(boxd):
    code, out, err = msb(boxd, "ls", "--format", "json")
    assert (code, err) == (0, "")
    return {one["name"]: one for one in json.loads(out)}


def wait_status(boxd, name, status, seconds=15):
    boxdlib.wait_until(
        lambda: listed(boxd).get(name, {}).get("status") == status, seconds, lambda: listed(boxd)
    )


# The verbs in the order of an agent.


def test_the_verbs_in_the_order_of_an_agent(boxd):
    empty = (0, "", "No sandboxes found.\n")
    assert msb(boxd, "ls") == empty
    assert msb(boxd, "create", "--no-network", "--name", "a", "--cpus", "1", "--memory", "256M", IMAGE) == (
        0,
        "a\n",
        "",
    )
    assert msb(boxd, "exec", "--quiet", "a", "--", "cat", data=b"in\0put\n") == (0, "in\0put\n", "")
    code, out, err = msb(
        boxd, "exec", "-e", "ONE=1", "--env", "TWO=a b=c", "a", "--", "sh", "-c",
        'echo "$ONE $TWO"; echo wrong >&2; exit 7',
    )  # fmt: skip
    assert (code, out, err) == (7, "1 a b=c\n", "wrong\n")
    code, out, err = msb(boxd, "ls")
    assert (code, err) == (0, "")
    head, row = out.splitlines()
    assert head.split() == ["NAME", "IMAGE", "STATUS", "CREATED"]
    assert row.split()[:3] == ["a", IMAGE, "running"]
    assert msb(boxd, "ls", "-q") == (0, "a\n", "")
    assert sh(boxd, "a", "echo kept > note; echo sys > /of-the-root") == (0, "", "")
    assert sh(boxd, "a", "cat note /of-the-root; pwd") == (0, "kept\nsys\n/workspace\n", "")
    assert msb(boxd, "stop", "--quiet", "a") == (0, "", "")
    assert listed(boxd)["a"]["status"] == "stopped"
    stopped = (
        "box: BoxSessionConflictError: sandbox a is stopped: remove it, or create it with --replace\n"
    )
    assert msb(boxd, "exec", "a", "--", "true") == (125, "", stopped)
    assert msb(boxd, "stop", "a") == (0, "a\n", "")
    whose = ["--endpoint", boxd.url, "--workspace", "ws1"]
    for command in ("exec", "start"):
        code, _, err = clilib.box(command, *whose, "a", "true", private=False, env=WHO)
        assert code == 125
        assert err.startswith("box: BoxSessionConflictError: ")
        assert "is stopped: remove it to make a new one" in err
    assert msb(boxd, "remove", "a") == (0, "a\n", "")
    assert msb(boxd, "ls") == empty
    assert msb(boxd, "ls", "--quiet") == (0, "", "")
    assert msb(boxd, "ls", "--format", "json") == (0, "[]\n", "")


def test_called_by_its_own_name(boxd, tmp_path):
    link = tmp_path / "msb"
    link.symlink_to(boxdlib.build() / "box")

    def run(*args):
        env = clilib.variables(False, BOX_ENDPOINT=boxd.url, **WHO)
        done = subprocess.run([link, *args], env=env, capture_output=True, text=True, timeout=20)
        return done.returncode, done.stdout, done.stderr

    code, out, err = run("--version")
    assert (code, err) == (0, "") and out.startswith("msb ")
    assert run("-V") == (0, out, "")
    code, out, err = run("--help")
    assert (code, err) == (0, "") and out.startswith("Usage: msb COMMAND")
    assert run("ls") == (0, "", "No sandboxes found.\n")
    code, out, err = run("exec", "no", "--", "true")
    assert (code, out) == (125, "") and err.startswith("msb: BoxSessionNotFoundError: session ")
    assert run("exec", "no") == (125, "", "msb: exec: expected NAME -- CMD [ARG]... (see msb exec --help)\n")
    assert run() == (125, "", "msb: no command (see msb --help)\n")
    assert run("run", "x")[2].startswith("msb: unknown command run")


def test_words_are_taken_as_they_are(boxd):
    with made(boxd, "w"):
        assert msb(boxd, "exec", "w", "--", "printf", "%s|", "a b", "$HOME", "'", "") == (
            0,
            "a b|$HOME|'||",
            "",
        )
        code, out, err = msb(boxd, "exec", "w", "--", "echo hi")
        assert (code, out) == (127, "") and "echo hi" in err
        assert msb(boxd, "exec", "w", "--", "sh", "-c", "kill -9 $$")[0] == 137
        for number in (0, 1, 42, 125, 255):
            assert sh(boxd, "w", f"exit {number}")[0] == number


def test_nothing_of_our_environment_gets_in(boxd):
    with made(boxd, "w"):
        options = ["--endpoint", boxd.url, "--workspace", "ws1"]
        secret = {**WHO, "SECRET_OF_OURS": "x"}
        done = clilib.box("msb", "exec", *options, "w", "--", "env", private=False, env=secret)
        assert done[0] == 0 and "SECRET" not in done[1] and "HOME=/home/box" in done[1]


def test_two_boxes_do_not_see_each_other(boxd):
    with made(boxd, "one"), made(boxd, "two"):
        assert sh(boxd, "one", "echo 1 > only")[0] == 0
        assert sh(boxd, "two", "ls only")[0] != 0


# create


def test_a_name_that_is_taken(boxd):
    with made(boxd, "a"):
        assert sh(boxd, "a", "touch mark")[0] == 0
        code, out, err = msb(boxd, "create", "--name", "a", IMAGE)
        assert (code, out) == (125, "")
        assert "sandbox a already exists: remove it, or create it with --replace" in err
        assert sh(boxd, "a", "ls") == (0, "mark\n", "")
        create(boxd, "a", "--replace", "--memory", "128M")
        assert sh(boxd, "a", "ls") == (0, "", "")
        assert msb(boxd, "stop", "a")[0] == 0
        assert msb(boxd, "create", "--name", "a", IMAGE)[0] == 125
        create(boxd, "a", "--replace")
        assert sh(boxd, "a", "echo new") == (0, "new\n", "")
    create(boxd, "a", "--replace")  # there is none
    assert msb(boxd, "rm", "--force", "a") == (0, "a\n", "")


def test_memory_and_cpus(boxd, place):
    with made(boxd, "m", "-m", "64M", "-c", "0.5"):
        info = json.loads(clilib.box(
            "ls", "--json", "--endpoint", boxd.url, "--workspace", "ws1", private=False, env=WHO
        )[1])[0]  # fmt: skip
        assert (info["memory_mb"], info["cpus"], info["network"]) == (64, 0.5, "off")
        if nativelib.has_limits(place.mode):
            code, _, _ = sh(boxd, "m", "head -c 200m /dev/zero | tail")
            assert code == 137


def test_volumes(boxd, place):
    rw, ro = place.make("rw"), place.make("ro")
    place.write(ro / "given", "given\n")
    with made(boxd, "v", "--volume", f"{rw}:/data", "-v", f"{ro}:/in:ro"):
        assert sh(boxd, "v", "cat /in/given; echo out > /data/new") == (0, "given\n", "")
        assert (rw / "new").read_text() == "out\n"
        code, _, err = sh(boxd, "v", "touch /in/x")
        assert code != 0 and "Read-only" in err
        # Every later command sees them, also after box-rpc was restarted.
        os.kill(boxd.worker, signal.SIGKILL)
        boxdlib.wait_until(lambda: sh(boxd, "v", "cat /data/new")[:2] == (0, "out\n"), 15)
        # So do other clients, which must name the session as it is.
        box = ["exec", "--endpoint", boxd.url, "--workspace", "ws1"]
        assert clilib.box(*box, "v", "cat /data/new", private=False, env=WHO) == (0, "out\n", "")
    # The files are on the host.
    assert (rw / "new").exists()


def test_sources_as_people_type_them(boxd, place):
    """Host paths of --mount and --volume, relative to a working folder: `..` after a link is the
    parent of the link's target."""
    here = place.make("typed", "here")
    target = place.make("typed", "far", "target")
    place.write(here / "where", "here\n")
    place.write(place.make("typed", "here", "d") / "where", "d\n")
    place.write(target.parent / "where", "far\n")
    os.symlink(target, here / "link")
    sources = [".", "./", "./d", "d/", f"{here}/d/", "../here/d/.", "../far", "./link/.."]
    mounts = [f"--mount={source}:/m/{i}:ro" for i, source in enumerate(sources)]
    volumes = [f"--volume={source}:/v/{i}" for i, source in enumerate(sources) if source != "d/"]
    box = ["exec", "--endpoint", boxd.url, "--workspace", "ws1", *mounts, "v"]
    options = ["--quiet", "--no-network", "--name", "v", *volumes, IMAGE]
    assert msb(boxd, "create", *options, cwd=here) == (0, "", "")
    try:
        done = clilib.box(*box, "cat /m/*/where", private=False, env=WHO, cwd=here)
        assert done == (0, "here\nhere\nd\nd\nd\nd\nfar\nfar\n", "")
        assert sh(boxd, "v", "cat /v/*/where") == (0, "here\nhere\nd\nd\nd\nfar\nfar\n", "")
    finally:
        msb(boxd, "remove", "v")


@pytest.mark.parametrize(
    "volume, text",
    [
        ("/nonexistent/x:/data", "does not exist"),
        ("/etc:/data", "is blocked for security"),
        ("/proc:/data", "is blocked for security"),
        ("{work}:/etc/x", "is part of the box's system folder /etc"),
        ("{work}:/", "must not be the root of the box"),
    ],
)
def test_volumes_that_cannot_be(boxd, place, volume, text):
    volume = volume.format(work=place.work)
    code, out, err = msb(boxd, "create", "--no-network", "--name", "v", "--volume", volume, IMAGE)
    assert (code, out) == (125, "") and text in err
    assert listed(boxd) == {}  # nothing is left of it


# IMAGE


def test_a_root_folder_as_image(boxd, place):
    root = imagelib.make_root(place.folder / "small", "small")
    with made(boxd, "r", image=root):
        assert sh(boxd, "r", "cat /usr/mark") == (0, "small\n", "")
        assert listed(boxd)["r"]["image"] == str(root)
    # A relative path is relative to the working folder.
    code, out, err = msb(boxd, "create", "--no-network", "--name", "r", "./bin/../small", cwd=place.folder)
    assert (code, out, err) == (0, "r\n", "")
    assert sh(boxd, "r", "cat /usr/mark") == (0, "small\n", "")
    assert msb(boxd, "rm", "r")[0] == 0


def test_images_that_cannot_be(boxd, place):
    empty = imagelib.make_root(place.folder / "empty", "empty", shell=False)
    (place.folder / "link").symlink_to(place.folder / "empty")
    image = place.write(place.folder / "file.img", "x" * 4096)
    for path, text in {
        empty: "has no /bin/sh",
        place.folder / "link": "is a link",
        place.folder / "none": "does not exist",
        image: "is a file: only those that the operator has named in images are mounted",
        "/etc": "is blocked for security",
        "/dev/null": "is blocked for security",
    }.items():
        code, out, err = msb(boxd, "create", "--no-network", "--name", "r", path)
        assert (code, out) == (125, "") and text in err
    assert listed(boxd) == {}


# times


@parallellib.scene
def test_idle_timeout(boxd):
    with made(boxd, "i", "--idle-timeout", "5s"):
        for _ in range(4):
            time.sleep(1.5)
            assert sh(boxd, "i", "true")[0] == 0  # used: the time begins anew
        assert sh(boxd, "i", "sleep 6; echo done") == (0, "done\n", "")  # busy is not idle
        wait_status(boxd, "i", "stopped")
        assert msb(boxd, "exec", "i", "--", "true")[0] == 125


@parallellib.scene
def test_max_duration(boxd):
    began = time.monotonic()
    with made(boxd, "d", "--max-duration", "4s"):
        code, _, err = sh(boxd, "d", "sleep 30")
        took = time.monotonic() - began
        assert code == 125 and "was removed while it was in use" in err
        assert 3.5 < took < 12 + boxdlib.STALL_SECONDS
        wait_status(boxd, "d", "stopped")


@parallellib.scene
def test_times_hold_when_the_worker_dies(boxd):
    began = time.monotonic()
    with made(boxd, "d", "--max-duration", "10s"), made(boxd, "s"):
        assert msb(boxd, "stop", "s")[0] == 0
        time.sleep(2)
        os.kill(boxd.worker, signal.SIGKILL)
        boxdlib.wait_until(lambda: sh(boxd, "d", "echo x")[:2] == (0, "x\n"), 10)
        assert listed(boxd)["s"]["status"] == "stopped"
        wait_status(boxd, "d", "stopped")
        assert 9.5 < time.monotonic() - began < 18 + boxdlib.STALL_SECONDS


# Errors.


@pytest.mark.parametrize(
    "args, text",
    [
        (["create"], "create: --name is required"),
        (["create", "--name", "x"], "expected one IMAGE"),
        (["create", "--name", "x", "a", "b"], "expected one IMAGE"),
        (["create", "--name", "", "a"], "--name: must not be empty"),
        (["create", "--name", "x", ""], "IMAGE is empty or not valid UTF-8"),
        (["create", "--bogus", "--name", "x", "a"], "unknown option --bogus"),
        (["create", "--name"], "--name: needs a value"),
        (["create", "--name", "x", "--memory", "5x", "a"], '"5x" is not a memory size'),
        (["create", "--name", "x", "--memory", "16M", "a"], "memory_mb must be at least 32"),
        (["create", "--name", "x", "--cpus", "none", "a"], '"none" is not a number greater than 0'),
        (["create", "--name", "x", "--cpus", "0", "a"], '"0" is not a number greater than 0'),
        (["create", "--name", "x", "--max-duration", "5x", "a"], '"5x" is not a duration such as'),
        (["create", "--name", "x", "--idle-timeout", "0s", "a"], '"0s" is not a duration such as'),
        (["create", "--name", "x", "--volume", "/a", "a"], "is not HOST:GUEST[:ro|rw]"),
        (["create", "--name", "x", "--volume", "data:/d", "a"], "named volumes are not supported"),
        (["create", "--name", "x" * 600, "a"], "session_id must be at most 512 bytes"),
        (["exec"], "expected NAME -- CMD [ARG]..."),
        (["exec", "x"], "expected NAME -- CMD [ARG]..."),
        (["exec", "x", "--"], "expected NAME -- CMD [ARG]..."),
        (["exec", "--env", "FOO", "x", "--", "true"], '"FOO" is not KEY=VALUE'),
        (["exec", "nope", "--", "true"], "BoxSessionNotFoundError"),
        (["stop"], "expected at least one NAME"),
        (["stop", "nope"], "BoxSessionNotFoundError"),
        (["remove"], "expected at least one NAME"),
        (["remove", "nope"], "BoxSessionNotFoundError"),
        (["ls", "x"], "takes no arguments"),
        (["ls", "--format", "yaml"], "--format: only json is supported"),
        (["ls", "--verbose"], "unknown option --verbose"),
    ],
)
def test_what_is_wrong(boxd, args, text):
    code, out, err = msb(boxd, *args)
    assert (code, out) == (125, "")
    assert text in err and err.count("\n") == 1
    assert listed(boxd) == {}


def test_no_runtime():
    code, out, err = clilib.box("msb", "ls", "--endpoint", "ws://127.0.0.1:1", private=False)
    assert (code, out) == (125, "") and "BoxRuntimeUnavailableError" in err
