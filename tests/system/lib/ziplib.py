"""Malformed ZIPs: each field of both headers can be set."""

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
    """Incompressible bytes, the same each time."""
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
    """An archive of the entries, with extra bytes where none belong."""
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
        # Each header but the first is preceded by the quoting block.
        if body:
            body += struct.pack("<BHH", 0, len(header), len(header) ^ 0xFFFF)
        directory += entry.central_bytes(len(body))
        body += header
    body += deflate(kernel)
    return body + directory + end_bytes(files, len(directory), len(body))


# --- an archive that contains itself ---


class Bits:
    """A deflate bit stream: numbers from their lowest bit on, codes from their highest."""

    def __init__(self):
        self.bits = []

    def number(self, value, count):
        self.bits += [value >> n & 1 for n in range(count)]

    def code(self, value, count):
        self.bits += [value >> n & 1 for n in reversed(range(count))]

    def bytes(self):
        bits = self.bits + [0] * (-len(self.bits) % 8)
        return bytes(sum(bits[at + n] << n for n in range(8)) for at in range(0, len(bits), 8))


# The first of each range that a code stands for, and how many extra bits follow it.
LENGTHS = {258: (4, 0), 264: (10, 0), 276: (59, 3), 279: (99, 4), 280: (115, 4), 281: (131, 5)}
DISTANCES = {8: (17, 3), 12: (65, 5), 13: (97, 5), 14: (129, 6)}


def find(ranges, value):
    code = max(code for code in ranges if ranges[code][0] <= value)
    start, extra = ranges[code]
    assert value < start + (1 << extra), value
    return code, value - start, extra


def repeat(lengths, distance, final=False):
    """A block that repeats what lies `distance` bytes back, so many bytes each time."""
    bits = Bits()
    bits.number(final | 1 << 1, 3)
    for length in lengths:
        code, rest, extra = find(LENGTHS, length)
        bits.code(code - 256, 7) if code < 280 else bits.code(code - 280 + 0xC0, 8)
        bits.number(rest, extra)
        code, rest, extra = find(DISTANCES, distance)
        bits.code(code, 5)
        bits.number(rest, extra)
    bits.code(0, 7)
    if not final and len(bits.bits) == 30:
        bits.number(1 << 1, 3)  # a block of nothing, to fill the byte
        bits.code(0, 7)
    return bits.bytes()


def literal(size):
    return struct.pack("<BHH", 0, size, size ^ 0xFFFF)


def quine_with(crc, packed_size=0, size=0):
    """A stream that outputs itself with the headers around it, by Cox's order of operations: each
    is five bytes, except for the last."""
    name = b"itself".ljust(30, b".")
    entry = Entry(name, b"", DEFLATED, packed=bytes(packed_size), crc=crc, size=size)
    head = entry.local_header()
    end = entry.central_bytes(0)
    end += end_bytes(1, len(end), len(head) + packed_size)
    last = repeat([len(end) + 4], len(end) + 4, final=True)
    assert len(head) == 60 and len(last) == 4
    lead, again = literal(65), repeat([65], 65)
    one, four, group = literal(5), literal(20), repeat([10, 10], 20)
    rest = literal(0) * 2 + literal(len(end) + 4)
    stream = lead + head + lead + again + one + again + one + one
    stream += four + again + one + one + four + group
    stream += four + group + four + group + four + group
    stream += four + group + rest + group + rest + last + end + last
    if not packed_size:
        return quine_with(crc, len(stream), len(head + stream + end))
    return head + stream + end


def quine():
    """An archive whose one entry is the archive. Its checksum is in it four times; checksums are
    linear, so it is found by elimination."""
    base = zlib.crc32(quine_with(0))
    rows = []  # (which bits of the checksum, what they change)
    for bit in range(32):
        change = zlib.crc32(quine_with(1 << bit)) ^ base ^ 1 << bit
        chosen = 1 << bit
        for other, row in rows:
            if change ^ row < change:
                change, chosen = change ^ row, chosen ^ other
        if change:
            rows.append((chosen, change))
            rows.sort(key=lambda pair: -pair[1])
    crc, left = 0, base
    for chosen, row in rows:
        if left ^ row < left:
            crc, left = crc ^ chosen, left ^ row
    assert left == 0, "no such checksum: give the entry another name"
    return quine_with(crc)
