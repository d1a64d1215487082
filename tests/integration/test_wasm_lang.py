"""`brig run --tier wasm --lang`: a script is run by a module, QuickJS or a CPython that somebody installed, and has what WASI has.

BRIG names the program under test; javascript.wasm lies beside it, where `make` could build it (tools/quickjs).
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/lib"))
from helpers import BRIG, IS_ROOT, PUBLIC, Caller  # noqa: E402

MODULE = PUBLIC / "javascript.wasm"
CALLERS = [Caller(name, "--tier", "wasm", "--sampling", "accept") for name in (["root", "user"] if IS_ROOT else ["user"])]
ME = CALLERS[0]
BY_CALLER = pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)


@pytest.fixture(scope="module", autouse=True)
def tier():
    told = json.loads(subprocess.run([BRIG, "doctor", "--json"], capture_output=True, timeout=60).stdout)
    found = next(t for t in told["tiers"] if t["tier"] == "wasm")
    if not found["available"]:
        pytest.skip(f"no wasm tier here: {found['why']}")


@pytest.fixture
def javascript():
    if not MODULE.exists():
        pytest.skip("QuickJS was not built here as a module: `make`, or tools/quickjs, says why")


pytestmark = pytest.mark.usefixtures("tier")
JS = pytest.mark.usefixtures("javascript")


def run(code, *options, caller=ME, args=(), **kwargs):
    return caller.run("-q", *options, "--lang", "javascript", "-", "--", *args, input=code, **kwargs)


def report(code, *options):
    return json.loads(ME.run("--json", *options, "--lang", "javascript", "-", input=code).stdout)


# ---- what it is for ----

@JS
@BY_CALLER
def test_code_comes_from_stdin_or_a_file(caller, tmp_path):
    assert caller.run("-q", "--lang", "javascript", "-", input="console.log(6*7)").stdout == "42\n"
    assert caller.run("-q", "--lang", "js", input="print(6*7)").stdout == "42\n"
    script = PUBLIC / f"script-{caller.name}.js"
    script.write_text("console.log(scriptArgs.slice(1)); std.exit(3)")
    done = caller.run("-q", "--lang", "javascript", script, "--", "one", "-two")
    assert (done.returncode, done.stdout) == (3, "[ 'one', '-two' ]\n"), done


# Each is run by Node.js too: the same words, the same values, the same output.
PROGRAMS = {
    "values": """
        console.log(1, -0, 1.5e300, NaN, 10n ** 30n, true, null, undefined, 'text', Symbol('s'));
        console.log(['text', "it's", 'a "b"', 'line\\nline'], { a: 1, 'b-c': [1, { d: { e: { f: 1 } } }], g() {}, h: class X {} });
        console.log([[]], {}, [1, , 3], new Map([['k', { v: 1 }]]), new Set([1, 'b']), /r+/gi, new Date(0), [undefined, null]);
        console.log('%s is %d years, %j %%', 'Ann', 42, { a: 1 }, 'rest', [1]);
        console.log(Array.from({ length: 120 }, (_, i) => i * i).length, 'x'.repeat(5), new Uint8Array([1, 2, 3]));
        const o = { name: 'o' }; o.self = o; console.log(o);
        console.log(Object.create(null), new (class Point { constructor() { this.x = 1; } })(), Promise.resolve(4), function f() {}, () => {});
        console.log({ first: 'a long text that fills the line', second: 'another long text', third: 'and one more that is long' });""",
    "language": """
        function* count() { let i = 0; while (i < 5) yield i++; }
        class Animal { #name; constructor(name) { this.#name = name; } get name() { return this.#name; } static of(n) { return new this(n); } }
        const { a, ...rest } = { a: 1, b: 2, c: 3 };
        console.log([...count()], Animal.of('cat').name, rest, a ?? 2, ({}).x?.y, [3, 1, 2].sort(), [1, [2, [3]]].flat(Infinity));
        label: for (const x of [1, 2, 3]) for (const y of [1, 2]) { if (y === 2) continue label; console.log(x, y); }
        console.log('2024-05-06'.replace(/(?<y>\\d+)-(?<m>\\d+)/u, '$<m>/$<y>'), [...'aXbX'.matchAll(/X/g)].map((m) => m.index), 'ß'.toUpperCase(), '😀'.length);
        console.log(JSON.stringify({ a: [1, { b: undefined }], d: new Date(0) }, null, 2), JSON.parse('{"x":[1,2]}').x);
        const gcd = (x, y) => (y ? gcd(y, x % y) : x); console.log(gcd(2n ** 64n, 10n ** 20n), (0.1 + 0.2).toFixed(20), (255).toString(16), Number('0x1f'));
        try { null.x; } catch (e) { console.log(e instanceof TypeError, e.name); } finally { console.log('finally'); }
        const p = new Proxy({}, { get: (t, k) => `got ${String(k)}` }); console.log(p.anything, Reflect.ownKeys({ z: 1, [Symbol.iterator]: 2 }).length);
        console.log([1, 2, 3].findLast((x) => x < 3), [1, 2].at(-1), structure({ x: 1 })); function structure(v) { return Object.entries(v); }""",
    "time": """
        const order = []; const tick = (n) => order.push(n);
        setTimeout(() => tick('late'), 300); setTimeout(() => tick('soon'), 5); queueMicrotask(() => tick('micro'));
        Promise.resolve().then(() => tick('promise')); tick('now');
        const timer = setInterval(() => { tick('every'); if (order.filter((x) => x === 'every').length === 2) clearInterval(timer); }, 8);
        const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        (async () => { await wait(400); for await (const x of (async function* () { yield 1; await wait(1); yield 2; })()) tick(x);
          console.log(order.join(' ')); console.log((await Promise.allSettled([wait(1), Promise.reject(new Error('no'))])).map((r) => r.status)); })();""",
    "work": """
        const sieve = new Uint8Array(200000).fill(1); let primes = 0;
        for (let i = 2; i < sieve.length; i++) if (sieve[i]) { primes++; for (let j = i * 2; j < sieve.length; j += i) sieve[j] = 0; }
        const words = 'the quick brown fox jumps over the lazy dog the end'.split(' ').reduce((m, w) => m.set(w, (m.get(w) || 0) + 1), new Map());
        let h = 0; for (let i = 0; i < 100000; i++) h = Math.imul(h ^ i, 16777619) >>> 0;
        const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));
        console.log(primes, [...words].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0], h, fib(18), Math.hypot(3, 4), Math.max(...[1, 9, 3]));
        console.log(new TextDecoder().decode(new TextEncoder().encode('żółw 🐢')), [1, 2, 3].map(String), parseInt('12px'), encodeURIComponent('a b&c'));""",
}


@JS
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_says_what_node_says(name, tmp_path):
    if not shutil.which("node"):
        pytest.skip("Node.js is not installed")
    script = tmp_path / "program.js"
    script.write_text(PROGRAMS[name])
    want = subprocess.run(["node", script], capture_output=True, text=True, timeout=60)
    got = run(PROGRAMS[name])
    assert want.returncode == 0 and (got.returncode, got.stdout, got.stderr) == (0, want.stdout, ""), got


@JS
def test_modules_and_await_at_the_top(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "lib.js").write_text("export const twice = (x) => 2 * x; export default import.meta.url;")
    code = "import url, { twice } from '/in/lib.js'; import * as os from 'os'; console.log(twice(21), url, os.platform, await Promise.resolve(1));"
    done = run(code, "--ro", f"{tmp_path}:/in")
    assert done.stdout == "42 file:///in/lib.js wasi 1\n", done
    assert run("const std = await import('std'); console.log(await 7, typeof std.loadFile)").stdout == "7 function\n"
    missing = run("import 'left-pad'")
    assert missing.returncode == 1 and "left-pad" in missing.stderr and "'std', 'os'" in missing.stderr


@JS
def test_files_variables_and_arguments(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out").chmod(0o777)
    (tmp_path / "in/data").write_text("one\ntwo\n")
    code = """
        import * as std from 'std'; import * as os from 'os';
        const f = std.open('/in/data'); const lines = []; for (let l; (l = f.getline()) !== null;) lines.push(l); f.close();
        std.writeFile('/out/a', lines.map((l) => l + '!').join()); os.mkdir('/out/sub'); os.rename('/out/a', '/out/sub/b');
        const g = std.open('/out/sub/b', 'a'); g.puts(' more'); g.close();
        std.writeFile('here', 'x'); console.log(std.loadFile('/workspace/here'), std.loadFile('/out/sub/b'), os.stat('/out/sub/b')[0].size);
        console.log(os.readdir('/out/sub')[0].filter((n) => n[0] !== '.'), std.getenv('KEY'), std.getenv('PATH'), Object.keys(std.getenviron()), scriptArgs[1]);
        const w = std.open('/in/new', 'w'); console.log(w, std.open('/in/none'));
        const told = {}; std.open('/in/none', 'r', told); console.log(told.errno === std.Error.ENOENT, std.strerror(told.errno));"""
    done = run(code, "--ro", f"{tmp_path}/in:/in", "--rw", f"{tmp_path}/out:/out", "-e", "KEY=value", args=["word"])
    assert done.stdout == ("x one!,two! more 14\n[ 'b' ] value undefined [ 'KEY' ] word\nnull null\ntrue No such file or directory\n"), done
    assert (tmp_path / "out/sub/b").read_text() == "one!,two! more"


@JS
def test_errors_are_told_and_are_the_status():
    done = run("console.log('before'); function f() { throw new TypeError('it broke'); }\nf();")
    assert (done.returncode, done.stdout) == (1, "before\n") and done.stderr.startswith("Uncaught TypeError: it broke\n    at f (<stdin>:1"), done
    assert run("await Promise.reject(new Error('late'))").stderr.startswith("Uncaught Error: late")
    assert run("Promise.reject(new Error('nobody')); setTimeout(() => console.log('never'), 1000)").returncode == 1
    assert run("let x = ;").returncode == 1 and "SyntaxError" in run("let x = ;").stderr
    assert run("throw 7").stderr == "Uncaught 7\n"
    stuck = run("await new Promise(() => {})")
    assert stuck.returncode == 1 and "nothing will settle" in stuck.stderr
    elsewhere = run("require('fs')")
    assert elsewhere.returncode == 1 and "QuickJS" in elsewhere.stderr and "no network" in elsewhere.stderr


@JS
def test_the_receipt_names_the_code_and_the_tier():
    told = report("console.log(1)")
    assert (told["tier"], told["exit_code"], told["stdout"]) == ("wasm", 0, "1\n")
    assert told["receipt"]["inputs"]["code"]["bytes"] == 14 and told["receipt"]["boundaries"]["kernel"]["engine"] == "brig-wasm"


@JS
def test_without_executable_memory_it_is_interpreted():
    assert run("console.log(6*7)", "--noexec").stdout == "42\n"
    assert run("console.log(6*7)", "--level", "low", "--tier", "wasm").stdout == "42\n"


# ---- hostile scripts ----

@JS
@pytest.mark.parametrize("code", ["for (;;);", "/^(a+)+$/.test('a'.repeat(60) + 'b')", "(function f() { Promise.resolve().then(f); })()"], ids=["loop", "regex", "jobs"])
def test_what_never_ends_is_ended(code):
    assert report(code, "--timeout", "1s")["limit_hit"] == "timeout"


@JS
def test_a_loop_costs_what_it_may():
    assert report("for (;;);", "--cpu-time", "1s")["limit_hit"] == "cpu_time"


@JS
@pytest.mark.parametrize("code", ["const all = []; for (;;) all.push(new Array(1000).fill({}));", "let s = 'x'; for (;;) s += s + s;"], ids=["objects", "text"])
def test_memory_without_end_is_ended(code):
    told = report(code, "-m", "128M")
    bounded = told["exit_code"] == 1 and ("out of memory" in told["stderr"] or "too long" in told["stderr"])
    assert told["limit_hit"] == "memory" or (bounded and code.startswith("let s")), told


@JS
@pytest.mark.parametrize("code", ["(function f() { f(); })()", "const a = []; a[0] = a; (function g(x) { return [x].map(g); })(a)",
                                  "JSON.parse('['.repeat(200000) + ']'.repeat(200000))", "eval('('.repeat(300000))",
                                  "let a = []; for (let i = 0; i < 100000; i++) a = [a]; String(a)",
                                  "new RegExp('('.repeat(200000) + ')'.repeat(200000))", "class A { constructor() { new A(); } } new A()"])
@pytest.mark.parametrize("options", [[], ["--noexec"]], ids=["compiled", "interpreted"])
def test_a_stack_without_end_is_an_error_that_can_be_caught(code, options):
    done = run(f"try {{ {code} }} catch (e) {{ console.log(e instanceof Error); }} console.log('goes on');", *options)
    assert done.returncode == 0 and done.stdout.endswith("goes on\n"), done


@JS
def test_files_that_were_not_granted_are_not_there(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown/link").symlink_to("../secret")
    for folder in (tmp_path, tmp_path / "shown"):
        folder.chmod(0o777)
    paths = [str(secret), "/etc/passwd", "/shown/../secret", "/shown/link", "../etc/passwd", "/proc/self/environ", "/.brig-module", f"/shown/{secret}"]
    code = f"for (const p of {json.dumps(paths)}) console.log(std.loadFile(p)); console.log(os.symlink('/etc/passwd', '/shown/mine'), std.loadFile('/shown/mine'));"
    done = run(code, "--rw", f"{tmp_path}/shown:/shown")
    assert done.stdout.startswith("null\n" * len(paths)) and "root:" not in done.stdout and "secret" not in done.stdout, done
    control = run(f"console.log(std.loadFile({json.dumps(str(secret))}))", "--ro", str(tmp_path))
    assert control.stdout == "the secret\n", control


@JS
def test_output_without_end_is_cut_and_ended():
    told = report("for (;;) console.log('x'.repeat(1000))", "--output", "64K", "--cpu-time", "1s")
    assert told["stdout_truncated"] and len(told["stdout"]) <= 65536 and told["limit_hit"] == "cpu_time", told["limit_hit"]


# ---- other languages ----

def test_a_language_without_a_module_is_refused_with_words():
    for lang in ("ruby", "node", "bash"):
        refused = ME.run("--lang", lang, "-", input="x")
        assert refused.returncode == 125 and "javascript or python" in refused.stderr, refused


def test_without_a_module_it_says_how_to_get_one(tmp_path):
    tmp_path.chmod(0o755)
    for name in ("brig", "brig-wasm"):
        shutil.copy(PUBLIC / name, tmp_path / name)
    env = {**os.environ, "BRIG_WASM_PYTHON": "", "BRIG_WASM_JAVASCRIPT": ""}
    for lang, *words in (("javascript", "tools/quickjs"), ("python", "its folder lib: github.com/", "developer guide", "BRIG_WASM_PYTHON=/path/to/python.wasm")):
        if any(Path(f"{place}/{lang}.wasm").exists() for place in ("/usr/local/lib/brig", "/usr/lib/brig")):
            continue
        refused = subprocess.run([tmp_path / "brig", "run", "--tier", "wasm", "--lang", lang, "-"], input="x", capture_output=True, text=True, timeout=60, env=env)
        assert refused.returncode == 127 and all(word in refused.stderr for word in words) and f"{lang}.wasm" in refused.stderr, refused
        told = json.loads(subprocess.run([tmp_path / "brig", "doctor", "--json"], capture_output=True, timeout=60, env=env).stdout)
        found = next(one for one in told["languages"] if one["language"] == lang)
        assert not found["available"] and found["module"] is None and all(word in found["how"] for word in words), found


PYTHON = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    char path[400], line[100] = "";
    printf("%s %s %s|", argv[0], argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
    fgets(line, sizeof line, stdin);
    printf("%s|%s|", line, getenv("PYTHONHOME") ? "home" : "no home");
    snprintf(path, sizeof path, "%s/lib/python3.13/os.py", getenv("PYTHONHOME") ? getenv("PYTHONHOME") : "");
    FILE *f = fopen(path, "r");
    puts(f && fgets(line, sizeof line, f) ? line : "no library");
}
"""


@BY_CALLER
def test_a_python_that_is_installed_is_found_with_its_library(caller, tmp_path):
    "A module that stands in for CPython's build, which is not Debian's: what it is given is what that one needs."
    folder = PUBLIC / f"python-{caller.name}"
    (folder / "lib/python3.13").mkdir(parents=True)
    (folder / "lib/python3.13/os.py").write_text("the library")
    (tmp_path / "python.c").write_text(PYTHON)
    subprocess.run(["clang", "--target=wasm32-wasi", "-O1", "-w", tmp_path / "python.c", "-o", folder / "python.wasm"], check=True, timeout=120)
    env = {"HOME": "/", "PATH": os.environ["PATH"], "BRIG_WASM_PYTHON": str(folder / "python.wasm")}
    done = caller.run("-q", "--lang", "python", "-", "--", "word", input="print(1)", env=env)
    assert done.stdout == "python - word|print(1)|home|the library\n", done
    shutil.rmtree(folder / "lib")
    assert caller.run("-q", "--lang", "py", input="x", env=env).stdout == "python - |x|no home|no library\n"
    wrong = caller.run("--lang", "python", input="x", env={**env, "BRIG_WASM_PYTHON": "/no/such.wasm"})
    assert wrong.returncode == 127 and "BRIG_WASM_PYTHON" in wrong.stderr, wrong


def test_doctor_names_the_modules():
    told = json.loads(subprocess.run([PUBLIC / "brig", "doctor", "--json"], capture_output=True, timeout=60).stdout)
    assert [one["language"] for one in told["languages"]] == ["javascript", "python"]
    if MODULE.exists():
        assert told["languages"][0]["module"] == str(MODULE)
    assert "Languages" in subprocess.run([PUBLIC / "brig", "doctor"], capture_output=True, text=True, timeout=60).stdout
