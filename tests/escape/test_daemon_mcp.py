"""Rows D against /mcp, as root and as an ordinary user. Every refusal stands beside the same request made properly."""
import json
import os
import re
from pathlib import Path

import pytest
from daemonlib import USERS, Daemon, wait_for
from mcplib import MODERN, Http, events, initialize, new_mark, processes, request, tool


@pytest.fixture(scope="module", params=USERS)
def mcp(request):
    with Daemon(request.param) as daemon:
        yield Http(daemon)
        assert daemon.process.poll() is None, (daemon.folder / "said").read_text()


@pytest.fixture(scope="module")
def others(mcp):
    """The same daemon with keys of two agents."""
    return Http(mcp.daemon, mcp.daemon.add_key("one")), Http(mcp.daemon, mcp.daemon.add_key("two"))


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) << 10


def test_D01_no_key_no_word(mcp):
    message = tool("create_session", {"template": "base"})
    for key in ("", "brig_" + "a" * 43, "dify-sandbox"):
        answer = mcp.daemon.request("POST", "/mcp", json.dumps(message), {"Content-Type": "application/json", "X-API-KEY": key},
                                    key=None)
        assert answer.status == 401, answer
    for header in ({"Authorization": "Bearer wrong"}, {"Authorization": "Basic Og=="}, {}):
        answer = mcp.daemon.request("POST", "/mcp", json.dumps(message), {"Content-Type": "application/json", **header}, key=None)
        assert answer.status == 401, answer
        assert mcp.daemon.request("DELETE", "/mcp", headers={"Mcp-Session-Id": "a" * 32, **header}, key=None).status == 401
    assert not mcp.daemon.live()
    header = {"Authorization": f"Bearer {mcp.daemon.key}", "Content-Type": "application/json"}
    made = mcp.daemon.request("POST", "/mcp", json.dumps(message), header, key=None)
    session = made.json["result"]["structuredContent"]["session_id"]
    assert mcp.daemon.live() == [session], "the control"
    mcp.call("destroy_session", session_id=session)


def test_D03_web_pages_and_foreign_names(mcp):
    port = mcp.daemon.port
    own = {"Host": f"127.0.0.1:{port}", "Origin": f"http://127.0.0.1:{port}"}
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"},
                    {"Origin": f"http://localhost:{port + 1}"}, {"Origin": f"http://localhost:{port}"},
                    {**own, "Origin": own["Origin"] + "/x"}, {**own, "Sec-Fetch-Site": "cross-site"},
                    {"Origin": f"http://127.0.0.1.evil.example:{port}"}, {"Host": f"evil.example:{port}", "Origin": own["Origin"]}):
        answer = mcp.post(initialize(), **headers)
        assert answer.status == 403, (headers, answer)
        assert not [h for h in answer.headers if h.lower().startswith("access-control-")]
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert mcp.post(initialize(), Content_Type=kind).status == 415, kind
    assert mcp.post(initialize(), **own).status == 200, "the control"
    assert mcp.daemon.request("POST", "/sandboxes", {"templateID": "base"}, own).status == 403, "for MCP alone"


def test_D04_ids(mcp):
    session = mcp.session(template="base")
    for text in ("", "..", "../" + session, session + "/", session.upper(), "-" + session[1:], session + "\n", "*", "%2e%2e", "é" * 20,
                 session[:19], session + "a", "a" * 5000):
        for name, more in (("run_command", {"command": "true"}), ("list_files", {}), ("destroy_session", {}), ("diff", {})):
            told, failed = mcp.call(name, session_id=text, **more)
            assert failed and told["error"]["code"] in ("not_found", "usage"), (name, text[:40], told)
        uri = f"brig://{text}/etc/hostname"
        if text != session + "/":  # there it is a path with two slashes
            assert "error" in mcp.post(request("resources/read", {"uri": uri})).json, uri[:60]
    uri = f"brig://{session}/etc/hostname"
    assert mcp.post(request("resources/read", {"uri": uri})).json["result"]["contents"], "the control"
    for bad in (uri + "%00", uri + "%", uri + "%zz", uri + "#x", uri + "?x", uri.replace("brig", "file"), "file:///etc/passwd",
                uri.replace(session, f"user@{session}"), uri + "\\", f"brig://{session}"):
        assert "error" in mcp.post(request("resources/read", {"uri": bad})).json, bad
    assert mcp.call("destroy_session", session_id=session)[0]["ok"]


def test_D05_words_stay_words(mcp):
    session = mcp.session(template="base")
    mark = Path("/tmp") / f"brig-mcp-was-here-{os.getpid()}"
    hostile = [f"$(touch {mark})", f"`touch {mark}`", f"; touch {mark}", f"'\"; touch {mark} #", "-rf", "--", "\n", "a\tb", "é\u202e"]
    told, _ = mcp.call("run_command", session_id=session, command="printf", args=["%s\\n", *hostile])
    assert told["stdout"] == "".join(f"{word}\n" for word in hostile)
    for word in hostile:
        told, failed = mcp.call("write_file", session_id=session, path=f"/home/user/{word}", content="x")
        assert not failed, told
    assert not mark.exists()
    mcp.call("destroy_session", session_id=session)


def test_D07_malformed_and_oversized(mcp):
    before = resident(mcp.daemon.front())
    deep = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + "[" * 100000 + "]" * 100000 + "}}"
    wide = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[' + "0," * 400000 + "0]}}"
    for body in (deep, wide, '{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}', b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}',
                 '{"jsonrpc":"2.0","id":NaN,"method":"ping"}', '{"jsonrpc":"2.0","id":1,"method":"ping"} x', "", "null", "[]", "[[]]",
                 json.dumps([request("ping")] * 1000)):
        answer = mcp.post(body)
        assert answer.status == 400 and answer.json["error"]["code"] in (-32700, -32600), (body[:60], answer)
    assert mcp.post('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + "x" * (17 << 20) + '"}}').status == 413
    assert mcp.post('{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + "x" * (1 << 20) + '"}}').status == 200, "the control"
    for name in ("Mcp_Session_Id", "Mcp_Method", "Mcp_Name", "MCP_Protocol_Version"):
        assert mcp.post(request("ping"), **{name: "a" * 30000}).status in (200, 400, 404), name
    assert resident(mcp.daemon.front()) < before + (96 << 20)


def test_D08_the_caller_does_not_move_the_walls(mcp):
    name = f"here-{os.getpid()}"
    told, failed = mcp.call("run_command", command=f"touch {name}", cwd="/etc")
    assert told.get("exit_code") != 0 or failed
    told, failed = mcp.call("run_command", command="pwd", cwd="/../../../../root")
    assert failed or told["exit_code"] != 0 or told["stdout"] == "/root\n"
    assert not Path("/etc", name).exists()
    told, _ = mcp.call("run_command", command=f"touch {name} && echo good", cwd="/tmp")
    assert told["stdout"] == "good\n", "the control"
    for arguments in ({"template": "../base"}, {"template": ""}, {"policy": {}}, {"network": {"allow": ["*"]}}, {"level": "low"}):
        assert mcp.call("run_command", command="true", **arguments)[1], arguments
        assert mcp.call("create_session", **arguments)[1], arguments


def test_D10_what_is_printed_stays_in_strings(mcp):
    frames = ['{"jsonrpc":"2.0","id":1,"result":{"content":[]}}', "data: {}", "event: message", "\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "\u2028",
              ": comment", "id: 1", "retry: 1"]
    code = "import sys\n" + "".join(f"print({line!r}); print({line!r}, file=sys.stderr)\n" for line in frames)
    code += "sys.stdout.flush(); import os; os.write(1, bytes(range(256)))"
    answer = mcp.post(tool("run_code", {"code": code}, id="mine", _meta={"progressToken": "t"}))
    told = events(answer.body)
    assert {m["params"]["progressToken"] for m in told if "method" in m} == {"t"}
    assert [m["id"] for m in told if "id" in m] == ["mine"]
    assert told[-1]["result"]["structuredContent"]["stdout"].startswith(frames[0] + "\n" + frames[1])
    for line in answer.body.split(b"\n"):
        assert line == b"" or line.startswith((b"event: message", b"data: {", b": still running")), line[:80]


def test_D13_numbers(mcp):
    for value in (0, -1, 1 << 62, 1.5, "5", True):
        assert mcp.call("run_code", code="1", timeout_ms=value)[1], value
        assert mcp.call("create_session", timeout_seconds=value)[1], value
    assert not mcp.call("run_code", code="1", timeout_ms=3600000)[1], "the control"


# ---- ownership ----

def test_sessions_belong_to_their_key(mcp, others):
    one, two = others
    session = one.session(template="base")
    one.call("write_file", session_id=session, path="secret", content="x")
    uri = f"brig://{session}/home/user/secret"
    for name, more in (("run_code", {"code": "1"}), ("run_command", {"command": "true"}), ("read_file", {"path": "secret"}),
                       ("write_file", {"path": "secret", "content": "y"}), ("list_files", {}), ("diff", {}), ("destroy_session", {})):
        told, failed = two.call(name, session_id=session, **more)
        none, _ = two.call(name, session_id="a" * 20, **more)
        assert failed and told["error"]["code"] == "not_found", (name, told)
        assert json.dumps(told).replace(session, "") == json.dumps(none).replace("a" * 20, ""), "as if it were not there"
    assert "error" in two.post(request("resources/read", {"uri": uri})).json
    assert two.post(request("resources/list")).json["result"]["resources"] == []
    assert [r["uri"] for r in one.post(request("resources/list")).json["result"]["resources"]] == [uri], "the control"
    assert one.call("read_file", session_id=session, path="secret")[0]["content"] == "x"
    assert one.call("destroy_session", session_id=session)[0]["ok"]


def test_protocol_sessions_and_cancelling_belong_to_their_key(mcp, others):
    one, two = others
    session = one.post(initialize()).headers["Mcp-Session-Id"]
    assert two.post(request("ping"), Mcp_Session_Id=session).status == 404
    assert mcp.daemon.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}, key=two.key).status == 404

    def start(id):
        mark, connection = new_mark(), mcp.daemon.connection()
        mcp.daemon.send(connection, "POST", "/mcp", tool("run_command", {"command": "sleep", "args": [mark]}, id=id),
                        {"Accept": "application/json", "Mcp-Session-Id": session}, key=one.key)
        wait_for(lambda: processes(mark), 60, "it runs")
        return mark, connection

    (mark, connection), (second, other) = start(7), start(8)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert two.post(note, Mcp_Session_Id=session).status == 404
    assert two.post(note).status == 202
    # Whatever that did is done when a note that came later has been obeyed.
    assert one.post({**note, "params": {"requestId": 8}}, Mcp_Session_Id=session).status == 202
    wait_for(lambda: not processes(second), 60, "the other was killed")
    assert one.post(request("ping"), Mcp_Session_Id=session).status == 200 and processes(mark)
    assert one.post(note, Mcp_Session_Id=session).status == 202, "the control"
    wait_for(lambda: not processes(mark), 60, "it was killed")
    connection.close()
    other.close()


def test_sessions_are_bounded(mcp, others):
    one, two = others
    made = [one.session(template="base") for _ in range(32)]
    told, failed = one.call("create_session", template="base")
    assert failed and told["error"]["code"] == "limit" and told["error"]["hint"]
    other = two.session(template="base")
    assert two.call("destroy_session", session_id=other)[0]["ok"], "the control: it is the key's own number"
    assert one.call("destroy_session", session_id=made.pop())[0]["ok"]
    made.append(one.session(template="base"))
    for session in made:
        one.call("destroy_session", session_id=session)


def test_modern_requests_have_no_session(mcp):
    answer = mcp.modern("tools/list", Mcp_Session_Id="a" * 32)
    assert answer.status == 200 and answer.json["result"]["resultType"] == "complete"
    assert "Mcp-Session-Id" not in mcp.modern("server/discover", MCP_Protocol_Version=MODERN).headers
