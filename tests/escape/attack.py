"""All attempts: inside a box, through the interface, by the host's users, with a network."""

from frame import attempts as inside

import claims  # noqa: F401 (its attempts stand beside those of `outside`)
import counts  # noqa: F401 (likewise)
import network
import outside
import shares  # noqa: F401 (likewise)
import resources  # noqa: F401 (likewise)
import roots  # noqa: F401 (likewise)
import slips  # noqa: F401 (likewise)
import speakers  # noqa: F401 (likewise)
import world


def known():
    """(class, name) of all attempts."""
    pairs = {(one.kind, one.name) for one in inside.values()}
    pairs |= {(kind, name) for name, (kind, _) in outside.attempts.items()}
    return pairs | {("network", name) for name in network.names()}


def run(programs, rootless=False, only=(), config=None):
    """Rows of (class, name, verdict, how)."""
    chosen = {
        part: [name for name in names if not only or name in only]
        for part, names in (("in", inside), ("out", outside.attempts), ("net", network.names()))
    }
    rows = []
    if chosen["in"] or chosen["out"]:
        kinds = {inside[name].kind for name in chosen["in"]}
        kinds |= {outside.attempts[name][0] for name in chosen["out"]}
        others = bool(kinds & {"boxes", "tenants"})
        with world.World(programs, rootless, config=config, neighbours=others) as made:
            rows += made.attempt_inside(chosen["in"]) if chosen["in"] else []
            rows += outside.run(made, chosen["out"]) if chosen["out"] else []
    if chosen["net"]:
        rows += network.run(programs, rootless, chosen["net"])
    return rows
