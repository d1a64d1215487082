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
} finally {
  assert.equal(await Sandbox.kill(sandbox.sandboxId), true)
}
// A key of another form: those that check it say so themselves, the others hear it from the daemon.
const refused = await Sandbox.create('base', { apiKey: 'brig_' + 'x'.repeat(43) }).then(() => null, (e) => e)
assert.ok(refused, 'a wrong key was accepted')
console.log(`ok ${name} ${/format/i.test(refused.message) ? 'checks the key itself' : 'asks the daemon'}`)
