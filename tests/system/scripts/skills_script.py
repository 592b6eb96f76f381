"""Every skill action by the real client of `langbot-plugin` 0.5, against any runtime.

Run by the python of that client's environment, with one argument: a file with a JSON map {command,
env, instance, config, steps, folder}. A step is [method, arguments]; an argument {"file": NAME} is
that file's bytes, and "ROOT" in a text is the tenant's folder. Prints one JSON line: {root,
answers}, where an answer is ["ok", result] or [the exception's class, its text]; with a second
argument `root` only that.
"""

import asyncio
import json
import logging
import os
import pathlib
import sys

from langbot_plugin.box.client import ActionRPCBoxClient
from langbot_plugin.box.tenancy import box_namespace
from langbot_plugin.entities.io.context import ActionContext
from langbot_plugin.runtime.io.controllers.stdio.client import StdioClientController
from langbot_plugin.runtime.io.handler import Handler


class Drive:
    def __init__(self, wanted):
        self.wanted = wanted
        self.client = ActionRPCBoxClient(logging.getLogger("client"))
        self.answers = []
        self.context = ActionContext(
            instance_uuid=wanted["instance"], workspace_uuid="ws1", placement_generation=1
        )
        self.root = os.path.join(
            os.path.realpath(wanted["folder"]), "skills", "tenants", box_namespace(self.context)
        )

    def argument(self, value):
        if isinstance(value, dict) and set(value) == {"file"}:
            return pathlib.Path(value["file"]).read_bytes()
        return json.loads(json.dumps(value).replace("ROOT", self.root))

    async def step(self, method, arguments):
        call = getattr(self.client, method)
        given = {name: self.argument(value) for name, value in arguments.items()}
        try:
            return ["ok", await call(**given, action_context=self.context)]
        except Exception as error:
            return [type(error).__name__, str(error)]

    async def on_connection(self, connection):
        handler = Handler(connection)
        self.client.set_handler(handler)
        reading = asyncio.create_task(handler.run())
        try:
            await self.client.init(self.wanted["config"])
            for method, arguments in self.wanted["steps"]:
                self.answers.append(await self.step(method, arguments))
            await self.client.shutdown()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def run(self):
        command = self.wanted["command"]
        controller = StdioClientController(command[0], command[1:], self.wanted["env"])
        await controller.run(self.on_connection)
        return {"root": self.root, "answers": self.answers}


def main():
    drive = Drive(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    print(json.dumps(drive.root if sys.argv[2:] == ["root"] else asyncio.run(drive.run())))


if __name__ == "__main__":
    main()
