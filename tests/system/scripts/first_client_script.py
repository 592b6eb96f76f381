"""Drives a runtime with the first published client that had a sandbox (langbot-plugin 0.4), as
LangBot 4.10 did: it sends no token, no instance and no context, and knows sessions by the names it
gave.

Run by a python that finds the package, with one argument: a JSON map {carrier, command, env, url,
relay}. `relay` is the base address of relays; over stdio the port of the command. Prints one JSON
line: the results by name. The package is not modified.
"""

import asyncio
import json
import logging
import sys
import time

import aiohttp
from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.models import BoxManagedProcessSpec, BoxSpec
from langbot_plugin.entities.io.actions.enums import CommonAction
from langbot_plugin.runtime.io.controllers.stdio.client import StdioClientController
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler


class Drive:
    def __init__(self, wanted):
        self.wanted = wanted
        self.client = ActionRPCBoxClient(logging.getLogger("client"))
        self.results = {}

    async def error(self, awaitable):
        """The class of the client's exception."""
        try:
            return ["nothing raised", repr(await awaitable)]
        except Exception as exc:
            return [type(exc).__name__, str(exc)]

    async def execute(self, cmd, session="s", **spec):
        result = await self.client.execute(BoxSpec(cmd=cmd, session_id=session, **spec))
        return result.model_dump(mode="json")

    async def names(self):
        return sorted(one["session_id"] for one in await self.client.get_sessions())

    async def commands(self):
        out, client = self.results, self.client
        out["backend"] = await client.get_backend_info()
        out["echo"] = await self.execute("echo hello; echo e >&2; exit 3")
        await self.execute("echo kept >/tmp/f")
        out["kept"] = await self.execute("cat /tmp/f")
        out["offline"] = await self.execute("ls /sys/class/net 2>/dev/null; cat /proc/net/route")
        out["listed"] = await self.names()
        out["late"] = await self.execute("echo so far; sleep 60", "late", timeout_sec=1)
        out["listed late"] = await self.names()
        out["got late"] = await self.error(client.get_session("late"))
        out["status late"] = await client.get_status()

    async def processes(self):
        out, client = self.results, self.client
        out["created"] = await client.create_session(BoxSpec(cmd="", session_id="mcp shared"))
        cat = BoxManagedProcessSpec(command="cat", args=[], cwd="/workspace")
        out["started"] = (await client.start_managed_process("s", cat)).model_dump(mode="json")
        out["session"] = await client.get_session("s")
        url = client.get_managed_process_websocket_url("s", self.wanted["relay"])
        async with aiohttp.ClientSession() as web, web.ws_connect(url) as relay:
            await relay.send_str("there and back")
            out["echoed"] = (await asyncio.wait_for(relay.receive(), 10)).data
        nobody = url.replace("/s/", "/nobody/")
        async with aiohttp.ClientSession() as web:
            out["no relay"] = (await self.error(web.ws_connect(nobody)))[1]
        out["stopped"] = await client.stop_managed_process("s")
        out["got stopped"] = await self.error(client.get_managed_process("s"))

    async def ends(self):
        out, client = self.results, self.client
        out["deleted"] = await client.delete_session("mcp shared")
        out["got deleted"] = await self.error(client.get_session("mcp shared"))
        out["listed deleted"] = await self.names()
        out["conflict"] = await self.error(self.execute("true", memory_mb=64))
        out["skills"] = await client.list_skills()

    async def on_connection(self, connection):
        handler = Handler(connection)
        self.client.set_handler(handler)
        reader = asyncio.create_task(handler.run())
        try:
            await handler.call_action(CommonAction.PING, {}, timeout=15)
            await self.client.init(self.wanted["config"])
            await self.client.initialize()
            await self.commands()
            await self.processes()
            await self.ends()
            await self.client.shutdown()
            self.client.set_handler(handler)
            self.results["listed at the end"] = await self.names()
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def on_failure(self, controller, exc):
        raise exc

    async def run(self):
        wanted = self.wanted
        if wanted["carrier"] == "websocket":
            await WebSocketClientController(wanted["url"], self.on_failure).run(self.on_connection)
            return self.results
        controller = StdioClientController(
            wanted["command"][0], wanted["command"][1:], wanted["env"]
        )
        await controller.run(self.on_connection)
        closing = time.monotonic()
        controller.process.stdin.close()
        self.results["exit_code"] = await controller.process.wait()
        self.results["exit_seconds"] = time.monotonic() - closing
        return self.results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(Drive(json.loads(sys.argv[1])).run())))
