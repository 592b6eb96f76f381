"""What LangBot does with skills and MCP servers: steps of langbot_script.py."""

import asyncio
import gc
import types

# Imported first, because LangBot's modules import each other in a circle.
import langbot.pkg.core.app  # noqa: F401
from langbot.pkg.provider.tools.loaders import skill
from langbot.pkg.provider.tools.loaders.mcp import MCPLoader
from langbot.pkg.skill.repository import SkillRepository
from websockets.asyncio.client import ClientConnection

from langbot_drive import raised

NAME = "everything"
LONG = "0123456789" * 70_000  # an answer of 700 kB: LangBot takes no message over 1 MiB

SKILL = {
    "SKILL.md": "---\nname: greet\ndescription: Greets.\n---\nRun greet.sh with a name.\n",
    "greet.sh": '#!/bin/sh\necho "hello, $1" "$(cat "${0%/*}/data/word")"\n',
    "data/word": "grüße\n",
}


# -- a skill


async def write_draft(drive, folder):
    """With the model's tools, as a model writes a skill."""
    for path, content in SKILL.items():
        await drive.use("write", path=f"{folder}/{path}", content=content)
    await drive.sh(f"chmod 755 {folder}/greet.sh")


async def run_skill(drive):
    """A skill is published, activated and used; its mount belongs to the commands of this run only."""
    out = drive.out
    sleeper = f"sleep {drive.wanted['marker']} & echo $! > /tmp/sleeper"
    await drive.sh(f"echo kept > /tmp/kept; {sleeper}")
    await write_draft(drive, "/workspace/drafts/greet")
    repository = SkillRepository(drive.application)
    draft = f"{drive.box.workspace_host_path(drive.context)}/drafts/greet"
    about = {"name": "greet", "description": "Greets."}
    await repository.import_skill_directory(drive.context, draft, about)
    snapshot = await repository.get_skill(drive.context, "greet", snapshot=True)
    skill.register_activated_skill(drive.query, snapshot)
    out["mounts"] = skill.build_execution_mounts(drive.application, drive.query)
    place = "/workspace/.skills/greet"
    tree = "find . -type f | sort"
    out["greeted"] = await drive.sh(f"{place}/greet.sh world && cd {place} && {tree}")
    out["spoiled"] = await drive.sh(f"echo x > {place}/data/word; rm {place}/greet.sh; ls {place}")
    out["skill read"] = await drive.use("read", path=f"{place}/SKILL.md")
    # The existing session, with its processes.
    out["same session"] = await drive.sh("cat /tmp/kept; kill -0 $(cat /tmp/sleeper) && echo runs")
    other = types.SimpleNamespace(**{**vars(drive.query), "variables": {}})
    path = out["mounts"][0]["mount_path"]
    command = {"command": f"cat {path[:-64]}*/SKILL.md || echo not here"}
    out["another run"] = await drive.tools.invoke_tool("exec", command, other)


# -- an MCP server


def server_config(drive):
    """An operator's folder with a program, which LangBot copies into the workspace."""
    folder = drive.wanted["server_folder"]
    return {
        "name": NAME,
        "uuid": drive.wanted["server"],
        "mode": "stdio",
        "enable": True,
        "extra_args": {
            "command": "node",
            "args": [f"{folder}/start.mjs", "stdio"],
            "env": {"GREETING": "grüße"},
            "box": {"host_path": folder, "network": drive.wanted["network"]},
        },
    }


def texts(contents):
    return [element.text for element in contents]


async def managed(drive, session):
    """The runtime's info about the server's process."""
    info = await drive.box.get_managed_process(
        drive.context, session._build_box_session_id(), session.server_uuid
    )
    return info if isinstance(info, dict) else info.model_dump(mode="json")


async def run_mcp(drive):
    """The loader starts a server as at LangBot's start, and the model uses its tools."""
    out, context = drive.out, drive.context
    loader = drive.application.mcp_loader = MCPLoader(drive.application)
    try:
        await loader.host_mcp_server(context, server_config(drive))
        session = loader.get_session(context, NAME)
        out["mcp"] = {"status": session.status.value, "error": session.error_message}
        out["mcp"]["phase"] = session.error_phase and session.error_phase.value
        await use_mcp(drive, loader, session, out["mcp"])
    finally:
        await loader.shutdown()
    out["mcp"]["gone"] = await raised(managed(drive, session))


async def use_mcp(drive, loader, session, out):
    context, query = drive.context, drive.query
    out["tools"] = sorted(tool.name for tool in await loader.get_tools(context))
    out["process"] = await managed(drive, session)

    async def call(name, **parameters):
        return texts(await loader.invoke_tool(name, parameters, query))

    out["echo"] = await call("echo", message="grüße")
    out["sum"] = await call("get-sum", a=40, b=2)
    out["env"] = await call("get-env")
    out["long"] = await call("echo", message=LONG) == [f"Echo: {LONG}"]
    calls = (call("echo", message=str(number)) for number in range(20))
    out["at once"] = [answer[0] for answer in await asyncio.gather(*calls)]
    out["wrong"] = await raised(call("get-sum", a="x", b=2))
    out["unknown"] = await raised(call("no-such-tool"))
    resources = await loader.get_resources(context, NAME)
    out["resources"] = len(resources)
    out["resource"] = await loader.read_resource(context, NAME, resources[0]["uri"])
    out["storage"] = await drive.box.get_storage_analysis(context)
    await break_off(session, out)
    out["echo again"] = await call("echo", message="again")
    out["process again"] = await managed(drive, session)


async def break_off(session, out):
    """The relay's connection is broken, and LangBot makes a new one."""
    relays = [
        found
        for found in gc.get_objects()
        if isinstance(found, ClientConnection) and "managed-process" in found.request.path
    ]
    out["relays"] = len(relays)
    before = session._connection_generation
    for relay in relays:
        relay.transport.abort()
    async with asyncio.timeout(30):
        while session._connection_generation == before:
            await asyncio.sleep(0.05)
