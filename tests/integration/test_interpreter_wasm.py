"""Cells of JavaScript in QuickJS, run by brig-wasm as the wasm tier starts it, but without the walls around it."""
import base64
import os
import time
from pathlib import Path

import pytest

from driverlib import PATIENCE, Driver, Ended

TOP = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("BRIG", TOP / "build" / "brig")).parent
RUNNER, MODULE = FOLDER / "brig-wasm", FOLDER / "javascript.wasm"

pytestmark = pytest.mark.skipif(not (RUNNER.exists() and MODULE.exists()), reason="no QuickJS as a module was built here (tools/quickjs)")


def made(*options, **kwargs):
    command = [str(RUNNER), "--cells", *map(str, options), "--", str(MODULE), "javascript"]
    return Driver("wasm", command=command, **kwargs)


@pytest.fixture
def driver():
    with made() as one:
        yield one


@pytest.fixture(scope="module")
def shared():
    with made() as one:
        yield one


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("const a1 = 3", None), ("'it'", "it"), ("'a\\nb'", "a\\nb"), ("undefined", None), ("null", "null"), ("1; // said", "1"),
    ("", None), ("// nothing", None), ("{a: 1}", "{ a: 1 }"), ("({a: 1})", "{ a: 1 }"), ("{ let q = 1; }", None), ("10n", "10n"), ("-0", "-0"),
    ("new Map([[1, 2]])", "Map(1) { 1 => 2 }"), ("const o1 = {}; o1.o = o1; o1", "<ref *1> { o: [Circular *1] }"), ("(() => 5)()", "5"),
    ("await 6", "6"), ("await Promise.resolve('x')", "x"), ("Promise.resolve(1)", "Promise { 1 }"), ("const v1 = await 7, w1 = 8; v1 + w1", "15"),
    ("await 1; undefined", None), ("typeof require", "undefined"), ("(await import('os')).platform", "wasi"), ("os.platform", "wasi"),
    ("`${1}`;\n`a\n%b`", "a\\n%b"), ("async function f1() { await 1 }", None),
    ("class A1 { static #x = 1; static get() { return A1.#x } }\nA1.get()", "1"), ("label: for (;;) break label", None),
    ("var wait = (ms) => new Promise((r) => setTimeout(r, ms)); await wait(5); 'waited'", "waited"),
])
def test_value_of_the_last_expression(shared, code, text):
    done = shared.run(code)
    assert done.error is None, done.error
    assert done.text == text and done.err == ""


def test_what_is_declared_stays(driver):
    driver.run("const c = 1; let l = 2; var v = 3; class K { m() { return 5 } }; function f() { return c + l }")
    assert driver.run("[c, l, v, new K().m(), f()]").data["json"] == [1, 2, 3, 5, 3]
    driver.run("l = 20; const {x, y: [z, ...rest]} = await Promise.resolve({x: 1, y: [2, 3, 4]}); class Late {}; function late() { return x }; let unset")
    assert driver.run("[l, x, z, rest, Late.name, late(), f(), typeof unset]").data["json"] == [20, 1, 2, [3, 4], "Late", 1, 21, "undefined"]


def test_a_cell_may_be_run_twice(driver):
    code = "const c = Math.random(); let l; class K {}; function f() {}; var v = 1; l"
    first, second = driver.run(code), driver.run(code + " = 5")
    assert first.error is None and second.error is None and second.text == "5"
    assert driver.run(code).text is None  # let gives no value, the old one is gone
    assert driver.run("let v = 2; v").text == "2"  # what was var may be let
    assert driver.run("throw new Error('x'); let never = 1").error["name"] == "Error"
    assert driver.run("let never = 3; never").text == "3"
    for _ in range(2):
        assert driver.run("const d = await 5; d").text == "5"


def test_plain_data_is_json_too(shared):
    assert shared.run("[1, {a: null, b: 'x', c: [true, 1.5]}]").data["json"] == [1, {"a": None, "b": "x", "c": [True, 1.5]}]
    for code in ("new Map()", "[() => 1]", "[new Date(0)]", "[undefined]", "[,1]", "1", "'x'", "({f() {}})",
                 "let deep = []; for (let i = 0; i < 500; i++) deep = [deep]; deep", "new Array(200000).fill(0)"):
        assert "json" not in shared.run(code).data, code
    assert shared.run("[NaN, 1e30, 2 ** 63, '\\0', '\\ud800', {['\\ud800']: 1, __proto__x: 1}]").error is None
    assert shared.run("({['__proto__']: 1})").data["json"] == {"__proto__": 1}


def test_display(driver):
    done = driver.run("display.html('<b>'); display({a: 1}, 2); display.png(new TextEncoder().encode('qrst')); display.markdown('*'); display.json([1]); 5")
    assert done.shown[0] == {"html": "<b>"} and done.shown[1]["json"] == {"a": 1} and done.shown[2]["text"] == "2"
    assert base64.b64decode(done.shown[3]["png"], validate=True) == b"qrst"
    assert done.shown[4:] == [{"markdown": "*"}, {"json": [1]}] and done.text == "5"
    assert driver.run("({[Symbol.for('Jupyter.display')]() { return {'text/html': 'h', 'x/y': 1} }})").data["html"] == "h"


def test_values_that_are_too_large(driver):
    done = driver.run("display.html('é'.repeat(12 << 20)); 'x'.repeat(5e6)")
    assert done.shown == [{}] and "too many to be sent" in done.err
    assert len(done.text) <= 1 << 20
    assert len(driver.run("throw new Error('v'.repeat(1e7))").error["value"]) < 64 << 10


def test_output_and_variables(driver):
    done = driver.run("console.log('out', {a: 1}); console.error('err'); std.out.puts('raw')")
    assert (done.out, done.err, done.text) == ("out { a: 1 }\nraw", "err\n", None)
    assert driver.run("std.getenv('KEY')", env={"KEY": "value"}).text == "value"
    assert driver.run("std.getenv('KEY')").text is None


@pytest.mark.parametrize("code, name, value, word", [
    ("throw new TypeError('bad')", "TypeError", "bad", "cell["), ("null.x", "TypeError", None, "cell["),
    ("function g1() { nope }\ng1()", "ReferenceError", None, "at g1 (cell["), ("throw 'text'", "Error", "text", "Uncaught 'text'"),
    ("throw null", "Error", "null", ""), ("const z9 = 1 +", "SyntaxError", None, "SyntaxError"),
    ("await Promise.reject(new RangeError('r'))", "RangeError", "r", ""), ("Promise.reject(new RangeError('late'))", "RangeError", "late", ""),
    ("await (async () => { throw new Error('in') })()", "Error", "in", "cell["), ("function r1() { r1() }; r1()", "InternalError", "stack overflow", ""),
    ("await import('./no-such.mjs')", "ReferenceError", None, "no-such"), ("throw new Error('a', {cause: new Error('b')})", "Error", "a", "b"),
    ("setTimeout(() => { throw new Error('timer') }, 1); await new Promise(() => {})", "Error", "timer", ""),
    ("await new Promise(() => {})", "Error", None, "nothing will settle"), ("require('fs')", "ReferenceError", None, "QuickJS"),
    ("throw {get name() { throw 1 }, toString() { throw 2 }}", "Error", None, ""),
    ("const e2 = new Error('x'); Object.defineProperty(e2, 'stack', {get() { throw 1 }}); throw e2", "Error", None, ""),
])
def test_errors(shared, code, name, value, word):
    error = shared.run(code).error
    assert error["name"] == name and (value is None or error["value"] == value), error
    assert word in error["traceback"] and "prelude" not in error["traceback"]
    assert shared.run("'alive'").text == "alive"


def test_errors_between_cells_are_printed_and_timers_go_on(driver):
    told = driver.run("let n = 0; const t = setInterval(() => { n++ }, 1); setTimeout(() => { throw new Error('late') }, 10); null").err
    end = time.monotonic() + PATIENCE
    while "Error: late" not in told and time.monotonic() < end:
        time.sleep(0.02)
        done = driver.run("'alive'")
        told += done.err + (done.error["traceback"] if done.error else "")
    assert "Error: late" in told, told
    driver.run("await new Promise((r) => { const w = setInterval(() => { if (n > 3) { clearInterval(w); r() } }, 1) })")
    assert int(driver.run("clearInterval(t); n").text) > 3


@pytest.mark.parametrize("code", ["print('go'); for (;;) ;", "setTimeout(() => print('go'), 1); await new Promise((r) => setTimeout(r, 1e6))",
                                  "const f = () => { for (;;) ; }; print('go'); f()", "print('go'); /^(a+)+$/.test('a'.repeat(60) + 'b')",
                                  "print('go'); for (;;) { try { for (;;) ; } catch {} }", "print('go'); os.sleep(1e6)",
                                  "print('go'); (function f() { Promise.resolve().then(f) })(); await new Promise(() => {})"])
def test_interrupts(driver, code):
    driver.run("const kept = 5")
    driver.interrupt()  # between cells it is ignored
    for _ in range(2):
        assert driver.interrupted(code, again=True).error["name"] == "Interrupted"
    assert driver.run("kept").text == "5"


def test_folders_are_those_that_were_given(tmp_path):
    for name in ("in", "out", "none"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "out/lib.mjs").write_text("export default 13")
    with made("--ro", f"/in={tmp_path}/in", "--rw", f"{tmp_path}/out={tmp_path}/out", cwd=tmp_path / "out") as driver:
        assert driver.run("[std.loadFile('/in/file'), std.loadFile('file'), os.getcwd()[0]]").data["json"] == ["in", "out", f"{tmp_path}/out"]
        assert driver.run("std.writeFile('new', 'x'); (await import('./lib.mjs')).default").text == "13"
        assert (tmp_path / "out/new").read_text() == "x"
        assert driver.run(f"std.loadFile({str(tmp_path / 'none/file')!r})").text == "null"
        assert driver.run("std.writeFile('/in/new', 'x')").error["name"] == "Error"


def test_the_process_may_end_and_the_channel_is_of_no_use_to_others(driver):
    driver.start("std.exit(4)")
    assert driver.ends() == 4


def test_it_ends_with_the_channel(driver):
    driver.end_requests()
    assert driver.ends() == 0


def test_nonsense_on_the_channel(driver):
    "The channel is a number in the module's own table: behind the folders that it was given, of which there is none here."
    driver.start("os.write(4, new Uint8Array(8).fill(255).buffer, 0, 8); 1")
    with pytest.raises((AssertionError, Ended)):
        driver.finish()
