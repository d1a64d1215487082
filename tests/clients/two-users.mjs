// Root beside the ordinary user, in one sandbox: commands, terminals, files and sudo, as E2B has them.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import { check, finish, rejects, until, withSandbox } from './check.mjs'

await withSandbox(Sandbox, 'two', { timeoutMs: 900_000 }, async (sandbox) => {
  const run = async (command, options) => (await sandbox.commands.run(command, options)).stdout
  const who = 'id -un; id -u; id -g; echo $HOME $USER; pwd'
  await check('commands', async () => {
    for (const options of [{}, { user: 'user' }]) assert.equal(await run(who, options), 'user\n1000\n1000\n/home/user user\n/home/user\n')
    assert.equal(await run(who, { user: 'root' }), 'root\n0\n0\n/root root\n/root\n')
    assert.equal(await run('echo $A', { user: 'root', envs: { A: 'b' } }), 'b\n')
    const e = await rejects(sandbox.commands.run('exit 7', { user: 'root' }))
    assert.equal(e.exitCode, 7)
    await rejects(sandbox.commands.run('true', { user: 'postgres' }), (e) => assert.match(e.message, /invalid username: 'postgres'/))
  })
  await check('both at one time, listed, spoken to and killed', async () => {
    const mine = await sandbox.commands.run('cat', { background: true, stdin: true })
    const roots = await sandbox.commands.run('cat', { background: true, stdin: true, user: 'root' })
    await sandbox.commands.sendStdin(roots.pid, 'to root\n')
    await sandbox.commands.sendStdin(mine.pid, 'to user\n')
    await until('both have answered', () => roots.stdout === 'to root\n' && mine.stdout === 'to user\n')
    const pids = (await sandbox.commands.list()).map((p) => p.pid)
    assert.ok(pids.includes(mine.pid) && pids.includes(roots.pid), String(pids))
    assert.ok(await sandbox.commands.kill(roots.pid))
    await rejects(roots.wait())
    await sandbox.commands.sendStdin(mine.pid, 'still here\n')
    await until('the other one lives', () => mine.stdout === 'to user\nstill here\n')
    assert.ok(await mine.kill())
  })
  await check('terminals', async () => {
    let said = ''
    const pty = await sandbox.pty.create({ cols: 80, rows: 24, user: 'root', onData: (data) => (said += new TextDecoder().decode(data)) })
    await sandbox.pty.sendInput(pty.pid, new TextEncoder().encode('echo "<$(id -u)$HOME>"\n'))
    await until('the terminal is root\'s', () => said.includes('<0/root>'))
    assert.ok(await pty.kill())
  })
  await check('files', async () => {
    const written = await sandbox.files.write('a', 'x', { user: 'root' })
    assert.equal(written.path, '/root/a')
    assert.equal((await sandbox.files.getInfo('/root/a', { user: 'root' })).owner, 'root')
    assert.equal((await sandbox.files.write('a', 'y')).path, '/home/user/a')
    assert.equal((await sandbox.files.getInfo('/home/user/a')).owner, 'user')
    assert.equal(await sandbox.files.read('~/a', { user: 'root' }), 'x')
    assert.equal(await sandbox.files.read('a'), 'y')
    await sandbox.files.makeDir('/tmp/roots', { user: 'root' })
    assert.equal(await run('stat -c %U /tmp/roots'), 'root\n')
    await rejects(sandbox.files.write('/tmp/roots/b', 'x'), (e) => assert.match(e.message, /Permission denied/))
    await sandbox.files.write('/tmp/roots/b', 'x', { user: 'root' })
    await run('chmod 600 /tmp/roots/b', { user: 'root' })
    await rejects(sandbox.files.read('/tmp/roots/b'), (e) => assert.match(e.message, /Permission denied/))
    assert.equal(await sandbox.files.read('/tmp/roots/b', { user: 'root' }), 'x')
    await rejects(sandbox.files.list('/root'), (e) => assert.match(e.message, /ermission denied/))
    assert.deepEqual((await sandbox.files.list('/root', { user: 'root' })).map((e) => e.name), ['a'])
    const events = []
    const handle = await sandbox.files.watchDir('/root', (e) => events.push(e.name), { user: 'root' })
    await sandbox.files.write('/root/seen', 'x', { user: 'root' })
    await until('the watcher sees it', () => events.includes('seen'))
    await handle.stop()
    await sandbox.files.rename('/root/seen', '/root/moved', { user: 'root' })
    await sandbox.files.remove('/root/moved', { user: 'root' })
    assert.equal(await sandbox.files.exists('/root/moved', { user: 'root' }), false)
  })
  await check('a move that is refused changes nothing', async () => {
    // Root inside has no rights over others' files: a folder with the sticky bit keeps them, also on the way to another file system.
    await run('mkdir -m 1777 /tmp/sticky && echo users > /tmp/sticky/u')
    await sandbox.files.write('/root/keep', 'precious', { user: 'root' })
    await rejects(sandbox.files.rename('/tmp/sticky/u', '/root/keep', { user: 'root' }))
    assert.equal(await sandbox.files.read('/root/keep', { user: 'root' }), 'precious')
    assert.equal(await run('cat /tmp/sticky/u; ls -A /root', { user: 'root' }).then((text) => text.includes('.brig')), false)
    await sandbox.files.write('/tmp/of-root', 'r', { user: 'root' })
    await sandbox.files.rename('/tmp/of-root', '/root/keep', { user: 'root' })
    assert.equal(await sandbox.files.read('/root/keep', { user: 'root' }), 'r', 'its own, the control')
  })
  await check('signed links', async () => {
    const up = await sandbox.uploadUrl('link', { user: 'root' })
    assert.equal((await fetch(up, { method: 'POST', headers: { 'Content-Type': 'application/octet-stream', 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' }, body: 'z' })).status, 200)
    assert.equal(await run('cat /root/link', { user: 'root' }), 'z')
  })
  await check('sudo', async () => {
    assert.equal(await run('sudo id -u; sudo id -g'), '0\n0\n')
    assert.equal(await run('sudo -n -E -u root A=1 sh -c \'echo "$A:$0:$1:$HOME:$USER"\' "x y" z'), '1:x y:z:/root:root\n')
    assert.equal(await run('echo in | sudo cat; echo "id -u" | sudo -s'), 'in\n0\n')
    assert.equal(await run('cd /workspace && sudo pwd; sudo sh -c "id -u" | cat'), '/workspace\n0\n')
    assert.equal(await run('sudo sudo id -u'), '0\n')
    assert.equal(await run('sudo sh -c "echo x > ~/made" && sudo stat -c %U /root/made'), 'root\n')
    for (const [command, status] of [['sudo sh -c "exit 7"', 7], ['sudo no-such-program', 127], ['sudo -u postgres id', 1], ['sudo -u user id', 1], ['sudo sh -c "kill -9 \\$\\$"', 137]]) {
      const e = await rejects(sandbox.commands.run(command))
      assert.equal(e.exitCode, status, `${command}: ${e.stderr}`)
    }
    // ^C of a terminal, and a caller that is killed, end the command as well.
    assert.equal(await run('mkfifo -m 666 ~/p; sudo sh -c "echo up > /home/user/p; exec sleep 1000" & read x < ~/p; kill -TERM $!; wait $!; echo $?'), '143\n')
    const held = await sandbox.commands.run('sudo sh -c "echo $$ > /tmp/held; exec sleep 4711"', { background: true })
    await until('it runs', async () => (await run('pgrep -f "^sleep 4711" || true', { user: 'root' })) !== '')
    assert.ok(await held.kill())
    await until('it is gone', async () => (await run('pgrep -f "^sleep 4711" || true', { user: 'root' })) === '')
  })
})

await withSandbox(Interpreter, 'two', { timeoutMs: 900_000 }, async (sandbox) => {
  await check('cells', async () => {
    const told = await sandbox.runCode('import os, subprocess\nprint(os.getuid(), subprocess.run(["sudo", "id", "-u"], capture_output=True, text=True).stdout)')
    assert.deepEqual(told.logs.stdout.join('').trim(), '1000 0', JSON.stringify(told))
  })
})

finish()
