"""`brig mcp --wrap`: another server in a sandbox, and between it and its client somebody who reads along."""
import json
import os
import signal
import subprocess

import pytest
from helpers import PUBLIC, below, read_stat, wait_for
from wraplib import WAIT, Session, plain, wrapped


RULES = ["--tool", "read", "--tool", "open:path=/server/**", "--tool", "write", "--deny-tool", "write:how=badly"]


def methods(session):
    return [message.get("method") for message in session.saw() if isinstance(message, dict)]


def text_of(result):
    return result["content"][0]["text"]


# ---- tools ----

def test_control_without_wrap_everything_can_be_called(caller):
    with plain(caller, "honest") as session:
        session.initialize()
        assert session.names() == ["read", "write", "drop", "open"]
        assert text_of(session.call("drop")) == "drop done"
        assert text_of(session.call("write", {"how": "badly"})) == "write done"


def test_tools_that_are_not_allowed_vanish_and_calls_of_them_never_arrive(caller):
    with wrapped(caller, "honest", *RULES) as session:
        session.initialize()
        assert session.names() == ["read", "write", "open"]
        assert text_of(session.call("read")) == "read done"
        assert text_of(session.call("write", {"how": "well"})) == "write done"
        for name, arguments in (("drop", {}), ("write", {"how": "badly"}), ("open", {"path": "/etc/passwd"}), ("open", {}),
                                ("open", {"path": "/server/../etc/passwd"})):
            denied = session.call(name, arguments)
            assert denied["isError"] is True
            assert "denied by brig" in text_of(denied)
            assert set(denied["_meta"]["brig/denial"]) == {"what", "rule", "hint", "by"}
        assert session.end() == 0
        calls = [message["params"]["name"] for message in session.saw() if isinstance(message, dict) and message.get("method") == "tools/call"]
        assert calls == ["read", "write"]
        assert 'denied: tool "drop": no rule' in session.stderr
        assert 'denied: tool "open" (3 times)' in session.stderr


def test_without_rules_every_tool_is_there_and_that_is_said(caller):
    with wrapped(caller, "honest") as session:
        session.initialize()
        assert "drop" in session.names()
        assert text_of(session.call("drop")) == "drop done"
        assert session.end() == 0
        assert "no rules about tools" in session.stderr


def test_rules_of_a_policy_file(caller):
    policy = PUBLIC / "tools.yaml"
    policy.write_text("tools:\n  allow:\n    - name: open\n      arguments: {path: [/server/*]}\n  deny: [read]\n")
    with wrapped(caller, "honest", "--policy", policy) as session:
        session.initialize()
        assert session.names() == ["open"]
        assert "class" not in text_of(session.call("open", {"path": "/server/x/y"}))
        assert "MCP server" in text_of(session.call("open", {"path": "/server/server.py"}))
        denied = session.call("read")["_meta"]["brig/denial"]
        assert denied["rule"] == 'tools.deny "read" (tools.yaml:5:10)'


def test_the_server_is_in_a_sandbox(caller, tier):
    secret = PUBLIC / "secret.txt"
    secret.write_text("the secret")
    with plain(caller, "honest") as session:
        session.initialize()
        assert text_of(session.call("open", {"path": str(secret)})) == "the secret"
    # The process tier has no mount namespace: there a grant stands at its own place.
    if tier == "process":
        command = Session(caller.outside(str(PUBLIC / "brig"), "mcp", "--wrap", "--tier", tier, "--ro", str(PUBLIC / "wrap"), "--",
                                         "python3", str(PUBLIC / "wrap" / "server.py"), "honest"))
    else:
        command = wrapped(caller, "honest", "--tier", tier)
    with command as session:
        session.initialize()
        assert text_of(session.call("open", {"path": str(secret)})) in ("FileNotFoundError", "PermissionError")


# ---- calls that wait for a person ----

@pytest.fixture
def person(caller, tmp_path):
    """Somebody at another terminal, and a folder for the questions of this test alone."""
    folder = PUBLIC / f"person-{caller.name}-{tmp_path.name}"
    folder.mkdir(mode=0o700)
    os.chown(folder, caller.uid, caller.uid)
    env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}

    def brig(*args):
        return subprocess.run(caller.outside(str(PUBLIC / "brig"), *args), capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env,
                              cwd="/", timeout=WAIT)

    brig.env = env
    brig.questions = lambda: json.loads(brig("approvals", "--json").stdout)
    return brig


def test_a_call_waits_for_a_person(caller, person):
    with wrapped(caller, "honest", "--ask-tool", "write", "--tool", "read", env=person.env) as session:
        session.initialize()
        assert session.names() == ["read", "write"]
        first = session.request("tools/call", {"name": "write", "arguments": {"path": "/x"}})
        second = session.request("tools/call", {"name": "write", "arguments": {"path": "/y\u202e"}})
        # It holds up nobody else.
        assert text_of(session.call("read")) == "read done"
        wait_for(lambda: len(person.questions()) == 2, WAIT)
        questions = {question["text"]: question for question in person.questions()}
        assert set(questions) == {'write {"path":"/x"}', 'write {"path":"/y\\\\u202e"}'}
        assert {question["kind"] for question in questions.values()} == {"tool"}
        assert "tools.ask" in questions['write {"path":"/x"}']["reason"]
        # What the server says of it comes on its own way.
        wait_for(lambda: "tools/call" in methods(session), WAIT, "read has arrived")
        assert methods(session).count("tools/call") == 1, "control: only read has arrived"
        assert person("approve", questions['write {"path":"/x"}']["id"]).returncode == 0
        assert text_of(session.answer_to(first)["result"]) == "write done"
        assert person("deny", questions['write {"path":"/y\\\\u202e"}']["id"]).returncode == 0
        denied = session.answer_to(second)["result"]
        assert denied["isError"] and denied["_meta"]["brig/denial"]["by"] == "person"
        assert session.end() == 0
        assert methods(session).count("tools/call") == 2
        assert session.stderr.count("waiting for a person: write") == 2


def test_a_question_goes_with_its_call(caller, person):
    with wrapped(caller, "honest", "--ask-tool", "write", env=person.env) as session:
        session.initialize()
        waiting = session.request("tools/call", {"name": "write"})
        question = wait_for(person.questions, WAIT)[0]
        session.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
        wait_for(lambda: not person.questions(), WAIT)
        assert person("approve", question["id"]).returncode != 0
        session.request("tools/call", {"name": "write"})
        wait_for(person.questions, WAIT)
        os.kill(part(session, "supervisor"), signal.SIGKILL)
        wait_for(lambda: not person.questions(), WAIT)


def test_where_nobody_can_be_asked_the_answer_is_no(caller):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "XDG_STATE_HOME": "/proc/nowhere", "XDG_RUNTIME_DIR": "/proc/nowhere"}
    with wrapped(caller, "honest", "--ask-tool", "write", env=env) as session:
        session.initialize()
        denied = session.call("write")
        assert denied["isError"] and denied["_meta"]["brig/denial"]["by"] == "nobody"
        assert session.end() == 0
        assert "tools/call" not in methods(session)


# ---- a server that lies ----

def lies_of(session):
    session.initialize()
    session.call("drop")
    # Not answered: where one call waits alone, an answer that cannot be read is taken for its own.
    session.request("prompts/list")
    assert session.ask("ping")["result"] == {"done": True}
    return session.others


def test_control_the_lies_reach_a_client_without_wrap(caller):
    with plain(caller, "liar") as session:
        session.initialize()
        session.request("ping")
        lines = [session.lines.get(timeout=WAIT) for _ in range(14)]
        assert any(b"I did it anyway" in line for line in lines)
        assert any(b"sampling/createMessage" in line for line in lines)
        assert any(b"\x1b" in line for line in lines)


def test_no_lie_passes(caller):
    with wrapped(caller, "liar", *RULES) as session:
        assert lies_of(session) == []
        assert session.end() == 0
        answers = [message for message in session.saw() if isinstance(message, dict) and "error" in message]
        assert sorted(message["id"] for message in answers) == ["ask0", "ask1", "ask2", "ask3"]
        assert "the server answered something that it was not asked" in session.stderr
        assert "\x1b" not in session.stderr


def test_the_server_is_not_told_that_the_client_could_be_asked(caller):
    with plain(caller, "honest") as session:
        session.initialize()
        session.ask("ping")
        wait_for(lambda: len(session.saw()) > 2, WAIT)
        assert set(session.saw()[0]["params"]["capabilities"]) == {"roots", "sampling"}
    with wrapped(caller, "honest", *RULES) as session:
        session.initialize()
        session.ask("ping")
        assert session.end() == 0
        assert session.saw()[0]["params"]["capabilities"] == {}


def test_what_the_policy_names_may_be_asked(caller):
    policy = PUBLIC / "callbacks.yaml"
    policy.write_text("tools: {allow: ['*'], callbacks: [roots]}\n")
    with wrapped(caller, "liar", "--policy", policy) as session:
        session.initialize()
        session.request("prompts/list")
        session.ask("ping")
        assert [message["method"] for message in session.others] == ["roots/list"]
        session.send({"jsonrpc": "2.0", "id": "ask0", "result": {"roots": []}})
        session.send({"jsonrpc": "2.0", "id": "ask1", "result": {"roots": []}})
        assert session.end() == 0
        assert [message["id"] for message in session.saw() if isinstance(message, dict) and "result" in message] == ["ask0"]


def test_a_message_that_is_too_long_is_an_error_and_the_session_goes_on(caller):
    with wrapped(caller, "long") as session:
        session.initialize()
        told = session.ask("ping")
        assert "refused" in told["error"]["message"]
        assert text_of(session.call("read")) == "read done"
        session.write(json.dumps({"jsonrpc": "2.0", "id": "big", "method": "ping", "params": {"x": "y" * (17 << 20)}}))
        assert session.receive()["error"]["code"] == -32600
        assert text_of(session.call("read")) == "read done"


def test_a_flood_passes_and_nothing_is_lost(caller):
    with wrapped(caller, "flood") as session:
        session.initialize()
        session.ask("ping")
        assert len(session.others) == 5000


# ---- a client that lies ----

@pytest.mark.parametrize("line", [
    '[{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"drop"}}]',
    '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"read","name":"drop"}}',
    '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"dr\\u006fp"}}',
    '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":["drop"]}}',
    '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"drop"}}',
    '{"jsonrpc":"2.0","id":5,"method":"tools\\/call","params":{"name":"drop"}}',
    '{"id":5,"method":"tools/call","params":{"name":"drop"}}',
    '{"jsonrpc":"2.0","id":5,"method":"x/call","params":{"name":"drop"}}',
])
def test_no_spelling_of_a_denied_call_passes(caller, line):
    with wrapped(caller, "honest", *RULES) as session:
        session.initialize()
        session.write(line)
        session.write('{"jsonrpc":"2.0","id":6,"method":"tools/\\u0063all","params":{"name":"re\\u0061d"}}')
        assert text_of(session.answer_to(6)["result"]) == "read done"
        assert session.end() == 0
        # The control stands beside it: what is allowed passes in whatever spelling.
        assert [m["params"]["name"] for m in session.saw() if isinstance(m, dict) and m.get("method") == "tools/call"] == ["read"]


# ---- lifetimes ----

def test_the_status_is_the_servers_own(caller):
    with wrapped(caller, "honest", "-e", "STATUS=7") as session:
        session.initialize()
        assert session.end() == 7
        assert session.saw()[-1] == "the end"
    with wrapped(caller, "", server=["no-such-server"]) as session:
        assert session.end() == 127
    with wrapped(caller, "", "--timeout", "300ms", server=["sleep", "1000"]) as session:
        assert session.process.wait(WAIT) == 124
    with wrapped(caller, "", "--memory", "lots") as session:
        assert session.end() == 125


def test_what_was_asked_before_the_end_is_answered(caller):
    with wrapped(caller, "honest", *RULES) as session:
        for number in range(1, 50):
            session.request("tools/call", {"name": "read", "arguments": {}}, id=number)
        session.process.stdin.close()
        assert sorted(session.receive()["id"] for _ in range(1, 50)) == list(range(1, 50))
        assert session.process.wait(WAIT) == 0


def test_a_server_that_does_not_want_to_end_is_ended(caller):
    with wrapped(caller, "stubborn") as session:
        session.initialize()
        tree = below(session.process.pid)
        assert len(tree) > 2
        assert session.end() in (128 + signal.SIGKILL, 128 + signal.SIGTERM)
        wait_for(lambda: not [pid for pid in tree if alive(pid, tree)], WAIT)


def alive(pid, tree):
    stat = read_stat(pid)
    return stat and stat[0] == tree[pid] and stat[1] != "Z"


def part(session, which):
    """The pid of the supervisor, of the filter, of the server."""
    tree = below(session.process.pid)
    if which == "supervisor":
        return next(pid for pid in [session.process.pid, *tree] if name_of(pid).startswith("brig"))
    if which == "server":
        return next(pid for pid, name in tree.items() if name == "python3")
    # It sandboxes itself when it has begun.
    return wait_for(lambda: [pid for pid in tree if name_of(pid) == "brig" and seccomp(pid)], WAIT, "the filter")[0]


def name_of(pid):
    stat = read_stat(pid)
    return stat[0] if stat else ""


def seccomp(pid):
    try:
        return "Seccomp:\t2" in open(f"/proc/{pid}/status").read()
    except OSError:
        return False


@pytest.mark.parametrize("which", ["supervisor", "filter", "server"])
def test_whatever_is_killed_nothing_stays(caller, tier, which):
    options = ["--ask-tool", "write", "--tier", tier]
    if tier == "process":
        command = Session(caller.outside(str(PUBLIC / "brig"), "mcp", "--wrap", *options, "--ro", str(PUBLIC / "wrap"), "--",
                                         "python3", str(PUBLIC / "wrap" / "server.py"), "stubborn"))
    else:
        command = wrapped(caller, "stubborn", *options)
    with command as session:
        session.initialize()
        tree = below(session.process.pid)
        assert any(name == "python3" for name in tree.values())
        os.kill(part(session, which), signal.SIGKILL)
        session.process.wait(WAIT)
        wait_for(lambda: not [pid for pid in tree if alive(pid, tree)], WAIT, f"everything is gone after {which}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it(caller, number):
    with wrapped(caller, "honest") as session:
        session.initialize()
        tree = below(session.process.pid)
        os.kill(part(session, "supervisor"), number)
        assert session.process.wait(WAIT) != 0
        wait_for(lambda: not [pid for pid in tree if alive(pid, tree)], WAIT)


def test_the_one_in_between_has_no_rights(caller):
    with wrapped(caller, "honest") as session:
        session.initialize()
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{part(session, 'filter')}/status").read().splitlines() if ":\t" in line)
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"
        assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
        if caller.uid == 0:
            assert set(status["Uid"].split()) == {"65534"}
