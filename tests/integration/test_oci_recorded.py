"""What Docker's engine asked `brig oci` for, replayed without the engine: its configuration and its calls as test_docker.py's engine made them."""
import contextlib
import json
import os
import platform
import secrets
import subprocess
from pathlib import Path

import pytest

from helpers import IS_ROOT, ROOT, end, wait_for
from ocilib import BUSYBOX, bundle_of, groups_left, operator_call, operator_command

pytestmark = pytest.mark.skipif(not IS_ROOT or not BUSYBOX, reason="Docker's engine is root's; a root from busybox")
RECORDED = Path(__file__).parent / "engines" / "docker-20.10.json"
# In the place of dockerd: it waits, or says with which arguments it was called, and what it read.
ENGINE = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **args)
{
    char text[9000];
    if (count == 1)
        for (;;)
            pause();
    FILE *out = fopen(TOLD, "a");
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%c", args[i], i == count - 1 ? '\n' : ' ');
    ssize_t n = read(0, text, sizeof text);
    fwrite(text, 1, n > 0 ? n : 0, out);
    return fclose(out) != 0;
}
"""


class Engine:
    def __init__(self, bundle):
        self.bundle = bundle
        folder = bundle.folder.parent
        self.program, self.told = folder / "dockerd", folder / "told"
        (folder / "engine.c").write_text(ENGINE)
        subprocess.run(["cc", f'-DTOLD="{self.told}"', "-o", str(self.program), str(folder / "engine.c")], check=True)
        self.process = subprocess.Popen([str(self.program)])
        wait_for(lambda: os.readlink(f"/proc/{self.process.pid}/exe") == str(self.program))
        bundle.id = secrets.token_hex(32)
        for name in ("resolv.conf", "hostname", "hosts"):
            (bundle.folder / name).write_text(f"{name}\n")
        text = RECORDED.read_text()
        for name, value in (("@ID@", bundle.id), ("@PID@", str(self.process.pid)), ("@BUNDLE@", str(bundle.folder))):
            text = text.replace(name, value)
        bundle.config = json.loads(text)
        if platform.machine() == "aarch64":
            bundle.config["linux"]["seccomp"]["architectures"] = ["SCMP_ARCH_AARCH64"]

        self.logged = ["--log", bundle.folder / "log.json", "--log-format", "json"]
        self.allowed = {"docker": str(self.program)}

    def call(self, *args, **kwargs):
        """As containerd's shim calls, with an operator's file."""
        return operator_call(self.bundle, self.allowed, *self.logged, *args, **kwargs)

    def create(self, allowed=None):
        self.bundle.save()
        folder = self.bundle.folder
        command = operator_command(self.bundle, self.allowed if allowed is None else allowed, *self.logged, "create", "--bundle", folder,
                                   "--pid-file", folder / "init.pid", self.bundle.id)
        # The first process keeps stdout: whoever waited for its end would wait for the container's.
        with (folder / "out").open("wb") as sink:
            made = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=folder, timeout=120)
        return made.returncode, (folder / "out").read_text()

    @property
    def hook(self):
        return self.bundle.config["hooks"]["prestart"][0]


@pytest.fixture
def engine():
    with bundle_of(ROOT) as bundle:
        made = Engine(bundle)
        try:
            yield made
        finally:
            bundle.remove()
            end(made.process)
            for folder in groups_left("docker-replay"):
                with contextlib.suppress(OSError):  # another run's container is in it
                    os.rmdir(folder)


def test_docker_calls_in_their_order(engine):
    bundle = engine.bundle
    assert engine.create() == (0, "")
    name, state = engine.told.read_text().split("\n", 1)
    assert name == f"libnetwork-setkey -exec-root=/var/run/docker {bundle.id} 9d86212998c4"
    state = json.loads(state)
    assert state["id"] == bundle.id and state["pid"] == int((bundle.folder / "init.pid").read_text())
    assert engine.call("start", bundle.id).returncode == 0
    wait_for(lambda: (bundle.folder / "out").read_text() == "up\n")
    process = {**bundle.config["process"], "args": ["sh", "-c", "echo $X; hostname; cat /etc/hosts; grep NoNewPrivs /proc/self/status"]}
    process["env"] = [*process["env"], "X=y"]
    (bundle.folder / "process.json").write_text(json.dumps(process))
    told = engine.call("exec", "--process", bundle.folder / "process.json", "--detach", "--pid-file", bundle.folder / "exec.pid", bundle.id)
    assert told.returncode == 0 and told.stdout == "y\nbox\nhosts\nNoNewPrivs:\t1\n", told
    assert state["pid"] in json.loads(engine.call("ps", "--format", "json", bundle.id).stdout)
    told = engine.call("update", "--resources", "-", bundle.id, stdin=None, input='{"memory":{"limit":33554432,"swap":33554432},"cpu":{},"pids":{"limit":40},"blockIO":{}}')
    assert told.returncode == 0, told
    for verb, status in (("pause", "paused"), ("resume", "running")):
        assert engine.call(verb, bundle.id).returncode == 0 and bundle.state() == status
    assert engine.call("kill", bundle.id, "15").returncode == 0
    wait_for(lambda: bundle.state() == "stopped")
    assert engine.call("delete", bundle.id).returncode == 0
    assert engine.call("delete", "--force", bundle.id).returncode == 0
    assert groups_left(bundle.id) == []


@pytest.mark.parametrize("stage, hook, why", [
    ("prestart", {"args": ["dockerd", "--data-root", "/x", "-D"]}, "something else than a network"),
    ("prestart", {"args": []}, "something else than a network"),
    ("prestart", {"args": ["libnetwork-setkey", "-exec-root=/x", "@", "9d86212998c4", "more"]}, "something else than a network"),
    ("prestart", {"args": ["libnetwork-setkey", "--data-root=/x", "@", "9d86212998c4"]}, "something else than a network"),
    ("prestart", {"args": ["libnetwork-setkey", "-exec-root=/x", "@", "../../x"]}, "something else than a network"),
    ("prestart", {"args": ["libnetwork-setkey", "-exec-root=/x", "ab" * 32, "9d86212998c4"]}, "names another container"),
    ("prestart", {"env": ["PATH=/usr/bin"]}, "something else than a network"),
    ("prestart", {"path": "/proc/@SELF@/exe"}, "is not the program"),
    ("prestart", {"path": "/proc/999999999/exe"}, "look at hook"),
    ("prestart", {"path": "/proc/self/exe"}, "would run outside"),
    ("prestart", {"path": "/proc/@PID@/root/usr/bin/env"}, "would run outside"),
    ("prestart", {"path": "@PROGRAM@"}, "would run outside"),
    ("createRuntime", {}, "something else than a network"),
    ("poststart", {}, "something else than a network"),
    ("poststop", {}, "something else than a network"),
])
def test_O05_docker_hook_is_nothing_else(engine, stage, hook, why):
    """With the operator's word for Docker: one program, one order, this container."""
    text = json.dumps({**engine.hook, **hook}).replace("@PID@", str(engine.process.pid)).replace("@SELF@", str(os.getpid())).replace("@PROGRAM@", str(engine.program)).replace('"@"', f'"{engine.bundle.id}"')
    engine.bundle.config["hooks"] = {stage: [json.loads(text)]}
    code, told = engine.create()
    assert code == 125 and why in told and not engine.told.exists(), told
    assert engine.bundle.call("list", "-q").stdout == "" and groups_left(engine.bundle.id) == []


def test_O05_docker_hook_is_the_operators_to_allow(engine):
    for allowed, why in (({}, '{"docker": "/usr/sbin/dockerd"}'), ({"hooks": [str(engine.program), engine.hook["path"]]}, '{"docker": "/usr/sbin/dockerd"}'),
                         ({"docker": "/usr/bin/env"}, "is not the program /usr/bin/env"), ({"docker": "dockerd"}, "absolute path")):
        code, told = engine.create(allowed)
        assert code == 125 and why in told and not engine.told.exists(), told
    # A program that others can change is nobody's word; nor is one that was put in its place since.
    engine.program.chmod(0o777)
    code, told = engine.create()
    assert code == 125 and "Docker's program" in told and not engine.told.exists(), told
    engine.program.chmod(0o755)
    kept = engine.program.read_bytes()
    engine.program.unlink()
    engine.program.write_bytes(kept)
    engine.program.chmod(0o755)
    code, told = engine.create()
    assert code == 125 and "restart Docker" in told and not engine.told.exists(), told
