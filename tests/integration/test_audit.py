"""The recorder and `brig audit`, `brig keys`: rows A-01 to A-05, crashes, floods, a full disk.

The front is played by auditlib. Every "found" has its control in which the untouched log is good.
"""
import hashlib
import json
import os
import random
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
from auditlib import DAEMON, Gone, Recorder, brig
from form import FULL
from helpers import ANY, CALLERS, IS_ROOT, SANITIZED, USER, status_fields, wait_for

MARK = "M4rk3d-s3cr3t"


@pytest.fixture(params=CALLERS, ids=lambda caller: caller.name)
def who(request):
    return request.param


def make_state(folder, caller=ANY):
    folder.chmod(0o755)
    for parent in folder.parents:
        if parent.owner() == "root" and parent != Path("/") and parent.name.startswith("pytest"):
            parent.chmod(0o755)
    state = folder / "state"
    state.mkdir(mode=0o700)
    if state.stat().st_uid != caller.uid:
        os.chown(state, caller.uid, caller.uid)
    return state


@pytest.fixture
def state(tmp_path):
    return make_state(tmp_path)


def good(state, *args, **kwargs):
    result = brig("audit", "verify", "--json", "--state", state, *args, **kwargs)
    assert result.returncode == 0, result
    told = json.loads(result.stdout)
    assert told["good"] and told["why"] is None
    return told


def bad(state, *args):
    result = brig("audit", "verify", "--json", "--state", state, *args)
    assert result.returncode == 1, result
    told = json.loads(result.stdout)
    assert not told["good"]
    return told


def kinds(records):
    return [record["kind"] for record in records]


# ---- completeness ----

def script():
    """Events with known ground truth."""
    yield {"boundary": "lifecycle", "kind": "box.created", "box": "a" * 20, "key": "k_0123456789",
           "detail": {"template": "python"}}
    for number in range(60):
        yield {"boundary": "kernel", "kind": "process.started", "box": "a" * 20, "detail": {"argv0": "sh", "pid": number}}
    yield {"boundary": "filesystem", "kind": "file.written", "box": "a" * 20, "detail": {"bytes": 12, "path": "/tmp/é\n"}}
    yield {"boundary": "network", "kind": "denial", "box": "a" * 20, "detail": {"rule": "no rule", "what": "GET h:443"}}
    yield {"boundary": "credentials", "kind": "secret.used", "box": "a" * 20, "detail": {"name": "TOKEN"}}
    yield {"boundary": "api", "kind": "request.refused", "detail": {"reason": "no key", "status": 401}}
    yield {"boundary": "lifecycle", "kind": "box.ended", "box": "a" * 20, "detail": {"reason": "killed"}}


def test_a01_the_log_equals_what_happened(who, tmp_path):
    state = make_state(tmp_path, who)
    recorder = Recorder(state, who)
    before = time.time()
    events = list(script())
    for event in events:
        recorder.send("RECORD", event)
    recorder.sync()
    after = time.time()
    records = recorder.records()
    assert records[0]["kind"] == "audit.opened"
    told = [{name: value for name, value in record.items() if name not in ("seq", "time")} for record in records[1:]]
    assert told == events
    assert [record["seq"] for record in records] == list(range(1, len(events) + 2))
    for record in records[1:]:
        then = time.mktime(time.strptime(record["time"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        assert before - 2 <= then <= after + 2
    assert recorder.stop() == 0
    assert kinds(json.loads(line)["record"] for line in
                 brig("audit", "tail", "-n", "2", "--json", "--state", state, caller=who).stdout.splitlines()
                 if "record" in json.loads(line)) == ["daemon.stopping", "daemon.stopped"]
    good(state, caller=who)


def test_a01_questions_find_what_they_ask_for(state):
    recorder = Recorder(state)
    for event in script():
        recorder.send("RECORD", event)
    recorder.sync()
    assert kinds(recorder.records(kind="denial")) == ["denial"]
    assert len(recorder.records(box="a" * 20)) == 65
    assert len(recorder.records(boundary="api")) == 1
    assert len(recorder.records(key="k_0123456789")) == 1
    assert recorder.records(box="b" * 20) == []
    page = recorder.query(what="audit", after=0, limit=10)
    assert len(page["records"]) == 10 and page["next"] == 10
    summary = recorder.query(what="summary")
    assert summary["by_kind"]["process.started"] == 60
    assert summary["by_template"] == {"python": 1}
    assert summary["refused"] == 2
    assert {"boundary": "network", "what": "GET h:443", "count": 1, "boxes": 1} in summary["denials"]
    assert recorder.query(what="summary", since_us=int(time.time() + 60) * 1000000)["records"] == 0
    assert recorder.ask("QUERY", {"what": "everything"})[0] == "FAIL"
    recorder.stop()


def test_a01_what_is_no_record_is_refused_and_that_is_recorded(state):
    recorder = Recorder(state)
    for nonsense in (b"{", b"[]", {"kind": "a"}, {"boundary": "api", "kind": "a", "seq": 1}, {"boundary": "api", "kind": "A"},
                     {"boundary": "api", "kind": "a", "detail": "x"}):
        recorder.send("RECORD", nonsense)
    recorder.send("GONE", {"id": "x"})
    recorder.record("control.good")
    recorder.sync()
    records = recorder.records()
    assert kinds(records).count("control.good") == 1
    assert sum(record["detail"].get("count", 1) for record in records if record["kind"] == "record.refused") == 7
    assert recorder.ask("PUT", {"table": "records", "key": "1", "value": {}})[0] == "FAIL"
    assert recorder.ask("PUT", {"table": "boxes", "key": "x", "value": {}})[0] == "DONE"
    recorder.stop()
    good(state)


def test_a01_a_detail_that_is_too_long_is_cut_and_said_so(state):
    recorder = Recorder(state)
    recorder.record("box.noted", detail={f"n{i}": "x" * 1500 for i in range(40)})
    recorder.sync()
    assert recorder.records(kind="box.noted")[0]["detail"] == {"cut": True}
    recorder.stop()


# ---- tampering ----

@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    """A log of 2500 records that was stopped in good order."""
    folder = tmp_path_factory.mktemp("log")
    state = make_state(folder)
    recorder = Recorder(state)
    for number in range(2500):
        recorder.record("box.noted", box="b%d" % (number % 7), detail={"n": number})
    recorder.stop()
    good(state)
    return state


@pytest.fixture
def copy(long_log, tmp_path):
    state = tmp_path / "state"
    shutil.copytree(long_log, state)
    for path in [state / "audit", *(state / "audit").iterdir()]:
        source = long_log / "audit" / path.relative_to(state / "audit")
        os.chown(path, source.stat().st_uid, source.stat().st_gid)
    return state


def sql(state, text):
    db = sqlite3.connect(state / "audit" / "records.db")
    db.create_function("sha", 1, lambda data: hashlib.sha256(data).digest())
    db.executescript(text)
    db.commit()
    db.close()


def ask(state, text):
    db = sqlite3.connect(state / "audit" / "records.db")
    found = db.execute(text).fetchone()[0]
    db.close()
    return found


def rehash(state, first):
    """What somebody who knows the format, but has no key, can do: all hashes anew."""
    db = sqlite3.connect(state / "audit" / "records.db")
    previous = bytes(32) if first == 1 else db.execute("SELECT hash FROM records WHERE seq = ?", (first - 1,)).fetchone()[0]
    for seq, line in db.execute("SELECT seq, line FROM records WHERE seq >= ? ORDER BY seq", (first,)).fetchall():
        previous = hashlib.sha256(b"brig audit v1\n" + previous + hashlib.sha256(line.encode()).digest()).digest()
        db.execute("UPDATE records SET hash = ? WHERE seq = ?", (previous, seq))
    db.commit()
    db.close()


SHIFT = """
    UPDATE records SET seq = -seq - 1 WHERE seq >= 700; UPDATE records SET seq = -seq WHERE seq < 0;
    INSERT INTO records(seq, line, hash) SELECT 700, replace(line, '"seq":699', '"seq":700'), hash FROM records WHERE seq = 699;
"""
SWAP = """
    CREATE TEMP TABLE keep AS SELECT seq, line, hash FROM records WHERE seq IN (700, 900);
    UPDATE records SET line = (SELECT line FROM keep WHERE seq = 900), hash = (SELECT hash FROM keep WHERE seq = 900) WHERE seq = 700;
    UPDATE records SET line = (SELECT line FROM keep WHERE seq = 700), hash = (SELECT hash FROM keep WHERE seq = 700) WHERE seq = 900;
"""
TAMPERINGS = {
    "edit": ("UPDATE records SET line = replace(line, 'box.noted', 'box.hidden') WHERE seq = 700", "record 700 was changed", 700),
    "edit of a hash": ("UPDATE records SET hash = zeroblob(32) WHERE seq = 700", "record 700 was changed", 700),
    "deletion": ("DELETE FROM records WHERE seq BETWEEN 700 AND 704", "records 700 to 704 are missing", 700),
    "deletion, moved up": ("DELETE FROM records WHERE seq = 700; UPDATE records SET seq = seq - 1 WHERE seq > 700",
                           "record 700 is missing", 700),
    "insertion": (SHIFT, "a record was inserted before record 700", 700),
    "reorder": (SWAP, "the order was changed: record 900 stands in the place of record 700", 700),
    "truncation": ("DELETE FROM records WHERE seq > 2100", "the end is cut off: records 2101 to 2503 are missing", 2101),
    "truncation with checkpoints": ("DELETE FROM records WHERE seq > 2100; DELETE FROM checkpoints WHERE seq > 2100",
                                    "the end is cut off: records 2101 to 2503 are missing", 2101),
    "all removed": ("DELETE FROM records; DELETE FROM checkpoints", "the end is cut off: records 1 to 2503 are missing", 1),
    "checkpoint removed": ("DELETE FROM checkpoints WHERE seq = 1001", "the checkpoint of record 1001 is missing", 1001),
    "tables": ("DROP INDEX records_box", "the tables of the database were changed", 0),
    "key put in": ("INSERT INTO state VALUES('keys', 'k_forged', '{}', 1)", "k_forged", 0),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a02_tampering_is_found_and_named(copy, name):
    text, why, seq = TAMPERINGS[name]
    good(copy)  # control: the copy itself is
    sql(copy, text)
    told = bad(copy)
    assert why in told["why"]
    assert told["seq"] == seq
    said = brig("audit", "verify", "--state", copy)
    assert said.returncode == 1 and said.stdout.startswith("NOT GOOD: ") and why in said.stdout


def test_a02_all_hashes_made_anew_do_not_lead_to_the_signature(copy):
    sql(copy, "UPDATE records SET line = replace(line, 'box.noted', 'box.hidden') WHERE seq = 700")
    rehash(copy, 700)
    told = bad(copy)
    assert "records 2 to 1001 were rewritten" in told["why"] and told["seq"] == 2


def test_a02_records_behind_the_last_word_are_found(copy):
    sql(copy, """INSERT INTO records(seq, line, hash) VALUES(2504,
        '{"boundary":"api","kind":"box.forged","seq":2504,"time":"2026-01-02T03:04:05.678901Z"}', zeroblob(32))""")
    rehash(copy, 2504)
    assert "records 2504 to 2504 were inserted after the daemon had stopped" in bad(copy)["why"]


def test_a02_a_new_log_under_a_new_key_is_found_with_the_old_public_key(copy, tmp_path):
    shutil.copy(copy / "audit" / "signing.pub", tmp_path / "kept.pub")
    good(copy, "--public-key", tmp_path / "kept.pub")
    shutil.rmtree(copy / "audit")
    Recorder(copy).stop()
    good(copy)
    assert "not signed by this key" in bad(copy, "--public-key", tmp_path / "kept.pub")["why"]


def test_a02_an_older_state_put_back_is_found_by_what_was_kept(copy):
    older = copy.parent / "older"
    shutil.copytree(copy / "audit", older)
    Recorder(copy).stop()
    told = good(copy)
    expected = f"{told['last']}:{told['hash']}"
    good(copy, "--expect", expected)
    for path in older.iterdir():
        (copy / "audit" / path.name).write_bytes(path.read_bytes())
    good(copy)  # nothing in the folder itself shows it
    assert "was there and is missing" in bad(copy, "--expect", expected)["why"]


def test_a02_a_recorder_does_not_continue_a_log_that_was_touched(copy):
    sql(copy, "DELETE FROM records WHERE seq > 2502")
    with pytest.raises(RuntimeError, match="not as it was left: the end is cut off"):
        Recorder(copy)
    assert "missing" in bad(copy)["why"], "and it changed nothing"


def test_a02_a_damaged_file_is_not_good(copy):
    path = copy / "audit" / "records.db"
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 20000):
        data[place] ^= 0x55
    path.write_bytes(data)
    assert brig("audit", "verify", "--state", copy).returncode in (1, 125)


# ---- exports ----

def export(state, tmp_path, *args):
    path = tmp_path / f"export-{random.random()}.jsonl"
    result = brig("audit", "export", "-o", path, "--state", state, *args)
    assert result.returncode == 0, result
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def verify_export(path, key):
    result = brig("audit", "verify", "--json", "--export", path, "--public-key", key)
    return result.returncode, json.loads(result.stdout)


def test_an_export_verifies_with_the_public_key_alone(long_log, tmp_path):
    path = export(long_log, tmp_path)
    key = tmp_path / "kept.pub"
    shutil.copy(long_log / "audit" / "signing.pub", key)
    status, told = verify_export(path, key)
    assert status == 0 and told["good"] and told["records"] == 2503 and told["signed_to"] == 2503
    other = make_state(tmp_path)
    Recorder(other).stop()
    status, told = verify_export(path, other / "audit" / "signing.pub")
    assert status == 1 and "not signed by this key" in told["why"]


EXPORT_TAMPERINGS = {
    "edit": (lambda lines: [line.replace('"n":1000', '"n":1001') for line in lines], "was changed"),
    "deletion": (lambda lines: lines[:500] + lines[501:], "is missing"),
    "reorder": (lambda lines: lines[:500] + [lines[501], lines[500]] + lines[502:], "the order was changed"),
    "insertion": (lambda lines: lines[:500] + [lines[499]] + lines[500:], "a record was inserted"),
    "truncation": (lambda lines: lines[:1500], "the end is cut off"),
    "truncation with the last line kept": (lambda lines: lines[:1500] + lines[-1:], "the end is cut off or changed"),
    "nonsense": (lambda lines: lines[:500] + ["nonsense"] + lines[500:], "malformed"),
}


@pytest.mark.parametrize("name", EXPORT_TAMPERINGS)
def test_a02_tampering_with_an_export_is_found(long_log, tmp_path, name):
    path = export(long_log, tmp_path)
    assert verify_export(path, long_log / "audit" / "signing.pub")[0] == 0
    change, why = EXPORT_TAMPERINGS[name]
    path.write_text("".join(line + "\n" for line in change(path.read_text().splitlines())))
    status, told = verify_export(path, long_log / "audit" / "signing.pub")
    assert status == 1 and why in told["why"]


def test_an_export_of_one_box_shows_no_other_and_still_verifies(long_log, tmp_path):
    path = export(long_log, tmp_path, "--box", "b3")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    boxes = {line["record"].get("box") for line in lines if "record" in line}
    assert boxes == {"b3"}
    assert sum("record" in line for line in lines) == 357
    status, told = verify_export(path, long_log / "audit" / "signing.pub")
    assert status == 0 and told["withheld"] > 2000


def test_an_export_since_begins_later(state, tmp_path):
    recorder = Recorder(state)
    recorder.record("box.old")
    recorder.sync()
    old = time.time()
    for gap in (3, 10, 30, 90):  # on a busy machine the export may come late: then with more time between the two
        time.sleep(gap)
        recorder.record("box.new")
        recorder.stop()
        # Later than the old one, whenever the export looks at its clock, which has whole seconds.
        since = int((time.time() - old) * 1000) - 1500
        path = export(state, tmp_path, "--since", f"{since}ms")
        told = kinds(line["record"] for line in map(json.loads, path.read_text().splitlines()) if "record" in line)
        assert "box.old" not in told
        if "box.new" in told:
            break
        recorder = Recorder(state)
    assert "box.new" in told
    assert verify_export(path, state / "audit" / "signing.pub")[0] == 0


def test_a_second_implementation_follows_the_chain_and_checks_the_signatures(long_log, tmp_path):
    """hashlib and openssl, from the words of docs/audit.md."""
    previous, signatures, number = bytes(32), 0, 0
    for text in export(long_log, tmp_path).read_text().splitlines():
        line = json.loads(text)
        if "record" in line:
            raw = text[text.index('"record":') + 9:-1].encode()
            assert json.dumps(line["record"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == raw
            previous = hashlib.sha256(b"brig audit v1\n" + previous + hashlib.sha256(raw).digest()).digest()
            assert previous.hex() == line["hash"]
            number = line["record"]["seq"]
        elif "checkpoint" in line:
            assert line["checkpoint"]["hash"] == previous.hex() and line["checkpoint"]["seq"] == number
            (tmp_path / "message").write_text(
                "brig audit checkpoint v1\n" + json.dumps(line["checkpoint"], sort_keys=True, separators=(",", ":")))
            (tmp_path / "signature").write_bytes(bytes.fromhex(line["signature"]))
            subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", long_log / "audit" / "signing.pub", "-rawin",
                            "-in", tmp_path / "message", "-sigfile", tmp_path / "signature"], check=True, capture_output=True)
            signatures += 1
    assert number == 2503 and signatures >= 3


# ---- out of reach ----

def test_a03_files_are_private(who, tmp_path):
    state = make_state(tmp_path, who)
    recorder = Recorder(state, who)
    folder = state / "audit"
    assert folder.stat().st_mode & 0o7777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o7777 for path in folder.iterdir()}
    assert modes.pop("signing.pub") == 0o644
    assert set(modes.values()) == {0o600} and {"records.db", "signing.key", "head", "lock"} <= set(modes)
    owners = {path.stat().st_uid for path in [folder, *folder.iterdir()]}
    assert owners == {who.uid or 0x78000001}
    recorder.stop()


@pytest.mark.skipif(not IS_ROOT, reason="needs root to be two users")
def test_a03_another_user_and_a_sandbox_cannot_reach_it(state):
    recorder = Recorder(state)
    recorder.record("box.noted")
    recorder.sync()
    path = state / "audit" / "records.db"
    assert subprocess.run(["cat", path], capture_output=True).returncode == 0, "control"
    assert subprocess.run(USER.outside("cat", str(path)), capture_output=True).returncode != 0
    assert brig("audit", "tail", "--state", state, caller=USER).returncode == 125
    inside = brig("run", "--", "cat", path)
    assert inside.returncode != 0 and "box.noted" not in inside.stdout
    assert subprocess.run(USER.outside("kill", "-9", str(recorder.process.pid)), capture_output=True).returncode != 0
    recorder.sync()
    recorder.stop()


def test_a03_the_recorder_is_sealed(who, tmp_path):
    state = make_state(tmp_path, who)
    recorder = Recorder(state, who)
    fields = status_fields(recorder.process.pid)
    assert fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1"
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert set(fields["Uid"].split()) == {str(who.uid or 0x78000001)}
    if IS_ROOT:
        links = {os.readlink(path) for path in Path(f"/proc/{recorder.process.pid}/fd").iterdir()}
        own = {link for link in links if link.startswith("/") and not link.startswith("/dev/")}
        assert own and all(link.startswith(str(state / "audit")) for link in own)
    recorder.stop()


def test_a03_a_folder_that_others_can_write_is_refused(state):
    (state / "audit").mkdir(mode=0o755)
    (state / "audit").chmod(0o777)
    with pytest.raises(RuntimeError, match="open to others"):
        Recorder(state)
    (state / "audit").chmod(0o700)
    Recorder(state).stop()


def test_a03_links_in_its_place_are_not_followed(state, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (state / "audit").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RuntimeError):
        Recorder(state)
    assert not list((tmp_path / "elsewhere").iterdir())
    (state / "audit").unlink()
    (state / "audit").mkdir(mode=0o700)
    (tmp_path / "victim").write_text("mine")
    (state / "audit" / "records.db").symlink_to(tmp_path / "victim")
    with pytest.raises(RuntimeError):
        Recorder(state)
    assert (tmp_path / "victim").read_text() == "mine"


def test_only_one_recorder_at_a_time(state):
    recorder = Recorder(state)
    with pytest.raises(RuntimeError, match="another brig serve"):
        Recorder(state)
    recorder.sync()
    recorder.stop()
    Recorder(state).stop()


# ---- floods and a full disk ----

def counted(records):
    return sum(record.get("detail", {}).get("count", 1) for record in records)


def flood(recorder, messages):
    for message in messages:
        recorder.send("RECORD", message)
    recorder.sync()


# One after the other through one socket, which is what takes the time.
MANY = 1_000_000 if FULL else 300_000


def test_a04_a_million_denials(state):
    recorder = Recorder(state)
    message = json.dumps({"boundary": "kernel", "kind": "denial", "box": "abc",
                          "detail": {"what": "mount", "rule": "kernel.seccomp"}}).encode()
    began = time.monotonic()
    flood(recorder, (message for _ in range(MANY)))
    seconds = time.monotonic() - began
    records = recorder.records(kind="denial")
    assert counted(records) == MANY
    assert len(records) <= 2 * seconds + 3
    peak = int(status_fields(recorder.process.pid)["VmHWM"].split()[0])
    assert peak < 40_000 or SANITIZED, f"{peak} KB"  # a sanitizer keeps what was freed
    assert (state / "audit" / "records.db").stat().st_size < 1_000_000
    recorder.stop()
    assert good(state)["records"] == len(records) + 3


def test_a04_denials_that_differ_are_bounded_and_counted(state):
    recorder = Recorder(state)
    began = time.monotonic()
    flood(recorder, ({"boundary": "filesystem", "kind": "denial", "box": "abc", "detail": {"what": f"/file/{n}"}}
                     for n in range(50_000)))
    seconds = time.monotonic() - began
    records = recorder.records(kind="denial")
    assert counted(records) == 50_000
    assert len(records) <= 33 * (seconds + 2)  # a second: 32 kinds, and one for all others
    recorder.stop()
    good(state)


def test_a04_control_other_records_are_not_merged(state):
    recorder = Recorder(state)
    flood(recorder, ({"boundary": "lifecycle", "kind": "box.noted", "box": "abc"} for _ in range(5_000)))
    assert len(recorder.records(kind="box.noted")) == 5_000
    recorder.stop()


@pytest.fixture
def small_disk(tmp_path):
    if not IS_ROOT:
        pytest.skip("a disk of its own needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k,mode=700", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a04_a_full_disk_loses_nothing_silently(small_disk):
    recorder = Recorder(small_disk)
    sent = 0
    for _ in range(100):
        for _ in range(500):
            recorder.record("box.noted", box="abc", detail={"text": "x" * 100, "n": sent})
            sent += 1
        kind, said = recorder.ask("SYNC")
        if kind == "FAIL":
            break
    assert kind == "FAIL" and "No space left" in said["message"], "control: the disk is full"
    for _ in range(30_000):  # more than it holds back
        recorder.record("box.noted", box="abc", detail={"text": "x" * 100, "n": sent})
        sent += 1
    assert recorder.ask("SYNC")[0] == "FAIL"
    assert recorder.query(what="audit", after=0, limit=1)["records"], "it still answers"
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    wait_for(lambda: recorder.ask("SYNC")[0] == "DONE", what="the disk has room again")
    resumed = recorder.records(kind="audit.resumed")
    assert len(resumed) == 1 and resumed[0]["detail"]["lost"] > 0 and resumed[0]["detail"]["late"] > 0
    assert "No space left" in resumed[0]["detail"]["why"]
    assert len(recorder.records(kind="box.noted")) + resumed[0]["detail"]["lost"] == sent
    recorder.stop()
    good(small_disk)


def test_a04_a_full_disk_at_the_end_is_said(small_disk):
    recorder = Recorder(small_disk)
    for _ in range(20_000):
        recorder.record("box.noted", box="abc", detail={"text": "x" * 100})
    assert recorder.stop() == 0
    assert "could not be written" in recorder.stderr
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    recorder = Recorder(small_disk)
    assert "daemon.crashed" in kinds(recorder.records(kind="daemon.*"))
    recorder.stop()
    good(small_disk)


# ---- nothing secret ----

SECRETS = [
    {"env": {"TOKEN": MARK}},
    {"headers": {"Authorization": MARK}},
    {"a": {"b": [{"Cookie": MARK}]}},
    {"body": MARK},
    {"code": f"print('{MARK}')"},
    {"url": f"https://h/p?token={MARK}"},
    {"what": f"GET https://user:{MARK}@h/"},
    {"X-API-Key": MARK},
    {"query": MARK},
    {"stdin": MARK},
]


def holds(state, text):
    return any(text.encode() in path.read_bytes() for path in (state / "audit").iterdir())


def test_a05_sensitive_parts_are_not_stored(state):
    recorder = Recorder(state)
    for detail in SECRETS:
        recorder.record("box.noted", "api", detail=detail)
        recorder.record("denial", "network", detail=detail)
    for key in ("brig_" + "A1b2C3d4E5f6" * 4, "e2b_" + "a1b2c3d4e5f6" * 4):
        recorder.record("request.refused", "api", detail={"what": f"bad key {key}"})
    recorder.sync()
    assert len(recorder.records(kind="box.noted")) == len(SECRETS)
    assert not holds(state, MARK) and not holds(state, "A1b2C3d4E5f6") and not holds(state, "a1b2c3d4e5f6")
    recorder.record("box.noted", "api", detail={"path": f"/{MARK}"})
    recorder.sync()
    assert holds(state, MARK), "control: what is not sensitive is found by this search"
    recorder.stop()


def test_a05_a_key_is_not_kept(state):
    recorder = Recorder(state)
    result = brig("keys", "add", "ci", "--state", state)
    assert result.returncode == 0
    key = result.stdout.strip()
    assert re.fullmatch("e2b_[0-9a-f]{40}", key)
    recorder.sync()
    assert not holds(state, key) and not holds(state, key[4:])
    assert holds(state, hashlib.sha256(key.encode()).hexdigest()), "control: its hash is"
    recorder.stop()


# ---- crashes ----

def test_a_front_that_dies_is_recorded_once(state):
    recorder = Recorder(state)
    recorder.record("box.noted")
    assert recorder.drop() == 0
    recorder = Recorder(state)
    assert kinds(recorder.records()) == ["audit.opened", "box.noted", "daemon.crashed", "audit.opened"]
    recorder.stop()
    recorder = Recorder(state)
    assert kinds(recorder.records()).count("daemon.crashed") == 1
    recorder.stop()
    good(state)


def test_the_last_word_is_on_disk_before_the_front_ends(state):
    recorder = Recorder(state)
    recorder.record("daemon.stopped", "audit")
    recorder.sync()
    assert good(state)["signed_to"] == 2
    recorder.kill()
    assert kinds(json.loads(line)["record"] for line in brig("audit", "tail", "--json", "--state", state).stdout.splitlines()
                 if "record" in json.loads(line)) == ["audit.opened", "daemon.stopped"]
    recorder = Recorder(state)
    recorder.record("daemon.stopped", "audit")
    recorder.record("box.gone")
    recorder.stop()
    recorder = Recorder(state)
    assert kinds(recorder.records())[2:] == ["audit.opened", "daemon.stopped", "box.gone", "daemon.stopping", "daemon.stopped",
                                             "audit.opened"]
    recorder.stop()
    good(state)


def test_random_kills_leave_a_chain_that_goes_on(state):
    """What was acknowledged is there; what was not may be missing, but only from the end."""
    random.seed(4)
    sent = acknowledged = 0
    for _ in range(25):
        recorder = Recorder(state)
        deadline = time.monotonic() + random.uniform(0, 0.12)
        while time.monotonic() < deadline:
            for _ in range(random.randint(1, 40)):
                recorder.record("box.noted", detail={"n": sent})
                sent += 1
            if random.random() < 0.5:
                recorder.sync()
                acknowledged = sent
        recorder.kill()
        recorder = Recorder(state)
        kept = [record["detail"]["n"] for record in recorder.records(kind="box.noted")]
        assert kept == list(range(len(kept))), "in order, none twice, none missing in between"
        assert len(kept) >= acknowledged
        assert kinds(recorder.records())[-2:] == ["daemon.crashed", "audit.opened"]
        sent = acknowledged = len(kept)
        recorder.stop()
    assert good(state)["records"] == sent + 25 * 5


CALLS = {
    "openat": 28, "pwrite64": 48, "fdatasync": 14, "fsync": 4, "write": 6, "renameat": 4, "linkat": 2, "unlinkat": 5,
    "mkdirat": 1, "ftruncate": 2, "fcntl": 80, "recvmsg": 6, "sendmsg": 4, "mmap": 2,
}


def points():
    for call, count in CALLS.items():
        step = max(1, count // 8)
        yield from ((call, number) for number in range(1, count + 1, step))


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("call, number", points(), ids=lambda value: str(value))
def test_killed_at_a_system_call(state, call, number):
    """SIGKILL at the nth call of a kind, from the first start on: the next start goes on from what there is."""
    prefix = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}"]
    recorder = Recorder(state, prefix=prefix, wait=False)
    acknowledged = []
    try:
        recorder.await_ready()
        for number in range(4):
            recorder.record("box.noted", detail={"n": number})
            recorder.sync()
            acknowledged.append(number)
    except Gone:
        pass
    recorder.ours.close()
    assert recorder.wait() == -signal.SIGKILL, "control: it was killed there"
    after = Recorder(state)
    kept = [record["detail"]["n"] for record in after.records(kind="box.noted")]
    assert kept[:len(acknowledged)] == acknowledged and len(kept) <= len(acknowledged) + 1
    all_kinds = kinds(after.records())
    assert all_kinds.count("audit.opened") >= 1
    if all_kinds[0] == "audit.opened" and all_kinds.count("audit.opened") == 2:
        before = all_kinds[:len(all_kinds) - 1 - all_kinds[::-1].index("audit.opened")]
        assert before[-1] in ("daemon.crashed", "daemon.stopped")
    assert after.stop() == 0
    assert not list((state / "audit").glob("*.new"))
    good(state)


# ---- state ----

def test_rows_come_back_at_the_next_start(state):
    recorder = Recorder(state)
    assert recorder.restored == {}
    recorder.send("PUT", {"table": "boxes", "key": "a", "value": {"pid": 7}})
    recorder.send("PUT", {"table": "boxes", "key": "b", "value": {"pid": 8}})
    assert recorder.ask("PUT", {"table": "settings", "key": "pool", "value": {"min": 1}})[0] == "DONE"
    recorder.kill()
    recorder = Recorder(state)
    assert recorder.restored == {("boxes", "a"): {"pid": 7}, ("boxes", "b"): {"pid": 8}, ("settings", "pool"): {"min": 1}}
    recorder.ask("PUT", {"table": "boxes", "key": "a", "value": None})
    recorder.stop()
    recorder = Recorder(state)
    assert ("boxes", "a") not in recorder.restored and ("boxes", "b") in recorder.restored
    recorder.stop()


def test_keys_of_the_front_are_recorded(state):
    recorder = Recorder(state)
    row = {"name": "first", "hash": "00" * 32, "operator": True, "created_ms": 1, "revoked_ms": 0, "max_boxes": 0}
    assert recorder.ask("PUT", {"table": "keys", "key": "k_first", "value": row})[0] == "DONE"
    record = recorder.records(kind="key.added")[0]
    kept = ask(state, "SELECT value FROM state WHERE key = 'k_first'")
    assert record["key"] == "k_first" and record["detail"] == {
        "by": "the daemon", "hash": "00" * 32, "max_boxes": 0, "name": "first", "operator": True,
        "row": hashlib.sha256(kept.encode()).hexdigest()}
    recorder.ask("PUT", {"table": "keys", "key": "k_first", "value": None})
    assert len(recorder.records(kind="key.removed")) == 1
    recorder.stop()
    good(state)


# ---- brig keys ----

def test_a_key_made_while_the_daemon_runs_is_in_force_at_once(who, tmp_path):
    state = make_state(tmp_path, who)
    recorder = Recorder(state, who)
    told = json.loads(brig("keys", "add", "ci", "--max-sandboxes", "3", "--json", "--state", state, caller=who).stdout)
    assert told["effect"] == "now"
    kind, request, row = recorder.receive()
    assert (kind, request, row["table"], row["key"]) == ("RESTORE", 0, "keys", told["id"])
    assert row["value"]["hash"] == hashlib.sha256(told["key"].encode()).hexdigest()
    assert row["value"]["max_boxes"] == 3 and row["value"]["revoked_ms"] == 0 and not row["value"]["operator"]
    listed = json.loads(brig("keys", "list", "--json", "--state", state, caller=who).stdout)["keys"]
    assert [key["id"] for key in listed] == [told["id"]] and "hash" not in listed[0]
    result = brig("keys", "revoke", "ci", "--state", state, caller=who)
    assert result.returncode == 0 and "in force now" in result.stderr
    assert recorder.receive()[2]["value"]["revoked_ms"] > 0
    recorder.sync()
    assert kinds(recorder.records(key=told["id"])) == ["key.added", "key.revoked"]
    assert recorder.stop() == 0
    good(state, caller=who)


def test_a_key_made_without_the_daemon_is_in_force_at_the_next_start(state):
    Recorder(state).stop()
    told = json.loads(brig("keys", "add", "later", "--operator", "--json", "--state", state).stdout)
    assert told["effect"] == "next start"
    good(state)
    recorder = Recorder(state)
    assert recorder.restored["keys", told["id"]]["operator"] is True
    assert kinds(recorder.records(key=told["id"])) == ["key.added"]
    recorder.stop()


def revoked_key(state):
    recorder = Recorder(state)
    told = json.loads(brig("keys", "add", "ci", "--json", "--state", state).stdout)
    assert recorder.receive()[0] == "RESTORE"
    brig("keys", "revoke", "ci", "--state", state)
    assert recorder.receive()[0] == "RESTORE"
    return recorder, told["id"]


BACK = """UPDATE state SET value = json_set(value, '$.operator', json('true'), '$.revoked_ms', 0), told = {told}
          WHERE tbl = 'keys'"""


@pytest.mark.parametrize("told", (0, 1))
def test_a_revoked_key_made_operator_in_the_database_is_found_and_not_served(state, told):
    recorder, key = revoked_key(state)
    recorder.stop()
    good(state)
    sql(state, BACK.format(told=told))
    assert key in bad(state)["why"]
    with pytest.raises(RuntimeError, match=f"not as it was left: API key {key}"):
        Recorder(state)


def test_a_revoked_key_does_not_come_back_while_the_daemon_runs(state):
    recorder, key = revoked_key(state)
    sql(state, BACK.format(told=0))
    recorder.process.send_signal(signal.SIGHUP)
    wait_for(lambda: recorder.records(kind="key.refused"))
    assert kinds(recorder.records(key=key)) == ["key.added", "key.revoked", "key.refused"]
    recorder.sync()
    assert not recorder.late, "the front was told of it"
    assert key in bad(state)["why"]
    recorder.stop()


WIDER = {
    "projects": "'$.projects', json('[\"/srv/app\",\"/etc\"]')",
    "no limit": "'$.max_boxes', 0",
    "another name": "'$.name', 'operator'",
    "a member of tomorrow": "'$.may', 'everything'",
}


@pytest.mark.parametrize("change", WIDER.values(), ids=WIDER)
def test_nothing_of_a_key_changes_but_its_end(state, change):
    """AU-4: a row that waits to be taken up, as if a verb had written it, for a key that there is."""
    recorder = Recorder(state)
    told = json.loads(brig("keys", "add", "ci", "--project", "/srv/app", "--max-sandboxes", "2", "--json",
                           "--state", state).stdout)
    assert recorder.receive()[0] == "RESTORE"
    sql(state, f"UPDATE state SET value = json_set(value, {change}), told = 0 WHERE tbl = 'keys'")
    recorder.process.send_signal(signal.SIGHUP)
    wait_for(lambda: recorder.records(kind="key.refused"))
    recorder.sync()
    assert not recorder.late, "the front was told of it"
    assert f"{told['id']} waits to be other" in bad(state)["why"]
    recorder.stop()
    with pytest.raises(RuntimeError, match=f"not as it was left: API key {told['id']}"):
        Recorder(state)


def test_the_front_does_not_write_records_of_keys(state):
    recorder = Recorder(state)
    recorder.send("RECORD", {"boundary": "api", "kind": "key.added", "key": "k_forged", "detail": {"by": "brig keys"}})
    recorder.sync()
    assert not recorder.records(kind="key.added")
    assert "keys" in recorder.records(kind="record.refused")[0]["detail"]["what"]
    recorder.stop()


def test_a_key_that_is_brought(state, tmp_path):
    """Its hash is kept, it is not shown, and no two rows have the same."""
    Recorder(state).stop()  # makes the state
    key, file = "e2b_" + secrets.token_hex(24), tmp_path / "brought"
    file.write_text(key + "\n")
    file.chmod(0o644)
    told = brig("keys", "add", "ci", "--key-file", file, "--state", state)
    assert told.returncode == 125 and "read by others" in told.stderr
    file.chmod(0o600)
    told = brig("keys", "add", "ci", "--key-file", file, "--max-sandboxes", "2", "--state", state)
    assert told.returncode == 0 and told.stdout == "" and key not in told.stderr and "taken from its file" in told.stderr
    assert not holds(state, key) and holds(state, hashlib.sha256(key.encode()).hexdigest())
    told = brig("keys", "add", "again", "--operator", "--key-file", file, "--json", "--state", state)
    assert told.returncode == 125 and "there already" in told.stderr + told.stdout
    file.write_text("e2b_0\n")
    told = brig("keys", "add", "short", "--key-file", file, "--state", state)
    assert told.returncode == 125 and "32 to 96 digits" in told.stderr


def test_mistakes_with_keys_are_told(state):
    result = brig("keys", "add", "x", "--state", state)
    assert result.returncode == 125 and "there is no audit log" in result.stderr and "brig serve" in result.stderr
    Recorder(state).stop()
    for args, said in (
        (["add"], "needs a name"),
        (["add", "two words"], "a name is"),
        (["add", "x", "--max-sandboxes", "0"], "--max-sandboxes"),
        (["revoke"], "which key?"),
        (["revoke", "nobody"], "there is no key nobody"),
        (["list", "x"], "unexpected argument"),
    ):
        result = brig("keys", *args, "--state", state)
        assert result.returncode == 125 and said in result.stderr, result
    brig("keys", "add", "twin", "--state", state)
    brig("keys", "add", "twin", "--state", state)
    assert "2 keys have the name twin" in brig("keys", "revoke", "twin", "--state", state).stderr


# ---- brig audit, for people ----

def test_tail_follows(state):
    recorder = Recorder(state)
    tail = subprocess.Popen(ANY.outside(str(Path(DAEMON).parent / "brig"), "audit", "tail", "-f", "-n", "1", "--state", str(state)),
                            stdout=subprocess.PIPE, text=True)
    try:
        assert "audit.opened" in tail.stdout.readline()
        recorder.record("box.running", box="abc", detail={"template": "python"})
        recorder.sync()
        line = tail.stdout.readline()
        assert "box.running" in line and "box=abc" in line and "template=python" in line
    finally:
        tail.send_signal(signal.SIGTERM)
        tail.communicate()
    recorder.stop()


def test_words_for_people_have_no_control_characters(state):
    recorder = Recorder(state)
    recorder.record("denial", "kernel", box="abc", detail={"what": "\x1b[31mred\x07\u202e", "z": {"\x1b[2J": 1}})
    recorder.stop()
    for verb in (["tail"], ["show", "2"], ["summary"]):
        result = brig("audit", *verb, "--state", state)
        assert result.returncode == 0 and "red" in result.stdout
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", result.stdout), result.stdout


def test_verify_beside_a_writer(state):
    recorder = Recorder(state)
    for round_ in range(20):
        for _ in range(200):
            recorder.record("box.noted", detail={"n": round_})
        good(state)
    assert recorder.query(what="verify")["good"]
    recorder.stop()


def test_mistakes_with_audit_are_told(state, tmp_path):
    result = brig("audit", "tail", "--state", state)
    assert result.returncode == 125 and "there is no audit log" in result.stderr
    result = brig("audit", "verify", "--json", "--state", tmp_path / "nowhere")
    assert result.returncode == 125 and json.loads(result.stdout)["error"]["hint"]
    Recorder(state).stop()
    for args, said in (
        (["show"], "which record?"),
        (["show", "x"], "x"),
        (["show", "99"], "there is no record 99"),
        (["tail", "--since", "yesterday"], "--since"),
        (["verify", "--export", tmp_path / "none"], "--public-key"),
        (["verify", "--export", tmp_path / "none", "--public-key", state / "audit" / "signing.pub"], "none"),
        (["verify", "--expect", "x"], "SEQ:HASH"),
        (["export", "--box", "nobody"], "there is no such record"),
        (["tial"], "did you mean `brig audit tail`?"),
    ):
        result = brig("audit", *args, "--state", state) if args != ["tial"] else brig("audit", "tial")
        assert result.returncode == 125 and said in result.stderr, result
    path = tmp_path / "there"
    path.write_text("mine")
    assert "is there already" in brig("audit", "export", "-o", path, "--state", state).stderr
    assert path.read_text() == "mine"


def test_a_newer_database_is_left_alone(state):
    Recorder(state).stop()
    sql(state, "PRAGMA user_version = 7")
    with pytest.raises(RuntimeError, match="has version 7, this brig knows 2"):
        Recorder(state)
    result = brig("audit", "tail", "--state", state)
    assert result.returncode == 125 and "newer brig" in result.stderr
