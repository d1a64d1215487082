"""Cells of JavaScript."""
import base64
import time

import pytest

from driverlib import DRIVERS, PATIENCE, Driver


@pytest.fixture
def driver():
    with Driver("node") as made:
        yield made


@pytest.fixture(scope="module")
def shared():
    with Driver("node") as made:
        yield made


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("const a1 = 3", None), ("'it'", "it"), ("'a\\nb'", "a\\nb"), ("\"it's\"", "it's"), ("undefined", None),
    ("null", "null"), ("1;", "1"), ("1; // said", "1"), ("", None), ("// nothing", None), ("if (1) { 7 }", None),
    ("{a: 1}", "{ a: 1 }"), ("({a: 1})", "{ a: 1 }"), ("{ let q = 1; }", None), ("10n", "10n"), ("-0", "-0"),
    ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"), ("const o1 = {}; o1.o = o1; o1", "<ref *1> { o: [Circular *1] }"),
    ("(() => 5)()", "5"), ("await 6", "6"), ("await Promise.resolve('x')", "x"), ("Promise.resolve(1)", "Promise { 1 }"),
    ("for await (const x of [1]) ;", None), ("const v1 = await 7, w1 = 8; v1 + w1", "15"), ("(await 1, 2) ;", "2"),
    ("await 1; undefined", None), ("typeof require", "function"), ("require('path').sep", "/"),
    ("(await import('path')).sep", "/"), ("import p1, {sep as s1} from 'path'; import * as n1 from 'node:os'\n"
     "[p1.sep, s1, typeof n1.cpus]", "[ '/', '/', 'function' ]"), ("process.argv.length", "1"),
    ("`${1}`;\n`a\n%b`", "a\\n%b"), ("/[/]'/.test(\"/'\")", "true"), ("async function f1() { await 1 }", None),
    ("class A1 { static #x = 1; static get() { return A1.#x } }\nA1.get()", "1"), ("label: for (;;) break label", None),
])
def test_value_of_the_last_expression(shared, code, text):
    done = shared.run(code)
    assert done.error is None, done.error
    assert done.text == text and done.err == ""


def test_what_is_declared_stays(driver):
    driver.run("const c = 1; let l = 2; var v = 3; class K { m() { return 5 } }; function f() { return c + l }")
    assert driver.run("[c, l, v, new K().m(), f()]").data["json"] == [1, 2, 3, 5, 3]
    driver.run("l = 20; const {x, y: [z, ...rest]} = await Promise.resolve({x: 1, y: [2, 3, 4]}); "
               "class Late {}; function late() { return x }; let unset")
    assert driver.run("[l, x, z, rest, Late.name, late(), f(), typeof unset]").data["json"] == [
        20, 1, 2, [3, 4], "Late", 1, 21, "undefined"]


def test_a_cell_may_be_run_twice(driver):
    code = "const c = Math.random(); let l; class K {}; function f() {}; l"
    first, second = driver.run(code), driver.run(code + " = 5")
    assert first.error is None and second.error is None
    assert driver.run(code).text is None  # let gives no value, the old one is gone
    for _ in range(2):
        assert driver.run("const d = await 5; import fs from 'fs'; d").text == "5"


def test_plain_data_is_json_too(shared):
    assert shared.run("[1, {a: null, b: 'x', c: [true, 1.5]}]").data["json"] == [1, {"a": None, "b": "x", "c": [True, 1.5]}]
    for code in ("new Map()", "[() => 1]", "[new Date(0)]", "[undefined]", "[,1]", "1", "'x'", "({f() {}})",
                 "let deep = []; for (let i = 0; i < 500; i++) deep = [deep]; deep", "new Array(200000).fill(0)"):
        assert "json" not in shared.run(code).data, code
    assert shared.run("[NaN, 1e30, 2 ** 63, '\\0', '\\ud800', {['\\ud800']: 1, __proto__x: 1}]").error is None
    assert shared.run("({['__proto__']: 1})").data["json"] == {"__proto__": 1}


def test_display(driver):
    done = driver.run("display.html('<b>'); display({a: 1}, 2); display.png(Buffer.from('q')); display.markdown('*'); "
                      "display.json([1]); 5")
    assert done.shown[0] == {"html": "<b>"} and done.shown[1]["json"] == {"a": 1} and done.shown[2]["text"] == "2"
    assert base64.b64decode(done.shown[3]["png"], validate=True) == b"q"
    assert done.shown[4:] == [{"markdown": "*"}, {"json": [1]}] and done.text == "5"
    done = driver.run("({[Symbol.for('Jupyter.display')]() { return {'text/html': 'h', 'x/y': 1} }})")
    assert done.data["html"] == "h"


def test_values_that_are_too_large(driver):
    done = driver.run("display.html('é'.repeat(12 << 20)); 'x'.repeat(5e6)")
    assert done.shown == [{}] and "too many to be sent" in done.err
    assert len(done.text) <= 1 << 20
    assert len(driver.run("throw new Error('v'.repeat(1e7))").error["value"]) < 64 << 10


def test_output(driver):
    done = driver.run("console.log('out', {a: 1}); console.error('err'); process.stdout.write('raw')")
    assert (done.out, done.err, done.text) == ("out { a: 1 }\nraw", "err\n", "true")
    assert driver.run("require('child_process').spawnSync('echo', ['child'], {stdio: 'inherit'}); null").out == "child\n"


@pytest.mark.parametrize("code, name, value, word", [
    ("throw new TypeError('bad')", "TypeError", "bad", "cell["), ("null.x", "TypeError", None, "cell["),
    ("function g1() { nope }\ng1()", "ReferenceError", "nope is not defined", "at g1 (cell["),
    ("throw 'text'", "Error", "text", "Uncaught text"), ("throw null", "Error", "null", ""), ("const z9 = 1 +", "SyntaxError",
     None, "SyntaxError"), ("await Promise.reject(new RangeError('r'))", "RangeError", "r", ""),
    ("Promise.reject(new RangeError('late'))", "RangeError", "late", ""), ("await (async () => { throw new Error('in') })()",
     "Error", "in", "cell["), ("function r1() { r1() }; r1()", "RangeError", None, ""), ("import x from 'no-such'", "Error",
     None, "no-such"), ("require('no-such')", "Error", None, "no-such"), ("await import('./no-such.mjs')", "Error", None, ""),
    ("throw new Error('a', {cause: new Error('b')})", "Error", "a", "b"), ("return 1", "SyntaxError", None, ""),
    ("setTimeout(() => { throw new Error('timer') }, 1); await new Promise(() => {})", "Error", "timer", ""),
    ("throw {get name() { throw 1 }, toString() { throw 2 }}", "Error", None, ""),
    ("const e2 = new Error('x'); Object.defineProperty(e2, 'stack', {get() { throw 1 }}); throw e2", "Error", None, ""),
])
def test_errors(shared, code, name, value, word):
    error = shared.run(code).error
    assert error["name"] == name and (value is None or error["value"] == value)
    assert word in error["traceback"] and str(DRIVERS) not in error["traceback"]
    assert shared.run("'alive'").text == "alive"


def test_line_numbers(shared):
    text = shared.run("const n8 = 1\nclass N8 {}\nlet m8 = 2; nope()").error["traceback"]
    assert ":3:13" in text


def test_errors_between_cells_are_printed(driver):
    told = driver.run("setTimeout(() => { throw new Error('late') }, 10); null").err
    end = time.monotonic() + PATIENCE
    while "Error: late" not in told and time.monotonic() < end:
        time.sleep(0.02)
        done = driver.run("'alive'")
        told += done.err + (done.error["traceback"] if done.error else "")
    assert "Error: late" in told, told
    assert driver.run("'alive'").text == "alive"


def test_timers_go_on(driver):
    driver.run("let n = 0; const t = setInterval(() => { n++ }, 1)")
    driver.run("await new Promise((r) => { const w = setInterval(() => { if (n > 3) { clearInterval(w); r() } }, 1) })")
    assert int(driver.run("clearInterval(t); n").text) > 3


# Node.js itself loses a signal, or ends by it, that comes in the moment in which the part before the first await ends and
# its own handler is put back: cells that wait say "go" when they do wait.
GO = "setTimeout(() => console.log('go'), 1);"


@pytest.mark.parametrize("code", [
    "console.log('go'); for (;;) ;", GO + "await new Promise(() => {})", "const f = () => { for (;;) ; };"
    "console.log('go'); f()", GO + "await new Promise((r) => setTimeout(r, 1e6))",
    "console.log('go'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
])
def test_interrupts(driver, code):
    driver.run("const kept = 5")
    for _ in range(2):
        assert driver.interrupted(code, again=True).error["name"] == "Interrupted"
    assert driver.run("kept").text == "5"


def test_folder(tmp_path):
    (tmp_path / "mine.cjs").write_text("module.exports = 12")
    (tmp_path / "mine.mjs").write_text("export default 13")
    folder = tmp_path / "node_modules" / "pack"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "pack", "exports": {"import": "./m.mjs", "require": "./c.cjs"}}')
    (folder / "m.mjs").write_text("export const kind = 'module'")
    (folder / "c.cjs").write_text("exports.kind = 'script'")
    with Driver("node", cwd=tmp_path) as driver:
        assert driver.run("require('./mine.cjs')").text == "12"
        assert driver.run("import thirteen from './mine.mjs'; thirteen").text == "13"
        assert driver.run("(await import('pack')).kind + ' ' + require('pack').kind").text == "module script"


def test_the_process_may_end(driver):
    driver.start("process.exit(4)")
    assert driver.ends() == 4


def test_nonsense_on_the_channel(driver):
    driver.start("require('fs').writeSync(4, Buffer.alloc(8, 255)); 1")
    with pytest.raises(AssertionError, match="a frame of 4294967295 bytes"):
        driver.finish()
