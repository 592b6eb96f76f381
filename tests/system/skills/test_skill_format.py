"""Warnings about the Agent Skills format name the fields that its own validator complains about."""

import os
import re

import pytest

import skilllib
from skilllib import Tenant

validator = pytest.importorskip("skills_ref.validator", reason="skills-ref is not installed")

GOOD = "name: good\ndescription: Does things.\n"
# Folder -> front matter.
PACKAGES = {
    "good": GOOD,
    "full": "name: full\ndescription: x\nlicense: MIT\nallowed-tools: Read\nmetadata:\n  a: b\n",
    "other-folder": GOOD,
    "Upper": "name: Upper\ndescription: x\n",
    "under_score": "name: under_score\ndescription: x\n",
    "-lead": "name: -lead\ndescription: x\n",
    "trail-": "name: trail-\ndescription: x\n",
    "two--hyphens": "name: two--hyphens\ndescription: x\n",
    "技能": "name: 技能\ndescription: x\n",
    "Ärger": "name: Ärger\ndescription: x\n",
    "no-name": "description: x\n",
    "no-description": "name: no-description\n",
    "empty-description": "name: empty-description\ndescription: ''\n",
    "blank-description": "name: blank-description\ndescription: '   '\n",
    "long-description": f"name: long-description\ndescription: {'x' * 1025}\n",
    "just-1024": f"name: just-1024\ndescription: {'é' * 1024}\n",
    "display": "name: display\ndescription: x\ndisplay_name: Shown\n",
    "many-extra": "name: many-extra\ndescription: x\nversion: 1\nauthor: me\n",
    "compatibility": "name: compatibility\ndescription: x\ncompatibility: Linux\n",
    "long-compatibility": f"name: long-compatibility\ndescription: x\ncompatibility: {'x' * 501}\n",
    "list-compatibility": "name: list-compatibility\ndescription: x\ncompatibility:\n- a\n- b\n",
    "number": "name: number\ndescription: 5\n",
    "list": "- a\n- b\n",
    "n" * 64: f"name: {'n' * 64}\ndescription: x\n",
}


def fields_of(errors):
    """The fields that the validator's messages are about."""
    found = set()
    for error in errors:
        extra = re.match(r"Unexpected fields in frontmatter: (.*?)\. Only", error)
        if extra:
            found |= set(extra.group(1).split(", "))
        elif "must start with YAML" in error or "must be a YAML mapping" in error:
            found.add("front matter")
        elif error.startswith(("Skill name", "Directory name")):
            found.add("name")
        else:
            found.add(re.search(r"(name|description|compatibility)", error.lower()).group(1))
    return found


def test_warnings_name_the_fields_of_the_validator(tmp_path):
    folder = tmp_path / "skills"
    tenant = Tenant(folder)
    for name, text in PACKAGES.items():
        tenant.put(f"{name}/SKILL.md", f"---\n{text}---\n\n# How\n")
    tenant.put("bare/SKILL.md", "# How\n")
    seen = set()
    with skilllib.start_store(folder) as store:
        for name in [*PACKAGES, "bare"]:
            path = os.path.realpath(tenant.root / name)
            told = store.ok("box_scan_skill_directory", {"path": path}).get("warnings", [])
            ours = {warning["field"] for warning in told}
            theirs = fields_of(validator.validate(tenant.root / name))
            assert ours == theirs, (name, told)
            assert all(warning["message"] for warning in told)
            seen |= ours
        assert store.close() == 0
    assert {"name", "description", "compatibility", "front matter", "display_name"} <= seen


def test_what_the_store_writes_conforms_but_for_the_display_name(tmp_path):
    folder = tmp_path / "skills"
    tenant = Tenant(folder)
    with skilllib.start_store(folder) as store:
        skill = {"name": "made", "description": "It's: made\nhere.", "instructions": "# How\n"}
        told = store.ok("box_create_skill", {"skill": skill})["skill"]
        assert "warnings" not in told
        assert validator.validate(tenant.root / "made") == []
        skill["display_name"] = "Made"
        told = store.ok("box_update_skill", {"name": "made", "skill": skill})["skill"]
        assert [warning["field"] for warning in told["warnings"]] == ["display_name"]
        assert fields_of(validator.validate(tenant.root / "made")) == {"display_name"}
