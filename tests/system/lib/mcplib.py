"""Real MCP servers in a native box, started by the real client of langbot-plugin, and a proxy to
their relays for clients that cannot send headers.
"""

import contextlib
import testpaths
import os
import socket
import struct
import subprocess
import threading

import clientlib
import langbotlib
import nativelib
import relaylib
import testpaths

SESSION = "mcp"
PACKAGES = "/workspace/node_modules/@modelcontextprotocol"
FILE = "/tmp/files/long.txt"
FILE_LINE = "0123456789 abcdef"  # the server breaks other characters where it reads the head only
FILE_LINES = (2 << 20) // len(FILE_LINE.encode())

# The server programs, and the limits of their session.
SERVERS = {
    "everything": [f"{PACKAGES}/server-everything/dist/index.js", "stdio"],
    "files": [f"{PACKAGES}/server-filesystem/dist/index.js", "/tmp/files"],
}


class Door:
    """A port that adds headers to a request, as a proxy in front of boxd would, and then forwards
    every byte; `tear` breaks all connections that are open at that moment."""

    def __init__(self, port, headers):
        self.target = ("127.0.0.1", port)
        self.headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.tear()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                far = socket.create_connection(self.target)
                with self.lock:
                    self.pairs.append((near, far))
                threading.Thread(target=self.serve, args=(near, far), daemon=True).start()

    def serve(self, near, far):
        with contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += near.recv(4096) or b"\r\n\r\n"
            line, rest = head.split(b"\r\n", 1)
            far.sendall(line + b"\r\n" + self.headers.encode() + rest)
        threading.Thread(target=self.pump, args=(far, near), daemon=True).start()
        self.pump(near, far)

    def pump(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def tear(self):
        """Both ends see a reset. Connections that are made meanwhile are new ones and stay."""
        with self.lock:
            torn, self.pairs = self.pairs, []
        for one in (one for pair in torn for one in pair):
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RD)
            one.close()


class World:
    """A boxd with a token, and both servers in one of its boxes."""

    def __init__(self, place, boxd):
        self.place = place
        self.boxd = boxd
        self.folder = langbotlib.link_packages(place.folder / f"mcp-{boxd.port}")
        # These apply to commands, too: a session has one spec.
        self.box = {"host_path": str(self.folder), "host_path_mode": "ro", "memory_mb": 1024}
        self.headers = {
            **relaylib.headers(),
            "X-LangBot-Box-Control-Token": clientlib.TOKEN,
        }

    def start(self):
        """Starts the process with the real client, as LangBot would."""
        make = f"mkdir -p /tmp/files; yes '{FILE_LINE}' | head -n {FILE_LINES} > {FILE}"
        steps = {
            "init": {"do": "init", "backend": "local"},
            "create": {"do": "create", "session_id": SESSION, **self.box},
            "make": {"do": "exec", "session_id": SESSION, "cmd": make, **self.box},
        }
        for name, args in SERVERS.items():
            about = {"process_id": name, "command": "node", "args": args, "cwd": "/workspace"}
            steps[name] = {"do": "start", "session_id": SESSION, **about}
        wanted = {"carrier": "websocket", "instance": clientlib.INSTANCE, "steps": steps}
        wanted |= {"url": self.boxd.url, "stay": True}
        wanted["headers"] = {
            name: self.headers[name]
            for name in ("X-LangBot-Instance-Id", "X-LangBot-Box-Control-Token")
        }
        script = str(testpaths.SCRIPTS / "box_steps_script.py")
        command = [f"{os.environ['BOX_VENV_NEW']}/bin/python", script]
        results = nativelib.Results(nativelib.run_script(command, wanted, self.place), self.place)
        return {name: results.gave(name) for name in steps}

    def url(self, process, port=None):
        path = relaylib.path(process, SESSION)
        return f"ws://127.0.0.1:{port or self.boxd.port}{path}"

    def end(self, client, name):
        """Interrupts the server as Ctrl-C would; the pattern does not match the command that
        contains it."""
        pattern = f"[s]erver-{name}/dist/index.js"
        ended = client.exec(f"pkill -INT -f {pattern}", session=SESSION, **self.box)
        assert ended["exit_code"] == 0, ended


@contextlib.contextmanager
def conversation(command, **options):
    """A client that prints lines when it waits for something; read them with `for line in ...`."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    killer = threading.Timer(90, process.kill)
    killer.start()
    try:
        yield process
        _, errors = process.communicate()
        assert process.returncode == 0, errors[-4000:]
    finally:
        killer.cancel()
        process.kill()
        process.wait(10)
        process.stdout.close()
        process.stderr.close()
