"""The framework of the attempts that run inside a box: how one is declared, run and judged.

An attempt is a function that returns escaped(proof) or blocked(how). Any other outcome is an ERROR,
which is a fault of the suite and never counts as blocked. Each attempt runs in a process of its
own, so that it cannot disturb the next. Uses the standard library only.
"""

import ctypes
import errno
import json
import os
import select
import signal
import time

PATIENCE_SECONDS = 20

NUMBERS = {
    "ioctl": 16, "pipe2": 293, "socket": 41, "clone": 56, "ptrace": 101, "syslog": 103,
    "setuid": 105, "setgid": 106, "setgroups": 116, "setresuid": 117, "setresgid": 119,
    "capget": 125, "capset": 126, "mknod": 133, "personality": 135, "ustat": 136, "sysfs": 139,
    "modify_ldt": 154, "pivot_root": 155, "prctl": 157, "adjtimex": 159, "chroot": 161,
    "sync": 162, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167,
    "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172,
    "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179,
    "lookup_dcookie": 212, "clock_settime": 227, "mbind": 237, "set_mempolicy": 238,
    "get_mempolicy": 239, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "migrate_pages": 256, "mknodat": 259, "unshare": 272, "move_pages": 279, "vhangup": 153,
    "io_setup": 206, "perf_event_open": 298, "fanotify_init": 300, "prlimit64": 302,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "syncfs": 306,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434,
    "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "process_mrelease": 448,
    "cachestat": 451, "fchmodat2": 452, "statmount": 457, "listmount": 458,
    "open_tree_attr": 467, "mlockall": 151, "execveat": 322, "kill": 62, "chmod": 90,
    "shmget": 29, "shmat": 30, "msgget": 68, "mq_open": 240, "semget": 64, "setfsuid": 122,
}  # fmt: skip

libc = ctypes.CDLL(None, use_errno=True)


class Attempt:
    """`killed_by`: signals that count as a refusal. `alone`: a refusal ends the whole command."""

    def __init__(self, kind, name, function, killed_by, alone):
        self.kind = kind
        self.name = name
        self.function = function
        self.signals = [int(number) for number in killed_by]
        self.alone = alone


attempts = {}  # by name


def attempt(kind, name, killed_by=(), alone=False):
    """Registers a function."""

    def put(function):
        assert name not in attempts, name
        attempts[name] = Attempt(kind, name, function, killed_by, alone)
        return function

    return put


def escaped(proof):
    return "ESCAPED", str(proof)


def blocked(how):
    return "BLOCKED", str(how)


def name_of(number):
    return errno.errorcode.get(number, str(number))


def call(name, *arguments):
    """A system call by name: (result, errno). Bytes and buffers are passed by address."""
    number = name if isinstance(name, int) else NUMBERS[name]
    passed = []
    for argument in arguments:
        if argument is None:
            passed.append(ctypes.c_void_p(None))
        elif isinstance(argument, int):
            passed.append(ctypes.c_long(argument))
        elif isinstance(argument, bytes):
            passed.append(ctypes.c_char_p(argument))
        else:
            passed.append(ctypes.byref(argument))
    ctypes.set_errno(0)
    libc.syscall.restype = ctypes.c_long
    result = libc.syscall(ctypes.c_long(number), *passed)
    return result, ctypes.get_errno() if result == -1 else 0


REFUSALS = (errno.EPERM, errno.ENOSYS)


def try_call(name, *arguments, refusals=REFUSALS):
    """A call with valid arguments: success is the proof, and only the errors in `refusals` count as
    refused."""
    result, number = call(name, *arguments)
    if result >= 0:
        return escaped(f"{name} gave {result}")
    if number not in refusals:
        raise RuntimeError(f"{name}: {name_of(number)} was not foreseen")
    return blocked(name_of(number))


FILE_REFUSALS = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.EROFS, errno.ENOTDIR)


def reading(path, wanted=None, refusals=FILE_REFUSALS, size=1 << 16):
    """Reads a file: an escape if it has contents (`wanted`, if given)."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(size) or b""
    except OSError as error:
        if error.errno not in refusals:
            raise
        return blocked(name_of(error.errno))
    if wanted is not None:
        return escaped(f"read {wanted}") if wanted.encode() in text else blocked("not in it")
    return escaped(f"read {text[:60]!r}") if text else blocked("empty")


def writing(path, text, refusals=FILE_REFUSALS, flags=0):
    """Writes to a file that must not be writable."""
    try:
        fd = os.open(path, os.O_WRONLY | flags)
        try:
            count = os.write(fd, text)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in refusals:
            raise
        return blocked(name_of(error.errno))
    return escaped(f"wrote {count} bytes to {path}")


def doing(action, *arguments, refusals=FILE_REFUSALS, proof=None, **members):
    """Any Python function that raises OSError when it is refused."""
    try:
        result = action(*arguments, **members)
    except OSError as error:
        if error.errno not in refusals:
            raise
        return blocked(name_of(error.errno))
    return escaped(proof or f"{getattr(action, '__name__', action)} gave {result!r}"[:100])


def first_escape(results):
    """Several tries of one attempt: the first that succeeded, or how they were refused."""
    hows = []
    for verdict, how in results:
        if verdict == "ESCAPED":
            return verdict, how
        hows.append(how)
    if not hows:
        raise RuntimeError("nothing was tried")
    return blocked(", ".join(sorted(set(hows))) + f" ({len(hows)} tries)")


# Running them.


def judge(status, text, signals):
    if text:
        verdict, how = json.loads(text)
        return verdict, how
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        return ("BLOCKED" if number in signals else "ERROR"), f"ended by {name}"
    return "ERROR", f"ended with {os.waitstatus_to_exitcode(status)} and said nothing"


def child(function, facts, output):
    try:
        verdict, how = function(facts)
    except BaseException as error:
        verdict, how = "ERROR", f"{type(error).__name__}: {error}"
    os.write(output, json.dumps([verdict, how[:400]]).encode())
    os._exit(0)


def run_one(function, facts, signals):
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        child(function, facts, writable)
    os.close(writable)
    text, end = b"", time.monotonic() + PATIENCE_SECONDS
    while True:
        ready, _, _ = select.select([readable], [], [], max(0, end - time.monotonic()))
        piece = os.read(readable, 65536) if ready else None
        if not piece:
            break
        text += piece
    if piece is None:
        os.kill(pid, signal.SIGKILL)
    os.close(readable)
    status = os.waitpid(pid, 0)[1]
    return ("ERROR", "no answer in time") if piece is None else judge(status, text, signals)


def inherited_fds():
    """The fds we were started with; the fd of the listing itself is closed when it is checked."""
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]


def main(arguments):
    """FACTS NAME...: a file, and the attempts to run. A line of JSON for each."""
    fds = inherited_fds()
    with open(arguments[0]) as file:
        facts = {**json.load(file), "fds": fds}
    for one in (attempts[name] for name in arguments[1:]):
        verdict, how = run_one(one.function, facts, one.signals)
        print(json.dumps([one.kind, one.name, verdict, how]), flush=True)
