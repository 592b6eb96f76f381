"""Attempts with what a command inherits: open files, environment, working folder, limits."""

import errno
import os
import resource

from frame import attempt, blocked, call, doing, escaped, first_escape, try_call, name_of


@attempt("fds", "inherited-3-to-1023")
def _(facts):
    """The fds that the command was started with, listed before anything else."""
    strange = [fd for fd in facts["fds"] if fd not in ("0", "1", "2")]
    return escaped(strange) if strange else blocked("0, 1, 2 only")


@attempt("fds", "standard-fds-lead-nowhere")
def _(facts):
    results = []
    for fd in (0, 1, 2):
        target = os.readlink(f"/proc/self/fd/{fd}")
        known = target == "/dev/null" or target.startswith("pipe:")
        results.append(blocked(target.split(":")[0]) if known else escaped(target))
    return first_escape(results)


@attempt("fds", "reopen-standard-fds-for-the-other-direction")
def _(facts):
    """The other end of the pipe is read by box-init. Not stdout, because text in there would be
    lost."""
    try:
        text = os.read(os.open("/proc/self/fd/2", os.O_RDONLY | os.O_NONBLOCK), 4096)
    except OSError as error:
        return blocked(name_of(error.errno))
    return escaped(text) if facts["secret"].encode() in text else blocked("own output")


@attempt("fds", "reopen-by-proc-self-fd")
def _(facts):
    """None of our fds leads above the box: each is tried as a folder."""
    results = []
    for name in os.listdir("/proc/self/fd"):
        for way in ("..", "../../../.."):
            path = f"/proc/self/fd/{name}/{way}{facts['secret_file']}"
            results.append(
                doing(
                    os.open, path, os.O_RDONLY, refusals=(errno.ENOENT, errno.ENOTDIR, errno.EACCES)
                )
            )
    return first_escape(results)


@attempt("fds", "fds-of-pid-1-by-pidfd")
def _(facts):
    results = []
    for pid in (1, 2, os.getppid()):
        fd, number = call("pidfd_open", pid, 0)
        if fd < 0:
            results.append(blocked(name_of(number)))
            continue
        results += [try_call("pidfd_getfd", fd, other, 0) for other in range(8)]
    return first_escape(results)


@attempt("fds", "environment-of-the-host")
def _(facts):
    text = "\0".join(f"{name}={value}" for name, value in os.environ.items())
    if facts["secret"] in text or facts["env_name"] in os.environ:
        return escaped("the host's environment")
    known = {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PYTHONUNBUFFERED",
        "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE",
    }  # fmt: skip
    strange = set(os.environ) - known
    return escaped(sorted(strange)) if strange else blocked("its own only")


@attempt("fds", "environment-of-the-shell")
def _(facts):
    """The shell that runs the command has it, too, with the same uid."""
    with open(f"/proc/{os.getppid()}/environ", "rb") as file:
        text = file.read()
    told = facts["secret"].encode() in text or b"LANGBOT_BOX" in text
    return escaped(text[:80]) if told else blocked("its own only")


@attempt("fds", "more-open-files-than-the-limit")
def _(facts):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard < 1 << 20, hard
    return doing(
        resource.prlimit, 0, resource.RLIMIT_NOFILE, (hard + 1, hard + 1), refusals=(errno.EPERM,)
    )


@attempt("fds", "limits-of-the-parent")
def _(facts):
    """Limits of our own shell can be lowered, never raised."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = (hard + 1, hard + 1)
    return doing(
        resource.prlimit, os.getppid(), resource.RLIMIT_NOFILE, limits, refusals=(errno.EPERM,)
    )


@attempt("fds", "working-folder-outside")
def _(facts):
    """A folder above the root is shown as (unreachable)."""
    path = os.getcwd()
    return blocked(path) if path.startswith("/") else escaped(path)


@attempt("fds", "pass-fds-to-the-host")
def _(facts):
    """There are no abstract sockets across namespaces: nobody listens on them."""
    import socket

    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect("\0" + facts["abstract"])
    except OSError as error:
        return blocked(name_of(error.errno))
    try:
        socket.send_fds(sock, [b"x"], [os.open("/", os.O_RDONLY)])
    except BrokenPipeError:
        return escaped("somebody is there, who has hung up")
    return escaped("it was taken")
