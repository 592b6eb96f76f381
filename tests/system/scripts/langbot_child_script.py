"""LangBot's own connector and services with a runtime that they start as their child, on stdio.

Run by the python of an environment that has the package, with one argument: a JSON map {instance,
host_root, profile}. Prints one JSON line: the results by name.
"""

import asyncio
import json
import os
import pathlib
import sys

from langbot.pkg.box.runner import RunnerBoxService
from langbot.pkg.box.service import BoxService
from langbot.pkg.provider.tools.loaders.native import NativeToolLoader

from langbot_drive import choose_child, make_application, make_context, make_query


def process_name(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


async def use(box, application, wanted, out):
    process = box._runtime_connector._subprocess
    out["child"] = process_name(process.pid)
    parent = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
    out["is our child"] = int(parent) == os.getpid()
    context = make_context(wanted["instance"])
    query = make_query(wanted["instance"])
    runner = RunnerBoxService(box)
    acquired = await runner.acquire(context, {"reuse_key": "person"})
    await runner.bind(context, query, "run1", acquired["id"])
    tools = NativeToolLoader(application)
    await tools.initialize()
    out["exec"] = await tools.invoke_tool("exec", {"command": "echo hello; exit 3"}, query)
    out["status"] = await box.get_status(context)
    return process


async def run(wanted):
    choose_child(port=0)
    out = {}
    application = make_application({**wanted, "endpoint": ""})
    box = application.box_service = BoxService(application)
    await box.initialize()
    out["available"], out["error"] = box.available, box._connector_error
    process = await use(box, application, wanted, out) if box.available else None
    await box.shutdown()
    if process:
        out["exit code"] = await asyncio.wait_for(process.wait(), 10)
    return out


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.loads(sys.argv[1])))))
