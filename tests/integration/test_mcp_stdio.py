"""`brig mcp`: lines in, lines out, and two processes that end together; as root and as an ordinary user."""
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import daemonlib
import pytest
from daemonlib import USERS, Daemon, parent, wait_for
from mcplib import MODERN, WAIT, Stdio, below, initialize, is_alive, meta, new_mark, processes, request, tool



@pytest.fixture(params=USERS)
def user(request):
    return request.param


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="test-brig-mcp-") as made:
        os.chmod(made, 0o755)
        yield Path(made) / "run"


def test_lines(user, folder):
    with Stdio(user, folder) as mcp:
        assert mcp.ask(initialize())["result"]["protocolVersion"] == "2025-11-25"
        mcp.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert mcp.ask(request("ping", id="a"))["result"] == {}
        told = mcp.ask(tool("run_code", {"code": "print(6 * 7)"}, id=2))
        assert told["result"]["structuredContent"]["stdout"] == "42\n"
        # The other era on the same lines.
        found = mcp.ask(request("server/discover", {"_meta": meta()}, id=3))["result"]
        assert found["supportedVersions"] == [MODERN]
        params = {"name": "run_code", "arguments": {"code": "1"}, "_meta": meta()}
        assert mcp.ask(request("tools/call", params, id=4))["result"]["resultType"] == "complete"
        params = {"uri": "brig://ü\n/ x", "_meta": meta()}
        assert mcp.ask(request("resources/read", params, id=5))["error"]["code"] == -32602
        assert mcp.ask(request("no/such", {"_meta": meta()}, id=6))["error"]["code"] == -32601
        own = mcp.own_folder()
        assert own.exists() and mcp.close() == 0
    assert mcp.next() is None and not own.exists()


def test_what_is_no_message(user, folder):
    with Stdio(user, folder) as mcp:
        for line, code in [(b"x", -32700), (b"[]", -32600), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}', -32700), (b"[" * 5000, -32700),
                           (b'{"jsonrpc":"2.0","id":1,"method":"a","params":[]}', -32602), (b"\xff\xfe", -32700),
                           (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"method":"' + b"a" * (17 << 20) + b'"}', -32600)]:
            mcp.send(line)
            assert mcp.next()["error"]["code"] == code, line[:60]
        mcp.send(b"", b"\r", b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","method":"notifications/x"}')
        assert mcp.ask(request("ping", id=9))["result"] == {}, "the control: it goes on"
        assert mcp.ask(tool("run_code", {"code": "print('\\n{\"jsonrpc\":\"2.0\"}')"}, id=10))["result"]["isError"] is False


def test_many_lines_at_once(user, folder):
    with Stdio(user, folder) as mcp:
        mcp.send(*(request("ping", id=n) for n in range(100)))
        assert sorted(mcp.next()["id"] for _ in range(100)) == list(range(100))


def test_cancelling(user, folder):
    with Stdio(user, folder) as mcp:
        def start(id, more):
            mark = new_mark()
            mcp.send(request("tools/call", {"name": "run_command", "arguments": {"command": "sleep", "args": [mark]}, **more}, id))
            wait_for(lambda: processes(mark), 60, "it runs")
            return mark

        def cancel(id):
            mcp.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

        for id, more in ((1, {}), ("b", {"_meta": meta()})):
            mark, second = start(id, more), start("second", more)
            cancel("other")
            cancel("second")
            wait_for(lambda: not processes(second), 60, "that one was killed")
            assert mcp.ask(request("ping", id=99)) and processes(mark), "the control"
            cancel(id)
            wait_for(lambda: not processes(mark), 60, "it was killed")
        assert mcp.ask(request("ping", id=100))["result"] == {}, "and there was no answer in between"


# ---- the end ----

def test_a_file_as_input(folder):
    folder.mkdir()
    folder.chmod(0o755)
    lines = folder / "lines"
    lines.write_text("".join(json.dumps(m) + "\n" for m in (initialize(), tool("run_code", {"code": "print(1)"}, id=2))))
    command = [daemonlib.program(), "mcp"]
    with lines.open() as given:
        told = subprocess.run(command, stdin=given, capture_output=True, text=True, timeout=WAIT)
    assert told.returncode == 0, told.stderr
    answers = {m["id"]: m for m in map(json.loads, told.stdout.splitlines())}
    assert answers[2]["result"]["structuredContent"]["stdout"] == "1\n" and len(answers) == 2


def everything(mcp, mark):
    """The pids of a running call and of all that belongs to it."""
    mcp.send(tool("run_command", {"command": "sleep", "args": [mark]}, id=5))
    wait_for(lambda: processes(mark), 60, "it runs")
    return below(mcp.process.pid)


def gone(own, pids, mark):
    wait_for(lambda: not processes(mark) and not any(map(is_alive, pids)), WAIT, "all of it has ended")
    wait_for(lambda: not own.exists(), WAIT, "the folder is gone")


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_ends_with_its_client(user, folder, how):
    with Stdio(user, folder) as mcp:
        mark = new_mark()
        pids = everything(mcp, mark)
        own = mcp.own_folder()
        assert len(pids) > 3 and own.exists()
        mcp.process.send_signal(getattr(signal, how))
        mcp.process.wait(WAIT)
        gone(own, pids, mark)


def test_what_was_asked_before_the_end_is_waited_for_but_not_for_ever(folder):
    with Stdio(USERS[-1], folder) as mcp:
        mark = new_mark()
        pids, own = everything(mcp, mark), mcp.own_folder()
        mcp.send(request("ping", id=6))
        mcp.process.stdin.close()
        assert mcp.next()["id"] == 6
        assert mcp.process.wait(WAIT) == 0 and mcp.next() is None
        gone(own, pids, mark)


def test_ends_when_nobody_reads(folder):
    folder.mkdir()
    reader, writer = os.pipe()
    process = subprocess.Popen([daemonlib.program(), "mcp"], stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    mark = new_mark()
    process.stdin.write(json.dumps(tool("run_command", {"command": "sleep", "args": [mark]})).encode() + b"\n")
    process.stdin.flush()
    wait_for(lambda: processes(mark), 60, "it runs")
    os.close(reader)
    process.wait(WAIT)
    process.stdin.close()
    wait_for(lambda: not processes(mark), 60, "it was killed")


def words(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


@pytest.mark.parametrize("victim", ["launcher", "front"])
def test_its_daemon_dies(user, folder, victim):
    with Stdio(user, folder) as mcp:
        mark = new_mark()
        pids, own = everything(mcp, mark), mcp.own_folder()
        launcher = mcp.launcher()
        front = next(p for p in pids if parent(p) == launcher and b"brig-daemon" in words(p)[0])
        os.kill(launcher if victim == "launcher" else front, signal.SIGKILL)
        answer = mcp.next()
        assert answer["id"] == 5 and "error" in answer
        assert mcp.process.wait(WAIT) == 125 and mcp.next() is None
        gone(own, pids, mark)


def test_what_both_left_is_removed_by_the_next(user, folder):
    with Stdio(user, folder) as mcp:
        assert mcp.ask(request("ping"))
        left = mcp.own_folder()
        pids = below(mcp.process.pid)
        launcher = mcp.launcher()
        os.kill(launcher, signal.SIGSTOP)
        mcp.process.kill()
        mcp.process.wait()
        with Stdio(user, folder) as other:
            assert other.ask(request("ping")) and left.exists(), "the control: somebody still has it"
        os.kill(launcher, signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, pids)), WAIT, "all of it has ended")
        assert left.exists()
        with Stdio(user, folder) as third:
            assert third.ask(request("ping")) and not left.exists()


# ---- what it shows ----

def test_nobody_sees_the_key(user, folder):
    with Stdio(user, folder) as mcp:
        assert mcp.ask(request("ping"))
        own = mcp.own_folder()
        key = (own / "key").read_text().strip()
        assert own.stat().st_mode & 0o777 == 0o700 and (own / "key").stat().st_mode & 0o777 == 0o600
        for pid in [mcp.process.pid, *below(mcp.process.pid)]:
            for name in ("cmdline", "environ"):
                try:
                    assert key.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
                except (PermissionError, FileNotFoundError):
                    pass
        told = mcp.ask(tool("run_command", {"command": "env; cat /proc/*/environ; ls -R /run /tmp 2>/dev/null"}, id=3))
        assert key not in json.dumps(told)
    assert key not in "".join(mcp.said)


def test_a_project_under_review(user, folder):
    folder.mkdir()
    project = folder.parent / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    if user == "user" and daemonlib.IS_ROOT:
        for path in (project, project / "a.txt"):
            os.chown(path, daemonlib.USER_ID, daemonlib.USER_ID)
    with Stdio(user, folder, "--project", str(project)) as mcp:
        once = mcp.ask(tool("run_command", {"command": f"cat {project}/a.txt"}))["result"]["structuredContent"]
        assert once["stdout"] == "one\n", once
        made = mcp.ask(tool("create_session", {"template": "base"}))["result"]["structuredContent"]
        assert made["project"] == str(project)
        session = {"session_id": made["session_id"]}
        mcp.ask(tool("run_command", {**session, "command": f"echo two >> {project}/a.txt; echo new > {project}/b.txt"}))
        mcp.ask(tool("write_file", {**session, "path": f"{project}/c.txt", "content": "c\n"}))
        told = mcp.ask(tool("diff", session))["result"]
        assert told["isError"] is False and "+two" in told["structuredContent"]["diff"] and "b.txt" in told["content"][0]["text"]
        stat = mcp.ask(tool("diff", {**session, "format": "stat"}))["result"]["structuredContent"]["review"]
        assert {"a.txt", "b.txt", "c.txt"} <= {change["path"] for change in stat["changes"]}
        assert (project / "a.txt").read_text() == "one\n" and not (project / "b.txt").exists(), "nothing reaches it"
        assert mcp.ask(tool("destroy_session", session))["result"]["isError"] is False


def test_connect(user, folder):
    with Daemon(user) as daemon:
        socket = f"unix:{daemon.socket}"
        with Stdio(user, folder, "--connect", "--host", socket, "--key-file", str(daemon.key_file)) as mcp:
            made = mcp.ask(tool("create_session", {"template": "base"}))["result"]["structuredContent"]
            assert made["session_id"] in daemon.live() and not mcp.launcher()
            assert mcp.close() == 0
        assert made["session_id"] in daemon.live(), "sessions are the daemon's"
        daemon.request("DELETE", f"/sandboxes/{made['session_id']}")
        with Stdio(user, folder, "--connect", "--host", f"http://127.0.0.1:{daemon.port}", "--key-file", str(daemon.key_file)) as mcp:
            assert mcp.ask(request("ping"))["result"] == {}
            daemon.stop()
            assert "error" in mcp.ask(request("ping", id=2))


def test_options_that_do_not_go_together():
    def status(*options):
        return subprocess.run([daemonlib.program(), "mcp", *options], stdin=subprocess.DEVNULL, capture_output=True).returncode

    assert status("--host", "unix:/nowhere") == 125
    assert status("--connect", "--templates", "/tmp") == 125
    assert status("--connect", "--host", "unix:/nowhere", "--key-file", "/nowhere") == 125
    assert status("surplus") == 125
    assert status("--stdio") == 0
