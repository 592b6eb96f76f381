"""Attempts of a box that has a network: the host, its loopback, our port, metadata services, other
boxes.

boxd runs in a network namespace of the test's own, with a simulated internet behind it
(netlib.World).
"""

import contextlib
import json
import os
import shutil
import time

import boxdlib
import netlib
from frame import blocked, escaped

import world

REFUSALS = {
    "ECONNREFUSED", "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH", "EACCES", "EPERM", "EINVAL",
    "EADDRNOTAVAIL", "EAFNOSUPPORT", "timeout", "no such name",
}  # fmt: skip
OWN = "own"  # boxd's port, which is known later

ADDRESSES = {
    "hosts-addresses": [f"{address}:{netlib.PORT}" for address in netlib.HOST_ADDRESSES],
    "boxds-port-by-the-hosts-addresses": [f"{address}:{OWN}" for address in netlib.HOST_ADDRESSES],
    "boxds-port-by-loopback": [f"{address}:{OWN}" for address in ("127.0.0.1", "127.0.0.2", "::1")],
    "boxds-port-by-mapped-addresses": [
        f"::ffff:{address}:{OWN}" for address in netlib.HOST_ADDRESSES
    ],
    "boxds-port-by-the-gateway": [f"{netlib.GATEWAY}:{OWN}"],
    "boxds-port-by-the-name-server": [f"{netlib.DNS}:{OWN}"],
    "hosts-loopback": [f"127.0.0.{n}:{netlib.PORT}" for n in (1, 2, 53)],
    "hosts-loopback-only-service": [
        f"{address}:{netlib.LOOPBACK_PORT}"
        for address in ("127.0.0.1", netlib.GATEWAY, netlib.DNS, *netlib.HOST_ADDRESSES)
    ],
    "any-address": [f"0.0.0.0:{netlib.PORT}", f"0.0.0.1:{netlib.PORT}", f"0.0.0.0:{OWN}"],
    "gateway": [f"{netlib.GATEWAY}:80"],
    "metadata": [f"{address}:80" for address in netlib.METADATA],
    "metadata-link-local-range": ["169.254.1.1:80", "169.254.169.253:80", "169.254.170.2:80"],
    "reserved-addresses": [f"{address}:80" for address in netlib.RESERVED],
    "broadcast-and-multicast": ["255.255.255.255:80", "224.0.0.1:80", "203.0.113.255:80"],
    "mapped-host-addresses": [
        f"::ffff:{address}:{netlib.PORT}" for address in netlib.HOST_ADDRESSES
    ],
    "gateways-of-user-networks": [f"10.0.2.{n}:{netlib.PORT}" for n in (2, 3)],
    "name-server-on-other-ports": [f"{netlib.DNS}:80", f"{netlib.DNS}:{netlib.PORT}"],
}


def names():
    return [f"net-{name}" for name in (*ADDRESSES, *OTHERS)]


def missing():
    """What this host lacks for the network, or None."""
    tools = [tool for tool in ("pasta", "nft", "ip", "nsenter") if not shutil.which(tool)]
    return f"{', '.join(tools)} is missing" if tools else None


class Inside:
    """Box `s` of a world with a network."""

    def __init__(self, made, around):
        self.made = made
        self.around = around
        script = made.workspace / "netinside.py"
        shutil.copy(netlib.SCRIPT, script)
        script.chmod(0o644)

    def script(self, *words, session="s", folder=None, program="netinside.py"):
        cmd = f"exec {world.PYTHON} /workspace/{program} {' '.join(words)}"
        answer = self.made.run(cmd, session=session, host_path=str(folder or self.made.workspace))
        assert answer["code"] == 0 and answer["data"]["exit_code"] == 0, answer
        return json.loads(answer["data"]["stdout"])

    def probe(self, *targets, **more):
        targets = [target.replace(OWN, str(self.made.port)) for target in targets]
        found = self.script("probe", *targets, **more)
        return {target: result for target, (result, _) in found.items()}


def judge(results):
    through = {target: result for target, result in results.items() if result not in REFUSALS}
    if through:
        return escaped(json.dumps(through))
    return blocked(f"{', '.join(sorted(set(results.values())))} ({len(results)} tries)")


def later_address(inside):
    """An address that the host gets while the box is running."""
    address = "172.31.9.9"
    inside.around.host.ip(f"address add {address}/32 dev d0")
    try:
        end = time.monotonic() + 3
        while True:
            verdict = judge(inside.probe(f"{address}:{netlib.PORT}"))
            if verdict[0] == "BLOCKED" or time.monotonic() > end:
                return verdict
    finally:
        inside.around.host.ip(f"address delete {address}/32 dev d0")


def other_box(inside):
    """The neighbour serves on all its addresses, and can reach itself."""
    other = inside.made.neighbour
    shutil.copy(world.HERE / "inside" / "ask.py", other["workspace"])
    cmd = "ip -4 -o address show scope global 2>/dev/null || hostname -I"
    told = inside.made.run(cmd, session="n", host_path=other["workspace"])["data"]["stdout"]
    address = next(word for word in told.replace("/", " ").split() if word.count(".") == 3)
    target = f"{address}:{other['port']}"
    mine = inside.script("tcp", target, program="ask.py", session="n", folder=other["workspace"])
    assert mine[target].startswith("heard"), mine
    return judge(inside.script("tcp", target, program="attempts/ask.py"))


def udp_to_the_host(inside):
    """The resolver on the host's loopback, which pasta asks for us, by its own address."""
    targets = [f"{address}:53" for address in ("127.0.0.53", *netlib.HOST_ADDRESSES)]
    return judge(inside.script("udp", *targets, program="attempts/ask.py"))


OTHERS = {
    "address-that-the-host-gets-later": later_address,
    "server-of-another-box": other_box,
    "udp-to-the-host": udp_to_the_host,
}


def run_in(inside, chosen):
    rows = []
    for name in chosen:
        key = name.removeprefix("net-")
        try:
            if key in ADDRESSES:
                verdict, how = judge(inside.probe(*ADDRESSES[key]))
            else:
                verdict, how = OTHERS[key](inside)
        except Exception as error:
            verdict, how = "ERROR", f"{type(error).__name__}: {error}"
        rows.append(("network", name, verdict, how))
    return rows


def run(programs, rootless, chosen):
    why = missing()
    if why:
        print(f"skipped: the attempts with a network: {why}")
        return [("network", name, "SKIPPED", why) for name in chosen]
    with contextlib.closing(netlib.World()) as outer:
        before = outer.host.inside()
        if rootless:
            # Without udev the device may belong to root alone.
            steps = 'mknod -m 666 "$0" c 10 200 && mount --bind "$0" /dev/net/tun && exec "$@"'
            tun = f"/run/box-escape-tun-{os.getpid()}"
            before += ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /run && {steps}", tun]
        with world.World(programs, rootless, network="on", before=before) as made:
            inside = Inside(made, outer)
            target = f"{netlib.SITE}:80"
            boxdlib.wait_until(
                lambda: inside.probe(target) == {target: "internet"}, 10, "the way to the internet"
            )
            return run_in(inside, chosen)
