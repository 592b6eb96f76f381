"""LangBot's own services in a container, which connect to the runtime in another container.

Run by the python of an environment that has the package, with one argument: a JSON map {instance,
host_root, profile}. The address of the runtime is not configured: LangBot derives it, as
/.dockerenv exists. Prints one JSON line: the results by name.
"""

import asyncio
import contextlib
import json
import os
import sys

import langbot_steps
from langbot_drive import Drive


async def use(drive):
    out, box, context = drive.out, drive.box, drive.context
    out["status"] = await box.get_status(context)
    acquired = await drive.runner.acquire(context, {"reuse_key": "person"})
    await drive.runner.bind(context, drive.query, "run1", acquired["id"])
    imported = (await drive.runner.import_attachments(drive.query, None))["items"]
    await drive.tools.initialize()
    out["letter"] = (await drive.sh(f"cat {imported[0]['path']}"))["stdout"]
    out["exec"] = await drive.sh("id -u; echo made > note; exit 3")
    tenant = box.workspace_host_path(context)
    with open(f"{tenant}/note") as file:
        out["note"] = file.read()
    out["owners"] = [os.stat(path).st_uid for path in (tenant, f"{tenant}/note")]
    out["limit"] = (await drive.sh("head -c 900m /dev/zero | tail; echo $?"))["stdout"]
    await langbot_steps.run_skill(drive)


async def run(wanted):
    drive = Drive({**wanted, "endpoint": "", "marker": "600"})
    await drive.box.initialize()
    out = drive.out
    out["available"], out["error"] = drive.box.available, drive.box._connector_error
    out["relay"] = drive.box._runtime_connector.ws_relay_base_url
    try:
        if drive.box.available:
            await use(drive)
    finally:
        await drive.box.shutdown()
    return out


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        results = asyncio.run(run(json.loads(sys.argv[1])))
    print(json.dumps(results))
