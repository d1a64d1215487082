import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { check, finish, rejects, until, withSandbox } from './check.mjs'

await withSandbox(Sandbox, 'base', { timeoutMs: 600_000 }, async (sandbox) => {
  const run = (...args) => sandbox.commands.run(...args)
  // A shell command that waits until open(name) was called.
  const gate = (name) => `until [ -e /tmp/gate-${name} ]; do sleep 0.02; done`
  const open = (name) => sandbox.files.write(`/tmp/gate-${name}`, '')

  await check('output, status, folder', async () => {
    const result = await run('echo out; echo err >&2; pwd', { cwd: '/tmp' })
    assert.equal(result.stdout, 'out\n/tmp\n')
    assert.equal(result.stderr, 'err\n')
    assert.equal(result.exitCode, 0)
  })

  await check('a status that is not zero', async () => {
    await rejects(run('echo before; exit 42'), (e) => {
      assert.equal(e.name, 'CommandExitError')
      assert.equal(e.exitCode, 42)
      assert.equal(e.stdout, 'before\n')
    })
    await rejects(run('kill -9 $$'), (e) => assert.deepEqual([e.exitCode, e.error], [-1, 'signal: killed']))
    await rejects(run('sh -c \'kill -9 $$\'; exit $?'), (e) => assert.equal(e.exitCode, 137))
    await rejects(run('kill -SEGV $$'), (e) => assert.equal(e.error, 'signal: segmentation fault'))
    await rejects(run('kill -40 $$'), (e) => assert.equal(e.error, 'signal: signal 40'))
  })

  await check('output arrives as it is written', async () => {
    // The second line is written only after the first was seen here.
    let seen = ''
    const command = await run(`echo 1; ${gate('heard')}; echo 2`, { background: true, onStdout: (data) => { seen += data } })
    await until('the first line', () => seen === '1\n')
    await open('heard')
    assert.equal((await command.wait()).stdout, '1\n2\n')
  })

  await check('characters are not torn', async () => {
    const text = '日本語テキスト😀é'.repeat(20_000)
    await sandbox.files.write('/tmp/cjk', text)
    assert.equal((await run('cat /tmp/cjk')).stdout, text)
  })

  await check('ten megabytes of output', async () => {
    const { stdout } = await run('head -c 10000000 /dev/zero | tr "\\0" x')
    assert.equal(stdout.length, 10_000_000)
    assert.match(stdout, /^x+$/)
  })

  await check('input, and its end', async () => {
    const command = await run('cat; echo done', { background: true, stdin: true })
    await sandbox.commands.sendStdin(command.pid, 'first\n')
    await sandbox.commands.sendStdin(command.pid, 'second é\n')
    await until('the echo', () => command.stdout.includes('second'))
    await sandbox.commands.closeStdin(command.pid)
    assert.equal((await command.wait()).stdout, 'first\nsecond é\ndone\n')
    await rejects(sandbox.commands.sendStdin(command.pid, 'late'))
  })

  await check('a megabyte of input', async () => {
    const command = await run('wc -c', { background: true, stdin: true })
    await sandbox.commands.sendStdin(command.pid, 'y'.repeat(1_000_000))
    await sandbox.commands.closeStdin(command.pid)
    assert.equal((await command.wait()).stdout.trim(), '1000000')
  })

  await check('without input a command reads the end of it', async () => {
    assert.equal((await run('cat; echo end')).stdout, 'end\n')
  })

  await check('in the background, listed, killed', async () => {
    const command = await run('sleep 600', { background: true, envs: { MARK: '1' } })
    const found = (await sandbox.commands.list()).find((p) => p.pid === command.pid)
    assert.equal(found.cmd, '/bin/bash')
    assert.deepEqual(found.args, ['-l', '-c', 'sleep 600'])
    assert.equal(found.envs.MARK, '1')
    assert.equal(await command.kill(), true)
    await rejects(command.wait(), (e) => assert.equal(e.exitCode, -1))
    await until('the end', async () => !(await sandbox.commands.list()).some((p) => p.pid === command.pid))
    assert.equal(await sandbox.commands.kill(command.pid), false)
    assert.equal(await sandbox.commands.kill(2_000_000), false)
  })

  await check('a command goes on without its client, which may come back', async () => {
    const loop = 'i=0; until [ -e /tmp/gate-enough ]; do i=$((i+1)); echo line $i; echo $i > /tmp/line.new; mv /tmp/line.new /tmp/line; sleep 0.1; done; echo last line'
    const command = await run(loop, { background: true })
    await until('the first line', () => command.stdout.includes('line 1\n'))
    await command.disconnect()
    const line = async () => Number(await sandbox.files.read('/tmp/line').catch(() => 0))
    const left = await line()
    await until('it goes on', async () => (await line()) > left + 3)
    const seen = []
    const again = await sandbox.commands.connect(command.pid, { onStdout: (data) => seen.push(data) })
    assert.equal(again.pid, command.pid)
    await until('more lines', () => seen.join('').length > 0)
    assert.ok(!seen.join('').includes('line 1\n'), 'what was said meanwhile is gone')
    await open('enough')
    const result = await again.wait()
    assert.equal(result.exitCode, 0)
    assert.ok(result.stdout.endsWith('last line\n'))
  })

  await check('two clients see the same', async () => {
    const command = await run(`${gate('both')}; echo both`, { background: true })
    const other = await sandbox.commands.connect(command.pid)
    await open('both')
    const results = await Promise.all([command.wait(), other.wait()])
    assert.deepEqual(results.map((r) => r.stdout), ['both\n', 'both\n'])
  })

  await check('a time limit ends the command', async () => {
    const begin = Date.now()
    await rejects(run('echo $$ > /tmp/limited; exec sleep 600', { timeoutMs: 4_000 }), (e) =>
      assert.equal(e.name, 'TimeoutError'))
    assert.ok(Date.now() - begin < 120_000)
    const pid = (await sandbox.files.read('/tmp/limited')).trim()
    await until('the process is gone', async () => (await run(`kill -0 ${pid} 2>/dev/null; echo $?`)).stdout === '1\n')
  })

  await check('a child that holds the output does not hold the answer', async () => {
    const begin = Date.now()
    const { stdout } = await run('echo main; (sleep 300; echo late) &')
    assert.equal(stdout, 'main\n')
    assert.ok(Date.now() - begin < 200_000)
  })

  await check('arguments are passed as they are', async () => {
    const nasty = `'; touch /tmp/pwned; echo "$(id)\` \\ $HOME`
    await sandbox.files.write('/tmp/arg', nasty)
    const { stdout } = await run('printf "%s" "$ARG"', { envs: { ARG: nasty } })
    assert.equal(stdout, nasty)
    assert.equal(await sandbox.files.exists('/tmp/pwned'), false)
  })

  await check('a folder that is not there', async () => {
    await rejects(run('true', { cwd: '/no/such/folder' }), (e) => {
      assert.match(e.message, /cwd: cannot enter folder \/no\/such\/folder/)
      assert.equal(e.name, 'InvalidArgumentError')
    })
  })

  await check('forty commands at once', async () => {
    const results = await Promise.all(Array.from({ length: 40 }, (_, i) => run(`echo ${i}`)))
    assert.deepEqual(results.map((r) => r.stdout), results.map((_, i) => `${i}\n`))
  })
})

await check('a command whose sandbox ends', async () => {
  const sandbox = await Sandbox.create('base')
  const command = await sandbox.commands.run('sleep 600', { background: true })
  await sandbox.kill()
  await rejects(command.wait())
})

finish()
