"""What the sources of Box define, read from their text: functions, names that other files can use, tags.

Used by scripts/check-names and scripts/measure-tree. It relies on the layout that clang-format gives: a
definition begins in the first column, the body of a function is between a `{` and a `}` that stand there alone.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

# Not production code: tests, and what is there to show how libbox is used.
NOT_PRODUCTION = ("tests/", "contrib/", "build/")

BLANKED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
FUNCTION = re.compile(r"^([A-Za-z_][^;{}=#]*?)\b(\w+)\(([^;{}]*)\)[^;{}()=]*\n\{$", re.MULTILINE)
VARIABLE = re.compile(r"^(?!static|typedef|extern)[a-z][\w \*]*?\b(box_\w+)(?:\[[^\]]*\])* =", re.MULTILINE)
TAG = re.compile(r"\b(struct|union|enum) (\w+)(?: [A-Z_]+)? \{")
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
DECLARED = re.compile(r"\b(box_\w+)\s*(?:\(|\[|;)")


def blank(text):
    """The text without comments and literals, each line where it was."""

    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    return BLANKED.sub(spaces, text)


@dataclass
class Function:
    name: str
    path: str
    line: int
    lines: int
    exported: bool


@dataclass
class Source:
    path: str
    text: str  # without comments and literals
    lines: int
    functions: list = field(default_factory=list)
    exported: set = field(default_factory=set)  # functions and variables
    tags: set = field(default_factory=set)


def read(root, path):
    raw = (root / path).read_text(encoding="utf-8", errors="replace")
    source = Source(path, blank(raw), raw.count("\n"))
    for match in FUNCTION.finditer(source.text):
        begin = match.end()
        end = source.text.find("\n}", begin)
        lines = source.text.count("\n", begin, end)  # of the body
        line = source.text.count("\n", 0, match.start(2)) + 1
        head = match.group(1)
        exported = not re.search(r"\bstatic\b", head) and path.endswith(".c")
        source.functions.append(Function(match.group(2), path, line, lines, exported))
        if exported:
            source.exported.add(match.group(2))
    if path.endswith(".c"):
        source.exported.update(match.group(1) for match in VARIABLE.finditer(source.text))
    source.tags = {match.group(2) for match in TAG.finditer(source.text)}
    return source


def production(root):
    """Every source of the programs and libraries, by its path."""
    paths = sorted(
        path.relative_to(root).as_posix()
        for pattern in ("*.c", "*.h")
        for path in root.rglob(pattern)
        if path.is_file()
    )
    return {
        path: read(root, path)
        for path in paths
        if not path.startswith(NOT_PRODUCTION) and "/" in path and not path.startswith(".")
    }


# The core vocabulary: words of base that every folder uses as it uses the C library's, and that are modules of
# their own in all but their file. They name the types that the header declares (struct box_str, enum box_type,
# enum box_code; a map and a list are kinds of struct box_value), or the function of the C library that they
# stand for.
CORE = {
    "base/arena.h": {"alloc", "realloc", "strdup"},
    "base/err.h": {"code"},
    "base/value.h": {"list", "map", "str", "type"},
}


def stem(path):
    return Path(path).stem


class Modules:
    """Which modules a name may belong to."""

    def __init__(self, sources):
        self.sources = sources
        self.declared = {}  # name -> the headers that declare it
        for source in sources.values():
            if source.path.endswith(".h"):
                for name in set(DECLARED.findall(source.text)):
                    self.declared.setdefault(name, set()).add(source.path)

    def of(self, path, name):
        """Its file, the headers that declare it, and the families that these belong to."""
        found = set()
        for one in {path} | self.declared.get(name, set()):
            words = stem(one).split("_")
            found.add(stem(one))
            found |= CORE.get(one, set())
            for count in range(1, len(words)):
                family = "_".join(words[:count])
                if (Path(one).parent / f"{family}.h").as_posix() in self.sources:
                    found.add(family)
        return found


def of_module(name, module):
    """Whether the name begins with its module's; a plural is as good as a singular."""
    if not name.startswith("box_"):
        return False
    rest = name[len("box_") :]
    forms = {module, module.rstrip("s"), module + "s", module.removesuffix("ies") + "y"}
    return any(rest == one or rest.startswith(one + "_") for one in forms)
