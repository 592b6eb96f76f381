"""Attempts with terminals: typing for others, line disciplines, terminals that are not ours."""

import errno
import fcntl
import os
import select

from frame import attempt, blocked, call, doing, escaped, first_escape, name_of

TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD = 0x5412, 0x541C, 0x541D, 0x5423


def terminal():
    """A pty pair whose slave is our controlling terminal."""
    master, slave = os.openpty()
    if os.getsid(0) != os.getpid():
        if os.fork() != 0:
            os.wait()
            os._exit(0)
        os.setsid()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
    return master, slave


def typing(name, request):
    @attempt("terminals", name)
    def _(facts):
        master, slave = terminal()
        result, number = call("ioctl", slave, request, b"x\n")
        if result == 0:
            ready, _, _ = select.select([slave], [], [], 2)
            return escaped(f"typed {os.read(slave, 8)!r}" if ready else "it was taken")
        assert number in (errno.EPERM, errno.EIO), name_of(number)
        return blocked(name_of(number))


typing("tiocsti", TIOCSTI)
typing("tiocsti-with-high-bits", TIOCSTI | 1 << 32)
typing("tiocsti-with-all-high-bits", TIOCSTI | 0xFFFFFFFF << 32)


@attempt("terminals", "tioclinux-paste")
def _(facts):
    master, slave = os.openpty()
    results = []
    for high in (0, 1 << 32):
        result, number = call("ioctl", slave, TIOCLINUX | high, b"\3")
        results.append(escaped("it was taken") if result >= 0 else blocked(name_of(number)))
    return first_escape(results)


@attempt("terminals", "take-the-console")
def _(facts):
    master, slave = os.openpty()
    results = []
    for high in (0, 1 << 32):
        result, number = call("ioctl", slave, TIOCCONS | high, 0)
        results.append(escaped("it was taken") if result >= 0 else blocked(name_of(number)))
    return first_escape(results)


@attempt("terminals", "load-a-line-discipline")
def _(facts):
    import ctypes

    results = []
    master, slave = os.openpty()
    for discipline in (0, 3, 13, 15, 17, 21, 25):
        for high in (0, 1 << 32):
            result, number = call("ioctl", slave, TIOCSETD | high, ctypes.c_int(discipline))
            results.append(escaped(discipline) if result >= 0 else blocked(name_of(number)))
    return first_escape(results)


@attempt("terminals", "terminals-of-the-host")
def _(facts):
    names = set(os.listdir("/dev/pts")) - {"ptmx"}
    return escaped(sorted(names)) if names else blocked("none")


@attempt("terminals", "steal-a-terminal")
def _(facts):
    """A command has no controlling terminal."""
    return doing(os.open, "/dev/tty", os.O_RDWR, refusals=(errno.ENXIO, errno.EACCES, errno.ENOENT))


@attempt("terminals", "standard-fds-are-no-terminal")
def _(facts):
    found = [fd for fd in (0, 1, 2) if os.isatty(fd)]
    return escaped(found) if found else blocked("none")
