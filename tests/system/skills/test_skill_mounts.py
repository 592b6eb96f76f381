"""Skills of the runtime's own store in boxes: mounted read-only by `skill_name`, visible to their
tenant alone; and what happens to the mounts when box-skills dies. test_skill_clients.py has the
real client.
"""

import os
import pathlib
import signal
import subprocess
import time

import pytest

import boxdlib
import nativelib

NAMES = ("one", "two")

pytestmark = pytest.mark.usefixtures("nothing_left")


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
    """The pids of box-skills processes."""
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
    """The session stays; the next command names another skill, or none."""
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
    """By the path that the store reports, for clients that build their own mounts."""
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
    context = {**client.context, "workspace_uuid": "neighbour"}
    spec = {"cmd": "true", "session_id": "n", "skill_name": "one"}
    text = client.fail("box_exec", spec, context=context)
    assert text == 'BoxValidationError: Skill "one" not found'
    assert client.ask("box_list_skills", context=context) == {"skills": []}
    root = client.ask("box_get_skill", {"name": "one"})["skill"]["package_root"]
    text = client.fail("box_scan_skill_directory", {"path": root}, context=context)
    assert text == "BoxValidationError: scan path must stay within the Workspace skill root"


def test_links_lead_nowhere(client, place):
    """Links in a package are resolved in the box, not on the host."""
    root = client.ask("box_get_skill", {"name": "two"})["skill"]["package_root"]
    os.symlink("/etc/shadow", f"{root}/secret")
    os.symlink("../../../..", f"{root}/up")
    result = client.exec("cat .skills/two/secret; ls .skills/two/up/", "links", skill_name="two")
    assert "root:" not in result["stdout"] and "workspace" in result["stdout"], result


def test_package_that_is_a_link(client, place):
    """The package is moved away meanwhile, and a link put in its place."""
    make_skill(client, "moved")
    root = client.ask("box_get_skill", {"name": "moved"})["skill"]["package_root"]
    os.rename(root, f"{root}.away")
    os.symlink("/etc", root)
    spec = {"cmd": "ls .skills/moved", "session_id": "moved", "skill_name": "moved"}
    answer = client.call("box_exec", spec)
    assert answer["code"] == 1 or "passwd" not in answer["data"]["stdout"], answer
    os.unlink(root)
    os.rename(f"{root}.away", root)


def test_whose_it_is(client, place):
    """A new store belongs to no privileged user: one that root creates goes to the user of box-rpc."""
    root = client.ask("box_get_skill", {"name": "one"})["skill"]["package_root"]
    (pid,) = skills_programs(client.boxd)
    owner = os.stat(root).st_uid
    assert int(status_of(pid)["Uid"].split()[1]) == owner
    assert owner == nativelib.USER if place.mode == "rootless" and boxdlib.ROOT else owner != 0


def test_a_store_that_is_there(place, nothing_left):
    """The owner does not change, and box-skills runs as the owner."""
    if place.mode != "root":
        pytest.skip("ids cannot be changed")
    root = place.make("owned")
    store = root / "skills"
    store.mkdir()
    os.chown(store, nativelib.USER, nativelib.USER)
    text = f"local: {{host_root: '{root}', allowed_mount_roots: ['{root}'], degraded: true}}\n"
    config = place.write(place.folder / "owned.yaml", text)
    with nativelib.dialled(place, args=("--config", str(config)), mount_roots=()) as client:
        make_skill(client, "his")
        made = pathlib.Path(client.ask("box_get_skill", {"name": "his"})["skill"]["package_root"])
        assert made.stat().st_uid == nativelib.USER
        spec = {"skill_name": "his"}
        assert client.exec("python3 .skills/his/scripts/y.py", "his", **spec)["stdout"] == "his"


# -- box-skills


def test_program_has_nothing(client):
    """It has no capabilities, and the only fds are the store, a socket and its log."""
    (pid,) = skills_programs(client.boxd)
    status = status_of(pid)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3, 5)]
    assert links[0].startswith("socket:") and links[1].endswith("/data/box/skills"), links
    for fd in set(os.listdir(f"/proc/{pid}/fd")) - {str(n) for n in range(5)}:
        assert os.readlink(f"/proc/{pid}/fd/{fd}").startswith(links[1]), fd


def test_killed(client):
    """The waiting request gets an error, the next one a new box-skills."""
    for _ in range(5):
        (pid,) = skills_programs(client.boxd)
        os.kill(pid, signal.SIGKILL)
        boxdlib.wait_until(lambda: pid not in skills_programs(client.boxd))
        names = {skill["name"] for skill in client.ask("box_list_skills")["skills"]}
        assert set(NAMES) <= names
    assert len(skills_programs(client.boxd)) == 1


def test_killed_under_way(client):
    (pid,) = skills_programs(client.boxd)
    seqs = [client.start("box_list_skills") for _ in range(40)]
    os.kill(pid, signal.SIGKILL)
    answers = [client.wait(seq) for seq in seqs]
    boxdlib.wait_until(lambda: pid not in skills_programs(client.boxd))
    failed = [answer["message"] for answer in answers if answer["code"] != 0]
    assert len(failed) <= 1, failed
    assert all(text.startswith("BoxRuntimeUnavailableError: ") for text in failed)


def test_boxd_ends_after_it(place):
    """It ends with its socket; as it may still be syncing then, it gets a moment."""
    for is_held in (False, True):
        with nativelib.dialled(place) as client:
            client.ask("box_list_skills")
            (pid,) = skills_programs(client.boxd)
            if is_held:
                os.kill(pid, signal.SIGSTOP)
            client.boxd.signal(signal.SIGTERM)
            client.boxd.wait_event("stopped")
            stopped = time.monotonic()
            if is_held:
                time.sleep(0.3)
                assert boxdlib.is_alive(pid)
                os.kill(pid, signal.SIGCONT)
            assert client.boxd.wait() == 0
            assert time.monotonic() - stopped < 1.3


def test_no_client_moves_it(client, place):
    """skills_root is the operator's: a client's value is ignored, and no folder is created."""
    seqs = [client.start("box_list_skills") for _ in range(20)]
    elsewhere = place.folder / "elsewhere"
    local = {"skills_root": str(elsewhere)}
    seqs.append(client.start("box_init", {"backend": "local", "local": local}))
    seqs += [client.start("box_list_skills") for _ in range(20)]
    answers = [client.wait(seq) for seq in seqs]
    assert all(answer["code"] == 0 for answer in answers), answers
    counts = [len(answer["data"]["skills"]) for answer in answers if "skills" in answer["data"]]
    assert min(counts) == max(counts) >= len(NAMES)
    assert not elsewhere.exists()


def test_turns(client):
    """One tenant sends many requests; its neighbour waits for one answer, not for all."""
    neighbour = {**client.context, "workspace_uuid": "neighbour"}
    for n in range(100):
        name = f"many-{n:03}"
        client.ask("box_create_skill", {"skill": {"name": name, "instructions": "x" * 20000}})
    seqs = [client.start("box_list_skills") for _ in range(100)]
    late = client.start("box_list_skills", context=neighbour)
    order = []
    while late not in order:
        order.append(client.receive(30)["seq_id"])
    assert len(order) < 50, len(order)
    for seq in set(seqs) - set(order):
        client.wait(seq, 60)


def test_too_much_waits(client):
    """Requests that exceed the queue are refused with the error for it, and the rest is answered."""
    content = "x" * (15 << 20)
    write = {"name": "one", "path": "big", "content": content}
    client.ask("box_list_skills")
    (pid,) = skills_programs(client.boxd)
    os.kill(pid, signal.SIGSTOP)
    seqs = [client.start("box_write_skill_file", write) for _ in range(8)]
    first = client.receive(30)
    os.kill(pid, signal.SIGCONT)
    seqs.remove(first["seq_id"])
    texts = {first["message"], *(client.wait(seq, 60)["message"] for seq in seqs)}
    assert "BoxCapacityExceededError: too many requests wait for the skill store" in texts
    assert any("exceeds the 1048576-byte limit" in text for text in texts), texts


def test_store_that_cannot_be_opened(place):
    """Archives are removed with the requests that brought them."""
    config = place.write(place.folder / "etc.yaml", "local: {skills_root: /etc/nope, degraded: true}\n")
    with nativelib.dialled(place, args=("--config", str(config))) as client:
        for n in range(10):
            chunk = {"file_key": f"k{n}", "chunk_base64": "eA==", "chunk_index": 0, "chunk_amount": 1}
            client.ask("__file_chunk", {**chunk, "file_length": 1, "chunk_size": 1})
            text = client.fail("box_install_skill_zip", {"file_key": f"k{n}"})
            assert "local.skills_root /etc/nope is blocked for security" in text
        folder = f"/proc/{client.boxd.worker}/fd"
        held = [os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)]
        assert not [link for link in held if "box-file" in link]


def test_dies_with_the_worker(client):
    client.ask("box_list_skills")
    (before,) = skills_programs(client.boxd)
    client.boxd.kill_worker()
    client.boxd.wait_served(2)
    boxdlib.wait_until(lambda: before not in skills_programs(client.boxd))
    with client.boxd.web() as after:
        names = {skill["name"] for skill in after.ask("box_list_skills")["skills"]}
        assert set(NAMES) <= names


def test_no_program(place):
    """Without box-skills everything else works."""
    away = place.programs / "box-skills"
    os.rename(away, f"{away}.away")
    try:
        with nativelib.dialled(place) as client:
            text = client.fail("box_list_skills")
            assert text.startswith("BoxBackendUnavailableError: this runtime keeps no skills")
            assert client.exec("echo on")["stdout"] == "on"
    finally:
        os.rename(f"{away}.away", away)
