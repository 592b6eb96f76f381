"""The demands on what was measured, and the table that tells whether they are met."""

import statistics

# measurement, unit, what it is compared with, how, and the demanded ratio.
SLOWER, FASTER, LESS, RATE, LIMIT = "as long", "faster", "less", "as many", "limit"
DEMANDS = [
    ("ping, WebSocket", "us", "echo", SLOWER, 1.5),
    ("ping, WebSocket", "us", "reference", FASTER, 4),
    ("ping, WebSocket, p99", "us", "echo", SLOWER, None),
    ("ping, WebSocket, p99", "us", "reference", FASTER, None),
    ("ping, stdio", "us", "reference", FASTER, None),
    ("pings a second", "/s", "reference", RATE, 8),
    ("pings a second", "/s", "echo", RATE, None),
    ("start, WebSocket", "ms", "reference", FASTER, 50),
    ("start, stdio", "ms", "reference", FASTER, 50),
    ("1 MiB, WebSocket", "ms", "reference", FASTER, 5),
    ("1 MiB, WebSocket", "ms", "echo", SLOWER, None),
    ("1 MiB as msgpack, WebSocket", "ms", "reference", FASTER, None),
    ("1 MiB, stdio", "ms", "reference", FASTER, 5),
    ("1 MiB as msgpack, stdio", "ms", "reference", FASTER, None),
    ("memory at start", "MB", 8, LIMIT, 8),
    ("memory after 1,000 pings", "MB", 8, LIMIT, 8),
    ("memory after 1,000 pings", "MB", "reference", LESS, None),
]


def middle(figures):
    return None if None in figures else statistics.median(figures)


def ratio_of(ours, theirs, how):
    return theirs / ours if how in (FASTER, LESS) else ours / theirs


def best_ratio(figures, how):
    """That of the best rounds: what others do on the machine only ever adds."""
    best = max if how == RATE else min
    return ratio_of(*(best(rounds) for rounds in figures), how)


def show(figure):
    if figure is None:
        return "not shown"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def judge(figures, measurement, other, how, demanded):
    """The row's ratio, what was demanded of it, and whether it is so."""
    ours = middle(figures[measurement]["box"])
    if how == LIMIT:
        ok = None if ours is None else ours <= demanded
        return ours, None, None, f"<= {demanded} MB", ok
    theirs = middle(figures[measurement][other])
    if ours is None or theirs is None:
        return ours, theirs, None, "", None
    ratio = ratio_of(ours, theirs, how)
    if demanded is None:
        return ours, theirs, ratio, "", None
    ok = ratio <= demanded if how == SLOWER else ratio >= demanded
    return ours, theirs, ratio, f"{'<=' if how == SLOWER else '>='} {demanded}x", ok


def table(figures):
    """Lines of text, the same as data, and whether a demand was missed."""
    rows = [("figure", "Box", "(rounds)", "against", "", "ratio", "", "best", "demanded", "")]
    data, missed = [], False
    for measurement, unit, other, how, demanded in DEMANDS:
        ours, theirs, ratio, demand, ok = judge(figures, measurement, other, how, demanded)
        rounds = figures[measurement]["box"]
        spread = "" if None in rounds else f"{show(min(rounds))}-{show(max(rounds))}"
        verdict = "" if demand == "" else "ok" if ok else "not shown" if ok is None else "MISSED"
        missed |= ok is False
        best = None
        if ratio is not None:
            best = best_ratio((rounds, figures[measurement][other]), how)
        rows.append(
            (
                f"{measurement} [{unit}]",
                show(ours),
                spread,
                "" if how == LIMIT else other,
                "" if how == LIMIT else show(theirs),
                "" if ratio is None else f"{ratio:.3g}x",
                "" if ratio is None else how,
                "" if best is None else f"{best:.3g}x",
                demand,
                verdict,
            )
        )
        data.append(
            {
                "figure": measurement,
                "unit": unit,
                "box": ours,
                "against": None if how == LIMIT else other,
                "other": theirs,
                "ratio": ratio,
                "best_ratio": best,
                "demanded": demand,
                "verdict": verdict,
            }
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = {1, 4, 5, 7}
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    return lines, data, missed
