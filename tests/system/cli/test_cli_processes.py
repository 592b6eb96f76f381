"""`box start`, `ps`, `logs`, `attach` and `stop` with a real boxd and native boxes."""

import concurrent.futures
import json
import os
import signal
import subprocess
import time

import parallellib
import boxdlib
import clilib
import nativelib
import pytest
import rawlib
import relaylib
from boxdlib import wait_until
from clientlib import INSTANCE
from proxylib import Proxy

WHO = {"LANGBOT_BOX_TRUSTED_INSTANCE_UUID": INSTANCE}
MIB = 1 << 20


pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture(scope="module")
def client(place):
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture(scope="module")
def boxd(client):
    return client.boxd


@pytest.fixture(scope="module")
def scenes(request, nothing_left):
    with parallellib.begun(request) as made:
        yield made


def options(endpoint):
    return ["--endpoint", endpoint, "--workspace", "ws1"]


def box(boxd, command, *args, **more):
    return clilib.box(command, *options(boxd.url), *args, private=False, env=WHO, **more)


def start(boxd, command, *args, endpoint=None, **more):
    return clilib.start(
        command, *options(endpoint or boxd.url), *args, private=False, env=WHO, **more
    )


def create(boxd):
    code, out, err = box(boxd, "create", "s")
    assert (code, out, err) == (0, "s\n", "")


@pytest.fixture
def session(boxd):
    create(boxd)
    yield "s"
    box(boxd, "rm", "s")


def begin(boxd, script, name="default", *more):
    code, out, err = box(boxd, "start", *more, "--name", name, "s", "--", "sh", "-c", script)
    assert (code, out, err) == (0, f"{name}\n", "")


def ended(client, name="default"):
    return relaylib.exited(client, name)


# start, ps, stop


def test_start_as_asked(boxd, client, session):
    code, out, err = box(
        *[boxd, "start", "s", "--name", "p", "--env", "A=b c", "--workdir", "/tmp"],
        *["--", "sh", "-c", 'echo "$A" $PWD "$1"', "x", "y  z"],
    )
    assert (code, out, err) == (0, "p\n", "")
    ended(client, "p")
    assert box(boxd, "logs", "s", "p") == (0, "b c /tmp y  z\n", "")
    # A single word: a line for sh, or just a program.
    assert box(boxd, "start", "s", "echo a; echo b")[0] == 0
    assert ended(client)["command"] == "sh"
    assert box(boxd, "logs", "s") == (0, "a\nb\n", "")
    assert box(boxd, "start", "s", "pwd")[0] == 0
    assert ended(client)["command"] == "pwd"
    assert box(boxd, "logs", "s") == (0, "/workspace\n", "")


def test_what_cannot_be_started(boxd, session):
    code, out, err = box(boxd, "start", "nosuch", "true")
    assert code == 125 and out == "" and "BoxSessionNotFoundError" in err
    assert box(boxd, "start", "s")[0] == 125
    assert box(boxd, "start", "s", "--name", "", "true")[0] == 125
    code, out, err = box(boxd, "start", "s", "--env", "=x", "true")
    assert code == 125 and "--env" in err


def test_ps(boxd, client, session):
    header = "BOX PROCESS STATUS ATTACHED STARTED EXITED COMMAND".split()
    code, out, err = box(boxd, "ps")
    assert (code, out.split(), err) == (0, header, "")
    begin(boxd, "exit 3", "three")
    begin(boxd, "kill -9 $$", "killed")
    begin(boxd, "sleep 1000", "runs")
    ended(client, "three")
    ended(client, "killed")
    for args in ([], ["s"]):
        code, out, err = box(boxd, "ps", *args)
        assert (code, err) == (0, "")
        lines = [line.split() for line in out.splitlines()]
        assert lines[0] == header
        assert lines[1][:5] == ["s", "three", "exited", "(3)", "no"]
        assert lines[2][:5] == ["s", "killed", "signal", "(9)", "no"]
        assert lines[3][:4] == ["s", "runs", "running", "no"]
        assert lines[3][5:] == ["-", "sh", "-c", "sleep", "1000"]
    with relaylib.Relay(boxd, "runs"):
        assert box(boxd, "ps", "s")[1].splitlines()[3].split()[3] == "yes"
    told = json.loads(box(boxd, "ps", "--json", "s")[1])
    assert [one["process_id"] for one in told] == ["three", "killed", "runs"]
    assert told[0]["exit_code"] == 3
    code, out, err = box(boxd, "ps", "nosuch")
    assert code == 125 and "BoxSessionNotFoundError" in err


def test_ps_cannot_steer_a_terminal(boxd, client, session):
    begin(boxd, "sleep 1000 # \x1b[31m")
    assert "\x1b" not in box(boxd, "ps")[1]


def test_stop(boxd, client, session):
    for name in "abc":
        begin(boxd, "sleep 1000", name)
    assert box(boxd, "stop", "s", "b") == (0, "b\n", "")
    code, out, err = box(boxd, "stop", "s", "b")
    assert code == 125 and "BoxManagedProcessNotFoundError" in err
    begin(boxd, "exit 0", "over")
    ended(client, "over")
    # All running ones; the session stays, and ended processes can still be listed.
    assert box(boxd, "stop", "s") == (0, "a\nc\n", "")
    assert box(boxd, "ps", "s")[1].splitlines()[1].split()[:3] == ["s", "over", "exited"]
    assert box(boxd, "stop", "s") == (0, "", "")
    assert box(boxd, "exec", "s", "echo", "here")[1] == "here\n"
    assert box(boxd, "stop")[0] == 125


# logs


def test_logs_of_one_that_writes_on_have_an_end(boxd, client, session):
    begin(boxd, "yes")
    reader = start(boxd, "attach", "s", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: relaylib.info(client)["attached"], what="a reader")
        code, out, _ = box(boxd, "logs", "s")
        assert code == 0 and set(out) == {"y", "\n"}
    finally:
        reader.kill()
        reader.wait()


def test_logs_take_nothing_away(boxd, client, session):
    begin(boxd, "echo out; echo err >&2; read x; echo got $x; read y")
    wait_until(lambda: box(boxd, "logs", "s")[1:] == ("out\n", "err\n"), what="output")
    assert box(boxd, "logs", "s")[1:] == ("out\n", "err\n")
    with relaylib.Relay(boxd, protocol="mcp") as relay:
        assert relay.recv() == "out"
        # While another client is attached, without disturbing it.
        begun = time.monotonic()
        assert box(boxd, "logs", "s")[1:] == ("out\n", "err\n")
        assert time.monotonic() - begun < 5
        relay.send("hello")
        assert relay.recv() == "got hello"
        # Output that was read is still shown.
        wait_until(lambda: box(boxd, "logs", "s")[1] == "out\ngot hello\n", what="output")


def test_logs_of_one_that_has_ended(boxd, client, session):
    begin(boxd, "seq 1 1000; echo last >&2; exit 3")
    ended(client)
    expected = "".join(f"{i}\n" for i in range(1, 1001))
    assert box(boxd, "logs", "s") == (0, expected, "last\n")
    assert box(boxd, "logs", "-f", "s", "default") == (0, expected, "last\n")


def test_logs_say_why_one_could_not_be_started(boxd, client, session):
    assert box(boxd, "start", "s", "nosuch", "x")[0] == 0
    assert ended(client)["exit_code"] == 127
    why = "nosuch: No such file or directory\n"
    for args in (["s"], ["-f", "s"]):
        assert box(boxd, "logs", *args) == (0, "", why)
    assert box(boxd, "start", "s", "--workdir", "/etc/passwd", "pwd")[0] == 0
    ended(client)
    assert box(boxd, "logs", "s")[2] == "pwd: its cwd cannot be used: Not a directory\n"
    # A process that printed nothing has an empty log.
    begin(boxd, "exit 127")
    ended(client)
    assert box(boxd, "logs", "s") == (0, "", "")


def test_logs_follow(boxd, client, session):
    begin(boxd, "echo 1; read x; echo 2; echo e >&2; read x; echo 3")
    with start(boxd, "logs", "-f", "s") as process, relaylib.Relay(boxd, protocol="mcp") as relay:
        assert process.stdout.readline() == b"1\n"
        relay.send("")
        assert process.stdout.readline() == b"2\n"
        assert process.stderr.readline() == b"e\n"
        assert process.poll() is None
        relay.send("")
        assert process.stdout.read() == b"3\n"
        assert process.wait(10) == 0


def test_logs_follow_until_it_is_stopped_or_we_are(boxd, client, session):
    begin(boxd, "echo 1; sleep 1000")
    with start(boxd, "logs", "-f", "s") as one, start(boxd, "logs", "-f", "s") as two:
        assert one.stdout.readline() == two.stdout.readline() == b"1\n"
        two.send_signal(signal.SIGINT)
        assert two.wait(10) == 130
        assert box(boxd, "stop", "s")[0] == 0
        assert one.wait(10) == 0
        assert one.stderr.read() == b""


@parallellib.scene
def test_logs_follow_over_broken_connections(boxd):
    """They resume where they were: nothing is lost, nothing comes twice."""
    count = "i=0; while [ ! -e /tmp/end ]; do i=$((i+1)); echo $i; sleep 0.001; done"
    create(boxd)
    begin(boxd, f"{count}; echo end; exit 3")
    with Proxy(boxd.port) as proxy:
        with start(boxd, "logs", "-f", "s", endpoint=proxy.url) as process:
            out = [process.stdout.readline() for _ in range(50)]
            for _ in range(4):
                proxy.break_all()
                out += [process.stdout.readline() for _ in range(300)]
            assert box(boxd, "exec", "s", "touch", "/tmp/end")[0] == 0
            out += process.stdout.readlines()
            assert (process.wait(20), process.stderr.read()) == (0, b"")
        assert proxy.accepted >= 5
    assert out == [*(f"{number}\n".encode() for number in range(1, len(out))), b"end\n"]
    assert len(out) > 1250


def test_logs_follow_a_worker_that_is_killed(place):
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        assert box(boxd, "create", "s")[0] == 0
        begin(boxd, "echo one; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo two; echo e >&2")
        with start(boxd, "logs", "-f", "s") as process:
            assert process.stdout.readline() == b"one\n"
            boxd.kill_worker()
            boxd.wait_served(2)
            assert box(boxd, "exec", "s", "touch", "/tmp/go")[0] == 0
            out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, b"two\n", b"e\n")


def test_logs_of_one_that_closed_its_output(boxd, client, session):
    begin(boxd, "echo 1; exec >&- 2>&-; sleep 1")
    assert box(boxd, "logs", "-f", "s") == (0, "1\n", "")
    assert ended(client)["exit_code"] == 0


def test_what_is_not_held_is_said(boxd, client, session):
    begin(boxd, "seq -f %01000g 1 5000; echo end; read x")
    total = 5000 * 1001 + 4
    with relaylib.Relay(boxd, protocol="mcp") as relay:
        while relay.recv() != "end":
            pass
        relay.send("")
    ended(client)
    code, out, err = box(boxd, "logs", "s")
    assert code == 0 and out.endswith("05000\nend\n")
    # At least the last 64 KiB are there, whoever has read them, and the rest is counted.
    assert 64 * 1024 <= len(out) <= 3 * MIB
    assert err == f"box: {total - len(out)} bytes of stdout are no longer available\n"


def test_nobody_reads_and_it_runs_on(place):
    """Whole lines of the last MiB are kept, also for a new box-rpc and for clients that attach."""
    with nativelib.dialled(place) as client:
        create(client.boxd)
        look_at_a_log(client.boxd)


def look_at_a_log(boxd):
    begin(boxd, "seq -f %099g 1 50000; echo done > /workspace/done; read x; echo bye")
    wait_until(lambda: box(boxd, "exec", "s", "cat /workspace/done")[0] == 0, 20)
    total = 50000 * 100
    code, out, err = box(boxd, "logs", "s")
    assert code == 0 and 900 * 1024 < len(out) <= MIB
    assert out.split("\n")[0] == f"{50001 - len(out) // 100:099}" and out.endswith("50000\n")
    assert err == f"box: {total - len(out)} bytes of stdout are no longer available\n"
    code, shown, _ = box(boxd, "ps", "s")
    assert " running " in shown and "unread" not in shown
    os.kill(boxd.worker, signal.SIGKILL)
    wait_until(lambda: box(boxd, "logs", "s")[:2] == (0, out), 15)
    code, got, said = box(boxd, "attach", "s", data=b"\n")
    # The oldest lines are dropped to make room.
    assert code == 0 and (out + "bye\n").endswith("\n" + got) and len(got) > 800 * 1024
    assert said == "" or "bytes of output were dropped before we read them" in said


def test_a_slow_reader_of_a_log_does_not_stop_it(boxd, client, session):
    begin(boxd, "echo first; read x; seq -f %099g 1 100000; echo last; touch done; read y; exit 0")
    attach = start(boxd, "attach", "s", stdin=subprocess.PIPE)
    try:
        assert attach.stdout.readline() == b"first\n"
        attach.stdin.write(b"\n")
        attach.stdin.flush()
        # Nobody reads the output of attach: its pipe is full, and the process continues.
        wait_until(lambda: box(boxd, "exec", "s", "ls done")[0] == 0, 20)
        attach.stdin.close()
        got = attach.stdout.read()
        said = attach.stderr.read().decode()
        assert attach.wait(10) == 0 and got.endswith(b"100000\nlast\n")
        missed = [int(line.split()[1]) for line in said.splitlines() if "were dropped" in line]
        assert missed and sum(missed) + len(got) == 100000 * 100 + 5
    finally:
        attach.kill()
        attach.wait()
        attach.stdout.close()
        attach.stderr.close()


def test_who_waits_for_a_reader_is_said(boxd, client, session):
    """A process for a relay loses nothing, so it waits; ps and its info say so."""
    spec = {"process_id": "mcp", "command": "seq", "args": ["1", "1000000"]}
    client.ask("box_start_managed_process", {"session_id": "s", "spec": spec})
    wait_until(lambda: "waiting: 1024 KiB unread" in box(boxd, "ps", "s")[1], 15)
    asked = {"session_id": "s", "process_id": "mcp"}
    info = client.ask("box_get_managed_process", asked)
    assert info["waiting"] == {"unread_bytes": MIB} and "log_bytes" not in info
    with relaylib.Relay(boxd, "mcp", protocol="mcp") as relay:
        while relay.recv() != "1000000":
            pass
    assert "waiting" not in client.ask("box_get_managed_process", asked)
    for wrong in (1, 65535, 16777217):
        refused = client.fail(
            "box_start_managed_process", {"session_id": "s", "spec": {**spec, "log_bytes": wrong}}
        )
        assert "log_bytes must be 0, or from 65536 to 16777216" in refused


def test_only_the_end_of_stderr_is_kept(boxd, client, session):
    begin(boxd, "seq 1 100000 >&2")
    ended(client)
    code, out, err = box(boxd, "logs", "s")
    assert code == 0 and out == ""
    said, rest = err.split("\n", 1)
    assert said.endswith("bytes of stderr are no longer available")
    assert len(rest) == 16 * 1024 and rest.endswith("\n99999\n100000\n")


def test_logs_of_nobody(boxd, session):
    for args, name in [
        (["s"], "BoxManagedProcessNotFoundError"),
        (["s", "x"], "BoxManagedProcessNotFoundError"),
        (["nosuch"], "BoxSessionNotFoundError"),
    ]:
        code, out, err = box(boxd, "logs", *args)
        assert code == 125 and out == "" and name in err
        # Named by the name that its user gave it, not by the runtime's own.
        assert f"session {args[0]} " in err, err


# attach


def test_attach(boxd, client, session):
    begin(boxd, "echo hello; while read x; do echo got $x; done; echo bye; exit 7")
    assert box(boxd, "attach", "s", data=b"a\nb\n") == (7, "hello\ngot a\ngot b\nbye\n", "")


def test_attach_gives_the_end_of_a_signal(boxd, client, session):
    begin(boxd, "read x; kill -11 $$")
    assert box(boxd, "attach", "s", "default", data=b"\n") == (139, "", "")


def test_detached_it_runs_on(boxd, client, session):
    begin(boxd, "echo one; while read x; do echo got $x; done")
    with start(boxd, "attach", "s", stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"one\n"
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"got x\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    assert relaylib.info(client)["status"] == "running"
    # Output that was shown is not repeated; stdin from /dev/null is not the end of input.
    with start(boxd, "attach", "s") as process:
        wait_until(lambda: relaylib.info(client)["attached"], what="attached")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143
        assert process.stdout.read() == b""
    assert relaylib.info(client)["status"] == "running"


def test_the_second_is_told_that_it_waits(boxd, client, session):
    begin(boxd, "echo one; while read x; do echo got $x; done; exit 4")
    with start(boxd, "attach", "s", stdin=subprocess.PIPE) as first:
        assert first.stdout.readline() == b"one\n"
        with start(boxd, "attach", "s", stdin=subprocess.PIPE) as second:
            told = b"box: another client is attached: waiting until it detaches\n"
            assert second.stderr.readline() == told
            first.send_signal(signal.SIGINT)
            assert first.wait(10) == 130
            assert second.communicate(b"now\n", timeout=10) == (b"got now\n", b"")
            assert second.returncode == 4


def test_attach_to_nobody(boxd, client, session):
    begin(boxd, "exit 0")
    ended(client)
    for args, name in [
        (["s"], "BoxManagedProcessConflictError"),
        (["s", "x"], "BoxManagedProcessNotFoundError"),
        (["nosuch"], "BoxSessionNotFoundError"),
    ]:
        code, out, err = box(boxd, "attach", *args)
        assert code == 125 and out == "" and name in err, err


def test_stopped_while_attached(boxd, client, session):
    begin(boxd, "echo one; sleep 1000")
    with start(boxd, "attach", "s", stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"one\n"
        assert box(boxd, "stop", "s")[0] == 0
        process.stdin.close()
        assert process.wait(10) == 125
        assert b"stopped or replaced" in process.stderr.read()


def test_much_both_ways(boxd, client, session):
    """A process without a log waits for its reader: nothing is dropped."""
    data = os.urandom(5 * MIB)
    relaylib.shell_in(client, "exec cat")
    with start(boxd, "attach", "s", stdin=subprocess.PIPE) as process:
        out, err = process.communicate(data, timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out == data


def test_broken_connections_lose_and_double_nothing(boxd, client, session):
    """Lines go in and come back while the connection is cut repeatedly; the process has no log."""
    relaylib.shell_in(client, "exec cat")
    data = b"".join(f"{i} {'x' * 200}\n".encode() for i in range(60000))
    breaks = 5
    with Proxy(boxd.port) as proxy:
        with start(boxd, "attach", "s", endpoint=proxy.url, stdin=subprocess.PIPE) as process:

            def cut():
                for _ in range(breaks):
                    before = relaylib.peek(client)
                    wait_until(lambda: relaylib.peek(client) > before + 300000, what="output")
                    proxy.break_all()

            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                cutting = pool.submit(cut)
                out, err = process.communicate(data, timeout=60)
                cutting.result()
        assert (process.returncode, err) == (0, b"")
        assert out == data
        # Our own, the relay's, and at least two more: a cut may happen while there is no
        # connection.
        assert proxy.accepted >= 4


@parallellib.scene
def test_another_writes_while_the_connection_is_broken(boxd):
    """Unsent input is appended after what the other client has written."""
    create(boxd)
    begin(boxd, "while read x; do echo got $x; done")
    with Proxy(boxd.port) as proxy:
        with start(boxd, "attach", "s", endpoint=proxy.url, stdin=subprocess.PIPE) as process:
            process.stdin.write(b"a\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"got a\n"
            time.sleep(3)  # until it knows that this was taken
            with relaylib.V1(boxd, turn=False) as other:
                accepted = proxy.accepted
                proxy.break_all()
                other.wait_turn()
                other.say(relaylib.DATA, other.next, b"bbb\n")
                assert other.output(8) == b"got bbb\n"
                wait_until(lambda: proxy.accepted > accepted, what="in line")
                process.stdin.write(b"c\n")
                process.stdin.flush()
                time.sleep(3)  # until it has read that
            out, err = process.communicate(timeout=20)
    # The other client has confirmed nothing of what it read.
    assert (process.returncode, out, err) == (0, b"got bbb\ngot c\n", b"")


@parallellib.scene
def test_another_writes_behind_what_nobody_took(boxd, tmp_path):
    """How much of the sent input has reached the process is unknown then, and the message says so."""
    create(boxd)
    begin(boxd, "echo one; until [ -e /tmp/go ]; do sleep 0.05; done; exec cat > /dev/null")
    # More than fits before the process: not all of it is confirmed.
    (tmp_path / "input").write_bytes(bytes(8 * MIB))
    with Proxy(boxd.port) as proxy, open(tmp_path / "input", "rb") as data:
        with start(boxd, "attach", "s", endpoint=proxy.url, stdin=data) as process:
            assert process.stdout.readline() == b"one\n"
            time.sleep(2)  # until it has sent what finds room
            with relaylib.V1(boxd, turn=False) as other:
                accepted = proxy.accepted
                proxy.break_all()
                other.wait_turn()
                other.say(relaylib.DATA, other.next, b"b")
                assert box(boxd, "exec", "s", "touch /tmp/go")[0] == 0
                other.taken(other.next + 1)
                wait_until(lambda: proxy.accepted > accepted, what="in line")
            out, err = process.communicate(timeout=20)
    assert process.returncode == 125
    assert b"another client wrote to the process while the connection was broken" in err


def test_worker_killed_while_attached(place):
    with nativelib.dialled(place) as client:
        boxd = client.boxd
        assert box(boxd, "create", "s")[0] == 0
        begin(boxd, "echo one; while read x; do echo got $x; done; exit 5")
        with start(boxd, "attach", "s", stdin=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"one\n"
            boxd.kill_worker()
            out, err = process.communicate(b"a\nb\n", timeout=20)
        assert (process.returncode, out, err) == (5, b"got a\ngot b\n", b"")


def test_ended_while_the_connection_was_broken(boxd, client, session):
    begin(boxd, "echo one; read x; echo two; seq 1 20000; exit 6")
    with Proxy(boxd.port) as proxy:
        with start(boxd, "attach", "s", endpoint=proxy.url, stdin=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"one\n"
            process.send_signal(signal.SIGSTOP)
            proxy.break_all()
            wait_until(lambda: not relaylib.info(client)["attached"], what="detached")
            with relaylib.Bare(boxd.port, "default", protocol="box.v1") as bare:
                bare.send(relaylib.pack(relaylib.BEGIN, 4), opcode=rawlib.BINARY)
                while relaylib.unpack(bare.recv())[0] != relaylib.BEGIN:
                    pass
                data = relaylib.pack(relaylib.DATA, 0, b"\n")
                bare.send(data, opcode=rawlib.BINARY)
                ended(client)
            process.send_signal(signal.SIGCONT)
            out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (6, b"")
    assert out == b"two\n" + "".join(f"{i}\n" for i in range(1, 20001)).encode()


def test_usage(boxd):
    for command in ("logs", "attach", "stop", "start"):
        code, out, err = box(boxd, command)
        assert code == 125 and f"see box {command} --help" in err
        assert clilib.box(command, "--help", private=False)[0] == 0
    assert box(boxd, "ps", "a", "b")[0] == 125
    assert boxdlib.is_alive(boxd.pid)
