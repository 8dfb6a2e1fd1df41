// The TypeScript SDK, version 1, as a client. usage: node ts_v1.mjs TARGET... (see report.mjs)

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import { elicit, heard, listRoots, run, sample } from './checks.mjs';
import { target } from './report.mjs';

const { url, resumable, ...command } = target(process.argv.slice(2));
const capabilities = {
  sampling: { tools: {} },
  elicitation: { form: {}, url: {} },
  roots: { listChanged: true },
};
const client = new Client({ name: 'ts-v1', version: '1' }, { capabilities });

client.setRequestHandler(types.CreateMessageRequestSchema, sample);
client.setRequestHandler(types.ElicitRequestSchema, (request, { signal }) => elicit(request, signal));
client.setRequestHandler(types.ListRootsRequestSchema, listRoots);
for (const schema of [
  types.ElicitationCompleteNotificationSchema,
  types.LoggingMessageNotificationSchema,
  types.ResourceUpdatedNotificationSchema,
  types.ToolListChangedNotificationSchema,
]) {
  client.setNotificationHandler(schema, ({ method, params }) => heard.put([method, params]));
}

const transport = url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(command);
const setVersion = transport.setProtocolVersion?.bind(transport);
let version;
transport.setProtocolVersion = (negotiated) => {
  version = negotiated; // part of the Transport interface: the client tells it here
  setVersion?.(negotiated);
};
await client.connect(transport);
const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options);
await run(client, call, () => version, resumable);
