// The TypeScript SDK, version 2, as a client at 2026-07-28.
// usage: node ts_v2_modern.mjs auto|2026-07-28 TARGET... (see report.mjs)

import { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Heard, Report, target } from './report.mjs';

const [mode, ...args] = process.argv.slice(2);
const { url, ...command } = target(args);
const who = `typescript ${mode}`;
const report = new Report();
const heard = new Heard();
const state = { answer: 'accept' };
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

const client = new Client(
  { name: 'ts-v2-modern', version: '1' },
  {
    capabilities: { sampling: {}, elicitation: { form: {} } },
    versionNegotiation: { mode: mode === 'auto' ? mode : { pin: mode } },
  },
);
client.setRequestHandler('sampling/createMessage', ({ params }) => ({
  role: 'assistant',
  model: 'peer-model',
  content: { type: 'text', text: `a reply to ${params.messages[0].content.text}` },
}));
client.setRequestHandler('elicitation/create', ({ params }) => {
  if (state.answer !== 'accept') return { action: state.answer };
  return { action: 'accept', content: params.message === 'Who are you?' ? { name: 'Ann' } : { age: 30 } };
});
for (const method of [
  'notifications/message',
  'notifications/resources/updated',
  'notifications/tools/list_changed',
]) {
  client.setNotificationHandler(method, ({ params }) => heard.put([method, params]));
}

const call = (name, args = {}, options) => client.callTool({ name, arguments: args }, options);
const text = async (name, args) => (await call(name, args)).content[0].text;
const structured = async (name, args) => (await call(name, args)).structuredContent;

async function listTools() {
  const found = [];
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? undefined : { cursor });
    found.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found.sort();
}

async function prompt(name, args) {
  const { messages } = await client.getPrompt({ name, arguments: args });
  return messages.map(({ role, content }) => [role, content.text]);
}

async function codeOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
}

async function progress() {
  const seen = [];
  await call('steps', { n: 3 }, { onprogress: (p) => seen.push([p.progress, p.total, p.message]) });
  return seen;
}

async function decline() {
  state.answer = 'decline';
  try {
    return await structured('ask');
  } finally {
    state.answer = 'accept';
  }
}

async function cancel() {
  const abort = new AbortController();
  const onprogress = () => heard.put(['running']);
  const ended = call('hold', { who }, { onprogress, signal: abort.signal }).catch(() => {});
  await heard.until(([what]) => what === 'running');
  abort.abort();
  await ended;
  for (;;) {
    const count = Number(await text('count_given_up', { who }));
    if (count) return count;
    await pause();
  }
}

async function logLevel() {
  const log = (level, said, _meta) =>
    client.callTool({ name: 'log', arguments: { level, text: said }, ...(_meta && { _meta }) });
  const warning = { [LOG_LEVEL_META_KEY]: 'warning' };
  await log('error', 'not asked for');
  await log('info', 'quiet', warning);
  await log('error', 'loud', warning);
  const logged = ([method]) => method === 'notifications/message';
  await heard.until((item) => logged(item) && item[1].level === 'error');
  return heard.items.filter(logged).map(([, { level, data }]) => [level, data]);
}

async function listen() {
  const changes = await client.listen({ toolsListChanged: true, resourceSubscriptions: ['memo://text'] });
  await call('touch');
  const [, { uri }] = await heard.until(([method]) => method === 'notifications/resources/updated');
  await call('grow');
  const [changed] = await heard.until(([method]) => method === 'notifications/tools/list_changed');
  await changes.close();
  await call('grow');
  return [uri === 'memo://text', changed !== undefined];
}

await client.connect(url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(command));
await report.check('revision', async () => client.getNegotiatedProtocolVersion());
await report.check('list tools', listTools);
await report.check('call a tool', () => text('echo', { text: 'grüße 🙂' }));
await report.check('structured content', () => structured('add', { a: 2, b: 3 }));
await report.check('progress', progress);
await report.check('unknown tool', () => codeOf(call('nothing')));
await report.check('elicitation', () => structured('ask'));
await report.check('elicitation: decline', decline);
await report.check('sampling', () => text('ask_model', { prompt: 'a poem' }));
await report.check('two questions in one round', () => structured('ask_both', { who }));
await report.check('two rounds', () => structured('ask_twice', { who }));
await report.check('cancel a call', cancel);
await report.check('log level of a request', logLevel);
await report.check('read a resource', async () => (await client.readResource({ uri: 'memo://text' })).contents[0].text);
await report.check('unknown resource', () => codeOf(client.readResource({ uri: 'memo://no' })));
await report.check('get a prompt', () => prompt('greet', { name: 'Ann' }));
await report.check('get a prompt that asks', () => prompt('welcome', {}));
await report.check('listen', listen);
await client.close();
report.print();
