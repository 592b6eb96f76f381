"""LangBot and boxd in two containers, as in contrib/langbot/compose.yaml, run by Podman.

No image is needed: the root of both has a few links and the host's /usr. They share one network
namespace with nothing but loopback, where the name that LangBot connects to is 127.0.0.1.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import uuid

import pytest

import boxdlib
import clientlib
import composelib
import langbotlib
import nativelib
import testpaths

SCRIPT = testpaths.SCRIPTS / "langbot_container_script.py"
SYSTEM_LINKS = ("bin", "sbin", "lib", "lib64")
# The installation of Python that the environment was made from.
BASE = "import json, sys; print(json.dumps(sys.base_prefix))"
# Docker's name for it, and Podman's.
WORDS = {"systempaths=unconfined": "unmask=ALL"}


class Podman:
    """An engine with a store of its own; its containers end with it."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "root"
        self.names = []
        self.make_root()
        options = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\n'
        (folder / "storage.conf").write_text(f'{options}runroot = "{folder}/run"\n')
        # Podman's defaults may exceed our own limits.
        (folder / "containers.conf").write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]\n'
        )
        names = {"CONTAINERS_STORAGE_CONF": "storage.conf", "CONTAINERS_CONF": "containers.conf"}
        paths = {name: str(folder / file) for name, file in names.items()}
        self.environ = boxdlib.environment(**paths)
        self.before = self.choose_runtime()

    def make_root(self):
        """A tree with only what the host's /usr lacks."""
        for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var"):
            (self.root / name).mkdir(parents=True)
        (self.root / "tmp").chmod(0o1777)
        for name in SYSTEM_LINKS:
            if pathlib.Path("/", name).is_symlink():
                (self.root / name).symlink_to(os.readlink(f"/{name}"))
        for name in ("ld.so.cache", "passwd", "group"):
            shutil.copy(f"/etc/{name}", self.root / "etc")
        # As in LangBot's image: the file by which LangBot knows that it runs in a container.
        (self.root / ".dockerenv").touch()

    def choose_runtime(self):
        """A runtime that works here: crun refuses hosts with both versions of cgroups."""
        said = []
        for runtime in filter(shutil.which, ("crun", "runc")):
            before = ["podman", "--runtime", runtime, "--cgroup-manager", "cgroupfs"]
            done = self.call(before, "run", "--rm", "--network", "none", *self.system("/bin/true"))
            if done.returncode == 0:
                return before
            said.append(done.stderr[-300:])
        pytest.skip(f"Podman runs no container here: {said}")

    def system(self, *command):
        """The last arguments of `podman run`: the root, and the command in it."""
        return ["-v", "/usr:/usr:ro", "--rootfs", str(self.root), *command]

    def call(self, before, *args):
        command = [*before, *map(str, args)]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=60
        )

    def run(self, *args):
        done = self.call(self.before, *args)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def close(self):
        for name in reversed(self.names):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.call(self.before, "rm", "--force", "--time", "15", name)
        shutil.rmtree(self.folder)


@pytest.fixture(scope="module")
def podman(tmp_path_factory):
    if not boxdlib.ROOT or not shutil.which("podman"):
        pytest.skip("needs root and podman")
    if any(not pathlib.Path("/", name).is_symlink() for name in ("bin", "lib")):
        pytest.skip("the host's programs are not all in /usr")
    engine = Podman(tmp_path_factory.mktemp("podman"))
    try:
        yield engine
    finally:
        engine.close()


def filled(words, root):
    """Strings of the file, with the values that an operator would have in .env."""
    values = {
        composelib.BOX_ROOT: str(root),
        f"${{{composelib.TOKEN}:?}}": clientlib.TOKEN,
        "${LANGBOT_PLUGIN_RUNTIME_CONTROL_TOKEN:?}": clientlib.TOKEN,
        "${LANGBOT_INSTANCE_ID:-}": clientlib.INSTANCE,
    }
    found = list(words)
    for name, value in values.items():
        found = [word.replace(name, value) for word in found]
    assert not [word for word in found if "${" in word], found
    return found


def flags(service, root):
    """Options of `podman run` for a service of the file; images and networks are the test's."""
    found = []
    for entry in service["volumes"]:
        if not entry.startswith("./"):
            found += ["-v", entry]
    for entry in service["environment"]:
        found += ["-e", entry]
    for name in service.get("cap_add", ()):
        found += ["--cap-add", name]
    for device in service.get("devices", ()):
        found += ["--device", device]
    for option in service.get("security_opt", ()):
        found += ["--security-opt", WORDS.get(option, option)]
    if "cgroup" in service:
        found += ["--cgroupns", service["cgroup"]]
    return filled(found, root)


def shown(*folders):
    return [word for folder in folders for word in ("-v", f"{folder}:{folder}:ro")]


@pytest.fixture(scope="module")
def started(podman):
    """boxd's container, and the folder that both containers share."""
    root = podman.folder / "box"
    root.mkdir()
    programs = podman.folder / "programs"
    programs.mkdir()
    for name in (*nativelib.PROGRAMS, "box"):
        shutil.copy(boxdlib.build() / name, programs)
    service = composelib.services()["langbot_box"]
    name = f"box-test-{uuid.uuid4()}"
    podman.names.append(name)
    boxd, *args = filled(service["command"], root)
    podman.run(
        *("run", "--detach", "--name", name, "--network", "none"),
        *("-e", "ASAN_OPTIONS=detect_leaks=0"),
        *flags(service, root),
        *shown(programs),
        *podman.system(programs / boxd, *args),
    )
    return {"name": name, "root": root, "programs": programs}


@pytest.fixture(scope="module")
def driven(podman, started):
    """The results of LangBot."""
    host, _ = composelib.dialled()
    hosts = podman.folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {host}\n")
    root, python = started["root"], composelib.ask_langbot(BASE)
    wanted = {"instance": clientlib.INSTANCE, "host_root": str(root), "profile": "offline"}
    name = f"langbot-test-{uuid.uuid4()}"
    podman.names.append(name)
    out = podman.run(
        *("run", "--name", name, "--network", f"container:{started['name']}"),
        *("-v", f"{hosts}:/etc/hosts:ro", "-e", "PYTHONDONTWRITEBYTECODE=1"),
        *flags(composelib.services()["langbot"], root),
        *shown(langbotlib.LANGBOT, testpaths.SYSTEM, *([] if python.startswith("/usr") else [python])),
        *podman.system(langbotlib.LANGBOT / "bin" / "python", SCRIPT, json.dumps(wanted)),
    )
    return json.loads(out.splitlines()[-1])


def test_connects(driven):
    host, port = composelib.dialled()
    assert (driven["available"], driven["error"]) == (True, "")
    assert driven["relay"] == f"http://{host}:{port}"
    assert driven["status"]["backend"]["available"] is True


def test_shared_folder(driven):
    """Each can read what the other writes; both run as root."""
    assert driven["letter"] == "grüße, 漢字"
    assert (driven["exec"]["exit_code"], driven["exec"]["stdout"]) == (3, "1000")
    assert (driven["note"], driven["owners"]) == ("made\n", [0, 0])


def test_limits_connections(driven):
    """tail needs memory for a line that is longer than the box's memory."""
    assert driven["limit"] == "137"


def test_skill(driven):
    assert driven["greeted"]["stdout"].startswith("hello, world grüße\n")
    assert driven["spoiled"]["stderr"].count("Read-only file system") == 2


def test_status_command(podman, started, driven):
    """`box status` in boxd's container works with its token and its instance."""
    said = podman.run("exec", started["name"], started["programs"] / "box", "status")
    assert said.splitlines()[0].split()[-1] == "healthy", said


def test_stop(podman, started, driven):
    """boxd is PID 1, and stops in time by itself."""
    podman.run("stop", "--time", "30", started["name"])
    inspected = json.loads(podman.run("inspect", started["name"]))[0]
    assert inspected["State"]["ExitCode"] == 0
