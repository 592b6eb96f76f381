"""Starts boxd where LangBot starts its own sandbox runtime as a child.

LangBot's command line is fixed: PYTHON -m langbot_plugin.cli.__init__ box -s --ws-control-port N.
langbot_boxd.pth looks at the command line of every Python that starts in this environment, and only
where that module is named it imports this one. `take_over` then becomes boxd by exec, before
anything of LangBot is imported: same process, same pipes, same environment, same arguments.
"""

import os
import sys

MODULE = "langbot_plugin.cli.__init__"
STDIO_FLAGS = ("-s", "--stdio-control")
PROGRAM_VARIABLE = "LANGBOT_BOXD"
OFF_VARIABLE = "LANGBOT_BOXD_OFF"
TRUE_WORDS = ("1", "true", "yes", "on")
EXIT_CANNOT_START = 127  # as of a shell


def is_our_call(argv, orig_argv):
    """Whether Python was started for LangBot's child.

    While .pth files are read, argv[0] is "-m" only if Python itself took the flag: a script, or -c,
    with these words among its arguments is none of ours.
    """
    return (
        argv[:2] == ["-m", "box"]
        and orig_argv[-len(argv) - 1 :] == ["-m", MODULE, *argv[1:]]
        and any(flag in argv[2:] for flag in STDIO_FLAGS)
    )


def is_off(environment):
    return environment.get(OFF_VARIABLE, "").strip().lower() in TRUE_WORDS


def find_boxd(environment):
    """The path of boxd. OSError with a text for the operator if there is none."""
    named = environment.get(PROGRAM_VARIABLE)
    if named:
        # LangBot's working folder is no place to find programs in.
        if not os.path.isabs(named):
            raise OSError(f"{PROGRAM_VARIABLE}={named}: must be an absolute path")
        if not is_program(named):
            raise OSError(f"{PROGRAM_VARIABLE}={named}: not a program that can be run")
        return named
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "boxd")
        if os.path.isabs(folder) and is_program(path):
            return path
    raise OSError(f"boxd is not on PATH; install it or set {PROGRAM_VARIABLE} to its path")


def is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def become(program, arguments):
    """Does not return. OSError if the kernel does not take the program."""
    import signal

    # Python ignores these from its start on, and that would survive exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(program, [program, *arguments])
    except OSError as why:
        raise OSError(f"{program}: {why.strerror}") from why


def take_over():
    """Called while Python starts. Returns where the call, or the runtime, is not ours.

    Without boxd it ends the process: who installed this does not want another sandbox in its place.
    """
    if sys.platform != "linux" or not is_our_call(sys.argv, sys.orig_argv) or is_off(os.environ):
        return
    try:
        become(find_boxd(os.environ), sys.argv[2:])
    except OSError as why:
        text = (
            f"langbot-boxd: cannot start boxd: {why}. "
            f"{OFF_VARIABLE}=1 or `pip uninstall langbot-boxd` brings back LangBot's own runtime.\n"
        )
        os.write(2, text.encode(errors="backslashreplace"))
        # An exception would be printed by `site` and forgotten, or be a fatal error of Python.
        os._exit(EXIT_CANNOT_START)
