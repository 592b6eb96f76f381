"""The targets for the measured figures, and the table that shows whether they are met."""

import statistics

# measurement, unit, what it is compared with, how, and the target ratio.
SLOWER, FASTER, LESS, RATE, LIMIT = "as long", "faster", "less", "as many", "limit"
# As FASTER, but the other does less than we do: a smaller lead over it proves nothing.
BOUND = "faster, at least"
DEMANDS = [
    ("ping, WebSocket", "us", "echo", SLOWER, 1.5),
    ("ping, WebSocket", "us", "reference", FASTER, 4),
    ("ping, WebSocket, p99", "us", "echo", SLOWER, None),
    ("ping, WebSocket, p99", "us", "reference", FASTER, None),
    ("ping, WebSocket", "us", "before", SLOWER, 1.05),
    ("ping, operator's socket", "us", "over TCP", SLOWER, 1.05),
    ("ping, stdio", "us", "reference", FASTER, None),
    ("pings a second", "/s", "reference", RATE, 8),
    ("pings a second", "/s", "echo", RATE, None),
    ("start, WebSocket", "ms", "reference", FASTER, 50),
    ("start, stdio", "ms", "reference", FASTER, 50),
    ("start, WebSocket", "ms", "before", SLOWER, 1.05),
    ("start, stdio", "ms", "before", SLOWER, 1.05),
    ("1 MiB, WebSocket", "ms", "reference", FASTER, 5),
    ("1 MiB, WebSocket", "ms", "echo", SLOWER, None),
    ("1 MiB as msgpack, WebSocket", "ms", "reference", FASTER, None),
    ("1 MiB, stdio", "ms", "reference", FASTER, 5),
    ("1 MiB as msgpack, stdio", "ms", "reference", FASTER, None),
    ("memory at start", "MB", None, LIMIT, 8),
    ("memory after 1,000 pings", "MB", None, LIMIT, 8),
    ("memory after 1,000 pings", "MB", "reference", LESS, None),
    ("memory at start", "MB", "before", SLOWER, 1.05),
    ("memory after 1,000 pings", "MB", "before", SLOWER, 1.05),
    ("exec true, WebSocket", "us", "posix_spawn", SLOWER, 1.4),
    ("exec true, WebSocket", "us", "reference, nsjail", FASTER, 10),
    ("exec true, WebSocket", "us", "reference, no isolation", BOUND, 10),
    ("exec true, WebSocket, p99", "us", "posix_spawn", SLOWER, None),
    ("exec true, WebSocket, one processor", "us", "posix_spawn", SLOWER, None),
    ("exec true, WebSocket, one processor", "us", "before", SLOWER, 1.05),
    ("exec true, WebSocket, network on", "us", "network off", SLOWER, None),
    ("making a box, network off", "ms", None, LIMIT, 3),
    ("making a box, network off", "ms", "before", SLOWER, 1.05),
    ("first exec, network off", "ms", "before", SLOWER, 1.05),
    ("first exec, network off", "ms", "bwrap", FASTER, 1),
    ("first exec, network off", "ms", "reference, nsjail", FASTER, None),
    ("first exec, network off", "ms", "reference, no isolation", BOUND, None),
    ("first exec, network on, more", "ms", None, LIMIT, 15),
    ("delete, network off", "ms", None, LIMIT, 2),
    ("delete, network on", "ms", None, LIMIT, 2),
    ("delete, network off", "ms", "before", SLOWER, 1.05),
    ("delete, network on", "ms", "before", SLOWER, 1.05),
    ("execs a second, sessions: 1", "/s", "posix_spawn", RATE, 0.6),
    ("execs a second, sessions: 8", "/s", "posix_spawn", RATE, 0.6),
    ("execs refused of those", "", None, LIMIT, 0),
    ("new sessions refused, 32 at once", "", None, LIMIT, 0),
    ("1 MiB of stdout", "ms", "reference, nsjail", FASTER, 5),
    ("1 MiB of stdout", "ms", "reference, no isolation", BOUND, 5),
    ("peak while 1 GiB is printed", "MB", "64 MiB", SLOWER, 1.1),
    ("box run -- true", "ms", "bwrap", SLOWER, None),
    ("boxes made a second, 8 at once", "/s", None, LIMIT, None),
    ("memory of an idle box", "MiB", None, LIMIT, 2),
    ("exec with all of them there", "us", "1 box", SLOWER, 1.1),
    ("relay echo of 100 bytes, more than bare", "us", None, LIMIT, 80),
    ("relay echo of 100 bytes", "us", "bare pipe and socket", SLOWER, None),
    ("relay echo of 100 bytes", "us", "reference, nsjail", FASTER, 3),
    ("relay echo of 100 bytes", "us", "reference, no isolation", BOUND, 3),
    ("relay echo of 100 bytes, p99", "us", "bare pipe and socket", SLOWER, None),
    ("relay echo of 100 bytes, all processors", "us", "bare pipe and socket", SLOWER, None),
    ("relay echo of 100 bytes, all processors", "us", "reference, nsjail", FASTER, None),
    ("relay echo of 100 bytes, all processors", "us", "reference, no isolation", BOUND, None),
    ("relay echo of 100 bytes, all processors, more than bare", "us", None, LIMIT, 80),
    ("relay, lines of 16 KiB", "MB/s", "reference, nsjail", RATE, 3),
    ("relay, lines of 16 KiB", "MB/s", "reference, no isolation", RATE, 3),
    ("relay, lines of 16 KiB", "MB/s", "bare pipe and socket", RATE, None),
    ("memory of 60 managed cat", "MB", None, LIMIT, 20),
    ("256 MiB of a live command", "MB/s", "cat into a socket", RATE, 0.4),
    ("box cp of 1024 MiB into a box", "MB/s", "cp to tmpfs", RATE, 0.5),
    ("box cp of 1024 MiB out of a box", "MB/s", "cp to tmpfs", RATE, 0.5),
    ("box cp of 256 MiB into a box", "MB/s", "cp to tmpfs", RATE, 0.5),
    ("box cp of 256 MiB out of a box", "MB/s", "cp to tmpfs", RATE, 0.5),
    ("first command in a new microVM", "ms", "msb create and exec", FASTER, 1),
    ("exec in a microVM", "ms", "msb exec", FASTER, 5),
    ("box exec in a microVM", "ms", "msb exec", FASTER, None),
    ("list of 1,000 skills", "ms", "reference", SLOWER, 0.5),
    ("second list of 1,000 skills", "ms", "the first", FASTER, 10),
    ("answer to an install of a ZIP, 100 files, 4 MB", "ms", "reference", FASTER, 3),
    ("mounts of 100 skills", "ms", None, LIMIT, 1),
]


def middle(figures):
    return None if figures is None or None in figures else statistics.median(figures)


def ratio_of(ours, theirs, how):
    return theirs / ours if how in (FASTER, BOUND, LESS) else ours / theirs


def best_ratio(figures, how):
    """The ratio of the best rounds: other load on the host only ever adds time."""
    best = max if how == RATE else min
    return ratio_of(*(best(rounds) for rounds in figures), how)


def show(figure):
    if figure is None:
        return "not shown"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def demand_of(unit, how, demanded):
    if demanded is None:
        return ""
    if how == LIMIT:
        return f"<= {demanded} {unit}".rstrip()
    return f"{'<=' if how == SLOWER else '>='} {demanded}x"


def judge(ours, theirs, how, demanded):
    """The ratio, and whether it meets the target; None: not decidable."""
    if how == LIMIT:
        return None, None if ours is None or demanded is None else ours <= demanded
    if ours is None or theirs is None:
        return None, None
    ratio = ratio_of(ours, theirs, how)
    if demanded is None:
        return ratio, None
    ok = ratio <= demanded if how == SLOWER else ratio >= demanded
    return ratio, None if how == BOUND and not ok else ok


def row_of(figures, measurement, unit, other, how, demanded):
    """One row as data."""
    measured = figures[measurement]
    rounds = measured["box"]
    ours, theirs = middle(rounds), middle(measured.get(other))
    ratio, ok = judge(ours, theirs, how, demanded)
    demand = demand_of(unit, how, demanded)
    return {
        "figure": measurement,
        "unit": unit,
        "box": ours,
        "rounds": "" if None in rounds else f"{show(min(rounds))}-{show(max(rounds))}",
        "against": other,
        "other": theirs,
        "how": how,
        "ratio": ratio,
        "best_ratio": None if ratio is None else best_ratio((rounds, measured[other]), how),
        "demanded": demand,
        "verdict": "" if demand == "" else {True: "ok", False: "MISSED", None: "not shown"}[ok],
    }


def cells_of(row):
    alone, ratio, best = row["how"] == LIMIT, row["ratio"], row["best_ratio"]
    return (
        f"{row['figure']} [{row['unit']}]" if row["unit"] else row["figure"],
        show(row["box"]),
        row["rounds"],
        "" if alone else row["against"],
        "" if alone else show(row["other"]),
        "" if ratio is None else f"{ratio:.3g}x",
        "" if ratio is None else row["how"],
        "" if best is None else f"{best:.3g}x",
        row["demanded"],
        row["verdict"],
    )


def table(figures):
    """Lines of text, the same as data, and whether a target was missed. What was not measured has
    no row, nor does a missing earlier build."""
    data = [
        row_of(figures, *demand)
        for demand in DEMANDS
        if demand[0] in figures and (demand[2] != "before" or "before" in figures[demand[0]])
    ]
    rows = [("figure", "Box", "(rounds)", "against", "", "ratio", "", "best", "demanded", "")]
    rows += [cells_of(row) for row in data]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = {1, 4, 5, 7}
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    return lines, data, any(row["verdict"] == "MISSED" for row in data)
