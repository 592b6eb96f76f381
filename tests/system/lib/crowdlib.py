"""Measurements for the tests of limits: crowds of sockets, metrics, percentiles."""

import resource
import subprocess
import sys

from rawlib import dial


def raise_open_files():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def metric(boxd, name):
    with dial(boxd.port) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
    rows = [line.split() for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
    assert rows, f"no metric {name}"
    return sum(float(row[-1]) for row in rows)


def pending(boxd):
    """The number of pending connections, without the one that asks."""
    return metric(boxd, "box_pending_connections") - 1


def read_or_end(sock):
    try:
        return sock.recv(65536)
    except ConnectionError:
        return b""


CROWD = """
import resource, select, socket, sys
port, count, addresses = (int(text) for text in sys.argv[1:4])
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
socks = []
for i in range(count):
    one = socket.create_connection(("127.0.0.1", port), 20, ("127.0.0.%d" % (2 + i % addresses), 0))
    if i % 2:
        try:
            one.sendall(b"GET /rpc/ws HTTP/1.1\\r\\nHost: loc")
        except OSError:
            pass
    socks.append(one)
print("there", flush=True)
poll = select.poll()
for one in socks:
    poll.register(one, select.POLLIN | select.POLLRDHUP)
while sys.stdin.readline():
    print(len(poll.poll(0)), flush=True)
"""


class Crowd:
    """Sockets, held by a separate process, that send nothing or half a request head."""

    def __init__(self, port, count, addresses=20):
        self.count = count
        self.process = subprocess.Popen(
            [sys.executable, "-c", CROWD, str(port), str(count), str(addresses)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        assert self.process.stdout.readline() == "there\n"
        return self

    def __exit__(self, *ignored):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def gone(self):
        """How many the server has closed."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())
