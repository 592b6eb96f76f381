"""Installs are answered before the disk has them: after a crash of the host a package is there
whole or not at all, after the death of a process always whole.

The crash is simulated with marks of another boot.
"""

import fcntl
import os
import pathlib
import random

import pytest
import skilllib
from skilllib import Tenant, archive, skill_md

THIS_BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
OTHER_BOOT = "00000000-1111-4222-8333-444444444444"
STAGING = ".box-staging"
PARTS = {f"pack/part{n}": random.Random(n).randbytes(9000).hex() for n in range(30)}


@pytest.fixture
def tenant(tmp_path):
    return Tenant(tmp_path / "skills")


@pytest.fixture
def upload(tmp_path):
    file = tmp_path / "up.zip"
    file.write_bytes(archive({"pack/SKILL.md": skill_md("zipped"), **PARTS}))
    return file


def start(tenant):
    return skilllib.start_store(tenant.root.parent.parent)


def names(store):
    return sorted(skill["name"] for skill in store.ok("box_list_skills")["skills"])


def mark(tenant, boot, *packages):
    for package in packages:
        (tenant.root / STAGING / f"later.{boot}.7-1" / package).mkdir(parents=True)


def is_whole(folder):
    return all(
        (folder / name.removeprefix("pack/")).read_text() == content
        for name, content in PARTS.items()
    )


def test_half_of_a_package_goes_when_the_machine_went_down(tenant):
    tenant.put("half/SKILL.md", skill_md("half"))
    tenant.put("half/empty", "")
    tenant.put("other/SKILL.md", skill_md("other"))
    mark(tenant, OTHER_BOOT, "half", "never-moved")
    with start(tenant) as store:
        assert names(store) == ["other"]
    assert sorted(os.listdir(tenant.root)) == ["other"]


def test_what_the_disk_has_refused_goes(tenant):
    tenant.put("lost/SKILL.md", skill_md("lost"))
    tenant.put("other/SKILL.md", skill_md("other"))
    mark(tenant, "failed", "lost")
    with start(tenant) as store:
        assert names(store) == ["other"]
    assert sorted(os.listdir(tenant.root)) == ["other"]


def test_a_package_stays_when_only_a_process_has_died(tenant):
    tenant.put("made/SKILL.md", skill_md("made"))
    mark(tenant, THIS_BOOT, "made")
    with start(tenant) as store:
        assert names(store) == ["made"]
    assert sorted(os.listdir(tenant.root)) == ["made"]


def marked(tenant):
    return sorted(path.name for path in tenant.root.glob(f"{STAGING}/later.{THIS_BOOT}.*/*"))


def test_killed_before_the_disk_has_it(tenant, upload):
    store = start(tenant)
    store.send("box_install_skill_zip", {"filename": "up.zip"}, upload, settle=False)
    assert "ok" in store.receive()
    assert marked(tenant) == ["up-upload"]
    store.process.kill()
    store.close()
    assert is_whole(tenant.root / "up-upload")
    with start(tenant) as store:
        assert names(store) == ["zipped"]
    assert sorted(os.listdir(tenant.root)) == ["up-upload"]


def test_killed_right_behind_the_answer(tenant, upload):
    for number in range(12):
        store = start(tenant)
        data = {"filename": "up.zip", "target_suffix": str(number)}
        assert "ok" in store.raw("box_install_skill_zip", data, upload)
        store.process.kill()
        store.close()
        assert is_whole(tenant.root / f"up-{number}")
        with start(tenant) as store:
            assert names(store) == ["zipped"]
            store.ok("box_delete_skill", {"name": "zipped"})
        assert os.listdir(tenant.root) == []


def test_marks_go_with_the_next_request(tenant, upload):
    with start(tenant) as store:
        assert "ok" in store.raw("box_install_skill_zip", {"filename": "up.zip"}, upload)
        assert names(store) == ["zipped"]
        assert sorted(os.listdir(tenant.root)) == ["up-upload"]


def test_refused_ones_leave_no_mark(tenant, upload):
    tenant.put("up-upload/file")
    with start(tenant) as store:
        assert "already exists" in store.error("box_install_skill_zip", {"filename": "up.zip"}, upload)
        assert sorted(os.listdir(tenant.root)) == ["up-upload"]


def test_an_old_mark_is_not_of_a_new_package(tenant, upload):
    """A process that works in staging keeps it from being cleared."""
    mark(tenant, OTHER_BOOT, "up-upload", "half")
    tenant.put("half/SKILL.md", skill_md("half"))
    lock = os.open(tenant.root / STAGING, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    with start(tenant) as store:
        store.ok("box_install_skill_zip", {"filename": "up.zip"}, upload)
        assert names(store) == ["half", "zipped"]
    os.close(lock)
    with start(tenant) as store:
        assert names(store) == ["zipped"]
    assert sorted(os.listdir(tenant.root)) == ["up-upload"]
    assert is_whole(tenant.root / "up-upload")


@pytest.mark.parametrize("again", ["box_install_skill_zip", "box_create_skill"])
def test_a_mark_goes_with_its_package(tenant, upload, again):
    """A process that was killed before the disk had its package still holds the lock: nothing is
    cleared, and a later package of the same name is synced by others."""
    store = start(tenant)
    store.send("box_install_skill_zip", {"filename": "up.zip"}, upload, settle=False)
    assert "ok" in store.receive()
    lock = os.open(tenant.root / STAGING, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    store.process.kill()
    store.close()
    assert marked(tenant) == ["up-upload"]
    with start(tenant) as store:
        store.ok("box_delete_skill", {"name": "zipped"})
        if again == "box_create_skill":
            store.ok(again, {"skill": {"name": "up-upload"}})
        else:
            store.ok(again, {"filename": "up.zip"}, upload)
        kept = names(store)
    # The host crashes.
    for marks in (tenant.root / STAGING).glob("later.*"):
        marks.rename(marks.with_name(f"later.{OTHER_BOOT}.7-1"))
    os.close(lock)
    with start(tenant) as store:
        assert names(store) == kept
    assert sorted(os.listdir(tenant.root)) == ["up-upload"]
