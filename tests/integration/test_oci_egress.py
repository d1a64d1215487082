"""Containers of engines with ways out: the annotations brig.allow and brig.policy, held against the operator's file; brig-proxy beside the container;
what was denied, and the receipt, in the logs."""
import contextlib
import hashlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading

import pytest

from form import FULL
from helpers import IS_ROOT, ROOT, below, is_over, read_stat, status_fields, wait_for
from ocilib import BUSYBOX, OCI, bundle_of, containerd, operator_call, operator_command, with_etc, with_programs

pytestmark = pytest.mark.skipif(not IS_ROOT or not BUSYBOX, reason="needs root for the operator's file, and a static busybox for a root")
LOOPS = 60 if FULL else 6
GET = "curl -sS -m 60 http://{}/hello"
DIRECT = "curl -sS -m 60 --noproxy '*' http://{}/hello"


class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from outside\n")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def port():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()



@pytest.fixture
def bundle():
    with bundle_of(ROOT) as made:
        yield with_programs(made)


def asks(bundle, **annotations):
    bundle.config["annotations"] = {f"brig.{key}": value for key, value in annotations.items()}
    return bundle.save()


def run(bundle, allowed, script, *options, **kwargs):
    bundle.shell(script)
    return operator_call(bundle, allowed, *options, "run", "--bundle", bundle.folder, bundle.id, **kwargs)


def start(bundle, allowed, script, *options):
    """Created and started; its output goes to a file, so that nobody waits for its end."""
    bundle.shell(script)
    with (bundle.folder / "out").open("wb") as sink:
        made = subprocess.run(operator_command(bundle, allowed, *options, "create", "--bundle", bundle.folder, "--pid-file", bundle.folder / "pid", bundle.id),
                              stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=bundle.folder, timeout=120)
    assert made.returncode == 0, bundle.output()
    assert bundle.call("start", bundle.id).returncode == 0
    return bundle


def helpers_of(bundle):
    """The porter and its brig-proxy, of this container alone."""
    porter = json.loads((bundle.states / bundle.id / "state.json").read_text())["porter"]
    return [porter, *below(porter)]


def ended(pids):
    return all(is_over(pid) for pid in pids)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rules_lead_through_the_proxy_and_nowhere_else(caller, port):
    with bundle_of(caller) as made:
        bundle = asks(with_programs(made), allow=f"origin.test:{port}")
        site, script = f"origin.test:{port}", "{}; {}; {} ; {} ; ls /sys/class/net"
        told = run(bundle, {"allow": [f"second.test:{port}", f"{site}=127.0.0.1"]},
                   script.format(GET.format(site), DIRECT.format(site), GET.format("other.test"), DIRECT.format(f"127.0.0.1:{port}")))
        assert told.stdout.count("from outside") == 2 and told.stdout.count('"error"') == 2 and told.stdout.endswith("\nlo\n"), told
        # Control: the host's own loopback answers to whoever stands in its network.
        assert subprocess.run(["sh", "-c", DIRECT.format(f"127.0.0.1:{port}")], capture_output=True, text=True, timeout=60).stdout == "from outside\n"
        # Control: without the annotation the same operator's file gives nothing.
        bundle.config["annotations"] = {}
        told = run(bundle, {"allow": [f"{site}=127.0.0.1"]}, GET.format(site) + "; " + DIRECT.format(site))
        assert "from outside" not in told.stdout and told.returncode != 0


def test_a_policy_of_the_operators_by_its_name(bundle, port):
    site, other = f"origin.test:{port}", f"second.test:{port}"
    allowed = {"policies": {"web": [f"{site}=127.0.0.1", f"{other}=127.0.0.1"]}}
    both = GET.format(site) + "; " + GET.format(other)
    assert run(asks(bundle, policy="web"), allowed, both).stdout.count("from outside") == 2
    told = run(asks(bundle, policy="web", allow=site), allowed, both)
    assert told.stdout.count("from outside") == 1 and told.stdout.count("no-rule") == 1, told


@pytest.mark.parametrize("annotations, why", [
    ({"allow": "other.test:80"}, "other.test"),
    ({"allow": "origin.test:81"}, "origin.test:81"),
    ({"allow": "*.test:80"}, "*.test"),
    ({"allow": "origin.test:80=127.0.0.2"}, "another address"),
    ({"allow": "origin.test:80=169.254.169.254"}, "another address"),
    ({"allow": "origin.test:80, other.test:80"}, "other.test"),
    ({"allow": ""}, "expected rules"),
    ({"allow": "http://"}, "brig.allow"),
    ({"allow": "origin.test:80 " * 5 + "x" * 2000}, "too long"),
    ({"policy": "nosuch"}, "no policy"),
    ({"policy": "/tmp/own.yaml"}, "no policy"),
    ({"policy": "empty"}, "no rules"),
    ({"policy": "narrow", "allow": "origin.test:80"}, "origin.test"),
    ({"allow": "https://secure.test/path"}, "would not trust"),
    ({"allow": "origin.test:80", "allows": "x"}, "brig.allows"),
    ({"level": "low"}, "brig.level"),
    ({"network": "host"}, "brig.network"),
], ids=lambda v: "-".join(f"{k}={x[:20]}" for k, x in v.items()).replace("/", "_") if isinstance(v, dict) else "")
def test_O01_annotations_ask_for_no_more_than_the_operator_allows(bundle, annotations, why):
    allowed = {"allow": ["origin.test:80=127.0.0.1", "https://secure.test"], "policies": {"narrow": ["narrow.test"], "empty": []}}
    told = run(asks(bundle, **annotations), allowed, "echo RAN")
    assert told.returncode == 125 and "RAN" not in told.stdout and why in told.stderr, told
    assert bundle.call("list", "-q").stdout == ""


def test_O01_control_the_operators_file_is_what_decides(bundle):
    asks(bundle, allow="origin.test:80")
    rules = {"allow": ["origin.test:80=127.0.0.1"]}
    assert run(bundle, rules, "echo RAN").stdout == "RAN\n"
    without = bundle.run("echo RAN")
    assert without.returncode == 125 and "/etc/brig/oci.json (allow)" in without.stderr
    theirs = run(bundle, rules, "echo RAN", mode="666")
    assert theirs.returncode == 125 and "oci.json" in theirs.stderr, theirs
    for broken in ({"allow": ["not a host"]}, {"allow": "origin.test:80"}, {"policies": {"p": ["//"]}}, {"policies": []}, {"log": "relative"}, {"alow": []}):
        told = run(bundle, broken, "echo RAN")
        assert told.returncode == 125 and "RAN" not in told.stdout, broken


def test_a_network_that_was_made_outside_has_ways_of_its_own(bundle):
    name = f"brig-{bundle.id}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        asks(bundle, allow="origin.test:80").config["linux"]["namespaces"][1]["path"] = f"/run/netns/{name}"
        told = run(bundle, {"allow": ["origin.test:80"]}, "echo RAN")
        assert told.returncode == 125 and "--network none" in told.stderr
        bundle.config["annotations"] = {}
        assert run(bundle, {"allow": ["origin.test:80"]}, "readlink /proc/self/ns/net").stdout == f"net:[{os.stat(f'/run/netns/{name}').st_ino}]\n"  # control
        told = run(asks(bundle, allow="origin.test:80", network="own"), {"allow": ["origin.test:80"]}, "echo RAN; readlink /proc/self/ns/net")
        assert told.stdout.startswith("RAN") and str(os.stat(f"/run/netns/{name}").st_ino) not in told.stdout, told
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_an_interface_that_comes_between_create_and_start(bundle):
    asks(bundle, allow="origin.test:80").shell("echo RAN; exec sleep 1000")
    rules = {"allow": ["origin.test:80"]}

    def create():
        with (bundle.folder / "out").open("wb") as sink:
            subprocess.run(operator_command(bundle, rules, "create", "--bundle", bundle.folder, "--pid-file", bundle.folder / "pid", bundle.id),
                           stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=bundle.folder, timeout=120, check=True)
    create()
    made = subprocess.run(["nsenter", "-t", str(bundle.pid()), "-n", "ip", "tuntap", "add", "dev", "way", "mode", "tun"], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip("no interface can be made here: " + made.stderr)
    told = bundle.call("start", bundle.id)
    assert told.returncode == 125 and "interface other than loopback" in told.stderr and bundle.output() == ""
    bundle.remove()
    create()
    assert bundle.call("start", bundle.id).returncode == 0  # control


def test_exec_goes_the_same_ways(bundle, port):
    site = f"origin.test:{port}"
    start(asks(bundle, allow=site), {"allow": [f"{site}=127.0.0.1"]}, "exec sleep 1000")
    for command in (GET, DIRECT):
        assert bundle.exec("sh", "-c", command.format(site)).stdout == "from outside\n"
    assert "no-rule" in bundle.exec("sh", "-c", GET.format("other.test")).stdout


def test_the_porter_and_the_proxy_have_given_everything_away(bundle, port):
    site = f"origin.test:{port}"
    start(asks(bundle, allow=site), {"allow": [f"{site}=127.0.0.1"]}, "exec sleep 1000")
    pids = helpers_of(bundle)
    assert len(pids) == 2
    for pid in pids:
        fields = status_fields(pid)
        assert fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1" and int(fields["CapEff"], 16) == 0 and "0" not in fields["Uid"].split()
    assert open(f"/proc/{bundle.pid()}/net/route").read().count("\n") == 1


@pytest.mark.parametrize("which", ["porter", "proxy"])
def test_who_is_killed_takes_the_network_along(bundle, port, which):
    """Fail closed: the container runs on, with no way out."""
    site = f"origin.test:{port}"
    log = bundle.folder / "log"
    start(asks(bundle, allow=site), {"allow": [f"{site}=127.0.0.1"]}, "exec sleep 1000", "--log", log, "--log-format", "json")
    assert bundle.exec("sh", "-c", DIRECT.format(site)).stdout == "from outside\n"  # control
    pids = helpers_of(bundle)
    os.kill(pids[0 if which == "porter" else 1], signal.SIGKILL)
    wait_for(lambda: ended(pids[1:]))
    told = bundle.exec("sh", "-c", DIRECT.format(site))
    assert told.returncode != 0 and "from outside" not in told.stdout
    assert bundle.state() == "running"
    assert bundle.call("--log", log, "--log-format", "json", "delete", "--force", bundle.id).returncode == 0
    wait_for(lambda: ended(pids))
    receipt = lines(log)[-1]["receipt"]
    assert receipt["network_complete"] is (which == "proxy")
    assert any("brig-proxy died" in line.get("denial", {}).get("what", "") for line in lines(log)) is (which == "proxy")


def test_the_end_of_the_container_is_the_end_of_both(bundle):
    start(asks(bundle, allow="origin.test:80"), {"allow": ["origin.test:80"]}, "exec sleep 1000")
    pids = helpers_of(bundle)
    os.kill(bundle.pid(), signal.SIGKILL)
    wait_for(lambda: ended(pids))
    assert bundle.call("delete", bundle.id).returncode == 0


def test_a_create_that_is_killed_leaves_nothing_beside(bundle):
    """At any moment: what it had started ends by itself, or with delete."""
    asks(bundle, allow="origin.test:80").shell("exec sleep 1000")
    for round_ in range(LOOPS):
        process = subprocess.Popen(operator_command(bundle, {"allow": ["origin.test:80"]}, "create", "--bundle", bundle.folder, bundle.id),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=bundle.folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.02 + 0.2 * round_ / LOOPS)
        process.kill()
        process.wait(60)
        assert bundle.remove().returncode == 0
        wait_for(lambda: not of_rootfs(bundle))
    assert bundle.call("list", "-q").stdout == ""


def of_rootfs(bundle):
    """Processes that have something of this bundle open or as their command line, but this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            text = open(f"/proc/{pid}/cmdline", "rb").read()
            if bundle.id.encode() in text and int(pid) != os.getpid() and read_stat(int(pid)):
                found.append(pid)
    return found


def test_denials_and_the_receipt_are_in_the_logs(bundle, port):
    site, log, own = f"origin.test:{port}", bundle.folder / "log", bundle.folder / "operators"
    rules = {"allow": [f"{site}=127.0.0.1"], "log": str(own)}
    script = f"{GET.format(site)}; {GET.format('bad.test')}; {GET.format('bad.test')}"
    run(asks(bundle, allow=site), rules, script, "--log", log, "--log-format", "json")
    denial, receipt = lines(own)[0]["denial"], lines(own)[0 + 1]["receipt"]
    assert lines(own)[0]["level"] == "warning" and len(lines(own)) == 2 and [sorted(x) for x in lines(log)] == [sorted(x) for x in lines(own)]
    assert denial["boundary"] == "network" and "bad.test" in denial["what"] and denial["container"] == bundle.id
    assert receipt["network"]["allowed"] == 1 and receipt["decisions"]["denials"][0]["count"] == 2 and receipt["network_complete"]
    config = (bundle.folder / "config.json").read_bytes()
    assert receipt["inputs"]["config"] == receipt["policy_hash"] == "sha256:" + hashlib.sha256(config).hexdigest()
    walls = receipt["boundaries"]
    assert receipt["tier"] == "container" and walls["kernel"]["seccomp"] == "filter" and walls["network"]["attested"]["proxy"]["capabilities"] == 0
    assert walls["network"]["rules"] == [f"{site}=127.0.0.1"] and receipt["verdict"]["ended_because"] is None
    # Text, and a container without rules.
    bundle.config["annotations"] = {}
    log.unlink()
    assert run(bundle, rules, "echo RAN", "--log", log).stdout == "RAN\n"
    assert "info: receipt: {" in log.read_text() and "network_complete" not in log.read_text()


def test_a_log_is_not_filled_by_who_is_denied(bundle):
    own = bundle.folder / "operators"
    script = "i=0; while [ $i -lt 150 ]; do echo h$i.test; i=$((i+1)); done >/tmp/l; while read h; do echo \"url=http://$h\"; done </tmp/l >/tmp/c; curl -sS -K /tmp/c"
    told = run(asks(bundle, allow="origin.test:80"), {"allow": ["origin.test:80"], "log": str(own)}, script)
    assert told.stdout.count("no-rule") == 150
    assert 2 <= len(lines(own)) <= 66 and lines(own)[-1]["receipt"]["network"]["denied"] == 150


def test_O09_the_operators_log_is_a_plain_file(bundle):
    target, link = bundle.folder / "target", bundle.folder / "link"
    target.write_text("")
    link.symlink_to(target)
    told = run(bundle, {"log": str(link)}, "echo RAN")
    assert told.returncode == 125 and "RAN" not in told.stdout and target.read_text() == ""
    assert run(bundle, {"log": str(target)}, "echo RAN").stdout == "RAN\n" and "receipt" in target.read_text()  # control


def test_podman_with_an_annotation(tmp_path_factory, bundle, port):
    """The whole way: podman, its monitor, brig-oci, the porter; in a mount namespace with an /etc of its own."""
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    site, own = f"origin.test:{port}", bundle.folder / "operators"
    folder = tmp_path_factory.mktemp("p")  # a short name: podman wants one
    prefix = with_etc(folder, {"allow": [f"{site}=127.0.0.1"], "log": str(own)})
    podman = ["podman", "--root", folder / "root", "--runroot", folder / "run", "--tmpdir", folder / "tmp", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
              "--events-backend", "file", "--runtime", OCI, "run", "--rm", "--ulimit", "nofile=512:512", "--ulimit", "nproc=4096:4096", "--network", "none", "-v", "/usr:/usr:ro",
              "--annotation", f"brig.allow={site}", "--rootfs", bundle.folder / "rootfs", "sh", "-c", f"PATH=/bin:/usr/bin; {GET.format(site)}; {GET.format('bad.test')}"]
    told = subprocess.run([*prefix, *map(str, podman)],
                          capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)
    assert "from outside\n" in told.stdout and "no-rule" in told.stdout, told
    assert "denial" in lines(own)[0] and "receipt" in lines(own)[-1]


def test_containerd_with_an_annotation(tmp_path_factory, bundle, port):
    """What it says goes to a file: containerd waits two seconds for the last of a container's output, and a busy host takes longer."""
    folder, site, own = tmp_path_factory.mktemp("c"), f"origin.test:{port}", bundle.folder / "operators"
    (bundle.folder / "rootfs/said").mkdir()
    with containerd(folder, with_etc(folder, {"allow": [f"{site}=127.0.0.1"], "log": str(own)})) as ctr:
        def start(name, rule):
            return ctr("run", "--rm", "--runc-binary", OCI, "--annotation", f"brig.allow={rule}", "--mount", "type=bind,src=/usr,dst=/usr,options=rbind:ro", "--rootfs",
                       bundle.folder / "rootfs", name, "sh", "-c", f"exec >/said/{name} 2>&1; {GET.format(site)}; {GET.format('bad.test')}; exit 7")
        told = start("one", site)
        said = (bundle.folder / "rootfs/said/one").read_text()
        assert told.returncode == 7 and "from outside\n" in said and "no-rule" in said, (told, said)
        refused = start("two", "bad.test")
        assert refused.returncode != 0 and not (bundle.folder / "rootfs/said/two").exists() and "/etc/brig/oci.json (allow)" in refused.stderr, refused
        ctr("container", "delete", "two")
    assert "denial" in lines(own)[0] and "receipt" in lines(own)[-1]
