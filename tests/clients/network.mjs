// Which hosts: at the start, and changed while it runs. There is no internet here: what brig-proxy lets through ends
// in "unreachable", what it does not in "no-rule", and without rules nothing is there at all.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, rejects, withSandbox } from './check.mjs'

const reach = async (sandbox, url) => {
  const { stdout } = await sandbox.commands.run(`curl -s -m 100 -o /dev/null -D - ${url} | tr -d '\\r' | sed -n 's/^[Xx]-[Bb]rig-[Dd]enied: //p'`)
  return stdout.trim() || 'nothing'
}

await withSandbox(Sandbox, 'base', {}, async (sandbox) => {
  await check('no rules, no network', async () => {
    assert.equal(await reach(sandbox, 'http://allowed.invalid/'), 'nothing')
    assert.equal((await sandbox.getInfo()).network, undefined)
  })
  await check('what failed for want of a network says so', async () => {
    for (const preset of ['@pypi', '@pypi']) { // the second time too
      const e = await rejects(sandbox.commands.run('curl -sS -m 60 https://pypi.org/'))
      assert.equal(e.exitCode, 6)
      assert.match(e.error, /^exit status 6; denied: network: look up pypi\.org: .*allowOut.*pypi\.org/)
      assert.ok(e.error.includes(preset), e.error)
    }
    const other = await rejects(sandbox.commands.run('exit 3'))
    assert.equal(other.error, 'exit status 3')
    const address = await rejects(sandbox.commands.run('curl -sS -m 60 https://192.0.2.7/'))
    assert.match(address.error, /denied: network: connect to 192\.0\.2\.7 port 443/)
  })
  await check('rules of a running sandbox', async () => {
    await sandbox.updateNetwork({ allowOut: ['allowed.invalid'] })
    assert.deepEqual((await sandbox.getInfo()).network.allowOut, ['allowed.invalid'])
    assert.equal(await reach(sandbox, 'http://allowed.invalid/'), 'unreachable')
    assert.equal(await reach(sandbox, 'http://other.invalid/'), 'no-rule')
    await sandbox.updateNetwork({ allowOut: ['other.invalid'] })
    assert.equal(await reach(sandbox, 'http://allowed.invalid/'), 'no-rule')
    assert.equal(await reach(sandbox, 'http://other.invalid/'), 'unreachable')
    await sandbox.updateNetwork({ allowOut: ['*.invalid'], denyOut: ['bad.invalid'] })
    assert.equal(await reach(sandbox, 'http://good.invalid/'), 'unreachable')
    assert.notEqual(await reach(sandbox, 'http://bad.invalid/'), 'unreachable')
    await sandbox.updateNetwork({ allowOut: ['@crates'] })
    assert.equal(await reach(sandbox, 'http://allowed.invalid/'), 'no-rule')
    assert.equal(await reach(sandbox, 'http://crates.io:443/'), 'scheme')
    await sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'] })
    assert.equal(await reach(sandbox, 'http://good.invalid/'), 'no-rule')
    await sandbox.updateNetwork({ allowOut: ['good.invalid'], allowInternetAccess: false })
    assert.equal((await sandbox.getInfo()).allowInternetAccess, false)
    assert.equal(await reach(sandbox, 'http://good.invalid/'), 'no-rule')
  })
  await check('nonsense is refused and changes nothing', async () => {
    await sandbox.updateNetwork({ allowOut: ['kept.invalid'] })
    for (const bad of ['http://', 'a b', '*', '', '@nonesuch', '0.0.0.0/0', '::/0', '192.0.2.0/33', '192.0.2.7/24']) {
      await rejects(sandbox.updateNetwork({ allowOut: [bad] }), (e) => assert.match(e.message, /400/))
    }
    // A range that could not be held is not taken for something else.
    await rejects(sandbox.updateNetwork({ denyOut: ['192.0.2.7/24'] }), (e) => assert.match(e.message, /the range is 192\.0\.2\.0\/24/))
    await rejects(sandbox.updateNetwork({ allowOut: ['0.0.0.0/0'] }), (e) => assert.match(e.message, /by name/))
    await rejects(sandbox.updateNetwork({ allowOut: ['x.invalid'], rules: { 'x.invalid': [{ transform: { headers: {} } }] } }))
    assert.equal(await reach(sandbox, 'http://kept.invalid/'), 'unreachable')
  })
})

await check('addresses, also as a range of one', async () => {
  await withSandbox(Sandbox, 'base', { network: { allowOut: ['192.0.2.7/32', 'kept.invalid'], denyOut: ['0.0.0.0/0', '::/0', '192.0.2.9/32'] } }, async (sandbox) => {
    assert.deepEqual((await sandbox.getInfo()).network.allowOut, ['192.0.2.7/32', 'kept.invalid'])
    const info = await sandbox.getInfo()
    assert.deepEqual(info.network.denyOut, ['0.0.0.0/0', '::/0', '192.0.2.9/32'])
    assert.equal(info.allowInternetAccess ?? null, null, 'nothing was said')
    assert.equal(await reach(sandbox, 'http://kept.invalid/'), 'unreachable')
    assert.notEqual(await reach(sandbox, 'http://192.0.2.8/'), 'unreachable')
  })
})

// These addresses are of documentation: what a rule lets through ends in "address", for they are not public.
await check('ranges of addresses', async () => {
  const network = { allowOut: ['192.0.2.0/25', '2001:db8::/32', 'kept.invalid'], denyOut: ['0.0.0.0/0', '192.0.2.64/26'] }
  await withSandbox(Sandbox, 'base', { network }, async (sandbox) => {
    assert.deepEqual((await sandbox.getInfo()).network.allowOut, network.allowOut)
    assert.deepEqual((await sandbox.getInfo()).network.denyOut, network.denyOut)
    assert.equal(await reach(sandbox, 'http://192.0.2.7/'), 'address')
    assert.equal(await reach(sandbox, 'http://[2001:db8::7]/'), 'address')
    assert.equal(await reach(sandbox, 'http://192.0.2.70/'), 'blocked')
    assert.equal(await reach(sandbox, 'http://192.0.2.200/'), 'literal')
    assert.equal(await reach(sandbox, 'http://kept.invalid/'), 'unreachable')
    assert.equal(await reach(sandbox, 'http://other.invalid/'), 'no-rule')
    await sandbox.updateNetwork({ allowOut: ['192.0.2.128/25'], denyOut: ['0.0.0.0/0'] })
    assert.equal(await reach(sandbox, 'http://192.0.2.200/'), 'address')
    assert.equal(await reach(sandbox, 'http://192.0.2.7/'), 'literal')
  })
})

await check('whether there is internet access, as it was said', async () => {
  for (const allowInternetAccess of [true, false]) {
    await withSandbox(Sandbox, 'base', { allowInternetAccess }, async (sandbox) => {
      assert.equal((await sandbox.getInfo()).allowInternetAccess, allowInternetAccess)
      assert.equal(await reach(sandbox, 'http://allowed.invalid/'), 'nothing')
    })
  }
})

await check('a rule that is missing is told by the name of its field', async () => {
  await withSandbox(Sandbox, 'base', { network: { allowOut: ['first.invalid'] } }, async (sandbox) => {
    const e = await rejects(sandbox.commands.run('curl -sSf -m 60 http://pypi.org/'))
    assert.match(e.error, /denied: network: .*pypi\.org.*allowOut.*http:\/\/pypi\.org|denied: network: .*pypi\.org.*allowOut.*pypi\.org:80/)
    assert.doesNotMatch(e.error, /--allow/)
  })
})

await check('rules from the start', async () => {
  await withSandbox(Sandbox, 'base', { network: { allowOut: ['first.invalid'], denyOut: ['0.0.0.0/0'] } }, async (sandbox) => {
    assert.equal(await reach(sandbox, 'http://first.invalid/'), 'unreachable')
    assert.equal(await reach(sandbox, 'http://second.invalid/'), 'no-rule')
  })
})

finish()
