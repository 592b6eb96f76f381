"""Attempts to use up what the whole host shares: a box takes all it can, then the host is checked."""

import pathlib

from frame import blocked, escaped
from outside import attempt

MIB = 1 << 20
HELD_MIB = 8  # more than all filters of one of our boxes take

# Classic BPF filters of the maximum size, held until the file is removed.
TAKE = r"""
import ctypes, os, socket, struct, time
load, give = struct.pack("HBBI", 0, 0, 0, 1), struct.pack("HBBI", 6, 0, 0, 1)
text = ctypes.create_string_buffer(load * 4095 + give)
value = struct.pack("HxxxxxxQ", 4096, ctypes.addressof(text))
kept = []
try:
    for _ in range(400):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(1, 26, value)
        kept.append(sock)
except OSError as error:
    print("refused:", error)
open("/workspace/took", "w").write(str(len(kept)))
end = time.monotonic() + 10
while os.path.exists("/workspace/hold") and time.monotonic() < end:
    time.sleep(0.01)
"""


def filters_mib():
    """The memory of the host's compiled BPF programs."""
    lines = pathlib.Path("/proc/vmallocinfo").read_text().splitlines()
    sizes = [int(line.split()[1]) for line in lines if "bpf_" in line or "module_alloc" in line]
    return sum(sizes) / MIB


@attempt("resources", "packet-filters-take-the-hosts-memory")
def _(world):
    """One limit covers all filters of the host: those of boxes, of sshd, of containers."""
    import boxdlib

    (world.workspace / "take.py").write_text(TAKE)
    (world.workspace / "hold").write_text("")
    took = world.workspace / "took"
    before = filters_mib()
    spec = world.spec(host_path=str(world.workspace))
    cmd = "exec python3 /workspace/take.py"
    world.client.start("box_exec", {"cmd": cmd, "session_id": "s", **spec})
    boxdlib.wait_until(lambda: took.exists() and took.read_text(), 20, "the filters")
    held = filters_mib() - before
    (world.workspace / "hold").unlink()
    count = took.read_text()
    took.unlink()
    if held > HELD_MIB:
        return escaped(f"{count} filters take {held:.0f} MiB of the host's")
    return blocked(f"{count} filters, {held:.1f} MiB more")
