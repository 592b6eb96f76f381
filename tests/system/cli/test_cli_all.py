"""The operator sees and uses the boxes of all workspaces as WORKSPACE/BOX. Nobody else can."""

import contextlib
import json
import subprocess

import clilib
import clientlib
import nativelib
import pytest
from clientlib import context

pytestmark = pytest.mark.usefixtures("nothing_left")


class Operator:
    """The command `box` as the user that runs boxd, over the operator's socket."""

    def __init__(self, place, boxd, path):
        self.place = place
        self.boxd = boxd
        self.path = path

    def start(self, command, *args, **popen):
        words = [str(self.place.programs.parent / "box"), command, f"--endpoint=unix:{self.path}"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*self.place.before, *words, *map(str, args)],
            env=clilib.variables(False),
            cwd=self.place.work,
            text=True,
            **{**pipes, **popen},
        )

    def __call__(self, *args, data=None):
        with self.start(*args, **({} if data is None else {"stdin": subprocess.PIPE})) as process:
            try:
                out, err = process.communicate(data, timeout=clilib.SECONDS)
            finally:
                process.kill()
        return process.returncode, out, err

    def good(self, *args, **more):
        code, out, err = self(*args, **more)
        assert (code, err) == (0, ""), (args, err)
        return out


@contextlib.contextmanager
def operated(place, **options):
    folder = place.make(f"run-{len(list(place.folder.iterdir()))}")
    path = folder / "box.sock"
    if not (place.folder / "box").exists():
        nativelib.copy([clilib.build() / "box"], place.folder)
    with place.start("--socket", str(path), **options) as boxd:
        boxd.wait_served()
        yield Operator(place, boxd, path)


@pytest.fixture(scope="module")
def operator(place):
    """A boxd with two workspaces of a platform, each with a box `b`, and a box of the operator's
    own."""
    with operated(place) as made, made.boxd.web() as client:
        for workspace in ("one", "two/three"):
            client.ask("box_create_session", {"session_id": "b"}, context=context(workspace=workspace))
        made.client = client
        made.good("create", "b")
        yield made


def names(operator):
    return [line.split()[:2] for line in operator.good("ls", "--all").splitlines()[1:]]


def test_all_boxes_are_listed_with_whose_they_are(operator):
    assert names(operator) == [
        [clientlib.INSTANCE, "one/b"],
        [clientlib.INSTANCE, "two/three/b"],
        ["_operator", "box/b"],
    ]
    (first, *_) = json.loads(operator.good("ls", "-a", "--json"))
    assert first["instance_uuid"] == clientlib.INSTANCE
    assert first["workspace_uuid"] == "one"
    assert first["placement_generation"] == 1
    # One workspace's boxes are listed as before.
    (own,) = json.loads(operator.good("ls", "--json"))
    assert "workspace_uuid" not in own
    # A successor of box-rpc lists them, too.
    operator.boxd.kill_worker()
    operator.boxd.wait_served(2)
    assert len(names(operator)) == 3


def test_commands_take_workspace_and_box(operator):
    for workspace in ("one", "two/three", "box"):
        name = f"{workspace}/b"
        assert operator.good("exec", name, f"echo {workspace} > note; cat note") == f"{workspace}\n"
    assert operator.good("exec", "b", "cat note") == "box\n"
    # The platform's client finds the file that the operator has written in the same box.
    with operator.boxd.web() as client:
        found = client.ask(
            "box_exec", {"session_id": "b", "cmd": "cat note"}, context=context(workspace="one")
        )
    assert found["stdout"] == "one"
    assert operator.good("cp", "two/three/b:note", "-") != ""
    source = operator.place.write(operator.place.work / "source", "copied\n")
    assert operator.good("cp", source, "one/b:copy") == ""
    assert operator.good("exec", "one/b", "cat copy") == "copied\n"


def test_processes_of_all_workspaces(operator):
    for name in ("one/b", "box/b"):
        assert operator.good("start", "--name", "p", name, "echo hello; exec cat") == "p\n"
    told = operator.good("ps", "--all").splitlines()
    assert told[0].split()[0] == "WORKSPACE/BOX"
    assert [line.split()[:3] for line in told[1:]] == [
        ["one/b", "p", "running"],
        ["box/b", "p", "running"],
    ]
    (one, _) = json.loads(operator.good("ps", "--all", "--json"))
    assert one["workspace_uuid"] == "one"
    assert [line.split()[0] for line in operator.good("ps", "one/b").splitlines()[1:]] == ["b"]
    assert operator.good("logs", "one/b", "p") == "hello\n"
    assert operator.good("attach", "one/b", "p", data="x\n") == "hello\nx\n"
    assert operator.good("stop", "box/b") == "p\n"
    assert "running" not in operator.good("ps", "--all")


def test_names_that_lead_nowhere(operator):
    code, _, err = operator("exec", "nobody/b", "true")
    assert (code, err) == (125, "box: no box nobody/b: box ls --all lists those of all workspaces\n")
    code, _, err = operator("exec", "--instance", "another", "one/b", "true")
    assert (code, "no box one/b" in err) == (125, True)
    code, _, err = operator("create", "one/c")
    assert (code, err) == (125, "box: create: NAME must not contain /: use --workspace (see box create --help)\n")
    code, _, err = operator("ps", "--all", "one/b")
    assert (code, "cannot be combined" in err) == (125, True)


def test_a_name_that_two_instances_have(operator):
    operator.good("create", "--workspace", "one", "b")
    code, _, err = operator("exec", "one/b", "true")
    assert code == 125
    assert f"choose one with --instance: {clientlib.INSTANCE}, _operator" in err
    assert operator.good("rm", "--instance", "_operator", "one/b") == "one/b\n"
    assert operator.good("exec", "one/b", "echo it") == "it\n"


def test_who_is_not_the_operator_is_told_of_its_own_boxes_alone(operator):
    said = "only the operator, over its own socket, sees the boxes of all workspaces"
    with operator.boxd.web() as client:
        for where in (context(), None):
            assert said in client.fail("box_get_sessions", {"all": True}, context=where)
        own = client.ask("box_get_sessions", {"all": False}, context=context(workspace="one"))
        assert [one["session_id"] for one in own["sessions"]] == ["b"]
    for args in (["ls", "--all"], ["ps", "--all"], ["exec", "one/b", "true"], ["rm", "one/b"]):
        command, *rest = args
        code, _, err = clilib.dialled(
            operator.boxd, command, *rest, env={"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": clientlib.INSTANCE}
        )
        assert (code, said in err) == (125, True), args


def test_boxes_of_clients_without_a_context(place):
    """A client as in SDK 0.4: its workspace has no name."""
    with operated(place, instance=None) as operator, operator.boxd.web(instance=None) as client:
        client.context = None
        client.ask("box_create_session", {"session_id": "b"})
        assert names(operator) == [["_unnamed", "/b"]]
        assert operator.good("exec", "/b", "echo hello > note; cat note") == "hello\n"
        assert operator.good("start", "/b", "echo hello; exec cat") == "default\n"
        assert operator.good("logs", "/b") == "hello\n"
        assert operator.good("attach", "/b", data="x\n") == "hello\nx\n"
        assert operator.good("rm", "/b") == "/b\n"
        assert names(operator) == []
        assert client.ask("box_get_sessions")["sessions"] == []


# Runs last: it removes what the other tests use.


def test_boxes_of_others_are_removed(operator):
    assert operator.good("rm", "one/b", "b", "two/three/b") == "one/b\nb\ntwo/three/b\n"
    assert names(operator) == []
    assert not operator.boxd.events("instance.claimed")
