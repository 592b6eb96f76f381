"""LangBot's services, and small stand-ins for the rest of LangBot that they need.

For scripts that are run by the python of an environment that has the package `langbot`.
"""

import asyncio
import base64
import hashlib
import logging
import types

from langbot.pkg.api.http.context import ExecutionContext
from langbot.pkg.box import connector
from langbot.pkg.box.runner import RunnerBoxService
from langbot.pkg.box.service import BoxService
from langbot.pkg.provider.tools.loaders.native import NativeToolLoader
from langbot.pkg.utils import platform
from langbot_plugin.api.entities.builtin.platform import message

WORKSPACE = "7c0d8f6e-5d0b-4a39-9a51-0d1c4f1f9a77"
LETTER = "grüße, 漢字\n".encode()
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8192  # 2 MiB


class Workspaces:
    def __init__(self, instance):
        self.instance_uuid = instance

    async def get_execution_binding(self, workspace_uuid, expected_generation=None):
        return types.SimpleNamespace(
            instance_uuid=self.instance_uuid,
            workspace_uuid=workspace_uuid,
            placement_generation=expected_generation or 1,
        )


def make_application(wanted):
    box = {
        "enabled": True,
        "backend": "local",
        "runtime": {"endpoint": wanted["endpoint"]},
        "local": {
            "profile": wanted["profile"],
            "host_root": wanted["host_root"],
            "allowed_mount_roots": [wanted["host_root"], *wanted.get("roots", [])],
        },
    }
    return types.SimpleNamespace(
        logger=logging.getLogger("langbot"),
        instance_config=types.SimpleNamespace(data={"box": box}),
        workspace_service=Workspaces(wanted["instance"]),
        deployment=types.SimpleNamespace(mode="oss", multi_workspace_enabled=False),
        event_loop=asyncio.get_running_loop(),
        skill_mgr=None,
    )


def choose_child(port):
    """LangBot has no settings for these two: in a container it connects to a host and starts no
    child, and its default port may be in use here."""
    platform.get_platform = lambda: "linux"
    connector._DEFAULT_PORT = port


def make_query(instance):
    attached = [
        message.File(name="letter.txt", base64=base64.b64encode(LETTER).decode()),
        message.Image(base64="data:image/png;base64," + base64.b64encode(PICTURE).decode()),
    ]
    return types.SimpleNamespace(
        query_id=1,
        query_uuid="0b0e",
        instance_uuid=instance,
        workspace_uuid=WORKSPACE,
        placement_generation=1,
        variables={},
        message_chain=message.MessageChain(attached),
        launcher_type="person",
        launcher_id="someone",
    )


def make_context(instance):
    return ExecutionContext(
        instance_uuid=instance, workspace_uuid=WORKSPACE, placement_generation=1
    )


def digest(data):
    return hashlib.sha256(data).hexdigest()


async def raised(awaitable):
    try:
        return ["nothing raised", repr(await awaitable)]
    except Exception as exc:
        return [type(exc).__name__, str(exc)]


class Drive:
    """One LangBot: its services, their working data, and the results so far."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.out = {}
        self.application = make_application(wanted)
        self.box = self.application.box_service = BoxService(self.application)
        self.context = make_context(wanted["instance"])
        self.query = make_query(wanted["instance"])
        self.runner = RunnerBoxService(self.box)
        self.tools = NativeToolLoader(self.application)

    async def use(self, name, **parameters):
        return await self.tools.invoke_tool(name, parameters, self.query)

    async def sh(self, command, **parameters):
        return await self.use("exec", command=command, **parameters)
