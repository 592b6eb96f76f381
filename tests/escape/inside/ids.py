"""Attempts on ids and capabilities."""

import ctypes
import errno
import os
import struct
import subprocess

from frame import attempt, blocked, call, doing, escaped, first_escape, try_call, name_of

OTHERS = (0, 1, 999, 1001, 65534)
REFUSED = (errno.EPERM, errno.EINVAL)


@attempt("ids", "setuid-to-others")
def _(facts):
    return first_escape(doing(os.setuid, uid, refusals=REFUSED) for uid in OTHERS)


@attempt("ids", "setresuid-to-others")
def _(facts):
    return first_escape(doing(os.setresuid, uid, uid, uid, refusals=REFUSED) for uid in OTHERS)


@attempt("ids", "setgid-to-others")
def _(facts):
    return first_escape(doing(os.setresgid, gid, gid, gid, refusals=REFUSED) for gid in OTHERS)


@attempt("ids", "setgroups")
def _(facts):
    return first_escape(
        doing(os.setgroups, groups, refusals=REFUSED) for groups in ([0], [4, 27], [])
    )


@attempt("ids", "groups-that-were-left")
def _(facts):
    strange = set(os.getgroups()) - {os.getgid()}
    return escaped(sorted(strange)) if strange else blocked("none")


@attempt("ids", "setfsuid")
def _(facts):
    """The call returns the old value; reading it again shows whether it changed."""
    call("setfsuid", 0)
    now, number = call("setfsuid", -1)
    if number == errno.ENOSYS:
        return blocked("ENOSYS")
    return escaped(now) if now == 0 else blocked(f"still {now}")


def capabilities():
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {
        name: int(lines[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    }


@attempt("ids", "capabilities-that-were-left")
def _(facts):
    found = {name: hex(value) for name, value in capabilities().items() if value}
    return escaped(found) if found else blocked("five empty sets")


@attempt("ids", "capset")
def _(facts):
    header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
    full = ctypes.create_string_buffer(struct.pack("6I", *[0xFFFFFFFF] * 6))
    inherit = ctypes.create_string_buffer(struct.pack("6I", 0, 0, 0xFFFFFFFF, 0, 0, 0xFFFFFFFF))
    return first_escape([try_call("capset", header, full), try_call("capset", header, inherit)])


@attempt("ids", "ambient-capabilities")
def _(facts):
    return first_escape(try_call("prctl", 47, 2, number, 0, 0) for number in (6, 7, 12, 21))


@attempt("ids", "secure-bits")
def _(facts):
    refusals = (errno.EPERM, errno.EINVAL)
    return first_escape(
        try_call("prctl", 28, bits, 0, 0, 0, refusals=refusals) for bits in (0, 1 << 4)
    )


@attempt("ids", "new-privileges-again")
def _(facts):
    value, _ = call("prctl", 39, 0, 0, 0, 0)
    if value != 1:
        return escaped("it is not set")
    return try_call("prctl", 38, 0, 0, 0, 0, refusals=(errno.EINVAL,))


@attempt("ids", "weaker-filter")
def _(facts):
    """A second filter that allows everything is refused, and would not undo the first."""
    with open("/proc/self/status") as file:
        assert "Seccomp:\t2" in file.read()
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
    result, number = call("prctl", 22, 2, program, 0, 0)
    assert result == 0 or number == errno.EINVAL, name_of(number)
    return try_call("unshare", 0x10000000)


@attempt("ids", "speculation-back-on")
def _(facts):
    """PR_SPEC_ENABLE of a force-disabled mitigation; where it was never disabled, nothing is
    gained."""
    state, _ = call("prctl", 52, 0, 0, 0, 0)
    result, number = call("prctl", 53, 0, 2, 0, 0)
    if result == 0 and state >= 0 and state & 8:
        return escaped("enabled again")
    return blocked(name_of(number) if result < 0 else f"state {state}")


def run_id(path):
    done = subprocess.run(
        [path, "-c", "import os; print(os.geteuid(), os.getegid())"],
        capture_output=True,
        text=True,
        timeout=10,
    )
    return done.returncode, done.stdout.split(), done.stderr


def gains(path):
    try:
        code, words, text = run_id(path)
    except OSError as error:
        return blocked(name_of(error.errno))
    assert code == 0, text
    own = [str(os.getuid()), str(os.getgid())]
    return blocked("runs as ourselves") if words == own else escaped(words)


@attempt("ids", "setuid-file-of-the-host")
def _(facts):
    """The driver has put a setuid copy of python, owned by root, into the host folder."""
    return gains("/workspace/setuid-root")


@attempt("ids", "setuid-file-of-inits-uid")
def _(facts):
    return gains("/workspace/setuid-init")


@attempt("ids", "setuid-files-of-the-system")
def _(facts):
    results = []
    for path in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/newgrp"):
        if os.path.exists(path):
            flags = os.statvfs(path).f_flag
            results.append(blocked("nosuid") if flags & 2 else escaped(path))
    return first_escape(results) if results else blocked("there is none")


@attempt("ids", "file-with-capabilities")
def _(facts):
    try:
        done = subprocess.run(
            ["/workspace/capable-python", "-c", "print(open('/proc/self/status').read())"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except OSError as error:
        return blocked(name_of(error.errno))
    lines = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    value = int(lines["CapEff"], 16)
    return escaped(hex(value)) if value else blocked("none gained")


@attempt("ids", "host-root-is-not-mapped")
def _(facts):
    """As the host sees it: values inside are relative to the namespace above."""
    first, outside, count = facts["host_uid_map"]
    return escaped(facts["host_uid_map"]) if outside == 0 else blocked(f"{first} is {outside}")


@attempt("ids", "own-files-of-root-in-the-workspace")
def _(facts):
    """A 0600 file that root has put into a tenant's folder stays root's."""
    with open("/workspace/of-the-owner") as file:
        assert file.read() == "for the box"
    try:
        with open("/workspace/of-root") as file:
            return escaped(file.read())
    except OSError as error:
        return blocked(name_of(error.errno))
