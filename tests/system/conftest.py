"""Rules for all system tests: the soak mark, a time limit for every test, shared fixtures."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import boxlib  # noqa: E402

TIMEOUT_SECONDS = 120


def pytest_configure(config):
    config.addinivalue_line("markers", "soak: a long form, run only with BOX_SOAK=1")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("soak"):
            if os.environ.get("BOX_SOAK") != "1":
                item.add_marker(pytest.mark.skip(reason="a long form: set BOX_SOAK=1 to run it"))
        elif not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(params=["stdio", "websocket"])
def carrier(request):
    return request.param


@pytest.fixture
def dial(carrier, tmp_path):
    """dial(**options) starts a boxd in a folder of its own and gives a client of it."""
    opened = []

    def start(**options):
        options.setdefault("cwd", tmp_path)
        manager = boxlib.dialled(carrier, **options)
        client = manager.__enter__()
        opened.append(manager)
        return client

    yield start
    for manager in reversed(opened):
        manager.__exit__(None, None, None)


@pytest.fixture
def client(dial):
    """A client, on each carrier, of a boxd that nobody has configured."""
    return dial()


@pytest.fixture
def box(dial):
    """A client, on each carrier, of a boxd with the fake backend."""
    return dial().init()


@pytest.fixture
def web(tmp_path):
    """A boxd for WebSocket clients."""
    with boxlib.Boxd(cwd=tmp_path) as boxd:
        yield boxd
