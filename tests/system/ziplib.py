"""ZIPs that no packer would write: each field of both headers can be set."""

import dataclasses
import random
import struct
import zlib

LOCAL, CENTRAL, END, DESCRIPTOR = 0x04034B50, 0x02014B50, 0x06054B50, 0x08074B50
STORED, DEFLATED = 0, 8


def deflate(content):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()


def noise(size, seed=1):
    """Bytes that do not pack, the same each time."""
    return random.Random(seed).randbytes(size)


@dataclasses.dataclass
class Entry:
    name: bytes
    content: bytes = b""
    method: int = STORED
    mode: int = 0o100644
    flags: int = 0
    extra: bytes = b""
    packed: bytes = None  # what lies in the archive, if not the content
    crc: int = None
    size: int = None
    offset: int = None  # of the local header, as the directory says
    local: dict = dataclasses.field(default_factory=dict)  # what the local header says instead
    descriptor: tuple = None  # (crc, packed, size) behind the data

    def __post_init__(self):
        if self.packed is None:
            self.packed = deflate(self.content) if self.method == DEFLATED else self.content
        self.crc = zlib.crc32(self.content) if self.crc is None else self.crc
        self.size = len(self.content) if self.size is None else self.size

    def local_header(self):
        says = {
            **{"flags": self.flags, "method": self.method, "crc": self.crc, "name": self.name},
            **{"packed": len(self.packed), "size": self.size, "extra": self.extra, **self.local},
        }
        head = struct.pack(
            "<IHHHIIIIHH",
            *(LOCAL, 20, says["flags"], says["method"], 0, says["crc"], says["packed"]),
            *(says["size"], len(says["name"]), len(says["extra"])),
        )
        return head + says["name"] + says["extra"]

    def local_bytes(self):
        end = struct.pack("<IIII", DESCRIPTOR, *self.descriptor) if self.descriptor else b""
        return self.local_header() + self.packed + end

    def central_bytes(self, offset):
        offset = offset if self.offset is None else self.offset
        head = struct.pack(
            "<IHHHHIIIIHHHHHII",
            *(CENTRAL, 0x0314, 20, self.flags, self.method, 0, self.crc, len(self.packed)),
            *(self.size, len(self.name), len(self.extra), 0, 0, 0, self.mode << 16, offset),
        )
        return head + self.name + self.extra


def end_bytes(count, size, offset, comment=b"", disk=0):
    head = struct.pack("<IHHHHIIH", END, disk, 0, count, count, size, offset, len(comment))
    return head + comment


def archive(*entries, before=b"", between=b"", after=b"", count=None, **end):
    """An archive of the entries, with bytes where none belong."""
    body = bytearray(before)
    directory = bytearray()
    for entry in entries:
        directory += entry.central_bytes(len(body))
        body += entry.local_bytes()
    body += between
    count = len(entries) if count is None else count
    return body + directory + end_bytes(count, len(directory), len(body), **end) + after


def overlap_bomb(files, kernel_size):
    """Fifield's construction: each file quotes the next one's header and shares all that follows.

    A stored block that is not the last of its stream holds the header; the stream goes on with what
    the next file is made of, down to one kernel at the end.
    """
    kernel = noise(kernel_size // 50) * 50
    packed = deflate(kernel)
    content = kernel
    parts = []
    for number in reversed(range(files)):
        entry = Entry(b"f%d" % number, content, DEFLATED, packed=packed)
        header = entry.local_header()
        parts.append((entry, header))
        quote = struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF)
        packed = quote + header + packed
        content = header + content
    body = directory = b""
    for entry, header in reversed(parts):
        # The quoting block stands before each header but the first.
        if body:
            body += struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF)
        directory += entry.central_bytes(len(body))
        body += header
    body += deflate(kernel)
    return body + directory + end_bytes(files, len(directory), len(body))
