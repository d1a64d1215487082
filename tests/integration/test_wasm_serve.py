"""Sandboxes of `brig serve` on the wasm tier: a module that was compiled before anybody asked runs cells of JavaScript, over MCP and as
E2B's clients do; files work; what a module cannot have is refused with words."""
import json
import shutil
import subprocess
import time

import pytest
from helpers import TOP
from daemonlib import USERS, Daemon, parent, program, wait_for
from mcplib import Http, tool


SOCKET_CALLS = ["sock_accept", "sock_recv", "sock_send", "sock_shutdown"]
TEMPLATES = {"wasm.yaml": "policy: {kernel: {tier: wasm}, lifecycle: {sampling: accept}, credentials: {env: {GIVEN: by template}}}\n"
                          "interpreter: javascript\npool: {min: 1, max: 2}\n",
             "small.yaml": "policy: {kernel: {tier: wasm}, lifecycle: {sampling: accept, memory: 192M}}\npool: {min: 0, max: 0}\n"}


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    told = json.loads(subprocess.run([program(), "doctor", "--json"], capture_output=True, timeout=60).stdout)
    found = next(t for t in told["tiers"] if t["tier"] == "wasm")
    if not found["available"]:
        pytest.skip(f"no wasm tier here: {found['why']}")
    if not told["languages"][0]["available"]:
        pytest.skip(f"no QuickJS here: {told['languages'][0]['why']}")
    with Daemon(request.param, templates=TEMPLATES) as started:
        yield started
        wait_for(lambda: not started.live(), 60, "no sandbox is left over")
        assert started.process.poll() is None


@pytest.fixture
def box(daemon):
    made = daemon.create("wasm", timeout=300)
    yield made
    daemon.request("DELETE", f"/sandboxes/{made.id}")


def told(answer):
    result = answer.json["result"]
    return result["structuredContent"]


def run_code(daemon, code, **more):
    return told(Http(daemon).post(tool("run_code", {"code": code, "language": "javascript", **({} if "session_id" in more else {"template": "wasm"}), **more})))


def execute(box, code, **more):
    """The lines of an answer, as E2B's clients read them."""
    answer = box.request("POST", "/execute", {"code": code, "language": "javascript", **more}, port=49999)
    assert answer.status == 200, answer
    return [json.loads(line) for line in answer.body.splitlines() if line.strip()]


def text(lines):
    return next((line["text"] for line in lines if line["type"] == "result"), None)


def out(lines):
    return "".join(line["text"] for line in lines if line["type"] == "stdout")


def test_code_over_mcp(daemon):
    done = run_code(daemon, "console.log(6*7); ({a: [1, 2]})")
    assert done["ok"] and done["stdout"] == "42\n" and done["results"][0]["json"] == {"a": [1, 2]}, done
    failed = run_code(daemon, "function f() { throw new TypeError('no') }\nf()")
    assert not failed["ok"] and failed["exception"]["name"] == "TypeError" and "at f (cell[1]" in failed["exception"]["traceback"], failed
    assert run_code(daemon, "std.getenv('GIVEN') + std.getenv('ASKED')", env={"ASKED": "!"})["result"] == "by template!"


def test_a_context_keeps_what_was_declared(daemon, box):
    assert text(execute(box, "const x = 40; let y = 2; class K {}; x + y")) == "42"
    assert text(execute(box, "const x = 1; y += x; [x, y, K.name]")) == "[ 1, 3, 'K' ]"
    assert out(execute(box, "for (const n of [1, 2]) console.log(n)")) == "1\n2\n"
    assert text(execute(box, "await new Promise((r) => setTimeout(() => r('waited'), 5))")) == "waited"
    other = box.request("POST", "/contexts", {"language": "javascript", "cwd": "/workspace"}, port=49999)
    assert other.status in (200, 201), other
    assert text(execute(box, "typeof x + os.getcwd()[0]", context_id=other.json["id"], language=None)) == "undefined/workspace"


def test_what_was_compiled_before_is_what_answers(daemon):
    """The module of a sandbox that waits is up before the request; its process is the one that runs the cell."""
    def waiting():
        return {pid for pid, name in daemon.children().items() if name == ".brig-tool"}
    wait_for(lambda: waiting() - {0}, 60, "a sandbox waits")
    before = waiting()
    done = daemon.create("wasm")
    try:
        assert text(execute(done, "1 + 1")) == "2"
        after = waiting()
        mine = {pid for pid in before & after}
        assert mine, "control: nothing that was there before is left"
        # It was claimed, and not started: no process of this sandbox is younger than the request.
        assert text(execute(done, "2 + 2")) == "4" and mine <= waiting()
    finally:
        daemon.request("DELETE", f"/sandboxes/{done.id}")


def test_a_request_may_ask_for_the_tier(daemon):
    """Of a template with another interpreter, which is then not there: it is stricter, and no other language's module is put in its place."""
    made = daemon.create("python", policy="kernel: {tier: wasm}\nlifecycle: {sampling: accept}\n")
    try:
        assert text(execute(made, "6 * 7")) == "42"
        refused = made.request("POST", "/execute", {"code": "1", "language": "python"}, port=49999).body
        assert b"wasm" in refused and b"python" in refused, refused
    finally:
        daemon.request("DELETE", f"/sandboxes/{made.id}")


def test_files_that_are_sent_are_what_the_code_sees(daemon, box):
    sent = box.request("POST", "/files?path=data.txt", b"hello", headers={"Content-Type": "application/octet-stream"})
    assert sent.status == 200, sent
    assert text(execute(box, "std.loadFile('data.txt') + std.loadFile('/home/user/data.txt')")) == "hellohello"
    execute(box, "std.writeFile('made', 'by code'); os.mkdir('/workspace/sub')")
    assert box.request("GET", "/files?path=made").body == b"by code"
    assert text(execute(box, "[std.loadFile('/etc/passwd'), std.loadFile('../../etc/passwd'), std.loadFile('/proc/self/environ')]")) == "[ null, null, null ]"


def test_a_cell_is_interrupted_and_the_context_stays(daemon):
    session = told(Http(daemon).post(tool("create_session", {"template": "wasm"})))["session_id"]
    try:
        assert run_code(daemon, "const kept = 7; kept", session_id=session)["result"] == "7"
        began = time.monotonic()
        assert run_code(daemon, "for (;;) ;", session_id=session, timeout_ms=500)["timed_out"] and time.monotonic() - began < 30
        assert run_code(daemon, "kept", session_id=session)["result"] == "7"
    finally:
        Http(daemon).post(tool("destroy_session", {"session_id": session}))


@pytest.mark.parametrize("ask, words", [
    (lambda box: box.run("ls").error, "commands"), (lambda box: box.request("GET", "/", port=8000).body.decode(), "ports"),
    (lambda box: str(execute_as(box, "python")), "python"), (lambda box: str(execute_as(box, "bash")), "bash")],
    ids=["command", "port", "python", "bash"])
def test_what_a_module_cannot_have_is_refused_with_words(daemon, box, ask, words):
    said = str(ask(box))
    assert words in said and "wasm" in said, said
    assert text(execute(box, "'alive'")) == "alive"


def execute_as(box, language):
    return box.request("POST", "/execute", {"code": "1", "language": language}, port=49999).body


def test_code_that_takes_all_memory_ends_its_own_sandbox_alone(daemon, box):
    greedy = daemon.create("small")
    try:
        execute(greedy, "const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))")
    except (AssertionError, OSError, ValueError):
        pass
    wait_for(lambda: greedy.id not in daemon.live() or text(execute(greedy, "1")) == "1", 60, "it is over")
    assert text(execute(box, "'alive'")) == "alive"
    daemon.request("DELETE", f"/sandboxes/{greedy.id}")


def test_a_cell_that_ends_the_module_is_told_and_the_next_one_has_a_fresh_one(daemon, box):
    lines = execute(box, "const gone = 1; std.exit(3)")
    assert any(line["type"] == "error" for line in lines), lines
    assert text(execute(box, "typeof gone")) == "undefined"


@pytest.mark.parametrize("name, template, words", [
    ("python", "policy: {kernel: {tier: wasm}}\ninterpreter: python\n", "javascript"), ("root", "policy: {kernel: {tier: wasm, root: true}}\n", "kernel.root"),
    ("network", "policy: {kernel: {tier: wasm}, network: {allow: ['example.org:443']}}\n", "no sockets"),
    ("process", "policy: {kernel: {tier: wasm-process}}\n", "wasm-process")])
def test_templates_that_cannot_work_are_refused_at_the_start(name, template, words, tmp_path):
    with pytest.raises(AssertionError, match="did not start") as refused:
        Daemon(USERS[0], templates={f"{name}.yaml": template}).close()
    assert words in str(refused.value), refused.value


def test_sockets_of_a_module_are_denied_by_name(tmp_path_factory):
    """By a module in the place of QuickJS', whose scripts cannot ask for any: each call's result names what that call tried."""
    folder = tmp_path_factory.mktemp("module")
    for path in (folder, folder.parent):
        path.chmod(0o755)
    subprocess.run(["clang", "--target=wasm32-wasi", "-O1", "-w", TOP / "tests/integration/wasm/sockets.c", "-o", folder / "sockets.wasm"],
                   check=True, timeout=120)
    with Daemon(USERS[0], templates=TEMPLATES, env={"BRIG_WASM_JAVASCRIPT": str(folder / "sockets.wasm")}) as daemon:
        mcp = Http(daemon)
        session = mcp.session(template="wasm")
        for code, calls in (("nothing", []), ("sockets", SOCKET_CALLS), ("sockets", SOCKET_CALLS), ("nothing", [])):
            done, _ = mcp.call("run_code", session_id=session, code=code, language="javascript")
            assert done["ok"] and done["stdout"] == ("57 57 57 57\n" if calls else ""), done
            assert sorted((d["what"], d["boundary"], d["count"]) for d in done["denials"]) == [(call, "network", 1) for call in calls], done
            assert all(d["rule"] == "kernel.tier: a module has no sockets" for d in done["denials"]), done
        mcp.call("destroy_session", session_id=session)


def test_without_its_module_a_sandbox_says_what_is_missing(tmp_path, monkeypatch):
    import daemonlib
    tmp_path.chmod(0o755)
    for path in daemonlib.BRIG.parent.glob("brig*"):
        if path.is_file():
            shutil.copy(path, tmp_path / path.name)
    monkeypatch.setattr(daemonlib, "_public", tmp_path)
    with Daemon(USERS[0], templates={"wasm.yaml": TEMPLATES["small.yaml"]}) as daemon:
        refused = daemon.request("POST", "/sandboxes", {"templateID": "wasm"})
        assert refused.status >= 400 and b"javascript.wasm" in refused.body, refused
