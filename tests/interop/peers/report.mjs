// What a peer program found out, feature by feature, as one JSON object on stdout.

const LIMIT = 10_000; // milliseconds for one feature

export const FORM = { name: 'Ann', email: 'ann@example.org', age: 30, height: 1.7, colour: 'red' };
export const CHOICES = { plain: 'a', titled: 'x', named: 'n', several: ['a', 'b'], titled_several: ['y'] };

// What clients are started with: `COMMAND ARG...`, or `URL`, or `URL resumable`.
export function target(args) {
  if (!args[0].startsWith('http')) return { command: args[0], args: args.slice(1) };
  return { url: new URL(args[0]), resumable: args[1] === 'resumable' };
}

export class Report {
  features = {};

  // What `run` returns is compared by the test that started us.
  async check(feature, run, how = 'API') {
    const found = (this.features[feature] = { how });
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer in time')), LIMIT);
    });
    try {
      found.got = await Promise.race([run(), late]);
    } catch (error) {
      found.error = String(error?.stack ?? error);
    } finally {
      clearTimeout(timer);
    }
  }

  // The public API has no way to do it, not even with a raw message.
  missing(feature, why) {
    this.features[feature] = { how: 'not offered', why };
  }

  print() {
    console.log(JSON.stringify(this.features));
  }
}

// What arrived unasked; wait for it with `until`.
export class Heard {
  items = [];
  #waiting = [];

  put(item) {
    this.items.push(item);
    this.#waiting.splice(0).forEach((wake) => wake());
  }

  async until(wanted) {
    for (;;) {
      const found = this.items.find(wanted);
      if (found) return found;
      await new Promise((resolve) => this.#waiting.push(resolve));
    }
  }
}

// For servers.
export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=';
export const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';
export const WEATHER = {
  name: 'weather',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } } },
};
export const PERSON_FORM = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1 },
    email: { type: 'string', format: 'email' },
    age: { type: 'integer', minimum: 0 },
    height: { type: 'number' },
    colour: { type: 'string', enum: ['red', 'green'] },
    happy: { type: 'boolean', default: true },
  },
  required: ['name', 'email', 'age', 'height', 'colour'],
};
export const CHOICES_FORM = {
  type: 'object',
  properties: {
    plain: { type: 'string', enum: ['a', 'b'] },
    titled: { type: 'string', oneOf: [{ const: 'x', title: 'X' }] },
    named: { type: 'string', enum: ['m', 'n'], enumNames: ['M', 'N'] },
    several: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
    titled_several: { type: 'array', items: { anyOf: [{ const: 'y', title: 'Y' }] } },
    day: { type: 'string', format: 'date', default: '2026-01-02' },
  },
  required: ['plain', 'titled', 'named', 'several', 'titled_several'],
};
