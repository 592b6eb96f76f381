"""The skill store beside the reference's own: both get the same requests and answer in JSON lines.
"""

import io
import json
import os
import pathlib
import re
import subprocess
import zipfile

import boxdlib
import testpaths

TENANT = "ws-0123456789abcdef01234567"


class Asked:
    """A program that answers each line with a line."""

    def __init__(self, argv, **options):
        self.process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **options,
        )

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.close()

    def close(self):
        """Ends it and returns its exit code."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def send(self, action, data=None, archive=None, tenant=TENANT, **more):
        line = {"namespace": tenant, "action": action, "data": {} if data is None else data, **more}
        if archive is not None:
            line["archive"] = str(archive)
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        assert line, f"the program ended: {self.process.wait(10)}"
        return json.loads(line)

    def raw(self, action, data=None, archive=None, tenant=TENANT):
        """{"ok": ...} or {"error": ...}, and the microseconds `us`."""
        self.send(action, data, archive, tenant)
        return self.receive()

    def ask(self, action, data=None, archive=None, tenant=TENANT):
        """The same without the time."""
        answer = self.raw(action, data, archive, tenant)
        answer.pop("us", None)
        return answer

    def ok(self, action, data=None, archive=None, tenant=TENANT):
        answer = self.ask(action, data, archive, tenant)
        assert "ok" in answer, answer
        return answer["ok"]

    def error(self, action, data=None, archive=None, tenant=TENANT):
        answer = self.ask(action, data, archive, tenant)
        assert "error" in answer, answer
        return answer["error"]


def start_store(folder, build=None, **options):
    program = (build or boxdlib.build()) / "tests" / "drivers" / "skills_driver"
    return Asked([program, folder, os.path.realpath(folder)], **options)


def start_reference(folder):
    python = boxdlib.build("BOX_VENV_OLD") / "bin" / "python"
    return Asked([python, testpaths.SCRIPTS / "skill_reference.py", folder])


class Tenant:
    """The folder of one tenant, to put packages into."""

    def __init__(self, folder, tenant=TENANT):
        self.root = pathlib.Path(folder) / "tenants" / tenant
        self.root.mkdir(parents=True, exist_ok=True)

    def put(self, path, content="", mtime_ns=None):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        if mtime_ns is not None:
            os.utime(file, ns=(mtime_ns, mtime_ns))
        return file


def skill_md(name, description="Does things.", rest="# How\n\nDo it.\n"):
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{rest}"


def archive(files):
    """A ZIP of {name: content}."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


def without(answer, *keys):
    """The answer without these members at any depth."""
    if isinstance(answer, dict):
        return {key: without(value, *keys) for key, value in answer.items() if key not in keys}
    if isinstance(answer, list):
        return [without(item, *keys) for item in answer]
    return answer


def alike(answer, own, other):
    """The answer that the other store, in another folder, should give."""
    text = json.dumps(answer)
    return json.loads(re.sub(re.escape(str(own)), str(other), text))
