'use strict';
/* Runs cells of JavaScript for brig: requests come over descriptor 3, results go back over 4 (wire/interp.h).
 *
 * One process is one context. Cells run in the main context of this process as scripts: what they declare stays. What
 * they print goes to descriptors 1 and 2. Timers and promises that a cell leaves behind go on between cells.
 *
 * Started with the word "typescript" it runs cells of TypeScript, with a compiler that is installed: see typeless().
 *
 * This program shares its process with the code that it runs and protects nobody. Node.js 18 or newer, nothing else. */
const fs = require('fs');
const net = require('net');
const path = require('path');
const util = require('util');
const vm = require('vm');
const { Writable } = require('stream');
const nodeModule = require('module');
const { pathToFileURL } = require('url');

const { createRequire, isBuiltin } = nodeModule;

const LANGUAGE = process.argv[2] === 'typescript' ? 'typescript' : 'javascript';
const REQUESTS = 3;
const ANSWERS = 4;
const FRAME_MAX = 15 << 20; // of 16: a frame that is longer costs the context
const TEXT_MAX = 1 << 20;
const VALUE_MAX = 32 << 10;
const TRACEBACK_MAX = 256 << 10;
const VALUES_MAX = 100000;
const BINARY = ['png', 'jpeg', 'pdf'];
const TEXTUAL = ['text', 'html', 'markdown', 'svg', 'latex', 'javascript'];
const MIMES = {
  'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png',
  'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex', 'application/json': 'json',
  'application/javascript': 'javascript',
};

let count = 0;
let current = null; // the execution that is under way: {id, stop}

// ---- text and values that the front accepts ----

const wellFormed = (text) => text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]|\0/g,
  '\uFFFD');

function cut(text, most) {
  text = wellFormed(String(text));
  const bytes = Buffer.from(text);
  if (bytes.length <= most) return text;
  return wellFormed(bytes.subarray(0, most - 64).toString()) + `\n… (${bytes.length} bytes in all)`;
}

// Plain data as JSON has it; undefined if there is something in it that is not, or too much of it.
function plain(value, left = { values: VALUES_MAX }, depth = 0) {
  if (--left.values < 0 || depth > 24) return undefined;
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? safeNumber(value) : null;
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

// JSON.stringify writes whole numbers above 2^63 with all their digits, which the front takes for an integer.
const safeNumber = (value) => (Number.isInteger(value) && Math.abs(value) >= 2 ** 63 ? String(value) : value);

// ---- the channel: written synchronously, so that nothing is lost when code never gives the loop its turn ----

function writeAll(fd, data) {
  for (let at = 0; at < data.length;) {
    try {
      at += fs.writeSync(fd, data, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

function send(message) {
  const body = Buffer.from(JSON.stringify(message));
  const data = Buffer.allocUnsafe(body.length + 4);
  data.writeUInt32LE(body.length, 0);
  body.copy(data, 4);
  writeAll(ANSWERS, data);
}

function listen(onRequest, onEnd) {
  let chunks = [];
  let length = 0;
  const socket = new net.Socket({ fd: REQUESTS, readable: true, writable: false });
  socket.on('data', (chunk) => {
    chunks.push(chunk);
    length += chunk.length;
    while (length >= 4) {
      if (chunks.length > 1 && chunks[0].length < 4) chunks = [Buffer.concat(chunks)];
      const need = chunks[0].readUInt32LE(0) + 4;
      if (length < need) return;
      const all = Buffer.concat(chunks);
      chunks = [all.subarray(need)];
      length -= need;
      onRequest(JSON.parse(all.toString('utf8', 4, need)));
    }
  });
  socket.on('end', onEnd);
  socket.on('error', onEnd);
}

// ---- what a value looks like ----

function base64(value) {
  if (typeof value === 'string') return Buffer.from(value, 'base64').toString('base64');
  return Buffer.from(value.buffer ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : value)
    .toString('base64');
}

function setMember(data, name, value) {
  if (value === undefined || value === null) return;
  if (BINARY.includes(name)) data[name] = base64(value);
  else if (TEXTUAL.includes(name)) data[name] = wellFormed(String(value));
  else if (plain(value) !== undefined) data[name] = plain(value);
}

function textOf(value) {
  const text = util.inspect(value, { depth: 4, maxArrayLength: 200, maxStringLength: 100000 });
  return typeof value === 'string' ? text.slice(1, -1) : text;
}

function look(value) {
  const data = {};
  // A convention of other JavaScript notebooks: a method that gives a value by MIME type.
  const shown = value && typeof value === 'object' && value[Symbol.for('Jupyter.display')];
  if (typeof shown === 'function') {
    for (const [mime, part] of Object.entries(shown.call(value) || {})) {
      if (MIMES[mime]) setMember(data, MIMES[mime], part);
    }
  }
  if (data.text === undefined) data.text = wellFormed(textOf(value));
  if (value && typeof value === 'object' && data.json === undefined) setMember(data, 'json', plain(value));
  return data;
}

function fit(data) {
  if (data.text !== undefined) data.text = cut(data.text, TEXT_MAX);
  const size = (name) => Buffer.byteLength(JSON.stringify(data[name]));
  for (;;) {
    const names = Object.keys(data);
    if (names.reduce((sum, name) => sum + size(name), 0) <= FRAME_MAX) return data;
    const largest = names.reduce((a, b) => (size(a) >= size(b) ? a : b));
    process.stderr.write(`brig: the ${largest} of this result has ${size(largest)} bytes, too many to be sent\n`);
    delete data[largest];
  }
}

function sendResult(data, main) {
  if (current) send({ type: 'result', id: current.id, main, data: fit(data) });
}

function makeDisplay() {
  const display = (...values) => values.forEach((value) => sendResult(look(value), false));
  for (const name of [...TEXTUAL, ...BINARY, 'json']) {
    display[name] = (value) => {
      const data = {};
      setMember(data, name, value);
      sendResult(data, false);
    };
  }
  return display;
}

// ---- errors ----

const OWN = [__filename, 'node:vm', 'node:internal/'];

function errorMessage(error) {
  if (!util.types.isNativeError(error) && !(error instanceof Error)) {
    const text = textOf(error);
    return { name: 'Error', value: cut(text, VALUE_MAX), traceback: cut(`Uncaught ${text}`, TRACEBACK_MAX) };
  }
  const name = wellFormed(String(error.name || 'Error')).slice(0, 60);
  const lines = String(error.stack || `${name}: ${error.message}`).split('\n');
  let traceback = lines.filter((line) => !/^\s+at /.test(line) || !OWN.some((own) => line.includes(own))).join('\n');
  if (error.cause !== undefined) traceback += `\n[cause]: ${safeErrorMessage(error.cause).traceback}`;
  return { name, value: cut(error.message, VALUE_MAX), traceback: cut(traceback, TRACEBACK_MAX) };
}

function safeErrorMessage(error) {
  try {
    return errorMessage(error);
  } catch {
    return { name: 'Error', value: '(its text is not available)', traceback: '' };
  }
}

const interrupted = () => Object.assign(new Error('the cell was interrupted'), { name: 'Interrupted', stack: 'Interrupted' });

// ---- cells that may be run twice, await at their top and import: a script cannot, so the text is changed ----
//
// The parser is the one that Node.js itself has inside. Without it cells run as they are: no await at the top, and a
// second `const x` is an error.

const parser = (() => {
  try {
    const source = process.binding('natives')['internal/deps/acorn/acorn/dist/acorn'];
    const module = { exports: {} };
    vm.runInThisContext(`(function (exports, module) { ${source}\n})`)(module.exports, module);
    return typeof module.exports.parse === 'function' ? module.exports : null;
  } catch {
    return null;
  }
})();

function parse(code, sourceType) {
  return parser.parse(code, {
    ecmaVersion: 'latest', sourceType, allowAwaitOutsideFunction: true, allowHashBang: true,
    allowImportExportEverywhere: false,
  });
}

// The tree of a cell, and its text: `{a: 1}` alone is an object. Null: Node.js shall say what is wrong.
function parseCell(code) {
  if (/^\s*\{/.test(code) && !/;\s*$/.test(code)) {
    try {
      const text = `(${code}\n)`;
      return { tree: parse(text, 'script'), text };
    } catch { /* a block */ }
  }
  for (const kind of ['script', 'module']) {
    try {
      return { tree: parse(code, kind), text: code };
    } catch { /* the other kind, or neither */ }
  }
  return null;
}

function namesOf(pattern) {
  switch (pattern && pattern.type) {
    case 'Identifier': return [pattern.name];
    case 'ObjectPattern': return pattern.properties.flatMap((p) => namesOf(p.type === 'RestElement' ? p : p.value));
    case 'ArrayPattern': return pattern.elements.flatMap(namesOf);
    case 'RestElement': return namesOf(pattern.argument);
    case 'AssignmentPattern': return namesOf(pattern.left);
    default: return [];
  }
}

function importText(node) {
  const source = `await import(${JSON.stringify(node.source.value)})`;
  const parts = node.specifiers.filter((s) => s.type !== 'ImportNamespaceSpecifier').map((s) => {
    if (s.type === 'ImportDefaultSpecifier') return `default: ${s.local.name}`;
    return `${s.imported.name ?? JSON.stringify(s.imported.value)}: ${s.local.name}`;
  });
  const whole = node.specifiers.find((s) => s.type === 'ImportNamespaceSpecifier');
  if (whole) return `${whole.local.name} = ${source}; ${parts.length ? `({${parts.join(', ')}} = ${whole.local.name});` : ''}`;
  return parts.length ? `({${parts.join(', ')}} = ${source});` : `${source};`;
}

// Does this tree wait, outside of its functions?
function awaits(node) {
  if (!node || typeof node !== 'object') return false;
  if (Array.isArray(node)) return node.some(awaits);
  if (typeof node.type !== 'string') return false;
  if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) return true;
  if (/Function/.test(node.type)) return node.computed ? awaits(node.key) : false;
  return Object.keys(node).some((key) => awaits(node[key]));
}

class Rewriter {
  constructor(text, tree) {
    this.text = text;
    this.tree = tree;
    this.edits = []; // [start, end, text], in order and apart
    this.declared = [];
  }

  replace(start, end, text) {
    this.edits.push([start, end, text]);
  }

  result(text = this.text) {
    let out = '';
    let at = 0;
    for (const [start, end, put] of this.edits) {
      out += text.slice(at, start) + put;
      at = end;
    }
    return out + text.slice(at);
  }

  // A script: const and let become var, which can be said twice; nothing moves.
  script() {
    for (const node of this.tree.body) {
      if (node.type === 'VariableDeclaration' && node.kind !== 'var') {
        this.replace(node.start, node.start + node.kind.length, node.kind === 'const' ? 'var  ' : 'var');
        this.undefinedAtLeast(node);
      } else if (node.type === 'ClassDeclaration') {
        this.replace(node.start, node.start, `var ${node.id.name} = `);
        this.replace(node.end, node.end, ';');
      }
    }
    return this.result();
  }

  // `let x;` gives x no value; `var x;` would leave it the one of the cell before.
  undefinedAtLeast(node) {
    for (const one of node.declarations) if (!one.init) this.replace(one.end, one.end, ' = undefined');
  }

  // An asynchronous function around the cell: what it declares is declared outside, and assigned within.
  wrapped() {
    let head = '';
    for (const node of this.tree.body) {
      if (node.type === 'VariableDeclaration') this.assign(node);
      else if (node.type === 'ClassDeclaration') this.assignClass(node);
      else if (node.type === 'ImportDeclaration') this.assignImport(node);
      else if (node.type === 'FunctionDeclaration') {
        this.declared.push(node.id.name);
        head += `globalThis.${node.id.name} = ${node.id.name}; `;
      }
    }
    const last = this.tree.body[this.tree.body.length - 1];
    if (last && last.type === 'ExpressionStatement') {
      this.replace(last.start, last.start, 'return {value: (');
      const end = last.expression.end;
      const close = this.text.slice(end, last.end).replace(';', '');
      this.replace(end, last.end, `${close})};`);
    }
    const names = [...new Set(this.declared)];
    return `${names.length ? `var ${names.join(', ')}; ` : ''}(async () => { ${head}${this.result()}\n})()`;
  }

  assign(node) {
    this.replace(node.start, node.start + node.kind.length, 'void (');
    for (const one of node.declarations) {
      this.declared.push(...namesOf(one.id));
      this.replace(one.start, one.start, '(');
      this.replace(one.end, one.end, one.init ? ')' : ' = undefined)');
    }
    const last = node.declarations[node.declarations.length - 1];
    this.replace(last.end, node.end, ');');
  }

  assignClass(node) {
    this.declared.push(node.id.name);
    this.replace(node.start, node.start, `${node.id.name} = `);
    this.replace(node.end, node.end, ';');
  }

  assignImport(node) {
    this.declared.push(...node.specifiers.map((s) => s.local.name));
    this.replace(node.start, node.end, importText(node));
  }
}

// {text, wraps, shows}: shows says that the last statement has a value to be shown.
function prepare(code) {
  const cell = parser && parseCell(code);
  if (!cell) return { text: code, wraps: false, shows: true };
  const { tree, text } = cell;
  const last = tree.body[tree.body.length - 1];
  const shows = Boolean(last) && last.type === 'ExpressionStatement';
  const wraps = tree.body.some((node) => node.type === 'ImportDeclaration') || awaits(tree.body);
  if (wraps) tree.body = tree.body.filter((node) => !/^Export/.test(node.type));
  const rewriter = new Rewriter(text, tree);
  return { text: wraps ? rewriter.wrapped() : rewriter.script(), wraps, shows };
}

// ---- TypeScript: types are taken away, nothing is checked ----

// Where packages are that were installed for everybody: npm's, Debian's.
const EVERYBODYS = ['/usr/local/lib', '/usr/lib', '/usr/share/nodejs'];

function installed(name) {
  const from = createRequire(`${process.cwd()}/`);
  for (const folder of [process.cwd(), ...EVERYBODYS]) {
    try {
      return from(from.resolve(folder.endsWith('nodejs') ? `${folder}/${name}` : name, { paths: [folder] }));
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return null;
}

// An import that only a later cell uses is kept.
function withTypescript(ts) {
  const keep = Number(ts.version.split('.')[0]) >= 5 ? { verbatimModuleSyntax: true } : { preserveValueImports: true };
  const compilerOptions = { target: 'esnext', module: 'esnext', isolatedModules: true, ...keep };
  return (code) => {
    const done = ts.transpileModule(code, { compilerOptions, reportDiagnostics: true });
    const wrong = (done.diagnostics || []).find((one) => one.category === 1 && one.start !== undefined);
    if (wrong) throw new SyntaxError(ts.flattenDiagnosticMessageText(wrong.messageText, '\n'));
    return done.outputText;
  };
}

function withEsbuild(esbuild) {
  const options = { loader: 'ts', target: 'esnext', logLevel: 'silent',
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, preserveValueImports: true } } };
  return (code) => {
    try {
      return esbuild.transformSync(code, options).code;
    } catch (error) {
      throw error.errors && error.errors.length ? new SyntaxError(error.errors[0].text) : error;
    }
  };
}

function missing() {
  const text = 'typescript is not installed in this sandbox: install Debian\'s package node-typescript, or `npm install '
    + 'typescript` (or esbuild) in this folder, or use Node.js 22.13 or newer';
  throw Object.assign(new Error(text), { name: 'LanguageNotInstalled', stack: `LanguageNotInstalled: ${text}` });
}

// What makes JavaScript of a cell. Looked for again while there is none: a cell may install it.
let strip = null;

function typeless(code) {
  if (!strip) {
    const ts = installed('typescript');
    const esbuild = ts ? null : installed('esbuild');
    if (ts) strip = withTypescript(ts);
    else if (esbuild) strip = withEsbuild(esbuild);
    else if (nodeModule.stripTypeScriptTypes) strip = (text) => nodeModule.stripTypeScriptTypes(text, { mode: 'transform' });
    else missing();
  }
  return strip(code).replace(/^export \{\s*\};?\s*$/m, '');
}

// ---- running ----
//
// An interrupt stops a script (vm's breakOnSigint) and a cell that waits (the listener in main). Code that is busy after
// an await is neither, and cannot be stopped without ending the process.

function importFrom(specifier) {
  if (isBuiltin(specifier) || /^[a-z]+:/.test(specifier)) return import(specifier);
  if (/^\.{0,2}\//.test(specifier)) return import(pathToFileURL(path.resolve(specifier)).href);
  return import(pathToFileURL(createRequire(`${process.cwd()}/`).resolve(specifier)).href);
}

const loader = vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER ? vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER
  : importFrom;

function evaluate(text) {
  const script = new vm.Script(text, { filename: `cell[${count}]`, importModuleDynamically: loader });
  return script.runInThisContext({ breakOnSigint: true, displayErrors: false });
}

const isBreak = (error) => error && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';

// A promise of the cell's value. It is also settled by an interrupt and by errors that nobody catches.
async function run(code, stopped) {
  const { text, wraps, shows } = prepare(LANGUAGE === 'typescript' ? typeless(code) : code);
  if (wraps) return runAsync(text, stopped);
  const value = evaluate(text);
  // Rejections that nobody handles are told before this.
  await Promise.race([new Promise((resolve) => { setImmediate(resolve); }), stopped]);
  return !shows || value === undefined ? null : look(value);
}

async function runAsync(text, stopped) {
  const done = await Promise.race([evaluate(text), stopped]);
  return done === undefined || done.value === undefined ? null : look(done.value);
}

function setEnvironment(wanted) {
  const before = Object.keys(wanted).map((name) => [name, process.env[name]]);
  for (const [name, value] of Object.entries(wanted)) if (name && !name.includes('=')) process.env[name] = value;
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

async function execute(request) {
  count++;
  current = { id: request.id };
  const stopped = new Promise((resolve, reject) => { current.stop = reject; });
  stopped.catch(() => {});
  send({ type: 'count', id: request.id, value: count });
  const restore = setEnvironment(request.env || {});
  try {
    const data = await run(request.code, stopped);
    if (data) sendResult(data, true);
  } catch (error) {
    send({ type: 'error', id: request.id, ...safeErrorMessage(isBreak(error) ? interrupted() : error) });
  }
  restore();
  current = null;
  send({ type: 'end', id: request.id });
}

function onUncaught(error) {
  if (current) current.stop(error);
  else process.stderr.write(`Uncaught ${safeErrorMessage(error).traceback}\n`);
}

// Node.js tells of each use of what it calls experimental: import() in a cell is no news to its author.
function quietImports() {
  const tell = process.emitWarning;
  process.emitWarning = function emitWarning(warning, ...rest) {
    if (!/USE_MAIN_CONTEXT_DEFAULT_LOADER|stripTypeScriptTypes/.test(String(warning))) tell.call(process, warning, ...rest);
  };
}

// What is printed is in the pipe at once, and code that prints without end waits for its reader. An interrupt can stop
// code at any place, in the middle of a stream's work, too: this one has no state that could be left half changed.
class Output extends Writable {
  constructor(fd) {
    super();
    this.fd = fd;
  }

  write(chunk, encoding, done) {
    const data = typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk;
    writeAll(this.fd, data);
    const call = typeof encoding === 'function' ? encoding : done;
    if (typeof call === 'function') process.nextTick(call);
    return true;
  }

  end(chunk, encoding) {
    if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') this.write(chunk, encoding);
    return this;
  }
}

function main() {
  quietImports();
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    Object.defineProperty(process, name, { value: new Output(fd), configurable: true, enumerable: true });
  }
  process.on('SIGINT', () => { if (current) current.stop(interrupted()); });
  process.on('uncaughtException', onUncaught);
  process.on('unhandledRejection', onUncaught);
  const define = (name, value) => Object.defineProperty(globalThis, name,
    { value, writable: true, configurable: true, enumerable: false });
  define('require', createRequire(`${process.cwd()}/`));
  define('module', { exports: {} });
  define('exports', globalThis.module.exports);
  define('display', makeDisplay());
  process.argv = [process.argv[0]];
  let queue = Promise.resolve();
  listen((request) => {
    if (request.op === 'exit') process.exit(0);
    if (request.op === 'execute') queue = queue.then(() => execute(request));
  }, () => process.exit(0));
  send({ type: 'ready', language: LANGUAGE, version: process.versions.node, pid: process.pid });
}

main();
