"""Reads the example files of contrib/langbot: what they give to LangBot and to boxd.

By the python of BOX_VENV_LANGBOT, which has a YAML reader.
"""

import functools
import json
import subprocess

from langbotlib import LANGBOT, PACKAGE

READ = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
DIAL = (
    "from langbot.pkg.box import connector as c; import json; "
    "print(json.dumps([c._DOCKER_BOX_HOST, c._DEFAULT_PORT]))"
)
TOKEN = "LANGBOT_BOX_CONTROL_TOKEN"
BOX_ROOT = "${LANGBOT_BOX_ROOT:?}"


def ask_langbot(code, **more):
    python = LANGBOT / "bin" / "python"
    assert python.exists(), f"scripts/deps test makes {LANGBOT}"
    command = [str(python), "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, **more)
    return json.loads(done.stdout.splitlines()[-1])


@functools.cache
def read(name):
    return ask_langbot(READ, input=(PACKAGE / name).read_text())


@functools.cache
def dialled():
    """The host and the port that LangBot uses in a container."""
    return ask_langbot(DIAL)


def services():
    (document,) = read("compose.yaml")
    return document["services"]


def variables(entries):
    """The environment of a service or a container; references are not resolved."""
    if entries and isinstance(entries[0], str):
        return dict(entry.split("=", 1) for entry in entries)
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def kubernetes(kind):
    return [document for document in read("kubernetes.yaml") if document["kind"] == kind]


def containers():
    (deployment,) = kubernetes("Deployment")
    spec = deployment["spec"]["template"]["spec"]
    return {container["name"]: container for container in spec["containers"]}
