"""The package of contrib/langbot: LangBot's fixed command line starts boxd and nothing else.

In new virtual environments that see the packages of BOX_VENV_OLD, BOX_VENV_NEW (both generations of
langbot-plugin) and BOX_VENV_LANGBOT (LangBot itself); pip installs the package without network.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import types

import pytest

import boxdlib
import clientlib
import nativelib
import testpaths
from langbotlib import PACKAGE, TELL, Environment, environment_for, write_wrapper

SCRIPT = testpaths.SCRIPTS / "langbot_child_script.py"
MODULE = "langbot_plugin.cli.__init__"
CALL = ("-m", MODULE, "box", "-s", "--ws-control-port", "0")
MODULES = "import json, sys; print(json.dumps(sorted(sys.modules)))"

# Command lines that are not LangBot's call; "script" is a file that prints its arguments.
OTHERS = {
    "ver": ("-m", MODULE, "ver"),
    "box without -s": ("-m", MODULE, "box", "--ws-control-port", "none"),
    "rt": ("-m", MODULE, "rt", "-s", "--ws-control-port", "none"),
    "after the command": ("-m", MODULE, "ver", "box", "-s"),
    "not the command's module": ("-m", "langbot_plugin.version", "box", "-s", "-m", MODULE),
    "-c": ("-c", TELL, "-m", MODULE, "box", "-s"),
    "script": ("script", "-m", MODULE, "box", "-s"),
    "script with box": ("script", MODULE, "box", "-s"),
}


@contextlib.contextmanager
def child(environment, *args, **more):
    """A client on the stdin and stdout of the child, as LangBot would be."""
    extra = {
        "LANGBOT_BOX_TRUSTED_INSTANCE_UUID": clientlib.INSTANCE,
        "LANGBOT_BOX_CONTROL_TOKEN": clientlib.TOKEN,
        "LANGBOT_BOX_CONFIG": json.dumps(boxdlib.FAKE),
        **more,
    }
    with (environment.folder / "stderr").open("w+") as log:
        process = subprocess.Popen(
            [str(environment.python), *args],
            env=environment.environ(**extra),
            cwd=environment.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            with clientlib.Stdio(types.SimpleNamespace(process=process)) as client:
                yield client
            code = process.wait(15)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)
            process.stdout.close()
        log.seek(0)
        text = log.read()
    assert code == 0 and "Sanitizer" not in text and "runtime error:" not in text, text


@pytest.fixture(scope="module", params=["OLD", "NEW"])
def fresh(request, tmp_path_factory):
    """An environment, and its behaviour before the package was installed."""
    folder = tmp_path_factory.mktemp("environment") / request.param
    environment = Environment(os.environ.get(f"BOX_VENV_{request.param}"), folder)
    environment.before = {name: environment.run(*args) for name, args in OTHERS.items()}
    environment.modules = environment.run("-c", MODULES)
    sources = set(PACKAGE.rglob("*"))
    environment.install()
    assert set(PACKAGE.rglob("*")) == sources, "installing wrote into the sources"
    return environment


def program(**more):
    return {"LANGBOT_BOXD": str(boxdlib.build() / "boxd"), **more}


# -- the call


def test_call_starts_boxd(fresh):
    with child(fresh, *CALL, **program()) as client:
        assert client.ask("__ping", context=None) == {}
        status = client.ask("box_status")
        assert "features" in status
        # The variables of LangBot are passed on.
        assert status["backend"]["name"] == "fake"
        pid = client.boxd.process.pid
        assert boxdlib.status_of(pid)["Name"] == "boxd"
        if boxdlib.ROOT:
            assert os.readlink(f"/proc/{pid}/exe") == str((boxdlib.build() / "boxd").resolve())


def test_on_path(fresh):
    path = f"/nonexistent:{boxdlib.build()}:/usr/bin:/bin"
    with child(fresh, *CALL, LANGBOT_BOXD=None, PATH=path) as client:
        assert "features" in client.ask("box_status")


@pytest.mark.parametrize("before", [(), ("-I",), ("-E", "-s"), ("-X", "utf8", "-W", "ignore")])
@pytest.mark.parametrize(
    "args",
    [
        ("-s", "--ws-control-port", "5410"),
        ("--stdio-control", "--ws-control-port=0"),
        ("--host", "127.0.0.1", "-s"),
        ("-s", "two words", "", "--not-known"),
    ],
)
def test_arguments_are_passed(fresh, before, args):
    """All flags are passed on: boxd itself refuses unknown ones."""
    code, out, err = fresh.run(*before, "-m", MODULE, "box", *args, VARIABLE="value")
    taken, variable, ignored = out.splitlines()
    assert (code, err) == (0, "")
    assert (taken, variable) == (f"taken {' '.join(args)}", "variable=value")
    of_python = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert int(ignored.split()[1], 16) & of_python == 0, "signals that Python ignores stayed so"


# -- everything else


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_untouched(fresh, name):
    code, out, err = fresh.run(*OTHERS[name])
    assert "taken" not in out
    assert (code, out, err) == fresh.before[name]


def test_nothing_is_imported(fresh):
    """A Python without LangBot imports the same modules as without the package."""
    assert fresh.run("-c", MODULES) == fresh.modules
    assert "langbot_boxd" not in fresh.modules[1]


def test_hardly_anything_is_imported(fresh):
    """The name is on the command line, but the call is not LangBot's."""
    code, out, err = fresh.run("-c", MODULES, MODULE)
    assert (code, err) == (0, "")
    assert set(json.loads(out)) - set(json.loads(fresh.modules[1])) == {"langbot_boxd"}


# -- without boxd


@pytest.mark.parametrize(
    "variable, text",
    [
        ("/nonexistent/boxd", "LANGBOT_BOXD=/nonexistent/boxd: not a program that can be run"),
        ("/etc/passwd", "LANGBOT_BOXD=/etc/passwd: not a program that can be run"),
        ("/usr/bin", "LANGBOT_BOXD=/usr/bin: not a program that can be run"),
        ("double", "LANGBOT_BOXD=double: must be an absolute path"),
        (None, "boxd is not on PATH; install it or set LANGBOT_BOXD to its path"),
        ("", "boxd is not on PATH; install it or set LANGBOT_BOXD to its path"),
    ],
)
def test_missing(fresh, variable, text):
    """No other runtime is started instead, and one line says what to do."""
    code, out, err = fresh.run(*CALL, LANGBOT_BOXD=variable, PATH="/nonexistent::.")
    assert (code, out) == (127, "")
    (line,) = err.splitlines()
    assert line.startswith(f"langbot-boxd: cannot start boxd: {text}. ")
    assert "LANGBOT_BOXD_OFF=1" in line and "pip uninstall langbot-boxd" in line


def test_program_that_is_none(fresh):
    broken = fresh.folder / "broken"
    broken.write_text("no program\n")
    broken.chmod(0o755)
    code, out, err = fresh.run(*CALL, LANGBOT_BOXD=str(broken))
    assert (code, out) == (127, "") and f"{broken}: Exec format error" in err


@pytest.mark.parametrize("word", ["1", " On "])
def test_off(fresh, word):
    code, out, err = fresh.run(*CALL, "--not-known", LANGBOT_BOXD_OFF=word)
    assert (code, out) == (2, "")
    assert "unrecognized arguments: --not-known" in err, "the reference's own words"


@pytest.mark.parametrize("word", ["", "0", "false", "no", "off"])
def test_not_off(fresh, word):
    assert fresh.run(*CALL, LANGBOT_BOXD_OFF=word)[1].startswith("taken -s ")


# -- what operators use


def test_check(fresh):
    boxd = program()["LANGBOT_BOXD"]
    version = subprocess.run([boxd, "--version"], capture_output=True, text=True).stdout.strip()
    code, out, _ = fresh.run("-m", "langbot_boxd", **program())
    assert (code, out) == (0, f"langbot-boxd: LangBot's child is {boxd} ({version})\n")
    code, out, _ = fresh.run("-m", "langbot_boxd", **program(LANGBOT_BOXD_OFF="1"))
    assert (code, "LANGBOT_BOXD_OFF is set" in out) == (1, True)
    code, out, _ = fresh.run("-m", "langbot_boxd", LANGBOT_BOXD="/nonexistent")
    assert (code, "cannot start boxd" in out) == (1, True)
    code, out, _ = fresh.run("-m", "langbot_boxd")  # the double is not boxd
    assert (code, "is not boxd; it said:\ntaken -s --version" in out) == (1, True)


def test_check_in_the_wrong_environment(tmp_path):
    source = pathlib.Path(os.environ["BOX_VENV_NEW"])
    environment = Environment(source, tmp_path / "wrong").install()
    for entry in environment.site.glob("langbot_plugin*"):
        entry.unlink()
    code, out, _ = environment.run("-m", "langbot_boxd", **program())
    assert (code, "has no langbot_plugin" in out) == (1, True)


@pytest.mark.parametrize("generation", ["OLD", "NEW"])
def test_uninstalled(generation, tmp_path):
    """Nothing is left, and the call starts what it started before."""
    environment = Environment(os.environ.get(f"BOX_VENV_{generation}"), tmp_path / "environment")
    before = environment.files()
    environment.install()
    assert environment.run(*CALL)[1].startswith("taken -s ")
    assert environment.files() > before
    environment.uninstall()
    assert environment.files() == before
    with child(environment, *CALL) as client:
        assert client.ask("__ping", context=None, seconds=60) == {}
        assert boxdlib.status_of(client.boxd.process.pid)["Name"].startswith("python")


# -- LangBot itself


def start_langbot(place, environment, boxd):
    """The results of LangBot with this program as boxd, and its stderr."""
    host_root = str(place.work / "box")
    wanted = {"instance": clientlib.INSTANCE, "host_root": host_root, "profile": "offline"}
    done = subprocess.run(
        [*place.before, str(environment.python), str(SCRIPT), json.dumps(wanted)],
        env=environment.environ(LANGBOT_BOXD=str(boxd), HOME=str(place.home)),
        cwd=place.work,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module", params=nativelib.MODES)
def langbot(request):
    """langbot(boxd) starts LangBot's services with that program, by default the real one."""
    with nativelib.nothing_left(), nativelib.Place(request.param) as place:
        environment = environment_for(place)
        wrapper = write_wrapper(place)
        yield lambda boxd=wrapper: start_langbot(place, environment, boxd)


def test_langbot_starts_boxd(langbot):
    said, log = langbot()
    assert (said["available"], said["error"]) == (True, "")
    assert (said["child"], said["is our child"]) == ("boxd", True)
    result = said["exec"]
    assert (result["status"], result["exit_code"]) == ("completed", 3)
    assert (result["stdout"], result["backend"]) == ("hello", "local")
    assert "features" in json.dumps(said["status"])
    assert said["exit code"] == 0, "ended by itself when LangBot closed its stdin"
    assert "Sanitizer" not in log and "runtime error:" not in log, log


def test_langbot_without_boxd(langbot):
    said, log = langbot("/nonexistent/boxd")
    assert said["available"] is False and said["error"]
    assert "langbot-boxd: cannot start boxd: LANGBOT_BOXD=/nonexistent/boxd" in log
