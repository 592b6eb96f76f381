"""boxd with tests/drivers/fake_rpc.c in place of box-rpc, and connections to it."""

import socket
import subprocess

import boxdlib

FLAG_STDIO, FLAG_FILE, FLAG_VARIABLE, FLAG_STATE, FLAG_CHECK, FLAG_HOST, FLAG_SOFT = (
    1 << bit for bit in range(7)
)
FLAG_WIDE_OPEN = 1 << 7
FLAG_ROOTS = 1 << 11  # boxdlib names mount roots for every boxd


def make_folder(folder):
    """Puts boxd and the fake box-rpc side by side."""
    folder.mkdir()
    for name, place in (("boxd", "boxd"), ("fake_rpc", "box-rpc")):
        found = [path for path in sorted(boxdlib.build().rglob(name)) if path.is_file()]
        assert found, f"no {name} in {boxdlib.build()}"
        # In a separate process, see nativelib.copy.
        subprocess.run(["cp", "--", str(found[0]), str(folder / place)], check=True)
    return folder


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def run(folder, *args):
    return subprocess.run([str(folder / "boxd"), *args], capture_output=True, text=True, timeout=10)


def read_answers(file):
    answers = {}
    for line in file:
        if line == b".\n":
            return answers
        key, _, value = line.decode().rstrip("\n").partition("=")
        answers[key] = value
    raise AssertionError("the answer has no end")


class Peer:
    """A connection to the fake box-rpc."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.file = self.socket.makefile("rb")
        self.pid = int(self.file.readline()[1:])

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.file.close()
        self.socket.close()

    def send(self, command):
        self.socket.sendall(command.encode() + b"\n")

    def ask(self, command):
        self.send(command)
        return self.file.readline().decode().rstrip("\n")

    def ask_all(self, command):
        self.send(command)
        return read_answers(self.file)


class FakeRpcBoxd(boxdlib.Boxd):
    @property
    def port(self):
        return self.wait_event("listening")["port"]

    def connect(self, host="127.0.0.1"):
        return Peer(self.port, host)

    def tell(self, command):
        """Sends a command over stdio."""
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def answers(self):
        return read_answers(self.process.stdout)
