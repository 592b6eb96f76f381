"""A network for tests: namespaces `host` and `internet` with servers, and network_driver in `host`.

The namespaces belong to processes that end with the test, so nothing is left behind. netinside.py
runs inside them; its addresses are exported from here.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import netinside
from netinside import (  # noqa: F401
    BIG,
    BOX_PORT,
    DNS,
    GATEWAY,
    HOST_ADDRESSES,
    LOOPBACK_PORT,
    METADATA,
    NAME,
    OTHER_PORT,
    PORT,
    PYTHON,
    RESERVED,
    RESOLVER,
    SITE,
    USER,
    big_bytes,
)

SCRIPT = netinside.__file__
CLONE_NEWNET = 0x40000000


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run(*command, check=True, **options):
    return subprocess.run(
        [str(word) for word in command],
        check=check,
        capture_output=True,
        text=True,
        timeout=30,
        **options,
    )


class Space:
    """A network namespace, held by a process."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "-n", "sleep", "infinity"], preexec_fn=die_with_parent
        )
        self.pid = self.holder.pid
        self.servers = []
        own = os.stat("/proc/self/ns/net").st_ino
        end = time.monotonic() + 5
        while os.stat(f"/proc/{self.pid}/ns/net").st_ino == own:
            assert time.monotonic() < end, "unshare -n did nothing"
            time.sleep(0.005)
        self.ip("link set lo up")

    def inside(self, *command):
        return ["nsenter", "-t", str(self.pid), "-n", *command]

    def connect(self, address):
        """A socket of this namespace, made by a thread that enters it."""
        made = []

        def dial():
            with open(f"/proc/{self.pid}/ns/net") as space:
                assert ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) == 0
            made.append(socket.create_connection(address, 10))

        thread = threading.Thread(target=dial)
        thread.start()
        thread.join()
        return made[0]

    def ip(self, command, check=True):
        return run(*self.inside("ip", *command.split()), check=check).stdout

    def start(self, *kind):
        """A server of netinside.py."""
        server = subprocess.Popen(
            self.inside(PYTHON, SCRIPT, *kind),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        self.servers.append(server)
        assert server.stdout.readline() == "ready\n"
        return server

    @contextlib.contextmanager
    def serving(self, *kind):
        server = self.start(*kind)
        try:
            yield server
        finally:
            self.servers.remove(server)
            server.kill()
            server.wait()
            server.stdout.close()

    def restart(self):
        """Restarts the servers, so that they have seen nothing."""
        kinds = [server.args[-1] for server in self.servers]
        for server in self.servers:
            server.kill()
            server.wait()
            server.stdout.close()
        self.servers = []
        for kind in kinds:
            self.start(kind)

    def close(self):
        for process in [*self.servers, self.holder]:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


class World:
    """internet, and a host with four addresses on three interfaces."""

    def __init__(self):
        self.host = Space()
        self.internet = Space()
        host, internet = self.host, self.internet
        for near, far in ("h0", "i0"), ("h1", "i1"):
            host.ip(f"link add {near} type veth peer name {far} netns {internet.pid}")
        host.ip("link add d0 type veth peer name d1")  # as good as a dummy
        for device in "h0", "h1", "d0":
            host.ip(f"link set {device} up")
        host.ip("address add 203.0.113.2/24 dev h0")
        host.ip("address add 203.0.113.77/24 dev h0")
        host.ip("address add 10.77.0.1/24 dev h1")
        host.ip("address add 172.31.5.1/24 dev d0")
        internet.ip(f"address add {GATEWAY}/24 dev i0")
        internet.ip("address add 10.77.0.2/24 dev i1")
        for address in [SITE, RESOLVER, *METADATA, *RESERVED]:
            internet.ip(f"address add {address}/32 dev lo")
        for device in "i0", "i1":
            internet.ip(f"link set {device} up")
        self.add_default_route()
        internet.start("internet")
        host.start("host")

    def many_addresses(self, count):
        """So many additional addresses, for the time of the context."""
        lines = [f"address add 172.30.{i // 250}.{i % 250}/32 dev d0\n" for i in range(count)]
        return self.added("".join(lines))

    @contextlib.contextmanager
    def added(self, lines):
        run(*self.host.inside("ip", "-batch", "-"), input=lines)
        try:
            yield
        finally:
            run(*self.host.inside("ip", "-batch", "-"), input=lines.replace(" add ", " delete "))

    def add_default_route(self):
        self.host.ip(f"route add default via {GATEWAY}")

    def close(self):
        self.host.close()
        self.internet.close()


class Box:
    def __init__(self, play, number, facts):
        self.play = play
        self.number = number
        self.pid = int(facts["pid"])
        self.address = facts["address"]
        self.router = facts["router"]
        self.host = facts["host"]
        self.us = {key: int(facts[f"{key}_us"]) for key in ("slot", "attach", "enter")}

    def run(self, command, verb="run"):
        """The exit code and what the command printed."""
        output = self.play.folder / f"out{self.number}"
        output.write_bytes(b"")
        output.chmod(0o666)
        self.play.say(f"{verb} {self.number} exec >{output} 2>&1; {command}")
        code = self.play.answer(f"exit {self.number}")
        return int(code.split()[2]), output.read_text()

    def script(self, *words, verb="run"):
        code, text = self.run(f"{PYTHON} {self.play.script} {' '.join(words)}", verb)
        assert code == 0, text
        return json.loads(text)

    def probe(self, *targets):
        """The answer or the error for each target; every refusal is quick."""
        results = self.script("probe", *targets)
        slow = {target: took for target, (_, took) in results.items() if took >= 2.5}
        assert not slow
        return {target: result for target, (result, _) in results.items()}

    def probe_by_name(self, target):
        """Resolves with the C library and the resolv.conf of a box."""
        steps = [
            "mount --make-rprivate /",
            f"mount --bind {self.play.inner_resolv} /etc/resolv.conf",
            f"exec nsenter -t {self.pid} -U -n -S 1000 -G 1000 "
            f"{PYTHON} {self.play.script} probe {target}",
        ]
        printed = run("unshare", "-m", "sh", "-ec", "; ".join(steps)).stdout
        return json.loads(printed)[target][0]

    def start_server(self):
        self.run(
            f"{PYTHON} {self.play.script} box >/dev/null 2>&1 & "
            f"for i in 1 2 3 4 5 6 7 8 9 10; do "
            f"{PYTHON} {self.play.script} probe 127.0.0.1:{BOX_PORT} | grep -q box && break; "
            "sleep 0.1; done"
        )


class Play:
    """network_driver in the host of a world."""

    def __init__(self, world, program, rootless=False, without="", resolver=RESOLVER, **instead):
        """`instead`: pasta= or nft= is a path or, for nft, a filter of its input."""
        self.world = world
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="box-net-"))
        self.folder.chmod(0o711)
        self.script = self.folder / "netinside.py"
        shutil.copy(SCRIPT, self.script)
        self.script.chmod(0o644)
        play = self.folder / "network_driver"
        shutil.copy(program, play)
        play.chmod(0o755)
        resolv = self.folder / "resolv.conf"
        resolv.write_text(f"nameserver {resolver}\n")
        resolv.chmod(0o644)
        self.inner_resolv = inner = self.folder / "box-resolv.conf"
        inner.write_text(f"nameserver {DNS}\noptions timeout:1 attempts:2\n")
        inner.chmod(0o644)
        steps = [
            "mount --make-rprivate /",
            f"mount --bind {resolv} /etc/resolv.conf",
        ]
        # Another version instead of the installed one.
        if other := os.environ.get("BOX_TEST_PASTA"):
            installed = pathlib.Path(shutil.which("pasta")).resolve()
            for path in installed, installed.with_name(installed.name + ".avx2"):
                if path.exists():
                    steps.append(f"mount --bind {other} {path}")
        for name, path in instead.items():
            if name == "nft" and not path.startswith("/"):
                path = self.write_filter(path)
            steps.append(f"mount --bind {path} {shutil.which(name)}")
        arguments = [str(play)]
        if without:
            arguments += ["--without", without]
        if rootless:
            # Without udev the device may belong to root alone.
            tun = self.folder / "tun"
            steps += [f"mknod -m 666 {tun} c 10 200", f"mount --bind {tun} /dev/net/tun"]
            ids = f"--reuid {USER} --regid {USER} --clear-groups"
            arguments = ["setpriv", *ids.split(), "--pdeathsig", "KILL", *arguments, "--rootless"]
        steps.append("exec " + " ".join(arguments))
        command = world.host.inside("unshare", "-m", "sh", "-ec", "; ".join(steps))
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
        self.log = open(self.folder / "log", "w+b")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment,
            preexec_fn=die_with_parent,
        )

    def write_filter(self, command):
        """An nft whose input goes through a command."""
        shutil.copy(shutil.which("nft"), self.folder / "nft")
        wrapper = self.folder / "nft-filtered"
        wrapper.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{command} | {self.folder}/nft \"$@\"\n")
        wrapper.chmod(0o755)
        return wrapper

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self, beginning):
        line = self.process.stdout.readline()
        assert line.startswith(beginning), f"{line!r}, log: {self.read_log()}"
        return line

    def read_log(self):
        return (self.folder / "log").read_text()

    def box(self, *egress):
        """Makes a box. With words: it reaches what they allow, and nothing else."""
        self.say(" ".join(["box", *(["only"] if egress else []), *egress]))
        words = self.answer("box ").split()
        return Box(self, int(words[1]), dict(zip(words[2::2], words[3::2])))

    def leave(self, box):
        self.say(f"leave {box.number}")
        return int(self.answer("left").split()[3])

    def pasta(self):
        """The pid of its pasta, or None."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        for pid in pathlib.Path(children).read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith(("pasta", "passt")):
                    return int(pid)
        return None

    def namespaces(self):
        """The inodes of the router's namespaces, which only its fds keep alive."""
        found = set()
        for fd in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found |= set(re.findall(r"^(?:net|user):\[\d+\]", os.readlink(fd)))
        return found

    def close(self):
        """Its exit code after end of input."""
        self.process.stdin.close()
        try:
            code = self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.log.close()
            shutil.rmtree(self.folder)
        return code


def locks(world):
    """The addresses on the host's loopback that boxes have in that namespace."""
    text = run(*world.host.inside("cat", "/proc/net/unix")).stdout
    return sorted(line.split("/")[-1] for line in text.splitlines() if "@box-host/" in line)


def age_of(pid):
    """The age of a process in seconds."""
    ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def holders(namespaces):
    """The processes that are in one of these namespaces or hold it by an fd."""
    found = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            for link in [*process.glob("ns/*"), *process.glob("fd/*")]:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    if os.readlink(link) in namespaces:
                        found.add(int(process.name))
    return found
