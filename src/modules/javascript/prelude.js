'use strict';
// What QuickJS as a module of WASI has besides the language: console, timers, the modules std and os as far as WASI
// carries them, and the two ways in which code is run: a script and its end, or cells that are sent (wire/interp.h).
//
// It is called with an object of functions (host.h) and the arguments. It shares its memory with the code that it runs and
// protects nobody.
(function prelude(host, args) {
const TEXT_MAX = 1 << 20;
const VALUE_MAX = 32 << 10;
const TRACEBACK_MAX = 256 << 10;
const FRAME_MAX = 15 << 20; // of 16: a frame that is longer costs the context
const VALUES_MAX = 100000;
const { stringify, parse } = JSON;

const define = (where, name, value) => Object.defineProperty(where, name,
  { value, writable: true, configurable: true, enumerable: false });

// ---- what a value looks like, as Node.js shows it ----

const LINE = 72;
const quote = (text) => {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes('`') ? '`' : "'";
  const escaped = stringify(text).slice(1, -1).replace(/\\"/g, '"');
  return mark + (mark === "'" ? escaped.replace(/'/g, "\\'") : escaped) + mark;
};
const isName = (key) => /^[A-Za-z_$][\w$]*$/.test(key);

function numberText(value) {
  return Object.is(value, -0) ? '-0' : String(value);
}

function stackOf(error) {
  const head = String(error.name || 'Error') + (error.message ? `: ${error.message}` : '');
  const stack = typeof error.stack === 'string' ? error.stack.replace(/\s+$/, '') : '';
  return stack ? `${head}\n${stack.split('\n').filter((line) => !/prelude\.js|\(native\)$/.test(line)).join('\n')}`.replace(/\n$/, '') : head;
}

class Inspector {
  constructor(depth) {
    this.depth = depth;
    this.above = [];
    this.circles = new Map();
  }

  show(value, level) {
    switch (typeof value) {
      case 'string': return quote(value.length > 100000 ? `${value.slice(0, 100000)}… (${value.length} characters)` : value);
      case 'number': return numberText(value);
      case 'bigint': return `${value}n`;
      case 'symbol': return String(value);
      case 'function': case 'object': return value === null ? 'null' : this.object(value, level);
      default: return String(value);
    }
  }

  object(value, level) {
    if (this.above.includes(value)) {
      if (!this.circles.has(value)) this.circles.set(value, this.circles.size + 1);
      return `[Circular *${this.circles.get(value)}]`;
    }
    this.above.push(value);
    try {
      const text = this.members(value, level);
      return this.circles.has(value) ? `<ref *${this.circles.get(value)}> ${text}` : text;
    } finally {
      this.above.pop();
    }
  }

  members(value, level) {
    const kind = this.kind(value);
    const deep = level > this.depth;
    let entries = [];
    const keys = Object.keys(value).filter((key) => !kind.skips || !kind.skips(key));
    if (deep && !kind.whole && (keys.length || kind.items)) return kind.list && !kind.name ? '[Array]' : `[${kind.name || 'Object'}]`;
    if (kind.items) entries = kind.items((item) => this.show(item, level + 1));
    for (const key of keys) {
      const name = isName(key) ? key : quote(key);
      entries.push(`${name}: ${this.property(value, key, level)}`);
    }
    for (const key of Object.getOwnPropertySymbols(value)) {
      if (Object.getOwnPropertyDescriptor(value, key).enumerable) entries.push(`[${String(key)}]: ${this.property(value, key, level)}`);
    }
    if (kind.whole && !entries.length) return kind.whole;
    const [open, close] = kind.list ? ['[', ']'] : ['{', '}'];
    const head = kind.whole || kind.name ? `${kind.whole || kind.name} ${open}` : open;
    if (!entries.length) return head + close;
    return this.join(head, entries, close, kind.list && !kind.keyed);
  }

  property(value, key, level) {
    const d = Object.getOwnPropertyDescriptor(value, key);
    if (d && (d.get || d.set)) return d.get && d.set ? '[Getter/Setter]' : d.get ? '[Getter]' : '[Setter]';
    return this.show(value[key], level + 1);
  }

  join(head, entries, close, list) {
    const length = entries.reduce((sum, entry) => sum + entry.length + 2, head.length);
    const flat = !entries.some((entry) => entry.includes('\n'));
    if (flat && length <= LINE && entries.length <= (list ? 6 : 1e9)) return `${head} ${entries.join(', ')} ${close}`;
    if (flat && list && entries.every((entry) => entry.length <= 6)) {
      const width = Math.max(...entries.map((entry) => entry.length)) + 2;
      const each = Math.max(1, Math.min(16, Math.floor(LINE / width), Math.ceil(Math.sqrt(2.5 * width * entries.length) / width)));
      const lines = [];
      for (let i = 0; i < entries.length; i += each) lines.push(entries.slice(i, i + each).join(', '));
      return lines.length === 1 ? `${head} ${lines[0]} ${close}` : `${head}\n  ${lines.join(',\n  ')}\n${close}`;
    }
    return `${head}\n  ${entries.join(',\n').replace(/\n/g, '\n  ')}\n${close}`;
  }

  // {name, list, whole: all of it, if it has no members, items: what is in it, skips: keys that are no members}
  kind(value) {
    const name = this.nameOf(value);
    if (Array.isArray(value)) {
      return { name: name === 'Array' ? '' : `${name}(${value.length})`, list: true, skips: (key) => /^\d+$/.test(key), items: (show) => this.items(value, show) };
    }
    if (typeof value === 'function') {
      const isClass = /^class\b/.test(Function.prototype.toString.call(value));
      const sort = isClass ? 'class' : name === 'Function' || !name ? 'Function' : name;
      return { whole: value.name ? `[${sort}${isClass ? '' : ':'} ${value.name}]` : `[${sort} (anonymous)]` };
    }
    if (value instanceof Error) return { whole: this.above.length > 1 ? `[${stackOf(value)}]` : stackOf(value), skips: (key) => key === 'stack' || key === 'message' };
    if (value instanceof RegExp) return { whole: RegExp.prototype.toString.call(value) };
    if (value instanceof Date) return { whole: Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString() };
    if (value instanceof Map) {
      return { name: `${name}(${value.size})`, items: (show) => [...value].map(([key, item]) => `${show(key)} => ${show(item)}`) };
    }
    if (value instanceof Set) return { name: `${name}(${value.size})`, items: (show) => [...value].map(show) };
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
      return { name: `${name}(${value.length})`, list: true, skips: (key) => /^\d+$/.test(key), items: (show) => this.items(value, show) };
    }
    if (value instanceof ArrayBuffer) {
      return { name, items: () => [`byteLength: ${value.byteLength}`] };
    }
    if (value instanceof Promise) {
      const [state, of] = host.promiseState(value);
      return { name, items: (show) => [['<pending>', '', '<rejected> '][state] + (state ? show(of) : '')] };
    }
    if (value instanceof Number || value instanceof String || value instanceof Boolean) {
      return { whole: `[${name}: ${this.show(value.valueOf(), 0)}]`, skips: (key) => /^\d+$/.test(key) };
    }
    return { name: name === 'Object' ? '' : name };
  }

  nameOf(value) {
    for (let at = value; at; at = Object.getPrototypeOf(at)) {
      const d = Object.getOwnPropertyDescriptor(at, 'constructor');
      if (d && typeof d.value === 'function' && d.value.name) return d.value.name;
    }
    return '[Object: null prototype]';
  }

  items(list, show) {
    const out = [];
    for (let i = 0; i < list.length && out.length < 100; i++) {
      if (i in list) out.push(show(list[i]));
      else {
        let holes = 1;
        while (i + 1 < list.length && !(i + 1 in list)) { holes++; i++; }
        out.push(`<${holes} empty item${holes > 1 ? 's' : ''}>`);
      }
    }
    if (list.length > 100) out.push(`... ${list.length - 100} more items`);
    return out;
  }
}

function inspect(value, depth = 2) {
  try {
    return new Inspector(depth).show(value, 0);
  } catch (error) {
    return `[it cannot be shown: ${error && error.message}]`;
  }
}

function format(values) {
  let text = '';
  let at = 0;
  if (typeof values[0] === 'string') {
    at = 1;
    text = values.length === 1 ? values[0] : values[0].replace(/%[sdifjoOc%]/g, (mark) => {
      if (mark === '%%') return '%';
      if (at >= values.length) return mark;
      const value = values[at++];
      switch (mark[1]) {
        case 's': return typeof value === 'object' && value !== null ? inspect(value, 0) : typeof value === 'bigint' ? `${value}n` : String(value);
        case 'd': return typeof value === 'object' ? 'NaN' : numberText(Number(value));
        case 'i': return typeof value === 'object' ? 'NaN' : numberText(parseInt(value, 10));
        case 'f': return numberText(parseFloat(value));
        case 'j': return stringify(value);
        case 'c': return '';
        default: return inspect(value, 4);
      }
    });
  }
  const rest = values.slice(at).map((value) => (typeof value === 'string' ? value : inspect(value)));
  return (at ? [text, ...rest] : rest).join(' ');
}

// ---- console ----

const say = (fd, text) => host.write(fd, text.toWellFormed());
let indent = '';
const line = (fd, values) => say(fd, `${(indent + format(values)).replace(/\n/g, `\n${indent}`)}\n`);
const counts = new Map();
const clocks = new Map();

function table(rows) {
  if (typeof rows !== 'object' || rows === null) return line(1, [rows]);
  const names = [];
  const lines = Object.keys(rows).map((key) => {
    const row = rows[key];
    const cells = new Map([['', key]]);
    if (typeof row === 'object' && row !== null) {
      for (const name of Object.keys(row)) {
        if (!names.includes(name)) names.push(name);
        cells.set(name, inspect(row[name], 0));
      }
    } else cells.set('Values', inspect(row, 0));
    return cells;
  });
  const heads = ['', ...names, ...(lines.some((cells) => cells.has('Values') && !names.includes('Values')) ? ['Values'] : [])];
  const widths = heads.map((head) => Math.max((head || '(index)').length, ...lines.map((cells) => (cells.get(head) || '').length)) + 2);
  const rule = (a, b, c) => a + widths.map((width) => '─'.repeat(width)).join(b) + c;
  const put = (cells) => `│${cells.map((cell, i) => ` ${cell}`.padEnd(widths[i])).join('│')}│`;
  const all = [rule('┌', '┬', '┐'), put(heads.map((head) => head || '(index)')), rule('├', '┼', '┤'),
    ...lines.map((cells) => put(heads.map((head) => cells.get(head) || ''))), rule('└', '┴', '┘')];
  return line(1, [all.join('\n')]);
}

const out = (...values) => { line(1, values); };
const err = (...values) => { line(2, values); };
define(globalThis, 'console', {
  log: out, info: out, debug: out, warn: err, error: err, dir: (value) => { line(1, [inspect(value)]); }, table,
  trace: (...values) => { line(2, [`Trace: ${format(values)}\n${new Error('').stack.split('\n').slice(1).join('\n').trimEnd()}`]); },
  assert: (good, ...values) => { if (!good) line(2, values.length ? ['Assertion failed:', ...values] : ['Assertion failed']); },
  group: (...values) => { if (values.length) line(1, values); indent += '  '; },
  groupEnd: () => { indent = indent.slice(2); },
  count: (name = 'default') => { counts.set(name, (counts.get(name) || 0) + 1); line(1, [`${name}: ${counts.get(name)}`]); },
  countReset: (name = 'default') => { counts.delete(name); },
  time: (name = 'default') => { clocks.set(name, host.now()); },
  timeLog: (name = 'default') => { line(1, [`${name}: ${(host.now() - clocks.get(name)).toFixed(3)}ms`]); },
  timeEnd: (name = 'default') => { line(1, [`${name}: ${(host.now() - clocks.get(name)).toFixed(3)}ms`]); clocks.delete(name); },
});
define(globalThis, 'print', (...values) => { say(1, `${values.map(String).join(' ')}\n`); });

// ---- timers ----

let timers = []; // {id, due, every, call}, in the order in which they are due
let timerCount = 0;

function setTimer(call, ms, every, rest) {
  if (typeof call !== 'function') throw new TypeError('the first argument of a timer is a function');
  const wait = Math.max(Number(ms) || 0, every ? 1 : 0);
  const timer = { id: ++timerCount, due: host.now() + wait, every: every ? wait : 0, call: () => host.call(call, ...rest) };
  placeTimer(timer);
  return timer.id;
}

function placeTimer(timer) {
  let at = timers.length;
  while (at > 0 && timers[at - 1].due > timer.due) at--;
  timers.splice(at, 0, timer);
}

function clearTimer(id) {
  timers = timers.filter((timer) => timer.id !== id);
}

// The first timer that is due; how many milliseconds until there is one; -1: there is none.
function nextTimer() {
  if (!timers.length) return -1;
  const left = timers[0].due - host.now();
  if (left > 0) return left;
  const timer = timers.shift();
  if (timer.every) placeTimer(Object.assign(timer, { due: host.now() + timer.every }));
  timer.call();
  return 0;
}

const setTimeout = (call, ms, ...rest) => setTimer(call, ms, false, rest);
define(globalThis, 'setTimeout', setTimeout);
define(globalThis, 'setInterval', (call, ms, ...rest) => setTimer(call, ms, true, rest));
define(globalThis, 'setImmediate', (call, ...rest) => setTimer(call, 0, false, rest));
for (const name of ['clearTimeout', 'clearInterval', 'clearImmediate']) define(globalThis, name, clearTimer);
define(globalThis, 'queueMicrotask', (call) => { Promise.resolve().then(call); });
const began = host.now();
define(globalThis, 'performance', { now: () => host.now() - began, timeOrigin: Date.now() });

// ---- text and bytes ----

function utf8(text) {
  const bytes = [];
  for (const sign of text.toWellFormed()) {
    const code = sign.codePointAt(0);
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | code >> 6, 0x80 | code & 63);
    else if (code < 0x10000) bytes.push(0xe0 | code >> 12, 0x80 | code >> 6 & 63, 0x80 | code & 63);
    else bytes.push(0xf0 | code >> 18, 0x80 | code >> 12 & 63, 0x80 | code >> 6 & 63, 0x80 | code & 63);
  }
  return Uint8Array.from(bytes);
}

define(globalThis, 'TextEncoder', class TextEncoder {
  get encoding() { return 'utf-8'; }

  encode(text = '') { return utf8(String(text)); }
});
define(globalThis, 'TextDecoder', class TextDecoder {
  constructor(label = 'utf-8') {
    if (!/^(utf-?8|ascii|us-ascii)$/i.test(label)) throw new RangeError(`there is utf-8 only, not ${label}`);
  }

  get encoding() { return 'utf-8'; }

  decode(data = new Uint8Array(0)) {
    const bytes = new Uint8Array(data.buffer || data, data.byteOffset || 0, data.byteLength);
    return host.decode(bytes);
  }
});

// ---- std and os: what WASI carries of QuickJS' own modules ----

const { os, errors } = host;
Object.assign(os, {
  setTimeout, clearTimeout: clearTimer, now: () => host.now() * 1000,
  sleep: (ms) => { host.sleep(ms); },
  sleepAsync: (ms) => new Promise((resolve) => { setTimeout(resolve, ms); }),
});

const fail = (code, what) => Object.assign(new Error(`${what}: ${host.strerror(code)}`), { errno: Math.abs(code) });

class File {
  #fd;

  #ahead = new Uint8Array(0);

  #over = false;

  constructor(fd) { this.#fd = fd; }

  fileno() { return this.#fd; }

  close() { return os.close(this.#fd); }

  flush() {}

  eof() { return this.#over; }

  puts(...texts) { for (const text of texts) host.write(this.#fd, String(text)); }

  seek(offset, whence) {
    this.#ahead = new Uint8Array(0);
    this.#over = false;
    return Math.min(0, os.seek(this.#fd, offset, whence));
  }

  tell() { return os.seek(this.#fd, 0, 1) - this.#ahead.length; }

  read(buffer, at, length) {
    const kept = Math.min(length, this.#ahead.length);
    new Uint8Array(buffer).set(this.#ahead.subarray(0, kept), at);
    this.#ahead = this.#ahead.subarray(kept);
    if (kept || !length) return kept;
    const n = os.read(this.#fd, buffer, at, length);
    if (n === 0) this.#over = true;
    return Math.max(0, n);
  }

  write(buffer, at, length) { return Math.max(0, os.write(this.#fd, buffer, at, length)); }

  getByte() {
    const one = new Uint8Array(1);
    return this.read(one.buffer, 0, 1) === 1 ? one[0] : -1;
  }

  putByte(byte) { return host.write(this.#fd, Uint8Array.of(byte)); }

  readAsString() {
    const [rest, code] = host.readAll(this.#fd, true);
    if (code) throw fail(code, 'read');
    const all = new Uint8Array(this.#ahead.length + rest.byteLength);
    all.set(this.#ahead);
    all.set(new Uint8Array(rest), this.#ahead.length);
    this.#ahead = new Uint8Array(0);
    this.#over = true;
    return host.decode(all);
  }

  // null at the end; without the end of line
  getline() {
    for (let seen = 0; ;) {
      const end = this.#ahead.indexOf(10, seen);
      if (end >= 0 || (this.#over && this.#ahead.length)) {
        const stop = end >= 0 ? end : this.#ahead.length;
        const text = host.decode(this.#ahead.slice(0, stop));
        this.#ahead = this.#ahead.slice(stop + 1);
        return text;
      }
      seen = this.#ahead.length;
      const more = new ArrayBuffer(4096);
      const n = this.#over ? 0 : os.read(this.#fd, more, 0, 4096);
      if (n <= 0) {
        this.#over = true;
        if (!seen) return null;
        continue;
      }
      const all = new Uint8Array(seen + n);
      all.set(this.#ahead);
      all.set(new Uint8Array(more, 0, n), seen);
      this.#ahead = all;
    }
  }
}

const MODES = { r: os.O_RDONLY, 'r+': os.O_RDWR, w: os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 'w+': os.O_RDWR | os.O_CREAT | os.O_TRUNC,
  a: os.O_WRONLY | os.O_CREAT | os.O_APPEND, 'a+': os.O_RDWR | os.O_CREAT | os.O_APPEND };

function openFile(name, mode = 'r', told = undefined) {
  const flags = MODES[mode.replace('b', '')];
  if (flags === undefined) throw new TypeError(`std.open: no mode '${mode}'`);
  const fd = os.open(name, flags);
  if (told) told.errno = fd < 0 ? -fd : 0;
  return fd < 0 ? null : new File(fd);
}

function writeFile(name, data) {
  const fd = os.open(name, MODES.w);
  if (fd < 0) throw fail(fd, name);
  const r = host.write(fd, typeof data === 'string' || ArrayBuffer.isView(data) || data instanceof ArrayBuffer ? data : String(data));
  os.close(fd);
  if (r < 0) throw fail(r, name);
}

const loadFile = (name, options) => {
  const [data, code] = host.readAll(String(name), Boolean(options && options.binary));
  return code ? null : options && options.binary ? new Uint8Array(data) : data;
};

const std = {
  in: new File(0), out: new File(1), err: new File(2), open: openFile, fdopen: (fd) => new File(fd), loadFile, writeFile,
  loadScript: (name) => {
    const text = loadFile(name);
    if (text === null) throw new ReferenceError(`could not load '${name}'`);
    return host.evaluate(text, name, 'plain');
  },
  evalScript: (text) => host.evaluate(String(text), '<evalScript>', 'plain'),
  exit: (code = 0) => host.exit(code), gc: host.gc, strerror: host.strerror,
  getenv: host.getenv, getenviron: host.environ, setenv: (name, value) => host.setenv(name, String(value)), unsetenv: (name) => host.setenv(name),
  puts: (...texts) => std.out.puts(...texts), Error: errors, SEEK_SET: 0, SEEK_CUR: 1, SEEK_END: 2,
};
host.setModules({ std, os });
define(globalThis, 'std', std);
define(globalThis, 'os', os);

// ---- errors ----

const waiting = new Map(); // rejections that nobody handles so far

host.onRejection((promise, reason, handled) => {
  if (handled) waiting.delete(promise);
  else waiting.set(promise, reason);
});

// The first of them, as {reason}, and no more of them.
function unhandled() {
  for (const [, reason] of waiting) {
    waiting.clear();
    return { reason };
  }
  return null;
}

const wellFormed = (text) => (text.includes('\0') ? text.replaceAll('\0', '\uFFFD') : text).toWellFormed();

function cut(text, most) {
  text = wellFormed(String(text));
  const bytes = host.bytes(text);
  return bytes <= most ? text : `${wellFormed(text.slice(0, Math.floor(most / 3) - 64))}\n… (${bytes} bytes in all)`;
}

// What people try who take this for Node.js or a browser.
const ELSEWHERE = /^'?(require|fetch|Buffer|process|module|__dirname|__filename|XMLHttpRequest|window|document|Deno|Bun)'? is not defined/;

function tellError(error) {
  if (!(error instanceof Error)) {
    const text = inspect(error);
    return { name: 'Error', value: cut(typeof error === 'string' ? error : text, VALUE_MAX), traceback: cut(`Uncaught ${text}`, TRACEBACK_MAX) };
  }
  let text = stackOf(error);
  if (error.cause !== undefined) text += `\n[cause]: ${inspect(error.cause)}`;
  if (error.name === 'ReferenceError' && ELSEWHERE.test(error.message)) {
    text += '\n(this is QuickJS as a WebAssembly module, without what Node.js and browsers have besides the language; std and os are there, and no network)';
  }
  return { name: wellFormed(String(error.name || 'Error')).slice(0, 60), value: cut(error.message, VALUE_MAX), traceback: cut(text, TRACEBACK_MAX) };
}

function safely(error) {
  try {
    return tellError(error);
  } catch {
    return { name: 'Error', value: '(its text is not available)', traceback: '' };
  }
}

// ---- a promise, until it is settled ----

const UNSETTLED = 'it awaits what nothing will settle: no timer is left, and nothing else can happen';

class Interrupted extends Error {
  get name() { return 'Interrupted'; }
}

function interrupted() {
  return Object.assign(new Interrupted('the cell was interrupted'), { stack: '' });
}

// All jobs that wait. What a job throws is its promise's, or an interrupt.
function runJobs() {
  for (;;) {
    try {
      if (!host.runJob()) return;
    } catch (error) {
      if (host.wasInterrupted()) throw interrupted();
      throw error;
    }
  }
}

// `promise`, or undefined: everything that was left behind.
function settle(promise) {
  for (;;) {
    runJobs();
    const lost = unhandled();
    if (host.wasInterrupted()) throw interrupted();
    const [state, value] = promise ? host.promiseState(promise) : [0];
    if (state === 2) throw value;
    if (lost) throw lost.reason;
    if (state === 1) return value;
    const wait = nextTimer();
    if (wait < 0) {
      if (promise) throw new Error(UNSETTLED);
      return undefined;
    }
    if (wait > 0 && !host.sleep(wait)) throw interrupted();
  }
}

// ---- a script and its end ----

function usage() {
  say(2, 'javascript: expected -, FILE or -e CODE, and arguments\n');
  return 2;
}

function runScript() {
  let [name, ...rest] = args;
  let text;
  if (name === '-e') {
    if (!rest.length) return usage();
    [text, ...rest] = rest;
    name = '<code>';
  } else {
    const [all, code] = host.readAll(name === undefined || name === '-' ? 0 : name);
    if (code) {
      say(2, `javascript: cannot read ${name}: ${host.strerror(code)}\n`);
      return 2;
    }
    text = all;
    if (name === undefined || name === '-') name = '<stdin>';
  }
  define(globalThis, 'scriptArgs', [name, ...rest]);
  try {
    const promise = host.evaluate(text, name, host.isModule(text) ? 'module' : 'script');
    if (host.promiseState(promise)) {
      promise.catch(() => {});
      settle(promise);
    }
    settle();
    return 0;
  } catch (error) {
    say(2, `Uncaught ${safely(error).traceback.replace(/^Uncaught /, '')}\n`);
    return 1;
  }
}

// ---- cells ----

let count = 0;
let current = null; // the execution that is under way

const send = (message) => host.writeFrame(stringify(message));

// Plain data as JSON has it; undefined if there is something in it that is not, or too much of it.
function plain(value, left = { values: VALUES_MAX }, depth = 0) {
  if (--left.values < 0 || depth > 24) return undefined;
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number') return !Number.isFinite(value) ? null : Number.isInteger(value) && Math.abs(value) >= 2 ** 63 ? String(value) : value;
  if (typeof value === 'string') return wellFormed(value);
  if (typeof value !== 'object') return undefined;
  if (Array.isArray(value)) {
    const list = value.map((item) => plain(item, left, depth + 1));
    return list.includes(undefined) || list.length !== Object.keys(list).length ? undefined : list;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return undefined;
  const object = {};
  for (const key of Object.keys(value)) {
    const item = plain(value[key], left, depth + 1);
    if (item === undefined) return undefined;
    Object.defineProperty(object, wellFormed(key), { value: item, enumerable: true, configurable: true });
  }
  return object;
}

const TEXTUAL = ['text', 'html', 'markdown', 'svg', 'latex', 'javascript'];
const BINARY = ['png', 'jpeg', 'pdf'];
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function base64(value) {
  if (typeof value === 'string') return value;
  const bytes = new Uint8Array(value.buffer || value, value.byteOffset || 0, value.byteLength);
  const parts = [];
  for (let i = 0; i < bytes.length; i += 3) {
    const three = bytes[i] << 16 | (bytes[i + 1] || 0) << 8 | (bytes[i + 2] || 0);
    const have = Math.min(3, bytes.length - i);
    parts.push(LETTERS[three >> 18] + LETTERS[three >> 12 & 63] + (have > 1 ? LETTERS[three >> 6 & 63] : '=') + (have > 2 ? LETTERS[three & 63] : '='));
  }
  return parts.join('');
}

function setMember(data, name, value) {
  if (value === undefined || value === null) return;
  if (BINARY.includes(name)) data[name] = base64(value);
  else if (TEXTUAL.includes(name)) data[name] = wellFormed(String(value));
  else if (plain(value) !== undefined) data[name] = plain(value);
}

const MIMES = {
  'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png',
  'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex', 'application/json': 'json', 'application/javascript': 'javascript',
};

function look(value) {
  const data = {};
  // A convention of other JavaScript notebooks: a method that gives a value by MIME type.
  const shown = value && typeof value === 'object' && value[Symbol.for('Jupyter.display')];
  if (typeof shown === 'function') {
    for (const [mime, part] of Object.entries(shown.call(value) || {})) if (MIMES[mime]) setMember(data, MIMES[mime], part);
  }
  if (data.text === undefined) data.text = wellFormed(typeof value === 'string' ? quote(value).slice(1, -1) : inspect(value, 4));
  if (value && typeof value === 'object' && data.json === undefined) setMember(data, 'json', plain(value));
  return data;
}

function fit(data) {
  if (data.text !== undefined) data.text = cut(data.text, TEXT_MAX);
  const size = (name) => host.bytes(stringify(data[name]));
  for (;;) {
    const names = Object.keys(data);
    if (names.reduce((sum, name) => sum + size(name), 0) <= FRAME_MAX) return data;
    const largest = names.reduce((a, b) => (size(a) >= size(b) ? a : b));
    say(2, `brig: the ${largest} of this result has ${size(largest)} bytes, too many to be sent\n`);
    delete data[largest];
  }
}

function sendResult(data, main) {
  if (current !== null) send({ type: 'result', id: current, main, data: fit(data) });
}

function makeDisplay() {
  const display = (...values) => { values.forEach((value) => sendResult(look(value), false)); };
  for (const name of [...TEXTUAL, ...BINARY, 'json']) {
    display[name] = (value) => {
      const data = {};
      setMember(data, name, value);
      sendResult(data, false);
    };
  }
  return display;
}

// `{a: 1}` alone is an object, where it can be one.
function asExpression(code) {
  if (!/^\s*\{/.test(code) || /;\s*$/.test(code)) return code;
  return host.evaluate(`(${code}\n)`, 'cell', 'check') ? `(${code}\n)` : code;
}

function runCell(code) {
  const promise = host.evaluate(asExpression(code), `cell[${count}]`, 'script');
  promise.catch(() => {});
  const done = settle(promise);
  return done && done.value !== undefined ? host.call(look, done.value) : null;
}

function setEnvironment(wanted) {
  const before = Object.keys(wanted).map((name) => [name, host.getenv(name)]);
  for (const [name, value] of Object.entries(wanted)) if (name && !name.includes('=')) host.setenv(name, value);
  return () => before.forEach(([name, value]) => host.setenv(name, value));
}

function execute(request) {
  count++;
  current = request.id;
  host.wasInterrupted(true); // a signal between cells is ignored
  waiting.clear();
  send({ type: 'count', id: request.id, value: count });
  const restore = setEnvironment(request.env || {});
  let error = null;
  try {
    const data = runCell(request.code);
    if (data) sendResult(data, true);
  } catch (thrown) {
    error = { thrown };
  }
  const broken = host.wasInterrupted(true);
  if (error) send({ type: 'error', id: request.id, ...safely(broken ? interrupted() : error.thrown) });
  host.loosen();
  restore();
  current = null;
  send({ type: 'end', id: request.id });
}

// What cells left behind goes on between them.
function between() {
  try {
    runJobs();
    const lost = unhandled();
    if (lost) throw lost.reason;
    return nextTimer();
  } catch (error) {
    host.wasInterrupted(true);
    say(2, `Uncaught ${safely(error).traceback.replace(/^Uncaught /, '')}\n`);
    return 0;
  }
}

function runCells() {
  define(globalThis, 'display', makeDisplay());
  define(globalThis, 'scriptArgs', []);
  if (args.length > 1) os.chdir(args[1]);
  host.loosen();
  send({ type: 'ready', language: 'javascript', version: `QuickJS ${host.version}`, pid: 1 });
  for (;;) {
    const text = host.readFrame(between());
    if (text === null) return 0;
    if (text === undefined) continue;
    const request = parse(text);
    if (request.op === 'exit') return 0;
    if (request.op === 'execute') execute(request);
  }
}

return args.length && args[0].startsWith('--cells=') ? runCells() : runScript();
})
