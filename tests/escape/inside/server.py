"""Runs in a neighbour box: server.py NAME SECRET PORT KEY leaves the secret everywhere and waits.
"""

import ctypes
import os
import socket
import sys
import threading


def serve(listener, text):
    while True:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(text)


def main(name, secret, port, key):
    text = secret.encode()
    for folder in ("/tmp", "/dev/shm", "/run", "/home/box", "/workspace"):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(text)
        os.chmod(f"{folder}/{name}", 0o666)
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0{name}")
    abstract.listen()
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    segment = libc.shmget(int(key), 4096, 0o1666)
    address = libc.shmat(segment, None, 0)
    ctypes.memmove(address, text, len(text))
    servers = [abstract, socket.create_server(("0.0.0.0", int(port)))]
    threads = [threading.Thread(target=serve, args=(one, text)) for one in servers]
    for thread in threads:
        thread.start()
    open(f"/workspace/{name}.ready", "w").close()
    for thread in threads:
        thread.join()


main(*sys.argv[1:])
