"""Rules on commands in `brig serve`: checked by the front, asked of operators, recorded.

Every refusal has its control in the same daemon: the same command where the rules let it."""
import json
import subprocess
import threading

import pytest
from daemonlib import IS_ROOT, USERS, Daemon, Result, frames, program, wait_for

LONG = 300
OUTSIDE = "/srv/nothing-of-brigs"
TEMPLATES = {
    "asks.yaml": 'policy: {commands: {dangerous: ask, deny: ["curl **"]}}\n',
    "denies.yaml": "policy: {commands: {dangerous: deny}}\n",
    "free.yaml": "description: no rules\n",
}


@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    with Daemon(request.param, templates=TEMPLATES) as made:
        made.agent = made.add_key("agent")
        yield made


@pytest.fixture
def box(daemon):
    made = daemon.create("asks", key=daemon.agent)
    yield made
    made.kill()


class Held(threading.Thread):
    """A process start that waits."""

    def __init__(self, box, *argv):
        super().__init__()
        self.box, self.argv, self.result = box, argv, None
        self.start()

    def run(self):
        connection, response = self.box.begin(*self.argv, timeout=LONG)
        self.status, data = response.status, response.read()
        self.result = Result(frames(data))
        connection.close()

    def done(self):
        self.join(LONG)
        assert not self.is_alive()
        return self.result


def waiting(daemon, box=None, key=True):
    answer = daemon.request("GET", "/approvals", key=key)
    assert answer.status == 200, answer
    return [q for q in answer.json if not box or q["sandboxID"] == box.id]


def question(daemon, box):
    return wait_for(lambda: waiting(daemon, box), LONG, "a question")[0]


def answer(daemon, identity, decision, key=True):
    return daemon.request("POST", f"/approvals/{identity}", {"decision": decision}, key=key)


def records(daemon, kind):
    told = daemon.request("GET", f"/audit?kind={kind}&limit=1000")
    assert told.status == 200, told
    found = told.json
    return found["records"] if isinstance(found, dict) else found


def test_what_is_denied_is_not_started(daemon):
    denies, free = daemon.create("denies"), daemon.create("free")
    command = f"rm -rf {OUTSIDE}; echo ran"
    refused = denies.sh(command)
    assert refused.error["code"] == "permission_denied" and "recursive-delete" in refused.error["message"], refused
    assert refused.pid is None
    assert denies.sh("mkdir -p build; rm -rf ./build; echo ran").out == b"ran\n"
    assert free.sh(command).out == b"ran\n"  # the control
    for made in (denies, free):
        made.kill()


def test_a_list_denies_too(daemon, box):
    assert "commands.deny: curl **" in box.run("curl", "x").error["message"]
    assert box.run("echo", "curl").out == b"curl\n"


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_held_start_goes_on_when_an_operator_answers(daemon, box, decision):
    held = Held(box, "/bin/sh", "-c", f"rm -rf {OUTSIDE}; echo ran")
    asked = question(daemon, box)
    assert asked["kind"] == "command" and OUTSIDE in asked["text"] and "recursive-delete" in asked["reason"]
    assert 0 < asked["remaining_ms"] <= 60000
    told = answer(daemon, asked["id"], decision)
    assert told.status == 200 and told.json["answer"] == ("allowed" if decision == "approve" else "denied")
    result = held.done()
    if decision == "approve":
        assert result.out == b"ran\n" and result.status == 0
    else:
        assert result.error["code"] == "permission_denied" and "a person said no" in result.error["message"]
    # Once is once.
    assert answer(daemon, asked["id"], "approve").status == 404
    assert waiting(daemon, box) == []


def test_an_agents_key_sees_and_cannot_answer(daemon, box):
    other = daemon.add_key("other")
    held = Held(box, "rm", "-rf", OUTSIDE)
    asked = question(daemon, box)
    assert [q["id"] for q in waiting(daemon, key=daemon.agent)] == [asked["id"]]
    assert waiting(daemon, key=other) == []
    for key in (daemon.agent, other):
        assert answer(daemon, asked["id"], "approve", key).status == 403
    assert daemon.request("POST", f"/approvals/{asked['id']}", {"decision": "approve"}, key=None).status == 401
    assert box.request("POST", f"/approvals/{asked['id']}", {"decision": "approve"}).status in (401, 404)
    assert len(waiting(daemon, box)) == 1
    # The control: the operator's key.
    assert answer(daemon, asked["id"], "approve").status == 200
    assert held.done().status == 0


@pytest.mark.parametrize("body", [{}, {"decision": "yes"}, {"decision": 1}, {"decision": "approve", "more": 1}, []])
def test_what_is_no_answer(daemon, box, body):
    held = Held(box, "rm", "-rf", OUTSIDE)
    asked = question(daemon, box)
    assert daemon.request("POST", f"/approvals/{asked['id']}", body).status == 400
    assert len(waiting(daemon, box)) == 1
    assert answer(daemon, asked["id"], "deny").status == 200
    held.done()


def test_unknown_questions(daemon):
    for identity in ("ask-00000000", "x", "ask-0000000g"):
        assert answer(daemon, identity, "approve").status == 404


def test_the_end_of_the_sandbox_is_the_end_of_its_questions(daemon):
    box = daemon.create("asks")
    held = Held(box, "rm", "-rf", OUTSIDE)
    asked = question(daemon, box)
    assert box.kill() == 204
    assert held.done().error
    assert answer(daemon, asked["id"], "approve").status == 404


def test_a_client_that_left_gets_nothing_started(daemon, box):
    connection = daemon.connection(LONG)
    headers = box.headers(**{"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"})
    script = f"rm -rf {OUTSIDE}; echo ran > /tmp/proof"
    connection.request("POST", "/process.Process/Start", box.start_body(["/bin/sh", "-c", script]), headers)
    asked = question(daemon, box)
    connection.close()
    wait_for(lambda: waiting(daemon, box) == [], LONG, "the question is withdrawn")
    assert answer(daemon, asked["id"], "approve").status == 404
    assert box.sh("test -e /tmp/proof || echo nothing").out == b"nothing\n"


def test_only_one_of_many_answers_counts(daemon, box):
    held = Held(box, "/bin/sh", "-c", f"rm -rf {OUTSIDE}; echo ran")
    asked = question(daemon, box)
    results = []
    threads = [threading.Thread(target=lambda d=d: results.append((d, answer(daemon, asked["id"], d).status)))
               for d in ("approve", "deny") * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [counted] = [decision for decision, status in results if status == 200]
    assert (held.done().out == b"ran\n") == (counted == "approve")


def test_events_tell_questions_and_answers(daemon, box):
    def events(key):
        connection = daemon.connection(LONG)
        daemon.send(connection, "GET", "/events", key=key)
        response = connection.getresponse()
        assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
        assert response.readline() == b": brig\n"
        return connection, response

    def next_event(response):
        kind = None
        while True:
            line = response.readline()
            assert line, "the stream ended"
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                return kind, json.loads(line[6:])

    readers = [events(True), events(daemon.agent)]
    held = Held(box, "rm", "-rf", OUTSIDE)
    asked = question(daemon, box)
    for _, response in readers:
        kind, data = next_event(response)
        assert kind == "approval" and data["id"] == asked["id"]
    late = events(True)  # who comes late hears of what waits
    assert next_event(late[1])[1]["id"] == asked["id"]
    assert answer(daemon, asked["id"], "approve").status == 200
    for _, response in [*readers, late]:
        kind, data = next_event(response)
        assert kind == "answer" and (data["id"], data["answer"]) == (asked["id"], "allowed")
    held.done()
    for connection, _ in [*readers, late]:
        connection.close()


def test_questions_and_answers_are_recorded_without_arguments(daemon, box):
    held = Held(box, "rm", "-rf", OUTSIDE, "--", "private-word")
    asked = question(daemon, box)
    assert answer(daemon, asked["id"], "deny").status == 200
    held.done()
    box.run("curl", "private-word")

    def found(kind, **detail):
        return [r for r in records(daemon, kind) if r.get("box") == box.id and detail.items() <= r["detail"].items()]

    wait_for(lambda: found("approval.asked", id=asked["id"], program="rm"), LONG, "the question's record")
    [told] = wait_for(lambda: found("approval.answered", id=asked["id"]), LONG, "the answer's record")
    assert told["detail"]["answer"] == "denied" and told["key"].startswith("k_")
    wait_for(lambda: found("command.refused", program="curl"), LONG, "the refusal's record")
    everything = daemon.request("GET", f"/audit?box={box.id}&limit=1000").body
    assert b"private-word" not in everything and b"approval.asked" in everything


def test_text_is_fit_to_be_shown(daemon, box):
    held = Held(box, "rm", "-rf", OUTSIDE, "\x1b[2J\u202e")
    asked = question(daemon, box)
    assert r"\x1b[2J\u{202e}" in asked["text"]
    assert answer(daemon, asked["id"], "deny").status == 200
    held.done()


def test_the_verbs_reach_the_daemon(daemon, box):
    def brig(*args):
        command = [program(), *args, "--host", f"unix:{daemon.socket}", "--key-file", str(daemon.key_file)]
        if daemon.uid != 0 and IS_ROOT:
            command = ["setpriv", "--reuid", str(daemon.uid), "--regid", str(daemon.uid), "--clear-groups", "--", *command]
        return subprocess.run(command, capture_output=True, text=True, timeout=LONG, cwd="/",
                              env={"PATH": "/usr/bin:/bin", "HOME": str(daemon.folder)})

    held = Held(box, "/bin/sh", "-c", f"rm -rf {OUTSIDE}; echo ran")
    asked = question(daemon, box)
    listed = [q for q in json.loads(brig("approvals", "--json").stdout) if q["run"] == box.id]
    assert [(q["id"], q["where"]) for q in listed] == [(asked["id"], "daemon")]
    assert asked["id"] in brig("approvals").stdout
    assert brig("approve", asked["id"]).returncode == 0
    assert held.done().out == b"ran\n"
    assert brig("deny", asked["id"]).returncode == 125
