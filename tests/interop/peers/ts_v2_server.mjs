// The TypeScript SDK, version 2, as a server with a little of everything.
// usage: node ts_v2_server.mjs [PORT]

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import {
  McpServer,
  ResourceTemplate,
  WebStandardStreamableHTTPServerTransport,
  completable,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { CHOICES_FORM, PERSON_FORM, PNG, WAV, WEATHER } from './report.mjs';

const notes = { first: 'one', second: 'two' };
const seen = { open: 0 };
const count = (what) => {
  seen[what] = (seen[what] ?? 0) + 1;
};
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const structured = (value) => ({ ...text(JSON.stringify(value)), structuredContent: value });
const user = (content) => ({ role: 'user', content });
const starting = (value) => (each) => each.startsWith(value);

function plainTools(server) {
  const { string, number, object, array } = z;
  server.registerTool('echo', { inputSchema: object({ text: string() }) }, async (args) => text(args.text));
  const sum = object({ total: number(), parts: array(number()) });
  const config = { inputSchema: object({ a: number(), b: number() }), outputSchema: sum };
  server.registerTool('add', config, async ({ a, b }) => structured({ total: a + b, parts: [a, b] }));
  server.registerTool('fail', { inputSchema: object({ reason: string() }) }, async ({ reason }) => {
    throw new Error(reason);
  });
  server.registerTool('contents', {}, async () => ({
    content: [
      { type: 'text', text: 'text' },
      { type: 'image', data: PNG, mimeType: 'image/png' },
      { type: 'audio', data: WAV, mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'memo://text', name: 'text' },
      { type: 'resource', resource: { uri: 'memo://inside', text: 'inside' } },
    ],
  }));
  const steps = object({ n: number(), hang_up: number().optional() });
  server.registerTool('progress', { inputSchema: steps }, async ({ n, hang_up }, ctx) => {
    for (let step = 1; step <= n; step += 1) {
      await report(ctx, step, `step ${step}`, n);
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (step === hang_up) ctx.http.closeSSE();
    }
    return text('done');
  });
  const entry = object({ level: string(), text: string() });
  server.registerTool('log', { inputSchema: entry }, async (args, ctx) => {
    await ctx.mcpReq.log(args.level, { text: args.text });
    return text(args.level);
  });
  server.registerTool('grow', {}, async () => {
    server.registerTool('grown', {}, async () => text('grown')); // which tells the client
    return text('grown');
  });
  const change = object({ name: string(), text: string() });
  server.registerTool('touch', { inputSchema: change }, async ({ name, text: note }) => {
    notes[name] = note;
    await server.server.sendResourceUpdated({ uri: `memo://notes/${name}` });
    return text(note);
  });
}

async function report(ctx, progress, message, total) {
  const params = { progressToken: ctx.mcpReq._meta?.progressToken, progress, message, total };
  await ctx.mcpReq.notify({ method: 'notifications/progress', params });
}

function askingTools(server) {
  server.registerTool('ask', {}, async (ctx) => {
    const form = { mode: 'form', message: 'Who are you?', requestedSchema: PERSON_FORM };
    const { action, content } = await ctx.mcpReq.elicitInput(form);
    return structured(action === 'accept' ? { action, name: content.name, happy: content.happy } : { action });
  });
  server.registerTool('choose', {}, async (ctx) => {
    const form = { mode: 'form', message: 'Choose', requestedSchema: CHOICES_FORM };
    return structured((await ctx.mcpReq.elicitInput(form)).content);
  });
  server.registerTool('ask_url', {}, async (ctx) => {
    const visit = { mode: 'url', message: 'Pay', url: 'https://example.org/pay', elicitationId: 'visit' };
    const { action } = await ctx.mcpReq.elicitInput(visit);
    await server.server.createElicitationCompletionNotifier('visit')();
    return text(action === 'accept' ? 'Accepted' : action);
  });
  server.registerTool('sample', { inputSchema: z.object({ prompt: z.string() }) }, async ({ prompt }, ctx) => {
    const messages = [user({ type: 'text', text: prompt })];
    const answer = await ctx.mcpReq.requestSampling({ messages, maxTokens: 100 });
    return text(`${answer.model}: ${answer.content.text}`);
  });
  const inputSchema = z.object({ city: z.string() });
  server.registerTool('sample_with_tools', { inputSchema }, async ({ city }, ctx) => {
    const messages = [user({ type: 'text', text: `Weather in ${city}?` })];
    const first = await ctx.mcpReq.requestSampling({ messages, maxTokens: 100, tools: [WEATHER] });
    const results = [first.content].flat().map((use) => ({
      type: 'tool_result',
      toolUseId: use.id,
      content: [{ type: 'text', text: `rain in ${use.input.city}` }],
    }));
    messages.push({ role: 'assistant', content: first.content }, user(results));
    const last = await ctx.mcpReq.requestSampling({ messages, maxTokens: 100, tools: [WEATHER] });
    return text([last.content].flat()[0].text);
  });
  server.registerTool('roots', {}, async () => {
    const { roots } = await server.server.listRoots();
    return structured({ result: roots.map((root) => root.uri) });
  });
}

function patientTools(server) {
  server.registerTool('slow', {}, async (ctx) => {
    await report(ctx, 1, 'waiting');
    await new Promise((resolve) => ctx.mcpReq.signal.addEventListener('abort', resolve));
    count('slow ended');
    return text('cancelled');
  });
  server.registerTool('hold', {}, async (ctx) => {
    const { signal } = ctx.mcpReq;
    seen.open += 1;
    try {
      const form = { mode: 'form', message: 'hold', requestedSchema: PERSON_FORM };
      await ctx.mcpReq.elicitInput(form, { signal });
    } finally {
      seen.open -= 1;
      if (signal.aborted) count('hold cancelled');
    }
    return text('answered');
  });
  server.registerTool('record', {}, async () => structured(seen));
}

function resources(server) {
  const plain = { mimeType: 'text/plain' };
  server.registerResource('text', 'memo://text', plain, async ({ href }) => ({
    contents: [{ uri: href, text: 'some text' }],
  }));
  server.registerResource('blob', 'memo://blob', { mimeType: 'image/png' }, async ({ href }) => ({
    contents: [{ uri: href, blob: 'AAH+/w==' }],
  }));
  const complete = { name: (value) => Object.keys(notes).filter(starting(value)) };
  const template = new ResourceTemplate('memo://notes/{name}', { list: undefined, complete });
  server.registerResource('note', template, plain, async ({ href }, { name }) => ({
    contents: [{ uri: href, text: notes[name] }],
  }));
  server.server.setRequestHandler('resources/subscribe', async () => ({}));
  server.server.setRequestHandler('resources/unsubscribe', async () => ({}));
}

function prompts(server) {
  const styles = ['formal', 'friendly', 'french'];
  const style = completable(z.string(), (value, context) =>
    context?.arguments?.name === 'Marianne' ? ['french'] : styles.filter(starting(value)),
  ).optional();
  const argsSchema = z.object({ name: z.string(), style });
  server.registerPrompt('greet', { argsSchema }, async (args) => ({
    messages: [
      user({ type: 'text', text: `Greet ${args.name}, ${args.style}.` }),
      { role: 'assistant', content: { type: 'text', text: 'As you wish.' } },
    ],
  }));
}

function everything() {
  const capabilities = {
    logging: {},
    tools: { listChanged: true },
    resources: { subscribe: true },
    completions: {},
  };
  const server = new McpServer({ name: 'everything', version: '1.0' }, { capabilities });
  for (const register of [plainTools, askingTools, patientTools, resources, prompts]) register(server);
  return server;
}

// Keeps every event for ever.
class Events {
  #events = [];

  async storeEvent(streamId, message) {
    return String(this.#events.push([streamId, message]));
  }

  async getStreamIdForEventId(eventId) {
    return this.#events[eventId - 1]?.[0];
  }

  async replayEventsAfter(lastEventId, { send }) {
    const [wanted] = this.#events[lastEventId - 1];
    for (let n = Number(lastEventId); n < this.#events.length; n += 1) {
      const [streamId, message] = this.#events[n];
      if (streamId === wanted && message.jsonrpc) await send(String(n + 1), message);
    }
    return wanted;
  }
}

function serveHttp(port) {
  const sessions = new Map();
  const begin = async () => {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      eventStore: new Events(),
      retryInterval: 100,
    });
    await everything().connect(transport);
    return transport;
  };
  createServer(async (incoming, outgoing) => {
    const { method, headers } = incoming;
    const body = method === 'POST' ? Readable.toWeb(incoming) : undefined;
    const request = new Request(`http://${headers.host}${incoming.url}`, { method, headers, body, duplex: 'half' });
    const transport = sessions.get(headers['mcp-session-id']) ?? (await begin());
    const response = await transport.handleRequest(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
    if (!response.body) return outgoing.end();
    const answer = Readable.fromWeb(response.body);
    outgoing.on('close', () => answer.destroy());
    answer.on('error', () => outgoing.destroy()).pipe(outgoing);
  }).listen(port, '127.0.0.1');
}

const [port] = process.argv.slice(2);
if (port) serveHttp(port);
else serveStdio(everything);
