"""Signed receipts: verified by brig and once more by Python and openssl; every value changed; many runs at once; killed anywhere."""
import base64
import copy
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest

from daemonlib import USERS, Daemon, program
from helpers import ANY, PUBLIC, TOP, Caller, end, find_below, wait_for


SCHEMA = jsonschema.Draft202012Validator(json.loads((TOP / "docs" / "receipt.schema.json").read_text()))


class Home(Caller):
    """A caller with a state folder of his own."""

    def __init__(self, caller):
        super().__init__(caller.name, *caller.options)
        self.folder = Path(tempfile.mkdtemp(prefix="test-brig-receipts-"))
        os.chown(self.folder, self.uid, self.uid)
        self.audit = self.folder / "brig" / "receipts" / "audit"
        self.chain = self.audit / "runs.jsonl"

    def outside(self, *command):
        return super().outside("env", f"XDG_STATE_HOME={self.folder}", *command)

    def brig(self, *args, **kwargs):
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.outside(str(PUBLIC / "brig"), *map(str, args)), capture_output=True, text=True, cwd="/",
                              timeout=300, **kwargs)

    def receipt(self, *args, name="r.json", **kwargs):
        path = self.folder / name
        result = self.run("--quiet", "--receipt", path, *args, **kwargs)
        assert path.exists(), result
        return path

    def verify(self, path, *args):
        return self.brig("receipt", "verify", path, *args)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        path.chmod(0o644)
        return path

    def lines(self):
        """Those that are complete: the last may be on its way."""
        text = self.chain.read_text() if self.chain.exists() else ""
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def records(self):
        return [line["record"] for line in self.lines() if "record" in line]


@pytest.fixture
def home(caller):
    made = Home(caller)
    yield made
    shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def one():
    """A home with one receipt, for those who only read."""
    made = Home(ANY)
    made.path = made.receipt("--", "sh", "-c", "echo out; echo err >&2; cat", input="in\n")
    yield made
    shutil.rmtree(made.folder)


# ---- what it says ----

def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_what_went_in_and_came_out(home, tier):
    command = ["sh", "-c", "cat; echo bad >&2; exit 3"]
    path = home.receipt("--tier", tier, "--", *command, input="hello\n")
    told = json.loads(path.read_text())
    SCHEMA.validate(told)
    assert told["inputs"] == {"command": sha(b"".join(word.encode() + b"\0" for word in command)),
                              "stdin": {"bytes": 6, "hash": sha(b"hello\n")}}
    assert told["outputs"] == {"stdout": {"bytes": 6, "hash": sha(b"hello\n")}, "stderr": {"bytes": 4, "hash": sha(b"bad\n")}}
    assert told["verdict"]["exit_code"] == 3 and told["signed"] is True
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_code_is_told_from_input(home):
    told = json.loads(home.receipt("--lang", "python", "-", input="print(6*7)\n").read_text())
    assert told["inputs"]["code"] == {"bytes": 11, "hash": sha(b"print(6*7)\n")} and "stdin" not in told["inputs"]
    assert told["outputs"]["stdout"]["hash"] == sha(b"42\n")


def test_output_over_the_limit_is_hashed_as_far_as_it_was_let_through(home):
    told = home.json("--output", "1000", "--", "head", "-c", "5000", "/dev/zero")
    assert told["stdout_truncated"] and told["receipt"]["outputs"]["stdout"] == {"bytes": 1000, "hash": sha(bytes(1000))}


def test_denials_are_decisions(home):
    told = home.json("--", "unshare", "--user", "true")
    assert told["denials"] and told["receipt"]["decisions"]["denials"] == told["denials"]
    SCHEMA.validate(told["receipt"])


def test_the_member_of_json_is_a_receipt(home):
    told = home.json("--pretty", "--", "true")
    SCHEMA.validate(told["receipt"])
    good = home.verify(home.write("again.json", told["receipt"]))
    assert good.returncode == 0 and "good" in good.stdout, good
    shown = home.brig("receipt", "show", home.write("whole.json", told))
    assert shown.returncode == 0 and told["sandbox_id"] in shown.stdout and "not verified here" in shown.stdout


def test_the_schema_refuses(one):
    """Control: a schema that takes everything would prove nothing."""
    told = json.loads(one.path.read_text())
    for change in ({"version": 1}, {"signed": False}, {"more": 1}, {"policy_hash": "md5:00"}, {"boundaries": {}}):
        with pytest.raises(jsonschema.ValidationError):
            SCHEMA.validate({**told, **change})


# ---- verified by somebody else ----

def openssl_verify(folder, pem, message, value):
    (folder / "pem").write_text(pem)
    (folder / "message").write_bytes(message)
    (folder / "value").write_bytes(value)
    return subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", folder / "pem", "-rawin", "-in", folder / "message",
                           "-sigfile", folder / "value"], capture_output=True).returncode == 0


def test_verified_without_brig(home, tmp_path):
    text = home.receipt("--", "true").read_text()
    pem = home.brig("receipt", "key").stdout
    body = text.rsplit(',"signature":', 1)[0] + "}"
    proof = json.loads(text)["signature"]
    record, checkpoint = (re.search(rf'"{name}":({{.*?}})(?=,"(?:key":"sha|value))', text).group(1) for name in ("record", "checkpoint"))
    assert json.loads(record) == proof["record"] and json.loads(checkpoint) == proof["checkpoint"]
    assert proof["record"]["detail"]["receipt"] == sha(body.encode())
    digest = hashlib.sha256(record.encode()).digest()
    assert proof["checkpoint"]["hash"] == hashlib.sha256(b"brig audit v1\n" + bytes.fromhex(proof["previous"]) + digest).hexdigest()
    der = base64.b64decode("".join(pem.splitlines()[1:-1]))
    assert proof["key"] == sha(der)
    value = bytes.fromhex(proof["value"])
    assert openssl_verify(tmp_path, pem, b"brig audit checkpoint v1\n" + checkpoint.encode(), value)
    assert not openssl_verify(tmp_path, pem, b"brig audit checkpoint v2\n" + checkpoint.encode(), value), "control"


def test_offline_with_the_public_key_alone(home, tmp_path):
    path = home.receipt("--", "true")
    key = home.write("signing.pub", home.brig("receipt", "key").stdout)
    stranger = Home(ANY)
    try:
        for file in (path, key):
            shutil.copy(file, stranger.folder / file.name)
            os.chown(stranger.folder / file.name, stranger.uid, stranger.uid)
        there = stranger.folder / path.name
        good = stranger.verify(there, "--key", stranger.folder / "signing.pub")
        assert good.returncode == 0, good
        assert not stranger.audit.exists(), "nothing was made"
        bad = stranger.verify(there)
        assert bad.returncode == 1 and "no key of this installation" in bad.stdout, bad
        stranger.receipt("--", "true", name="own.json")
        own = stranger.write("own.pub", stranger.brig("receipt", "key").stdout)
        other = stranger.verify(there, "--key", own)
        assert other.returncode == 1 and "another key" in other.stdout, other
    finally:
        shutil.rmtree(stranger.folder)


# ---- tampering ----

def places(value, path=()):
    """Every value of a tree: (path, value)."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from places(inner, (*path, i))


def changed(tree, path, fn):
    tree = copy.deepcopy(tree)
    inner = tree
    for step in path[:-1]:
        inner = inner[step]
    fn(inner, path[-1])
    return tree


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if not value.endswith("0") else "1") if value else "x"
    return {"x": 1} if value != {"x": 1} else None


def set_other(inner, key):
    inner[key] = other(inner[key])


def remove(inner, key):
    del inner[key]


def verify_all(home, texts):
    """brig receipt verify on each of many texts, some at a time."""
    def one(i_text):
        path = home.write(f"t{i_text[0]}.json", i_text[1])
        result = home.verify(path, "--key", home.folder / "signing.pub")
        path.unlink()
        return result.returncode
    home.write("signing.pub", home.brig("receipt", "key").stdout)
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(one, enumerate(texts)))


def test_every_value_is_covered(one):
    told = json.loads(one.path.read_text())
    all_places = list(places(told))
    assert len(all_places) > 90
    texts = [json.dumps(told)]
    texts += [json.dumps(changed(told, path, set_other)) for path, _ in all_places]
    texts += [json.dumps(changed(told, path, remove)) for path, _ in all_places]
    status = verify_all(one, texts)
    assert status[0] == 0, "control: untouched it is good"
    missed = [all_places[i % len(all_places)][0] for i, s in enumerate(status[1:]) if s != 1]
    assert not missed


def test_every_part_of_the_text_is_covered(one):
    """Bytes flipped all over the file, and the file cut off."""
    text = one.path.read_bytes()
    steps = range(0, len(text) - 1, 41)
    texts = [(text[:i] + bytes([text[i] ^ 1]) + text[i + 1:]).decode("latin-1") for i in steps]
    texts += [text[:i].decode("latin-1") for i in range(0, len(text) - 1, 797)]
    status = verify_all(one, [text.decode(), *texts])
    assert status[0] == 0 and set(status[1:]) == {1}


def test_lists_are_ordered_and_members_are_not(home):
    told = home.json("--", "sh", "-c", "unshare --user true; mount -t tmpfs x /tmp; true")["receipt"]
    denials = told["decisions"]["denials"]
    assert len(denials) > 1, "control: there is an order to change"
    turned = copy.deepcopy(told)
    turned["decisions"]["denials"].reverse()
    assert home.verify(home.write("turned.json", turned)).returncode == 1
    sorted_anew = dict(reversed(list(told.items())))
    assert list(sorted_anew) != list(told)
    assert home.verify(home.write("anew.json", json.dumps(sorted_anew, indent=4))).returncode == 0


@pytest.mark.parametrize("spoil", [
    lambda t: t.replace('"tier":', '"tier":"process","tier":', 1), lambda t: t + "{}", lambda t: t + "x",
    lambda t: t.replace('"bytes":4', '"bytes":4.0', 1), lambda t: "[" + t + "]", lambda t: "", lambda t: "null",
    lambda t: t.replace('"signed":true', '"signed":false'), lambda t: t.replace('"signed":true', '"signed":true,"why_not_signed":"x"'),
    lambda t: t.replace('"algorithm":"ed25519"', '"algorithm":"none"'), lambda t: t.replace('"algorithm"', '"more":1,"algorithm"')],
    ids=["twice", "behind", "text", "fraction", "list", "empty", "null", "unsigned", "both", "algorithm", "member"])
def test_what_is_no_receipt(one, spoil):
    text = one.path.read_text()
    assert spoil(text) != text
    bad = one.verify(one.write("bad.json", spoil(text)))
    assert bad.returncode == 1 and "NOT GOOD" in bad.stdout, bad


def test_a_receipt_of_another_run_does_not_lend_its_signature(home):
    first, second = (json.loads(home.receipt("--", "sh", "-c", f"exit {i}", name=f"{i}.json").read_text()) for i in (1, 2))
    mixed = {**first, "signature": second["signature"]}
    bad = home.verify(home.write("mixed.json", mixed))
    assert bad.returncode == 1 and "not what its record stands for" in bad.stdout


# ---- the chain ----

def audit(home, *args):
    return home.brig("audit", "verify", "--runs", *args)


def fill(home, count=4):
    return [json.loads(home.receipt("--", "true", name=f"f{i}.json").read_text()) for i in range(count)]


def test_the_chain_has_every_receipt(home):
    made = fill(home)
    records = home.records()
    assert [r["seq"] for r in records] == [1, 2, 3, 4] and {r["kind"] for r in records} == {"run.receipt"}
    assert [r["box"] for r in records] == [m["sandbox_id"] for m in made]
    assert [m["signature"]["record"] for m in made] == records
    good = audit(home, "--json")
    assert good.returncode == 0 and json.loads(good.stdout)["records"] == 4
    both = home.brig("audit", "verify")
    assert "receipts of brig run: good: 4 records" in both.stdout, both
    shown = home.brig("audit", "tail", "--runs", "-n", "2")
    assert shown.stdout.count("run.receipt") == 2 and made[3]["sandbox_id"] in shown.stdout
    assert made[1]["sandbox_id"] in home.brig("audit", "show", "--runs", "2").stdout
    exported = home.folder / "export.jsonl"
    assert home.brig("audit", "export", "--runs", "-o", exported).returncode == 0
    key = home.write("signing.pub", home.brig("receipt", "key").stdout)
    assert home.brig("audit", "verify", "--export", exported, "--public-key", key).returncode == 0


def without(n):
    """The record n and its checkpoint are gone."""
    return lambda lines: lines[:2 * n - 1] + lines[2 * n + 1:]


def swap(lines):
    return [lines[0], *lines[3:5], *lines[1:3], *lines[5:]]


@pytest.mark.parametrize("change", [
    without(2), without(1), without(4), swap, lambda l: l[:-1], lambda l: l[1:], lambda l: [l[0]], lambda l: [], lambda l: [*l, l[-1]],
    lambda l: [*l[:3], *l[1:]], lambda l: [*l[:3], l[3].replace('"tier":"container"', '"tier":"process"'), *l[4:]],
    lambda l: [*l[:4], l[2], *l[5:]]],
    ids=["middle", "first", "last", "order", "checkpoint", "beginning", "all", "empty", "twice", "inserted", "edited", "signature"])
def test_a_changed_chain_is_found(home, change):
    fill(home)
    lines = home.chain.read_text().splitlines()
    assert audit(home).returncode == 0, "control"
    new = change(lines)
    assert new != lines
    home.chain.write_text("".join(line + "\n" for line in new))
    bad = audit(home)
    assert bad.returncode == 1 and "NOT GOOD" in bad.stdout, bad


def test_an_end_that_is_cut_off_is_not_continued(home):
    """Within one boot a missing end is no accident: with --receipt nothing runs, with --json it is said."""
    fill(home, 2)
    lines = home.chain.read_text().splitlines()
    home.chain.write_text("".join(line + "\n" for line in without(2)(lines)))
    refused = home.run("--receipt", home.folder / "no.json", "--", "sh", "-c", "echo RAN")
    assert refused.returncode == 125 and "not as it was left" in refused.stderr
    told = home.json("--", "true")["receipt"]
    assert told["signed"] is False and "cut off" in told["why_not_signed"] and "signature" not in told
    SCHEMA.validate(told)
    assert home.verify(home.write("unsigned.json", told)).returncode == 1
    # After a restart of the machine it is one: it is said, for ever, and the chain goes on.
    (home.audit / "boot").write_text("00000000-0000-0000-0000-000000000000")
    home.receipt("--", "true", name="after.json")
    lost = [r for r in home.records() if r["kind"] == "audit.lost"]
    assert [(r["detail"]["first"], r["detail"]["last"]) for r in lost] == [(2, 2)]
    assert audit(home).returncode == 0


def test_an_older_chain_is_found_by_a_receipt(home):
    fill(home, 2)
    kept = home.folder / "kept"
    shutil.copytree(home.audit, kept)
    place = fill(home, 1)[0]["signature"]["checkpoint"]
    expect = f"{place['seq']}:{place['hash']}"
    assert audit(home, "--expect", expect).returncode == 0, "control"
    for file in kept.iterdir():
        shutil.copy(file, home.audit / file.name)
    assert audit(home).returncode == 0, "the folder alone does not know"
    bad = audit(home, "--expect", expect)
    assert bad.returncode == 1 and "was there and is missing" in bad.stdout


def test_half_a_line_is_cut_off_by_the_next(home):
    fill(home, 2)
    for tail in (b'{"hash":"00', b"\n", b'{"hash":"' + b"0" * 64 + b'","record":{}}\n', b"\0" * 300):
        with home.chain.open("ab") as file:
            file.write(tail)
        assert audit(home).returncode == 1, "control: it is there"
        home.receipt("--", "true", name="x.json")
        assert audit(home).returncode == 0
    assert [r["seq"] for r in home.records()] == [1, 2, 3, 4, 5, 6]


# ---- many at once, and killed ----

def test_many_at_once(home):
    count = 20
    runs = [home.start("--quiet", "--receipt", home.folder / f"m{i}.json", "--", "sh", "-c", f"exit {i}") for i in range(count)]
    for i, run in enumerate(runs):
        out, err = run.communicate(timeout=3000)
        assert run.returncode == i, err
    told = [json.loads((home.folder / f"m{i}.json").read_text()) for i in range(count)]
    assert sorted(t["signature"]["record"]["seq"] for t in told) == list(range(1, count + 1))
    assert [t["verdict"]["exit_code"] for t in told] == list(range(count))
    assert audit(home).returncode == 0 and len(home.records()) == count


def test_the_supervisor_is_killed(home):
    run = home.start("--json", "--timeout", "20m", "--", "sleep", "1000")
    find_below(run.pid, "sleep")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    lost = wait_for(lambda: [r for r in home.records() if r["kind"] == "run.lost"])
    assert len(lost) == 1 and lost[0]["box"].startswith("brig-")
    assert audit(home).returncode == 0
    # Control: a run that could not be started leaves nothing.
    assert home.run("--json", "--", "/no/such/program").returncode == 127
    assert home.json("--", "true")["receipt"]["signature"]["record"]["seq"] == 2, home.records()


def test_the_notary_is_killed(home):
    """While the code runs: with --json the receipt says so; with --receipt there is none and the status says so."""
    for options, check in ((["--json"], lambda run, out: json.loads(out)["receipt"]["signed"] is False and run.returncode == 0),
                           (["--receipt", home.folder / "k.json"], lambda run, out: run.returncode == 125 and not (home.folder / "k.json").exists())):
        run = home.start(*options, "--timeout", "20m", "--", "cat", stdin=subprocess.PIPE)
        find_below(run.pid, "cat")
        os.kill(find_below(run.pid, "brig-notary"), signal.SIGKILL)
        out, err = run.communicate(b"", timeout=300)
        assert check(run, out), (out, err)
    home.receipt("--", "true")
    assert audit(home).returncode == 0


INJECT = ["openat", "pwrite64", "ftruncate", "renameat", "write", "fcntl", "sendmsg", "recvmsg", "linkat", "unlinkat", "fsync"]


@pytest.mark.parametrize("call", INJECT)
def test_the_notary_is_killed_at_every_call(call):
    """strace kills it when it enters the nth such call, for every n, until it lives through all of them; the chain stands."""
    from notarylib import Notary
    home = Home(ANY)
    try:
        receipt = json.loads(home.receipt("--", "true").read_text())
        body = {k: v for k, v in receipt.items() if k not in ("signature", "signed")}
        survived = False
        for n in range(1, 80):
            before = len(home.records())
            fresh = n % 2 == 0
            place = Home(ANY) if fresh else home
            if fresh:
                (place.audit.parent).mkdir(parents=True)
                for folder in (place.folder / "brig", place.audit.parent):
                    folder.chmod(0o700)
                    os.chown(folder, place.uid, place.uid)
            notary = Notary(place.audit.parent, ANY, ["strace", "-qq", "-o", "/dev/null", "-e", f"inject={call}:signal=KILL:when={n}"])
            answer = notary.sign(body)
            survived = notary.end() == 0
            if fresh:
                # Whatever was made is continued.
                place.receipt("--", "true")
                assert audit(place).returncode == 0, (call, n)
                shutil.rmtree(place.folder)
            else:
                after = home.records()
                assert len(after) - before in (0, 1)
                if answer:
                    assert len(after) - before == 1 and after[-1]["seq"] == answer["record"]["seq"]
                home.receipt("--", "true")
                assert audit(home).returncode == 0, (call, n)
                if survived:
                    break
        assert survived, "control: killed at no call it signs"
    finally:
        shutil.rmtree(home.folder)


# ---- where there is no place for it ----

def test_without_a_folder_nothing_is_run_or_it_is_said(home):
    ran = home.folder / "ran"
    home.folder.chmod(0o777)  # others may write here: no place for a key
    refused = home.run("--receipt", "/dev/null", "--", "true")
    home.folder.chmod(0o700)
    assert (home.folder / "brig").exists() or refused.returncode in (0, 125)
    blocked = Home(home)
    try:
        (blocked.folder / "brig").write_text("a file where the folder shall be")
        refused = blocked.run("--receipt", blocked.folder / "no.json", "--", "sh", "-c", "echo RAN")
        assert refused.returncode == 125 and "RAN" not in refused.stdout and "receipt" in refused.stderr
        assert not (blocked.folder / "no.json").exists() and not ran.exists()
        told = blocked.json("--", "echo", "RAN")
        assert told["stdout"] == "RAN\n" and told["receipt"]["signed"] is False and told["receipt"]["why_not_signed"]
    finally:
        shutil.rmtree(blocked.folder)


def test_without_the_program_nothing_is_run_or_it_is_said(home):
    alone = home.folder / "alone"
    alone.mkdir()
    shutil.copy(PUBLIC / "brig", alone / "brig")
    home.folder.chmod(0o755)
    alone.chmod(0o755)
    result = subprocess.run(home.outside(str(alone / "brig"), "run", "--receipt", "/dev/null", "--", "echo", "RAN"), capture_output=True,
                            text=True, stdin=subprocess.DEVNULL, timeout=300, cwd="/")
    assert result.returncode == 125 and result.stdout == "" and "brig-daemon" in result.stderr
    result = subprocess.run(home.outside(str(alone / "brig"), "run", "--json", "--", "echo", "RAN"), capture_output=True, text=True,
                            stdin=subprocess.DEVNULL, timeout=300, cwd="/")
    told = json.loads(result.stdout)
    assert told["stdout"] == "RAN\n" and "brig-daemon" in told["receipt"]["why_not_signed"]


def test_where_the_file_cannot_be_written_nothing_is_run(home):
    for place in ("/proc/no.json", home.folder / "no" / "such" / "r.json", "/dev"):
        refused = home.run("--receipt", place, "--", "sh", "-c", "echo RAN")
        assert refused.returncode == 125 and "RAN" not in refused.stdout, place


def test_the_file_takes_its_place_whole(home):
    path = home.folder / "r.json"
    path.write_text("before")
    os.chown(path, home.uid, home.uid)
    run = home.start("--receipt", path, "--timeout", "20m", "--", "cat", stdin=subprocess.PIPE)
    find_below(run.pid, "cat")
    assert path.read_text() == "before"
    run.communicate(b"", timeout=300)
    assert home.verify(path).returncode == 0
    shell = f"{PUBLIC}/brig run --quiet --receipt /dev/stdout -- true | cat"  # a pipe of the caller's own
    piped = subprocess.run(home.outside("sh", "-c", shell), capture_output=True, text=True, timeout=300, cwd="/", stdin=subprocess.DEVNULL)
    assert json.loads(piped.stdout)["signed"] is True
    assert not [p for p in home.folder.iterdir() if p.name.startswith(".brig-receipt")]


def test_a_pipe_is_not_waited_for(home):
    """With a reader it gets the receipt: the control."""
    os.mkfifo(home.folder / "pipe")
    os.chown(home.folder / "pipe", home.uid, -1)
    told = home.run("-q", "--receipt", home.folder / "pipe", "--", "touch", "/tmp/ran", timeout=60)
    assert told.returncode == 125 and "a pipe that nobody reads from" in told.stderr, told
    reader = os.open(home.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert home.run("-q", "--receipt", home.folder / "pipe", "--", "true").returncode == 0
    assert json.loads(os.read(reader, 1 << 20))["signed"] is True
    os.close(reader)


SWAP = """import ctypes, os, sys
folder, victim = (name.encode() for name in sys.argv[1:])
os.mkfifo(folder + b"/r")
os.chmod(folder + b"/r", 0o666)
os.symlink(victim, folder + b"/other")
reader = os.open(folder + b"/r", os.O_RDWR)
swap = ctypes.CDLL(None).renameat2
print("ready", flush=True)
while os.getppid() != 1:
    swap(-100, folder + b"/r", -100, folder + b"/other", 2)
"""


def test_a_pipe_that_becomes_a_link_meanwhile(home):
    """In a folder that a sandbox may write to. The control looks and then opens by the name, as a program does that does not hold what it looked at."""
    folder = home.folder / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    victim, name = home.write("victim", "untouched"), folder / "r"
    os.chown(victim, home.uid, -1)

    def begin():
        """With a pipe and a link as at first: a receipt may have taken the place of the pipe, under either name."""
        for each in folder.iterdir():
            each.unlink()
        made = subprocess.Popen([sys.executable, "-c", SWAP, folder, victim], stdout=subprocess.PIPE)
        assert made.stdout.readline() == b"ready\n"
        return made

    swap = begin()
    try:
        for _ in range(20):
            told = home.run("-q", "--receipt", name, "--", "true")
            assert victim.read_text() == "untouched", told
            end(swap)
            swap = begin()
        end_of_tries = time.monotonic() + 120  # both must have a CPU at the same time
        while time.monotonic() < end_of_tries:
            if stat.S_ISFIFO(os.lstat(name).st_mode):
                fd = os.open(name, os.O_WRONLY | os.O_NONBLOCK)
                followed = stat.S_ISREG(os.fstat(fd).st_mode)
                os.close(fd)
                if followed:
                    return
        raise AssertionError("the control: it is followed now and then")
    finally:
        end(swap)


def test_the_key_is_nobody_elses(home):
    """Not the sandbox's: neither the folder nor the notary is to be seen from inside."""
    home.receipt("--", "true")
    key = home.audit / "signing.key"
    assert oct(key.stat().st_mode & 0o777) == "0o600" and oct(home.audit.stat().st_mode & 0o777) == "0o700"
    assert key.read_text().startswith("-----BEGIN PRIVATE KEY-----"), "control: it is there"
    inside = home.run("--", "sh", "-c", f"cat {key}; ls {home.audit}; ps ax 2>/dev/null; ls /proc/*/exe")
    assert "PRIVATE" not in inside.stdout and "runs.jsonl" not in inside.stdout and "notary" not in inside.stdout
    if home.name == "root":
        assert key.stat().st_uid == 0x78000001


def test_the_notary_is_sealed(home):
    run = home.start("--json", "--timeout", "20m", "--", "cat", stdin=subprocess.PIPE)
    try:
        find_below(run.pid, "cat")
        notary = find_below(run.pid, "brig-notary")
        status = wait_for(lambda: (s := Path(f"/proc/{notary}/status").read_text()) and "Seccomp:\t2" in s and s, 60)
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["NoNewPrivs"] == "1" and int(fields["CapEff"], 16) == int(fields["CapBnd"], 16) * 0
        if home.name == "root":
            assert set(fields["Uid"].split()) == {str(0x78000001)}
        assert Path(f"/proc/{notary}/environ").read_bytes() == b"" if home.name == "root" else True
    finally:
        run.communicate(b"", timeout=300)
        end(run)


# ---- the daemon ----

@pytest.fixture(scope="module", params=USERS)
def daemon(request):
    made = Daemon(request.param)
    yield made
    made.close()


def daemon_audit(daemon):
    return [r for r in daemon.request("GET", "/audit?limit=1000").json["records"]]


def test_a_sandbox_of_the_daemon_has_a_receipt_at_its_end(daemon, tmp_path):
    box = daemon.request("POST", "/sandboxes", {"templateID": "base"}).json["sandboxID"]
    early = daemon.request("GET", f"/sandboxes/{box}/receipt")
    assert early.status == 409 and "has not ended" in early.json["message"]
    assert daemon.request("DELETE", f"/sandboxes/{box}").status == 204
    told = daemon.request("GET", f"/sandboxes/{box}/receipt").json
    SCHEMA.validate(told)
    assert told["sandbox_id"] == "brig-" + box and told["signature"]["record"]["box"] == box
    assert told["inputs"]["commands"]["count"] == 0
    path = tmp_path / "box.json"
    path.write_text(json.dumps(told))
    brig = [program(), "receipt", "verify", path, "--state", daemon.state]
    assert subprocess.run(brig, capture_output=True, timeout=300).returncode == 0
    told["verdict"]["denial_kinds"] += 1
    path.write_text(json.dumps(told))
    assert subprocess.run(brig, capture_output=True, timeout=300).returncode == 1
    # The same signature stands in the daemon's chain.
    records = [r for r in daemon_audit(daemon) if r["kind"] == "box.receipt" and r.get("box") == box]
    assert records == [told["signature"]["record"]]
    assert daemon.request("GET", "/audit/verify").json["good"] is True


def test_receipts_of_the_daemon_are_their_owners(daemon):
    for box, status in (("x" * 20, 404), ("x", 400), ("../../etc/passwd", 404)):
        assert daemon.request("GET", f"/sandboxes/{box}/receipt").status == status
    box = daemon.request("POST", "/sandboxes", {"templateID": "base"}).json["sandboxID"]
    daemon.request("DELETE", f"/sandboxes/{box}")
    added = subprocess.run([program(), "keys", "add", "other", "--json", "--state", daemon.state], capture_output=True, text=True, timeout=300)
    other = json.loads(added.stdout)["key"]
    wait_for(lambda: daemon.request("GET", "/sandboxes", key=other).status == 200, 60)
    assert daemon.request("GET", f"/sandboxes/{box}/receipt").status == 200, "control"
    assert daemon.request("GET", f"/sandboxes/{box}/receipt", key=other).status == 404


@pytest.mark.parametrize("user", USERS)
def test_a01_requests_without_a_key_are_recorded_and_bounded(user):
    def refused():
        return [r["detail"]["count"] for r in daemon_audit(daemon) if r["kind"] == "auth.refused"]
    with Daemon(user) as daemon:  # its own: where others were refused as well, counts of theirs may come late
        assert daemon.request("GET", "/sandboxes", key="brig_" + "A" * 43).status == 401
        wait_for(lambda: sum(refused()) == 1, what="the first is recorded")
        began = time.monotonic()
        for _ in range(300):
            assert daemon.request("GET", "/sandboxes", key="brig_" + "B" * 43).status == 401
        # The time after which they are told doubles as long as they come.
        seconds = 60 + 4 * (time.monotonic() - began)
        wait_for(lambda: sum(refused()) == 301, seconds, "all of them are counted")
        assert len(refused()) < 60, "and few records say so"
        assert not any("BBBB" in json.dumps(r) for r in daemon_audit(daemon))
