"""Malicious ZIPs of every kind, and the error that each must give."""

import struct

import ziplib
from ziplib import DEFLATED, Entry, archive, noise

MIB = 1 << 20
VALID = "Uploaded file must be a valid .zip archive"
UNSAFE = "Archive contains an unsafe path"
FINE = Entry(b"fine.txt", b"hello " * 100, DEFLATED)
OVERLAPPING = "Archive contains overlapping entries: f1"


def zip64_extra(size, packed):
    return struct.pack("<HHQQ", 1, 16, size, packed)


def overlap_bomb():
    return ziplib.overlap_bomb(files=30, kernel_size=MIB)


def bomb(levels, each=10):
    """Archives nested in each archive, and zeros in the innermost, like 42.zip: 8 GiB for three
    levels."""
    data = archive(Entry(b"zeros", bytes(8 * MIB), DEFLATED))
    for level in range(levels):
        inner = data
        entries = (Entry(b"%d-%d.zip" % (level, n), inner, DEFLATED) for n in range(each))
        data = archive(*entries)
    return bytes(data)


def chain(levels):
    """An archive in an archive in an archive, with a small text in the innermost."""
    data = archive(Entry(b"text", b"hello " * 9, DEFLATED))
    for level in range(1, levels):
        data = archive(Entry(b"%d" % level, data, DEFLATED if level % 2 else ziplib.STORED))
    return bytes(data)


def wide(count):
    """Six megabytes in each, a tenth of it noise: no single ratio is large, but the sum is."""
    inner = archive(Entry(b"noise", (noise(9000) + bytes(91000)) * 60, DEFLATED))
    return bytes(archive(*(Entry(b"%d" % n, inner) for n in range(count))))


def packed_in(data, name=b"x.bin", method=ziplib.STORED):
    """An entry that is an archive by its bytes but not by its name."""
    return [Entry(name, bytes(data), method)]


INSIDE = " (an archive in the archive)"


# Malicious entries; each follows a valid one.
LIES = {
    # kind: (entries, the text of the error)
    "absolute": ([Entry(b"/etc/cron.d/x", b"x")], f"{UNSAFE}: /etc/cron.d/x"),
    "up": ([Entry(b"../x", b"x")], f"{UNSAFE}: ../x"),
    "up inside": ([Entry(b"a/../../x", b"x")], f"{UNSAFE}: a/../../x"),
    "empty": ([Entry(b"", b"x")], "Archive contains an unsafe empty or NUL path: (entry 2)"),
    "NUL": ([Entry(b"x\0.md", b"x")], "Archive contains an unsafe empty or NUL path: x\\x00.md"),
    "backslash": ([Entry(b"..\\x", b"x")], f"{UNSAFE}: ..\\x (backslash)"),
    "drive": ([Entry(b"C:/x", b"x")], f"{UNSAFE}: C:/x"),
    "control": ([Entry(b"a\x1b[2Jb", b"x")], f"{UNSAFE}: a\\x1b[2Jb (control character)"),
    "no UTF-8": ([Entry(b"\xe9", b"x")], f"{UNSAFE}: \\xe9 (not UTF-8)"),
    "deep": ([Entry(b"d/" * 32 + b"x", b"x")], f"{UNSAFE}: {'d/' * 32}x (too deep)"),
    "long": ([Entry(b"n" * 256, b"x")], f"{UNSAFE}: {'n' * 255}... (component too long)"),
    "twice": ([Entry(b"x", b"1"), Entry(b"x", b"2")], "Archive contains a duplicate path: x"),
    "case": (
        [Entry(b"Note.md", b"1"), Entry(b"note.MD", b"2")],
        "Archive contains a duplicate path: note.MD",
    ),
    "file as folder": (
        [Entry(b"x", b"1"), Entry(b"x/y", b"2")],
        "Archive contains a duplicate path: x/y",
    ),
    "link": (
        [Entry(b"l", b"/etc", mode=0o120777), Entry(b"l/passwd", b"x")],
        "Archive contains a symbolic link: l",
    ),
    "FIFO": ([Entry(b"p", mode=0o010644)], "Archive contains a non-regular entry: p"),
    "device": ([Entry(b"d", mode=0o060644)], "Archive contains a non-regular entry: d"),
    "encrypted": ([Entry(b"e", b"x", flags=1)], "Archive contains an encrypted entry: e"),
    "bzip2": (
        [Entry(b"b", b"x", method=12)],
        "Archive entry has a compression that is not supported: b",
    ),
    "other name": ([Entry(b"a", b"x", local={"name": b"b"})], f"{VALID}: an entry's headers disagree: a"),
    "other size": ([Entry(b"a", b"x", local={"size": 9})], f"{VALID}: an entry's headers disagree: a"),
    "other method": (
        [Entry(b"a", b"x", local={"method": 8})],
        f"{VALID}: an entry's headers disagree: a",
    ),
    "other flags": ([Entry(b"a", b"x", local={"flags": 8})], f"{VALID}: an entry's headers disagree: a"),
    "descriptor missing": (
        [Entry(b"a", b"x", flags=8, local={"crc": 0, "packed": 0, "size": 0})],
        f"{VALID}: an entry's headers disagree: a",
    ),
    "descriptor lies": (
        [Entry(b"a", b"x", flags=8, descriptor=(0, 1, 1))],
        f"{VALID}: an entry's headers disagree: a",
    ),
    "zip64 lies": (
        [Entry(b"a", b"x", size=0xFFFFFFFF, extra=zip64_extra(1 << 40, 1))],
        f"{VALID}: ZIP64 is not supported: a",
    ),
    "zip64 in the local header": (
        [Entry(b"a", b"x", local={"extra": zip64_extra(1 << 40, 1)})],
        f"{VALID}: ZIP64 is not supported: a",
    ),
    "checksum": ([Entry(b"a", b"x", crc=1)], f"{VALID}: wrong checksum: a"),
    "larger than it says": (
        [Entry(b"a", b"x" * 999, DEFLATED, size=998)],
        "Archive entry size changed while extracting: a",
    ),
    "smaller than it says": (
        [Entry(b"a", b"x" * 999, DEFLATED, size=1000)],
        "Archive entry size changed while extracting: a",
    ),
    "bomb that says it is none": (
        [Entry(b"a", bytes(64 * MIB), DEFLATED, size=100)],
        "Archive entry size changed while extracting: a",
    ),
    "ratio": (
        [Entry(b"a", bytes(8 * MIB), DEFLATED)],
        "Archive entry exceeds the compression ratio limit: a",
    ),
    "large entry": (
        [Entry(b"a", noise(MIB) * 17, DEFLATED)],
        "Archive entry exceeds the uncompressed size limit: a",
    ),
    "large sum": (
        [Entry(b"a%d" % n, (noise(9000, n) + bytes(91000)) * 150, DEFLATED) for n in range(5)],
        "Archive exceeds the total uncompressed size limit: a4",
    ),
    "entries": (
        [Entry(b"%d" % n) for n in range(512)],
        "Archive contains too many entries (maximum 512)",
    ),
    "65,535 entries": (
        [Entry(b"%d" % n) for n in range(65534)],
        "Archive contains too many entries (maximum 512)",
    ),
    "folders": (
        [Entry(b"%d/" % n * 30 + b"x") for n in range(50)],
        "Archive contains too many folders (maximum 1024): " + "34/" * 30 + "x",
    ),
    "nested bomb": (
        packed_in(bomb(3)),
        f"Archive entry exceeds the compression ratio limit: x.bin{INSIDE}",
    ),
    "nested bomb, deflated": (
        packed_in(bomb(1), b"42.zip", DEFLATED),
        f"Archive entry exceeds the compression ratio limit: 42.zip{INSIDE}",
    ),
    "nested sum": (
        packed_in(wide(12)),
        f"Archive exceeds the total uncompressed size limit: x.bin{INSIDE}",
    ),
    "nested too deep": (
        packed_in(chain(5)),
        f"Archive contains archives that are nested too deep: x.bin{INSIDE}",
    ),
    "nested in itself": (
        packed_in(ziplib.quine()),
        f"Archive contains archives that are nested too deep: x.bin{INSIDE}",
    ),
    "nested behind a program": (
        packed_in(b"#!/bin/sh\n" + bomb(1)),
        f"Archive entry exceeds the compression ratio limit: x.bin{INSIDE}",
    ),
    "nested overlap": (
        packed_in(ziplib.overlap_bomb(files=5, kernel_size=10_000)),
        f"Archive contains overlapping entries: x.bin{INSIDE}",
    ),
    "nested entries": (
        packed_in(archive(*(Entry(b"%d" % n) for n in range(65535)))),
        f"Archive contains too many entries: x.bin{INSIDE}",
    ),
    "nested, larger than it says": (
        packed_in(archive(Entry(b"a", bytes(9999), DEFLATED, size=100))),
        f"Archive contains invalid size metadata: x.bin{INSIDE}",
    ),
    "nested, encrypted": (
        packed_in(archive(Entry(b"a", b"x", flags=1))),
        f"Archive contains an encrypted entry: x.bin{INSIDE}",
    ),
    "nested, two ends": (
        packed_in(archive(Entry(b"a", b"x"), comment=bytes(archive(Entry(b"b", b"x"))))),
        f"{VALID}: two end records: x.bin{INSIDE}",
    ),
    "nested, no directory": (
        packed_in(bomb(1)[:-22]),
        f"{VALID}: the central directory is misplaced: x.bin{INSIDE}",
    ),
}

# Faults of an archive as a whole.
WHOLE = {
    "nothing": (b"PK", VALID),
    "text": (b"not a zip\n" * 10, VALID),
    "prepended": (
        archive(FINE, before=b"#!/bin/sh\n"),
        f"{VALID}: data outside of entries, before: fine.txt",
    ),
    "program before": (
        b"#!/bin/sh\n" + archive(FINE),
        f"{VALID}: the central directory is misplaced",
    ),
    "between": (
        archive(FINE, between=b"hidden"),
        f"{VALID}: data between entries and central directory",
    ),
    "appended": (archive(FINE, after=b"x"), f"{VALID}: data after the end record"),
    "an end in the comment": (
        archive(FINE, comment=ziplib.end_bytes(0, 0, 0)),
        f"{VALID}: two end records",
    ),
    "split": (archive(FINE, disk=1), f"{VALID}: part of a split archive"),
    "fewer than there are": (
        archive(FINE, Entry(b"x"), count=1),
        f"{VALID}: the central directory has more entries than it declares",
    ),
    "65,535 by word": (
        archive(FINE, count=65535),
        "Archive contains too many entries (maximum 512)",
    ),
    "one place for two": (
        archive(FINE, Entry(b"fine.tx2", FINE.content, DEFLATED, offset=0)),
        f"{VALID}: an entry's headers disagree: fine.tx2",
    ),
}
