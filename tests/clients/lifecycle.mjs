import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, rejects, until } from './check.mjs'

const mark = `m${process.pid}-${Date.now()}`

await check('create, look, list, kill', async () => {
  const metadata = { run: mark, text: 'a b&c=d/é %' }
  const sandbox = await Sandbox.create('base', { metadata, timeoutMs: 60_000 })
  assert.match(sandbox.sandboxId, /^[a-z0-9]{20}$/)
  assert.equal(await sandbox.isRunning(), true)
  const info = await sandbox.getInfo()
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.equal(info.templateId, 'base')
  assert.equal(info.state, 'running')
  assert.deepEqual(info.metadata, metadata)
  const life = info.endAt - info.startedAt
  assert.ok(life > 55_000 && life < 65_000, `lives ${life} ms`)
  assert.ok(info.cpuCount >= 1 && info.memoryMB >= 64)

  const found = await Sandbox.list({ query: { metadata } }).nextItems()
  assert.deepEqual(found.map((s) => s.sandboxId), [sandbox.sandboxId])
  const others = await Sandbox.list({ query: { metadata: { run: mark, text: 'x' } } }).nextItems()
  assert.deepEqual(others, [])
  const paused = await Sandbox.list({ query: { metadata, state: ['paused'] } }).nextItems()
  assert.deepEqual(paused, [])

  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
  await rejects(Sandbox.getInfo(sandbox.sandboxId), (e) => assert.equal(e.name, 'SandboxNotFoundError'))
  await rejects(sandbox.commands.run('true'))
})

await check('a sandbox that is killed while something runs in it', async () => {
  const sandbox = await Sandbox.create('base')
  await sandbox.files.makeDir('watched')
  let begun = false
  const ends = []
  await sandbox.files.watchDir('watched', () => {}, { timeoutMs: 0, onExit: (e) => ends.push(e) })
  const command = await sandbox.commands.run('echo begun; sleep 10000', { background: true, timeoutMs: 0, onStdout: () => (begun = true) })
  const told = rejects(command.wait(), (e) => {
    assert.equal(e.name, 'TimeoutError')
    assert.match(e.message, /killed or reached its end of life/)
  })
  await until('its first output', () => begun)
  await sandbox.kill()
  await told
  await until('the watcher ended too', () => ends.length)
  assert.equal(ends[0]?.name, 'TimeoutError')
})

await check('ids of nothing', async () => {
  for (const id of ['nothing', 'x'.repeat(20), 'UPPER', 'a_b', 'x'.repeat(100)]) assert.equal(await Sandbox.kill(id), false, id)
})

await check('pages of a list', async () => {
  const metadata = { run: `${mark}-pages` }
  const made = []
  for (let i = 0; i < 5; i++) made.push(await Sandbox.create('base', { metadata }))
  try {
    const pages = Sandbox.list({ query: { metadata }, limit: 2 })
    const seen = []
    let count = 0
    while (pages.hasNext) {
      const items = await pages.nextItems()
      assert.ok(items.length <= 2)
      seen.push(...items.map((s) => s.sandboxId))
      assert.ok(++count <= 3)
    }
    assert.equal(count, 3)
    assert.deepEqual([...seen].sort(), made.map((s) => s.sandboxId).sort())
  } finally {
    await Promise.all(made.map((s) => s.kill()))
  }
})

await check('a sandbox knows that it is one, and which', async () => {
  const seen = 'echo "$E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID"'
  for (const envs of [undefined, {}, { OURS: '1' }, { E2B_SANDBOX_ID: 'another' }]) {
    const sandbox = await Sandbox.create('base', { envs })
    assert.equal((await sandbox.commands.run(seen)).stdout, `true ${sandbox.sandboxId} base\n`)
    assert.equal((await sandbox.commands.run('echo "$OURS"')).stdout, `${envs?.OURS ?? ''}\n`)
    await sandbox.kill()
  }
})

await check('environment of the sandbox and of a command', async () => {
  const sandbox = await Sandbox.create('base', { envs: { OURS: 'from create', BOTH: 'create' } })
  try {
    const { stdout } = await sandbox.commands.run('echo "$OURS|$BOTH|$THEIRS"', {
      envs: { BOTH: 'run', THEIRS: "it's $HOME" },
    })
    assert.equal(stdout, "from create|run|it's $HOME\n")
  } finally {
    await sandbox.kill()
  }
})

await check('a sandbox ends at its time, and the time can be moved', async () => {
  const moved = await Sandbox.create('base', { timeoutMs: 4_000 })
  await moved.setTimeout(600_000)
  const left = (await moved.getInfo()).endAt - Date.now()
  assert.ok(left > 400_000 && left <= 601_000, `${left} ms left`)
  // Made later with the same time: when it has ended, the first one's own time is over too.
  const short = await Sandbox.create('base', { timeoutMs: 4_000 })
  await until('the end of the short one', async () => !(await short.isRunning()))
  assert.equal(await moved.isRunning(), true)
  await moved.setTimeout(0)
  await until('the end of the moved one', async () => !(await moved.isRunning()))
})

await check('connect extends the time and never shortens it', async () => {
  const sandbox = await Sandbox.create('base', { timeoutMs: 60_000 })
  const before = (await sandbox.getInfo()).endAt
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 1_000 })
  assert.equal(+(await again.getInfo()).endAt, +before)
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 600_000 })
  assert.ok((await again.getInfo()).endAt > before)
  assert.equal((await again.commands.run('echo same')).stdout, 'same\n')
  await sandbox.kill()
  await rejects(Sandbox.connect(sandbox.sandboxId), (e) => assert.equal(e.name, 'SandboxNotFoundError'))
})

await check('what is not available is refused with a reason', async () => {
  await rejects(Sandbox.create('no-such-template'), (e) => assert.match(e.message, /no-such-template/))
  await rejects(Sandbox.create('base', { timeoutMs: 25 * 3600 * 1000 }), (e) => assert.match(e.message, /timeout/))
  await rejects(Sandbox.create('base', { apiKey: 'e2b_' + '0'.repeat(40) }), (e) => assert.equal(e.name, 'AuthenticationError'))
  const sandbox = await Sandbox.create('base')
  await rejects(sandbox.createSnapshot(), (e) => assert.match(e.message, /501/))
  await rejects(sandbox.fork(), (e) => assert.match(e.message, /501/))
  assert.deepEqual(await Sandbox.listSnapshots().nextItems(), [])
  await sandbox.kill()
})

await check('many at once', async () => {
  const made = await Promise.all(Array.from({ length: 8 }, () => Sandbox.create('base')))
  assert.equal(new Set(made.map((s) => s.sandboxId)).size, 8)
  const said = await Promise.all(made.map((s, i) => s.commands.run(`echo ${i}`)))
  assert.deepEqual(said.map((r) => r.stdout), made.map((_, i) => `${i}\n`))
  await Promise.all(made.map((s) => s.kill()))
})

finish()
