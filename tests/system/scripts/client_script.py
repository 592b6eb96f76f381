"""Drives a runtime with the real client of `langbot-plugin`, as LangBot does.

Run by the python of an environment that has the package (0.5.x or 0.7.x), with one argument: a
JSON map {carrier, command, env, url, headers, instance, scenario, default_config}. Prints one JSON
line: the results by name. Nothing of the package is changed.
"""

import asyncio
import datetime
import hashlib
import json
import logging
import sys
import time

from langbot_plugin.box import errors
from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.models import BoxManagedProcessSpec, BoxSpec, SandboxAdmissionGrant
from langbot_plugin.entities.io.actions.enums import CommonAction
from langbot_plugin.entities.io.context import ActionContext
from langbot_plugin.runtime.io.controllers.stdio.client import StdioClientController
from langbot_plugin.runtime.io.controllers.ws.client import WebSocketClientController
from langbot_plugin.runtime.io.handler import Handler

FILE_BYTES = 5 * 1024 * 1024
TEXT_BYTES = 1024 * 1024


def awkward_text():
    """Every character that might confuse a codec, between letters so that nothing is stripped."""
    controls = "".join(chr(code) for code in range(1, 0x20))
    others = "\x7f\x80\x85\x9f\xa0\u200b\u2028\u2029\ufeff\ufffd\uffff"
    quotes = "\"'\\/`${}<>&%"
    joined = "é漢字😀" + "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0010ffff"
    return "a" + controls + quotes + others + joined + "z"


class Drive:
    def __init__(self, wanted):
        self.wanted = wanted
        self.client = ActionRPCBoxClient(logging.getLogger("client"))
        self.results = {}
        self.handler = None

    def context(self, workspace="ws1", generation=1):
        return ActionContext(
            instance_uuid=self.wanted["instance"],
            workspace_uuid=workspace,
            placement_generation=generation,
        )

    async def execute(self, cmd, session="s", context=None, **spec):
        result = await self.client.execute(
            BoxSpec(cmd=cmd, session_id=session, **spec), context or self.context()
        )
        return result.model_dump(mode="json")

    async def error(self, awaitable):
        """The class and text of the client's exception."""
        try:
            got = await awaitable
        except Exception as exc:
            known = type(exc) is getattr(errors, type(exc).__name__, None)
            return [type(exc).__name__ if known else f"unknown {type(exc)}", str(exc)]
        return ["nothing raised", repr(got)]

    # -- scenarios

    async def connect(self):
        """LangBot's first requests, and requests to a runtime that runs nothing."""
        out = self.results
        started = time.monotonic()
        out["ping"] = await self.handler.call_action(CommonAction.PING, {}, timeout=15)
        out["init"] = await self.client.init(self.wanted["default_config"])
        out["connect_seconds"] = time.monotonic() - started
        out["initialize"] = await self.client.initialize()
        out["backend_info"] = await self.client.get_backend_info()
        out["status"] = await self.client.get_status(self.context())
        out["sessions"] = await self.client.get_sessions(self.context())
        started = time.monotonic()
        data = hashlib.sha256(b"file").digest() * (FILE_BYTES // 32)
        out["file_key"] = await self.handler.send_file(data, "zip")
        out["file_seconds"] = time.monotonic() - started

    async def sandbox(self):
        """Commands and sessions with the fake backend."""
        out, client = self.results, self.client
        await client.init({**self.wanted["default_config"], "backend": "fake"})
        await client.initialize()
        out["backend_info"] = await client.get_backend_info()
        out["echo"] = await self.execute("echo hello")
        out["exit"] = await self.execute("exit 3")
        out["signal"] = await self.execute("signal 9")
        out["reused"] = len(await client.get_sessions(self.context()))
        out["created"] = await client.create_session(
            BoxSpec(session_id="made", memory_mb=64), self.context()
        )
        out["created_again"] = await client.create_session(
            BoxSpec(session_id="made", memory_mb=64), self.context()
        )
        out["got"] = await client.get_session("made", self.context())
        out["listed"] = await client.get_sessions(self.context())
        out["listed_elsewhere"] = await client.get_sessions(self.context("ws2"))
        out["status"] = await client.get_status(self.context())
        out["conflict"] = await self.error(self.execute("echo x", "made", memory_mb=128))
        out["deleted"] = await client.delete_session("made", self.context())
        out["got_deleted"] = await self.error(client.get_session("made", self.context()))
        out["timeout"] = await self.execute("sleep 60000", "late", timeout_sec=1)
        out["after_timeout"] = await self.error(client.get_session("late", self.context()))
        several = [self.execute(f"echo {n}", f"p{n % 5}") for n in range(40)]
        out["side_by_side"] = [one["stdout"] for one in await asyncio.gather(*several)]
        await self.texts()

    async def texts(self):
        out = self.results
        text = awkward_text()
        out["awkward"] = (await self.execute("echo " + text))["stdout"] == text
        started = time.monotonic()
        large = await self.execute("print 1000000")
        out["large_seconds"] = time.monotonic() - started
        out["large"] = large["stdout"] == "x" * 1000000
        for name, piece in {"long_cmd": "y", "long_wide_cmd": "漢😀\u2028é\\"}.items():
            long = "b" + piece * (TEXT_BYTES // len(piece.encode())) + "e"
            out[name] = (await self.execute("echo " + long))["stdout"] == long

    async def errors(self):
        """Every error name, from the backend and from real causes."""
        out, client = self.results, self.client
        await client.init({"backend": "fake", "limits": {"max_sessions": 1}})
        out["named"] = {
            name: await self.error(self.execute(f"fail {name} some text"))
            for name in self.wanted["names"]
        }
        natural = out["natural"] = {}
        here = self.context()
        natural["validation"] = await self.error(self.execute(""))
        natural["not_found"] = await self.error(client.get_session("nope", here))
        natural["conflict"] = await self.error(self.execute("echo x", memory_mb=64))
        natural["capacity"] = await self.error(self.execute("echo x", "second"))
        natural["process"] = await self.error(client.get_managed_process("s", "p", here))
        natural["process_stop"] = await self.error(client.stop_managed_process("s", "p", here))
        natural["process_session"] = await self.error(
            client.start_managed_process("no", BoxManagedProcessSpec(command="cat"), here)
        )
        natural["admission"] = await self.error(client.upsert_sandbox_admission_grant(self.grant()))
        natural["blocked"] = await self.error(self.execute("echo x", host_path="/etc/BoxError: x"))
        await client.get_status(self.context("ws3", 2))
        natural["stale"] = await self.error(client.get_status(self.context("ws3", 1)))
        natural["other_instance"] = await self.error(
            client.get_status(
                ActionContext(instance_uuid="another", workspace_uuid="w", placement_generation=1)
            )
        )
        # Once on, admission stays on: this comes last.
        policy = {**self.wanted["default_config"]["admission"], "required": True}
        await client.init({"admission": {**policy, "workspace_quota_mb": 64}})
        natural["readiness"] = await self.error(self.execute("echo x"))
        natural["initialize"] = await self.error(client.initialize())

    async def no_backend(self):
        """A runtime whose build has no backend of the configured name."""
        out, client = self.results, self.client
        await client.init({"backend": "docker"})
        await client.initialize()
        out["backend_info"] = await client.get_backend_info()
        out["execute"] = await self.error(self.execute("echo x"))
        out["create"] = await self.error(
            client.create_session(BoxSpec(session_id="s"), self.context())
        )

    def grant(self):
        return SandboxAdmissionGrant(
            instance_uuid=self.wanted["instance"],
            workspace_uuid="ws1",
            execution_generation=1,
            entitlement_revision=1,
            expires_at=datetime.datetime.now(datetime.timezone.utc)
            + datetime.timedelta(seconds=60),
            max_sessions=1,
            max_managed_processes=0,
        )

    # -- the connection

    async def on_connection(self, connection):
        self.handler = Handler(connection)
        self.client.set_handler(self.handler)
        reader = asyncio.create_task(self.handler.run())
        try:
            await getattr(self, self.wanted["scenario"])()
            if not self.wanted.get("stay"):
                await self.client.shutdown()
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def on_failure(self, controller, exc):
        raise exc

    async def run(self):
        wanted = self.wanted
        if wanted["carrier"] == "stdio":
            controller = StdioClientController(
                wanted["command"][0], wanted["command"][1:], wanted["env"]
            )
            process = None

            async def keep_process(connection):
                nonlocal process
                process = controller.process
                await self.on_connection(connection)
                self.closing = time.monotonic()

            await controller.run(keep_process)
            self.results["exit_code"] = process.returncode
            self.results["exit_seconds"] = time.monotonic() - self.closing
        else:
            controller = WebSocketClientController(
                wanted["url"], self.on_failure, additional_headers=wanted["headers"]
            )
            await controller.run(self.on_connection)
        return self.results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(Drive(json.loads(sys.argv[1])).run())))
