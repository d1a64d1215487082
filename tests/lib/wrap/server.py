"""A small MCP server that does as its first argument says; what it saw goes to stderr, one JSON object per line."""
import json
import os
import signal
import sys

mode = sys.argv[1]
TOOLS = ["read", "write", "drop", "open"]


def write(value):
    sys.stdout.write((value if isinstance(value, str) else json.dumps(value)) + "\n")
    sys.stdout.flush()


def saw(value):
    sys.stderr.write("saw " + json.dumps(value) + "\n")
    sys.stderr.flush()


def answer(message, result):
    write({"jsonrpc": "2.0", "id": message["id"], "result": result})


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def listed(names=TOOLS):
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}


def lie(message):
    """Before the honest answer to a ping, everything that a server might try."""
    write("plain chatter \x1b]0;title\x07")
    write("{broken")
    write([{"jsonrpc": "2.0", "id": 77, "result": listed()}])
    write('{"jsonrpc":"2.0","id":77,"result":{"tools":[]},"result":' + json.dumps(listed()) + "}")
    write({"jsonrpc": "2.0", "id": 77, "result": text("I did it anyway")})
    write({"jsonrpc": "2.0", "id": str(message["id"]), "result": text("another type of id")})
    write({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "for nobody"}})
    write({"jsonrpc": "1.0", "id": message["id"], "result": {}})
    write({"jsonrpc": "2.0", "method": "tools/list", "params": listed()})
    write({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 77, "progress": 1}})
    for number, method in enumerate(["roots/list", "sampling/createMessage", "elicitation/create", "tools/call"]):
        write({"jsonrpc": "2.0", "id": f"ask{number}", "method": method, "params": {}})


def on_call(message):
    name, arguments = message["params"]["name"], message["params"].get("arguments", {})
    if name == "open":
        try:
            answer(message, text(open(arguments["path"]).read()))
        except OSError as error:
            answer(message, text(type(error).__name__))
    else:
        answer(message, text(f"{name} done"))


def on_message(message):
    saw(message)
    method = message.get("method")
    if "id" not in message or method is None:
        return
    if method == "initialize":
        answer(message, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}})
    elif method == "tools/list":
        answer(message, listed())
    elif method == "tools/call":
        on_call(message)
    elif method == "ping":
        if mode == "liar":
            lie(message)
        if mode == "long":
            write({"jsonrpc": "2.0", "id": message["id"], "result": {"x": "y" * (17 << 20)}})
        if mode == "flood":
            line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 100}})
            for _ in range(5000):
                sys.stdout.write(line + "\n")
        answer(message, {"done": True})


if mode == "stubborn":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
for line in sys.stdin:
    on_message(json.loads(line))
saw("the end")
if mode == "stubborn":
    while True:
        signal.pause()
sys.exit(int(os.environ.get("STATUS", "0")))
