"""/mcp as bytes: eras, headers, codes, streams, cancellation; as root and as an ordinary user."""
import base64
import json
import time

import pytest
from daemonlib import USERS, Daemon, wait_for
from mcplib import MODERN, Http, events, initialize, meta, new_mark, processes, request, tool



@pytest.fixture(scope="module", params=USERS)
def mcp(request):
    with Daemon(request.param) as daemon:
        yield Http(daemon)
        wait_for(lambda: not daemon.live(), 60, "no sandbox is left over")
        assert daemon.process.poll() is None


def code_of(answer):
    return answer.json["error"]["code"]


# ---- the legacy era ----

@pytest.mark.parametrize("asked, given", [("2025-11-25",) * 2, ("2025-06-18",) * 2, ("2025-03-26",) * 2, ("2024-11-05",) * 2,
                                          ("1999-01-01", "2025-11-25"), (MODERN, "2025-11-25")])
def test_handshake(mcp, asked, given):
    answer = mcp.post(initialize(asked))
    assert answer.status == 200 and answer.json["result"]["protocolVersion"] == given
    assert answer.json["result"]["serverInfo"]["name"] == "brig"
    assert set(answer.json["result"]["capabilities"]) == {"tools", "resources"}


def test_sessions_of_the_protocol(mcp):
    session = mcp.post(initialize()).headers["Mcp-Session-Id"]
    assert len(session) == 32 and session.isalnum()
    ping = request("ping")
    assert mcp.post(ping, Mcp_Session_Id=session).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert mcp.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, Mcp_Session_Id=session).status == 202
    assert mcp.post(ping, Mcp_Session_Id="a" * 32).status == 404
    assert mcp.daemon.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}).status == 204
    assert mcp.post(ping, Mcp_Session_Id=session).status == 404
    assert mcp.daemon.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}).status == 404
    assert mcp.daemon.request("DELETE", "/mcp").status == 400
    assert mcp.daemon.request("GET", "/mcp", headers={"Accept": "text/event-stream"}).status == 405


def test_legacy_answers(mcp):
    assert code_of(mcp.post("{")) == -32700 and mcp.post("{").status == 400
    assert code_of(mcp.post([request("ping")])) == -32600
    assert code_of(mcp.post(request("no/such"))) == -32601 and mcp.post(request("no/such")).status == 200
    assert code_of(mcp.post(request("server/discover"))) == -32601
    assert code_of(mcp.post(tool("no_such"))) == -32602
    assert code_of(mcp.post(request("tools/list", {"cursor": "x"}))) == -32602
    assert mcp.post(request("ping"), MCP_Protocol_Version="1999-01-01").status == 400
    assert mcp.post(request("ping"), MCP_Protocol_Version="2025-06-18").status == 200
    assert mcp.post({"jsonrpc": "2.0", "id": 9, "result": {}}).status == 202


# ---- the modern era ----

def test_discover(mcp):
    result = mcp.modern("server/discover").json["result"]
    assert result["supportedVersions"] == [MODERN] and result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "brig"
    assert isinstance(result["ttlMs"], int) and result["cacheScope"] in ("public", "private")


def test_modern_results_say_what_they_are(mcp):
    for method in ("tools/list", "resources/list", "resources/templates/list"):
        result = mcp.modern(method).json["result"]
        assert result["resultType"] == "complete" and "ttlMs" in result and "cacheScope" in result, method
    result = mcp.modern("tools/call", {"name": "run_code", "arguments": {"code": "1 + 1"}}).json["result"]
    assert result["resultType"] == "complete" and result["structuredContent"]["result"] == "2"


def test_headers_and_body_agree(mcp):
    params = {"name": "run_code", "arguments": {"code": "1"}}
    cases = [{"Mcp_Method": "tools/list"}, {"Mcp_Method": ""}, {"Mcp_Method": "TOOLS/CALL"}, {"Mcp_Name": "run_command"},
             {"Mcp_Name": ""}, {"Mcp_Name": "=?base64?!!?="}, {"Mcp_Name": "=?base64?cnVu?="}, {"MCP_Protocol_Version": "2025-11-25"},
             {"MCP_Protocol_Version": ""}]
    for headers in cases:
        answer = mcp.modern("tools/call", params, **headers)
        assert (answer.status, code_of(answer)) == (400, -32020), (headers, answer)
    for headers in ({}, {"Mcp_Name": "=?base64?cnVuX2NvZGU=?="}, {"Mcp_Name": " run_code "}):
        assert mcp.modern("tools/call", params, **headers).status == 200, headers


def test_modern_refusals(mcp):
    answer = mcp.post(request("server/discover", {"_meta": meta("2027-01-01")}), MCP_Protocol_Version="2027-01-01",
                      Mcp_Method="server/discover")
    assert (answer.status, code_of(answer)) == (400, -32022)
    assert answer.json["error"]["data"] == {"supported": [MODERN], "requested": "2027-01-01"}
    for method in ("no/such", "initialize", "ping", "subscriptions/listen"):
        answer = mcp.modern(method)
        assert (answer.status, code_of(answer)) == (404, -32601), method
    for params in ({}, {"_meta": {}}, {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}):
        answer = mcp.post(request("server/discover", params), MCP_Protocol_Version=MODERN, Mcp_Method="server/discover")
        assert (answer.status, code_of(answer)) == (400, -32602), params
    answer = mcp.post(initialize(), MCP_Protocol_Version=MODERN)
    assert (answer.status, code_of(answer)) == (400, -32020)


def test_resources_that_are_not_there(mcp):
    uri = "brig://aaaaaaaaaaaaaaaaaaaa/x"
    answer = mcp.modern("resources/read", {"uri": uri})
    assert code_of(answer) == -32602 and answer.json["error"]["data"] == {"uri": uri}
    assert code_of(mcp.post(request("resources/read", {"uri": uri}))) == -32002


# ---- forms of the answer ----

def test_what_accept_decides(mcp):
    message = tool("run_code", {"code": "print(1)"}, _meta={"progressToken": "t"})
    stream = mcp.post(message)
    assert stream.headers["Content-Type"] == "text/event-stream"
    told = events(stream.body)
    assert [m["params"] for m in told[:-1]] == [{"progressToken": "t", "progress": 1, "message": "1"}]
    assert told[-1]["result"]["structuredContent"]["stdout"] == "1\n"
    plain = mcp.post(message, Accept="application/json")
    assert plain.headers["Content-Type"] == "application/json" and plain.json["result"]["structuredContent"]["stdout"] == "1\n"
    only = mcp.post(request("ping"), Accept="text/event-stream")
    assert events(only.body)[-1]["result"] == {}
    assert mcp.post(request("ping"), Accept="text/html").status == 406
    assert mcp.post(request("ping"), Content_Type="text/plain").status == 415


def test_much_output(mcp):
    told, _ = mcp.call("run_command", command="head -c 3000000 /dev/zero | tr '\\0' x")
    assert told["truncated"] and len(told["stdout"]) == 1 << 20
    answer = mcp.post(tool("run_command", {"command": "seq 20000"}, _meta={"progressToken": 1}))
    *notes, last = events(answer.body)
    assert last["result"]["structuredContent"]["stdout"] == "".join(f"{n}\n" for n in range(1, 20001))
    assert "".join(n["params"]["message"] + ("" if n["params"]["message"].endswith("\n") else "\n") for n in notes).split()[0] == "1"
    rising = [n["params"]["progress"] for n in notes]
    assert rising == sorted(set(rising))


def test_pictures(mcp):
    code = ("import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('iVBORw0KGgo=')\n"
            "    def __repr__(self): return 'P'\nP()")
    answer = mcp.post(tool("run_code", {"code": code})).json["result"]
    assert {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"} in answer["content"]
    assert answer["structuredContent"]["results"] == [{"text": "P"}]


def test_bytes_that_are_no_text(mcp):
    told, _ = mcp.call("run_command", command="printf 'a\\377b\\033[31m\\n'")
    assert told["stdout"] == "a\ufffdb\x1b[31m\n"


# ---- cancelling ----

def test_who_leaves_cancels(mcp):
    for params in ({}, {"_meta": {"progressToken": 1}}):
        mark = new_mark()
        connection = mcp.daemon.connection()
        mcp.daemon.send(connection, "POST", "/mcp", tool("run_command", {"command": "sleep", "args": [mark]}, **params),
                        {"Accept": "application/json, text/event-stream"})
        wait_for(lambda: processes(mark), 60, "it runs")
        connection.close()
        wait_for(lambda: not processes(mark), 60, "it was killed")


def test_a_notification_cancels_in_its_session_alone(mcp):
    session, other = (mcp.post(initialize()).headers["Mcp-Session-Id"] for _ in range(2))
    def start(id):
        mark, connection = new_mark(), mcp.daemon.connection()
        mcp.daemon.send(connection, "POST", "/mcp", tool("run_command", {"command": "sleep", "args": [mark]}, id=id),
                        {"Accept": "application/json", "Mcp-Session-Id": session})
        wait_for(lambda: processes(mark), 60, "it runs")
        return mark, connection

    def cancelled(connection, mark):
        wait_for(lambda: not processes(mark), 60, "it was killed")
        assert connection.getresponse().status == 202
        connection.close()

    mark, connection = start("a")
    second, other_connection = start("c")
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}
    assert mcp.post(note, Mcp_Session_Id=other).status == 202
    assert mcp.post({**note, "params": {"requestId": "b"}}, Mcp_Session_Id=session).status == 202
    assert mcp.post(note).status == 202
    # Whatever those did is done when one that was sent after them has been obeyed.
    assert mcp.post({**note, "params": {"requestId": "c"}}, Mcp_Session_Id=session).status == 202
    cancelled(other_connection, second)
    assert processes(mark), "the control: only its own session can"
    assert mcp.post(note, Mcp_Session_Id=session).status == 202
    cancelled(connection, mark)


# ---- sessions of a model ----

def test_arguments_are_checked(mcp):
    for name, arguments in [("run_code", {}), ("run_code", {"code": 1}), ("run_code", {"code": "1", "language": "cobol"}),
                            ("run_code", {"code": "1", "other": 1}), ("run_code", {"code": "1", "timeout_ms": 0}),
                            ("run_code", {"code": "1", "timeout_ms": -5}), ("run_code", {"code": "1", "timeout_ms": 10**12}),
                            ("run_code", {"code": "1", "env": {"a b": "1"}}), ("run_code", {"code": "1", "template": "none"}),
                            ("run_code", {"code": "1", "session_id": "../../etc"}), ("run_command", {}),
                            ("run_command", {"command": "true", "args": [1]}), ("create_session", {"timeout_seconds": 0}),
                            ("create_session", {"template": "none"}), ("read_file", {"path": "x"}),
                            ("write_file", {"session_id": "a" * 20, "path": "x"}), ("list_files", {}), ("diff", {}),
                            ("destroy_session", {"session_id": ""})]:
        told, failed = mcp.call(name, **arguments)
        assert failed and told["ok"] is False and told["error"]["message"], (name, arguments, told)
    told, failed = mcp.call("run_code", code="1")
    assert not failed, "the control"


@pytest.mark.parametrize("megabytes, kept", [(1, True), (3, False)])
def test_results_that_are_too_long_are_left_out_as_a_whole(mcp, megabytes, kept):
    """A result is written in one go, and others are served only then."""
    code = f"class R:\n def _repr_html_(self): return '<' * {megabytes * 1000000}\n def __repr__(self): return 'R'\nR()"
    told = mcp.modern("tools/call", {"name": "run_code", "arguments": {"code": code}}).json["result"]
    assert told["content"][0]["text"].startswith("R"), told
    assert ("longer than what is kept" in told["content"][0]["text"]) is not kept
    assert any("html" in each for each in told["structuredContent"].get("results", [])) is kept, told["structuredContent"].keys()


def test_out_of_memory_is_told_in_words_and_the_session_goes_on(mcp):
    session = mcp.session(template="tight")
    hog = "x = []\nwhile True: x.append(b'x' * (1 << 23))"
    for name, arguments in [("run_code", {"code": hog}), ("run_command", {"command": "python3", "args": ["-c", hog]})]:
        answer = mcp.post(tool(name, {"session_id": session, **arguments})).json["result"]
        told, text = answer["structuredContent"], answer["content"][0]["text"]
        assert answer["isError"] and told["oom_killed"] is True and told["memory_limit"] == 192 << 20, told
        error = told["error"]
        assert error["code"] == "limit" and error["boundary"] == "lifecycle" and error["message"].startswith("oom_killed: "), error
        assert "192M" in error["message"] and "lifecycle.memory" in error["hint"], error
        assert error["message"] in text and error["hint"] in text, text
        told, failed = mcp.call("run_code", session_id=session, code="1 + 1")
        assert not failed and told["result"] == "2" and told["oom_killed"] is False, "a fresh interpreter, at once"
    mcp.call("destroy_session", session_id=session)


@pytest.mark.parametrize("name, arguments, code, words", [
    ("run_code", {"code": "import time; time.sleep(1000)", "timeout_ms": 300}, "limit", "longer than 300 ms"),
    ("run_command", {"command": "sleep", "args": ["1000"], "timeout_ms": 300}, "limit", "longer than 300 ms"),
    ("run_code", {"code": "import os; os._exit(3)"}, None, "interpreter"),
])
def test_what_ended_a_run_is_an_error_object(mcp, name, arguments, code, words):
    """With a session and without one: a program can tell from the members alone."""
    for session in ({}, {"session_id": mcp.session()}):
        answer = mcp.post(tool(name, {**arguments, **session})).json["result"]
        told, text = answer["structuredContent"], answer["content"][0]["text"]
        assert answer["isError"] and told["oom_killed"] is False and told["ok"] is False, told
        assert words in told["error"]["message"] and told["error"]["message"] in text, told
        assert code is None or told["error"]["code"] == code, told
        if session:
            mcp.call("destroy_session", **session)
    told, failed = mcp.call("run_code", code="raise ValueError(1)")
    assert failed and "error" not in told and told["exception"]["name"] == "ValueError", "its own fault is no such error"


@pytest.mark.parametrize("name, arguments", [("run_command", {"command": "id"}), ("run_code", {"code": "1"}), ("create_session", {})])
def test_another_user_is_refused_in_words(mcp, name, arguments):
    told, failed = mcp.call(name, **arguments, user="root")
    assert failed and "one user" in told["error"]["message"] and "kernel: {uid: 0}" in told["error"]["hint"], told


def test_no_network_explains_itself(mcp):
    """The same name twice in one session: each result has it."""
    session = mcp.session()
    for name, arguments in [("run_command", {"command": "curl", "args": ["-sS", "-m", "60", "https://registry.npmjs.org/"]}),
                            ("run_code", {"code": "import urllib.request as u\nu.urlopen('https://registry.npmjs.org/')"})]:
        answer = mcp.post(tool(name, {"session_id": session, **arguments})).json["result"]
        told, text = answer["structuredContent"], answer["content"][0]["text"]
        denied = [d for d in told["denials"] if d["what"] == "look up registry.npmjs.org"]
        assert len(denied) == 1 and denied[0]["boundary"] == "network" and denied[0]["count"] == 1, told
        assert "allowOut" in denied[0]["hint"] and "@npm" in denied[0]["hint"] and denied[0]["hint"] in text, text
    told, _ = mcp.call("run_code", session_id=session, code="1")
    assert told["denials"] == [], "the control: what another call tried is not this one's"
    mcp.call("destroy_session", session_id=session)


@pytest.mark.parametrize("user", USERS)
def test_what_brig_proxy_refused_is_in_the_result(user):
    """It is told by another process than the end of the code is: each result has it all the same, and only its own."""
    rules = {"ruled.json": json.dumps({"interpreter": "python", "policy": {"network": {"allow": ["http://allowed.test=127.0.0.1"]}}})}
    with Daemon(user, templates=rules) as daemon:
        mcp = Http(daemon)
        session = mcp.session(template="ruled")
        for n in range(12):
            name = f"host{n}.denied.test"
            for tool_name, arguments in (("run_code", {"code": f"import urllib.request\nurllib.request.urlopen('http://{name}/')"}),
                                         ("run_command", {"command": f"curl -sSf http://{name}/x"})):
                told, failed = mcp.call(tool_name, session_id=session, **arguments)
                assert failed == (tool_name == "run_code") and [name in d["what"] for d in told["denials"]] == [True], (n, told)
        mcp.call("destroy_session", session_id=session)


@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
def test_who_leaves_while_it_is_paused_has_cancelled(mcp, leaves):
    """Cancelling kills, also where nothing can be killed just then; who stays is the control."""
    session = mcp.session(template="base")
    arguments = {"session_id": session, "command": f"touch began; sleep {30 if leaves else 1}; echo ran > done", "timeout_ms": 60_000}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run_command", "arguments": arguments}}
    connection = mcp.daemon.connection()
    mcp.daemon.send(connection, "POST", "/mcp", call, {"Accept": "application/json, text/event-stream"})
    wait_for(lambda: not mcp.call("read_file", session_id=session, path="began")[1], 60, "it runs")
    assert mcp.daemon.request("POST", f"/sandboxes/{session}/pause").status == 204
    if leaves:
        connection.close()
        time.sleep(0.5)
    assert mcp.daemon.request("POST", f"/sandboxes/{session}/resume", {"timeout": 300}).status == 201
    if leaves:
        wait_for(lambda: mcp.call("run_command", session_id=session, command="pgrep -x sleep | wc -l")[0]["stdout"] == "0\n", 25, "it is ended")
    else:
        assert connection.getresponse().status == 200
        connection.close()
    told, failed = mcp.call("read_file", session_id=session, path="done")
    assert failed == leaves, told
    mcp.call("destroy_session", session_id=session)


def test_a_session_ends_when_it_is_not_used(mcp):
    session = mcp.session(timeout_seconds=1, template="base")
    wait_for(lambda: session not in mcp.daemon.live(), 60, "it has ended")
    told, failed = mcp.call("list_files", session_id=session)
    assert failed and told["error"]["code"] == "not_found"


def test_diff_without_a_project(mcp):
    session = mcp.session(template="base")
    told, failed = mcp.call("diff", session_id=session)
    assert failed and told["error"]["code"] == "refused" and told["error"]["message"]
    mcp.call("destroy_session", session_id=session)


def test_names_that_are_no_text(mcp):
    """Listed with the private characters U+F780 to U+F7FF for their bytes, and addressed by that (docs/serve.md)."""
    session = mcp.session(template="base")
    mcp.call("run_command", session_id=session, command=r"mkdir odd; printf bytes > $'odd/\xff\xc3.txt'; printf text > $'odd/\uf7ff'")
    told, _ = mcp.call("list_files", session_id=session, path="odd")
    paths = {entry["path"] for entry in told["entries"]}
    assert paths == {"/home/user/odd/\uf7ff\uf7c3.txt", "/home/user/odd/\uf7ef\uf79f\uf7bf"}, paths
    assert {mcp.call("read_file", session_id=session, path=path)[0]["content"] for path in paths} == {"bytes", "text"}
    told, failed = mcp.call("write_file", session_id=session, path="odd/\uf7ff\uf7c3.txt", content="again")
    assert not failed and told["path"].endswith("odd/\uf7ff\uf7c3.txt"), told
    told, _ = mcp.call("run_command", session_id=session, command=r"cat $'odd/\xff\xc3.txt'; ls odd | wc -l")
    assert told["stdout"] == "again2\n", told
    uris = [r["uri"] for r in mcp.post(request("resources/list")).json["result"]["resources"] if session in r["uri"]]
    odd = [uri for uri in uris if "%EF%9F%BF" in uri]
    for uri in odd:
        assert mcp.post(request("resources/read", {"uri": uri})).json["result"]["contents"][0]["text"] == "again"
    mcp.call("destroy_session", session_id=session)


def test_files_of_a_session(mcp):
    session = mcp.session(template="base")
    text = json.dumps({"a": "x" * 200000})
    told, _ = mcp.call("write_file", session_id=session, path="big.json", content=text)
    assert told["size"] == len(text)
    assert mcp.call("read_file", session_id=session, path="big.json")[0]["content"] == text
    for path, code in [("/etc/passwd2", "refused"), ("/proc/self/x", "refused"), ("/home/user", "usage")]:
        told, failed = mcp.call("write_file", session_id=session, path=path, content="x")
        assert failed and told["error"]["code"] == code, (path, told)
    told, failed = mcp.call("read_file", session_id=session, path="/dev/zero")
    assert failed
    mcp.call("run_command", session_id=session, command="truncate -s 8M large; ln -s /etc/hostname link; mkfifo pipe")
    assert mcp.call("read_file", session_id=session, path="large")[0]["error"]["code"] == "limit"
    assert mcp.call("read_file", session_id=session, path="pipe")[1]
    entries = mcp.call("list_files", session_id=session)[0]["entries"]
    assert {e["path"].rsplit("/")[-1]: e["type"] for e in entries} == {"big.json": "file", "large": "file", "link": "link",
                                                                      "pipe": "other"}
    listed = mcp.post(request("resources/read", {"uri": f"brig://{session}/home/user"})).json["result"]["contents"][0]
    assert listed["mimeType"] == "inode/directory" and "/home/user/link\n" in listed["text"]
    mcp.call("destroy_session", session_id=session)


@pytest.mark.parametrize("data", [bytes(range(1, 128)) * 9000, "a\u00e9\u2028\U0001f600\"\\".encode() * 90001, b"\0\xff" * 500001, b"\xf0\x9f\x98" * 3])
def test_long_answers_are_the_same_in_every_form(mcp, data):
    session = mcp.session(template="base")
    told, failed = mcp.call("write_file", session_id=session, path="f", content=base64.b64encode(data).decode(), encoding="base64")
    assert not failed and told["size"] == len(data), told
    try:
        text, encoding = data.decode(), "utf-8"
        assert "\0" not in text
    except (UnicodeDecodeError, AssertionError):
        text, encoding = base64.b64encode(data).decode(), "base64"
    arguments = {"session_id": session, "path": "f"}
    asked = tool("read_file", arguments)
    answers = [mcp.post(asked, Accept="application/json").json, events(mcp.post(asked, Accept="text/event-stream").body)[-1],
               mcp.modern("tools/call", {"name": "read_file", "arguments": arguments}).json]
    for result in (answer["result"] for answer in answers):
        told = result["structuredContent"]
        assert told["encoding"] == encoding and told["size"] == len(data)
        assert told["content"] == text and result["content"][0]["text"] == text
    read = mcp.post(request("resources/read", {"uri": f"brig://{session}/home/user/f"})).json["result"]["contents"][0]
    assert read["text" if encoding == "utf-8" else "blob"] == text
    assert mcp.call("read_file", encoding="base64", **arguments)[0]["content"] == base64.b64encode(data).decode()
    mcp.call("destroy_session", session_id=session)


@pytest.mark.parametrize("content", ["A" * 32767 + "=" + "AAAA", "A" * 65535 + "=" * 5, "A" * 70000 + "!", "A" * 65537])
def test_long_base64_is_taken_whole_or_not_at_all(mcp, content):
    session = mcp.session(template="base")
    told, failed = mcp.call("write_file", session_id=session, path="f", content=content, encoding="base64")
    assert failed and "malformed base64" in told["error"]["message"], told
    assert mcp.call("read_file", session_id=session, path="f")[0]["error"]["code"] == "not_found", "nothing was written"
    mcp.call("destroy_session", session_id=session)


def test_a_command_gets_all_of_its_stdin_or_none(mcp):
    """Of a key that has no room for it the command got what one pipe holds, and the call was a success."""
    key = mcp.daemon.add_key("stdin")
    result, failed = mcp.call("run_command", key, command="wc -c", stdin="x" * (6 << 20))
    assert not failed and result["stdout"].strip() == str(6 << 20), "control: there is room"
    result, failed = mcp.call("run_command", key, command="wc -c", stdin="x" * (11 << 20))
    assert failed and result["error"]["code"] == "limit" and "no room" in result["error"]["message"], result
    assert "65536" not in result["stdout"]
