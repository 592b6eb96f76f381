"""Readers of relays that read slowly at first and then as fast as they can, each in a thread of
this process.

usage: slow_readers.py PORT READERS SECONDS BYTES: every second reader takes lines (`mcp`), the
others `box.v1`; process N is called pN. Prints `slow` when the slow part is over, then one line of
JSON: how many bytes each had by then, and the MD5 of everything it received.
"""

import hashlib
import json
import socket
import sys
import threading
import time

import rawlib
from relaylib import BEGIN, DATA, DONE, END, Bare, pack, unpack

RATE_BYTES = 64 * 1024  # a second
STEP_SECONDS = 0.1


def narrow(port):
    """A socket with a small receive buffer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    made.settimeout(60)
    made.connect(("127.0.0.1", port))
    return made


class Reader(threading.Thread):
    def __init__(self, port, number, seconds, size):
        super().__init__(daemon=True)
        self.by_line = number % 2 == 0
        self.seconds, self.size = seconds, size
        protocol = "mcp" if self.by_line else "box.v1"
        self.bare = Bare(port, f"p{number}", protocol=protocol, sock=narrow(port))
        self.got, self.slow_got = 0, None
        self.sum = hashlib.md5()
        if not self.by_line:
            self.bare.send(pack(BEGIN, 0), opcode=rawlib.BINARY)

    def take(self):
        message = self.bare.recv()
        if self.by_line:
            data = message + b"\n"
        else:
            kind, offset, data = unpack(message)
            if kind != DATA:
                assert kind in (BEGIN, DONE, END), kind
                return
            assert offset == self.got, (offset, self.got)
            self.bare.send(pack(DONE, self.got + len(data)), opcode=rawlib.BINARY)
        self.sum.update(data)
        self.got += len(data)

    def run(self):
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < self.seconds:
            if self.got < RATE_BYTES * passed:
                self.take()
            else:
                time.sleep(STEP_SECONDS)
        self.slow_got = self.got
        self.bare.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while self.got < self.size:
            self.take()
        self.bare.close()


def main():
    port, count, seconds, size = (int(word) for word in sys.argv[1:])
    readers = [Reader(port, number, seconds, size) for number in range(count)]
    for one in readers:
        one.start()
    print("there", flush=True)
    time.sleep(seconds)
    print("slow", flush=True)
    for one in readers:
        one.join(300)
    found = [(one.slow_got, one.got, one.sum.hexdigest()) for one in readers]
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
