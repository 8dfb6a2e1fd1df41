// The TypeScript SDK, version 2, as a client. usage: node ts_v2.mjs auto|legacy TARGET... (see report.mjs)

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { elicit, heard, listRoots, run, sample } from './checks.mjs';
import { target } from './report.mjs';

const [mode, ...args] = process.argv.slice(2);
const { url, resumable, ...command } = target(args);
const capabilities = {
  sampling: { tools: {} },
  elicitation: { form: {}, url: {} },
  roots: { listChanged: true },
};
const client = new Client({ name: 'ts-v2', version: '1' }, { capabilities, versionNegotiation: { mode } });

client.setRequestHandler('sampling/createMessage', sample);
client.setRequestHandler('elicitation/create', (request, ctx) => elicit(request, ctx.mcpReq.signal));
client.setRequestHandler('roots/list', listRoots);
for (const method of [
  'notifications/elicitation/complete',
  'notifications/message',
  'notifications/resources/updated',
  'notifications/tools/list_changed',
]) {
  client.setNotificationHandler(method, ({ params }) => heard.put([method, params]));
}

await client.connect(url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(command));
const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, options);
await run(client, call, () => client.getNegotiatedProtocolVersion(), resumable);
