// One session with an MCP server through a published client: node drive.mjs '{"sdk": 1, "command": "…", "args": […], "steps": […]}'.
// Prints one JSON object: what each step gave, what the server asked of the client, and what stderr said.
import process from "node:process";

const plan = JSON.parse(process.argv[2]);
const found = { steps: [], asked: [], progress: [], stderr: "" };

// The client drops what it has not told yet of a call when the result is there: what came is written down as it comes.
function listen(transport) {
  transport.stderr?.on("data", (data) => (found.stderr += data));
  transport.onmessage = (message) => {
    if (message.method === "notifications/progress") found.progress.push(message.params.progress);
  };
}

async function connect1() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const types = await import("@modelcontextprotocol/sdk/types.js");
  const transport = new StdioClientTransport({ command: plan.command, args: plan.args, env: plan.env, stderr: "pipe" });
  const client = new Client({ name: "drive", version: "1" }, { capabilities: { roots: { listChanged: true }, sampling: {} } });
  client.setRequestHandler(types.ListRootsRequestSchema, () => {
    found.asked.push("roots/list");
    return { roots: [{ uri: "file:///secret/place", name: "place" }] };
  });
  client.setRequestHandler(types.CreateMessageRequestSchema, () => {
    found.asked.push("sampling/createMessage");
    return { model: "m", role: "assistant", content: { type: "text", text: "sampled" } };
  });
  listen(transport);
  await client.connect(transport);
  return [client, transport];
}

async function connect2() {
  const { Client } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const transport = new StdioClientTransport({ command: plan.command, args: plan.args, env: plan.env, stderr: "pipe" });
  const client = new Client({ name: "drive", version: "2" }, plan.options ?? {});
  listen(transport);
  await client.connect(transport);
  return [client, transport];
}

async function step(client, [what, name, args]) {
  if (what === "list") return (await client.listTools()).tools.map((tool) => tool.name).sort();
  if (what === "call") return await client.callTool({ name, arguments: args ?? {} });
  if (what === "resources") return (await client.listResources()).resources.length;
  if (what === "prompts") return (await client.listPrompts()).prompts.length;
  if (what === "ping") return await client.ping();
  if (what === "server") return client.getServerVersion();
  if (what === "progress") {
    const onprogress = () => {};
    const rest = plan.sdk === 1 ? [undefined, { onprogress }] : [{ onprogress }];
    return await client.callTool({ name, arguments: args ?? {} }, ...rest);
  }
  throw new Error("no such step: " + what);
}

const [client, transport] = await (plan.sdk === 1 ? connect1() : connect2()).catch((error) => {
  console.error(found.stderr, error);
  process.exit(1);
});
found.pid = transport.pid;
for (const one of plan.steps) {
  try {
    found.steps.push(await step(client, one));
  } catch (error) {
    found.steps.push({ thrown: String(error.message ?? error), code: error.code });
  }
}
// Not every server ends when its stdin does, and the client would wait for it, but not long: it has to say its last words.
const child = transport._process;
const ended = new Promise((done) => child.once("close", done));
process.kill(transport.pid, "SIGTERM");
await ended;
await new Promise((done) => setImmediate(done));
await client.close();
console.log(JSON.stringify(found));
process.exit(0);
