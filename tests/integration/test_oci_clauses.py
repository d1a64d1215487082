"""The table of the runtime specification's clauses is whole, and the page about it says the same; then runtime.md, clause by clause."""
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import is_over, read_stat, wait_for
from ociclauses import CLAUSES, TOP, clause, shown
from ocilib import BUSYBOX, OCI, bundle, bundle_of, groups_left, hook, hooked, own  # noqa: F401

pytestmark = pytest.mark.skipif(not BUSYBOX, reason="no static busybox for a root")


def test_every_clause_is_shown_by_a_test():
    """One that is left out on purpose, too: by what brig does in its place."""
    marks = shown()
    assert len(CLAUSES) >= 200 and set(marks) - set(CLAUSES) == set(), "marked, and not in the table"
    assert [name for name in CLAUSES if name not in marks] == [], "in the table, and no test shows it"


def test_the_page_is_the_tables():
    told = subprocess.run([sys.executable, TOP / "tools/gen-oci-conformance", "--print"], capture_output=True, text=True, check=True, timeout=60)
    assert (TOP / "docs/oci-conformance.md").read_text() == told.stdout, "run tools/gen-oci-conformance"


# ---- runtime.md: state ----


@clause("runtime.scope", "runtime.operations", "runtime.query.returns", "runtime.state.ociVersion", "runtime.state.id", "runtime.state.pid", "runtime.state.bundle",
        "runtime.state.status.created", "runtime.state.status.running", "runtime.state.status.stopped")
def test_runtime_state(bundle):
    def asked():
        told = bundle.call("state", bundle.id)
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)
    bundle.config["ociVersion"] = "1.1.0"
    assert bundle.create("exec sleep 1000").returncode == 0
    told = asked()
    assert (told["ociVersion"], told["id"], told["status"], told["pid"]) == ("1.1.0", bundle.id, "created", bundle.pid())
    assert told["bundle"] == str(bundle.folder) and os.path.isabs(told["bundle"])
    assert bundle.call("start", bundle.id).returncode == 0
    assert (asked()["status"], asked()["pid"]) == ("running", bundle.pid())
    assert bundle.call("kill", bundle.id, "KILL").returncode == 0
    wait_for(lambda: asked()["status"] == "stopped")
    assert bundle.call("delete", bundle.id).returncode == 0


@clause("runtime.state.status.stopped")
def test_runtime_state_status_stopped_by_itself(bundle):
    bundle.start("exit 3")
    wait_for(lambda: bundle.state() == "stopped")


@clause("runtime.state.annotations")
@pytest.mark.parametrize("annotations", [None, {}, {"org.example.key": "value", "org.example.empty": ""}], ids=["none", "empty", "some"])
def test_runtime_state_annotations(bundle, annotations):
    if annotations is not None:
        bundle.config["annotations"] = annotations
    assert bundle.create("true").returncode == 0
    assert json.loads(bundle.call("state", bundle.id).stdout).get("annotations", {}) == (annotations or {})


@clause("runtime.state.status.creating", "runtime.state.status.created", "config.hooks.state")
def test_runtime_state_as_hooks_see_it(own, tmp_path):
    """With the pid as the runtime sees it, and the annotations."""
    kinds = {kind: hook(tmp_path, kind, f"cat >{tmp_path}/{kind}.state") for kind in ("prestart", "createRuntime", "poststart", "poststop")}
    own.config["hooks"] = {kind: [{"path": path}] for kind, path in kinds.items()}
    own.config["annotations"] = {"org.example": "x"}
    assert hooked(own, "exec sleep 1000").returncode == 0
    seen = {kind: json.loads((tmp_path / f"{kind}.state").read_text()) for kind in ("prestart", "createRuntime")}
    for told in seen.values():
        assert (told["status"], told["pid"], told["bundle"], told["annotations"]) == ("creating", own.pid(), str(own.folder), {"org.example": "x"})
    assert own.call("start", own.id).returncode == 0
    assert json.loads((tmp_path / "poststart.state").read_text())["status"] == "running"
    assert own.remove().returncode == 0
    told = json.loads((tmp_path / "poststop.state").read_text())
    assert (told["status"], told["id"], told["annotations"]) == ("stopped", own.id, {"org.example": "x"})


# ---- runtime.md: lifecycle ----


@clause("runtime.lifecycle.config.kept")
def test_runtime_lifecycle_config_changes_after_create(bundle):
    assert bundle.create("echo $A; hostname; exec sleep 1000").returncode == 0
    bundle.config["process"].update(args=["echo", "other"], env=["PATH=/bin", "A=other"])
    bundle.config["hostname"] = "other"
    bundle.save()
    assert bundle.call("start", bundle.id).returncode == 0
    wait_for(lambda: bundle.output() == "b\ninside\n")
    (bundle.folder / "config.json").unlink()
    assert bundle.exec("hostname").stdout == "inside\n"


@clause("runtime.lifecycle.environment.fails", "runtime.errors")
@pytest.mark.parametrize("change", [
    lambda c: c["root"].update(path="nosuch"),
    lambda c: c["process"].update(args=["nosuch"]),
    lambda c: c["mounts"].append({"destination": "/x", "type": "bind", "source": "nosuch", "options": ["bind"]}),
    lambda c: c["linux"].update(sysctl={"kernel.shmmax": "many"}),
    lambda c: c["linux"].update(sysctl={"net.nosuch": "1"}),
], ids=["root", "program", "source", "value", "setting"])
def test_runtime_lifecycle_what_cannot_be_made(bundle, change):
    change(bundle.config)
    made = bundle.save().create()
    assert made.returncode in (125, 127) and made.stderr
    assert bundle.call("list", "-q").stdout == "" and groups_left(bundle.id) == []
    assert not (bundle.folder / "pid").exists()


@clause("runtime.lifecycle.prestart", "runtime.lifecycle.createRuntime", "runtime.lifecycle.failed.poststop")
@pytest.mark.parametrize("kind", ["prestart", "createRuntime"])
def test_runtime_lifecycle_a_hook_that_fails_stops_the_container(own, tmp_path, kind):
    bad = hook(tmp_path, "bad", "exit 3")
    late = hook(tmp_path, "late", f"cat >{tmp_path}/late.state")
    pids = tmp_path / "pids"
    good = hook(tmp_path, "good", f"grep -o '\"pid\":[0-9]*' | cut -d: -f2 >{pids}")
    own.config["hooks"] = {kind: [{"path": good}, {"path": bad}], "poststop": [{"path": late}]}
    made = hooked(own, "echo RAN")
    assert made.returncode == 125 and "status 3" in made.stderr
    wait_for(lambda: is_over(int(pids.read_text())))
    assert own.call("state", own.id).returncode == 127 and groups_left(own.id) == []
    assert json.loads((tmp_path / "late.state").read_text())["status"] == "stopped"
    own.config["hooks"][kind].pop()  # control: without it the container is made
    assert hooked(own, "echo RAN").returncode == 0


@clause("runtime.lifecycle.failed.poststop")
def test_runtime_lifecycle_what_fails_behind_the_hooks(own, tmp_path):
    """What they made outside is undone by the same means."""
    own.config["hooks"] = {"createRuntime": [{"path": hook(tmp_path, "first", f": >{tmp_path}/first.ran")}],
                           "poststop": [{"path": hook(tmp_path, "late", f": >{tmp_path}/late.ran")}]}
    own.config["process"]["args"] = ["nosuch"]
    assert hooked(own).returncode == 127
    assert (tmp_path / "first.ran").exists() and (tmp_path / "late.ran").exists()


@clause("runtime.lifecycle.failed.poststop")
@pytest.mark.parametrize("kind", ["prestart", "createRuntime"])
def test_runtime_lifecycle_create_that_is_killed_behind_a_hook(own, tmp_path, kind):
    """What the hook made outside is undone by delete."""
    own.config["hooks"] = {kind: [{"path": hook(tmp_path, "first", f": >{tmp_path}/first.ran; kill -9 $PPID")}],
                           "poststop": [{"path": hook(tmp_path, "late", f"cat >{tmp_path}/late.state")}]}
    assert hooked(own, "echo RAN").returncode == -signal.SIGKILL
    assert (tmp_path / "first.ran").exists() and own.state() == "creating"
    assert own.remove().returncode == 0 and groups_left(own.id) == []
    assert json.loads((tmp_path / "late.state").read_text())["status"] == "stopped"


def test_runtime_lifecycle_a_late_hook_keeps_nobody_out(own, tmp_path):
    """While one hangs, the container can be looked at, killed and removed."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    gate = os.open(fifo, os.O_RDWR)
    mark = tmp_path / "waits"
    own.config["hooks"] = {"poststart": [{"path": hook(tmp_path, "slow", f"cat >/dev/null; : >{mark}; read line <{fifo}; : >{tmp_path}/slow.ran")}]}
    assert hooked(own, "exec sleep 1000").returncode == 0
    starting = subprocess.Popen(own.command("start", own.id), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(mark.exists)
        assert own.state() == "running" and own.remove().returncode == 0 and own.state() is None
        assert not (tmp_path / "slow.ran").exists() and starting.poll() is None  # it still hangs
    finally:
        os.write(gate, b"on\n")
        assert starting.wait(120) == 0
        os.close(gate)
    assert (tmp_path / "slow.ran").exists()


@clause("runtime.lifecycle.poststart", "runtime.lifecycle.poststart.fails", "runtime.lifecycle.poststop", "runtime.lifecycle.poststop.fails", "runtime.warnings")
@pytest.mark.parametrize("kind", ["poststart", "poststop"])
def test_runtime_lifecycle_a_late_hook_that_fails_is_a_warning(own, tmp_path, kind):
    names = [hook(tmp_path, name, f": >{tmp_path}/{name}.ran; exit {code}") for name, code in (("one", 0), ("two", 5), ("three", 0))]
    own.config["hooks"] = {kind: [{"path": path} for path in names]}
    log = tmp_path / "log"
    assert hooked(own, "exec sleep 1000").returncode == 0
    told = [own.call("--log", log, "--log-format", "json", "start", own.id)]
    assert own.state() == "running"
    told.append(own.call("--log", log, "--log-format", "json", "delete", "--force", own.id))
    assert [one.returncode for one in told] == [0, 0], told
    assert all((tmp_path / f"{name}.ran").exists() for name in ("one", "two", "three"))
    warnings = [entry for entry in map(json.loads, log.read_text().splitlines()) if entry["level"] == "warning"]
    assert [entry["hook"]["stage"] for entry in warnings] == [kind] and "status 5" in warnings[0]["hook"]["error"]
    assert own.call("state", own.id).returncode == 127


@clause("runtime.lifecycle.createContainer", "runtime.lifecycle.startContainer", "config.hooks.createContainer", "config.hooks.startContainer")
@pytest.mark.parametrize("kind", ["createContainer", "startContainer"])
def test_runtime_lifecycle_hooks_inside_are_refused(own, tmp_path, kind):
    own.config["hooks"] = {kind: [{"path": hook(tmp_path, "hook", f": >{tmp_path}/ran")}]}
    made = hooked(own, "true")
    assert made.returncode == 125 and kind in made.stderr and not (tmp_path / "ran").exists()


# ---- runtime.md: operations ----


@clause("runtime.query.no-id", "runtime.create.arguments", "runtime.start.no-id", "runtime.kill.no-id", "runtime.delete.no-id")
@pytest.mark.parametrize("verb", ["state", "create", "start", "kill", "delete"])
def test_runtime_operations_without_an_id(bundle, verb):
    told = bundle.call(verb)
    assert told.returncode == 125 and "which container" in told.stderr


@clause("runtime.create.arguments")
def test_runtime_create_without_a_bundle(bundle):
    for folder in (bundle.states.parent / "nosuch", bundle.folder / "rootfs"):
        made = bundle.call("create", "--bundle", folder, bundle.id)
        assert made.returncode == 125 and made.stderr
    assert bundle.call("list", "-q").stdout == ""


@clause("runtime.query.missing", "runtime.start.missing", "runtime.kill.not-running", "runtime.delete.missing")
@pytest.mark.parametrize("verb", ["state", "start", "kill", "delete"])
def test_runtime_operations_on_what_is_not_there(bundle, verb):
    told = bundle.call(verb, "nosuch")
    assert told.returncode == 127 and "does not exist" in told.stderr


@clause("runtime.create.id.taken", "runtime.errors", "runtime.state.id")
def test_runtime_create_with_an_id_that_is_taken(bundle):
    bundle.start("exec sleep 1000")
    before = bundle.call("state", bundle.id).stdout
    again = bundle.call("create", "--bundle", bundle.folder, bundle.id)
    assert again.returncode == 125 and "exists" in again.stderr
    assert bundle.call("state", bundle.id).stdout == before and bundle.exec("true").returncode == 0


@clause("runtime.create.id.invalid")
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a b", "é", "a" * 300])
def test_runtime_create_with_an_id_that_is_none(bundle, name):
    bundle.shell("true")
    made = bundle.call("create", "--bundle", bundle.folder, name)
    assert made.returncode == 125 and made.stderr
    assert not bundle.states.exists() or os.listdir(bundle.states) == []


@clause("runtime.create.program", "runtime.create.properties", "runtime.lifecycle.environment", "runtime.start.program")
def test_runtime_create_makes_all_but_the_program(bundle):
    """Its process is there, with names, mounts and rights, and waits."""
    bundle.mount("/made", type="tmpfs", source="tmpfs")
    assert bundle.create("echo ran; exec sleep 1000").returncode == 0
    pid = bundle.pid()
    assert " /made tmpfs " in Path(f"/proc/{pid}/mounts").read_text()
    seen = subprocess.run(["nsenter", "-t", str(pid), "-u", "hostname"], capture_output=True, text=True, check=False)
    assert seen.returncode or seen.stdout == "inside\n"
    assert read_stat(pid) and bundle.output() == ""
    assert bundle.call("start", bundle.id).returncode == 0
    wait_for(lambda: bundle.output() == "ran\n")
    assert bundle.pid() == pid


@clause("runtime.start.not-created", "runtime.errors")
def test_runtime_start_of_what_is_not_created(bundle):
    bundle.start("echo once; exec sleep 1000")
    wait_for(lambda: bundle.output() == "once\n")
    pid = bundle.pid()
    again = bundle.call("start", bundle.id)
    assert again.returncode == 125 and "cannot start" in again.stderr
    assert bundle.state() == "running" and bundle.output() == "once\n"
    assert bundle.call("kill", bundle.id, "KILL").returncode == 0
    wait_for(lambda: is_over(pid))
    again = bundle.call("start", bundle.id)
    assert again.returncode == 125 and "stopped" in again.stderr
    assert bundle.state() == "stopped" and bundle.output() == "once\n"


@clause("runtime.start.no-process")
def test_runtime_create_without_a_process_is_refused(bundle):
    del bundle.config["process"]
    made = bundle.save().create()
    assert made.returncode == 125 and "process" in made.stderr and bundle.state() is None


@clause("runtime.kill.signal")
@pytest.mark.parametrize("name, number", [("TERM", 15), ("USR1", 10), ("SIGINT", 2), ("34", 34)])
def test_runtime_kill_sends_the_signal(bundle, name, number):
    bundle.start(f"trap 'echo got; exit 0' {number}; echo up; while :; do sleep 0.05; done")
    wait_for(lambda: bundle.output() == "up\n")
    assert bundle.call("kill", bundle.id, name).returncode == 0
    wait_for(lambda: bundle.output() == "up\ngot\n")


@clause("runtime.kill.signal")
def test_runtime_kill_of_what_is_created(bundle):
    assert bundle.create("true").returncode == 0
    assert bundle.call("kill", bundle.id, "KILL").returncode == 0
    wait_for(lambda: bundle.state() == "stopped")


@clause("runtime.kill.not-running", "runtime.errors")
def test_runtime_kill_of_what_is_stopped(bundle):
    bundle.start("true")
    wait_for(lambda: bundle.state() == "stopped")
    before = bundle.call("state", bundle.id).stdout
    told = bundle.call("kill", bundle.id, "KILL")
    assert told.returncode == 125 and "not running" in told.stderr
    assert bundle.call("state", bundle.id).stdout == before


@clause("runtime.delete.not-stopped", "runtime.errors")
def test_runtime_delete_of_what_is_not_stopped(bundle):
    assert bundle.create("exec sleep 1000").returncode == 0
    for verb in ("start", None):
        told = bundle.call("delete", bundle.id)
        assert told.returncode == 125 and "not stopped" in told.stderr and read_stat(bundle.pid())
        if verb:
            assert bundle.call(verb, bundle.id).returncode == 0
    assert bundle.state() == "running" and bundle.exec("true").returncode == 0


@clause("runtime.delete.resources", "runtime.lifecycle.destroy", "runtime.delete.id.again")
def test_runtime_delete_removes_what_create_made(own):
    for _ in range(2):  # the second has the same id
        own.start("exec sleep 1000")
        assert groups_left(own.id) and os.listdir(own.states) == [own.id]
        assert own.call("kill", own.id, "KILL").returncode == 0
        wait_for(lambda: own.state() == "stopped")
        assert own.call("delete", own.id).returncode == 0
        assert groups_left(own.id) == [] and os.listdir(own.states) == []


@clause("runtime.delete.others")
def test_runtime_delete_leaves_what_create_did_not_make(own):
    """The network namespace of a pod, a group that was there, and what the container wrote into a folder of the host."""
    name, top = f"brig-{own.id}", f"test-{own.id}"
    data = own.folder / "data"
    data.mkdir()
    own.mount("/data", type="bind", source=str(data), options=["bind"])
    own.config["linux"]["namespaces"][1]["path"] = f"/run/netns/{name}"
    own.config["linux"]["cgroupsPath"] = f"/{top}/inner"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        with bundle_of(own.caller) as other:  # it makes the group around both
            other.config["linux"]["cgroupsPath"] = f"/{top}/other"
            other.start("exec sleep 1000")
            own.start("echo kept >/data/file; exec sleep 1000")
            wait_for(lambda: (data / "file").exists())
            around = groups_left(top)
            assert own.remove().returncode == 0
            assert other.state() == "running" and around == groups_left(top)
        assert os.path.exists(f"/run/netns/{name}") and (data / "file").read_text() == "kept\n"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
        for folder in groups_left(top):
            os.rmdir(folder)


@clause("runtime.operations")
def test_runtime_operations_are_in_the_help():
    told = subprocess.run([OCI, "--help"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and all(f" {verb} " in told.stdout for verb in ("state", "create", "start", "kill", "delete")), told
