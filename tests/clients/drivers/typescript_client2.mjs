// The TypeScript client 2.x under remote control; its mode is that of its version negotiation.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { obey, target } from "./lines.mjs";

const client = new Client(
  { name: "typescript-client2", version: "1" },
  target.mode ? { versionNegotiation: { mode: target.mode } } : {},
);
await client.connect(new StdioClientTransport({ command: target.command, args: target.args, env: target.env }));
await obey({
  protocol: client.getNegotiatedProtocolVersion(),
  tools: async () => (await client.listTools()).tools,
  call: (name, args, signal) => client.callTool({ name, arguments: args }, { signal }),
  close: () => client.close(),
});
