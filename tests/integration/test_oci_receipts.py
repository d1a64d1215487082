"""Receipts of containers: in the form of those of runs, signed where the operator says so, and verified by what verifies those."""
import json
import shutil
import subprocess

import jsonschema
import pytest

from helpers import IS_ROOT, PUBLIC, ROOT, TOP, USER
from ocilib import BUSYBOX, OCI, bundle_of, containerd, operator_call, operator_command, with_etc

pytestmark = pytest.mark.skipif(not IS_ROOT or not BUSYBOX, reason="needs root, and a static busybox for a root")
SCHEMA = jsonschema.Draft202012Validator(json.loads((TOP / "docs" / "receipt.schema.json").read_text()))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A chain of its own: root's lies below XDG_STATE_HOME, where that is set."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def bundle(home):
    with bundle_of(ROOT) as made:
        yield made


def receipt_of(log):
    return json.loads(log.read_text().splitlines()[-1])["receipt"]


def run(bundle, file, annotations=None, script="echo RAN"):
    """What it said, and its receipt."""
    log = bundle.folder / "log"
    log.unlink(missing_ok=True)
    bundle.config["annotations"] = annotations or {}
    bundle.shell(script)
    told = operator_call(bundle, file, "--log", log, "--log-format", "json", "run", "--bundle", bundle.folder, bundle.id)
    return told, receipt_of(log) if told.returncode == 0 else None


def verify(receipt, *args):
    told = subprocess.run([str(PUBLIC / "brig"), "receipt", "verify", "-", *args], input=json.dumps(receipt), capture_output=True, text=True, timeout=120)
    return told.returncode


def test_a_receipt_is_signed_and_verified(bundle):
    told, receipt = run(bundle, {"receipts": "signed"})
    assert told.stdout == "RAN\n" and receipt["signed"] and verify(receipt) == 0, (told, receipt)
    SCHEMA.validate(receipt)
    assert receipt["container"]["id"] == bundle.id and receipt["boundaries"]["kernel"]["seccomp"] == "filter"
    assert receipt["usage"]["memory_peak_from"] in ("cgroup", "not counted")
    shown = subprocess.run([str(PUBLIC / "brig"), "receipt", "show", "-"], input=json.dumps(receipt), capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and "container" in shown.stdout
    # Any other word of it is found out.
    for change in (lambda r: r["container"].update(id="other"), lambda r: r["boundaries"]["kernel"].update(tier="vm"), lambda r: r.update(tier="vm"),
                   lambda r: r["inputs"].update(config="sha256:" + "0" * 64)):
        forged = json.loads(json.dumps(receipt))
        change(forged)
        assert verify(forged) == 1
    # Its place in the chain of runs.
    checked = subprocess.run([str(PUBLIC / "brig"), "audit", "verify", "--runs"], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked
    shut = run(bundle, {"receipts": "signed"})[1]
    assert shut["signature"]["record"]["seq"] > receipt["signature"]["record"]["seq"] and shut["sandbox_id"] != receipt["sandbox_id"]


def test_a_receipt_of_a_container_that_was_never_started(bundle):
    bundle.shell("echo RAN")
    log = bundle.folder / "log"
    made = subprocess.run(operator_command(bundle, {"receipts": "signed"}, "create", "--bundle", bundle.folder, bundle.id), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=bundle.folder, timeout=120)
    assert made.returncode == 0
    # The file of that moment decides, not the one of later.
    told = operator_call(bundle, {}, "--log", log, "--log-format", "json", "delete", "--force", bundle.id)
    assert told.returncode == 0, told
    receipt = receipt_of(log)
    assert receipt["signed"] and verify(receipt) == 0 and receipt["verdict"]["ended_because"] == "it was never started"


def test_the_annotation_asks_and_the_operator_decides(bundle):
    asked = {"brig.receipt": "signed"}
    told, _ = run(bundle, {}, asked)
    assert told.returncode == 125 and "RAN" not in told.stdout and "brig.receipt" in told.stderr and "receipts" in told.stderr, told
    told, _ = run(bundle, {"receipts": "asked"}, {"brig.receipt": "yes"})
    assert told.returncode == 125 and "RAN" not in told.stdout and "is not known" in told.stderr, told
    told, _ = run(bundle, {"receipts": "signed"}, {"brig.receipt": "yes"})
    assert told.returncode == 125 and "RAN" not in told.stdout and "is not known" in told.stderr, told
    told, receipt = run(bundle, {"receipts": "asked"}, asked)
    assert receipt["signed"] and verify(receipt) == 0
    told, receipt = run(bundle, {"receipts": "asked"})  # control: who does not ask
    assert told.stdout == "RAN\n" and not receipt["signed"] and "why_not_signed" in receipt
    SCHEMA.validate(receipt)
    assert verify(receipt) == 1


def test_what_cannot_be_signed_is_not_made(bundle, home):
    """OC-17."""
    (home / "brig").write_text("in the way")
    told, _ = run(bundle, {"receipts": "signed"})
    assert told.returncode == 125 and "RAN" not in told.stdout and "could not be signed" in told.stderr, told
    assert bundle.call("list", "-q").stdout == ""
    told, receipt = run(bundle, {})  # control: where nothing is to be signed nothing is in the way
    assert told.stdout == "RAN\n" and not receipt["signed"]
    (home / "brig").unlink()
    assert run(bundle, {"receipts": "signed"})[1]["signed"]


def test_what_can_no_longer_be_signed_is_told_and_removed(bundle, home):
    log = bundle.folder / "log"
    bundle.shell("echo RAN")
    made = subprocess.run(operator_command(bundle, {"receipts": "signed"}, "create", "--bundle", bundle.folder, bundle.id), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=bundle.folder, timeout=120)
    assert made.returncode == 0
    shutil.rmtree(home / "brig")
    (home / "brig").write_text("in the way")
    told = operator_call(bundle, {"receipts": "signed"}, "--log", log, "--log-format", "json", "delete", "--force", bundle.id)
    assert told.returncode == 0 and bundle.call("list", "-q").stdout == "", told
    receipt = receipt_of(log)
    assert not receipt["signed"] and "receipts" in receipt["why_not_signed"] and verify(receipt) == 1, receipt


def test_an_ordinary_users_containers_have_none():
    with bundle_of(USER) as made:
        made.config["annotations"] = {"brig.receipt": "signed"}
        told = made.run("echo RAN")
        assert told.returncode == 125 and "RAN" not in told.stdout and "ordinary user" in told.stderr, told
        made.config["annotations"] = {}
        assert made.run("echo RAN").stdout == "RAN\n"  # control


def test_containerd_with_signed_receipts(tmp_path_factory, bundle):
    """The whole way: the operator's log has a receipt that can be verified."""
    folder, own = tmp_path_factory.mktemp("c"), bundle.folder / "operators"
    with containerd(folder, with_etc(folder, {"receipts": "signed", "log": str(own)})) as ctr:
        told = ctr("run", "--rm", "--runc-binary", OCI, "--rootfs", bundle.folder / "rootfs", "one", "sh", "-c", "echo RAN; exit 7")
        assert told.returncode == 7 and "RAN\n" in told.stdout, told
    receipt = receipt_of(own)
    assert receipt["signed"] and verify(receipt) == 0 and receipt["container"]["id"] == "one", receipt
