"""HTTP requests byte by byte, and checks of refusals."""

import contextlib
import re
import socket

from rawlib import UPGRADE

HOST = "Host: localhost\r\n"


@contextlib.contextmanager
def opened(boxd):
    with socket.create_connection(("127.0.0.1", boxd.port), timeout=10) as raw:
        yield raw


def read_answer(raw):
    """Reads until the peer closes: (status, headers with lower-case names, body)."""
    data = b""
    while piece := raw.recv(65536):
        data += piece
        if data.startswith(b"HTTP/1.1 101") and b"\r\n\r\n" in data:
            break
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    found = re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Za-z ]+", lines[0])
    assert found, data
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        assert name.lower() not in headers, f"{name} twice"
        headers[name.lower()] = value
    return int(found[1]), headers, body


def say(boxd, text):
    """Sends bytes unchanged, and returns the answer."""
    with opened(boxd) as raw:
        raw.sendall(text.encode() if isinstance(text, str) else text)
        return read_answer(raw)


def request(boxd, path, headers, method="GET"):
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return say(boxd, "\r\n".join(lines) + "\r\n\r\n")


def upgrade(boxd, path="/rpc/ws", without=(), **fields):
    """An upgrade request with some headers removed or changed (`_` stands for `-`)."""
    headers = {name: value for name, value in UPGRADE.items() if name not in without}
    for name, value in fields.items():
        headers[name.replace("_", "-")] = value
    return request(boxd, path, headers)


def assert_unauthorized(answer):
    status, headers, body = answer
    assert (status, body) == (401, b"Unauthorized")
    assert headers["content-type"].startswith("text/plain")
