// What an agent does first, with registries that the test serves.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import { check, finish, withSandbox } from './check.mjs'

const quiet = '--no-audit --no-fund --silent'

await withSandbox(Sandbox, 'base', { timeoutMs: 900_000 }, async (sandbox) => {
  const run = async (command) => (await sandbox.commands.run(command, { timeoutMs: 600_000 })).stdout

  await check('pip', async () => {
    assert.equal(await run('pip install -q brig-tiny && brig-tiny && python -c "import brig_tiny; print(brig_tiny.word())"'), 'tiny works\ntiny works\n')
    assert.match(await run('python -m pip list'), /brig-tiny/)
  })
  await check('npm', async () => {
    assert.equal(await run(`mkdir p && cd p && npm install ${quiet} brig-tiny && node -e "console.log(require('brig-tiny')())"`), 'tiny works\n')
    assert.equal(await run(`npm install -g ${quiet} brig-tiny && brig-tiny-js`), 'tiny works\n')
  })
})

await withSandbox(Interpreter, undefined, { timeoutMs: 900_000 }, async (sandbox) => {
  await check('pip in a cell', async () => {
    const { logs, error } = await sandbox.runCode('%pip install -q brig-tiny\nimport brig_tiny\nprint(brig_tiny.word())')
    assert.equal(error, undefined)
    assert.equal(logs.stdout.join(''), 'tiny works\n')
  })
})

finish()
