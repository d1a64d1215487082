"""What was granted is what is shown: a path leads to the folder that the operator meant, whatever a sandbox has put in its
way (FS-6, FS-7), and brings nothing along that is mounted below it (FS-8)."""

import contextlib
import os
import subprocess

import pytest

from escapelib import PLACE, REFUSED, TIERS, USER_ID, Result, finish, outside

PYTHON = "/usr/bin/python3"
ROOT = os.getuid() == 0


def cells(which):
    return pytest.mark.parametrize("cell", which, ids=lambda cell: cell.id)


def own(cell, *paths):
    for path in paths:
        if cell.user == "user" and ROOT:
            os.chown(path, USER_ID, USER_ID)


@pytest.fixture
def scene(request):
    """A volume that sandboxes may write, and beside it what they may not see."""
    cell = request.getfixturevalue("cell")
    top = PLACE.folder("subpath", cell.user)
    for name in ("vol", "vol/a", "vol/a/sub", "secret", "secret/sub"):
        (top / name).mkdir()
        # On the process tier a sandbox of root's has a uid that owns nothing.
        (top / name).chmod(0o777 if name.startswith("vol") else 0o755)
        (top / name / "file").write_text("secret" if name.startswith("secret") else "mine")
        own(cell, top / name, top / name / "file")
    return top


PLANT = """
import os, sys
vol, target = sys.argv[1:]
os.rename(vol + "/a", vol + "/away")
os.symlink(target, vol + "/a")
"""


def plant(cell, top, target="../secret"):
    result = cell.run([PYTHON, "-c", PLANT, top / "vol", target], ["--rw", top / "vol"])
    assert result.rc == 0 and os.readlink(top / "vol" / "a") == target, result
    # The control: whoever follows the link reads what it leads to.
    assert outside("cat", top / "vol" / "a" / "file", user=cell.user).out == "secret"


def refused(result, top, real):
    text = result.out + result.err
    assert result.rc == REFUSED and "is a link" in text and f"{top}/vol/a" in text, result
    assert str(top / real) in text, "no hint at the path without the link"


@cells(TIERS)
def test_a_link_that_another_sandbox_planted_is_not_followed(cell, scene):
    """The class that Kubernetes knows as subPath: no race is needed, only a second run that names a path in the volume."""
    granted = cell.run(["cat", scene / "vol" / "a" / "file"], ["--ro", scene / "vol" / "a"])
    assert granted.json["stdout"] == "mine", granted
    plant(cell, scene)
    place = ":/in" if cell.container else ""
    for option in ("--ro", "--rw"):
        refused(cell.run(["true"], [option, f"{scene}/vol/a{place}"]), scene, "secret")
        refused(cell.run(["true"], [option, f"{scene}/vol/a/sub{place}"]), scene, "secret/sub")
        refused(cell.run(["true"], [option, f"{scene}/vol/a/file{place}"]), scene, "secret/file")
    refused(cell.run(["true"], ["--review", scene / "vol" / "a"], env={"XDG_STATE_HOME": str(PLACE.folder("state", cell.user))}),
            scene, "secret")
    if cell.container:
        refused(cell.run(["true"], ["--root", scene / "vol" / "a"]), scene, "secret")
    assert (scene / "secret" / "file").read_text() == "secret"
    # By its own name it is the operator's to grant.
    named = cell.run(["cat", scene / "secret" / "file"], ["--ro", scene / "secret"])
    assert named.json["stdout"] == "secret", named


@cells([cell for cell in TIERS if cell.container])
def test_a_planted_link_is_no_project_either(cell, scene):
    plant(cell, scene)
    argv = [*cell.prefix(), PLACE.brig, "run", "--level", "medium", "--project", str(scene / "vol" / "a"), "--", "true"]
    done = subprocess.run(argv, env=cell.env(), capture_output=True, text=True, cwd="/", check=False, stdin=subprocess.DEVNULL)
    refused(Result(done.returncode, done.stdout, done.stderr), scene, "secret")


def start(cell):
    return ["run", "--level", cell.level, *(["--tier", cell.tier] if cell.level != "low" else [])]


def brig(cell, *arguments):
    done = subprocess.run([*cell.prefix(), PLACE.brig, *map(str, arguments)], env=cell.env(), capture_output=True, text=True, cwd="/",
                          check=False, stdin=subprocess.DEVNULL)
    return Result(done.returncode, done.stdout, done.stderr)


@cells(TIERS)
def test_code_is_not_read_through_a_planted_link(cell, scene):
    """What is read goes inside, so it is granted as much as a folder is."""
    run = (*start(cell), "--lang", "bash")
    (scene / "vol" / "a" / "file").write_text("echo mine")
    assert brig(cell, *run, scene / "vol" / "a" / "file").out == "mine\n", "the control"
    plant(cell, scene)
    refused(brig(cell, *run, scene / "vol" / "a" / "file"), scene, "secret/file")
    outside("ln", "-s", "../secret/file", scene / "vol" / "code.sh", user=cell.user)
    result = brig(cell, *run, scene / "vol" / "code.sh")
    assert result.rc == REFUSED and "is a link" in result.err and "secret: " not in result.err, result


@cells(TIERS)
@pytest.mark.parametrize("option", ["--learn=", "--receipt="])
def test_nothing_is_written_through_a_planted_link(cell, scene, option):
    plant(cell, scene)
    result = brig(cell, *start(cell), f"{option}{scene}/vol/a/new", "--", "cat", "/srv/nothing")
    assert result.rc == REFUSED and "is a link" in result.err, result
    assert sorted(path.name for path in (scene / "secret").iterdir()) == ["file", "sub"]


@cells(TIERS)
@pytest.mark.parametrize("target", ["{top}/secret", "away/../../secret", "b"])
def test_however_the_link_is_said(cell, scene, target):
    target = target.format(top=scene)
    if target == "b":
        outside("ln", "-s", "../secret", scene / "vol" / "b", user=cell.user)
    plant(cell, scene, target)
    result = cell.run(["true"], ["--ro", scene / "vol" / "a"])
    assert result.rc == REFUSED and "is a link" in result.out + result.err, result


FLIP = """
import os, sys
vol = sys.argv[1]
os.symlink("../secret", vol + "/b")
print("flipping", flush=True)
import ctypes
libc = ctypes.CDLL(None)
a, b = (vol + "/a").encode(), (vol + "/b").encode()
while True:
    libc.syscall({"x86_64": 316, "aarch64": 276}[os.uname().machine], -100, a, -100, b, 2)
"""


@cells(TIERS)
def test_nor_one_that_comes_and_goes(cell, scene):
    """A sandbox that runs changes folder and link for each other, as fast as it can, while another one is started."""
    attacker = cell.start([PYTHON, "-c", FLIP, scene / "vol"], ["--rw", scene / "vol", "--timeout", "10m"], json_out=False)
    try:
        assert attacker.stdout.readline() == b"flipping\n"
        # The control: following the path, one sees both.
        seen = {outside("cat", scene / "vol" / "a" / "file", user=cell.user).out for _ in range(200)}
        assert seen >= {"secret", "mine"}, seen
        started = 0
        for _ in range(40):
            place = "/in" if cell.container else str(scene / "vol" / "a")
            grant = f"{scene}/vol/a:/in" if cell.container else f"{scene}/vol/a"
            result = cell.run(["cat", f"{place}/file"], ["--ro", grant])
            started += result.rc != REFUSED
            assert "secret" not in (result.json.get("stdout") or ""), result
        assert started, "none was started: nothing was tried"
    finally:
        attacker.kill()
        finish(attacker)


@cells(TIERS)
def test_links_of_the_system_lead_on(cell):
    """Where only root can write, and nothing is ever granted: /bin is a link on most systems."""
    if not os.path.islink("/bin"):
        pytest.skip("/bin is no link here")
    options = ["--ro", "/bin:/in"] if cell.container else ["--ro", "/bin"]
    result = cell.run(["/in/true" if cell.container else "/bin/true"], options)
    assert result.rc == 0, result


# ---- mounts ----

needs_mount = pytest.mark.skipif(not ROOT, reason="only root can mount something on the host")


def with_mount(cell, place, command, options, kind="tmpfs"):
    """As cell.run, where something is mounted at `place`: in a mount namespace that ends with it."""
    script = f'mount -t tmpfs none "$1" && echo nested > "$1/file" && chmod 755 "$1" && chown {cell.host_uid} "$1" "$1/file" &&'
    if kind == "bind":
        source = PLACE.folder("elsewhere")
        (source / "file").write_text("nested\n")
        script = f'mount --bind "{source}" "$1" &&'
    argv = ["unshare", "-m", "sh", "-c", f'{script} shift && exec "$@"', "sh", str(place), *cell.argv(command, options)]
    done = subprocess.run(argv, env=cell.env(), capture_output=True, text=True, cwd="/", check=False, stdin=subprocess.DEVNULL)
    return Result(done.returncode, done.stdout, done.stderr)


@needs_mount
@cells(TIERS)
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_what_is_mounted_below_a_grant_does_not_come_along(cell, kind):
    granted = PLACE.folder("granted", cell.user)
    place = granted / "deep" / "place"
    place.mkdir(parents=True)
    options = ["--ro", granted]
    allowed = with_mount(cell, place, ["cat", place / "file"], [*options, "--submounts"], kind)
    assert allowed.json["stdout"] == "nested\n", f"the control: {allowed}"
    result = with_mount(cell, place, ["cat", place / "file"], options, kind)
    said = result.out + result.err
    assert result.rc == REFUSED and str(place) in said and "submounts" in said, result
    # It can be granted by its own name, and what lies beside it as ever.
    named = with_mount(cell, place, ["cat", place / "file"], ["--ro", place], kind)
    assert named.json["stdout"] == "nested\n", named
    (granted / "beside").mkdir()
    assert with_mount(cell, place, ["true"], ["--ro", granted / "beside"], kind).rc == 0


@needs_mount
@cells([cell for cell in TIERS if cell.container])
def test_nor_below_a_root(cell, tmp_path):
    root = PLACE.folder("image", cell.user)
    for name in ("usr", "bin", "lib", "lib64"):
        with contextlib.suppress(FileNotFoundError):
            if os.path.islink(f"/{name}"):
                os.symlink(os.readlink(f"/{name}"), root / name)
    (root / "usr").mkdir()
    result = with_mount(cell, root / "usr", ["true"], ["--root", root])
    assert result.rc == REFUSED and "mounted below" in result.out + result.err, result
