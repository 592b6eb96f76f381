"""Carries out a list of steps with the real client of `langbot-plugin`, as LangBot would.

Run by the python of an environment that has the package (0.5.x or 0.7.x), with one argument: a file
with a JSON map {carrier, command, env, url, headers, instance, steps, stay}. `steps` maps names to
steps (see `Steps`); with `stay` the boxes are not shut down at the end. Prints one JSON line: for
each name the result, or [class, text] of the exception.
"""

import asyncio
import base64
import contextlib
import enum
import hashlib
import json
import pathlib
import sys
import time

from langbot_plugin.box.models import BoxManagedProcessSpec, BoxSpec

import proclib
from client_script import Drive


class Live(enum.Enum):
    """Actions that the package has no names for: its handler calls any object with a `value`."""

    STREAM = "box_exec_stream"
    INPUT = "box_exec_input"
    RESIZE = "box_exec_resize"
    SIGNAL = "box_exec_signal"


class Steps(Drive):
    async def steps(self):
        for name, step in self.wanted["steps"].items():
            self.results[name] = await self.step(**step)

    async def step(self, do, **members):
        """The result of the step `do`; `raises` in its place if the client raised."""
        try:
            return {"gave": await getattr(self, "do_" + do)(**members)}
        except Exception as exc:
            return {"raised": [type(exc).__name__, str(exc)]}

    def where(self, members):
        return self.context(members.pop("workspace", "ws1"), members.pop("generation", 1))

    async def do_exec(self, **spec):
        context = self.where(spec)
        result = await self.client.execute(BoxSpec(**spec), context)
        return result.model_dump(mode="json")

    async def do_stream(self, orders=(), when="started", slow=0, leave=False, **data):
        """A live command by the package's own way to stream. `orders` are [action, members], given
        one after the other from the first event `when` on; with `leave` the first output is enough.
        """
        context = self.where(data)
        exec_id = ordering = None
        told = {"events": [], "stdout": b"", "stderr": b"", "orders": []}

        async def order():
            for action, members in orders:
                request = {"exec_id": exec_id, **members}
                call = self.handler.call_action(
                    Live[action], request, timeout=30, action_context=context
                )
                try:
                    told["orders"].append(await call)
                except Exception as exc:
                    told["orders"].append(str(exc))

        parts = self.handler.call_action_generator(
            Live.STREAM, data, timeout=30, action_context=context
        )
        async with contextlib.aclosing(parts):
            async for part in parts:
                event = part["event"]
                if not told["events"] or told["events"][-1] != event:
                    told["events"].append(event)
                exec_id = part.get("exec_id", exec_id)
                if event == when and not ordering:
                    ordering = asyncio.create_task(order())
                if event == "exit":
                    told["exit"] = part
                elif event != "started":
                    encoded = part.get("data_base64")
                    told[event] += (
                        base64.b64decode(encoded) if encoded else part["data"].encode()
                    )
                    await asyncio.sleep(slow)
                    if leave:
                        break
        await ordering
        for name in ("stdout", "stderr"):
            content = told[name]
            whole = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            told[name] = whole if len(content) > 10_000 else content.decode("latin-1")
        return told

    async def do_together(self, specs):
        return await asyncio.gather(*(self.step("exec", **spec) for spec in specs))

    async def do_create(self, **spec):
        context = self.where(spec)
        return await self.client.create_session(BoxSpec(**spec), context)

    async def do_get(self, session_id, **members):
        return await self.client.get_session(session_id, self.where(members))

    async def do_list(self, **members):
        return await self.client.get_sessions(self.where(members))

    async def do_delete(self, session_id, **members):
        return await self.client.delete_session(session_id, self.where(members))

    async def do_start(self, session_id, **spec):
        """A managed process."""
        context = self.where(spec)
        started = await self.client.start_managed_process(
            session_id, BoxManagedProcessSpec(**spec), context
        )
        return started.model_dump(mode="json")

    async def do_process(self, session_id, process_id="default", **members):
        found = await self.client.get_managed_process(session_id, process_id, self.where(members))
        return found.model_dump(mode="json")

    async def do_exited(self, **members):
        """The same, after the process has ended."""
        while (found := await self.do_process(**members))["status"] == "running":
            await asyncio.sleep(0.01)
        return found

    async def do_stop(self, session_id, process_id="default", **members):
        return await self.client.stop_managed_process(session_id, process_id, self.where(members))

    async def do_install(self, upload, filename, **members):
        """Skills, with clients that keep them in the runtime."""
        content = pathlib.Path(upload).read_bytes()
        return await self.client.install_skill_zip(
            content, filename, action_context=self.where(members)
        )

    async def do_skills(self, **members):
        return await self.client.list_skills(action_context=self.where(members))

    async def do_status(self, **members):
        return await self.client.get_status(self.where(members))

    async def do_info(self):
        return await self.client.get_backend_info()

    async def do_init(self, **config):
        return await self.client.init(config)

    async def do_sleep(self, seconds):
        await asyncio.sleep(seconds)

    async def do_kill_init(self, marker):
        """kill -9 of PID 1 of the box that has a process with this argument."""
        await asyncio.to_thread(proclib.kill_init, marker)

    async def do_await(self, marker):
        """Waits until there is a process with this argument."""
        await asyncio.to_thread(proclib.find_one, marker)

    async def do_look(self, folder):
        """The contents of a host folder: text of files, None for folders, by path."""
        found = {}
        for path in sorted(pathlib.Path(folder).rglob("*")):
            below = str(path.relative_to(folder))
            if not below.startswith(("bin", "home", "steps")):
                found[below] = None if path.is_dir() else path.read_text()
        return found

    async def do_count(self, marker, most=None):
        """The number of such processes, once there are at most `most` or after 10 s."""
        end = time.monotonic() + 10
        while True:
            found = len(await asyncio.to_thread(proclib.find, marker))
            if most is None or found <= most or time.monotonic() > end:
                return found
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    wanted = json.loads(pathlib.Path(sys.argv[1]).read_text())
    print(json.dumps(asyncio.run(Steps({**wanted, "scenario": "steps"}).run())))
