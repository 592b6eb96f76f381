"""The example files of contrib/langbot agree with boxd, with LangBot and with docs/deploy.md."""

import functools
import json
import pathlib
import re
import shlex
import subprocess

import pytest

import boxdlib
import clientlib
from composelib import BOX_ROOT, TOKEN, containers, dialled, kubernetes, services, variables
from langbotlib import PACKAGE, ROOT


def boxd(*args, **variables):
    command = [str(boxdlib.build() / "boxd"), *args]
    done = subprocess.run(
        command, env=boxdlib.environment(**variables), capture_output=True, text=True, timeout=30
    )
    return done.returncode, done.stdout + done.stderr


def commands():
    dockerfile = (PACKAGE / "Dockerfile").read_text()
    return {
        "Dockerfile": json.loads(re.search(r"^CMD (.*)$", dockerfile, re.M)[1]),
        "compose.yaml": services()["langbot_box"]["command"],
        "kubernetes.yaml": containers()["box"]["command"],
    }


# -- settings of boxd


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "kubernetes.yaml"])
def test_command(name):
    program, *args = commands()[name]
    assert program == "boxd"
    code, text = boxd(*args, "--check-config", **{TOKEN: clientlib.TOKEN})
    assert code == 0, text
    # Without a token the port is not open.
    code, text = boxd(*args, "--check-config")
    assert code == (78 if "--host" in args else 0), text


def test_variables():
    """boxd's variables are those that its help lists; it is given no others."""
    _, text = boxd("--help")
    given = set(variables(services()["langbot_box"]["environment"]))
    given |= set(variables(containers()["box"]["env"]))
    assert TOKEN in given
    assert given <= set(re.findall(r"\bLANGBOT_BOX_[A-Z_]+", text))


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_settings(name, tmp_path):
    """BOX__A__B variables of LangBot reach boxd as configuration keys that it knows."""
    entries = services()["langbot"]["environment"]
    if name == "kubernetes.yaml":
        entries = containers()["langbot"]["env"]
    config = {}
    for variable, value in variables(entries).items():
        if variable.startswith("BOX__"):
            *above, last = variable.lower().split("__")[1:]
            place = functools.reduce(lambda at, part: at.setdefault(part, {}), above, config)
            place[last] = value.replace(BOX_ROOT, "/srv/box")
    assert config["local"]["host_root"]
    config.pop("runtime", None)  # LangBot keeps it to itself
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    code, text = boxd("--config", str(file), "--check-config")
    assert code == 0 and "unknown" not in text, text


def test_probes():
    """The probes use what boxd answers, at the address where it listens without --host."""
    box = containers()["box"]
    probes = [box[name]["exec"]["command"][-1] for name in ("livenessProbe", "readinessProbe")]
    assert probes == [f"http://127.0.0.1:{dialled()[1]}{path}" for path in ("/healthz", "/readyz")]
    with boxdlib.Boxd(config=boxdlib.FAKE) as running:
        for probe in probes:
            assert running.http("/" + probe.rsplit("/", 1)[1])[0] == 200


# -- settings of LangBot


def test_address():
    """In Compose LangBot uses its default address; in a pod it is configured."""
    host, port = dialled()
    service = services()[host]
    assert service["container_name"] == host
    assert "--ws-control-port" not in service["command"] and "ports" not in service
    (network,) = service["networks"]
    assert network in services()["langbot"]["networks"]
    assert network not in services()["langbot_plugin_runtime"]["networks"]
    endpoint = variables(containers()["langbot"]["env"])["BOX__RUNTIME__ENDPOINT"]
    assert endpoint == f"ws://127.0.0.1:{port}"
    assert f"EXPOSE {port}\n" in (PACKAGE / "Dockerfile").read_text()


def test_token():
    both = [services()[name]["environment"] for name in ("langbot", "langbot_box")]
    ours, theirs = (variables(entries)[TOKEN] for entries in both)
    assert ours == theirs == "${" + TOKEN + ":?}"
    ours, theirs = (variables(container["env"])[TOKEN] for container in containers().values())
    assert ours == theirs == {"secretKeyRef": {"name": "langbot-box-control", "key": "token"}}


def test_folder():
    """LangBot and boxd have the box root at the same path."""
    told = variables(services()["langbot"]["environment"])
    assert told["BOX__LOCAL__HOST_ROOT"] == told["BOX__LOCAL__ALLOWED_MOUNT_ROOTS"] == BOX_ROOT
    for name in ("langbot", "langbot_box"):
        assert f"{BOX_ROOT}:{BOX_ROOT}" in services()[name]["volumes"]

    told = variables(containers()["langbot"]["env"])
    assert told["BOX__LOCAL__ALLOWED_MOUNT_ROOTS"] == told["BOX__LOCAL__HOST_ROOT"]
    (mount,) = containers()["box"]["volumeMounts"]
    assert mount["mountPath"] == told["BOX__LOCAL__HOST_ROOT"]
    assert mount in containers()["langbot"]["volumeMounts"]


def test_claims():
    spec = kubernetes("Deployment")[0]["spec"]["template"]["spec"]
    claims = [claim["metadata"]["name"] for claim in kubernetes("PersistentVolumeClaim")]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]] == claims
    mounted = {mount["name"] for part in spec["containers"] for mount in part["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


# -- the documentation


def documented():
    """The flags of `docker run` in docs/deploy.md, as lists by name."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    line = re.search(r"^docker run (.*?)^```", text, re.M | re.S)[1].replace("\\\n", " ")
    words, flags = shlex.split(line), {}
    for name, value in zip(words, words[1:]):
        if name.startswith("-"):
            flags.setdefault(name, []).append(value)
    return flags


def test_privileges():
    box, flags = services()["langbot_box"], documented()
    assert sorted(box["cap_add"]) == sorted(flags["--cap-add"])
    assert sorted(box["security_opt"]) == sorted(flags["--security-opt"])
    assert box["devices"] == flags["--device"]
    assert [box["cgroup"]] == flags["--cgroupns"]
    assert set(flags["-v"]) & set(box["volumes"]) == {"/sys/fs/cgroup:/sys/fs/cgroup:rw"}
    assert containers()["box"]["securityContext"] == {"privileged": True}


def test_image():
    dockerfile = (PACKAGE / "Dockerfile").read_text()
    built = re.search(r"docker build -t (\S+) -f contrib/langbot/Dockerfile \.", dockerfile)
    assert services()["langbot_box"]["image"] == containers()["box"]["image"] == built[1]
    assert built[0] in (ROOT / "docs" / "langbot.md").read_text()


def test_files_are_named():
    page = (ROOT / "docs" / "langbot.md").read_text()
    for name in ("Dockerfile", "compose.yaml", "kubernetes.yaml"):
        assert f"../contrib/langbot/{name}" in page
    for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page):
        assert pathlib.Path(ROOT / "docs" / target).exists(), target
