"""Answers that nobody reads: what is buffered, what is held back, when a connection is closed.

Times and sizes of memory are measured on the build BOX_RELEASE_FAKE.
"""

import select
import threading

import pytest

from boxdlib import fast_build, peak_kb, rss_kb, wait_until
from clientlib import context
from rawlib import Pipes, Ws, exec_data, frame, request
from crowdlib import metric, percentile

POLICY = 1008


def big_requests(count, first=0, size=1000000):
    """Each answer is slightly larger than `size`."""
    return [
        request("box_exec", exec_data(f"print {size}"), seq, context())
        for seq in range(first, first + count)
    ]


def check_answers(recv, count):
    seqs = set()
    for _ in range(count):
        answer = recv()
        assert answer["code"] == 0 and len(answer["data"]["stdout"]) == 1000000
        seqs.add(answer["seq_id"])
    assert len(seqs) == count


@pytest.mark.timeout(120)
def test_unread_large_answers(fast):
    """40 large answers are buffered, and arrive."""
    with Ws(fast.port) as ws, Ws(fast.port) as other:
        before = rss_kb(fast.worker)
        ws.send_raw(b"".join(frame(one) for one in big_requests(40)))
        wait_until(lambda: metric(fast, "box_requests_under_way") == 0, 10, "all execs to end")
        assert percentile(other.times(300), 0.5) < 20000
        grown = peak_kb(fast.worker) - before
        print(f"40 answers of 1 MB unread: memory +{grown} kB")
        assert grown < 64 * 1024 + 16 * 1024
        check_answers(ws.answer, 40)
        ws.ping()


class Sender(threading.Thread):
    """Sends requests, whose answers are twice as long, until told to stop or blocked."""

    def __init__(self, write):
        super().__init__(daemon=True)
        self.write = write
        self.ended = threading.Event()
        self.sent = 0
        self.seen, self.times = 0, 0

    def run(self):
        while not self.ended.is_set():
            self.write(request("__ping", seq=self.sent))
            self.sent += 1

    def blocked(self):
        """When so many checks, a few milliseconds apart, have seen no progress. Time alone does not
        count, because the host may have been stalled."""
        self.seen, self.times = self.sent, self.times + 1 if self.seen == self.sent else 0
        return self.times >= 200


def check_back_pressure(boxd, write, recv):
    worker = boxd.worker
    with Ws(boxd.port) as other:
        other.burst(500)
        before = rss_kb(worker)
        sender = Sender(write)
        sender.start()
        wait_until(sender.blocked, 30, "the sender to be blocked")
        queued = rss_kb(worker) - before
        assert sender.sent > 10000
        sent = sender.sent
        assert percentile(other.times(300), 0.5) < 20000
        assert sender.sent == sent, "it goes on reading"
        print(f"{sent} requests until blocked: memory +{queued} kB")
        assert peak_kb(worker) - before < 16 * 1024
        sender.ended.set()
        for seq in range(sent):
            answer = recv()
            assert (answer["seq_id"], answer["code"]) == (seq, 0)
        sender.join(20)
        for seq in range(sent, sender.sent):
            assert recv()["seq_id"] == seq


@pytest.mark.timeout(120)
def test_back_pressure(fast):
    with Ws(fast.port, timeout=60) as ws:
        check_back_pressure(fast, ws.send, ws.answer)
        ws.ping()


@pytest.mark.timeout(120)
def test_back_pressure_on_stdio(tmp_path):
    with Pipes(tmp_path, programs=fast_build()) as stdio:
        check_back_pressure(stdio.boxd, stdio.send, stdio.answer)
        stdio.call("__ping")


@pytest.mark.timeout(120)
def test_unread_large_answers_on_stdio(tmp_path):
    with Pipes(tmp_path, programs=fast_build()) as stdio, Ws(stdio.boxd.port) as other:
        other.ping()
        before = rss_kb(stdio.boxd.worker)
        for one in big_requests(40):
            stdio.send(one)
        wait_until(lambda: select.select([stdio.stdout], [], [], 0)[0], 5, "output")
        assert percentile(other.times(300), 0.5) < 20000
        grown = peak_kb(stdio.boxd.worker) - before
        print(f"40 answers of 1 MB unread on stdio: memory +{grown} kB")
        assert grown < 64 * 1024 + 16 * 1024
        check_answers(stdio.answer, 40)
        stdio.call("__ping")


@pytest.mark.timeout(120)
def test_more_unread_than_the_limit(fast):
    """With more than 256 MiB in the queue the connection is closed and its memory is released."""
    with Ws(fast.port) as ws, Ws(fast.port) as other:
        other.burst(500)
        before = rss_kb(fast.worker)
        ws.send_raw(b"".join(frame(one) for one in big_requests(110, size=3000000)))
        fast.wait_event("connection.given_up")
        other.ping()
        assert peak_kb(fast.worker) - before < 256 * 1024 + 16 * 1024
        # Data in flight may still arrive, then the end.
        assert ws.wait_closed(10).code in (POLICY, None)
        wait_until(lambda: rss_kb(fast.worker) - before < 16 * 1024, 5, "memory to come back")
        assert other.call("box_exec", exec_data("echo hi"), context())["stdout"] == "hi"
