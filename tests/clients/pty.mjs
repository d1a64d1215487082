import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, until, withSandbox } from './check.mjs'

await withSandbox(Sandbox, 'base', {}, async (sandbox) => {
  const text = new TextDecoder()
  const bytes = (line) => new TextEncoder().encode(line)

  await check('a terminal: input, output, size, end', async () => {
    let seen = ''
    const pty = await sandbox.pty.create({
      cols: 91, rows: 33, cwd: '/tmp', envs: { MARK: 'here' }, timeoutMs: 0,
      onData: (data) => { seen += text.decode(data) },
    })
    await sandbox.pty.sendInput(pty.pid, bytes('echo "[$MARK $(pwd) $(stty size) $TERM]"\n'))
    await until('the shell answers', () => seen.includes('[here /tmp 33 91 xterm-256color]'))
    await sandbox.pty.resize(pty.pid, { cols: 120, rows: 40 })
    await sandbox.pty.sendInput(pty.pid, bytes('echo "<$(stty size)>"\n'))
    await until('the new size', () => seen.includes('<40 120>'))
    assert.ok((await sandbox.commands.list()).some((p) => p.pid === pty.pid))
    await sandbox.pty.sendInput(pty.pid, bytes('exit 0\n'))
    await pty.wait()
  })

  await check('^C reaches what runs on the terminal', async () => {
    let seen = ''
    const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => { seen += text.decode(data) } })
    await sandbox.pty.sendInput(pty.pid, bytes('echo run:$((1+1)); cat; echo "after:$?"\n'))
    // Before that the shell reads by itself, and what is typed is shown once: by cat alone.
    await until('the line is carried out', () => seen.includes('run:2'))
    await sandbox.pty.sendInput(pty.pid, bytes('hello\n'))
    await until('cat runs', () => (seen.match(/hello/g) ?? []).length >= 2)
    await sandbox.pty.sendInput(pty.pid, bytes('\x03'))
    await until('the shell is back', async () => {
      await sandbox.pty.sendInput(pty.pid, bytes('echo back:$((40+2))\n'))
      return seen.includes('back:42')
    })
    assert.equal(await pty.kill(), true)
    // The signal is sent; the end comes when the kernel says so.
    await until('it is gone', async () => !(await sandbox.pty.kill(pty.pid)))
  })

  await check('a terminal is left and found again', async () => {
    const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} })
    await pty.disconnect()
    let seen = ''
    const again = await sandbox.pty.connect(pty.pid, { onData: (data) => { seen += text.decode(data) } })
    await sandbox.pty.sendInput(pty.pid, bytes('echo again:$((1+1))\n'))
    await until('the answer', () => seen.includes('again:2'))
    await again.kill()
  })
})

finish()
