// What every client must be able to do, whichever package, era and transport it uses. `c` has list(), call(name, args,
// options), resources(), templates(), read(uri), close().
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { check, rejects, until } from './check.mjs'

const TOOLS = ['create_session', 'destroy_session', 'diff', 'list_files', 'read_file', 'run_code', 'run_command', 'write_file']

// Those who sleep for so long, as the host sees them. (The command line of a stranger may have to be waited for.)
function running(mark) {
  return fs.readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      if (fs.readFileSync(`/proc/${pid}/comm`, 'utf8') !== 'sleep\n') return false
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(mark)
    } catch {
      return false
    }
  })
}

let marks = 0
function mark() {
  return `${86400 + process.pid}.${++marks}`
}

async function cancelled(c, mine, args) {
  const abort = new AbortController()
  const call = c.call('run_command', { command: 'sleep', args: [mine], ...args }, { signal: abort.signal })
  const ended = rejects(call)
  await until('it runs', () => running(mine).length, 60)
  abort.abort()
  await ended
  await until('it was killed', () => !running(mine).length, 60)
}

export async function short(name, c) {
  await check(`${name}: tools`, async () => {
    const { tools } = await c.list()
    assert.deepEqual(tools.map((t) => t.name).sort(), TOOLS)
    for (const t of tools) assert.ok(t.inputSchema.type === 'object' && t.outputSchema.type === 'object', t.name)
  })

  await check(`${name}: code`, async () => {
    const { structuredContent: out, isError, content } = await c.call('run_code', { code: 'print("x")\n6 * 7' })
    assert.equal(isError, false)
    assert.equal(out.ok, true)
    assert.equal(out.stdout, 'x\n')
    assert.equal(out.result, '42')
    assert.equal(content[0].text, 'x\n42')
  })

  // Each line is waited for before the next one is printed: they come while the code runs, not with its end.
  await check(`${name}: lines as they come`, async () => {
    const { session_id } = (await c.call('create_session', {})).structuredContent
    const seen = []
    const onprogress = (p) => {
      seen.push(p)
      c.call('write_file', { session_id, path: `/tmp/heard${seen.length}`, content: 'x' })
    }
    const code = `import os, time
for i in range(3):
    print("line", i, flush=True)
    while not os.path.exists(f"/tmp/heard{i + 1}"):
        time.sleep(0.01)`
    const { structuredContent: out } = await c.call('run_code', { session_id, code }, { onprogress })
    assert.equal(out.stdout, 'line 0\nline 1\nline 2\n')
    assert.deepEqual(seen.map((p) => p.message), ['line 0', 'line 1', 'line 2'])
    for (let i = 1; i < seen.length; i++) assert.ok(seen[i].progress > seen[i - 1].progress)
    await c.call('destroy_session', { session_id })
  })
}

export async function whole(name, c) {
  await short(name, c)

  await check(`${name}: code that fails`, async () => {
    const { structuredContent: out, isError, content } = await c.call('run_code', { code: '1 / 0' })
    assert.equal(isError, true)
    assert.equal(out.exception.name, 'ZeroDivisionError')
    assert.match(content[0].text, /division by zero/)
  })

  await check(`${name}: a command`, async () => {
    const args = { command: 'read -r x; echo "got $x $V"; echo e >&2; exit 3', stdin: 'line\n', env: { V: 'v' } }
    const { structuredContent: out } = await c.call('run_command', args)
    assert.deepEqual([out.stdout, out.stderr, out.exit_code], ['got line v\n', 'e\n', 3])
  })

  await check(`${name}: what was refused can be read`, async () => {
    const code = 'import socket\nsocket.create_connection(("api.example.com", 80), timeout=20)'
    const { structuredContent: out, isError, content } = await c.call('run_code', { code })
    assert.equal(isError, true)
    const [denial] = out.denials.filter((d) => d.boundary === 'network')
    assert.ok(denial && denial.what && denial.rule && denial.hint, JSON.stringify(out))
    assert.match(content[0].text, /denied: network/)
  })

  await check(`${name}: output that looks like the protocol`, async () => {
    const line = '{"jsonrpc":"2.0","id":1,"result":{}}'
    const code = `print(${JSON.stringify(line)})\nprint("data: " + ${JSON.stringify(line)} + "\\r\\n\\r\\n")`
    const { structuredContent: out } = await c.call('run_code', { code }, { onprogress: () => {} })
    assert.equal(out.stdout, `${line}\ndata: ${line}\r\n\r\n\n`)
  })

  await check(`${name}: a session`, async () => {
    const made = await c.call('create_session', { timeout_seconds: 300, env: { WHO: 'me' } })
    const session_id = made.structuredContent.session_id
    assert.match(session_id, /^[a-z0-9]{20}$/)
    const run = async (code) => (await c.call('run_code', { session_id, code })).structuredContent
    await c.call('write_file', { session_id, path: 'notes/a ü.txt', content: 'one\ntwo ü\n' })
    await run('x = open("/home/user/notes/a ü.txt").read()')
    assert.equal((await run('print(x, end="")')).stdout, 'one\ntwo ü\n')
    assert.equal((await run('import os; os.environ["WHO"]')).result, 'me')
    assert.equal((await c.call('read_file', { session_id, path: 'notes/a ü.txt' })).structuredContent.content, 'one\ntwo ü\n')
    const bytes = Buffer.from([0, 255, 10])
    await c.call('write_file', { session_id, path: '/tmp/b', content: bytes.toString('base64'), encoding: 'base64' })
    const back = (await c.call('read_file', { session_id, path: '/tmp/b' })).structuredContent
    assert.deepEqual([back.encoding, back.content], ['base64', bytes.toString('base64')])
    const { entries } = (await c.call('list_files', { session_id, depth: 2 })).structuredContent
    assert.deepEqual(entries.map((e) => [e.path, e.type]).sort(),
                     [['/home/user/notes', 'folder'], ['/home/user/notes/a ü.txt', 'file']])

    const listed = (await c.resources()).resources.filter((r) => r.uri.includes(session_id))
    assert.deepEqual(listed.map((r) => r.name), ['a ü.txt'])
    const { contents } = await c.read(listed[0].uri)
    assert.equal(contents[0].text, 'one\ntwo ü\n')
    assert.equal((await c.read(`brig://${session_id}/tmp/b`)).contents[0].blob, bytes.toString('base64'))
    assert.equal((await c.templates()).resourceTemplates.length, 1)
    await rejects(c.read(`brig://${session_id}/home/user/none`))
    await rejects(c.read('brig://aaaaaaaaaaaaaaaaaaaa/etc/passwd'))

    await cancelled(c, mark(), { session_id })
    assert.equal((await run('len(x)')).result, '10')
    assert.equal((await c.call('destroy_session', { session_id })).structuredContent.ok, true)
    const gone = await c.call('run_code', { session_id, code: '1' })
    assert.equal(gone.isError, true)
    assert.equal(gone.structuredContent.error.code, 'not_found')
  })

  await check(`${name}: files need a session`, async () => {
    const { isError, structuredContent: out } = await c.call('read_file', { path: 'x' })
    assert.equal(isError, true)
    assert.match(out.error.hint, /create_session/)
  })

  await check(`${name}: who cancels kills`, () => cancelled(c, mark(), {}))

  await check(`${name}: time is bounded`, async () => {
    const mine = mark()
    const { structuredContent: out } = await c.call('run_command', { command: 'sleep', args: [mine], timeout_ms: 200 })
    assert.equal(out.timed_out, true)
    assert.equal(out.error.code, 'limit')
    assert.match(out.error.hint, /timeout_ms/)
    await until('it was killed', () => !running(mine).length, 60)
  })

  await check(`${name}: memory is bounded`, async () => {
    const code = "x = []\nwhile True: x.append(b'x' * (1 << 24))"
    for (const [tool, given] of [['run_code', { code }], ['run_command', { command: 'python3', args: ['-c', code] }]]) {
      const { isError, structuredContent: out, content } = await c.call(tool, given)
      assert.equal(isError, true)
      assert.equal(out.oom_killed, true)
      assert.equal(out.error.code, 'limit')
      assert.match(out.error.message, /^oom_killed: .*ran out of memory/)
      assert.match(out.error.hint, /lifecycle.memory/)
      assert.ok(content[0].text.includes(out.error.message))
    }
  })

  await check(`${name}: a tool that is not there`, async () => {
    await rejects(c.call('rm_rf', {}), (e) => assert.equal(e.code, -32602))
  })

  await check(`${name}: many at once`, async () => {
    const all = [1, 2, 3, 4, 5, 6].map((n) => c.call('run_code', { code: `${n} * 10` }))
    assert.deepEqual((await Promise.all(all)).map((r) => r.structuredContent.result), ['10', '20', '30', '40', '50', '60'])
  })
}
