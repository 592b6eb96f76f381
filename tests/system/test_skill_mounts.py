"""Skills of the runtime's own store in boxes: installed by the real client, mounted read-only by
`skill_name`, seen by their tenant alone; and what becomes of them when box-skills dies.
"""

import os
import pathlib
import signal
import subprocess

import pytest

import boxlib
import nativelib

NAMES = ("one", "two")


@pytest.fixture(scope="module", autouse=True)
def nothing_left():
    with nativelib.nothing_left():
        yield


@pytest.fixture(scope="module", params=nativelib.MODES)
def place(request, nothing_left):
    with nativelib.Place(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        for name in NAMES:
            make_skill(made, name)
        yield made


def make_skill(client, name, **more):
    skill = {"name": name, "description": f"it is {name}", "instructions": "do", **more}
    client.ask("box_create_skill", {"skill": skill})
    script = f"import sys\nprint('{name}', *sys.argv[1:])\n"
    write(client, name, "scripts/y.py", script)


def write(client, name, path, content):
    client.ask("box_write_skill_file", {"name": name, "path": path, "content": content})


def skills_programs(boxd):
    """The pids of its box-skills."""
    found = subprocess.run(["pgrep", "-x", "-P", str(boxd.pid), "box-skills"], capture_output=True)
    return [int(pid) for pid in found.stdout.split()]


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


# -- in a box


def test_runs(client):
    result = client.exec("python3 .skills/one/scripts/y.py a b", "runs", skill_name="one")
    assert (result["stdout"], result["exit_code"]) == ("one a b", 0)


def test_may_not_be_written(client):
    cmd = "cd .skills/one; touch x; echo x > SKILL.md; rm scripts/y.py; mv scripts s; mkdir d; ls"
    result = client.exec(cmd, "ro", skill_name="one")
    assert result["stdout"].split() == ["SKILL.md", "scripts"]
    assert result["stderr"].count("Read-only file system") == 5, result
    listed = client.ask("box_list_skill_files", {"name": "one"})
    assert [entry["name"] for entry in listed["entries"]] == ["SKILL.md", "scripts"]


def test_flags(client):
    cmd = "grep ' /workspace/.skills/one ' /proc/self/mountinfo"
    (line,) = client.exec(cmd, "flags", skill_name="one")["stdout"].splitlines()
    assert {"ro", "nosuid", "nodev"} <= set(line.split()[5].split(",")), line


def test_only_in_its_command(client):
    """The session stays; the next command names another, or none."""
    client.exec("echo kept > /tmp/f", "each", skill_name="one")
    both = client.exec("cat /tmp/f; ls .skills; ls .skills/*", "each", skill_name="two")
    assert "kept" in both["stdout"] and "SKILL.md" in both["stdout"]
    assert client.exec("python3 .skills/two/scripts/y.py", "each", skill_name="two")["stdout"] == "two"
    assert client.exec("ls .skills/two 2>&1", "each")["stdout"] in ("", "ls: cannot access")


def test_in_a_folder_of_the_host(client, place):
    folder = place.make("work", "tenant")
    spec = {"host_path": str(folder), "skill_name": "one"}
    result = client.exec("python3 .skills/one/scripts/y.py; echo mine > f", "host", **spec)
    assert result["stdout"] == "one" and (folder / "f").read_text() == "mine\n"
    assert not list((folder / ".skills" / "one").iterdir())


def test_by_extra_mounts(client):
    """By the path that the store tells; as clients that build their own mounts do."""
    skill = client.ask("box_get_skill", {"name": "two"})["skill"]
    mount = {"mount_path": "/workspace/.skills/x", "mode": "ro", "host_path": skill["package_root"]}
    result = client.exec("python3 .skills/x/scripts/y.py", "extra", extra_mounts=[mount])
    assert result["stdout"] == "two"


def test_stream(client):
    stream = {"cmd": "python3 .skills/one/scripts/y.py", "session_id": "live", "skill_name": "one"}
    seq = client.start("box_exec_stream", stream)
    events = []
    while not events or events[-1].get("event") != "exit":
        events.append(client.wait(seq)["data"])
    assert "".join(event.get("data", "") for event in events) == "one\n"


@pytest.mark.parametrize("name", ["three", "ONE", "tenants"])
def test_unknown(client, name):
    spec = {"cmd": "true", "session_id": "unknown", "skill_name": name}
    assert client.fail("box_exec", spec) == f'BoxValidationError: Skill "{name}" not found'


def test_neighbour(client):
    """Another tenant has neither the skill nor a way to its folder."""
    context = {**client.context, "workspace_uuid": "next door"}
    spec = {"cmd": "true", "session_id": "n", "skill_name": "one"}
    text = client.fail("box_exec", spec, context=context)
    assert text == 'BoxValidationError: Skill "one" not found'
    assert client.ask("box_list_skills", context=context) == {"skills": []}
    root = client.ask("box_get_skill", {"name": "one"})["skill"]["package_root"]
    text = client.fail("box_scan_skill_directory", {"path": root}, context=context)
    assert text == "BoxValidationError: scan path must stay within the Workspace skill root"


def test_links_lead_nowhere(client, place):
    """What a package has of links is resolved in the box, not on the host."""
    root = client.ask("box_get_skill", {"name": "two"})["skill"]["package_root"]
    os.symlink("/etc/shadow", f"{root}/secret")
    os.symlink("../../../..", f"{root}/up")
    result = client.exec("cat .skills/two/secret; ls .skills/two/up/", "links", skill_name="two")
    assert "root:" not in result["stdout"] and "workspace" in result["stdout"], result


def test_package_that_is_a_link(client, place):
    """Moved away under our feet, with a link in its place."""
    make_skill(client, "moved")
    root = client.ask("box_get_skill", {"name": "moved"})["skill"]["package_root"]
    os.rename(root, f"{root}.away")
    os.symlink("/etc", root)
    spec = {"cmd": "ls .skills/moved", "session_id": "moved", "skill_name": "moved"}
    answer = client.call("box_exec", spec)
    assert answer["code"] == 1 or "passwd" not in answer["data"]["stdout"], answer
    os.unlink(root)
    os.rename(f"{root}.away", root)


def test_belongs_to_the_folder(client, place):
    """Not to root, nor to a stray id: whoever owns the store can change it by hand."""
    root = client.ask("box_get_skill", {"name": "one"})["skill"]["package_root"]
    assert os.stat(root).st_uid == os.stat(place.work).st_uid


# -- box-skills


def test_program_has_nothing(client):
    """No rights, and of files the store, a socket and where it says what is wrong."""
    (pid,) = skills_programs(client.boxd)
    status = status_of(pid)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert len(os.listdir(f"/proc/{pid}/fd")) <= 8
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert sum(link.startswith("socket:") for link in links) == 1, links


def test_killed(client):
    """The one who waits is told, the next one gets another."""
    for _ in range(5):
        (pid,) = skills_programs(client.boxd)
        os.kill(pid, signal.SIGKILL)
        boxlib.wait_until(lambda: pid not in skills_programs(client.boxd))
        names = {skill["name"] for skill in client.ask("box_list_skills")["skills"]}
        assert set(NAMES) <= names
    assert len(skills_programs(client.boxd)) == 1


def test_killed_under_way(client):
    (pid,) = skills_programs(client.boxd)
    seqs = [client.start("box_list_skills") for _ in range(40)]
    os.kill(pid, signal.SIGKILL)
    answers = [client.wait(seq) for seq in seqs]
    boxlib.wait_until(lambda: pid not in skills_programs(client.boxd))
    failed = [answer["message"] for answer in answers if answer["code"] != 0]
    assert len(failed) <= 1, failed
    assert all(text.startswith("BoxRuntimeUnavailableError: ") for text in failed)


def test_dies_with_the_worker(client):
    client.ask("box_list_skills")
    (before,) = skills_programs(client.boxd)
    client.boxd.kill_worker()
    client.boxd.wait_served(2)
    boxlib.wait_until(lambda: before not in skills_programs(client.boxd))
    with client.boxd.web() as after:
        names = {skill["name"] for skill in after.ask("box_list_skills")["skills"]}
        assert set(NAMES) <= names


def test_no_program(place):
    """Without box-skills all else goes on."""
    away = place.programs / "box-skills"
    os.rename(away, f"{away}.away")
    try:
        with nativelib.dialled(place) as client:
            text = client.fail("box_list_skills")
            assert text.startswith("BoxBackendUnavailableError: this runtime keeps no skills")
            assert client.exec("echo on")["stdout"] == "on"
    finally:
        os.rename(f"{away}.away", away)
