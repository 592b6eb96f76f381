"""A TCP proxy on loopback that can drop its connections silently."""

import contextlib
import socket
import struct
import threading


class Proxy:
    """Forwards bytes to `port`; use it as a context manager."""

    def __init__(self, port):
        self.target = port
        self.pairs = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}"
        self.accepted = 0
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        # Closing a listener does not wake up accept.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.break_all()
        for thread in self.threads:
            thread.join(10)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self.accepted += 1
                with self.lock:
                    self.pairs.append((near, far))
                for source, sink in ((near, far), (far, near)):
                    thread = threading.Thread(target=self._carry, args=(source, sink), daemon=True)
                    self.threads.append(thread)
                    thread.start()

    @staticmethod
    def _carry(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def break_all(self):
        """Resets every connection at both ends."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for one in (end for pair in pairs for end in pair):
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.shutdown(socket.SHUT_RD)
                one.close()
