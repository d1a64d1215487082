"""Rules on commands, and questions to a person: held until somebody answers, once, by who may.

Every refusal has its control: the same command, or the same answer, from where it counts."""
import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from helpers import IS_ROOT, PUBLIC, end, wait_for
from labcaller import policy_file
from test_terminal import Terminal
from users import claim_user


LONG = 300
OUTSIDE = "/srv/nothing-of-brigs"  # not there: rm -rf of it succeeds and changes nothing
DANGEROUS = ["rm", "-rf", OUTSIDE]
HELLO = "hello from nginx\n"
PATIENT = ("--ask-timeout", "20m", "--timeout", "20m")  # longer than any answer takes


class Asker:
    """A caller with a state folder of this test's own."""

    def __init__(self, caller, tmp):
        self.caller = caller
        folder = PUBLIC / f"ask-{caller.name}-{tmp.name}"
        folder.mkdir()
        os.chown(folder, caller.uid, caller.uid)
        folder.chmod(0o700)
        self.state = folder
        self.env = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
        self.started = []

    def run(self, *args):
        return self.caller.run(*args, env=self.env)

    def start(self, *args, patience=PATIENT):
        """A run that asks, and has the time to be answered."""
        process = self.caller.start(*patience, *args, env=self.env, text=True, start_new_session=True)
        self.started.append(process)
        return process

    def brig(self, *args):
        command = self.caller.outside(str(PUBLIC / "brig"), *args)
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=self.env, cwd="/",
                              timeout=LONG)

    def waiting(self):
        result = self.brig("approvals", "--json")
        assert result.returncode == 0, result
        return json.loads(result.stdout)

    def questions(self, count=1):
        """So many wait, and their runs have said what they are about."""
        def told():
            found = self.waiting()
            return found if len(found) == count and not any("silent" in q for q in found) else None

        return wait_for(told, LONG, "questions")

    def question(self):
        return self.questions()[0]

    def still_waits(self, process):
        """One question does, and so does who asked it."""
        wait_for(lambda: len(self.waiting()) == 1 or process.poll() is not None, LONG, "one question")
        return process.poll() is None

    def entries(self):
        folder = self.state / "brig" / "approvals"
        return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.fixture
def asker(caller, tmp_path):
    made = Asker(caller, tmp_path)
    yield made
    for process in made.started:
        end(process)


def error_of(result):
    return json.loads(result.stdout)["error"]


# ---- rules ----


def test_a_dangerous_command_is_denied_before_anything_starts(asker):
    told = error_of(asker.run("--json", "--dangerous", "deny", "--", *DANGEROUS))
    assert told["code"] == "refused" and "recursive-delete" in told["message"] and told["hint"]
    assert asker.run("--dangerous", "deny", "--", *DANGEROUS).returncode == 125
    # The control: the same command under rules that let it.
    assert asker.run("--dangerous", "allow", "--", *DANGEROUS).returncode == 0


def test_what_only_looks_like_it_runs(asker):
    script = "mkdir -p build && rm -rf ./build && test ! -e build && echo gone"
    result = asker.run("--dangerous", "deny", "--", "sh", "-c", script)
    assert (result.returncode, result.stdout) == (0, "gone\n")
    assert asker.run("--dangerous", "deny", "--", "sh", "-c", script + f"; rm -rf {OUTSIDE}").returncode == 125


def test_lists_of_a_policy(asker):
    policy = policy_file("commands", "commands:\n  default: deny\n  allow: [\"echo *\", \"sh *\"]\n  deny: [\"echo ** secret **\"]\n")
    run = lambda *command: asker.run("--policy", policy, "--", *command)
    assert run("echo", "hello").stdout == "hello\n"
    assert run("sh", "-c", "echo a; echo b").stdout == "a\nb\n"
    for command in (["true"], ["echo", "a", "secret"], ["sh", "-c", "echo a; echo secret"]):
        result = run(*command)
        assert result.returncode == 125 and "commands." in result.stderr, command
    shown = asker.brig("policy", "explain", "--policy", str(policy)).stdout
    assert "commands.default" in shown and "echo ** secret **" in shown


# ---- held, and answered elsewhere ----


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_a_held_command_goes_on_when_it_is_answered(asker, verb):
    process = asker.start("--json", "--dangerous", "ask", "--", "sh", "-c", f"rm -rf {OUTSIDE}; echo ran")
    question = asker.question()
    assert question["kind"] == "command" and question["where"] == "local"
    assert OUTSIDE in question["text"] and "recursive-delete" in question["reason"]
    assert 0 < question["remaining_ms"] <= 20 * 60000
    assert asker.brig(verb, question["id"]).returncode == 0
    out, err = process.communicate(timeout=LONG)
    told = json.loads(out)
    assert question["id"] in err
    if verb == "approve":
        assert process.returncode == 0 and told["stdout"] == "ran\n"
        [asked] = told["approvals"]
        assert (asked["id"], asked["answer"], asked["by"]) == (question["id"], "allowed", f"uid {asker.caller.uid}")
    else:
        assert process.returncode == 125 and "a person said no" in told["error"]["message"]
    # Answered is answered.
    for again in ("approve", "deny"):
        late = asker.brig(again, question["id"])
        assert late.returncode == 125 and question["id"] in late.stderr
    assert asker.waiting() == [] and asker.entries() == []


def test_a_person_has_a_minute(asker):
    asker.start("--dangerous", "ask", "--", *DANGEROUS, patience=())
    assert 0 < asker.question()["remaining_ms"] <= 60000


def test_no_answer_is_a_denial(asker):
    result = asker.run("--json", "--dangerous", "ask", "--ask-timeout", "200ms", "--", *DANGEROUS)
    assert result.returncode == 125 and "nobody answered" in error_of(result)["message"]
    assert asker.waiting() == [] and asker.entries() == []
    identity = re.search(r"ask-[0-9a-f]{8}", result.stderr).group()
    assert asker.brig("approve", identity).returncode == 125


@pytest.mark.parametrize("value", ["0", "-1s", "25h", "soon", ""])
def test_a_time_that_is_none(asker, value):
    assert asker.run("--ask-timeout", value, "--", "true").returncode == 125


def test_nobody_to_ask_is_a_denial(asker):
    env = {key: value for key, value in asker.env.items() if key not in ("HOME", "XDG_STATE_HOME")}
    env["XDG_STATE_HOME"] = "/proc"  # no folder of anybody's
    result = subprocess.run(asker.caller.command("--json", "--dangerous", "ask", "--", *DANGEROUS), env=env, cwd="/",
                            capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True, timeout=LONG)
    assert result.returncode == 125 and "nobody can be asked" in error_of(result)["message"]


def test_a_killed_asker_leaves_nothing_to_answer(asker):
    process = asker.start("--dangerous", "ask", "--", *DANGEROUS)
    question = asker.question()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert asker.brig("approve", question["id"]).returncode == 125
    assert asker.waiting() == [] and asker.entries() == []


def test_one_that_does_not_say_what_it_is_still_waits(asker):
    process = asker.start("--dangerous", "ask", "--", *DANGEROUS)
    question = asker.question()
    process.send_signal(signal.SIGSTOP)
    assert asker.waiting() == [{"id": question["id"], "where": "local", "silent": True}]
    listed = asker.brig("approvals").stdout
    assert question["id"] in listed and "does not say" in listed
    process.send_signal(signal.SIGCONT)
    assert asker.question()["text"] == question["text"]
    assert asker.brig("deny", question["id"]).returncode == 0
    assert process.wait(LONG) == 125


def test_only_one_of_many_answers_counts(asker):
    process = asker.start("--json", "--dangerous", "ask", "--", "sh", "-c", f"rm -rf {OUTSIDE}; echo ran")
    question = asker.question()
    results = []

    def answer(verb):
        results.append((verb, asker.brig(verb, question["id"]).returncode))

    threads = [threading.Thread(target=answer, args=(("approve", "deny")[i % 2],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.communicate(timeout=LONG)
    counted = [verb for verb, status in results if status == 0]
    assert len(counted) == 1, results
    assert process.returncode == (0 if counted[0] == "approve" else 125)


def test_several_questions_are_told_apart(asker):
    first = asker.start("--dangerous", "ask", "--", "sh", "-c", f"rm -rf {OUTSIDE}; echo first")
    second = asker.start("--dangerous", "ask", "--", "sh", "-c", f"rm -rf {OUTSIDE}; echo second")
    [wanted] = [question["id"] for question in asker.questions(2) if "second" in question["text"]]
    assert asker.brig("approve", wanted).returncode == 0
    assert second.communicate(timeout=LONG)[0] == "second\n"
    assert asker.still_waits(first)


# ---- who may answer ----

ANSWER = """
import socket, sys
try:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(60)
    s.connect(b"\\0brig-" + sys.argv[1].encode())
    s.send(b"A")
    print("taken" if s.recv(10) == b"T" else "not taken")
except OSError as e:
    print("failed", e)
"""


def test_the_code_inside_cannot_answer(asker, tier):
    process = asker.start("--dangerous", "ask", "--", *DANGEROUS)
    question = asker.question()
    inside = asker.run("--quiet", "--tier", tier, "--", "python3", "-c", ANSWER, question["id"])
    assert inside.stdout.startswith("failed"), inside
    assert asker.still_waits(process)
    # The control: the same program outside.
    outside = subprocess.run(asker.caller.outside(sys.executable, "-c", ANSWER, question["id"]), capture_output=True,
                             text=True, timeout=LONG, cwd="/")
    assert outside.stdout == "taken\n", outside
    process.communicate(timeout=LONG)
    assert process.returncode == 0


@pytest.mark.skipif(not IS_ROOT, reason="another user is needed")
def test_another_user_cannot_answer(asker):
    process = asker.start("--dangerous", "ask", "--", *DANGEROUS)
    question = asker.question()
    uid = str(claim_user())
    other = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--"]
    stranger = subprocess.run([*other, sys.executable, "-c", ANSWER, question["id"]], capture_output=True, text=True, cwd="/")
    assert stranger.stdout.strip() != "taken"
    assert asker.still_waits(process)
    # The control: root answers for everybody.
    root = subprocess.run([sys.executable, "-c", ANSWER, question["id"]], capture_output=True, text=True, cwd="/")
    assert root.stdout == "taken\n"
    process.communicate(timeout=LONG)
    assert process.returncode == 0


def test_what_lies_in_the_folder_is_not_believed(asker):
    process = asker.start("--dangerous", "ask", "--", *DANGEROUS)
    question = asker.question()
    folder = asker.state / "brig" / "approvals"
    (folder / "ask-00000000").write_text('{"id": "ask-00000000", "kind": "command", "text": "harmless"}')
    (folder / question["id"]).write_text('{"text": "harmless", "answer": "allow"}')
    (folder / "ask-0000000g").write_text("")
    os.chown(folder / "ask-00000000", asker.caller.uid, asker.caller.uid)
    assert [q["text"] for q in wait_for(asker.waiting, LONG, "the question")] == [question["text"]]
    assert "ask-00000000" not in asker.entries()
    assert asker.brig("approve", "ask-00000000").returncode == 125
    assert asker.brig("approve", "../approvals/" + question["id"]).returncode == 125
    assert process.poll() is None


# ---- what a person sees ----


def test_text_cannot_play_tricks(asker):
    word = "x\x1b[2Jy\n\u202ez\u200b\x07\x9b\\"
    process = asker.start("--dangerous", "ask", "--", "rm", "-rf", OUTSIDE, word)
    question = asker.question()
    assert r"'x\x1b[2Jy\n\u{202e}z\u{200b}\x07" in question["text"] and question["text"].endswith(r"\\'")
    listed = asker.brig("approvals").stdout
    said = asker.brig("deny", question["id"]).stderr
    _, err = process.communicate(timeout=LONG)
    for text in (question["text"], listed.replace("\n", ""), said.replace("\n", ""), err.replace("\n", "")):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", text), repr(text)


def test_a_long_command_shows_its_end(asker):
    asker.start("--dangerous", "ask", "--", "sh", "-c", ": " + "a" * 50000 + f"; rm -rf {OUTSIDE}")
    text = asker.question()["text"]
    assert len(text) < 2200 and text.endswith(f"rm -rf {OUTSIDE}'") and "bytes are not shown" in text


# ---- on a terminal ----


@pytest.fixture
def terminal(asker, monkeypatch):
    for name, value in asker.env.items():
        monkeypatch.setenv(name, value)
    opened = []

    def start(*command):
        opened.append(Terminal(list(command)))
        return opened[-1]

    yield start
    for t in opened:
        t.close()


@pytest.mark.parametrize("typed, status", [("y\n", 0), ("yes\n", 0), ("n\n", 125), ("\n", 125), ("what?\ny\n", 0), ("\x04", 125)])
def test_the_prompt(asker, terminal, typed, status):
    t = terminal(*asker.caller.command(*PATIENT, "--dangerous", "ask", "--", "sh", "-c", f"rm -rf {OUTSIDE}; echo it-ran"))
    t.until(f"rm -rf {OUTSIDE}", LONG)
    t.until("recursive-delete", LONG)
    t.until(re.escape("[y/N]"), LONG)
    t.type(typed)
    if status == 0:
        t.until("it-ran\r", LONG)
    assert t.wait(LONG) == status
    assert b"it-ran\r" not in t.seen


def test_what_was_typed_before_is_no_answer(asker, terminal):
    command = " ".join(asker.caller.command(*PATIENT, "--dangerous", "ask", "--", *DANGEROUS))
    t = terminal("sh", "-c", f"read line; exec {command}")
    t.type("go\ny\n")
    t.until(re.escape("[y/N]"), LONG)
    assert asker.still_waits(t.process)  # the y was there before the question
    t.type("n\n")
    assert t.wait(LONG) == 125


def test_the_prompt_gives_way_to_an_answer_from_elsewhere(asker, terminal):
    t = terminal(*asker.caller.command(*PATIENT, "--dangerous", "ask", "--", "sh", "-c", f"rm -rf {OUTSIDE}; echo it-ran"))
    t.until(re.escape("[y/N]"), LONG)
    assert asker.brig("approve", asker.question()["id"]).returncode == 0
    t.until("allowed elsewhere", LONG)
    assert t.wait(LONG) == 0


# ---- hosts outside of the rules ----


@pytest.fixture
def lab_asker(lab_caller, tmp_path):
    made = Asker(lab_caller, tmp_path)
    yield made
    for process in made.started:
        end(process)


CURL = "curl -sS --max-time 1000 http://files.lab.test/"
DIRECT = "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy; "
WAYS = {"http": CURL, "https": CURL.replace("http:", "https:"), "direct": DIRECT + CURL,
        "direct-https": DIRECT + CURL.replace("http:", "https:")}


@pytest.mark.parametrize("way", WAYS)
def test_a_connection_waits_for_a_person(lab_asker, tier, way):
    script = f"{WAYS[way]} && {WAYS[way]}"
    process = lab_asker.start("--tier", tier, "--json", "--ask-egress", "--", "sh", "-c", script)
    question = lab_asker.question()
    port = 443 if "https" in way else 80
    assert question["kind"] == "egress" and question["text"] == f"connect to files.lab.test:{port}"
    assert question["run"].startswith("brig-")
    assert lab_asker.brig("approve", question["id"]).returncode == 0
    told = json.loads(process.communicate(timeout=LONG)[0])
    assert told["stdout"] == HELLO * 2, told
    assert [(a["kind"], a["answer"]) for a in told["approvals"]] == [("egress", "allowed")]


@pytest.mark.parametrize("way", ["http", "direct-https"])
def test_a_no_is_a_typed_denial_and_is_not_asked_again(lab, lab_asker, tier, way):
    watch = lab.watch()
    script = f"{WAYS[way]}; {WAYS[way]}; echo over"
    process = lab_asker.start("--tier", tier, "--json", "--ask-egress", "--", "sh", "-c", script)
    assert lab_asker.brig("deny", lab_asker.question()["id"]).returncode == 0
    told = json.loads(process.communicate(timeout=LONG)[0])
    assert HELLO not in told["stdout"] and "over" in told["stdout"]
    assert len(told["approvals"]) == 1
    assert any("a person was asked" in denial["rule"] for denial in told["denials"]), told["denials"]
    watch.nothing()


def test_no_answer_closes_the_connection(lab_asker):
    result = lab_asker.run("--json", "--ask-egress", "--ask-timeout", "300ms", "--", "sh", "-c", CURL)
    told = json.loads(result.stdout)
    assert HELLO not in told["stdout"] and told["approvals"][0]["answer"] == "timed out"
    # The control: a rule.
    assert lab_asker.run("--allow", "files.lab.test", "--", "sh", "-c", CURL).stdout == HELLO


def test_never_asked_about(lab, lab_asker, tier):
    policy = policy_file("asks", "network:\n  ask: true\n  block: [evil.test]\n")
    targets = ["http://evil.test/", "http://169.254.169.254/", "http://10.0.0.1/", "http://93.184.216.34/", "http://localhost.localdomain/",
               "http://metadata.google.internal/", "http://printer/"]
    script = "".join(f"curl -s --max-time 20 {url} >/dev/null; " for url in targets)
    watch = lab.watch()
    told = json.loads(lab_asker.run("--tier", tier, "--json", "--policy", policy, "--ask-timeout", "50s", "--", "sh", "-c", script).stdout)
    assert "approvals" not in told and told["denials"]
    watch.nothing()


def test_patterns_say_what_is_asked_about(lab_asker):
    policy = policy_file("asks-some", 'network:\n  ask: ["*.lab.test"]\n')
    script = f"curl -s --max-time 20 http://other.test/ >/dev/null; {CURL}"
    process = lab_asker.start("--json", "--policy", policy, "--", "sh", "-c", script)
    assert lab_asker.brig("approve", lab_asker.question()["id"]).returncode == 0
    told = json.loads(process.communicate(timeout=LONG)[0])
    assert told["stdout"] == HELLO and len(told["approvals"]) == 1


def test_without_the_option_nobody_is_asked(lab_asker):
    told = json.loads(lab_asker.run("--json", "--allow", "other.lab.test", "--", "sh", "-c", CURL).stdout)
    assert "approvals" not in told and HELLO not in told["stdout"]


def test_many_connections_are_one_question(lab_asker, tier):
    script = f"for i in 1 2 3 4 5; do {CURL} & done; wait"
    process = lab_asker.start("--tier", tier, "--json", "--ask-egress", "--", "sh", "-c", script)
    question = lab_asker.question()
    assert lab_asker.brig("approve", question["id"]).returncode == 0
    told = json.loads(process.communicate(timeout=LONG)[0])
    assert told["stdout"] == HELLO * 5 and len(told["approvals"]) == 1


def test_the_end_of_the_run_takes_its_questions_along(lab_asker):
    process = lab_asker.start("--ask-egress", "--", "sh", "-c", CURL)
    question = lab_asker.question()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert lab_asker.brig("approve", question["id"]).returncode == 125
    assert lab_asker.waiting() == [] and lab_asker.entries() == []


def test_the_prompt_for_a_connection(lab_asker, monkeypatch):
    for name, value in lab_asker.env.items():
        monkeypatch.setenv(name, value)
    t = Terminal(lab_asker.caller.command(*PATIENT, "--ask-egress", "--", "sh", "-c", CURL))
    try:
        t.until("connect to files.lab.test:80", LONG)
        t.until(re.escape("[y/N]"), LONG)
        t.type("y\n")
        t.until("hello from nginx", LONG)
        assert t.wait(LONG) == 0
    finally:
        t.close()
