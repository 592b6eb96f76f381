"""LangBot for tests: environments that have it and the package of contrib/langbot, and the packages
from npm.

BOX_VENV_LANGBOT and BOX_NPM name what scripts/deps installed, by default build/venv-langbot and
build/npm.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pytest

import boxdlib
import testpaths

ROOT = testpaths.ROOT
PACKAGE = ROOT / "contrib" / "langbot"
LANGBOT = pathlib.Path(os.environ.get("BOX_VENV_LANGBOT") or ROOT / "build" / "venv-langbot")
NPM = pathlib.Path(os.environ.get("BOX_NPM") or ROOT / "build" / "npm")
TELL = "import sys; print(sys.argv)"

# Stands in for boxd where only the start matters.
DOUBLE = "#!/bin/sh\necho taken \"$@\"\necho variable=$VARIABLE\ngrep SigIgn /proc/self/status\n"


class Environment:
    """A virtual environment of its own, with links to the packages of another."""

    def __init__(self, source, folder, base=None):
        assert source, "BOX_VENV_OLD and BOX_VENV_NEW must name virtual environments"
        source = pathlib.Path(source)
        self.folder = folder
        self.python = folder / "bin" / "python"
        base = base or source / "bin" / "python"
        command = [base, "-m", "venv", "--without-pip", folder]
        subprocess.run(command, check=True, timeout=60)
        (self.site,) = folder.glob("lib/python*/site-packages")
        for entry in next(source.glob("lib/python*/site-packages")).iterdir():
            if entry.name != "__pycache__":
                (self.site / entry.name).symlink_to(entry)
        self.double = folder / "double"
        self.double.write_text(DOUBLE)
        self.double.chmod(0o755)
        self.script = folder / "script"
        self.script.write_text(TELL)

    def files(self):
        return {str(path) for path in self.site.rglob("*")}

    def environ(self, **more):
        wanted = {"LANGBOT_BOXD": str(self.double), **more}
        kept = boxdlib.environment(PYTHONDONTWRITEBYTECODE="1")
        kept.pop("LANGBOT_BOXD_OFF", None)
        return {**kept, **{name: value for name, value in wanted.items() if value is not None}}

    def run(self, *args, **more):
        """Runs its Python; (exit code, stdout, stderr). A variable that is None is unset."""
        args = [str(self.script) if arg == "script" else arg for arg in args]
        done = subprocess.run(
            [str(self.python), *args],
            env=self.environ(**more),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    def pip(self, *args):
        code, out, err = self.run("-m", "pip", "--disable-pip-version-check", *args)
        assert code == 0, out + err

    def install(self):
        self.pip("install", "--no-index", "--no-deps", str(PACKAGE))
        return self

    def uninstall(self):
        self.pip("uninstall", "--yes", "langbot-boxd")


def environment_for(place):
    """An environment that the user of this place can use; the system's Python is readable by
    everyone."""
    assert (LANGBOT / "bin" / "python").exists(), f"scripts/deps test makes {LANGBOT}"
    for number, base in enumerate((None, "/usr/bin/python3")):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            environment = Environment(LANGBOT, place.folder / f"environment{number}", base)
            # LangBot restarts itself, so the first start of a program does not prove enough.
            again = "subprocess.run([sys.executable, '-c', 'import langbot_plugin'], check=True)"
            code = f"import langbot, pydantic, subprocess, sys; {again}"
            probe = [*place.before, str(environment.python), "-c", code]
            subprocess.run(probe, cwd="/", capture_output=True, timeout=60, check=True)
            return environment.install()
    pytest.skip(f"the user that boxd is cannot use {LANGBOT}")


def write_wrapper(place):
    """A wrapper that adds the operator's flags, as the package's README.md describes."""
    boxd, config = place.programs / "boxd", place.config
    text = f'#!/bin/sh\nexec {boxd} --config {config} "$@"\n'
    wrapper = place.write(place.folder / "wrapper", text)
    wrapper.chmod(0o755)
    return wrapper


def link_packages(folder):
    """A copy of what npm installed, as hard links where possible, which is faster."""
    assert (NPM / "node_modules").is_dir(), f"scripts/deps test makes {NPM}"
    folder.mkdir(parents=True)
    source, target = str(NPM / "node_modules"), str(folder)
    if subprocess.run(["cp", "-rdl", "--", source, target], capture_output=True).returncode != 0:
        shutil.rmtree(folder / "node_modules", ignore_errors=True)
        subprocess.run(["cp", "-rd", "--", source, target], check=True)
    return folder
