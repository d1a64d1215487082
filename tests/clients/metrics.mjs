import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, withSandbox } from './check.mjs'

await withSandbox(Sandbox, 'base', {}, async (sandbox) => {
  await check('what a sandbox uses', async () => {
    const before = await sandbox.getMetrics()
    assert.ok(before.length >= 1, 'who asks gets a sample')
    await sandbox.commands.run('dd if=/dev/zero of=/tmp/fill bs=1M count=20 2>/dev/null; timeout 2 sh -c "while :; do :; done" || true')
    const samples = await sandbox.getMetrics()
    assert.ok(samples.length > before.length)
    const last = samples.at(-1)
    assert.ok(last.memTotal > 0 && last.memUsed > 0 && last.memUsed <= last.memTotal, JSON.stringify(last))
    assert.ok(last.cpuCount >= 1)
    assert.ok(samples.slice(before.length).some((s) => s.cpuUsedPct > 0), 'time was used')
    assert.ok(last.diskTotal > 0)
    assert.ok(Math.abs(last.timestamp - Date.now()) < 300_000)
    const old = await sandbox.getMetrics({ start: new Date(0), end: new Date(1000) })
    assert.deepEqual(old, [])
  })
})

finish()
