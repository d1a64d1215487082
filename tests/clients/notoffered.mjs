// What brig has not: the client is told so in a sentence that says what there is instead, and nothing hangs or half works.
import assert from 'node:assert/strict'
import { Sandbox, Secret, Template, Volume } from 'e2b'
import { check, finish, rejects, withSandbox } from './check.mjs'

const told = (call, words) => rejects(call, (e) => assert.match(e.message, new RegExp(`501.*${words}`, 's')))

await check('templates are built by nobody but the operator', async () => {
  await told(Template.build(Template().fromBaseImage().runCmd('true'), 'mine'), 'templates are files of the operator')
  await told(Template.getTags('base'), 'templates are files of the operator')
  const tagged = await Sandbox.create('base:default')
  assert.equal((await tagged.getInfo()).templateId, 'base')
  await tagged.kill()
  for (const name of ['base:v1', 'base:', 'bas', 'base:default:default']) {
    await rejects(Sandbox.create(name), (e) => assert.match(e.message, /404.*there is no template/))
  }
})

await check('volumes', async () => {
  await told(Volume.create('data'), 'volumes are not offered')
  await told(Volume.list(), 'volumes are not offered')
})

await check('secrets', async () => {
  await told(Secret.create({ name: 'KEY', value: 'x'.repeat(20), hosts: ['api.example.org'] }), 'secrets are the operator')
  await told(Secret.exists('KEY'), 'secrets are the operator')
})

await check('what a sandbox could be made with', async () => {
  await told(Sandbox.create('base', { volumeMounts: { '/data': 'data' } }), '"volumeMounts".*--project')
  await told(Sandbox.create('base', { network: { egressProxy: { address: '192.0.2.1:1080' } } }), '"egressProxy"')
})

await withSandbox(Sandbox, 'base', {}, async (sandbox) => {
  await check('snapshots and forks', async () => {
    await told(sandbox.createSnapshot(), 'snapshots and forks')
    await told(sandbox.fork(), 'snapshots and forks')
    assert.deepEqual(await sandbox.listSnapshots().nextItems(), [])
    assert.equal((await sandbox.commands.run('echo still')).stdout, 'still\n', 'it goes on')
  })
})

finish()
