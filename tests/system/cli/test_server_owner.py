"""Which servers `box` trusts when no runtime is named: those of root and of its own user. Other
users of the host may listen on the default port.
"""

import subprocess

import boxdlib
import pytest

pytestmark = pytest.mark.skipif(not boxdlib.ROOT, reason="only root can be several users")

TOKEN = "a-token-that-a-stranger-must-not-get-0123"
# Takes one connection and prints what it received before it was closed.
LISTENER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 5410))
print("listening", flush=True)
taken = listener.accept()[0]
if sys.argv[1] == "hides":
    listener.close()
taken.settimeout(10)
print(taken.recv(4096).decode(), flush=True)
"""
# A network and a /run of its own: the port and the operator's socket of this host are not visible.
ALONE = ["unshare", "-n", "-m", "sh", "-ec", "mount -t tmpfs none /run; ip link set lo up; exec \"$@\""]


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]


def meet(server, client, *words, how="stays"):
    """What the listener of uid `server` received from a `box` of uid `client`, and what `box`
    printed."""
    script = f"""
import subprocess, sys
listener = subprocess.Popen({as_user(server)!r} + [sys.executable, "-c", {LISTENER!r}, {how!r}],
    stdout=subprocess.PIPE, text=True)
assert listener.stdout.readline() == "listening\\n"
box = subprocess.run({as_user(client)!r} + [{str(boxdlib.build() / "box")!r}, *{words!r}],
    capture_output=True, text=True, timeout=30)
listener.wait(20)
print(repr((listener.stdout.read(), box.returncode, box.stderr)))
"""
    done = subprocess.run(
        [*ALONE, "sh", "python3", "-c", script],
        env=boxdlib.environment(LANGBOT_BOX_CONTROL_TOKEN=TOKEN),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)  # noqa: S307: a tuple that we have printed


@pytest.mark.parametrize("client", [0, 1000])
@pytest.mark.parametrize("how", ["stays", "hides"])
def test_a_stranger_hears_nothing(client, how):
    heard, code, said = meet(65534, client, "create", "work", how=how)
    assert heard == "\n" and code == 125
    assert "uid 65534" in said and "--endpoint ws://127.0.0.1:5410" in said


@pytest.mark.parametrize(("server", "client"), [(0, 0), (0, 1000), (1000, 1000)])
def test_root_and_our_own_user_are_spoken_to(server, client):
    assert TOKEN in meet(server, client, "ls")[0]


def test_whoever_was_named_is_spoken_to():
    assert TOKEN in meet(65534, 0, "ls", "--endpoint", "ws://127.0.0.1:5410")[0]
