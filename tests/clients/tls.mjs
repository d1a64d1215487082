// The client's own addresses, https://api.DOMAIN and https://PORT-ID.DOMAIN, with nothing set but the domain and the key. Names below it lead to
// this machine, as a wildcard record does; the certificate's authority is Node's by NODE_EXTRA_CA_CERTS.
import assert from 'node:assert/strict'
import dns from 'node:dns'
import { Sandbox } from 'e2b'
import { check, finish, until, withSandbox } from './check.mjs'

const domain = process.env.E2B_DOMAIN
const below = '.' + domain.replace(/:.*/, '')
const lookup = dns.lookup
dns.lookup = (name, options, done) => {
  if (!name.endsWith(below)) return lookup(name, options, done)
  if (typeof options === 'function') return options(null, '127.0.0.1', 4)
  return options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)
}

await withSandbox(Sandbox, 'base', { network: { allowPublicTraffic: true } }, async (sandbox) => {
  await check('the domain of answers', async () => {
    assert.equal(sandbox.sandboxDomain, domain)
    assert.equal(sandbox.getHost(3000), `3000-${sandbox.sandboxId}.${domain}`)
  })
  await check('a command', async () => {
    assert.equal((await sandbox.commands.run('echo through TLS')).stdout, 'through TLS\n')
  })
  await check('files', async () => {
    const data = 'x'.repeat(3_000_000)
    await sandbox.files.write('large', data)
    assert.equal(await sandbox.files.read('large'), data)
  })
  await check('a port by its own address', async () => {
    await sandbox.commands.run('cd /tmp && echo from inside > page && python3 -m http.server 3000', { background: true, timeoutMs: 0 })
    const url = `https://${sandbox.getHost(3000)}/page`
    const answer = await until('the server inside', async () => {
      const got = await fetch(url)
      return got.status === 200 && got
    })
    assert.equal(await answer.text(), 'from inside\n')
  })
  await check('a list', async () => {
    const found = await Sandbox.list().nextItems()
    assert.ok(found.some((s) => s.sandboxId === sandbox.sandboxId))
  })
})

finish()
