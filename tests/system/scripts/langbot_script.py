"""Drives the real services of `langbot` against a runtime; only the application is a stand-in.

Run by the python of an environment that has the package, with one argument: a JSON map {endpoint,
port, instance, host_root, roots, profile, network, server, server_folder, marker}. With an empty
endpoint LangBot starts the runtime as its child, whose relay is on that port. Prints one JSON line:
the results by name.
"""

import asyncio
import base64
import contextlib
import json
import os
import pathlib
import sys

import langbot_steps
from langbot_drive import LETTER, PICTURE, Drive, choose_child, digest, raised

BIG_BYTES = 6_000_000  # of a file to export; the references' clip of stdout ends at some 780 kB
PARCELS = [(f"parcel-{number}", os.urandom(256 << 10)) for number in range(3)]


async def run_runner(drive):
    """A pipeline run gets its box, and the user's attachments."""
    out, runner, context = drive.out, drive.runner, drive.context
    out["status"] = await runner.status(context)
    acquired = await runner.acquire(context, {"reuse_key": "person"})
    out["again"] = await runner.acquire(context, {"reuse_key": "person"}) == acquired
    out["acquired"] = acquired["status"]
    bound = await runner.bind(context, drive.query, "run1", acquired["id"])
    out["outbox"] = bound["outbox"]
    out["imported"] = (await runner.import_attachments(drive.query, None))["items"]


async def run_tools(drive):
    out, use = drive.out, drive.use
    await drive.tools.initialize()
    out["tools"] = [tool.name for tool in await drive.tools.get_tools()]
    out["exec"] = await drive.sh("echo hello; id -u; pwd; exit 3")
    out["late"] = await drive.sh("echo so far; sleep 30", timeout_sec=3)
    note = "/workspace/a/note.txt"
    out["write"] = await use("write", path=note, content="one\ntwo\n")
    out["append"] = await use("write", path=note, content="four\n", mode="append")
    out["read"] = await use("read", path=note)
    out["edit"] = await use("edit", path=note, old_string="two", new_string="three")
    out["grep"] = await use("grep", path="/workspace/a", pattern="thr.e")
    out["glob"] = await use("glob", path="/workspace/inbox", pattern="**/*.txt")
    out["list"] = await use("read", path="/workspace/a")
    binary = base64.b64encode(bytes(range(256))).decode()
    blob = "/workspace/a/blob"
    out["write binary"] = await use("write", path=blob, content=binary, encoding="base64")
    out["read binary"] = await use("read", path=blob, encoding="base64")
    out["read nothing"] = await use("read", path="/workspace/nothing")


async def run_attachments(drive):
    """The attachments as the box sees them, and as a LangBot sends them that does not see the
    folder."""
    out = drive.out
    paths = [item["path"] for item in out["imported"]]
    out["seen inside"] = (await drive.sh(f"sha256sum {' '.join(paths)}"))["stdout"]
    out["sent"] = [[digest(data), path] for data, path in zip((LETTER, PICTURE), paths)]
    folder = "/workspace/inbox/parcels"
    out["by exec"] = await drive.box._write_files_via_exec(drive.query, folder, PARCELS)
    inside = await drive.sh(f"cd {folder} && sha256sum *; rm -r {folder}")
    out["parcels inside"] = inside["stdout"]
    out["parcels"] = [[digest(data), name] for name, data in PARCELS]


async def run_export(drive):
    """A copy of the attachments, and a large file."""
    out, runner, query = drive.out, drive.runner, drive.query
    source, target = out["imported"][0]["path"], out["outbox"]
    command = (
        f"mkdir -p {target}; cp {source} {target}/copy.txt; "
        f"head -c {BIG_BYTES} /dev/urandom > {target}/big.bin; sha256sum {target}/big.bin"
    )
    out["made"] = await drive.sh(command)
    exported = await runner.export_files(query, [f"{target}/copy.txt", f"{target}/big.bin"])
    out["exported"] = sorted([item["name"], item["size"]] for item in exported["items"])
    kept = query._box_binding.exported.values()
    data = [base64.b64decode(item["base64"].split(";base64,")[-1]) for item in kept]
    small, big = sorted(data, key=len)
    out["exported whole"] = small == LETTER and digest(big) == out["made"]["stdout"].split()[0]
    out["missing"] = await raised(runner.export_files(query, [f"{target}/nothing"]))


async def run(wanted):
    if not wanted["endpoint"]:
        choose_child(wanted["port"])
    drive = Drive(wanted)
    out, box = drive.out, drive.box
    await box.initialize()
    out["available"], out["error"] = box.available, box._connector_error
    out["backend"] = (await box.get_backend_status()) if box.available else None
    child = getattr(box._runtime_connector, "_subprocess", None)
    out["child"] = pathlib.Path(f"/proc/{child.pid}/comm").read_text().strip() if child else None
    try:
        await run_runner(drive)
        await run_tools(drive)
        await run_attachments(drive)
        await run_export(drive)
        out["sessions"] = await box.get_sessions(drive.context)
        out["storage"] = await box.get_storage_analysis(drive.context)
        out["tenant folder"] = box.workspace_host_path(drive.context)
        await langbot_steps.run_skill(drive)
        await langbot_steps.run_mcp(drive)
    finally:
        await box.shutdown()
    if child:
        out["exit code"] = await asyncio.wait_for(child.wait(), 10)
    return out


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        results = asyncio.run(run(json.loads(sys.argv[1])))
    print(json.dumps(results))
