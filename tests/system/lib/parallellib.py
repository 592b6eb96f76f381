"""Runs slow tests of a module in parallel: tests that mostly wait are all started, each in a thread
with a boxd of its own, when the first of them asks for `scenes`. Each test then waits for its own
scene and has its result.

    @pytest.fixture(scope="module")
    def scenes(request, nothing_left):
        with parallellib.begun(request) as made:
            yield made

    @parallellib.scene
    def test_slow(client): ...

A scene can ask for its parameters and for the fixtures in MADE, each of which is made for it alone
(except the place).
"""

import concurrent.futures
import contextlib
import inspect

import pytest

import nativelib

OF_A_MODE = {"mode", "place", "client", "boxd"}  # who asks for one of these is run in each mode
MADE = {*OF_A_MODE, "tmp_path"}


def scene(function):
    """A test that waits for the result of this function."""
    wanted = inspect.signature(function).parameters
    modes = bool(OF_A_MODE & set(wanted))
    given = [name for name in wanted if name not in MADE]
    names = ["request", "scenes", *(["mode"] if modes else []), *given]

    def test(request, scenes, **_):
        scenes[request.node.name].result()

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    test.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    for name in ("__name__", "__doc__", "__module__"):
        setattr(test, name, getattr(function, name))
    test.scene = function
    return pytest.mark.parametrize("mode", nativelib.MODES)(test) if modes else test


def play(function, options, arguments):
    """Runs in the scene's thread."""
    wanted = inspect.signature(function).parameters
    with contextlib.ExitStack() as stack:
        if {"client", "boxd"} & set(wanted):
            client = stack.enter_context(nativelib.dialled(arguments["place"], **options))
            arguments = {**arguments, "client": client, "boxd": client.boxd}
        function(**{name: arguments[name] for name in wanted})


def params(item):
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def mode_of(item):
    return params(item).get("mode")


@contextlib.contextmanager
def begun(request, **options):
    """The selected scenes of this module: futures, by the names of their tests. The options are
    those of nativelib.dialled."""
    chosen = [
        item
        for item in request.session.items
        if item.module is request.module and hasattr(item.function, "scene")
    ]
    folders = request.getfixturevalue("tmp_path_factory")
    modes = {mode_of(item) for item in chosen} - {None}
    with contextlib.ExitStack() as stack:
        places = {
            mode: stack.enter_context(nativelib.Place(mode))
            for mode in modes
            if not nativelib.missing(mode)
        }
        pool = concurrent.futures.ThreadPoolExecutor(len(chosen) or 1)
        stack.callback(pool.shutdown, cancel_futures=True)

        def begin(item):
            mode = mode_of(item)
            if mode and mode not in places:
                return pool.submit(nativelib.skip_if_missing, mode)
            made = {"place": places.get(mode), "tmp_path": folders.mktemp("scene")}
            arguments = {**params(item), **made}
            return pool.submit(play, item.function.scene, options, arguments)

        yield {item.name: begin(item) for item in chosen}
