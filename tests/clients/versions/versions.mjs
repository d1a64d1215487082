// One client of each version does what every agent does: create, run, write, read, list, connect, kill.
import assert from 'node:assert/strict'

const name = process.argv[2]
const { Sandbox } = await import(name)
const code = name.startsWith('code-')
const mark = `${name}-${process.pid}`

const sandbox = await Sandbox.create(code ? 'code-interpreter-v1' : 'base', { metadata: { mark }, timeoutMs: 120_000 })
try {
  assert.equal((await sandbox.commands.run('echo hello')).stdout, 'hello\n')
  await sandbox.files.write('note.txt', 'kept')
  assert.equal(await sandbox.files.read('note.txt'), 'kept')
  assert.deepEqual((await sandbox.files.list('.')).map((f) => f.name).filter((n) => n === 'note.txt'), ['note.txt'])
  const page = await Sandbox.list({ query: { metadata: { mark } } }).nextItems()
  assert.deepEqual(page.map((s) => s.sandboxId), [sandbox.sandboxId])
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.commands.run('cat note.txt')).stdout, 'kept')
  if (code) assert.equal((await sandbox.runCode('6 * 7')).text, '42')
  // What an agent does besides: a command that fails, one that is spoken to, a terminal, files, a watch, time, what it is.
  const failed = await sandbox.commands.run('echo no >&2; exit 3').catch((e) => e)
  assert.deepEqual([failed.name, failed.exitCode, failed.stderr], ['CommandExitError', 3, 'no\n'])
  const talk = await sandbox.commands.run('read line; echo "heard $line"', { background: true, stdin: true })
  await sandbox.commands.sendStdin(talk.pid, 'you\n')
  assert.equal((await talk.wait()).stdout, 'heard you\n')
  const long = await sandbox.commands.run('sleep 600', { background: true })
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === long.pid))
  assert.equal(await sandbox.commands.kill(long.pid), true)
  let screen = ''
  const pty = await sandbox.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: (data) => { screen += new TextDecoder().decode(data) } })
  await sandbox.pty.sendInput(pty.pid, new TextEncoder().encode('stty size; exit\n'))
  await pty.wait().catch(() => null)
  assert.match(screen, /24 80/)
  const seen = []
  await sandbox.files.makeDir('watched')
  const watch = await sandbox.files.watchDir('watched', (event) => seen.push(event.name))
  await sandbox.files.write('watched/new', 'x')
  for (let i = 0; i < 600 && !seen.includes('new'); i++) await new Promise((done) => setTimeout(done, 50))
  assert.ok(seen.includes('new'), String(seen))
  await watch.stop()
  await sandbox.files.rename('watched/new', 'watched/old')
  assert.deepEqual([await sandbox.files.exists('watched/new'), await sandbox.files.exists('watched/old')], [false, true])
  await sandbox.files.remove('watched')
  await sandbox.setTimeout(200_000)
  assert.equal((await sandbox.getInfo()).sandboxId, sandbox.sandboxId)
  assert.equal(await sandbox.isRunning(), true)
  assert.match(sandbox.getHost(3000), new RegExp(`^3000-${sandbox.sandboxId}\\.`))
  if (code) {
    const context = await sandbox.createCodeContext({ language: 'python' })
    await sandbox.runCode('kept = 5', { context })
    const shown = await sandbox.runCode('print(kept); 1/0', { context })
    assert.deepEqual([shown.logs.stdout.join(''), shown.error.name], ['5\n', 'ZeroDivisionError'])
  }
} finally {
  assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
}
// A key of another form: those that check it say so themselves, the others hear it from the daemon.
const refused = await Sandbox.create('base', { apiKey: 'brig_' + 'x'.repeat(43) }).then(() => null, (e) => e)
assert.ok(refused, 'a wrong key was accepted')
console.log(`ok ${name} ${/format/i.test(refused.message) ? 'checks the key itself' : 'asks the daemon'}`)
