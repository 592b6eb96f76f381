"""A whole conversation by the client of the package `mcp` over the relay.

Run by a python that has the package, with one argument: a JSON map {urls: {everything, files,
refused}, file, lines, long_bytes}. Prints "tear" when its connection is to be broken, "waiting"
when the server may be ended, then one JSON line: the results by name, as mcp_client.mjs does.
"""

import asyncio
import contextlib
import hashlib
import json
import sys

import websockets
from mcp import ClientSession, McpError, types
from mcp.client.websocket import websocket_client
from pydantic import AnyUrl

OUT = {}


async def raised(awaitable):
    try:
        return ["nothing raised", repr(await awaitable)]
    except McpError as exc:
        return [exc.error.code, exc.error.message]


async def sample(context, params):
    text = f"sampled: {params.messages[0].content.text}"
    content = types.TextContent(type="text", text=text)
    return types.CreateMessageResult(role="assistant", model="none", content=content)


@contextlib.asynccontextmanager
async def dial(url):
    """A session, and the server's info from its initialization."""
    async with websocket_client(url) as streams:
        async with ClientSession(*streams, sampling_callback=sample) as session:
            yield session, await session.initialize()


async def broken(awaitable):
    """The code of the close, None if there is none; the client raises an exception group."""
    try:
        return ["nothing raised", repr(await awaitable)]
    except* websockets.ConnectionClosed as group:
        (exc,) = group.exceptions
    return exc.sent.code if exc.sent else None


def text(result):
    return result.content[0].text


async def call_tools(session, long_bytes):
    call = session.call_tool
    OUT["tools"] = sorted(tool.name for tool in (await session.list_tools()).tools)
    OUT["echo"] = text(await call("echo", {"message": "grüße \u2028 漢字 😀"}))
    OUT["sum"] = text(await call("get-sum", {"a": 40, "b": 2}))
    structured = await call("get-structured-content", {"location": "Chicago"})
    OUT["structured"] = structured.structuredContent
    image = await call("get-tiny-image", {})
    OUT["image"] = next(one for one in image.content if one.type == "image").mimeType
    long = "x" * long_bytes
    OUT["long"] = text(await call("echo", {"message": long})) == f"Echo: {long}"
    calls = (call("echo", {"message": str(number)}) for number in range(50))
    OUT["at_once"] = [text(answer) for answer in await asyncio.gather(*calls)]
    OUT["sampling"] = text(await call("trigger-sampling-request", {"prompt": "hello"}))


async def ask_for_the_rest(session):
    resources = (await session.list_resources()).resources
    OUT["resources"] = len(resources)
    OUT["resource"] = (await session.read_resource(resources[0].uri)).contents[0].mimeType
    dynamic = await session.read_resource(AnyUrl("demo://resource/dynamic/text/7"))
    OUT["dynamic"] = dynamic.contents[0].text[:10]
    OUT["templates"] = len((await session.list_resource_templates()).resourceTemplates)
    OUT["prompts"] = sorted(prompt.name for prompt in (await session.list_prompts()).prompts)
    prompt = await session.get_prompt("args-prompt", {"city": "Köln"})
    OUT["prompt"] = prompt.messages[0].content.text
    await session.send_ping()
    OUT["ping"] = True


async def be_wrong(session):
    answer = await session.call_tool("get-sum", {"a": "x", "b": 2})
    OUT["wrong"] = [answer.isError, text(answer)]
    OUT["wrong_tool"] = (await session.call_tool("no-such-tool", {})).isError
    OUT["wrong_resource"] = await raised(session.read_resource(AnyUrl("demo://nothing")))
    OUT["wrong_prompt"] = await raised(session.get_prompt("nothing"))


async def make_progress(session):
    OUT["progress"] = []

    async def progress(value, total, words):
        OUT["progress"].append(value)

    arguments = {"duration": 0.2, "steps": 4}
    name = "trigger-long-running-operation"
    await session.call_tool(name, arguments, progress_callback=progress)


async def read_too_much(url, path):
    """A message of more than 1 MiB, for which the client closes the connection."""
    async with dial(url) as (session, _):
        await session.call_tool("read_text_file", {"path": path})


async def read_files(url, path, lines):
    """Of which the first one of this connection is not what the last one refused."""
    async with dial(url) as (session, _):
        content = text(await session.call_tool("read_text_file", {"path": path, "head": lines}))
        OUT["file"] = [len(content), hashlib.sha256(content.encode()).hexdigest()]
        forbidden = await session.call_tool("read_text_file", {"path": "/etc/passwd"})
        OUT["forbidden"] = forbidden.isError


async def break_off(url):
    """The connection is broken in the middle of a call, by the process that owns the proxy.
    Requested once: a second break might hit the next connection."""

    async def tear(value, total, words):
        if value == 1:
            print("tear", flush=True)

    async with dial(url) as (session, _):
        # Far longer than the break takes on the slowest machine.
        arguments = {"duration": 60, "steps": 300}
        name = "trigger-long-running-operation"
        await session.call_tool(name, arguments, progress_callback=tear)


async def converse(wanted):
    urls = wanted["urls"]
    try:
        async with dial(urls["refused"]):
            OUT["refused"] = "nothing raised"
    except websockets.InvalidStatus as exc:
        OUT["refused"] = str(exc)
    async with dial(urls["everything"]) as (session, begun):
        OUT["server"] = begun.serverInfo.name
        given = begun.capabilities.model_dump(exclude_none=True)
        OUT["capabilities"] = sorted(given)
        await call_tools(session, wanted["long_bytes"])
        await ask_for_the_rest(session)
        await be_wrong(session)
        await make_progress(session)
    OUT["too_much"] = await broken(read_too_much(urls["files"], wanted["file"]))
    await read_files(urls["files"], wanted["file"], wanted["lines"])
    OUT["broken"] = await broken(break_off(urls["everything"]))
    async with dial(urls["everything"]) as (session, _):
        OUT["echo_again"] = text(await session.call_tool("echo", {"message": "again"}))
        print("waiting", flush=True)
        # Its end fails the call that is in flight.
        arguments = {"duration": 60, "steps": 1}
        OUT["closed"] = await raised(
            session.call_tool("trigger-long-running-operation", arguments)
        )


if __name__ == "__main__":
    asyncio.run(converse(json.loads(sys.argv[1])))
    print(json.dumps(OUT))
