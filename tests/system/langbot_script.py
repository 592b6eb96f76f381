"""Drives the real services of `langbot` against a runtime; only the application is faked.

Run by the python of an environment that has the package, with one argument: a JSON map {endpoint,
instance, host_root, profile}. Prints one JSON line: the results by name.
"""

import asyncio
import base64
import json
import logging
import sys
import types

from langbot.pkg.api.http.context import ExecutionContext
from langbot.pkg.box.runner import RunnerBoxService
from langbot.pkg.box.service import BoxService
from langbot.pkg.provider.tools.loaders.native import NativeToolLoader
from langbot_plugin.api.entities.builtin.platform import message

WORKSPACE = "7c0d8f6e-5d0b-4a39-9a51-0d1c4f1f9a77"
BIG = bytes(range(256)) * (3 << 12)  # 3 MiB: the references cannot export that
LETTER = "grüße, 漢字\n".encode()


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
            "allowed_mount_roots": [wanted["host_root"]],
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


def make_query(instance):
    attached = message.File(name="letter.txt", base64=base64.b64encode(LETTER).decode())
    return types.SimpleNamespace(
        query_id=1,
        query_uuid="0b0e",
        instance_uuid=instance,
        workspace_uuid=WORKSPACE,
        placement_generation=1,
        variables={},
        message_chain=message.MessageChain([attached]),
        launcher_type="person",
        launcher_id="someone",
    )


async def raised(awaitable):
    try:
        return ["nothing raised", repr(await awaitable)]
    except Exception as exc:
        return [type(exc).__name__, str(exc)]


async def run_tools(application, query, out):
    tools = NativeToolLoader(application)
    await tools.initialize()
    out["tools"] = [tool.name for tool in await tools.get_tools()]

    async def use(name, **parameters):
        return await tools.invoke_tool(name, parameters, query)

    out["exec"] = await use("exec", command="echo hello; id -u; pwd; exit 3")
    out["late"] = await use("exec", command="echo so far; sleep 30", timeout_sec=1)
    out["write"] = await use("write", path="/workspace/a/note.txt", content="one\ntwo\n")
    out["read"] = await use("read", path="/workspace/a/note.txt")
    out["edit"] = await use(
        "edit", path="/workspace/a/note.txt", old_string="two", new_string="three"
    )
    out["grep"] = await use("grep", path="/workspace", pattern="thr.e")
    out["glob"] = await use("glob", path="/workspace", pattern="**/*.txt")


async def run_runner(box, context, query, out):
    runner = RunnerBoxService(box)
    out["status"] = await runner.status(context)
    acquired = await runner.acquire(context, {"reuse_key": "person"})
    out["again"] = await runner.acquire(context, {"reuse_key": "person"}) == acquired
    out["acquired"] = acquired["status"]
    bound = await runner.bind(context, query, "run1", acquired["id"])
    out["outbox"] = bound["outbox"]
    imported = await runner.import_attachments(query, None)
    out["imported"] = imported["items"]
    return runner, bound


async def run_export(runner, application, query, bound, out):
    """A copy of what came in, and something large."""
    tools = NativeToolLoader(application)
    source, target = out["imported"][0]["path"], bound["outbox"]
    command = (
        f"mkdir -p {target}; cp {source} {target}/copy.txt; "
        f"python3 -c 'open(\"{target}/big.bin\", \"wb\").write(bytes(range(256)) * {3 << 12})'"
    )
    out["made"] = await tools.invoke_tool("exec", {"command": command}, query)
    exported = await runner.export_files(query, [f"{target}/copy.txt", f"{target}/big.bin"])
    out["exported"] = sorted([item["name"], item["size"]] for item in exported["items"])
    kept = query._box_binding.exported.values()
    data = [base64.b64decode(item["base64"].split(";base64,")[-1]) for item in kept]
    out["exported whole"] = sorted(data, key=len) == [LETTER, BIG]
    out["missing"] = await raised(runner.export_files(query, [f"{target}/nothing"]))


async def run(wanted):
    out = {}
    application = make_application(wanted)
    query = make_query(wanted["instance"])
    box = application.box_service = BoxService(application)
    await box.initialize()
    out["available"], out["error"] = box.available, box._connector_error
    out["backend"] = (await box.get_backend_status()) if box.available else None
    context = ExecutionContext(
        instance_uuid=wanted["instance"], workspace_uuid=WORKSPACE, placement_generation=1
    )
    runner, bound = await run_runner(box, context, query, out)
    await run_tools(application, query, out)
    await run_export(runner, application, query, bound, out)
    out["sessions"] = await box.get_sessions(context)
    out["storage"] = await box.get_storage_analysis(context)
    out["tenant folder"] = box.workspace_host_path(context)
    await box.shutdown()
    return out


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.loads(sys.argv[1])))))
