"""Servers and requests that run inside the namespaces and boxes of network tests. A self-contained
script: `netinside.py internet|host|box|probe|fetch|...`.
"""

import contextlib
import errno
import hashlib
import http.server
import json
import signal
import socket
import socketserver
import struct
import sys
import threading
import time

PORT = 5410  # the runtime's own
OTHER_PORT = 8081  # of the internet, beside 80
BOX_PORT = 8080  # of a server in a box, which may not take a low one
LOOPBACK_PORT = 5411  # on the host's loopback only
BIG = 10 * 1024 * 1024
SITE = "93.184.216.34"
NAME = "www.example.test"
GATEWAY = "203.0.113.1"
RESOLVER = "203.0.113.53"
DNS = "198.18.0.2"
HOST_ADDRESSES = ["203.0.113.2", "203.0.113.77", "10.77.0.1", "172.31.5.1"]
METADATA = ["169.254.169.254", "100.100.100.200", "192.0.0.192"]
RESERVED = ["240.0.0.1"]
USER = 12345
PYTHON = "/usr/bin/python3"


def big_bytes():
    return hashlib.shake_128(b"box").digest(BIG)


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = big_bytes() if self.path == "/big" else self.server.label.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Web(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, label, address):
        self.label = label
        super().__init__(address, Pages)


class Echo(socketserver.BaseRequestHandler):
    """Answers datagrams; records the senders for the page `seen`, which `?` requests."""

    seen = set()

    def handle(self):
        data, sock = self.request
        if data == b"?":
            sources = sorted({address for address, _ in self.seen})
            data = json.dumps({"count": len(self.seen), "sources": sources}).encode()
        elif data.startswith(b"count"):
            self.seen.add(self.client_address)
        else:
            data = data + b" from " + self.client_address[0].encode()
        sock.sendto(data, self.client_address)


class Names(socketserver.BaseRequestHandler):
    """A minimal DNS server: the A record of NAME is SITE, nothing else exists."""

    def handle(self):
        query, sock = self.request
        end = query.index(b"\0", 12) + 5
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        known = ".".join(labels) == NAME
        is_a = struct.unpack("!H", query[end - 4 : end - 2])[0] == 1
        answers = 1 if known and is_a else 0
        head = query[:2] + struct.pack(
            "!HHHHH", 0x8180 if known else 0x8183, 1, answers, 0, 0
        )
        record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(SITE)
        sock.sendto(head + query[12:end] + record * answers, self.client_address)


def serve(*servers):
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    signal.pause()


def main_internet():
    serve(
        Web("internet", ("0.0.0.0", 80)),
        Web("internet", ("0.0.0.0", OTHER_PORT)),
        socketserver.UDPServer((SITE, 7), Echo),
        socketserver.UDPServer((RESOLVER, 53), Names),
    )


def main_host():
    serve(
        Web("host", ("0.0.0.0", PORT)),
        Web("loopback", ("127.0.0.1", LOOPBACK_PORT)),
        socketserver.UDPServer(("127.0.0.53", 53), Names),
    )


def main_offer(address, port, label):
    """A server at one address; it answers with the client's address."""

    class Offer(Pages):
        def do_GET(self):
            self.server.label = f"{label} {self.client_address[0]}"
            super().do_GET()

    class Server(socketserver.ThreadingTCPServer):
        """Not HTTPServer, which first resolves the name of its address."""

        allow_reuse_address = True
        daemon_threads = True

    serve(Server((address, int(port)), Offer))


def main_box():
    serve(Web("box", ("0.0.0.0", BOX_PORT)))


def main_probe(*targets):
    """The result of connecting to each ADDRESS:PORT, and the time it took."""
    results = {}
    for target in targets:
        address, port = target.rsplit(":", 1)
        start = time.monotonic()
        try:
            with socket.create_connection((address, int(port)), 2) as sock:
                sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
                result = b"".join(iter(lambda s=sock: s.recv(4096), b"")).split(b"\r\n\r\n")[1]
                result = result.decode()
        except TimeoutError:
            result = "timeout"
        except socket.gaierror:
            result = "no such name"
        except OSError as error:
            result = errno.errorcode[error.errno]
        results[target] = [result, time.monotonic() - start]
    print(json.dumps(results))


def main_fetch(address, port="80"):
    with socket.create_connection((address, int(port)), 5) as sock:
        sock.sendall(b"GET /big HTTP/1.0\r\n\r\n")
        data = b"".join(iter(lambda: sock.recv(1 << 20), b""))
    print(json.dumps(hashlib.sha256(data.split(b"\r\n\r\n", 1)[1]).hexdigest()))


def ask(message, address=(SITE, 7), source=None, seconds=2):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if source:
            sock.bind((source, 0))
        sock.settimeout(seconds)
        sock.sendto(message.encode(), address)
        return sock.recv(65536).decode()


def main_echo(message, source=None):
    try:
        print(json.dumps(ask(message, source=source)))
    except OSError as error:
        print(json.dumps(f"failed: {error}"))


def main_lookup(name):
    """The answer of the boxes' name server, without the C library."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.connect((DNS, 53))
        sock.send(query)
        answer = sock.recv(512)
    assert answer[:2] == query[:2]
    known = struct.unpack("!H", answer[6:8])[0] == 1
    print(json.dumps(socket.inet_ntoa(answer[-4:]) if known else None))


def main_seen():
    print(ask("?"))


def main_flood(count):
    """One datagram from each of so many ports."""
    for _ in range(int(count)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            with contextlib.suppress(OSError):
                sock.sendto(b"count", (SITE, 7))
    print("null")


if __name__ == "__main__":
    globals()["main_" + sys.argv[1]](*sys.argv[2:])
