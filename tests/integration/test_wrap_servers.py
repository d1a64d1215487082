"""`brig mcp --wrap` with published servers, driven by the published clients; and the set-up snippets of the documents."""
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import npmlib
import pytest
from helpers import CALLERS, PUBLIC, TOP


EVERYTHING = "/servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
FILESYSTEM = "/servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"


@pytest.fixture(scope="session")
def packages():
    return npmlib.install("mcp")


def drive(packages, command, *steps, sdk=1, **more):
    """One session: what each step gave."""
    plan = {"sdk": sdk, "command": command[0], "args": list(command[1:]), "steps": [list(step) for step in steps], **more}
    (PUBLIC / "home").mkdir(exist_ok=True)
    env = {**os.environ, "PATH": f"{PUBLIC}:/usr/local/bin:/usr/bin:/bin", "HOME": str(PUBLIC / "home")}
    said = subprocess.run([shutil.which("node"), "drive.mjs", json.dumps({**plan, "env": env})], cwd=packages, env=env, text=True,
                          capture_output=True, timeout=600)
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


def direct(packages, server, *arguments):
    return ["node", str(packages) + server.removeprefix("/servers"), *arguments]


def wrap(caller, packages, *options, server, arguments=()):
    return caller.outside(str(PUBLIC / "brig"), "mcp", "--wrap", "--ro", f"{packages}:/servers", *options, "--", "node", server,
                          *arguments)


# ---- server-everything ----

SUM = ("call", "get-sum", {"a": 2, "b": 3})


def test_control_everything_without_wrap(packages):
    found = drive(packages, direct(packages, EVERYTHING), ("list",), SUM, ("call", "get-roots-list"))
    assert len(found["steps"][0]) > 10
    assert "5" in found["steps"][1]["content"][0]["text"]
    assert "roots/list" in found["asked"] and "secret/place" in json.dumps(found["steps"][2])


def test_everything(caller, packages):
    sdk = 1 if caller is CALLERS[0] else 2
    options = ["--tool", "echo", "--tool", "get-sum:a=2", "--tool", "trigger-long-running-operation"]
    found = drive(packages, wrap(caller, packages, *options, server=EVERYTHING), ("list",), SUM, ("call", "get-sum", {"a": 3, "b": 3}),
                  ("call", "echo", {"message": "grüße \u2028 \"x\""}), ("call", "get-env"), ("resources",), ("prompts",), ("ping",),
                  ("progress", "trigger-long-running-operation", {"duration": 1, "steps": 4}), sdk=sdk)
    names, right, wrong, echo, env, resources, prompts, ping, operation = found["steps"]
    assert names == ["echo", "get-sum", "trigger-long-running-operation"]
    assert "5" in right["content"][0]["text"] and not right.get("isError")
    assert wrong["isError"] and "it is allowed as" in wrong["content"][0]["text"]
    assert echo["content"][0]["text"] == "Echo: grüße \u2028 \"x\""
    assert env["isError"] and env["_meta"]["brig/denial"]["by"] == "rule"
    assert resources > 0 and prompts > 0 and ping == {}
    assert found["progress"] == [1, 2, 3, 4] and not operation.get("isError")
    assert found["asked"] == []


def test_what_is_named_may_be_asked_of_the_client(packages):
    policy = PUBLIC / "everything.yaml"
    policy.write_text("tools: {allow: ['*'], callbacks: [roots, sampling]}\n")
    found = drive(packages, wrap(CALLERS[0], packages, "--policy", str(policy), server=EVERYTHING), ("call", "get-roots-list"),
                  ("call", "trigger-sampling-request", {"prompt": "p", "maxTokens": 10}))
    assert set(found["asked"]) == {"roots/list", "sampling/createMessage"}
    assert "sampled" in json.dumps(found["steps"][1])


# ---- server-filesystem ----

@pytest.fixture
def notes():
    folder = PUBLIC / "notes"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "private").mkdir(parents=True)
    (folder / "a.txt").write_text("the note")
    (folder / "private" / "b.txt").write_text("private")
    return folder


READ = "read_text_file"


def test_control_filesystem_without_wrap(packages, notes):
    found = drive(packages, direct(packages, FILESYSTEM, str(notes)), ("list",), ("call", READ, {"path": f"{notes}/a.txt"}),
                  ("call", READ, {"path": f"{notes}/private/b.txt"}), ("call", "write_file", {"path": f"{notes}/c.txt", "content": "x"}))
    assert {READ, "write_file", "list_directory"} <= set(found["steps"][0])
    assert "the note" in json.dumps(found["steps"][1]) and "private" in json.dumps(found["steps"][2])
    assert (notes / "c.txt").exists()


def test_filesystem(caller, packages, notes):
    options = ["--rw", f"{notes}:/notes", "--tool", f"{READ}:path=/notes/**", "--deny-tool", "*:path=**/private/**"]
    command = wrap(caller, packages, *options, server=FILESYSTEM, arguments=["/notes"])
    found = drive(packages, command, ("list",), ("call", READ, {"path": "/notes/a.txt"}), ("call", READ, {"path": "/notes/private/b.txt"}),
                  ("call", READ, {"path": "/notes/x/../private/b.txt"}), ("call", "write_file", {"path": "/notes/c.txt", "content": "x"}))
    names, note, private, around, written = found["steps"]
    assert names == [READ]
    assert "the note" in json.dumps(note)
    assert all(step["isError"] and "denied by brig" in json.dumps(step) for step in (private, around, written))
    assert not (notes / "c.txt").exists()
    assert "denied: tool" in found["stderr"]


def test_what_the_rules_let_through_the_walls_still_hold(packages, notes):
    command = wrap(CALLERS[-1], packages, "--ro", f"{notes}:/notes", "--tool", "*", server=FILESYSTEM, arguments=["/notes", "/"])
    found = drive(packages, command, ("call", "write_file", {"path": "/notes/c.txt", "content": "x"}),
                  ("call", READ, {"path": str(notes / "a.txt")}), ("call", READ, {"path": "/notes/a.txt"}))
    write, outside, inside = found["steps"]
    assert write["isError"] and not (notes / "c.txt").exists()
    assert outside["isError"] and "the note" not in json.dumps(outside)
    assert "the note" in json.dumps(inside)


# ---- the snippets of docs/mcp.md ----

PAGE = (TOP / "docs" / "mcp.md").read_text()
BLOCKS = [(kind, text) for kind, text in re.findall(r"^```(json|toml|sh)\n(.*?)^```", PAGE, re.S | re.M)]


def commands_in(value):
    """Every {command, args} of a configuration, however deep."""
    if isinstance(value, dict):
        if "command" in value:
            yield [value["command"], *value.get("args", [])]
        else:
            for inner in value.values():
                yield from commands_in(inner)


def command_of(kind, text):
    """The command that a client would start, read as that client reads it."""
    if kind == "json":
        found = list(commands_in(json.loads(text)))
    elif kind == "toml":
        found = list(commands_in(tomllib.loads(text)))
    else:
        words = shlex.split(text)
        if words[:2] == ["code", "--add-mcp"]:
            found = list(commands_in(json.loads(words[2])))
        else:
            assert words[0] in ("claude", "codex") and words[1:3] == ["mcp", "add"] and words[4] == "--", words
            found = [words[5:]]
    assert len(found) == 1, text
    return found[0]


CLIENTS = {"Claude Code": "mcpServers", "Claude Desktop": "mcpServers", "Cursor": "mcpServers", "Gemini CLI": "mcpServers", "Windsurf": "mcpServers",
           "VS Code": "servers", "Zed": "context_servers", "Codex CLI": "mcp_servers"}


def test_there_is_a_snippet_for_every_client():
    """The table names a form for each client, and the page has a snippet of each form."""
    table = {client: form for client, form in re.findall(r"^\| ([A-Z][^|]+) \| [^|]+ \| `(\w+)`[^|]* \|$", PAGE, re.M)}
    assert table == CLIENTS
    forms = {next(iter({"json": json.loads, "toml": tomllib.loads}[kind](text))) for kind, text in BLOCKS if kind != "sh"}
    assert forms == set(CLIENTS.values())
    assert {shlex.split(text)[0] for kind, text in BLOCKS if kind == "sh"} == {"claude", "codex", "code"}


STARTED = {}  # by command: the same words need not be started twice


@pytest.mark.parametrize("kind, text", BLOCKS, ids=[f"{i}-{kind}" for i, (kind, _) in enumerate(BLOCKS)])
def test_a_snippet_starts_a_server(packages, notes, kind, text):
    command = command_of(kind, text)
    assert command[:2] == ["brig", "mcp"]
    if tuple(command) not in STARTED:
        # Of the reader's own machine there are two things: a folder of notes, and where npm has put the server.
        here = {"/home/me/notes:/notes": [f"{notes}:/notes"], "mcp-server-filesystem": ["node", FILESYSTEM],
                "--wrap": ["--wrap", "--ro", f"{packages}:/servers"]}
        STARTED[tuple(command)] = drive(packages, [word for old in command for word in here.get(old, [old])], ("list",), ("server",))
    names, server = STARTED[tuple(command)]["steps"]
    if "--wrap" in command:
        assert names == ["list_directory", "read_text_file"]
    else:
        assert "run_code" in names and server["name"] == "brig"


def test_the_policy_of_the_page_is_one(tmp_path):
    text = re.search(r"^```yaml\n(.*?)^```", PAGE, re.S | re.M)[1]
    Path(tmp_path / "p.yaml").write_text(text)
    said = subprocess.run([str(PUBLIC / "brig"), "policy", "check", str(tmp_path / "p.yaml")], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
