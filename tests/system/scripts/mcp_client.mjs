// A whole conversation by the client of @modelcontextprotocol/sdk over the relay.
//
// Lies beside node_modules when it is run, with one argument: a JSON map {urls: {everything,
// files}, headers, file, long_bytes}. Prints "waiting" when the server may be ended, then one JSON
// line: the results by name, as mcp_client.py does.

import { createHash } from "node:crypto";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { WebSocketClientTransport } from "@modelcontextprotocol/sdk/client/websocket.js";
import { CreateMessageRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import WebSocket from "ws";

const wanted = JSON.parse(process.argv[2]);
const out = {};

// The transport uses the WebSocket that there is and has no way for headers of its own.
class WithHeaders extends WebSocket {
    constructor(url, protocols) {
        super(url, protocols, { headers: wanted.headers });
    }
}

async function raised(promise) {
    try {
        return ["nothing raised", JSON.stringify(await promise)];
    } catch (error) {
        return [error.code ?? null, String(error.message)];
    }
}

function makeClient() {
    const about = { name: "test", version: "1" };
    const client = new Client(about, { capabilities: { sampling: {} } });
    client.setRequestHandler(CreateMessageRequestSchema, async (request) => ({
        role: "assistant",
        model: "none",
        content: { type: "text", text: `sampled: ${request.params.messages[0].content.text}` },
    }));
    client.errors = [];
    client.onerror = (error) => client.errors.push(String(error.message));
    return client;
}

const transport = (name) => new WebSocketClientTransport(new URL(wanted.urls[name]));
const dial = (client, name) => client.connect(transport(name));
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

async function callTools(client, call) {
    out.tools = (await client.listTools()).tools.map((tool) => tool.name).sort();
    out.echo = (await call("echo", { message: "grüße \u2028 漢字 😀" })).content[0].text;
    out.sum = (await call("get-sum", { a: 40, b: 2 })).content[0].text;
    const place = { location: "Chicago" };
    out.structured = (await call("get-structured-content", place)).structuredContent;
    const { content } = await call("get-tiny-image", {});
    out.image = content.find((one) => one.type === "image").mimeType;
    const long = "x".repeat(wanted.long_bytes);
    out.long = (await call("echo", { message: long })).content[0].text === `Echo: ${long}`;
    const numbers = [...Array(50).keys()];
    const answers = await Promise.all(numbers.map((n) => call("echo", { message: String(n) })));
    out.at_once = answers.map((answer) => answer.content[0].text);
    out.sampling = (await call("trigger-sampling-request", { prompt: "hello" })).content[0].text;
}

async function askForTheRest(client) {
    const { resources } = await client.listResources();
    out.resources = resources.length;
    out.resource = (await client.readResource({ uri: resources[0].uri })).contents[0].mimeType;
    const uri = "demo://resource/dynamic/text/7";
    out.dynamic = (await client.readResource({ uri })).contents[0].text.slice(0, 10);
    out.templates = (await client.listResourceTemplates()).resourceTemplates.length;
    out.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name).sort();
    const prompt = { name: "args-prompt", arguments: { city: "Köln" } };
    out.prompt = (await client.getPrompt(prompt)).messages[0].content.text;
    await client.ping();
    out.ping = true;
}

async function beWrong(client, call) {
    const answer = await call("get-sum", { a: "x", b: 2 });
    out.wrong = [answer.isError, answer.content[0].text];
    out.wrong_tool = (await call("no-such-tool", {})).isError;
    out.wrong_resource = await raised(client.readResource({ uri: "demo://nothing" }));
    out.wrong_prompt = await raised(client.getPrompt({ name: "nothing" }));
}

async function readFiles() {
    const client = makeClient();
    await dial(client, "files");
    const read = { name: "read_text_file", arguments: { path: wanted.file } };
    const { text } = (await client.callTool(read)).content[0];
    out.file = [text.length, sha256(text)];
    const other = { ...read, arguments: { path: "/etc/passwd" } };
    out.forbidden = (await client.callTool(other)).isError;
    await client.close();
}

// Torn in the middle of a call; the answer to it then comes to the next connection.
async function breakOff(client, call) {
    const begun = new Promise((resolve) => {
        const onprogress = () => resolve();
        const args = { duration: 1, steps: 5 };
        out.broken = raised(call("trigger-long-running-operation", args, { onprogress }));
    });
    await begun;
    client.transport._socket.terminate();
    out.broken = (await out.broken)[1];
    await dial(client, "everything");
    out.echo_again = (await call("echo", { message: "again" })).content[0].text;
    const isLate = (text) => text.includes("Long running operation completed");
    while (!client.errors.some(isLate)) {
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    out.late = true;
}

async function converse() {
    globalThis.WebSocket = WebSocket;
    out.refused = (await raised(dial(makeClient(), "everything")))[1];
    globalThis.WebSocket = WithHeaders;

    const client = makeClient();
    const call = (name, args, options) =>
        client.callTool({ name, arguments: args }, undefined, options);
    await dial(client, "everything");
    out.server = client.getServerVersion().name;
    out.capabilities = Object.keys(client.getServerCapabilities()).sort();
    await callTools(client, call);
    await askForTheRest(client);
    await beWrong(client, call);
    out.progress = [];
    const onprogress = (progress) => out.progress.push(progress.progress);
    await call("trigger-long-running-operation", { duration: 0.2, steps: 4 }, { onprogress });
    await readFiles();
    await breakOff(client, call);

    const closed = new Promise((resolve) => {
        client.onclose = resolve;
    });
    console.log("waiting");
    await closed;
    out.closed = (await raised(call("echo", { message: "x" })))[1];
}

await converse();
console.log(JSON.stringify(out));
