"""Sends a request to ADDRESS:PORT by tcp or udp and prints the result: ask.py KIND TARGET..., a map
as JSON.
"""

import errno
import json
import socket
import sys

QUERY = bytes.fromhex("123401000001000000000000") + b"\3www\7example\4test\0\0\1\0\1"


def ask(kind, target):
    address, port = target.rsplit(":", 1)
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    sock.settimeout(0.7)
    try:
        sock.connect((address, int(port)))
        if kind == "udp":
            sock.send(QUERY)
        return "heard " + repr(sock.recv(512)[:40])
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return errno.errorcode[error.errno]


if __name__ == "__main__":
    print(json.dumps({target: ask(sys.argv[1], target) for target in sys.argv[2:]}))
