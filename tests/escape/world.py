"""The setup that attempts run in: a host with secrets, a boxd, and three boxes.

Box `s` is where the attempts run; `n` is another box of the same tenant, `t` one of another tenant.
Everything is below one temporary folder or ends with the process; `close` removes it all.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading

import boxdlib
import clientlib
import frame
import main as _attempts  # noqa: F401 (they put themselves into the list)

HERE = pathlib.Path(__file__).resolve().parent

OWNER = 12345  # owns the host folders; no user of this host
USER = 23456  # the user of a rootless boxd
PIECE = 40  # attempts in one command
MEMORY_MB = 96
PIDS = 48
PYTHON = "/usr/bin/python3 -s -E"
SPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
ENV_NAME = "BOX_ESCAPE_SECRET"

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p


def descendants(pid):
    """Of a process, with itself."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{one}/task").iterdir():
                found += [int(word) for word in (task / "children").read_text().split()]
    return found


class Host:
    """The secrets of the host, and the sockets that would tell them."""

    def __init__(self, owner):
        self.owner = owner
        self.secret = "secret-" + secrets.token_hex(12)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="box-escape-"))
        self.folder.chmod(0o755)
        outside = self.make_folder("outside")
        self.secret_file = outside / "secret"
        self.secret_file.write_text(self.secret)
        # Everyone may read and write it: only the isolation of the box protects it.
        self.secret_file.chmod(0o666)
        self.name = "box-escape-" + secrets.token_hex(6)
        self.shm_key = secrets.randbits(30) | 1
        self._open_sockets()
        self._make_segment()
        self._make_key()

    def make_folder(self, name):
        path = self.folder / name
        path.mkdir()
        os.chown(path, self.owner, self.owner)
        return path

    def _open_sockets(self):
        self.socket_file = self.folder / "socket"
        self.sockets = []
        for address in (f"\0{self.name}", str(self.socket_file)):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(address)
            listener.listen()
            self._serve(listener, self._tell)
        self.socket_file.chmod(0o666)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        self.udp_port = udp.getsockname()[1]
        self._serve(udp, self._tell_datagram)

    def _serve(self, listener, function):
        self.sockets.append(listener)
        threading.Thread(target=function, args=(listener,), daemon=True).start()

    def _tell(self, listener):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer, contextlib.suppress(OSError):
                    peer.sendall(self.secret.encode())

    def _tell_datagram(self, listener):
        with contextlib.suppress(OSError):
            while True:
                _, peer = listener.recvfrom(100)
                if not peer:
                    return
                listener.sendto(self.secret.encode(), peer)

    def _make_segment(self):
        self.segment = libc.shmget(self.shm_key, 4096, 0o1666)
        assert self.segment >= 0
        address = libc.shmat(self.segment, None, 0)
        ctypes.memmove(address, self.secret.encode(), len(self.secret))
        libc.shmdt(ctypes.c_void_p(address))

    def _make_key(self):
        """In our own session keyring, which boxd inherits and which ends with us."""
        libc.syscall(250, 1, None)
        text = self.secret.encode()
        key = libc.syscall(248, b"user", self.name.encode(), text, len(text), ctypes.c_int(-3))
        if key >= 0:
            libc.syscall(250, 5, key, 0x3F3F3F3F)  # for everyone

    def check_alive(self):
        """A server that is dead would be mistaken for a blocked one."""
        for address in (f"\0{self.name}", str(self.socket_file)):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(5)
                sock.connect(address)
                assert sock.recv(100) == self.secret.encode()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.sendto(b"?", ("127.0.0.1", self.udp_port))
            assert sock.recv(100) == self.secret.encode()

    def facts(self):
        interfaces = [name for _, name in socket.if_nameindex()]
        return {
            "secret": self.secret,
            "secret_file": str(self.secret_file),
            "folder": str(self.folder),
            "abstract": self.name,
            "socket_file": str(self.socket_file),
            "udp_port": self.udp_port,
            "shm_key": self.shm_key,
            "key": self.name,
            "env_name": ENV_NAME,
            "hostname": os.uname().nodename,
            "interfaces": interfaces,
            "addresses": host_addresses(),
            "host_namespaces": {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in SPACES},
            "disks": os.listdir("/sys/block"),
        }

    def close(self):
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        libc.shmctl(self.segment, 0, None)
        shutil.rmtree(self.folder)


def host_addresses():
    listed = subprocess.run(["ip", "-j", "address"], capture_output=True, text=True, timeout=10)
    found = [
        info["local"]
        for link in json.loads(listed.stdout)
        for info in link["addr_info"]
        if info["family"] == "inet" and not info["local"].startswith("127.")
    ]
    return found or ["192.0.2.1"]


def put_traps(folder, owner, root):
    """Files that a careless host may have left in a folder that becomes a workspace."""
    for name, text, mode in (("of-the-owner", "for the box", 0o600), ("of-root", "root's", 0o600)):
        path = folder / name
        path.write_text(text)
        path.chmod(mode)
    os.chown(folder / "of-the-owner", owner, owner)
    for name, minor in (("host-zero", 5), ("host-random", 9)):
        with contextlib.suppress(PermissionError):
            os.mknod(folder / name, 0o20666, os.makedev(1, minor))
            os.chmod(folder / name, 0o666)
    program = os.path.realpath("/usr/bin/python3")
    for name in ("setuid-root", "setuid-init", "capable-python"):
        shutil.copy(program, folder / name)
    if root:
        os.chmod(folder / "setuid-root", 0o6755)
        with contextlib.suppress(OSError):
            value = bytes.fromhex("0100000200002000000000000000000000000000")
            os.setxattr(folder / "capable-python", "security.capability", value)


def remove_segment(key):
    """Removes the shared memory of a box that has the host's IPC namespace, in a weakened build."""
    number = libc.shmget(key, 0, 0)
    if number >= 0:
        libc.shmctl(number, 0, None)


# Small enough that an attempt can reach it.
LIMITS = {"max_sessions": 24, "max_artifact_memory_mb": 48}


class World:
    """Use it as a context manager."""

    def __init__(
        self, programs, rootless=False, network="off", before=(), config=None, neighbours=True
    ):
        self.rootless = rootless
        self.network = network
        self.own = clientlib.context()
        self.other = clientlib.context(workspace="ws2")
        self.neighbour = self.stranger = None
        self.owner = USER if rootless else OWNER
        self.stack = contextlib.ExitStack()
        with self.stack:
            self.host = Host(self.owner)
            self.stack.callback(self.host.close)
            self._start(programs, before, config or {})
            self._make_box()
            if neighbours:
                self._make_neighbours()
            self.stack = self.stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.stack.close()

    def _start(self, programs, before, config):
        """`config` is the operator's `local` section."""
        # Another name for /etc, in a mount namespace that only boxd is in: changes of this folder
        # elsewhere do not affect /etc.
        self.bound = self.host.make_folder("bound")
        bind = f'mount --bind /etc {self.bound} && exec "$@"'
        before = [*before, "unshare", "-m", "sh", "-c", bind, "sh"]
        if self.rootless:
            config = {**config, "degraded": True}
            ids = f"--reuid {USER} --regid {USER} --clear-groups"
            before = [*before, "setpriv", *ids.split()]
            copy = self.host.folder / "programs"
            copy.mkdir()
            for name in ("boxd", "box-rpc", "box-init", "box-skills"):
                shutil.copy(pathlib.Path(programs) / name, copy / name)
            programs = copy
        self.programs = pathlib.Path(programs)
        settings = self.host.folder / "boxd.yaml"
        settings.write_text(json.dumps({"backend": "local", "limits": LIMITS, "local": config}))
        self.boxd = boxdlib.Boxd(
            f"--config={settings}",
            programs=pathlib.Path(programs),
            stdio=True,
            before=before,
            cwd=self.host.make_folder("cwd"),
            config={"backend": "local"},
            env={ENV_NAME: self.host.secret},
        )
        self.stack.callback(self.boxd.stop)
        self.client = clientlib.Stdio(self.boxd)
        self.stack.callback(self.client.close)
        self.port = self.boxd.port

    def spec(self, **more):
        return {
            "memory_mb": MEMORY_MB,
            "pids_limit": PIDS,
            "network": self.network,
            "timeout_sec": 200,
            **more,
        }

    def run(self, cmd, session="s", seconds=220, context=..., **more):
        """The whole answer, which may be an error."""
        members = {} if context is ... else {"context": context}
        data = {"cmd": cmd, "session_id": session, **self.spec(**more)}
        return self.client.call("box_exec", data, seconds, **members)

    def _neighbour(self, name, context, port):
        folder = self.host.make_folder(f"workspace-{name}")
        shutil.copy(HERE / "inside" / "server.py", folder)
        facts = {
            "name": f"{self.host.name}-{name}",
            "secret": f"{self.host.secret}-{name}",
            "workspace": str(folder),
            "abstract": f"{self.host.name}-{name}",
            "port": port,
            "shm_key": self.host.shm_key + port,
        }
        self.stack.callback(remove_segment, facts["shm_key"])
        words = (facts["name"], facts["secret"], port, facts["shm_key"])
        cmd = f"exec {PYTHON} /workspace/server.py {' '.join(map(str, words))}"
        spec = self.spec(host_path=str(folder), timeout_sec=600)
        self.client.start("box_exec", {"cmd": cmd, "session_id": name, **spec}, context=context)
        self.stack.callback(self._end, name, context)
        ready = folder / f"{facts['name']}.ready"
        boxdlib.wait_until(ready.exists, 20, f"the server in {name}")
        init = self.find_init(folder)
        first, outside, count = id_map(init)
        return {**facts, "pids": descendants(init), "first_id": outside, "id_count": count}

    def _end(self, name, context):
        """When boxd stops, it waits a while for a command before it ends it."""
        with contextlib.suppress(Exception):  # a weakened box may behave in any way
            self.client.call("box_delete_session", {"session_id": name}, context=context)

    def find_init(self, workspace):
        """The host pid of PID 1 in the box with this workspace."""
        wanted = os.stat(workspace)
        for pid in descendants(self.boxd.pid):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/root/workspace")
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return pid
        raise AssertionError(f"no box has {workspace}: {self.boxd.tail()}")

    def _make_box(self):
        self.workspace = self.host.make_folder("workspace")
        os.symlink(self.host.secret_file, self.workspace / "host-made-link")
        put_traps(self.workspace, self.owner, not self.rootless)
        inside = self.workspace / "attempts"
        shutil.copytree(HERE / "inside", inside, ignore=shutil.ignore_patterns("__pycache__"))
        answer = self.run("true", host_path=str(self.workspace))
        assert answer["code"] == 0 and answer["data"]["exit_code"] == 0, answer
        self.init = self.find_init(self.workspace)
        if not self.rootless:
            first = id_map(self.init)[1]
            os.chown(self.workspace / "setuid-init", first, first)
            os.chmod(self.workspace / "setuid-init", 0o6755)

    def _make_neighbours(self):
        self.neighbour = self._neighbour("n", self.own, 18080)
        self.stranger = self._neighbour("t", self.other, 18081)

    def facts(self):
        cgroups = pathlib.Path(f"/proc/{self.init}/cgroup").read_text().splitlines()
        lines = [line.split(":", 2) for line in cgroups]
        limited = [(kinds, path) for _, kinds, path in lines if "box-" in path]
        return {
            **self.host.facts(),
            "port": self.port,
            "host_uid_map": id_map(self.init),
            "workspace": str(self.workspace),
            "host_pids": [self.boxd.pid, self.boxd.worker, os.getpid(), self.init],
            "oom_score_adj": int(pathlib.Path(f"/proc/{self.boxd.pid}/oom_score_adj").read_text()),
            "cgroups": sorted({path for _, path in limited}),
            "controllers": sorted({f":{kinds}:" for kinds, _ in limited}) or ["::"],
            "memory_mb": MEMORY_MB,
            "pids_limit": PIDS,
            "neighbour": self.neighbour,
            "stranger": self.stranger,
        }

    def _run_inside(self, names):
        """Copied over stdout, in pieces below the output limit: a weakened box may be unable to
        write files."""
        facts = self.workspace / "facts.json"
        facts.write_text(json.dumps(self.facts()))
        facts.chmod(0o644)
        words = f"exec {PYTHON} /workspace/attempts/main.py /workspace/facts.json"
        answer = self.run(f"{words} {' '.join(names)}", host_path=str(self.workspace))
        told = (answer.get("data") or {}).get("stdout", "").splitlines()
        return answer, [tuple(json.loads(line)) for line in told if line.startswith("[")]

    def _run_alone(self, one):
        """For attempts whose refusal ends the whole command: memory."""
        answer, rows = self._run_inside([one.name])
        end = (answer.get("data") or {}).get("end") or {}
        if not rows and end.get("reason") == "memory":
            return one.kind, one.name, "BLOCKED", "the command was ended for its memory"
        return rows[0] if rows else (one.kind, one.name, "ERROR", json.dumps(answer)[:400])

    def attempt_inside(self, names=()):
        """Runs the named attempts in the box, or all: a list of (class, name, verdict, how)."""
        known = frame.attempts
        chosen = [known[name] for name in names or known]
        together = [one.name for one in chosen if not one.alone]
        rows = []
        for at in range(0, len(together), PIECE):
            answer, more = self._run_inside(together[at : at + PIECE])
            rows += more
            if answer["code"] != 0 or answer["data"]["exit_code"] != 0:
                rows.append(("suite", "inside", "ERROR", json.dumps(answer)[:600]))
        rows += [self._run_alone(one) for one in chosen if one.alone]
        self.host.check_alive()
        return rows


def id_map(pid):
    text = pathlib.Path(f"/proc/{pid}/uid_map").read_text().splitlines()[0]
    return tuple(int(word) for word in text.split())
