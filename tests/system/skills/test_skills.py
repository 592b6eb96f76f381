"""The real 0.5.5 client runs every skill action against boxd and against the reference runtime, on
copies of the same packages: the same answers, field by field, and the same packages afterwards.
"""

import json
import pathlib
import shutil
import subprocess

import pytest

import boxdlib
import skilllib
import testpaths
from skilllib import alike, archive, skill_md, without

SCRIPT = testpaths.SCRIPTS / "skills_script.py"
INSTANCE = "0d6fc1a6-3b7c-4f6e-9d53-1f0d2c1d5a11"
TOKEN = "a-token-of-the-skill-tests-that-is-long-enough"
TIMES = ("created_at", "updated_at")
# Members that the reference's answers do not have.
EXTRA = ("warnings", "left_out")


def steps(folder):
    one, two = folder / "one.zip", folder / "two.zip"
    one.write_bytes(archive({"top/SKILL.md": skill_md("zipped"), "top/scripts/y.py": "print(1)\n"}))
    pack = {"p/a/SKILL.md": skill_md("aa"), "p/b/SKILL.md": skill_md("bb"), "p/b/setup.py": ""}
    two.write_bytes(archive(pack))
    first, second = {"file": str(one)}, {"file": str(two)}
    made = {"name": "made", "display_name": "Made: é", "description": "it's\nnew", "instructions": "#"}
    return [
        ["list_skills", {}],
        ["get_skill", {"name": "there"}],
        ["get_skill", {"name": "nobody"}],
        ["create_skill", {"skill": made}],
        ["create_skill", {"skill": made}],
        ["create_skill", {"skill": {"name": "a/b"}}],
        ["create_skill", {"skill": {"name": "imported", "package_root": "ROOT/nameless"}}],
        ["create_skill", {"skill": {"name": "x", "package_root": "/etc"}}],
        ["update_skill", {"name": "made", "skill": {"description": "说明 " * 40}}],
        ["update_skill", {"name": "made", "skill": {"name": "other"}}],
        ["update_skill", {"name": "nobody", "skill": {}}],
        ["scan_skill_directory", {"path": "ROOT/there"}],
        ["scan_skill_directory", {"path": "ROOT"}],
        ["scan_skill_directory", {"path": "ROOT/nowhere"}],
        ["scan_skill_directory", {"path": "/etc"}],
        ["list_skill_files", {"name": "there"}],
        ["list_skill_files", {"name": "there", "path": "sub", "include_hidden": True}],
        ["list_skill_files", {"name": "there", "max_entries": 1}],
        ["list_skill_files", {"name": "there", "path": ".."}],
        ["list_skill_files", {"name": "there", "max_entries": 0}],
        ["read_skill_file", {"name": "there", "path": "sub/file.txt"}],
        ["read_skill_file", {"name": "there", "path": "nowhere"}],
        ["read_skill_file", {"name": "there", "path": "../made/SKILL.md"}],
        ["read_skill_file", {"name": "there", "path": "binary"}],
        ["write_skill_file", {"name": "there", "path": "new/er.txt", "content": "é\n"}],
        ["write_skill_file", {"name": "there", "path": "big", "content": "x" * 1048577}],
        ["write_skill_file", {"name": "nobody", "path": "x", "content": ""}],
        ["preview_skill_zip", {"file_bytes": first, "filename": "My Upload.zip"}],
        ["preview_skill_zip", {"file_bytes": second, "filename": "p.zip", "target_suffix": "v2"}],
        ["preview_skill_zip", {"file_bytes": second, "filename": "p.zip", "source_subdir": "a"}],
        ["preview_skill_zip", {"file_bytes": second, "filename": "p.zip", "source_subdir": "c"}],
        ["install_skill_zip", {"file_bytes": first, "filename": "up.zip"}],
        ["install_skill_zip", {"file_bytes": first, "filename": "up.zip"}],
        ["install_skill_zip", {"file_bytes": second, "filename": "p.zip"}],
        ["install_skill_zip", {"file_bytes": second, "filename": "p.zip", "source_paths": ["a", "b"]}],
        ["install_skill_zip", {"file_bytes": second, "filename": "q.zip", "source_path": "b"}],
        ["install_skill_zip", {"file_bytes": second, "filename": "q.zip", "source_path": "c"}],
        ["delete_skill", {"name": "made"}],
        ["delete_skill", {"name": "made"}],
        ["list_skills", {}],
    ]


def fill(root):
    tenant = skilllib.Tenant(root.parent.parent, root.name)
    tenant.put("there/SKILL.md", skill_md("there"), 1_700_000_000_123_456_789)
    tenant.put("there/sub/file.txt", "text\r\n")
    tenant.put("there/sub/.hidden", "")
    tenant.put("there/binary", b"\xff")
    tenant.put("there/requirements.txt", "")
    tenant.put("nameless/SKILL.md", "no front matter\n", 1_700_000_001_000_000_000)
    tenant.put("broken/SKILL.md", "---\nname: [\n---\n")


def run(folder, command, asked, environment):
    """The answers of one runtime, and its tenant's folder."""
    folder.mkdir()
    config = {"backend": "local", "local": {"host_root": str(folder), "skills_root": "skills"}}
    wanted = {
        "command": [str(part) for part in command],
        "env": boxdlib.environment(
            LANGBOT_BOX_CONTROL_TOKEN=TOKEN, LANGBOT_BOX_TRUSTED_INSTANCE_UUID=INSTANCE, **environment
        ),
        "instance": INSTANCE,
        "config": config,
        "folder": str(folder),
        "steps": [],
    }
    root = pathlib.Path(talk(folder, {**wanted, "command": ["/bin/cat"]}, only_root=True))
    fill(root)
    results = talk(folder, {**wanted, "steps": asked})
    return results["answers"], root


def talk(folder, wanted, only_root=False):
    python = boxdlib.build("BOX_VENV_OLD") / "bin" / "python"
    asked = folder / "asked.json"
    asked.write_text(json.dumps(wanted))
    argv = [str(python), str(SCRIPT), str(asked)]
    if only_root:
        argv.append("root")
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Sanitizer" not in done.stderr and "runtime error:" not in done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    base = tmp_path_factory.mktemp("skills")
    asked = steps(base)
    boxd = [boxdlib.build() / "boxd", "-s", "--ws-control-port", "0"]
    reference = [boxdlib.build("BOX_VENV_OLD") / "bin" / "python", "-m", "langbot_plugin.cli.__init__"]
    reference += ["box", "-s", "--ws-control-port", "0"]
    ours = run(base / "ours", boxd, asked, {})
    theirs = run(base / "theirs", reference, asked, {"HOME": str(base)})
    yield asked, ours, theirs
    shutil.rmtree(base, ignore_errors=True)


def test_every_action_is_answered_as_the_reference_does(answers):
    asked, (ours, our_root), (theirs, their_root) = answers
    moved = alike(theirs, their_root, our_root)
    for step, own, other in zip(asked, ours, moved, strict=True):
        if step[0] == "list_skills":
            # Files from one archive may have one time stamp here and two there.
            own[1].sort(key=lambda skill: skill["package_root"])
            other[1].sort(key=lambda skill: skill["package_root"])
        assert without(own, *EXTRA, *TIMES) == without(other, *TIMES), step
    methods = {method for method, _ in asked}
    assert len(methods) == 11
    for method in methods:
        done = [own[0] for (name, _), own in zip(asked, ours, strict=True) if name == method]
        assert "ok" in done, method


def test_times_look_the_same(answers):
    _, (ours, _), (theirs, _) = answers
    own, other = ours[1][1], theirs[1][1]
    assert own["updated_at"] == other["updated_at"] == "2023-11-14T22:13:20.123457+00:00"
    assert own["created_at"].endswith("+00:00") and len(own["created_at"]) in (25, 32)


def test_the_packages_are_the_same_afterwards(answers):
    _, (_, our_root), (_, their_root) = answers

    def content(root):
        return {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }

    assert content(our_root) == content(their_root)
