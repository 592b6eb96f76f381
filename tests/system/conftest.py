"""Shared by all system tests: marks, a time limit for every test, fixtures."""

import os
import pathlib
import signal
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent / name) for name in ("lib", "scripts")]

import boxdlib  # noqa: E402
import clientlib  # noqa: E402
import fakerpclib  # noqa: E402
import nativelib  # noqa: E402

TIMEOUT_SECONDS = 120
MICROVM_SECONDS = 300  # where there is a KVM at all, it is often slow


def pytest_configure(config):
    # A background job of a shell may ignore these signals, and its children would inherit that.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    config.addinivalue_line("markers", "soak: a long form, run only with BOX_SOAK=1")
    config.addinivalue_line("markers", "microvm: needs a KVM, run only with BOX_MICROVM (microvmlib.py)")
    config.addinivalue_line("markers", "smoke: the real thing from end to end, run by `make check`")
    config.addinivalue_line("markers", "whole: of microVMs, run by `make test-vm` alone")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("soak"):
            if os.environ.get("BOX_SOAK") != "1":
                item.add_marker(pytest.mark.skip(reason="a long form: set BOX_SOAK=1 to run it"))
        elif item.get_closest_marker("microvm"):
            item.add_marker(pytest.mark.timeout(MICROVM_SECONDS))
            if not os.environ.get("BOX_MICROVM"):
                item.add_marker(pytest.mark.skip(reason="needs a KVM: `make test-vm` runs it"))
        elif not item.get_closest_marker("timeout"):
            # The first test of a flow waits for all of its steps, the last one for those of all
            # flows.
            waits = "flow" in item.fixturenames
            seconds = nativelib.FLOW_SECONDS + 50 if waits else TIMEOUT_SECONDS
            item.add_marker(pytest.mark.timeout(seconds))


@pytest.fixture(params=["stdio", "websocket"])
def carrier(request):
    return request.param


@pytest.fixture
def dial(carrier, tmp_path):
    """dial(**options) starts a boxd in a folder of its own and returns a client of it."""
    opened = []

    def start(**options):
        options.setdefault("cwd", tmp_path)
        manager = boxdlib.dialled(carrier, **options)
        client = manager.__enter__()
        opened.append(manager)
        return client

    yield start
    for manager in reversed(opened):
        manager.__exit__(None, None, None)


@pytest.fixture
def client(dial):
    """A client, over each transport, of a boxd without configuration."""
    return dial()


@pytest.fixture
def box(dial):
    """A client, over each transport, of a boxd with the fake backend."""
    return dial().init()


@pytest.fixture
def web(tmp_path):
    """A boxd for WebSocket clients."""
    with boxdlib.Boxd(cwd=tmp_path) as boxd:
        yield boxd


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A boxd for WebSocket tests that leave nothing behind."""
    folder = tmp_path_factory.mktemp("shared")
    with boxdlib.Boxd(instance=clientlib.INSTANCE, cwd=folder) as boxd:
        yield boxd


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A boxd with a token and a trusted instance."""
    folder = tmp_path_factory.mktemp("locked")
    with boxdlib.Boxd(instance=clientlib.INSTANCE, token=clientlib.TOKEN, cwd=folder) as boxd:
        yield boxd


@pytest.fixture
def boxd(tmp_path):
    """A boxd with the fake backend, under sanitizers."""
    with boxdlib.fake_boxd(tmp_path) as started:
        yield started


@pytest.fixture
def fast(tmp_path):
    """The same at release speed."""
    with boxdlib.fake_boxd(tmp_path, programs=boxdlib.fast_build()) as started:
        yield started


@pytest.fixture(scope="module")
def nothing_left():
    """After the module no process, mount, cgroup or folder is left."""
    with nativelib.nothing_left():
        yield


@pytest.fixture(scope="module", params=nativelib.MODES)
def place(request, nothing_left):
    """A folder for a boxd with native boxes: as root, and as an ordinary user."""
    with nativelib.Place(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def native(place):
    """A client of a boxd with native boxes, which all tests of the module share."""
    with nativelib.dialled(place) as made:
        yield made


@pytest.fixture
def note():
    """Restores the file with the result of boxd's probe of this host: a boxd that a test deceives
    about the host must not leave a wrong one for others."""
    folder = pathlib.Path("/run/box")
    path = folder / "machine"
    made = not folder.exists()
    folder.mkdir(0o700, exist_ok=True)
    before = path.read_bytes() if path.exists() else None
    yield
    path.unlink(missing_ok=True)
    if before is not None:
        path.write_bytes(before)
        path.chmod(0o600)
    elif made:
        folder.rmdir()


@pytest.fixture
def programs(tmp_path):
    """boxd beside the fake box-rpc."""
    return fakerpclib.make_folder(tmp_path / "bin")


@pytest.fixture
def start_boxd(programs):
    """start_boxd(*args, **options) starts that boxd."""
    started = []

    def start(*args, **options):
        started.append(fakerpclib.FakeRpcBoxd(*args, programs=programs, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()
