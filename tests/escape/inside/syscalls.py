"""Attempts by single system calls: each with arguments that the kernel would accept from anyone who
may make the call.
"""

import ctypes
import mmap
import os
import platform
import signal
import struct
import time

from frame import NUMBERS, attempt, blocked, call, escaped, first_escape, try_call, name_of

AT_FDCWD = -100


def single_call(name, *arguments, of=None):
    """One call; the attempt is named after it."""

    @attempt("syscalls", of or name.replace("_", "-"))
    def _(facts):
        return try_call(name, *arguments)


def buffer(*words, form=None):
    return ctypes.create_string_buffer(struct.pack(form or f"{len(words)}Q", *words))


single_call("bpf", 0, buffer(*[2 | 4 << 32, 4 | 1 << 32] + [0] * 14), 128, of="bpf-map")
single_call("bpf", 5, buffer(*[1 | 2 << 32] + [0] * 14), 128, of="bpf-program")
single_call("userfaultfd", 1 | 0o2000000)
single_call("io_uring_setup", 1, buffer(*[0] * 15))
single_call("io_setup", 1, buffer(0), of="kernel-aio")
single_call("perf_event_open", buffer(1 | 128 << 32, *[0] * 4, 1 << 5 | 1 << 6, *[0] * 10), 0, -1, -1, 0)
single_call("syslog", 3, ctypes.create_string_buffer(64), 64, of="syslog-read-all")
single_call("syslog", 10, None, 0, of="syslog-size")
single_call("kcmp", os.getpid(), os.getpid(), 0, 0, 0)
single_call("fanotify_init", 0x200, 0)
single_call("process_madvise", 0, None, 0, 21, 0)
single_call("memfd_secret", 0)
single_call("modify_ldt", 0, ctypes.create_string_buffer(64), 64)
single_call("personality", 0x0040000, of="personality-no-random-addresses")
single_call("personality", 0x0100000, of="personality-map-page-zero")
single_call("personality", 0x0400000, of="personality-read-implies-exec")
single_call("iopl", 3)
single_call("ioperm", 0x80, 1, 1)
single_call("reboot", 0xFEE1DEAD, 672274793, 0, 0, of="reboot-by-keys")  # turns Ctrl-Alt-Del off
single_call("kexec_load", 0, 0, None, 0, of="kexec-unload")
single_call("kexec_file_load", -1, -1, 0, None, 2)
single_call("init_module", None, 0, b"")
single_call("finit_module", 0, b"", 0)
single_call("delete_module", b"box_escape_none", 0x800)
single_call("swapon", b"/tmp/swap", 0)
single_call("swapoff", b"/tmp/swap")
single_call("acct", None, of="accounting-off")
single_call("quotactl", 0x80000100, None, 0, None, of="quota-sync")
single_call("sysfs", 3, of="filesystem-types")
single_call("ustat", 0, ctypes.create_string_buffer(64))
single_call("vhangup")
single_call("sync", of="sync-of-all-disks")
single_call("mlockall", 4)
single_call("get_mempolicy", None, None, 0, None, 0)
single_call("set_mempolicy", 0, None, 0)
single_call("migrate_pages", 0, 1, buffer(1), buffer(1))
single_call("adjtimex", ctypes.create_string_buffer(512), of="adjtimex-read")
single_call("clock_adjtime", 0, ctypes.create_string_buffer(512))
single_call("lookup_dcookie", 0, ctypes.create_string_buffer(64), 64)
single_call("process_mrelease", 0, 0)
single_call("pidfd_getfd", 0, 0, 0)
single_call("openat2", AT_FDCWD, b"/", buffer(0, 0, 0), 24)


@attempt("syscalls", "syncfs")
def _(facts):
    return try_call("syncfs", os.open("/workspace", os.O_RDONLY))


@attempt("syscalls", "set-the-time")
def _(facts):
    now = time.time()
    seconds = struct.pack("qq", int(now), int(now % 1 * 1e6))
    nanos = struct.pack("qq", int(now), int(now % 1 * 1e9))
    return first_escape(
        [
            try_call("settimeofday", ctypes.create_string_buffer(seconds), None),
            try_call("clock_settime", 0, ctypes.create_string_buffer(nanos)),
        ]
    )


@attempt("syscalls", "set-the-host-name")
def _(facts):
    return first_escape([try_call("sethostname", b"box", 3), try_call("setdomainname", b"box", 3)])


@attempt("syscalls", "what-the-host-has-in-its-page-cache")
def _(facts):
    fd = os.open("/usr/bin/env", os.O_RDONLY)
    return try_call("cachestat", fd, buffer(0, 0), buffer(*[0] * 5), 0)


@attempt("syscalls", "ptrace-own-child")
def _(facts):
    """Harmless by itself, but part of many kernel exploits."""
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    try:
        return try_call("ptrace", 0x4206, pid, 0, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@attempt("syscalls", "process-vm-writev-to-own-child")
def _(facts):
    text = ctypes.create_string_buffer(b"the child has the same address", 64)
    place = buffer(ctypes.addressof(text), 16)
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    try:
        return first_escape(
            try_call(name, pid, place, 1, place, 1, 0)
            for name in ("process_vm_readv", "process_vm_writev")
        )
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@attempt("syscalls", "calls-that-do-not-exist-yet")
def _(facts):
    """An allowlist: calls that nobody has reviewed are refused."""
    results = []
    for number in [*range(471, 600), 1000, 1023, 1024, 5000]:
        result, why = call(number, 0, 0, 0, 0, 0, 0)
        results.append(escaped(number) if why not in (1, 38) else blocked(name_of(why)))
    return first_escape(results)


def machine_code(code):
    """Runs bytes as a function and returns rax."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()


def other_abi(name, code, result_is=lambda value: value >= 0):
    """Where the kernel lacks the interface, the processor refuses it: SIGSEGV."""

    @attempt("syscalls", name, killed_by=(signal.SIGSYS, signal.SIGSEGV))
    def _(facts):
        assert platform.machine() == "x86_64", "these are for x86-64"
        value = machine_code(bytes.fromhex(code))
        if result_is(value):
            return escaped(f"gave {value}")
        return blocked(name_of(-value))


# mov eax, number; int 0x80; ret, with rbx saved.
other_abi("i386-getpid", "53b814000000cd805bc3")
other_abi("i386-socketcall", "53b86600000031db31c9cd805bc3")
other_abi("i386-unshare-user", "53b836010000bb00000010cd805bc3")
other_abi("i386-clone3", "53b8b301000031db31c9cd805bc3")
other_abi("i386-mount", "53b81500000031db31c931d2cd805bc3")


def x32(name, number, *arguments):
    @attempt("syscalls", name, killed_by=(signal.SIGSYS,))
    def _(facts):
        return try_call(0x40000000 | number, *arguments)


x32("x32-getpid", 39)
x32("x32-unshare-user", NUMBERS["unshare"], 0x10000000)
x32("x32-ptrace", 521, 0, 0, 0, 0)
x32("x32-mount", NUMBERS["mount"], b"t", b"/tmp", b"tmpfs", 0, None)


# Keys.


@attempt("syscalls", "keys-of-the-hosts-session")
def _(facts):
    """Keys in the keyring of the user that started boxd."""
    key, number = call("keyctl", 10, -3, b"user", facts["key"].encode(), 0)  # search
    if key < 0:
        assert number in (1, 38, 126), name_of(number)
        return blocked(name_of(number))
    text = ctypes.create_string_buffer(256)
    result, number = call("keyctl", 11, key, text, 255)  # read
    return escaped(text.value) if result > 0 else blocked(name_of(number))


@attempt("syscalls", "add-a-key")
def _(facts):
    return try_call("add_key", b"user", b"box-escape", b"x", 1, -3)


@attempt("syscalls", "request-a-key-from-the-host")
def _(facts):
    """The kernel would start /sbin/request-key on the host."""
    return try_call("request_key", b"user", b"box-escape-none", b"x", -3, refusals=(1, 38))


@attempt("syscalls", "join-a-session-keyring")
def _(facts):
    return try_call("keyctl", 1, None)


@attempt("syscalls", "persistent-keyring")
def _(facts):
    return try_call("keyctl", 22, -1, -3)
