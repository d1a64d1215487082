"""`brig image from-host`: an image of packages that this host has; as root and as an ordinary user."""
import os
import shutil
from pathlib import Path

import pytest


pytestmark = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="this host has no packages of dpkg's")


def test_it_runs_what_was_named(store):
    told = store.image("from-host", "--packages", "python3-minimal", "dev/python")
    assert told.returncode == 0, told
    assert store.run("--image", "dev/python", "--", "python3", "-c", "print(6*7)").stdout == "42\n"
    told = store.run("--image", "dev/python", "--", "sh", "-c", "id -u; awk 'BEGIN {print 5}'; ls /usr/share/man /usr/share/doc 2>/dev/null; echo end")
    assert told.stdout.split() == ["1000", "5", "end"], told
    store.clean()


def test_nothing_of_the_hosts_own_is_in_it(store):
    assert store.image("from-host", "small/host").returncode == 0
    root = store.root()
    for name in ("etc/shadow", "etc/machine-id", "etc/hostname", "etc/ssh", "var", "root", "home", "etc/apt", "etc/sudoers"):
        assert not (root / name).exists(), name
    assert "root:x:0:0:root:/root:/bin/sh" in (root / "etc/passwd").read_text() and (root / "etc/passwd").read_text().count("\n") == 3
    # What not everybody may read stays out, though a package lists it.
    closed = [line for path in Path("/var/lib/dpkg/info").glob("*.list") for line in path.read_text().split("\n")
              if line.startswith("/usr/") and os.path.isfile(line) and not os.path.islink(line) and not os.stat(line).st_mode & 4]
    assert not any((root / line.lstrip("/")).exists() for line in closed)
    assert all(path.lstat().st_mode & 0o6000 == 0 for path in root.rglob("*") if not path.is_symlink())


@pytest.mark.parametrize("names", ["no-such-package", "../../etc", "bash;id", "-x", "a" * 300])
def test_packages_that_are_none(store, names):
    told = store.image("from-host", f"--packages={names}", "small/host")
    assert told.returncode == 125 and b"there is no package" in told.stderr, told


def test_every_client_of_a_daemon_gets_the_image_of_its_template(store):
    """By the template's name over E2B's API and MCP, and over Dify's, which names a language: a file that the image alone has is there."""
    from daemonlib import Daemon
    from mcplib import Http
    assert store.image("from-host", "--packages", "python3", "dev/python").returncode == 0
    folder = store.new()
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM dev/python\nRUN echo of the image >/only-here\n")
    assert store.image("build", "-t", "dev/marked", "--sampling", "accept", folder).returncode == 0
    policy = "policy: {filesystem: {root: 'image:dev/marked'}, lifecycle: {sampling: accept}}\n"
    with Daemon(store.caller.name, templates={"python.yaml": policy}, env={"XDG_STATE_HOME": str(store.state), "HOME": str(store.state)}) as daemon:
        box = daemon.create("python")
        assert box.run("/bin/cat", "/only-here").out == b"of the image\n"
        mcp = Http(daemon)
        told, failed = mcp.call("run_command", session_id=mcp.session(template="python"), command="cat /only-here")
        assert not failed and told["stdout"] == "of the image\n", told
        told = daemon.request("POST", "/v1/sandbox/run", {"language": "python3", "code": "print(open('/only-here').read(), end='')"}).json
        assert told["data"] and told["data"]["stdout"] == "of the image\n", told
    assert not os.path.exists("/only-here"), "the control"
