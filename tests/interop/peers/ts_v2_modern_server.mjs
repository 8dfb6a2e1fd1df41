// The TypeScript SDK, version 2, as a server at 2026-07-28, with what `modern.py` has.
// usage: node ts_v2_modern_server.mjs [PORT]

import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import {
  McpServer,
  acceptedContent,
  createMcpHandler,
  inputRequired,
  inputResponse,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const givenUp = {};
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const structured = (value) => ({ ...text(JSON.stringify(value)), structuredContent: value });
const form = (name, type, message) =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { [name]: { type } }, required: [name] },
  });
const whoIsIt = form('name', 'string', 'Who are you?');
const sample = (prompt) =>
  inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: prompt } }],
    maxTokens: 100,
  });
// What the model said, if it was asked in the round before.
function said(ctx) {
  const view = inputResponse(ctx.mcpReq.inputResponses, 'poem');
  if (view.kind !== 'sampling') return undefined;
  return `${view.result.model}: ${view.result.content.text}`;
}

function plainTools(server) {
  const { string, number, object, array } = z;
  server.registerTool('echo', { inputSchema: object({ text: string() }) }, async (args) => text(args.text));
  const sum = object({ total: number(), parts: array(number()) });
  const config = { inputSchema: object({ a: number(), b: number() }), outputSchema: sum };
  server.registerTool('add', config, async ({ a, b }) => structured({ total: a + b, parts: [a, b] }));
  server.registerTool('steps', { inputSchema: object({ n: number() }) }, async ({ n }, ctx) => {
    for (let step = 1; step <= n; step += 1) await report(ctx, step, `step ${step}`, n);
    return text('done');
  });
  const entry = object({ level: string(), text: string() });
  server.registerTool('log', { inputSchema: entry }, async (args, ctx) => {
    await ctx.mcpReq.log(args.level, { text: args.text });
    return text(args.level);
  });
}

async function report(ctx, progress, message, total) {
  const params = { progressToken: ctx.mcpReq._meta?.progressToken, progress, message, total };
  await ctx.mcpReq.notify({ method: 'notifications/progress', params });
}

function askingTools(server) {
  const who = { inputSchema: z.object({ who: z.string() }) };
  server.registerTool('ask', {}, async (ctx) => {
    const view = inputResponse(ctx.mcpReq.inputResponses, 'person');
    if (view.kind !== 'elicit') return inputRequired({ inputRequests: { person: whoIsIt } });
    if (view.action !== 'accept') return structured({ action: view.action });
    return structured({ action: 'accept', name: view.content.name });
  });
  server.registerTool('ask_model', { inputSchema: z.object({ prompt: z.string() }) }, async ({ prompt }, ctx) =>
    said(ctx) === undefined ? inputRequired({ inputRequests: { poem: sample(prompt) } }) : text(said(ctx)),
  );
  server.registerTool('ask_both', who, async (_, ctx) => {
    const person = acceptedContent(ctx.mcpReq.inputResponses, 'person');
    if (person && said(ctx)) return structured({ name: person.name, said: said(ctx) });
    return inputRequired({ inputRequests: { person: whoIsIt, poem: sample('a poem') } });
  });
  server.registerTool('ask_twice', who, async (_, ctx) => {
    const name = ctx.mcpReq.requestState() ?? acceptedContent(ctx.mcpReq.inputResponses, 'person')?.name;
    if (name === undefined) return inputRequired({ inputRequests: { person: whoIsIt } });
    const answer = acceptedContent(ctx.mcpReq.inputResponses, 'age');
    if (answer) return structured({ name, age: answer.age });
    const age = form('age', 'integer', `How old is ${name}?`);
    return inputRequired({ inputRequests: { age }, requestState: name });
  });
}

function patientTools(server) {
  const config = { inputSchema: z.object({ who: z.string() }) };
  server.registerTool('hold', config, async ({ who }, ctx) => {
    const { signal } = ctx.mcpReq;
    await report(ctx, 1, 'waiting');
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    givenUp[who] = (givenUp[who] ?? 0) + 1;
    return text('cancelled');
  });
  server.registerTool('count_given_up', config, async ({ who }) => text(String(givenUp[who] ?? 0)));
}

// `tell(server)` is who tells of changes: `toolsChanged()`, `resourceUpdated(uri)`.
const modern = (tell) => () => {
  const capabilities = { logging: {}, tools: { listChanged: true }, resources: { subscribe: true } };
  const server = new McpServer({ name: 'modern', version: '1.0' }, { capabilities });
  for (const register of [plainTools, askingTools, patientTools]) register(server);
  server.registerTool('touch', {}, async () => {
    await tell(server).resourceUpdated('memo://text');
    return text('touched');
  });
  server.registerTool('grow', {}, async () => {
    await tell(server).toolsChanged(); // which is all that the tests want to hear
    return text('grown');
  });
  server.registerResource('text', 'memo://text', { mimeType: 'text/plain' }, async ({ href }) => ({
    contents: [{ uri: href, text: 'some text' }],
  }));
  server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) }, async ({ name }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }],
  }));
  server.registerPrompt('welcome', {}, async (ctx) => {
    const person = acceptedContent(ctx.mcpReq.inputResponses, 'person');
    if (!person) return inputRequired({ inputRequests: { person: whoIsIt } });
    return { messages: [{ role: 'user', content: { type: 'text', text: `Welcome ${person.name}.` } }] };
  });
  return server;
};

function serveHttp(port) {
  const handler = createMcpHandler(modern(() => handler.notify));
  createServer(async (incoming, outgoing) => {
    const { method, headers } = incoming;
    const body = method === 'POST' ? Readable.toWeb(incoming) : undefined;
    const gone = new AbortController();
    outgoing.on('close', () => gone.abort());
    const options = { method, headers, body, duplex: 'half', signal: gone.signal };
    const response = await handler.fetch(new Request(`http://${headers.host}${incoming.url}`, options));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
    if (!response.body) return outgoing.end();
    const answer = Readable.fromWeb(response.body);
    outgoing.on('close', () => answer.destroy());
    answer.on('error', () => outgoing.destroy()).pipe(outgoing);
  }).listen(port, '127.0.0.1');
}

const [port] = process.argv.slice(2);
if (port) serveHttp(port);
else
  serveStdio(
    modern((server) => ({
      toolsChanged: () => server.sendToolListChanged(),
      resourceUpdated: (uri) => server.server.sendResourceUpdated({ uri }),
    })),
  );
