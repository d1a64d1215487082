// Whom a command and a file belong to: a template has one user, and who asks for another one is told.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, rejects, withSandbox } from './check.mjs'

await withSandbox(Sandbox, 'base', { timeoutMs: 900_000 }, async (sandbox) => {
  await check('the one user', async () => {
    for (const options of [{}, { user: 'user' }]) {
      assert.equal((await sandbox.commands.run('id -un; id -u', options)).stdout, 'user\n1000\n')
    }
    const written = await sandbox.files.write('a', 'x', { user: 'user' })
    assert.equal(written.path, '/home/user/a')
  })
  await check('no root, and nobody is silently somebody else', async () => {
    const asks = [
      () => sandbox.commands.run('touch /tmp/ran', { user: 'root' }),
      () => sandbox.pty.create({ cols: 80, rows: 24, onData: () => {}, user: 'root' }),
      () => sandbox.files.write('/tmp/written', 'x', { user: 'root' }),
      () => sandbox.files.read('/home/user/a', { user: 'root' }),
      () => sandbox.files.list('/tmp', { user: 'root' }),
      () => sandbox.files.makeDir('/tmp/made', { user: 'root' }),
      () => sandbox.files.remove('/home/user/a', { user: 'root' }),
      () => sandbox.files.watchDir('/tmp', () => {}, { user: 'root' }),
    ]
    for (const ask of asks) {
      await rejects(ask(), (e) => assert.match(String(e.message), /template base gives no root.*kernel: \{uid: 0\}/, String(ask)))
    }
    assert.equal((await sandbox.commands.run('ls -d /tmp/* | wc -l')).stdout.trim(), '0')
    assert.equal(await sandbox.files.read('/home/user/a'), 'x')
  })
  await check('a user that nobody knows', async () => {
    await rejects(sandbox.commands.run('true', { user: 'postgres' }), (e) => assert.match(e.message, /invalid username: 'postgres'/))
    await rejects(sandbox.files.read('a', { user: 'postgres' }), (e) => assert.match(e.message, /postgres/))
  })
})

await withSandbox(Sandbox, 'rooted', { timeoutMs: 900_000 }, async (sandbox) => {
  const run = async (command, options) => (await sandbox.commands.run(command, options)).stdout
  await check('root where the template gives it', async () => {
    for (const options of [{}, { user: 'root' }, { user: 'user' }]) assert.equal(await run('id -un; id -u; id -g', options), 'root\n0\n0\n')
    await sandbox.files.write('/root/b', 'x', { user: 'root' })
    assert.equal((await sandbox.files.getInfo('/root/b')).owner, 'root')
    assert.equal(await run('ls ~', { user: 'root' }), 'b\n')
    assert.equal(await sandbox.files.read('~/b'), 'x')
  })
  await check('sudo', async () => {
    assert.equal(await run('sudo id -u'), '0\n')
    assert.equal(await run('sudo -n -E -u root A=1 sh -c \'echo "$A:$0:$1"\' "x y" z'), '1:x y:z\n')
    assert.equal(await run('sudo -iu root echo here'), 'here\n')
    assert.equal(await run('echo "id -u" | sudo -s'), '0\n')
    assert.equal(await run('sudo -v && sudo -- echo -n'), '')
    const e = await rejects(sandbox.commands.run('sudo -u postgres id'))
    assert.match(e.stderr, /postgres/)
    const f = await rejects(sandbox.commands.run('sudo sh -c "exit 7"'))
    assert.equal(f.exitCode, 7)
  })
  await check('it is root of nothing', async () => {
    assert.match(await run('grep Cap /proc/self/status'), /^CapInh:\t0+\nCapPrm:\t0+\nCapEff:\t0+\nCapBnd:\t0+\nCapAmb:\t0+\n$/)
    for (const command of ['mount -t tmpfs none /mnt', 'chroot / true', 'mknod /tmp/d c 1 3', 'touch /usr/x', 'chown 1000 /tmp', 'unshare -U true'])
      await rejects(sandbox.commands.run(command), (e) => assert.notEqual(e.exitCode, undefined, command))
  })
})

finish()
