// What both versions of the TypeScript SDK do alike: their clients have the same methods.
// The programs connect, and give the handlers of what the server asks and tells.

import { CHOICES, FORM, Heard, Report } from './report.mjs';

export const heard = new Heard();
export const state = { answer: 'accept', roots: ['file:///peer/one'], abandoned: 0 };
const report = new Report();
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

const said = (text) => ({ role: 'assistant', model: 'peer-model', content: { type: 'text', text } });

export function sample({ params }) {
  if (!params.tools) return said(`a reply to ${params.messages[0].content.text}`);
  const [block] = [params.messages.at(-1).content].flat();
  if (block.type === 'tool_result') return said(`It says: ${block.content[0].text}`);
  const use = { type: 'tool_use', id: 'use-1', name: params.tools[0].name, input: { city: 'Oslo' } };
  return { role: 'assistant', model: 'peer-model', content: [use], stopReason: 'toolUse' };
}

export async function elicit({ params }, signal) {
  heard.put(['asked', params.message, params]);
  if (params.message === 'hold') {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    state.abandoned += 1;
    return { action: 'cancel' };
  }
  if (params.mode === 'url') return { action: 'accept' };
  if (params.message === 'Choose') return { action: 'accept', content: CHOICES };
  return state.answer === 'accept' ? { action: 'accept', content: FORM } : { action: state.answer };
}

export const listRoots = () => ({ roots: state.roots.map((uri) => ({ uri })) });

async function pages(list, attribute) {
  const found = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? undefined : { cursor });
    found.push(...page[attribute]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

async function codeOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error.code;
  }
}

async function lists(client) {
  const tools = (params) => client.listTools(params);
  const resources = (params) => client.listResources(params);
  const templates = (params) => client.listResourceTemplates(params);
  const prompts = (params) => client.listPrompts(params);
  await report.check('list tools', async () => (await pages(tools, 'tools')).map((t) => t.name).sort());
  await report.check('list resources', async () => (await pages(resources, 'resources')).map((r) => r.uri).sort());
  await report.check('list resource templates', async () =>
    (await pages(templates, 'resourceTemplates')).map((t) => t.uriTemplate),
  );
  await report.check('list prompts', async () =>
    (await pages(prompts, 'prompts')).map((p) => [p.name, p.arguments.map((a) => [a.name, a.required])]),
  );
}

async function calls(client, call) {
  const echo = async (text) => (await call('echo', { text })).content[0].text;
  await report.check('call a tool', () => echo('grüße 🙂'));
  await report.check('structured content', async () => (await call('add', { a: 2, b: 3 })).structuredContent);
  await report.check('kinds of content', async () => (await call('contents')).content.map((block) => block.type));
  await report.check('concurrent calls', () => Promise.all([...Array(20).keys()].map((n) => echo(String(n)))));
  await report.check('progress', async () => {
    const seen = [];
    await call('progress', { n: 3 }, { onprogress: (p) => seen.push([p.progress, p.total, p.message]) });
    return seen;
  });
  await report.check('tool error', async () => {
    const result = await call('fail', { reason: 'on purpose' });
    return [result.isError, result.content[0].text.includes('on purpose')];
  });
  await report.check('bad arguments', async () => (await call('add', { a: 'two', b: 3 })).isError);
  await report.check('unknown tool', () => codeOf(call('nothing')));
}

async function reverse(client, call) {
  const text = async (name, args) => (await call(name, args)).content[0].text;
  const roots = async () => (await call('roots')).structuredContent.result;
  await report.check('sampling', () => text('sample', { prompt: 'a poem' }));
  await report.check('sampling with tools', () => text('sample_with_tools', { city: 'Oslo' }));
  for (const answer of ['accept', 'decline', 'cancel']) {
    await report.check(`elicitation: ${answer}`, async () => {
      state.answer = answer;
      return (await call('ask')).structuredContent;
    });
  }
  await report.check('elicitation: choices', async () => {
    const chosen = (await call('choose')).structuredContent;
    const asked = await heard.until(([kind, message]) => kind === 'asked' && message === 'Choose');
    return [asked[2].requestedSchema, chosen];
  });
  await report.check('elicitation: url', () => text('ask_url'));
  await report.check('elicitation: url visited', async () => {
    const [, params] = await heard.until(([method]) => method === 'notifications/elicitation/complete');
    return params.elicitationId;
  });
  await report.check('roots', roots);
  await report.check('roots changed', async () => {
    state.roots = ['file:///peer/two'];
    await client.sendRootsListChanged();
    while ((await roots())[0] !== state.roots[0]) await pause();
    return roots();
  });
}

async function resources(client, call) {
  const read = async (uri) => (await client.readResource({ uri })).contents[0];
  await report.check('read text', async () => (await read('memo://text')).text);
  await report.check('read blob', async () => (await read('memo://blob')).blob);
  await report.check('read through a template', async () => (await read('memo://notes/first')).text);
  await report.check('resource updates', async () => {
    await client.subscribeResource({ uri: 'memo://notes/first' });
    await call('touch', { name: 'first', text: '1' });
    const [, params] = await heard.until(([method]) => method === 'notifications/resources/updated');
    await client.unsubscribeResource({ uri: 'memo://notes/first' });
    return params.uri;
  });
  await report.check('unknown resource', () => codeOf(read('memo://no')));
}

async function others(client, call) {
  const complete = async (ref, name, value, context) => {
    const result = await client.complete({ ref, argument: { name, value }, ...(context && { context }) });
    return result.completion.values;
  };
  const greet = { type: 'ref/prompt', name: 'greet' };
  const note = { type: 'ref/resource', uri: 'memo://notes/{name}' };
  const settled = { arguments: { name: 'Marianne' } };
  await report.check('get a prompt', async () => {
    const result = await client.getPrompt({ name: 'greet', arguments: { name: 'Ann', style: 'french' } });
    return result.messages.map((message) => [message.role, message.content.text]);
  });
  await report.check('complete a prompt', () => complete(greet, 'style', 'f'));
  await report.check('complete with context', () => complete(greet, 'style', '', settled));
  await report.check('complete a template', () => complete(note, 'name', 'fi'));
  const isLog = ([method]) => method === 'notifications/message';
  const logged = () => heard.items.filter(isLog).map(([, params]) => [params.level, params.data]);
  await report.check('log', async () => {
    await call('log', { level: 'info', text: 'hello' });
    await heard.until(isLog);
    return logged();
  });
  await report.check('log level', async () => {
    const before = logged().length;
    await client.setLoggingLevel('warning');
    await call('log', { level: 'info', text: 'quiet' });
    await call('log', { level: 'error', text: 'loud' });
    await heard.until((item) => isLog(item) && item[1].level === 'error');
    return logged().slice(before);
  });
  await report.check('tools changed', async () => {
    await call('grow');
    await heard.until(([method]) => method === 'notifications/tools/list_changed');
    return (await pages((params) => client.listTools(params), 'tools')).some((tool) => tool.name === 'grown');
  });
}

async function cancellation(client, call) {
  // The server's record once `key` is in it: cancellation takes a moment there.
  const recorded = async (key) => {
    for (;;) {
      const record = (await call('record')).structuredContent;
      if (key in record) return record;
      await pause();
    }
  };
  const giveUp = async (tool, when) => {
    const controller = new AbortController(); // the SDK sends notifications/cancelled
    const onprogress = () => heard.put(['running', tool]);
    const running = call(tool, {}, { signal: controller.signal, onprogress }).catch(() => undefined);
    await heard.until(when);
    controller.abort();
    await running;
  };
  await report.check('cancel a call', async () => {
    await giveUp('slow', ([kind, tool]) => kind === 'running' && tool === 'slow');
    return (await recorded('slow ended'))['slow ended'];
  });
  await report.check('cancel a call that asks', async () => {
    await giveUp('hold', ([kind, message]) => kind === 'asked' && message === 'hold');
    while (state.abandoned === 0) await pause();
    const seen = await recorded('hold cancelled');
    return [seen['hold cancelled'], seen.open, state.abandoned];
  });
}

async function resumption(call) {
  const lose = async (n, where) => {
    const seen = [];
    const onprogress = (p) => seen.push([p.progress, p.total, p.message]);
    const [{ text }] = (await call('progress', { n, ...where }, { onprogress })).content;
    return [...seen, text];
  };
  await report.check('cut in a call', () => lose(3, { cut: 1 }));
  await report.check('hung up in a call', () => lose(3, { hang_up: 1 }));
  await report.check('cut while listening', async () => {
    const changes = () => heard.items.filter(([method]) => method === 'notifications/tools/list_changed');
    const before = changes().length;
    const seen = await lose(1, { cut: 1 });
    await call('grow');
    while (changes().length === before) await pause();
    return seen.at(-1);
  });
}

// `call(name, args, options)` calls a tool; `version()` is the negotiated revision.
export async function run(client, call, version, resumable) {
  await report.check('initialize', () => {
    const server = client.getServerVersion();
    return Promise.resolve([server.name, server.version, version()]);
  });
  await report.check('ping', async () => Boolean(await client.ping()));
  for (const part of [lists, calls, reverse, resources, others, cancellation]) await part(client, call);
  if (resumable) await resumption(call);
  await client.close();
  report.print();
}
