"""The wasm tier: a module runs as a program would, gets what it was given and nothing else, and ends with the right verdict.

The W rows of the attack list: W-01 paths, W-02 links, W-03 rights, W-04 descriptors, W-05 memory, W-06 poll, W-07 host memory,
W-08 modules that are hostile before their first instruction, W-09 imports, W-10 executable memory. BRIG names the program under test.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/lib"))
import poollib  # noqa: E402
from test_terminal import Terminal  # noqa: E402
from users import USER_ID  # noqa: E402

BRIG = os.environ.get("BRIG", str(TOP / "build" / "brig"))
SOURCES = Path(__file__).parent / "wasm"
WASI = ["clang", "--target=wasm32-wasi", "-O1", "-w"]
NOTCAPABLE, ROFS, FAULT, INVAL, BADF, NOTSUP = "76", "69", "21", "28", "8", "58"


def brig(*args, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    if "input" in kwargs:
        del kwargs["stdin"]
    return subprocess.run([BRIG, *map(str, args)], capture_output=True, text=True, timeout=120, **kwargs)


def wasm(*args, **kwargs):
    return brig("run", "--tier", "wasm", *args, **kwargs)


def report(*args):
    result = wasm("--json", *args)
    assert result.stdout, result
    return json.loads(result.stdout)


@pytest.fixture(scope="module", autouse=True)
def tier():
    tiers = {t["tier"]: t for t in json.loads(brig("doctor", "--json").stdout)["tiers"]}
    if not tiers["wasm"]["available"]:
        pytest.skip(f"no wasm tier here: {tiers['wasm']['why']}")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    folder.chmod(0o755)
    for command in ([*WASI, "-x", "c", SOURCES / "attack.wasi", "-o", folder / "attack.wasm"],
                    *([*WASI, SOURCES / f"{name}.c", "-o", folder / f"{name}.wasm"] for name in ("files", "edges", "terminal", "sockets")),
                    *(["cc", "-O1", "-w", SOURCES / f"{name}.c", "-o", folder / name] for name in ("files", "edges"))):
        subprocess.run(list(map(str, command)), check=True, timeout=120)
    return folder


# ---- modules by hand ----

def number(value):
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def vector(items):
    return number(len(items)) + b"".join(items)


def section(which, body):
    return bytes([which]) + number(len(body)) + body


def name(text):
    return number(len(text.encode())) + text.encode()


def module(*, imports=(), functions=None, code=b"\x0b", types=(b"\x60\x00\x00",), start="_start", memory=True):
    out = b"\0asm\1\0\0\0" + section(1, vector(list(types)))
    if imports:
        out += section(2, vector(list(imports)))
    functions = len(imports) if functions is None else functions
    out += section(3, vector([b"\0"]))
    if memory:
        out += section(5, vector([b"\0\1"]))
    exports = [name(start) + b"\0" + number(functions)]
    if memory:
        exports.append(name("memory") + b"\2\0")
    body = b"\0" + code
    return out + section(7, vector(exports)) + section(10, vector([number(len(body)) + body]))


def function(where, what, kind=0):
    return name(where) + name(what) + b"\0" + bytes([kind])


def written(folder, data):
    path = folder / "hand.wasm"
    path.write_bytes(data)
    return path


# ---- what it is for ----

@pytest.mark.parametrize("options", [[], ["--noexec"]], ids=["compiled", "interpreted"])
def test_a_module_does_what_the_program_does(built, tmp_path, options):
    native, inside = tmp_path / "native", tmp_path / "inside"
    for folder in (native, inside):
        folder.mkdir()
        folder.chmod(0o777)
    want = subprocess.run([built / "files", native, "one", "two words"], input="first\nsecond\n", capture_output=True, text=True,
                          timeout=60, env={"FOR_THE_MODULE": "a value"})
    got = wasm("-q", *options, "--rw", f"{inside}:/out", "-e", "FOR_THE_MODULE=a value", "--", built / "files.wasm", "/out", "one", "two words",
               input="first\nsecond\n")
    assert (got.returncode, got.stdout, got.stderr) == (want.returncode, want.stdout, want.stderr)
    assert sorted(p.name for p in inside.rglob("*")) == sorted(p.name for p in native.rglob("*"))


# The workspace alone: the kernel resolves (openat2). With a folder of the host's that can be written the runner walks.
@pytest.mark.parametrize("place", ["workspace", "grant"])
def test_calls_say_at_their_edges_what_the_kernel_says(built, tmp_path, place):
    """Names that end with a slash or a dot, renaming onto things, links, sizes and places, times, a folder that is emptied while it is read, poll."""
    for folder in (tmp_path / "native", tmp_path / "inside"):
        folder.mkdir()
        folder.chmod(0o777)
    want = subprocess.run([built / "edges", tmp_path / "native"], input="input\n", capture_output=True, text=True, timeout=60)
    options, where = ([], ".") if place == "workspace" else (["--rw", f"{tmp_path}/inside:/out"], "/out")
    got = wasm("-q", *options, "--", built / "edges.wasm", where, input="input\n")
    assert want.returncode == 0 and "removed 3000\nleft 2\n" in want.stdout, want
    assert (got.returncode, got.stdout.splitlines()) == (0, want.stdout.splitlines()), got.stderr


BZIP2 = "pool/main/b/bzip2/bzip2_1.0.8.orig.tar.gz", "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269"


@pytest.fixture(scope="module")
def bzip2(tmp_path_factory):
    """A program of others', of the source that Debian has: for the host and, with nothing changed but calls that WASI has not, as a module."""
    folder = tmp_path_factory.mktemp("bzip2")
    subprocess.run(["tar", "-xf", poollib.fetched(*BZIP2), "-C", folder, "--strip-components=1"], check=True, timeout=60)
    sources = [folder / f"{name}.c" for name in "bzip2 blocksort huffman crctable randtable compress decompress bzlib".split()]
    (folder / "native").mkdir()
    missing = [f"-D{call}=0" for call in ("fchmod(a,b)", "fchown(a,b,c)", "chmod(a,b)", "chown(a,b,c)")]
    emulated = ["-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_PROCESS_CLOCKS", "-lwasi-emulated-signal", "-lwasi-emulated-process-clocks"]
    # Under one name, which it says with each message.
    subprocess.run(["cc", "-O1", "-w", *sources, "-o", folder / "native/bzip2.wasm"], check=True, timeout=120)
    subprocess.run([*WASI, *missing, *sources, *emulated, "-o", folder / "bzip2.wasm"], check=True, timeout=120)
    return folder


def test_bzip2_does_as_a_module_what_it_does_natively(bzip2, tmp_path):
    """What comes from a pipe and what lies in files, packed, unpacked and looked at, and each way to fail."""
    native, inside = tmp_path / "native", tmp_path / "inside"
    samples = {path.name: path.read_bytes() for path in bzip2.glob("sample?.*")}
    assert len(samples) == 6
    for folder in (native, inside):
        folder.mkdir()
        folder.chmod(0o777)
        for name, data in {**samples, "plain": b"not packed", "cut.bz2": samples["sample2.bz2"][:1000]}.items():
            (folder / name).write_bytes(data)

    def both(*words, data=b""):
        told = []
        for folder, command in ((native, [bzip2 / "native/bzip2.wasm"]),
                                (inside, [BRIG, "run", "-q", "--tier", "wasm", "--rw", f"{inside}:/o", "--", bzip2 / "bzip2.wasm"])):
            where = native if folder == native else Path("/o")
            run = subprocess.run([*command, *(word.format(o=where) for word in words)], input=data, capture_output=True, timeout=120, check=False)
            told.append((run.returncode, run.stdout, run.stderr.replace(str(native).encode(), b"/o"), {p.name: p.read_bytes() for p in folder.iterdir()}))
        return told

    for number, level in (("1", "-1"), ("2", "-2"), ("3", "-3")):
        plain, packed = samples[f"sample{number}.ref"], samples[f"sample{number}.bz2"]
        for want, got in (both(level, data=plain), both("-d", data=packed)):
            assert got == want and got[0] == 0
            assert got[1] in (packed, plain), "and what its authors say"
    for words in (("-kv", "-9", "{o}/sample1.ref"), ("-k", "{o}/sample1.ref"), ("-tvv", "{o}/sample2.bz2", "{o}/plain"), ("-df", "{o}/sample3.bz2"),
                  ("-s", "{o}/sample2.ref"), ("-d", "{o}/nothing.bz2"), ("{o}",)):
        want, got = both(*words)
        assert got == want, words
    want, got = both("-d", "{o}/cut.bz2")
    assert (got[0], got[3]) == (want[0], want[3]) and got[0] == 2, "its message has an errno that nothing set"


def test_a_terminal_is_one_to_a_module(built):
    """A pipe is none."""
    t = Terminal([BRIG, "run", "-q", "-t", "--tier", "wasm", "--", str(built / "terminal.wasm")])
    try:
        t.until("1 1 1\r")
        t.type("an answer\n")
        t.until("got an answer\r")
        assert t.wait() == 0
    finally:
        t.close()
    assert wasm("-q", "--", built / "terminal.wasm", input="x\n").stdout == "0 0 0\ngot x\n"


def test_the_workspace_is_where_a_module_starts(built):
    result = wasm("--", built / "files.wasm", ".")
    assert result.returncode == 7 and "500 entries" in result.stdout, result
    assert wasm("--", built / "files.wasm", "/workspace").returncode == 7


def test_results_and_receipts_are_as_on_other_tiers(built):
    result = report("--", built / "files.wasm", ".")
    assert (result["tier"], result["exit_code"], result["signal"]) == ("wasm", 7, None)
    kernel = result["receipt"]["boundaries"]["kernel"]
    assert kernel["engine"] == "brig-wasm" and kernel["capabilities"] == 0
    assert result["stderr"] == "to the other stream\n"


def test_an_ordinary_user_has_it_too(built, tmp_path):
    if os.geteuid():
        pytest.skip("every test here is an ordinary user's already")
    folder = Path(tempfile.mkdtemp(prefix="test-wasm-"))
    try:
        for name in (Path(BRIG).name, "brig-wasm"):
            shutil.copy(Path(BRIG).parent / name, folder)
        shutil.copy(built / "files.wasm", folder)
        (folder / "out").mkdir()
        for path in (folder, folder / "out"):
            os.chown(path, USER_ID, USER_ID)
        result = subprocess.run([folder / Path(BRIG).name, "run", "-q", "--tier", "wasm", "--rw", f"{folder}/out:/out", "--", folder / "files.wasm",
                                 "/out"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, cwd="/", user=USER_ID, group=USER_ID,
                                extra_groups=[], env={"HOME": str(folder), "PATH": os.environ["PATH"]})
        assert result.returncode == 7 and "500 entries" in result.stdout, result
        assert (folder / "out/sub/two").stat().st_uid == USER_ID
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---- without namespaces ----

def test_in_the_process_tiers_walls_a_module_does_the_same(built):
    """As an ordinary user who may make no namespace: with compiled code, interpreted, and with the verdicts of every tier."""
    folder = Path(tempfile.mkdtemp(prefix="test-wasm-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        for path in (Path(BRIG), Path(BRIG).parent / "brig-wasm", built / "files.wasm", built / "attack.wasm"):
            shutil.copy(path, folder / path.name)
        (folder / "out").mkdir()
        for path in (folder, folder / "out"):
            os.chown(path, USER_ID, USER_ID)

        def run(tier, *args):
            words = [folder / Path(BRIG).name, "run", "--json", "--tier", tier, "--sampling", "accept", *args]
            script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@"'
            told = subprocess.run(["unshare", "-U", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh", *map(str, words)], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=120, cwd="/", user=USER_ID, group=USER_ID, extra_groups=[],
                                  env={"HOME": str(folder), "PATH": os.environ["PATH"]})
            if "unshare" in told.stderr:
                pytest.skip("no user namespace to try it in: " + told.stderr)
            return json.loads(told.stdout)

        refused = run("wasm", "--", folder / "files.wasm", ".")
        assert "is not available" in refused["error"]["message"] and "--tier wasm-process" in refused["error"]["hint"], "control: there are no namespaces"
        for options in ([], ["--noexec"]):
            told = run("wasm-process", *options, "--rw", f"{folder}/out", "--", folder / "files.wasm", f"{folder}/out")
            assert told["exit_code"] == 7 and "500 entries" in told["stdout"] and (folder / "out/link").is_symlink(), told
            for path in (folder / "out").iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert run("wasm-process", "--", folder / "files.wasm", "/workspace")["exit_code"] == 7
        assert run("wasm-process", "--timeout", "1s", "--", folder / "attack.wasm", "loop")["limit_hit"] == "timeout"
        assert run("wasm-process", "-m", "96M", "--", folder / "attack.wasm", "grow")["limit_hit"] == "memory"
        assert run("wasm-process", "--", folder / "attack.wasm", "trap")["signal"] == 6
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_without_its_runner_the_tier_says_what_to_install(tmp_path):
    shutil.copy(BRIG, tmp_path / "brig")
    found = json.loads(subprocess.run([tmp_path / "brig", "doctor", "--json"], capture_output=True, timeout=60).stdout)
    wasm_tier = next(t for t in found["tiers"] if t["tier"] == "wasm")
    assert not wasm_tier["available"] and "libjavascriptcoregtk-4.1-dev" in wasm_tier["how"]
    refused = subprocess.run([tmp_path / "brig", "run", "--tier", "wasm", "--", "x.wasm"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 125 and "libjavascriptcoregtk" in refused.stderr, refused


def test_variables_of_a_module_do_not_reach_its_runner(built):
    """A loader would obey LD_PRELOAD, and say so; the module sees it, and nothing of the runner's."""
    result = wasm("-q", "-e", "LD_PRELOAD=/no/such.so", "-e", "FOR_THE_MODULE=x", "--", built / "files.wasm", ".")
    assert result.returncode == 7 and "variable x\n" in result.stdout
    assert "preload" not in result.stderr.lower()
    control = brig("run", "-q", "-e", "LD_PRELOAD=/no/such.so", "--", "true")
    assert "preload" in control.stderr.lower(), control


# ---- verdicts ----

def test_a_trap_is_an_abort(built):
    result = report("--", built / "attack.wasm", "trap")
    assert result["signal"] == 6 and "trapped" in result["stderr"], result


@pytest.mark.parametrize("options", [[], ["--noexec"]], ids=["compiled", "interpreted"])
def test_a_signal_that_a_module_raises_is_its_end(built, options):
    """By the signals' own numbers, which are WASI's too where they end a program. What is ignored without a handler is here as well."""
    for number in (signal.SIGHUP, signal.SIGABRT, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV, signal.SIGTERM):
        told = report(*options, "--", built / "attack.wasm", "raise", int(number))
        assert (told["signal"], told["exit_code"], told["stdout"]) == (number, None, ""), told
    for number, want in ((0, "0"), (16, "0"), (17, "0"), (18, NOTSUP), (21, NOTSUP), (22, "0"), (31, INVAL), (2**32 - 1, INVAL)):
        told = report(*options, "--", built / "attack.wasm", "raise", number)
        assert (told["exit_code"], told["stdout"]) == (0, f"raised {want}\n"), (number, told)


def test_a_stack_that_overflows_is_said(tmp_path):
    result = report("--", written(tmp_path, module(code=b"\x10\0\x0b")))
    assert result["signal"] == 11 and "stack" in result["stderr"], result


@pytest.mark.parametrize("options, verdict", [(["--timeout", "1s"], "timeout"), (["--cpu-time", "1s"], "cpu_time")])
def test_an_endless_loop_is_ended(built, options, verdict):
    assert report(*options, "--", built / "attack.wasm", "loop")["limit_hit"] == verdict


def test_a_module_that_sleeps_is_ended(built):
    assert report("--timeout", "1s", "--", built / "attack.wasm", "sleep")["timed_out"]


def test_memory_that_grows_is_ended_by_the_limit(built):
    result = report("-m", "96M", "--sampling", "accept", "--", built / "attack.wasm", "grow")
    assert result["oom_killed"] and result["limit_hit"] == "memory", result


def test_w06_poll(built):
    assert "poll none 28" in wasm("--", built / "attack.wasm", "memory").stdout


SOCKET_CALLS = ["sock_accept", "sock_recv", "sock_send", "sock_shutdown"]


@pytest.mark.parametrize("options", [[], ["--noexec"]], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("tier", ["wasm", "wasm-process"])
def test_w06_sockets_are_denied_by_name(built, tier, options):
    """Each call that was tried is one denial, with its count, wherever denials are told; to the module no descriptor is a socket."""
    with tempfile.TemporaryDirectory(prefix="test-wasm-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(built / "sockets.wasm", folder)
        command = ["run", "--tier", tier, "--sampling", "accept", *options]
        told, control = (json.loads(brig(*command, "--json", "--", program, what).stdout) for what in ("sockets", "none"))
        lines = brig(*command, "--", program, "sockets").stderr
    assert told["stdout"] == f"57 57 57 57\n57 57 57 57\n{' '.join([BADF] * 4)}\ndone\n" and told["exit_code"] == 0, told
    denials = [d for d in told["denials"] if d["boundary"] == "network"]
    assert sorted((d["what"], d["count"]) for d in denials) == [(call, 3) for call in SOCKET_CALLS], told
    for denial in denials:
        assert denial["rule"] == "kernel.tier: a module has no sockets" and "--tier container --allow" in denial["hint"], denial
    assert told["receipt"]["decisions"]["denials"] == told["denials"]
    for call in SOCKET_CALLS:
        assert lines.count(f"denied: network: {call} (3 times): kernel.tier: a module has no sockets; ") == 1, lines
    # The engine's own threads ask for another priority, where pids are the host's.
    assert control["stdout"] == "done\n" and not [d for d in control["denials"] if d["boundary"] == "network"], "the control: who uses none"


# ---- what is refused before anything runs ----

def test_w09_imports_beyond_wasi_are_named(tmp_path):
    for item in [("env", "system"), ("wasi_snapshot_preview1", "__proto__"), ("wasi_snapshot_preview1", "constructor"),
                 ("wasi_snapshot_preview1", "toString"), ("__proto__", "fd_write"), ("wasi_unstable", "system"), ("wasi_unstable", "__proto__")]:
        result = wasm("-q", "--", written(tmp_path, module(imports=[function(*item)])))
        assert result.returncode == 126 and json.dumps(item[1]) in result.stderr, (item, result)
    states = ["wasi_snapshot_preview1", "wasi_unstable"]
    for first, second in (states, states[::-1]):
        both = wasm("-q", "--", written(tmp_path, module(imports=[function(first, "fd_write"), function(second, "fd_read")])))
        assert both.returncode == 126 and f'"{second}" "fd_read"' in both.stderr and f"not of {first}" in both.stderr, both
        assert wasm("-q", "--", written(tmp_path, module(imports=[function(first, "fd_write"), function(first, "fd_read")]))).returncode == 0, "control"
    for kind, tail in [("memory", b"\2\0\1"), ("global", b"\3\x7f\0"), ("table", b"\1\x70\0\1")]:
        data = module(imports=[name("wasi_snapshot_preview1") + name("fd_write") + tail], functions=0, memory=kind != "memory")
        result = wasm("-q", "--", written(tmp_path, data))
        assert result.returncode == 126 and kind in result.stderr, result


def test_w09_a_call_under_a_wrong_type_is_an_error_of_the_module(tmp_path):
    """fd_write that takes nothing and gives nothing: called, refused with a number that nobody reads."""
    data = module(imports=[function("wasi_snapshot_preview1", "fd_write")], code=b"\x10\0\x0b")
    assert wasm("--", written(tmp_path, data)).returncode == 0


@pytest.mark.parametrize("what", ["empty", "text", "truncated", "library", "nesting", "locals", "table", "no memory"])
def test_w08_hostile_modules_end_with_a_sentence(built, tmp_path, what):
    good = (built / "attack.wasm").read_bytes()
    data = {"empty": b"", "text": b"#!/bin/sh\necho hello\n", "truncated": good[:len(good) // 2],
            "library": module(start="other"), "nesting": module(code=b"\x02\x40" * 200000 + b"\x0b" * 200001),
            "locals": module().replace(b"\x0a\x04\x01\x02\x00\x0b", section(10, vector([number(8) + b"\1\xff\xff\xff\xff\x0f\x7f\x0b"]))),
            "table": b"\0asm\1\0\0\0" + section(4, vector([b"\x70\0" + number(2**32 - 1)])),
            "no memory": module(imports=[function("wasi_snapshot_preview1", "fd_write")], code=b"\x0b", memory=False)}[what]
    result = wasm("-q", "--timeout", "30s", "--", written(tmp_path, data))
    if what == "no memory":
        assert result.returncode == 0, result
    elif what == "nesting":
        assert result.returncode in (0, 126, 137), result
    else:
        assert result.returncode == 126 and result.stderr.startswith("brig-wasm: "), result


def test_w08_a_million_functions_count_to_the_limits(tmp_path):
    count = 1000000
    data = b"\0asm\1\0\0\0" + section(1, vector([b"\x60\0\0"])) + section(3, number(count) + b"\0" * count)
    data += section(7, vector([name("_start") + b"\0\0"])) + section(10, number(count) + b"\2\0\x0b" * count)
    result = wasm("-q", "--timeout", "20s", "-m", "256M", "--sampling", "accept", "--", written(tmp_path, data))
    assert result.returncode in (0, 124, 126, 137), result


@pytest.mark.parametrize("options, words", [(["--allow", "example.org"], "no sockets"), (["--root", "/usr"], "no root"),
                                            (["--lang", "ruby"], "no module runs ruby")])
def test_what_a_module_cannot_have_is_refused(built, options, words):
    result = wasm(*options, *([] if "--lang" in options else ["--", built / "attack.wasm"]))
    assert result.returncode == 125 and words in result.stderr, result


def test_a_module_that_is_not_there_is_said():
    result = wasm("--", "/no/such.wasm")
    assert result.returncode == 127 and "no/such.wasm" in result.stderr, result


def test_a_module_is_reached_through_no_link_that_a_sandbox_may_have_made(tmp_path):
    """What a sandbox planted in a folder of its own would else show a file that nobody granted to the next one."""
    shared, outside = tmp_path / "shared", tmp_path / "outside"
    for folder in (shared, outside):
        folder.mkdir()
    shared.chmod(0o777)
    target = outside / "other.wasm"
    target.write_bytes(module())
    plant = f"ln -s {target} /s/file.wasm && ln -s {outside} /s/folder && ln -s /dev/null /s/device"
    planted = brig("run", "-q", "--rw", f"{shared}:/s", "--", "sh", "-c", plant)
    assert planted.returncode == 0, planted
    # The control: the links lead to a module that runs, and so does a plain file beside them.
    assert (shared / "file.wasm").read_bytes() == (shared / "folder" / "other.wasm").read_bytes() == target.read_bytes()
    (shared / "plain.wasm").write_bytes(target.read_bytes())
    for good in (target, shared / "plain.wasm", "plain.wasm", "./../shared/plain.wasm"):
        result = wasm("-q", "--", good, cwd=shared)
        assert result.returncode == 0, (good, result)
    for bad in (shared / "file.wasm", shared / "folder" / "other.wasm", "file.wasm", "./folder/other.wasm", "device"):
        result = wasm("--", bad, cwd=shared)
        assert result.returncode == 125 and "is a link" in result.stderr, (bad, result)
    assert str(target) in wasm("--", "file.wasm", cwd=shared).stderr


@pytest.mark.parametrize("tier", ["wasm", "wasm-process"])
def test_wasm_is_no_part_of_a_wish(tmp_path, tier):
    (tmp_path / "p.yaml").write_text(f"kernel: {{tier: [{tier}, container]}}\n")
    assert brig("policy", "check", tmp_path / "p.yaml").returncode == 125


# ---- a module that attacks ----

@pytest.fixture
def scene(tmp_path):
    """A folder to give, with what leads out of it, and a flag beside it."""
    given, other = tmp_path / "given", tmp_path / "other"
    (given / "sub").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "flag").write_text("FLAG\n")
    (given / "inside").write_text("inside\n")
    for link, target in [("absolute", tmp_path / "flag"), ("climbing", "../flag"), ("chain", "climbing"), ("inner", "inside"),
                         ("dangling", "../made-outside"), ("link", "sub")]:
        (given / link).symlink_to(target)
    for path in (tmp_path, given, given / "sub", other):
        path.chmod(0o777)
    (given / "inside").chmod(0o666)
    return tmp_path


def attack(built, what, *grants):
    result = wasm("-q", *grants, "--", built / "attack.wasm", what)
    assert result.returncode == 0, result
    return result.stdout


# Read-only grants alone: the kernel resolves (openat2). With one that can be written the filter has no openat2, and the runner walks.
@pytest.fixture(params=["kernel", "walk"])
def grants(request, scene):
    return ["--ro", f"{scene}/given:/given"] + (["--rw", f"{scene}/other:/other"] if request.param == "walk" else [])


def test_w01_paths_stay_below_their_folder(built, scene, grants):
    assert (scene / "given/../flag").read_text() == "FLAG\n", "control: the path leads there for others"
    out = attack(built, "paths", *grants)
    assert "control 0" in out and "READ inside" in out and "FLAG" not in out
    escapes = [line for line in out.splitlines() if ".." in line or "/etc" in line]
    assert len(escapes) == 22 and all(line.endswith(f" {NOTCAPABLE}") for line in escapes), out


def test_w02_links_stay_below_their_folder(built, scene, grants):
    assert (scene / "given/chain").read_text() == "FLAG\n", "control: the link leads there for others"
    out = attack(built, "links", *grants)
    assert "READ inside" in out and "FLAG" not in out and "root:" not in out
    for link in ("absolute", "climbing", "chain"):
        assert f"link {link} 1 {NOTCAPABLE}" in out, out
    assert not (scene / "made-outside").exists()


def test_w02_links_that_a_module_makes_lead_nowhere(built, scene):
    out = attack(built, "links", "--rw", f"{scene}/given:/given")
    assert f"make absolute {NOTCAPABLE}" in out and "make climbing 0" in out and f"use climbing {NOTCAPABLE}" in out, out
    assert "FLAG" not in out and not (scene / "made-outside").exists()


# The engine stops the thread by a signal while it compiles; four at once, so that they are also held up everywhere.
def test_calls_that_fail_say_why_while_the_engine_compiles(built, scene):
    command = (BRIG, "run", "--tier", "wasm", "-q", "--rw", f"{scene}/given:/given", "--", built / "attack.wasm", "errors")
    runs = [subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for run in runs:
        out, _ = run.communicate(timeout=120)
        assert run.returncode == 0 and out.splitlines()[:-1] == ["error 44: 300000"], out


def test_w03_rights_only_shrink(built, scene):
    out = attack(built, "rights", "--ro", f"{scene}/given:/given", "--rw", f"{scene}/other:/other")
    tries = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert tries.pop("control") == "0" and (scene / "other/new").exists()
    assert len(tries) == 7 and "0" not in tries.values(), out
    assert {name for name, why in tries.items() if why == ROFS} >= {"create in ro", "link ro to rw", "rename ro to rw"}, "as a program is told"
    assert (scene / "given/inside").read_text() == "inside\n" and not (scene / "given/new").exists()
    assert [p.name for p in (scene / "other").iterdir()] == ["new"]


def test_w04_only_descriptors_of_its_own(built, scene, grants):
    out = attack(built, "table", *grants)
    assert "FOREIGN" not in out
    for line in ("self 0", f"onto closed {BADF}", "onto grant 58", "grant away 58", f"huge {BADF} {BADF}", f"close 0 again {BADF}",
                 "onto stdin 0", "socket 57", f"close grant 0 then {BADF}"):
        assert line in out, out


def test_w05_nothing_outside_of_its_memory(built, scene, grants):
    out = attack(built, "memory", *grants)
    tries = dict(line.rsplit(" ", 1) for line in out.splitlines())
    assert tries.pop("control") == "0"
    assert len(tries) == 12 and set(tries.values()) == {FAULT, INVAL}, out


POLLED = """long ago 0: 1 0 0;
long ago by the wall 0: 2 0 0;
no such clock 0: 3 28 0;
no such flag 0: 4 28 0;
no such kind 28:
twice, and never 0: 6 0 1; 6 0 1;
closed 0: 6 8 1; 6 8 1;
huge 0: 9 8 2;
too many 28 28
over each other 0 512
"""


def test_w06_waiting_is_bounded_and_tells_the_right_events(built, scene, grants):
    assert attack(built, "polls", *grants) == POLLED
    assert report("--timeout", "1s", "--", built / "attack.wasm", "ever")["limit_hit"] == "timeout"


def test_w07_descriptors_are_counted(built, scene, grants):
    """Of files, and of folders that are being read, which take two of the host's."""
    assert re.fullmatch(r"folders \d+, read (0|33)\ndescriptors 5\d\d then 33\n", attack(built, "hoard", *grants))


def runner_of(pid):
    """The process below `pid` that has the module open as its first argument."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and b"/.brig-module" in (entry / "cmdline").read_bytes():
                    parent = entry
                    while parent.name != "0":
                        status = (parent / "status").read_text()
                        up = re.search(r"^PPid:\s*(\d+)", status, re.M).group(1)
                        if up == str(pid):
                            return entry
                        parent = Path("/proc") / up
            except (OSError, AttributeError):
                continue
    raise AssertionError("the runner did not appear")


def executable(entry):
    return [line for line in (entry / "maps").read_text().splitlines() if "x" in line.split()[1] and ("w" in line.split()[1] or len(line.split()) < 6)]


@pytest.mark.parametrize("options, some", [([], True), (["--noexec"], False)], ids=["control", "noexec"])
def test_w10_no_executable_memory_where_the_policy_says_so(built, options, some):
    """`loop` runs, so that an engine that compiles has done so."""
    run = subprocess.Popen([BRIG, "run", "-q", "--tier", "wasm", *options, "--timeout", "60s", "--", built / "attack.wasm", "loop"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        entry = runner_of(run.pid)
        end = time.monotonic() + 60
        while int((entry / "stat").read_text().rsplit(")", 1)[1].split()[11]) < 30 and time.monotonic() < end:
            time.sleep(0.02)  # until it has used 0.3 s of CPU: the module runs by then
        assert bool(executable(entry)) == some, executable(entry)
        status = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
        assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapPrm"], 16), int(status["CapBnd"], 16)) == ("2", "1", 0, 0), \
            "who breaks the engine is where any code of the container tier is"
    finally:
        run.terminate()
        run.wait(timeout=60)


def test_w10_interpreted_modules_still_run(built):
    assert wasm("--noexec", "--", built / "attack.wasm", "sum").stdout == wasm("--", built / "attack.wasm", "sum").stdout
