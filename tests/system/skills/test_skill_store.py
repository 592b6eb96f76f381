"""The skill store answers as the reference's own does: the same packages, the same requests.

Requests that only read go to both on one tree, and their times are compared, too. Requests that
change something go to both on two trees, which are then compared: files byte by byte, SKILL.md by
what PyYAML reads in it. Intended differences are named in this file: warnings and left_out beside
the reference's members, links that are not followed, YAML that is refused, and scalars that are not
text (docs/decisions/036-front-matter.md).
"""

import json
import os
import random
import shutil
import unicodedata

import pytest
import skilllib
from skilllib import Tenant, alike, archive, skill_md, without

EXTRA = ("warnings", "left_out")
ODD = {
    "plain": skill_md("plain"),
    "no-front": "# Just text\n",
    "empty": "",
    "unclosed": "---\nname: x\n# text\n",
    "no-map": "---\n- a\n- b\n---\nbody\n",
    "scalar": "---\njust text\n---\nbody\n",
    "null": "---\n---\nbody\n",
    "crlf": "---\r\nname: crlf\r\ndescription: two words\r\n---\r\n\r\nbody\r\n",
    "spaces": "---  \nname:   spaced  \ndisplay_name: '  Shown  '\n--- \n\n\n\nbody\n\n",
    "number": "---\nname: 123\ndisplay_name: 1.5\ndescription: -7\n---\nx",
    "nothing": "---\nname: ''\ndisplay_name: null\ndescription: []\n---\nx",
    "date": "---\nname: d\ndisplay_name: 2024-01-02\ndescription: 2024-01-02 03:04:05\n---\nx",
    "block": "---\nname: b\ndescription: |\n  one\n  two\ndisplay_name: >-\n  three\n  four\n---\nx",
    "unicode": "---\nname: 技能-éß\ndisplay_name: 显示\ndescription: 说明 😀\n---\n说明\n",
    "wide-space": "---\nname: \u3000wide\u3000\ndisplay_name: \"\\u00a0x\\u2003\"\n---\n",
    "line-ends": "---\u2028name: ls\u2028---\u2028body",
    "alias": "---\nname: &n al\ndisplay_name: *n\nbase: &b {description: merged}\n<<: *b\n---\n",
    "twice": "---\nname: first\nname: second\n---\n",
    "path-name": "---\nname: ../../etc\n---\n",
    "slash-name": "---\nname: a/b\n---\n",
    "long-name": f"---\nname: {'n' * 65}\n---\n",
    "just-64": f"---\nname: {'n' * 64}\n---\n",
    "dashes": "---\nname: '--__'\n---\n",
    "bad-yaml": "---\nname: [unclosed\n---\n",
    "unknown-tag": "---\nname: !foo x\n---\n",
    "two-documents": "---\nname: x\n...\n--- y\n---\n",
    "control": "---\nname: a\x07\n---\n",
    "not-utf8": b"---\nname: x\n---\n\xff\xfe",
    "big": skill_md("big", rest="x" * (1 << 20)),
    "almost-big": skill_md("almost", rest="y" * ((1 << 20) - 200)),
}
# Front matter whose scalars PyYAML does not read as text: name, display_name and description as
# written.
AS_WRITTEN = {
    "name: 0x1F\ndisplay_name: 1.50\ndescription: 1_000": ("0x1F", "1.50", "1_000"),
    "name: 0\ndisplay_name: false\ndescription: off": ("0", "false", "off"),
    "name: yes\ndisplay_name: on\ndescription: ~": ("yes", "on", ""),
    "name: d\ndescription: 2024-01-02 3:04:05.5 +1:30": ("d", "d", "2024-01-02 3:04:05.5 +1:30"),
    "name: e\ndescription: 2024-13-45": ("e", "e", "2024-13-45"),
    "name: l\ndescription: [a, 2.0, ~, true, it's]": ("l", "l", "[a, 2.0, null, true, it's]"),
    "name: m\ndescription: {a: 1, b: {c: [d]}}": ("m", "m", "{a: 1, b: {c: [d]}}"),
}


@pytest.fixture
def folder(tmp_path):
    """A store with packages of every kind."""
    folder = tmp_path / "skills"
    tenant = Tenant(folder)
    moment = 1_700_000_000_000_000_000
    for number, (name, content) in enumerate(ODD.items()):
        tenant.put(f"{name}/SKILL.md", content, moment + number * 1_234_567_891)
    tenant.put("lower/skill.md", skill_md("lower"), moment)
    tenant.put("both/SKILL.md", skill_md("upper-wins"), moment + 10**9)
    tenant.put("both/skill.md", skill_md("loses"), moment)
    tenant.put("a/b/c/d/e/f/SKILL.md", skill_md("six-deep"), moment + 999_999_500)
    tenant.put("a/b/c/d/e/f2/g/SKILL.md", skill_md("seven-deep"), moment)
    tenant.put("outer/SKILL.md", skill_md("outer"), moment + 1)
    tenant.put("outer/inner/SKILL.md", skill_md("inner"), moment)
    tenant.put("twins/one/SKILL.md", skill_md("twin", "older"), moment)
    tenant.put("twins/two/SKILL.md", skill_md("twin", "newer"), moment + 5 * 10**9)
    tenant.put("old/SKILL.md", skill_md("before-1970"), -1_500_000_000)
    tenant.put(".hidden/SKILL.md", skill_md("hidden"), moment)
    tenant.put("folder-entry/SKILL.md/x", "", moment)
    tenant.put("folder-entry/skill.md", skill_md("after-a-folder"), moment)
    for name in ("requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", ".venv/x", "other"):
        tenant.put(f"py-{name.split('.')[0] or 'venv'}-{len(name)}/SKILL.md", "", moment)
        tenant.put(f"py-{name.split('.')[0] or 'venv'}-{len(name)}/{name}", "", moment)
    tenant.put("files/SKILL.md", skill_md("files"), moment)
    tenant.put("files/scripts/run.py", "print(1)\n")
    tenant.put("files/scripts/.secret", "s")
    tenant.put("files/data.bin", b"\xff\x00")
    tenant.put("files/two.md", "x" * (2 << 20))
    tenant.put("files/unicode-é.txt", "é\r\n")
    for number in range(30):
        tenant.put(f"files/many/{number:03}", "x" * number)
    os.symlink("scripts/run.py", tenant.root / "files/link.py")
    os.symlink("scripts", tenant.root / "files/link-folder")
    os.symlink(f"{os.path.realpath(tenant.root)}/files/scripts", tenant.root / "files/absolute")
    os.symlink("../files/scripts/run.py", tenant.root / "files/around.py")
    os.symlink("files", tenant.root / "linked-package")
    return folder


@pytest.fixture
def both(folder):
    with skilllib.start_store(folder) as store, skilllib.start_reference(folder) as reference:
        yield store, reference
        assert store.close() == 0


def same(both, action, data=None, archive_file=None):
    store, reference = both
    ours = store.ask(action, data, archive_file)
    theirs = reference.ask(action, data, archive_file)
    if ours.get("error", "").endswith("... [protocol error truncated]"):
        # The reference truncates an error where it is sent.
        theirs = {"error": theirs["error"][: len(ours["error"]) - 30] + ours["error"][-30:]}
    assert without(ours, *EXTRA) == theirs, (action, data)
    return ours


def test_the_list_is_the_same(both):
    skills = same(both, "box_list_skills")["ok"]["skills"]
    names = [skill["name"] for skill in skills]
    assert len(names) > 30
    assert {"plain", "six-deep", "技能-éß", "twin", "before-1970", "after-a-folder"} <= set(names)
    assert not {"seven-deep", "inner", "big", "loses"} & set(names)
    assert same(both, "box_list_skills")["ok"]["skills"] == skills


def test_what_is_left_out_is_told_with_the_reason(both):
    left_out = {
        os.path.basename(item["path"]): item["message"]
        for item in both[0].ok("box_list_skills")["left_out"]
    }
    assert left_out["not-utf8"] == "Skill entry file SKILL.md is not valid UTF-8 text"
    assert left_out["big"] == "Skill entry file SKILL.md exceeds the 1048576-byte limit"
    assert 'field "name"' in left_out["bad-yaml"]
    assert "letters, numbers, hyphens" in left_out["path-name"]


def test_one_skill_is_the_same(both):
    for name in ["plain", "twin", "crlf", "技能-éß", "123", "big", "nobody", "", "../x", 5, None, True]:
        same(both, "box_get_skill", {"name": name})
    assert both[0].error("box_get_skill") == "KeyError: 'name'"


def test_a_scalar_is_the_text_that_its_author_wrote(both, folder):
    root = os.path.realpath(folder / "tenants" / skilllib.TENANT)
    for number, (text, fields) in enumerate(AS_WRITTEN.items()):
        Tenant(folder).put(f"written-{number}/SKILL.md", f"---\n{text}\n---\nx")
        skill = both[0].ok("box_scan_skill_directory", {"path": f"{root}/written-{number}"})
        assert (skill["name"], skill["display_name"], skill["description"]) == fields


def test_scans_are_the_same(both, folder):
    root = os.path.realpath(folder / "tenants" / skilllib.TENANT)
    inside = ["", "/plain", "/twins", "/twins/one", "/a/b/c/d", "/a", "/nowhere", "/linked-package"]
    inside += ["/lower", "/plain/", "//plain/../plain/.", "/plain/SKILL.md", "/files/link-folder"]
    inside += ["/files/absolute", "/not-utf8", "/big", "/long-name", "/a/b/c/d/e"]
    for path in inside:
        same(both, "box_scan_skill_directory", {"path": root + path})
    for path in ["/etc", "relative", ".", "", "  ", f"{root}x", f"{root}/../other", "/", None, 5]:
        same(both, "box_scan_skill_directory", {"path": path})
    same(both, "box_scan_skill_directory", {"path": f"  {root}/plain  "})
    same(both, "box_scan_skill_directory", {})
    assert "letters" in both[0].error("box_scan_skill_directory", {"path": f"{root}/path-name"})


def test_a_tenant_without_a_folder(both, folder):
    other = "ws-other"
    path = os.path.realpath(folder) + f"/tenants/{other}/x"
    for program in both:
        answer = program.ask("box_scan_skill_directory", {"path": path}, tenant=other)
        assert answer == {"error": f"BoxValidationError: Directory does not exist: {path}"}
        assert program.ok("box_list_skills", tenant=other) == {"skills": []}


def test_file_lists_are_the_same(both):
    for path in [".", "", None, "scripts", "scripts/", "./scripts/../many", "many", "nowhere"]:
        same(both, "box_list_skill_files", {"name": "files", "path": path})
    for path in ["link-folder", "absolute", "..", "../plain", "/etc", "..x", "two.md", "a\0b", 5]:
        same(both, "box_list_skill_files", {"name": "files", "path": path})
    for most in [1, 5, 30, 31, 5000, 0, -1]:
        same(both, "box_list_skill_files", {"name": "files", "path": "many", "max_entries": most})
    for most in ["7", 2.9, True, "x", None, [], False]:
        data = {"name": "files", "path": "many", "max_entries": most}
        refused = both[0].error("box_list_skill_files", data)
        assert refused == "BoxValidationError: max_entries must be a positive integer"
    for hidden in [True, 1, "x", 0, ""]:
        data = {"name": "files", "path": "scripts", "include_hidden": hidden}
        same(both, "box_list_skill_files", data)
    same(both, "box_list_skill_files", {"name": "files"})
    same(both, "box_list_skill_files", {})
    same(both, "box_list_skill_files", {"name": "nobody"})


def test_files_read_the_same(both):
    paths = ["SKILL.md", "scripts/run.py", "./scripts//run.py", "link.py", "absolute/run.py"]
    paths += ["link-folder/run.py", "around.py", "unicode-é.txt", "data.bin", "two.md", "scripts"]
    paths += ["nowhere", "", ".", None, "../plain/SKILL.md", "/etc/passwd", "many/../SKILL.md", 5]
    paths += ["x" * 300, "a/" * 3000, "a\0b", "SKILL.md/x", "  SKILL.md  "]
    for path in paths:
        same(both, "box_read_skill_file", {"name": "files", "path": path})
    same(both, "box_read_skill_file", {"name": "files"})
    same(both, "box_read_skill_file", {"name": "nobody", "path": "x"})


def test_places_of_packages_are_the_same(both):
    for name in ["plain", "six-deep", " plain ", "nobody", "../x", ""]:
        store, reference = both
        ours = store.ask("find", {"name": name})
        theirs = reference.ask("find", {"name": name})
        assert ours == theirs, name


# -- front matter by itself


def test_what_is_written_pyyaml_reads_as_the_same_text(both):
    store, reference = both
    chance = random.Random(7)
    words = ["hello", "it's", "fox:", "# no", "key: value", "技能", "naïve", "😀", "yes", "1.5", "null"]
    words += ["2024-01-02", "---", "...", "- x", "? y", "*a", "&b", "!t", "%d", "@", "`", "{", "]", ","]
    words += ["\\", '"', "'", "\t", "\n", "\n\n", "\r\n", " ", "  ", "\u00a0", "\u2028", "\u3000"]
    words += ["\x85", "\ufeff", "\x07", "|", ">", "=", "<<", "~", "0x1F", "1_000", "1:30", "x" * 90]
    texts = [
        chance.choice(["", " "]).join(chance.choices(words, k=chance.choice([1, 2, 5, 25])))
        for _ in range(2000)
    ]
    texts += [
        "".join(chance.choices("ab cd:#-'\"\n é技,?!", k=chance.randint(1, 300)))
        for _ in range(1000)
    ]
    texts += ["", " ", "5", "-3", "1e17", "0.1", "true", "False", "None", "no", "y", "."]
    written = store.ok("dump", {"texts": texts})
    for program in both:
        read = program.ok("load", {"texts": written})
        for text, whole, answer in zip(texts, written, read, strict=True):
            fields = [["display_name", text.strip()]] if text.strip() else []
            assert answer == [{"map": fields}, ""], (text, whole)


SCALARS = """1 1.5 -7 0x1F 0o17 017 1_000 1:30:00 1:30.5 .5 -.5 1e5 1.0e+5 .inf -.Inf .nan yes No ON ~
null 2024-01-02 2024-1-2 2024-13-01 2024-01-02T03:04:05Z 'quoted' "d\\u00e9\\n" [a,1,1.0,true,null]
{a:\\ 1} !!str\\ 5 !!int\\ '5' !!int\\ x !foo\\ bar &a\\ x *a << = 0b101 0b_ 0x_ 0_ -0 +5 1__0 0.0 -0.0
123456789012345678901234567890 0xFFFFFFFFFFFFFFFFFF [[]] [{},[]] 1. 685_230.15 190:20:30.15 12:30:45
'it''s' "\\x07\\u200b\\U0001F600" ["\\x07\\u200b\\u00e9\\\\"] 技能 @x `x %x 'open [1,2 {a,b}""".replace(
    "\\ ", "\0"
).split()
# PyYAML fails to construct these values; the store reads them as text.
TEXT_TO_US = ("2024-13-01", "!!int x", "<<", "=", "0b_", "0x_")


def without_types(tree):
    """The reference's tree with a placeholder for every scalar that is not text: None is null, ...
    is anything."""
    if isinstance(tree, dict) and "other" in tree:
        return ...
    if isinstance(tree, dict):
        return {kind: [without_types(item) for item in items] for kind, items in tree.items()}
    if isinstance(tree, list):
        return [without_types(item) for item in tree]
    return tree


def agrees(own, other):
    """Whether our tree equals the reference's, where the reference has text, null, a list or a map."""
    if other is ...:
        return isinstance(own, str)
    if isinstance(other, dict):
        return isinstance(own, dict) and own.keys() == other.keys() and all(
            agrees(own[kind], other[kind]) for kind in other
        )
    if isinstance(other, list):
        return isinstance(own, list) and len(own) == len(other) and all(map(agrees, own, other))
    return own == other


def test_front_matter_is_read_as_pyyaml_reads_it(both):
    store, reference = both
    texts = []
    for scalar in SCALARS:
        scalar = scalar.replace("\0", " ")
        texts += [f"---\nname: n\nd: {scalar}\n---\nbody\n", f"---\nd: [{scalar}]\n---\n\n\nb"]
        texts += [f"---\n{scalar}\n---\n", f"---\n{scalar}: 1\n---\n"]
    texts += ["---", "---\n---", "--- \na: 1\n--- \n", "---x\n---\n", "\ufeff---\na: 1\n---\n"]
    texts += ["---\na: 1\nb: 2\na: 3\n---\n", "---\n<<: [{a: 1, c: 4}, {a: 2}]\na: 3\n---\n"]
    texts += ["---\n" + "".join(f"k{n}: {n}\n" for n in range(30)) + "k3: again\n---\n"]
    texts += ["---\n[a]: 1\n---\n", "---\nx: *no\n---\n", "---\na: &x 1\nb: &x 2\n---\n"]
    ours = store.ok("load", {"texts": texts})
    theirs = reference.ok("load", {"texts": texts})
    for text, own, other in zip(texts, ours, theirs, strict=True):
        if isinstance(own, str):
            assert other is None, (text, own)
        elif other is None:
            assert any(scalar in text for scalar in TEXT_TO_US), (text, own)
        else:
            assert agrees(own, without_types(other)), (text, own, other)


def test_front_matter_is_bounded(both):
    store = both[0]
    laughs = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    texts = {
        "too many aliases": "a: &a x\nb: [" + "*a, " * 1000 + "]\n",
        "too many anchors": "".join(f"k{n}: &a{n} x\n" for n in range(100)),
        "too many values": "a: [" + "1, " * 20000 + "]\n",
        "too deep": "a: " + "[" * 100 + "]" * 100 + "\n",
        "defined twice": "a: &x 1\nb: &x 2\n",
        "no complete anchor": "a: &x [*x]\n",
        "65536-byte limit": "a: " + "x" * 70000 + "\n",
    }
    answers = store.ok("load", {"texts": [f"---\n{text}---\n" for text in texts.values()]})
    for said, answer in zip(texts, answers, strict=True):
        assert isinstance(answer, str) and said in answer, (said, answer)
    told = store.ok("load", {"texts": [f"---\nl0: &l0 x\n{laughs}---\n"]})[0]
    assert isinstance(told, list)


def test_a_field_that_aliases_make_long_is_refused(both, folder):
    laughs = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    text = f"---\nname: laughs\nl0: &l0 lol\n{laughs}description: *l11\n---\n"
    Tenant(folder).put("laughs/SKILL.md", text)
    left_out = both[0].ok("box_list_skills")["left_out"]
    why = [item["message"] for item in left_out if item["path"].endswith("/laughs")]
    assert why == ['Skill front matter, field "description": is longer than 65536 bytes as text']


def test_letters_are_those_of_python(both):
    runs = both[0].ok("letters")
    ours = {c for first, last in zip(runs[::2], runs[1::2], strict=True) for c in range(first, last + 1)}
    theirs = {c for c in range(0x110000) if chr(c).isalnum()}
    # utf8proc and Python may have different versions of Unicode: what only the newer one knows is
    # unassigned in the other.
    assert all(unicodedata.category(chr(c)) == "Cn" for c in ours - theirs)
    assert len(ours - theirs) < 0.1 * len(theirs)
    assert len(theirs - ours) < 0.1 * len(theirs)
    assert not {c for c in theirs - ours if unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"}


# -- changes


def tree_of(root, reference):
    """Every path below with what it is: a file by its bytes, a SKILL.md by what the reference reads.

    White space at the ends of fields does not count: nobody sees it.
    """
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder",)
        else:
            found[name] = ("file", path.read_bytes(), path.stat().st_mode & 0o777)
    skills = [name for name in found if name.endswith("SKILL.md") and found[name][0] == "file"]
    texts = [found[name][1].decode(errors="replace") for name in skills]
    for name, read in zip(skills, reference.ok("load", {"texts": texts}), strict=True):
        if read:
            fields = [[key, text.strip()] for key, text in read[0]["map"] if isinstance(text, str)]
            read = [fields, len(read[0]["map"]), read[1]]
        found[name] = ("skill", read or found[name][1], found[name][2])
    return found


class Pair:
    """The store and the reference, each with its own tree."""

    def __init__(self, folder, other):
        self.ours, self.theirs = folder, other
        self.store = skilllib.start_store(folder)
        self.reference = skilllib.start_reference(other)

    def same(self, action, data=None, archive_file=None):
        ours = self.store.ask(action, data, archive_file)
        data = alike(data, os.path.realpath(self.ours), os.path.realpath(self.theirs))
        theirs = self.reference.ask(action, data, archive_file)
        moved = alike(theirs, os.path.realpath(self.theirs), os.path.realpath(self.ours))
        times = ("created_at", "updated_at")
        assert without(ours, *EXTRA, *times) == without(moved, *times), (action, data)
        if archive_file:
            self.store.ok("box_list_skills")  # then an install lasts, and leaves no mark
        ours, theirs = (tree_of(tree, self.reference) for tree in (self.ours, self.theirs))
        assert ours == theirs, (action, data)
        return ours


@pytest.fixture
def pair(folder, tmp_path):
    # Absolute links point into their own tree.
    other = tmp_path / "other" / "skills"
    os.unlink(folder / "tenants" / skilllib.TENANT / "files/absolute")
    shutil.copytree(folder, other, symlinks=True)
    pair = Pair(folder, other)
    yield pair
    assert pair.store.close() == 0
    pair.reference.close()


def test_skills_are_created_the_same(pair, folder):
    root = os.path.realpath(folder / "tenants" / skilllib.TENANT)
    skills = [
        {"name": "made"},
        {"name": "made"},
        {"name": " trimmed ", "description": "x", "instructions": "Do\n"},
        {"name": "made-2", "display_name": "Made: two", "description": "it's", "instructions": "---"},
        {"name": "技能", "description": "说" * 60},
        {"name": "odd", "display_name": 5, "description": 0, "instructions": 1.5},
        {"name": "nulls", "display_name": None, "description": None, "instructions": None},
        {"name": "blank", "display_name": "  ", "description": "\n"},
        {"name": "many-lines", "description": "a\nb\n\nc  \n d\n", "instructions": "é\r\n"},
        {"name": "not-utf8", "description": "over a broken one"},
        {"name": "a", "description": "over a folder with a skill deep below"},
        {"name": "lower"},
        {"name": 77},
        {"name": ""},
        {"name": None},
        {"name": "a/b"},
        {"name": "x" * 65},
        {},
        [],
        "text",
        {"name": "import", "package_root": f"{root}/no-front"},
        {"name": "import-2", "package_root": f"{root}/linked-package", "description": "kept?"},
        {"name": "import-3", "package_root": f"{root}/nowhere"},
        {"name": "import-4", "package_root": f"{root}/twins"},
        {"name": "import-5", "package_root": "/etc"},
        {"name": "import-6", "package_root": "relative"},
        {"name": "import-7", "package_root": None},
        {"name": "import-8", "package_root": f"{root}/import-8"},
        {"name": "import-9", "package_root": f"{root}/outer/inner"},
        {"name": "import-10", "package_root": f"{root}/lower", "instructions": "new"},
    ]
    for skill in skills:
        pair.same("box_create_skill", {"skill": skill})
    pair.same("box_create_skill", {})
    os.mkdir(f"{root}/taken")
    os.mkdir(alike(f"{root}/taken", os.path.realpath(pair.ours), os.path.realpath(pair.theirs)))
    pair.same("box_create_skill", {"skill": {"name": "taken"}})


def test_skills_are_updated_the_same(pair, folder):
    root = os.path.realpath(folder / "tenants" / skilllib.TENANT)
    changes = [
        ("plain", {}),
        ("plain", {"description": "new: text", "instructions": "# New\n"}),
        ("plain", {"display_name": None, "description": "", "instructions": None}),
        ("plain", {"display_name": "5", "description": "1e17"}),
        ("plain", {"name": "plain", "package_root": f"{root}/plain/"}),
        ("plain", {"name": "other"}),
        ("plain", {"name": ""}),
        ("plain", {"name": 5}),
        ("plain", {"package_root": f"{root}/twins"}),
        ("plain", {"package_root": "/etc"}),
        ("twin", {"description": "both?"}),
        ("lower", {"instructions": "now in SKILL.md too"}),
        ("技能-éß", {"description": "😀 " * 50}),
        ("crlf", {"display_name": "yes"}),
        ("nobody", {}),
        (5, {}),
    ]
    for name, skill in changes:
        pair.same("box_update_skill", {"name": name, "skill": skill})
    pair.same("box_update_skill", {"name": "plain"})
    pair.same("box_update_skill", {"skill": {}})
    pair.same("box_update_skill", {"name": "plain", "skill": 5})
    refused = pair.store.error("box_update_skill", {"name": "plain", "skill": {"description": []}})
    assert refused == "BoxValidationError: description must be text, not list"


def test_fields_that_are_not_text_are_written_as_text(pair):
    store = pair.store
    skill = {"name": "odd", "display_name": ["a", 1], "description": {"a": None}, "instructions": True}
    told = store.ok("box_create_skill", {"skill": skill})["skill"]
    assert (told["display_name"], told["description"]) == ("[a, 1]", "{a: null}")
    assert told["instructions"] == "true"
    skill = {"display_name": True, "description": 1.5}
    told = store.ok("box_update_skill", {"name": "odd", "skill": skill})["skill"]
    assert (told["display_name"], told["description"]) == ("true", "1.5")


def test_skills_are_deleted_the_same(pair):
    for name in ["plain", "plain", "twin", "six-deep", "files", "nobody", "", 5]:
        pair.same("box_delete_skill", {"name": name})
    refused = pair.store.error("box_delete_skill", {"name": None})
    assert refused == 'BoxValidationError: Skill "null" not found'
    pair.same("box_delete_skill", {})


def test_files_are_written_the_same(pair):
    writes = [
        ("new.txt", "x"),
        ("new.txt", "longer than before"),
        ("deep/er/file.md", "é\r\n"),
        ("scripts/run.py", ""),
        ("link.py", "through a link"),
        ("link-folder/new", "through a folder's link"),
        ("SKILL.md", skill_md("files", "rewritten")),
        (".", "x"),
        ("", "x"),
        ("scripts", "x"),
        ("scripts/run.py/x", "x"),
        ("scripts/run.py/x/y", "x"),
        ("scripts/run.py/x/y/z", "x"),
        ("../plain/SKILL.md", "x"),
        ("..x", "x"),
        ("/etc/x", "x"),
        ("a\0b", "x"),
        ("big", "x" * (1 << 20)),
        ("bigger", "x" * ((1 << 20) + 1)),
        ("bigger/e", "é" * (1 << 19)),
        ("number", 5),
        ("null", None),
        ("n" * 300, "x"),
    ]
    for path, content in writes:
        pair.same("box_write_skill_file", {"name": "files", "path": path, "content": content})
    pair.same("box_write_skill_file", {"name": "files", "path": "empty"})
    pair.same("box_write_skill_file", {"name": "files", "content": "x"})
    pair.same("box_write_skill_file", {"name": "nobody", "path": "x", "content": "x"})
    pair.same("box_write_skill_file", {"name": "files", "path": "SKILL.md", "content": "---\n["})
    pair.same("box_read_skill_file", {"name": "files", "path": "SKILL.md"})


ARCHIVES = {
    "flat": {"SKILL.md": skill_md("flat"), "run.py": "print(1)"},
    "flat-nameless": {"SKILL.md": "text"},
    "top": {"top/SKILL.md": skill_md("top"), "top/sub/x": "x"},
    "top-nameless": {"top/SKILL.md": "text"},
    "two": {"pack/a/SKILL.md": skill_md("aa"), "pack/b/SKILL.md": skill_md("bb"), "pack/x": ""},
    "same-leaf": {"p/a/x/SKILL.md": skill_md("aa"), "p/b/x/SKILL.md": skill_md("bb")},
    "deep": {"p/a/b/SKILL.md": skill_md("deep")},
    "too-deep": {"p/a/b/c/SKILL.md": skill_md("deep")},
    "none": {"p/x": "x"},
    "bad-name": {"SKILL.md": "---\nname: a/b\n---\n"},
    "bad-one": {"p/a/SKILL.md": skill_md("aa"), "p/b/SKILL.md": b"\xff"},
    "python": {"SKILL.md": skill_md("py"), "requirements.txt": ""},
}


def asked_of_archives(base):
    yield {**base}
    yield {**base, "filename": "My Skill (v1.2).zip"}
    yield {**base, "filename": ".zip", "target_suffix": ""}
    yield {**base, "filename": "../a/技能.tar.gz", "target_suffix": 5}
    yield {**base, "filename": None, "target_suffix": None}
    yield {**base, "filename": "a.zip", "source_subdir": "a"}
    yield {**base, "filename": "a.zip", "source_subdir": "\\a\\"}
    yield {**base, "source_subdir": "."}
    yield {**base, "source_subdir": "../x"}
    yield {**base, "source_subdir": "/etc"}
    yield {**base, "source_subdir": "..a"}


def is_about_temp(error):
    """Errors that contain the reference's temporary folder."""
    return "No SKILL.md found in" in error


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives_preview_the_same(both, tmp_path, kind):
    file = tmp_path / "upload.zip"
    file.write_bytes(archive(ARCHIVES[kind]))
    for data in asked_of_archives({}):
        store, reference = both
        ours = store.ask("box_preview_skill_zip", data, file)
        theirs = reference.ask("box_preview_skill_zip", data, file)
        if "error" in theirs and is_about_temp(theirs["error"]):
            assert is_about_temp(ours["error"])
            continue
        times = ("created_at", "updated_at")
        assert without(ours, *EXTRA, *times) == without(theirs, *times), data


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives_install_the_same(pair, tmp_path, kind):
    if kind in ("too-deep", "none"):
        pytest.skip("both refuse, and the reference names its temporary folder")
    file = tmp_path / "upload.zip"
    file.write_bytes(archive(ARCHIVES[kind]))
    pair.same("box_install_skill_zip", {"filename": "one.zip"}, file)
    pair.same("box_install_skill_zip", {"filename": "one.zip"}, file)
    pair.same("box_install_skill_zip", {"filename": "two.zip", "target_suffix": "x"}, file)
    for choice in [
        {"source_paths": ["a"]},
        {"source_paths": ["a", "\\b\\", "a"]},
        {"source_paths": ["a"], "source_path": "b"},
        {"source_path": "/a/"},
        {"source_paths": ["nowhere"]},
        {"source_paths": [""]},
        {"source_paths": ["a/x", "b/x"]},
        {"source_paths": "a"},
        {"source_paths": [None, 5]},
    ]:
        name = json.dumps(choice)
        pair.same("box_install_skill_zip", {"filename": f"{name}.zip", **choice}, file)


def test_an_empty_upload(both, tmp_path):
    file = tmp_path / "upload.zip"
    file.write_bytes(b"")
    same(both, "box_preview_skill_zip", {}, file)
    same(both, "box_install_skill_zip", {}, file)
    file.write_bytes(b"not a zip at all")
    for action in ("box_preview_skill_zip", "box_install_skill_zip"):
        assert "Uploaded file must be a valid .zip archive" in both[0].error(action, {}, file)
