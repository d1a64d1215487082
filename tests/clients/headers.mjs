// Headers that are set on what a sandbox sends: WEB is the port of a server that tells what it got, which the template
// "web" allows as api.test.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, rejects, withSandbox } from './check.mjs'

const origin = `http://api.test:${process.env.WEB}`
const secret = process.env.VALUE
const got = async (sandbox) => JSON.parse((await sandbox.commands.run(`curl -s -H 'X-Api-Key: of-the-code' ${origin}/`)).stdout)

await check('without a rule the header is not there', async () => {
  await withSandbox(Sandbox, 'web', {}, async (sandbox) => {
    assert.equal((await got(sandbox))['x-api-key'], 'of-the-code')
  })
})

await check('a rule sets it, and nobody is shown it', async () => {
  const rules = { 'api.test': [{ transform: { headers: { 'X-Api-Key': secret } } }] }
  await withSandbox(Sandbox, 'web', { network: { allowOut: [origin], rules } }, async (sandbox) => {
    assert.equal((await got(sandbox))['x-api-key'], '*'.repeat(secret.length))
    assert.ok(!JSON.stringify(await sandbox.getInfo()).includes(secret))
  })
})

await check('a rule does not open its host', async () => {
  const rules = { 'beyond.test': [{ transform: { headers: { 'X-Api-Key': secret } } }] }
  const e = await rejects(Sandbox.create('web', { network: { rules } }))
  assert.match(e.message, /403.*beyond\.test.*allowOut/s)
  assert.ok(!e.message.includes(secret))
})

finish()
