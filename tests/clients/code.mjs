import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'
import { check, finish, rejects, until, withSandbox } from './check.mjs'

await withSandbox(Sandbox, undefined, { timeoutMs: 900_000, envs: { OURS: 'from create' } }, async (sandbox) => {
  const run = (...args) => sandbox.runCode(...args)

  await check('the default contexts are there before anything ran', async () => {
    const before = await sandbox.listCodeContexts()
    assert.deepEqual(before.map((c) => c.language).sort(), ['javascript', 'python'])
    assert.ok(before.every((c) => c.cwd === '/home/user'))
    const [python] = before.filter((c) => c.language === 'python')
    await run('named = "by its id"', { context: python })
    assert.equal((await run('named')).text, 'by its id', 'the same as without a name')
    assert.deepEqual((await sandbox.listCodeContexts()).map((c) => c.id).sort(), before.map((c) => c.id).sort())
  })

  await check('output has the time', async () => {
    // As it is sent: the JavaScript client reads the clock itself, the one for Python relies on ours.
    const told = await fetch(`${process.env.E2B_SANDBOX_URL}/execute`, {
      method: 'POST',
      headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49999', 'Content-Type': 'application/json',
        'X-Access-Token': sandbox.envdAccessToken ?? '' },
      body: JSON.stringify({ code: 'import sys; print(1); print(2, file=sys.stderr)' }),
    })
    const lines = (await told.text()).trim().split('\n').map((line) => JSON.parse(line))
    const output = lines.filter((line) => line.type === 'stdout' || line.type === 'stderr')
    assert.deepEqual(output.map((line) => line.text).sort(), ['1\n', '2\n'])
    for (const line of output) {
      assert.match(line.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$/)
      assert.ok(Math.abs(Date.parse(line.timestamp) - Date.now()) < 600_000)
    }
  })

  await check('cells as they are pasted', async () => {
    assert.equal((await run('\n    a = 1\n    if a:\n        a = 2\n    a')).text, '2')
    assert.equal((await run('>>> a = 3\n>>> a')).text, '3')
    assert.equal((await run('get_ipython().run_line_magic("pwd", "")')).text, '/home/user')
    assert.deepEqual((await run('[1, {"k": None}]')).results[0].json, [1, { k: null }])
  })

  await check('results, output, state', async () => {
    const first = await run('x = 40\nprint("hello")\nimport sys; print("oops", file=sys.stderr)\nx + 2')
    assert.equal(first.text, '42')
    assert.equal(first.logs.stdout.join(''), 'hello\n')
    assert.equal(first.logs.stderr.join(''), 'oops\n')
    assert.equal(first.error, undefined)
    assert.equal(first.results.length, 1)
    assert.equal(first.results[0].isMainResult, true)
    const second = await run('x += 1; x')
    assert.equal(second.text, '41')
    assert.equal(second.executionCount, first.executionCount + 1)
    assert.equal((await run("'a string'")).text, 'a string')
    assert.equal((await run('y = 1')).text, undefined)
  })

  await check('callbacks as things happen', async () => {
    // The second line is printed only after the first was seen here.
    const said = []
    const wait = 'import os, time\nprint(0, flush=True)\nwhile not os.path.exists("/tmp/heard"): time.sleep(0.02)\nprint(1)\n7'
    await run(wait, {
      onStdout: async (m) => {
        said.push(['out', m.line])
        if (said.length === 1) await sandbox.files.write('/tmp/heard', '')
      },
      onResult: (r) => said.push(['result', r.text]),
    })
    assert.equal(said.filter((s) => s[0] === 'out').map((s) => s[1]).join(''), '0\n1\n')
    assert.deepEqual(said.at(-1), ['result', '7'])
  })

  await check('errors', async () => {
    const e = await run('def f():\n    return 1/0\nf()')
    assert.equal(e.error.name, 'ZeroDivisionError')
    assert.equal(e.error.value, 'division by zero')
    assert.match(e.error.traceback, /ZeroDivisionError/)
    assert.match(e.error.traceback, /1\/0/)
    assert.equal((await run('if:')).error.name, 'SyntaxError')
    assert.equal((await run('2+2')).text, '4', 'the context goes on')
  })

  await check('text in other scripts, in every way it can be cut', async () => {
    const { logs, text } = await run("s = '日本語テキスト😀é' * 3000\nprint(s)\ns[:8]")
    assert.equal(logs.stdout.join(''), '日本語テキスト😀é'.repeat(3000) + '\n')
    assert.equal(text, '日本語テキスト😀')
    const bytes = await run("import os\nfor b in '😀é日'.encode():\n    os.write(1, bytes([b]))")
    assert.equal(bytes.logs.stdout.join(''), '😀é日')
  })

  await check('what is not text is printed too', async () => {
    const { logs } = await run("import os; os.write(1, b'a\\xff\\x00b'); os.system('echo from a child')")
    assert.equal(logs.stdout.join('').replace('�', '?'), 'a?\0bfrom a child\n')
  })

  await check('rich results', async () => {
    const { results } = await run(
      'class R:\n    def _repr_html_(self): return "<b>hi</b>"\n    def _repr_markdown_(self): return "**hi**"\n' +
        '    def _repr_latex_(self): return "$x$"\n    def _repr_svg_(self): return "<svg/>"\n    def __repr__(self): return "R()"\nR()')
    assert.equal(results[0].html, '<b>hi</b>')
    assert.equal(results[0].markdown, '**hi**')
    assert.equal(results[0].latex, '$x$')
    assert.equal(results[0].svg, '<svg/>')
    assert.equal(results[0].text, 'R()')
  })

  await check('figures', async () => {
    const has = await run('import importlib.util; importlib.util.find_spec("matplotlib") is not None')
    if (has.text !== 'True') {
      console.log('skip figures: matplotlib is not installed')
      return
    }
    // What the template has loaded is whole in its clones, and what it loaded in vain is not there.
    for (let i = 0; i < 3; i++) {
      await withSandbox(Sandbox, undefined, { timeoutMs: 300_000 }, async (fresh) => {
        const figure = await fresh.runCode('import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()')
        assert.equal(figure.error, undefined)
        assert.ok(figure.results[0].png)
      })
    }
    const { results } = await run('import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.title("t")\nplt.show()')
    const picture = results.find((r) => r.png)
    assert.ok(picture, 'a figure')
    assert.equal(Buffer.from(picture.png, 'base64').subarray(1, 4).toString(), 'PNG')
    const [{ chart }] = (await run('plt.bar(["a", "b"], [1, 2.5], label="g")\nplt.ylabel("weight (kg)")\nplt.show()')).results
    assert.equal(chart.type, 'bar')
    assert.equal(chart.y_unit, 'kg')
    assert.deepEqual(chart.elements, [{ label: 'a', group: 'g', value: 1 }, { label: 'b', group: 'g', value: 2.5 }])
    const [two] = (await run('f, (a, b) = plt.subplots(1, 2)\na.plot([1, 2], [3, 4]); b.pie([1, 1])\nplt.show()')).results
    assert.equal(two.chart.type, 'superchart')
    assert.deepEqual(two.chart.elements.map((c) => c.type), ['line', 'pie'])
    assert.deepEqual(two.chart.elements[0].elements[0].points, [[1, 3], [2, 4]])
    const [dots] = (await run('plt.scatter([1, 2], [3, 4], label="s")\nplt.show()')).results
    assert.deepEqual([dots.chart.type, dots.chart.elements.map((e) => e.points)], ['scatter', [[[1, 3], [2, 4]]]])
    const [box] = (await run('plt.boxplot([[1, 2, 3, 4, 5]], labels=["five"])\nplt.show()')).results
    assert.equal(box.chart.type, 'box_and_whisker')
    assert.deepEqual([box.chart.elements[0].label, box.chart.elements[0].median], ['five', 3])
    const saved = await run('from PIL import Image; Image.new("RGB", (3, 3)).save("p.png")')
    assert.ok(saved.results[0].png, 'an image that is saved is shown')
  })

  await check('magics, and what is displayed', async () => {
    assert.deepEqual((await run('%env GIVEN=here\n!echo "$GIVEN"\nlines = !printf "a\\nb"\nlines')).text, "['a', 'b']")
    assert.equal((await run('    x = 1\n    %cd /tmp\n    import os; os.getcwd()')).text, '/tmp')
    const timed = await run('%time sum(range(10))')
    assert.match(timed.logs.stdout.join(''), /Wall time/)
    assert.equal(timed.text, '45')
    const shown = await run("from IPython.display import display, HTML, JSON, Latex\ndisplay(HTML('<i>1</i>')); display({'application/json': {'a': 1}}, raw=True)\nLatex('$y$')")
    assert.equal(shown.error, undefined, JSON.stringify(shown.error))
    assert.deepEqual(shown.results.map((r) => [r.isMainResult, r.html, r.json, r.latex]),
      [[false, '<i>1</i>', undefined, undefined], [false, undefined, { a: 1 }, undefined], [true, undefined, undefined, '$y$']])
    await run('%cd ~')
  })

  await check('tables', async () => {
    const has = await run('import importlib.util; importlib.util.find_spec("pandas") is not None')
    if (has.text !== 'True') {
      console.log('skip tables: pandas is not installed')
      return
    }
    const { results } = await run('import pandas as pd; pd.DataFrame({"a": [1, 2]})')
    assert.match(results[0].html, /<table/)
    assert.deepEqual(results[0].data, { a: [1, 2] })
  })

  await check('environment of one execution', async () => {
    const code = 'import os; (os.environ.get("OURS"), os.environ.get("ONCE"))'
    assert.equal((await run(code, { envs: { ONCE: 'now' } })).text, "('from create', 'now')")
    assert.equal((await run('import os; os.environ["E2B_SANDBOX_ID"]')).text, sandbox.sandboxId)
    assert.equal((await run(code)).text, "('from create', None)")
  })

  await check('await at the top', async () => {
    assert.equal((await run('import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nawait f()')).text, '5')
  })

  await check('contexts', async () => {
    const a = await sandbox.createCodeContext({ cwd: '/tmp' })
    const b = await sandbox.createCodeContext({ language: 'python' })
    assert.equal(a.language, 'python')
    assert.equal(a.cwd, '/tmp')
    assert.equal(b.cwd, '/home/user')
    await run('v = "a"', { context: a })
    await run('v = "b"', { context: b })
    assert.equal((await run('v', { context: a })).text, 'a')
    assert.equal((await run('v', { context: b })).text, 'b')
    assert.equal((await run('import os; os.getcwd()', { context: a })).text, '/tmp')
    assert.equal((await run('v')).error.name, 'NameError')
    const ids = (await sandbox.listCodeContexts()).map((c) => c.id)
    assert.ok(ids.includes(a.id) && ids.includes(b.id))
    await sandbox.restartCodeContext(a)
    assert.equal((await run('v', { context: a })).error.name, 'NameError')
    await sandbox.removeCodeContext(b)
    await rejects(run('1', { context: b }), (e) => assert.match(e.message, /404|not found|no context/i))
    await rejects(run('1', { language: 'cobol' }))
  })

  await check('contexts run at the same time, one context in order', async () => {
    const a = await sandbox.createCodeContext()
    const b = await sandbox.createCodeContext()
    // Each waits for the other: one after the other they would never end.
    const meet = (own, other) => `import os, time
open("/tmp/${own}", "w").close()
while not os.path.exists("/tmp/${other}"): time.sleep(0.02)
"met"`
    const both = await Promise.all([run(meet('a', 'b'), { context: a }), run(meet('b', 'a'), { context: b })])
    assert.deepEqual(both.map((r) => r.text), ['met', 'met'])
    const order = await Promise.all([1, 2, 3].map((i) => run(`n = globals().get("n", "") + "${i}"; n`, { context: a })))
    // Each on a connection of its own, so that any of them may come first; none runs beside another.
    assert.deepEqual(order.map((r) => r.text.length).sort(), [1, 2, 3])
  })

  await check('a client that leaves interrupts, and the context stays', async () => {
    await run('import time\nstate = "kept"')
    await rejects(run('try:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    state = "interrupted"\n    raise', { timeoutMs: 4_000 }))
    const next = await until('the next one', async () => run('state'))
    assert.equal(next.text, 'interrupted')
  })

  await check('a loop that prints for ever can be left', async () => {
    await rejects(run('while True: print("x" * 1000)', { timeoutMs: 2_000 }))
    assert.equal((await run('1+1')).text, '2')
  })

  await check('JavaScript', async () => {
    const js = (code) => run(code, { language: 'js' })
    assert.equal((await js('const a = 20; console.log("log"); a * 2')).text, '40')
    assert.equal((await js('a + 1')).text, '21')
    const failed = await js('throw new TypeError("no")')
    assert.equal(failed.error.name, 'TypeError')
    assert.equal(failed.error.value, 'no')
    assert.equal((await js('await new Promise(r => setTimeout(() => r("later"), 20))')).text, 'later')
  })

  await check('bash', async () => {
    const bash = (code) => run(code, { language: 'bash' })
    assert.equal((await bash('V=1; cd /tmp; echo one')).logs.stdout.join(''), 'one\n')
    assert.equal((await bash('echo $V $PWD')).logs.stdout.join(''), '1 /tmp\n')
    assert.equal((await bash('false; exit 3')).error.value, '3')
    for (const end of ['exit 0', 'set -e; false', 'kill -9 $$', 'exit']) {
      await bash(end)
      assert.equal((await bash('echo still here')).logs.stdout.join(''), 'still here\n', end)
    }
  })

  await check('Java', async () => {
    const java = (code) => run(code, { language: 'java' })
    const { stdout } = await sandbox.commands.run('command -v javac jshell || true')
    if (!stdout) {
      console.log('skip Java: no JDK is installed')
      return
    }
    assert.equal((await java('int x = 20; System.out.println("out"); x + 1')).text, '21')
    assert.equal((await java('x')).text, '20')
    assert.equal((await java('1 / 0')).error.name, 'ArithmeticException')
  })

  await check('a language that is not installed names its package', async () => {
    const { stdout } = await sandbox.commands.run('command -v Rscript || true')
    if (stdout) assert.equal((await run('1 + 2', { language: 'r' })).text, '[1] 3')
    else await rejects(run('1', { language: 'R' }), (e) => assert.match(e.message, /r is not installed.*r-base-core/))
    const typescript = await run('const t: number = 5; t', { language: 'ts' })
    if (typescript.error) assert.match(typescript.error.value, /node-typescript/)
    else assert.equal(typescript.text, '5')
    await rejects(sandbox.createCodeContext({ language: 'cobol' }), (e) => assert.match(e.message, /500/))
  })

  await check('an interpreter that ends is replaced', async () => {
    await run('import os; os._exit(3)')
    await until('a new one', async () => (await run('1+1')).text === '2')
  })

  await check('commands and code see the same files', async () => {
    await sandbox.files.write('shared.txt', 'x')
    assert.equal((await run('open("shared.txt").read()')).text, 'x')
    await run('open("from_code", "w").write("y")')
    assert.equal((await sandbox.commands.run('cat from_code')).stdout, 'y')
  })
})

await check('a sandbox that is killed while a cell runs', async () => {
  const sandbox = await Sandbox.create()
  let begun = false
  const told = rejects(
    sandbox.runCode('import time\nprint(1, flush=True)\ntime.sleep(10000)', { timeoutMs: 0, onStdout: () => (begun = true) }),
    (e) => assert.equal(e.name, 'TimeoutError'))
  await until('its first output', () => begun)
  await sandbox.kill()
  await told
})

finish()
