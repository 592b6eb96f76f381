"""The reference's own skill store, with the interface of skills_driver: one JSON line in, one out.

usage: BOX_VENV_OLD/bin/python skill_reference.py FOLDER

Runs in the old client's virtual environment. Reads the members of `data` and maps exceptions as the
reference's server does.
"""

import json
import os
import sys
import time

import yaml
from langbot_plugin.box import skill_store

FOLDER = os.path.realpath(sys.argv[1])
STORE = skill_store.BoxSkillStore(
    {"local": {"host_root": os.path.dirname(FOLDER), "skills_root": os.path.basename(FOLDER)}}
)
BARE = ("box_list_skills", "box_get_skill")


def read_archive(line):
    with open(line["archive"], "rb") as file:
        return file.read()


def serve(line):
    action, data = line["action"], line.get("data") or {}
    if action == "load":
        return [load(text) for text in data["texts"]]
    store = STORE.scoped(line["namespace"])
    if action == "find":
        root = store.resolve_skill_package_root(data["name"])
        return os.path.relpath(root, FOLDER)
    if action == "box_list_skills":
        return {"skills": store.list_skills()}
    if action == "box_get_skill":
        return {"skill": store.get_skill(data["name"])}
    if action == "box_create_skill":
        return {"skill": store.create_skill(data["skill"])}
    if action == "box_update_skill":
        return {"skill": store.update_skill(data["name"], data["skill"])}
    if action == "box_delete_skill":
        return store.delete_skill(data["name"])
    if action == "box_scan_skill_directory":
        return store.scan_directory(data["path"])
    if action == "box_list_skill_files":
        return store.list_skill_files(
            data["name"],
            data.get("path", "."),
            include_hidden=bool(data.get("include_hidden", False)),
            max_entries=int(data.get("max_entries", 200)),
        )
    if action == "box_read_skill_file":
        return store.read_skill_file(data["name"], data["path"])
    if action == "box_write_skill_file":
        return store.write_skill_file(data["name"], data["path"], data.get("content", ""))
    if action == "box_preview_skill_zip":
        return {
            "skills": store.preview_zip_upload(
                file_bytes=read_archive(line),
                filename=data.get("filename", "skill.zip"),
                source_subdir=data.get("source_subdir") or "",
                target_suffix=data.get("target_suffix", "upload"),
            )
        }
    if action == "box_install_skill_zip":
        return {
            "skills": store.install_zip_upload(
                file_bytes=read_archive(line),
                filename=data.get("filename", "skill.zip"),
                source_paths=data.get("source_paths") or [],
                source_path=data.get("source_path") or "",
                source_subdir=data.get("source_subdir") or "",
                target_suffix=data.get("target_suffix", "upload"),
            )
        }
    raise ValueError(f"no skill action: {action}")


def tree_of(value):
    """A value of PyYAML's: text, null, {"list": [...]}, {"map": [[key, value], ...]} or {"other": repr}."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        return {"list": [tree_of(item) for item in value]}
    if isinstance(value, dict):
        return {"map": [[tree_of(key), tree_of(item)] for key, item in value.items()]}
    return {"other": repr(value)}


def load(text):
    """[the front matter, instructions], or None."""
    try:
        meta, instructions = skill_store.parse_frontmatter(text)
        return [tree_of(meta), instructions]
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return None


def main():
    for text in sys.stdin:
        line = json.loads(text)
        start = time.perf_counter()
        try:
            answer = {"ok": serve(line)}
        except Exception as error:
            bare = type(error).__name__ if line["action"] in BARE else "BoxValidationError"
            answer = {"error": f"{bare}: {error}"}
        answer["us"] = int((time.perf_counter() - start) * 1e6)
        print(json.dumps(answer), flush=True)


main()
