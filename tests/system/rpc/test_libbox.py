"""libbox as users have it: installed into a folder, found by pkg-config alone, a program compiled
against it and run on both transports. It exports exactly what its headers declare.
"""

import json
import os
import testpaths
import re
import shlex
import shutil
import subprocess

import pytest

from boxdlib import FAKE, Boxd, build, environment
from clientlib import INSTANCE

EXAMPLE = testpaths.ROOT / "contrib/libbox/example.c"
SECONDS = 60
FLAGS = ["-std=gnu17", "-Wall", "-Wextra", "-Werror"]


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        **options,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """The release with the fake backend, installed into a folder."""
    folder = build("BOX_RELEASE_FAKE")
    root = tmp_path_factory.mktemp("installed")
    run("meson", "install", "-C", folder, "--no-rebuild", "--destdir", root)
    found = list(root.rglob("box.pc"))
    assert len(found) == 1
    return root, found[0].parent


def flags(prefix, *which):
    """Only what pkg-config says: its file contains the prefix."""
    root, folder = prefix
    env = {**os.environ, "PKG_CONFIG_PATH": str(folder), "PKG_CONFIG_SYSROOT_DIR": str(root)}
    return shlex.split(run("pkg-config", *which, "box", env=env))


@pytest.fixture(scope="module", params=["shared", "static"])
def example(request, prefix, tmp_path_factory):
    """The compiled example: (program, the environment that it needs)."""
    root, folder = prefix
    program = tmp_path_factory.mktemp("example") / "example"
    if request.param == "static":
        found = flags(prefix, "--cflags", "--libs", "--static")
        words = ["-l:libbox.a" if word == "-lbox" else word for word in found]
    else:
        words = flags(prefix, "--cflags", "--libs")
    run("cc", *FLAGS, EXAMPLE, "-o", program, *words)
    linked = "libbox.so" in run("readelf", "-d", program)
    assert linked == (request.param == "shared")
    boxd = next(root.rglob("bin/boxd"))
    env = environment(
        LD_LIBRARY_PATH=str(folder.parent),
        LANGBOT_BOX_CONFIG=json.dumps(FAKE),
        LANGBOT_BOX_TRUSTED_INSTANCE_UUID=INSTANCE,
        PATH=f"{boxd.parent}:{os.environ['PATH']}",
    )
    # boxd looks for its programs beside itself, as this prefix is not its compiled one.
    for name in ("box-rpc", "box-init"):
        shutil.copy(next(root.rglob(name)), boxd.parent / name)
    return program, env


def said(stdout):
    return dict(line.split(": ", 1) for line in stdout.splitlines())


def test_the_example_on_both_carriers(carrier, example, tmp_path):
    program, env = example
    if carrier == "stdio":
        out = said(run(program, "echo hello", env=env, cwd=tmp_path))
        assert out["shares_filesystem"] == "1"
    else:
        with Boxd(programs=build("BOX_RELEASE_FAKE"), config=FAKE, cwd=tmp_path) as boxd:
            url = f"http://127.0.0.1:{boxd.port}"
            out = said(run(program, "echo hello", url, env=env))
        assert out["shares_filesystem"] == "0"
    assert out["stdout"] == "hello"
    assert (out["exit_code"], out["kind"], out["sessions"]) == ("0", "file", "1")


def test_headers_stand_by_themselves(prefix, tmp_path):
    """Each installed header compiles alone."""
    root, _ = prefix
    headers = sorted(root.rglob("include/box/*/*.h"))
    assert len(headers) >= 9
    for header in headers:
        source = tmp_path / "one.c"
        source.write_text(f'#include "{header.parent.name}/{header.name}"\n')
        words = flags(prefix, "--cflags")
        run("cc", *FLAGS, "-fsyntax-only", source, *words)


def test_what_is_exported_is_what_the_headers_declare(prefix):
    root, _ = prefix
    library = next(path for path in root.rglob("libbox.so.*") if not path.is_symlink())
    symbols = run("nm", "-D", "--defined-only", library).splitlines()
    exported = {line.split()[-1] for line in symbols}
    text = "".join(path.read_text() for path in root.rglob("include/box/*/*.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    # A declaration at the start of a line; inline functions have a body.
    declared = {
        match.group(1)
        for match in re.finditer(
            r"^(?!static|typedef|#)[a-z][\w *]*?\b(box_\w+)\([^;{]*?\)[^;{]*;", text, re.M | re.S
        )
    }
    assert "box_line_open" in declared
    assert exported == declared
