"""A skill from its install by the real 0.5 client to a command that uses it: it runs, it is
read-only, and other tenants cannot see it.
"""

import itertools

import pytest

import nativelib
import skilllib

EVERYONE = list(itertools.product(("OLD",), ("stdio", "websocket"), nativelib.MODES))
SCRIPT = "import sys\nprint('ran', *sys.argv[1:])\n"
RUN = "python3 .skills/x/scripts/y.py a"
WRITE = "echo more >> .skills/x/scripts/y.py; touch .skills/x/new; rm -r .skills/x; ls .skills/x"
# All files that a box can see: a store of anyone's among them would contain the script.
SEARCH = "find / -name y.py -not -path '/proc/*' 2>/dev/null; ls -A /workspace"


def make_steps(place, generation, carrier, mode):
    upload = place.folder / "x.zip"
    packed = {"x/SKILL.md": skilllib.skill_md("x"), "x/scripts/y.py": SCRIPT}
    upload.write_bytes(skilllib.archive(packed))
    upload.chmod(0o644)
    data = place.make("data")
    # The operator chooses where the store is.
    place.config.write_text((place.config.read_text() or "local:\n") + f"  host_root: {data}\n")
    local = {"host_root": str(data), "skills_root": "skills"}
    mine = {"do": "exec", "session_id": "s"}
    theirs = {**mine, "workspace": "ws2"}
    return {
        "init": {"do": "init", "backend": "local", "local": local},
        "before": {**mine, "cmd": RUN},
        "installed": {"do": "install", "upload": str(upload), "filename": "x.zip"},
        "listed": {"do": "skills"},
        "ran": {**mine, "cmd": RUN, "skill_name": "x"},
        "written": {**mine, "cmd": WRITE, "skill_name": "x"},
        "ran again": {**mine, "cmd": RUN, "skill_name": "x"},
        "without": {**mine, "cmd": RUN},
        "listed next door": {"do": "skills", "workspace": "ws2"},
        "run next door": {**theirs, "cmd": RUN, "skill_name": "x"},
        "searched next door": {**theirs, "cmd": SEARCH},
    }


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def flows(nothing_left):
    with nativelib.Flows(make_steps, EVERYONE) as made:
        yield made


@pytest.fixture(scope="module", params=EVERYONE, ids=nativelib.names(EVERYONE))
def flow(request, flows):
    return flows.results(request.param)


def test_runs(flow):
    assert flow.gave("before")["exit_code"] == 2
    assert [skill["name"] for skill in flow.gave("installed")] == ["x"]
    assert [skill["name"] for skill in flow.gave("listed")] == ["x"]
    for step in ("ran", "ran again"):
        assert flow.gave(step)["stdout"] == "ran a", step
    assert flow.gave("without")["exit_code"] == 2


def test_may_not_be_written(flow):
    result = flow.gave("written")
    assert result["stdout"].split() == ["SKILL.md", "scripts"]
    assert result["stderr"].count("Read-only file system") >= 3, result


def test_neighbour(flow):
    assert flow.gave("listed next door") == []
    name, text = flow.raised("run next door")
    assert (name, text) == ("BoxValidationError", 'BoxValidationError: Skill "x" not found')
    assert flow.gave("searched next door")["stdout"] == ""
