"""A store that others change, break or interrupt: clear errors, whole packages, no way out of the
folder.
"""

import fcntl
import os
import pathlib
import random
import shutil
import socket
import threading
import time

import pytest
import skilllib
import ziplib
from skilllib import Tenant, archive, skill_md
from badziplib import LIES, OVERLAPPING, WHOLE, overlap_bomb

SECRET = "the-secret-of-the-neighbour"
CHANGES_SECONDS = 3
CHANGES_SECONDS_SOAK = 30
KILLS = 50
KILLS_SOAK = 500
WHOLE_ROUNDS = 3  # before the first kill, to see how long they take


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "skills"
    Tenant(folder)
    neighbour = Tenant(folder, "neighbour")
    neighbour.put("theirs/SKILL.md", skill_md("theirs", SECRET))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "SKILL.md").write_text(skill_md("outside", SECRET))
    (tmp_path / "outside" / "note.txt").write_text(SECRET)
    return folder


@pytest.fixture
def store(folder):
    with skilllib.start_store(folder) as store:
        yield store
        assert store.close() == 0


def messages(store):
    answer = store.ok("box_list_skills")
    return {pathlib.Path(item["path"]).name: item["message"] for item in answer.get("left_out", [])}


def test_an_entry_that_is_no_regular_file_is_left_out_and_refused_by_name(store, folder, tmp_path):
    tenant = Tenant(folder)
    tenant.put("good/SKILL.md", skill_md("good"))
    tenant.put("good/real.md", skill_md("real"))
    for name in ("link", "inner-link", "fifo", "socket"):
        (tenant.root / name).mkdir()
    os.symlink(tmp_path / "outside/SKILL.md", tenant.root / "link/SKILL.md")
    tenant.put("inner-link/real.md", skill_md("inner-link"))
    os.symlink("real.md", tenant.root / "inner-link/SKILL.md")
    os.mkfifo(tenant.root / "fifo/SKILL.md")
    with socket.socket(socket.AF_UNIX) as bound:
        before = os.getcwd()
        os.chdir(tenant.root / "socket")
        bound.bind("SKILL.md")
        os.chdir(before)
        why = messages(store)
        assert [skill["name"] for skill in store.ok("box_list_skills")["skills"]] == ["good"]
        assert why["link"] == why["inner-link"] == "Skill entry file SKILL.md is a symbolic link"
        assert why["fifo"] == why["socket"] == "Skill entry file SKILL.md is not a regular file"
        for name in ("link", "fifo", "socket"):
            error = store.error("box_read_skill_file", {"name": name, "path": "SKILL.md"})
            assert error.startswith(f'BoxValidationError: Skill "{name}" not found: Skill entry file')
            path = f"{os.path.realpath(tenant.root)}/{name}"
            assert "SKILL.md is " in store.error("box_scan_skill_directory", {"path": path})


def test_links_lead_nowhere_else(store, folder, tmp_path):
    tenant = Tenant(folder)
    tenant.put("good/SKILL.md", skill_md("good"))
    outside = tmp_path / "outside"
    neighbour = folder / "tenants" / "neighbour"
    os.symlink(outside, tenant.root / "good/out")
    os.symlink(outside / "note.txt", tenant.root / "good/note.txt")
    os.symlink("../../neighbour/theirs", tenant.root / "good/next")
    os.symlink("loop", tenant.root / "good/loop")
    os.symlink(neighbour, tenant.root / "whole")
    os.symlink(outside / "SKILL.md", tenant.root / "good/requirements.txt")
    for path in ("out/note.txt", "note.txt", "next/SKILL.md", "out", "next"):
        for action in ("box_read_skill_file", "box_write_skill_file", "box_list_skill_files"):
            error = store.error(action, {"name": "good", "path": path, "content": "x"})
            assert error == "BoxValidationError: path must stay within the skill package root"
    assert "not found" in store.error("box_read_skill_file", {"name": "good", "path": "loop"})
    for path in (f"{tenant.root}/whole", f"{tenant.root}/good/next", f"{neighbour}/theirs"):
        error = store.error("box_scan_skill_directory", {"path": path})
        assert error == "BoxValidationError: scan path must stay within the Workspace skill root"
    for root in (f"{neighbour}/theirs", f"{tenant.root}/whole/theirs"):
        skill = {"name": "mine", "package_root": root}
        error = store.error("box_create_skill", {"skill": skill})
        assert error == "BoxValidationError: package_root must stay within the Workspace skill root"
    entries = store.ok("box_list_skill_files", {"name": "good"})["entries"]
    kinds = {entry["name"]: entry["is_dir"] for entry in entries}
    assert kinds["out"] is False and kinds["next"] is False
    skill = store.ok("box_get_skill", {"name": "good"})["skill"]
    assert skill["python_project"] is False
    assert (outside / "note.txt").read_text() == SECRET


def test_a_link_in_the_place_of_a_new_skill(store, folder, tmp_path):
    tenant = Tenant(folder)
    os.symlink(tmp_path / "outside", tenant.root / "mine")
    error = store.error("box_create_skill", {"skill": {"name": "mine", "instructions": "x"}})
    assert error == 'BoxValidationError: Failed to create skill "mine"'
    assert SECRET in (tmp_path / "outside/SKILL.md").read_text()
    assert sorted(os.listdir(tmp_path / "outside")) == ["SKILL.md", "note.txt"]


def test_a_tenants_folder_that_is_a_link(store, folder):
    os.symlink("neighbour", folder / "tenants" / "friend")
    assert SECRET not in str(store.ask("box_list_skills", tenant="friend"))
    for name in ("..", ".", "", "a/b", "a\\b", "x" * 300):
        assert "error" in store.ask("box_list_skills", tenant=name)


def test_a_suffix_that_is_a_path(store, folder, tmp_path):
    file = tmp_path / "upload.zip"
    file.write_bytes(archive({"SKILL.md": skill_md("x")}))
    for suffix in ("../../neighbour/x", "a/b", "/etc", "x" * 300, "a\0b"):
        before = sorted(str(path) for path in tmp_path.rglob("*"))
        error = store.error("box_install_skill_zip", {"target_suffix": suffix}, file)
        assert "must stay within the Workspace skill root" in error
        assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def malicious(kind):
    """An archive of that kind, and the expected error."""
    if kind in LIES:
        entries, text = LIES[kind]
        good = ziplib.Entry(b"SKILL.md", skill_md("zipped").encode())
        return ziplib.archive(good, *entries), text
    return WHOLE[kind] if kind in WHOLE else (overlap_bomb(), OVERLAPPING)


@pytest.mark.parametrize("kind", [*LIES, *WHOLE, "overlap"])
def test_a_malicious_archive_leaves_nothing(store, folder, tmp_path, kind):
    """Neither a package nor files that were unpacked before the fault was found."""
    file = tmp_path / "upload.zip"
    data, text = malicious(kind)
    file.write_bytes(data)
    Tenant(folder).put("there/SKILL.md", skill_md("there"))
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    for action in ("box_preview_skill_zip", "box_install_skill_zip"):
        error = store.error(action, {"filename": "up.zip"}, file)
        assert error == f"BoxValidationError: {text}"
        assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert [skill["name"] for skill in store.ok("box_list_skills")["skills"]] == ["there"]


def test_limits_hold(store, folder):
    tenant = Tenant(folder)
    for number in range(10_000):
        (tenant.root / f"f{number}").touch()
    assert store.ok("box_list_skills") == {"skills": []}
    (tenant.root / "one-more").touch()
    error = "ValueError: Skill discovery exceeded the configured entry limit"
    assert store.error("box_list_skills") == error
    shutil.rmtree(tenant.root)
    for number in range(1000):
        Tenant(folder).put(f"s{number}/SKILL.md", skill_md(f"s{number}"))
    assert len(store.ok("box_list_skills")["skills"]) == 1000
    tenant.put("s1000/SKILL.md", skill_md("s1000"))
    error = "ValueError: Skill discovery exceeded the configured package limit"
    assert store.error("box_list_skills") == error
    shutil.rmtree(tenant.root)
    for number in range(17):
        Tenant(folder).put(f"s{number}/SKILL.md", "x" * (1 << 20))
    error = "ValueError: Skill listing exceeds the configured text limit"
    assert store.error("box_list_skills") == error
    tenant.put("s16/SKILL.md", "small")
    tenant.put("s15/SKILL.md", "small")
    assert len(store.ok("box_list_skills")["skills"]) == 17


def test_nothing_stale_is_told(store, folder):
    """Changes by others, one after the other, each visible at once."""
    tenant = Tenant(folder)
    for number in range(20):
        tenant.put(f"s{number}/SKILL.md", skill_md(f"s{number}"))
    (tenant.root / "deep" / "er").mkdir(parents=True)
    chance = random.Random(3)
    for step in range(150):
        if chance.random() < 0.1:
            time.sleep(0.07)  # long enough for what was read to be remembered
        number = chance.randrange(20)
        file = tenant.root / f"s{number}/SKILL.md"
        kind = chance.randrange(6)
        if kind == 0:
            # The same length and time stamps as before.
            old = file.stat()
            file.write_text(skill_md(f"s{number}", f"d{step:012}"))
            os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
        elif kind == 1:
            (file.parent / "setup.py").touch()
        elif kind == 2:
            (file.parent / "setup.py").unlink(missing_ok=True)
        elif kind == 3:
            (file.parent / "other").write_text(skill_md(f"s{number}", f"renamed {step}"))
            os.rename(file.parent / "other", file)
        elif kind == 4:
            tenant.put(f"deep/er/d{step}/SKILL.md", skill_md(f"d{step}"))
        else:
            found = list((tenant.root / "deep" / "er").iterdir())
            if found:
                shutil.rmtree(found[0])
        told = {skill["name"]: skill for skill in store.ok("box_list_skills")["skills"]}
        with skilllib.start_store(folder) if step % 50 == 49 else store_of(store) as fresh:
            again = {skill["name"]: skill for skill in fresh.ok("box_list_skills")["skills"]}
        assert told == again
        present = {path.parent.name for path in tenant.root.rglob("SKILL.md")}
        assert set(told) == present
        skill = told[f"s{number}"]
        assert skill["description"] in file.read_text()
        assert skill["python_project"] == (file.parent / "setup.py").exists()


class store_of:
    """A store that stays open."""

    def __init__(self, store):
        self.store = store

    def __enter__(self):
        return self.store

    def __exit__(self, *ignored):
        pass


# -- changes during requests


def write(path, content):
    """No link is followed, and no FIFO blocks."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(path, flags, 0o644), "wb", buffering=0) as file:
        file.write(content)


class Changer(threading.Thread):
    """Breaks a tenant's tree at random until told to stop. It follows no links itself."""

    alone = threading.Lock()

    def __init__(self, root, outside, seed):
        super().__init__(daemon=True)
        self.root, self.outside, self.chance = root, outside, random.Random(seed)
        self.over = threading.Event()
        self.changes = 0

    def some(self):
        package = f"p{self.chance.randrange(4)}"
        return self.root / package / self.chance.choice(["", "SKILL.md", "sub", "sub/f", "f", "setup.py"])

    def is_direct(self, path):
        above = path.relative_to(self.root).parents
        return not any((self.root / parent).is_symlink() for parent in above)

    def change(self):
        path, other, kind = self.some(), self.some(), self.chance.randrange(9)
        if not self.is_direct(path) or not self.is_direct(other):
            return
        if kind == 0:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif kind == 1:
            path.mkdir(parents=True)
        elif kind == 2:
            write(path, skill_md(path.parent.name, "x" * self.chance.randrange(5000)).encode())
        elif kind == 3:
            path.symlink_to(self.outside / self.chance.choice(["", "SKILL.md", "note.txt"]))
        elif kind == 4:
            path.symlink_to(self.chance.choice(["..", ".", "../..", "sub", "loop", "/", "SKILL.md"]))
        elif kind == 5:
            os.mkfifo(path)
        elif kind == 6:
            os.rename(path, other)
        elif kind == 7:
            write(path, b"\xff" * 10)
        else:
            spare = self.root / f"spare{self.changes % 3}"
            os.rename(path, spare)
            path.symlink_to(self.outside)
            os.unlink(path)
            os.rename(spare, path)

    def run(self):
        while not self.over.is_set():
            try:
                with self.alone:
                    self.change()
            except OSError:
                pass
            self.changes += 1


def random_action(chance, root):
    name = f"p{chance.randrange(5)}"
    path = chance.choice(["SKILL.md", "f", "sub", "sub/f", ".", "new/er/file"])
    return chance.choice(
        [
            ("box_list_skills", {}),
            ("box_get_skill", {"name": name}),
            ("box_create_skill", {"skill": {"name": name, "description": "d", "instructions": "i"}}),
            ("box_create_skill", {"skill": {"name": "imp", "package_root": f"{root}/{name}"}}),
            ("box_update_skill", {"name": name, "skill": {"description": "updated"}}),
            ("box_delete_skill", {"name": name}),
            ("box_scan_skill_directory", {"path": f"{root}/{name}"}),
            ("box_list_skill_files", {"name": name, "path": path, "include_hidden": True}),
            ("box_read_skill_file", {"name": name, "path": path}),
            ("box_write_skill_file", {"name": name, "path": path, "content": "written"}),
            ("box_preview_skill_zip", {"filename": f"{name}.zip"}),
            ("box_install_skill_zip", {"filename": "p.zip", "target_suffix": name}),
            ("find", {"name": name}),
        ]
    )


def test_a_tree_that_changes_during_every_action(store, folder, tmp_path):
    check_changing_tree(store, folder, tmp_path, CHANGES_SECONDS)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_tree_that_changes_for_longer(store, folder, tmp_path):
    check_changing_tree(store, folder, tmp_path, CHANGES_SECONDS_SOAK)


def check_changing_tree(store, folder, tmp_path, seconds):
    outside = tmp_path / "outside"
    before = {path: path.read_bytes() for path in outside.iterdir()}
    tenant = Tenant(folder)
    root = os.path.realpath(tenant.root)
    file = tmp_path / "upload.zip"
    file.write_bytes(archive({"SKILL.md": skill_md("zipped"), "f": "x"}))
    changers = [Changer(pathlib.Path(root), outside, seed) for seed in range(2)]
    for changer in changers:
        changer.start()
    chance = random.Random(11)
    asked = good = 0
    began = time.monotonic()
    try:
        while (took := time.monotonic() - began) < seconds or (
            took < 30 and (asked <= 50 or good <= 10)
        ):
            action, data = random_action(chance, root)
            start = time.monotonic()
            answer = store.ask(action, data, file if "zip" in action else None)
            assert time.monotonic() - start < 20, action
            assert SECRET not in str(answer), (action, data)
            asked += 1
            good += "ok" in answer
    finally:
        for changer in changers:
            changer.over.set()
            changer.join()
    assert asked > 50 and good > 10 and sum(changer.changes for changer in changers) > 100
    assert {path: path.read_bytes() for path in outside.iterdir()} == before
    store.ask("box_list_skills")  # behind an install: then it lasts
    assert not (tenant.root / ".box-staging").exists()


# -- kills


OLD = skill_md("updated", "old", "old\n" * 2000)
NEW_LINES = "new\n" * 3000
PARTS = {
    f"pack/part{number}.txt": random.Random(number).randbytes(8000).hex() for number in range(20)
}


def check_whole(root, target):
    """Either the old or the new package is there, complete."""
    text = (root / "updated/SKILL.md").read_text()
    assert text == OLD or text.endswith(NEW_LINES), text[:200]
    if (root / target).exists():
        for name, content in PARTS.items():
            assert (root / target / name.removeprefix("pack/")).read_text() == content
        assert "zipped" in (root / target / "SKILL.md").read_text()
    if (root / "made").exists():
        assert (root / "made/SKILL.md").read_text().endswith("made whole\n")
    return (root / target).exists(), text != OLD, (root / "made").exists()


def check_swept(store, tenant):
    """Cleared at the start, or with the next change if a helper of the killed process still had the
    lock."""
    staging = tenant.root / ".box-staging"
    end = time.monotonic() + 10
    while staging.exists():
        assert time.monotonic() < end, "it is there after a change"
        time.sleep(0.5)
        store.ok("box_update_skill", {"name": "updated", "skill": {"description": "swept"}})
        tenant.put("updated/SKILL.md", OLD)


def test_what_a_crash_has_left_goes_with_the_next_change(store, folder):
    tenant = Tenant(folder)
    tenant.put("updated/SKILL.md", OLD)
    store.ok("find", {"name": "updated"})  # it has swept
    held = tenant.put(".box-staging/1-1/pack/part", "left").parent
    change = ("box_update_skill", {"name": "updated", "skill": {"description": "x"}})
    # A process works in it: it stays.
    lock = os.open(tenant.root / ".box-staging", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    store.ok(*change)
    assert (held / "part").read_text() == "left"
    os.close(lock)
    store.ok(*change)
    assert not (tenant.root / ".box-staging").exists()


def kill_at_random(folder, tmp_path, times):
    tenant = Tenant(folder)
    file = tmp_path / "upload.zip"
    file.write_bytes(archive({"pack/SKILL.md": skill_md("zipped"), **PARTS}))
    chance = random.Random(times)
    seen = set()
    longest = float("inf")
    for number in range(times):
        tenant.put("updated/SKILL.md", OLD)
        shutil.rmtree(tenant.root / "made", ignore_errors=True)
        target = "up-x"
        made = {"name": "made", "instructions": "made whole\n"}
        work = [
            ("box_install_skill_zip", {"filename": "up.zip", "target_suffix": "x"}, file),
            ("box_update_skill", {"name": "updated", "skill": {"instructions": NEW_LINES}}, None),
            ("box_create_skill", {"skill": made}, None),
            ("box_delete_skill", {"name": "zipped"}, None),
        ]
        store = skilllib.start_store(folder)
        # The store works, and leftovers are gone.
        store.ok("find", {"name": "theirs"}, tenant="neighbour")
        check_swept(store, tenant)
        start = time.monotonic()
        for action, data, upload in work:
            store.send(action, data, upload)
        if number < WHOLE_ROUNDS:
            for _ in work:
                assert "ok" in store.receive()
            # The first ones may have to wait for other writes to the disk.
            longest = min(longest, time.monotonic() - start)
        else:
            time.sleep(chance.random() * longest)
        store.process.kill()
        store.close()
        seen.add(check_whole(tenant.root, target))
        shutil.rmtree(tenant.root / target, ignore_errors=True)
    with skilllib.start_store(folder) as store:
        assert [skill["name"] for skill in store.ok("box_list_skills")["skills"]]
        check_swept(store, tenant)
    assert len(seen) > 2, seen


def test_killed_at_any_moment_packages_are_whole(folder, tmp_path):
    kill_at_random(folder, tmp_path, KILLS)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_at_many_moments_packages_are_whole(folder, tmp_path):
    kill_at_random(folder, tmp_path, KILLS_SOAK)


def test_two_stores_do_not_clear_each_others_staging(store, folder, tmp_path):
    """One process installs while others open the same folder."""
    file = tmp_path / "upload.zip"
    file.write_bytes(archive({"pack/SKILL.md": skill_md("zipped"), **PARTS}))
    for number in range(5):
        store.send("box_install_skill_zip", {"filename": f"n{number}.zip"}, file)
        for _ in range(2):
            with skilllib.start_store(folder) as other:
                other.ok("box_list_skills")
        assert "ok" in store.receive()


def test_a_deep_tree_is_removed(store, folder):
    tenant = Tenant(folder)
    tenant.put("deep/SKILL.md", skill_md("deep"))
    here = os.getcwd()
    os.chdir(tenant.root / "deep")
    for _ in range(1000):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(here)
    assert store.ok("box_delete_skill", {"name": "deep"}) == {"deleted": "deep"}
    assert list(tenant.root.iterdir()) == []
