// The TypeScript SDK 1.x under remote control.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { obey, target } from "./lines.mjs";

const client = new Client({ name: "typescript-sdk1", version: "1" });
const transport = new StdioClientTransport({ command: target.command, args: target.args, env: target.env });
let protocol;
transport.setProtocolVersion = (version) => (protocol = version); // the client tells its transport, and nobody else
await client.connect(transport);
await obey({
  protocol,
  tools: async () => (await client.listTools()).tools,
  call: (name, args, signal) => client.callTool({ name, arguments: args }, undefined, { signal }),
  close: () => client.close(),
});
