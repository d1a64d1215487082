import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, rejects, sleep, until } from './check.mjs'

await check('a paused sandbox stands still and goes on where it was', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 300_000 })
  await sandbox.files.write('kept', 'content')
  const counter = await sandbox.commands.run('i=0; while :; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.05; done', { background: true })
  const count = async (s) => Number(await s.files.read('/tmp/count'))
  await until('it counts', async () => (await count(sandbox).catch(() => 0)) > 3)
  const asked = Date.now()
  const before = await count(sandbox)
  assert.equal(await sandbox.pause(), true)
  const paused = Date.now()
  const info = await sandbox.getInfo()
  assert.equal(info.state, 'paused')
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.pause(), false, 'paused already')
  await rejects(sandbox.commands.run('true'))
  const listed = await Sandbox.list({ query: { state: ['paused'] } }).nextItems()
  assert.ok(listed.some((s) => s.sandboxId === sandbox.sandboxId))
  await sleep(2_000)
  const resumed = Date.now()
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 300_000 })
  assert.equal((await again.getInfo()).state, 'running')
  const after = await count(again)
  // It may count while the calls around the pause are under way, twenty times a second and not more.
  const running = paused - asked + (Date.now() - resumed)
  assert.ok(after - before <= running / 50 + 2, `counted ${after - before} in ${running} ms outside of the pause`)
  await until('it counts again', async () => (await count(again)) > after)
  assert.equal(await again.files.read('kept'), 'content')
  await again.commands.kill(counter.pid)
  await again.kill()
})

await check('the time of a paused sandbox stands', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 4_000 })
  await sandbox.pause()
  await sleep(4_500)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 300_000 })
  assert.equal(await again.isRunning(), true)
  await again.pause()
  assert.equal(await again.kill(), true, 'a paused one can be ended')
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
})

await check('a pause without memory is not offered, and says so', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 300_000 })
  await rejects(sandbox.pause({ keepMemory: false }), (e) => assert.match(e.message, /501.*with its memory/s))
  assert.equal((await sandbox.getInfo()).state, 'running')
  await sandbox.kill()
  const lifecycle = { onTimeout: { action: 'pause', keepMemory: false } }
  await rejects(Sandbox.create('base', { lifecycle }), (e) => assert.match(e.message, /501.*"autoPauseMemory"/s))
})

await check('pause in place of the end', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 1_500, lifecycle: { onTimeout: 'pause' } })
  assert.equal((await sandbox.getInfo()).lifecycle.onTimeout, 'pause')
  await until('it is paused', async () => (await sandbox.getInfo()).state === 'paused')
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 300_000 })
  assert.equal((await again.commands.run('echo back')).stdout, 'back\n')
  await again.kill()
})

await check('a sandbox that resumes by itself', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 300_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await sandbox.files.write('kept', 'content')
  await sandbox.pause()
  assert.equal((await sandbox.getInfo()).state, 'paused', 'looking at it is no reason')
  const all = await Promise.all([1, 2, 3].map((n) => sandbox.commands.run(`cat kept; echo ${n}`)))
  assert.deepEqual(all.map((r) => r.stdout), [1, 2, 3].map((n) => `content${n}\n`))
  assert.equal((await sandbox.getInfo()).state, 'running')
  await sandbox.kill()
})

finish()
