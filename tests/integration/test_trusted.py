"""Files that brig obeys (FS-9 to FS-11): nobody else may have written them, or can put others in their place."""
import os
import shutil
import subprocess

import pytest
from helpers import IS_ROOT, PUBLIC, USER_ID, Caller
from reviewlib import Lab

CALLERS = [Caller("root"), Caller("user")] if IS_ROOT else [Caller("user")]
POLICY = "lifecycle: {timeout: 77s}\n"
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")


@pytest.fixture(params=CALLERS, ids=lambda c: c.name)
def lab(request):
    lab = Lab(request.param, "container")
    (lab.top / "policy.yaml").write_text(POLICY)
    (lab.top / "policy.yaml").chmod(0o644)
    lab.own()
    yield lab
    lab.close()


def use(lab, policy, verb=("run",), then=("--", "true")):
    return lab.brig(*verb, "--policy", policy, *then, cwd=lab.top)


def refused(done, *said):
    assert done.returncode == 125, done
    for word in (*said, "hint"):
        assert word in done.stderr, done.stderr


def test_one_of_ones_own_is_obeyed(lab):
    assert use(lab, lab.top / "policy.yaml").returncode == 0
    assert use(lab, "policy.yaml").returncode == 0
    assert "77" in use(lab, "./policy.yaml", ("policy", "explain"), ()).stdout


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646, 0o622])
def test_that_others_can_write(lab, mode):
    policy = lab.top / "policy.yaml"
    policy.chmod(mode)
    refused(use(lab, policy), "changed by others", f"{mode:04o}", "chmod go-w")
    refused(lab.brig("policy", "check", policy), "changed by others")


@needs_root
def test_that_belong_to_others(lab):
    policy = lab.top / "policy.yaml"
    other = USER_ID + 1
    os.chown(policy, other, other)
    refused(use(lab, policy), "belongs to another user", str(other))
    os.chown(policy, 0, 0)
    assert use(lab, policy).returncode == 0, "root's may be taken by everybody"


def test_that_are_links(lab):
    (lab.top / "link").symlink_to("policy.yaml")
    (lab.top / "folder").symlink_to(".")
    lab.own()
    refused(use(lab, "link"), "is a link", str(lab.top / "policy.yaml"))
    refused(use(lab, lab.top / "folder" / "policy.yaml"), "is a link", str(lab.top / "policy.yaml"))


def test_that_can_be_exchanged(lab):
    folder = lab.top / "folder"
    folder.mkdir()
    shutil.copy(lab.top / "policy.yaml", folder)
    lab.own()
    folder.chmod(0o777)
    refused(use(lab, folder / "policy.yaml"), "others can write", str(folder))
    folder.chmod(0o1777)
    assert use(lab, folder / "policy.yaml").returncode == 0, "as /tmp is"


@pytest.mark.parametrize("verb", [("verify",), ("policy", "show"), ("policy", "explain"), ("secrets", "check")])
def test_every_verb_that_takes_a_policy(lab, verb):
    (lab.top / "policy.yaml").chmod(0o666)
    refused(use(lab, lab.top / "policy.yaml", verb, ()), "changed by others")


def test_one_that_the_code_can_write(lab):
    """What a run may write decides what the next one may: that is said."""
    project = lab.project
    shutil.copy(lab.top / "policy.yaml", project / "policy.yaml")
    lab.own()
    said = "the next run would obey"
    assert said in use(lab, project / "policy.yaml", then=("--rw", project, "--", "true")).stderr
    assert said in use(lab, project / "policy.yaml", ("run", "--level", "medium", "--project", project)).stderr
    assert said not in use(lab, project / "policy.yaml", then=("--ro", project, "--", "true")).stderr
    assert said not in use(lab, lab.top / "policy.yaml", then=("--rw", project, "--", "true")).stderr


# ---- templates ----

TEMPLATE = "description: mine\n"


def serve(lab, templates):
    """Starts the daemon, and ends it when it is ready."""
    command = lab.caller.outside(str(PUBLIC / "brig"), "serve", "--state", str(lab.top / "serve"), "--socket",
                                 str(lab.top / "sock"), "--listen", "127.0.0.1:0", "--templates", str(templates))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/", env=lab.env)
    if "ready" in process.stdout.readline():
        process.terminate()
    _, said = process.communicate(timeout=120)
    return subprocess.CompletedProcess(command, process.returncode, "", said)


@pytest.fixture
def templates(lab):
    folder = lab.top / "templates"
    folder.mkdir()
    (folder / "mine.yaml").write_text(TEMPLATE)
    (folder / "mine.yaml").chmod(0o644)
    lab.own()
    return folder


def test_templates(lab, templates):
    assert serve(lab, templates).returncode == 0
    (templates / "mine.yaml").chmod(0o666)
    refused(serve(lab, templates), "changed by others")
    (templates / "mine.yaml").chmod(0o644)
    # Who can write the folder can take a template away, and the built-in one of that name comes in its place.
    templates.chmod(0o777)
    refused(serve(lab, templates), "others can write")
    templates.chmod(0o755)
    (lab.top / "link").symlink_to("templates")
    lab.own()
    refused(serve(lab, lab.top / "link"), "is a link", str(templates))
    (templates / "mine.yaml").rename(lab.top / "elsewhere.yaml")
    (templates / "mine.yaml").symlink_to("../elsewhere.yaml")
    lab.own()
    refused(serve(lab, templates), "is a link")


@needs_root
def test_templates_of_others(lab, templates):
    os.chown(templates / "mine.yaml", USER_ID + 1, USER_ID + 1)
    refused(serve(lab, templates), "belongs to another user")
    os.chown(templates / "mine.yaml", lab.caller.uid, lab.caller.uid)
    os.chown(templates, USER_ID + 1, USER_ID + 1)
    refused(serve(lab, templates), "belongs to another user")


# ---- FS-5: brig's own ----

def granted(lab, place, *options):
    return lab.brig("run", "--ro", place, *options, "--", "true", cwd="/")


def test_the_state_of_a_daemon_is_never_granted(lab, templates):
    state = lab.top / "deep" / "serve"
    state.parent.mkdir()
    lab.own()
    key = lab.top / "keys" / "operator"
    key.parent.mkdir()
    lab.own()
    command = lab.caller.outside(str(PUBLIC / "brig"), "serve", "--state", str(state), "--socket", str(lab.top / "keys" / "sock"),
                                 "--listen", "127.0.0.1:0", "--key-file", str(key))
    assert granted(lab, state.parent).returncode == 0, "the control: it is a folder like another"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/", env=lab.env)
    try:
        assert "ready" in process.stdout.readline(), process.stderr.read()
        for place in (state, state.parent, state / "audit", key, key.parent):
            refused(granted(lab, place), "never enters a sandbox")
        refused(lab.brig("run", "--root", state, "--", "true", cwd="/"), "never enters a sandbox")
        refused(lab.brig("run", "--review", state.parent, "--", "true", cwd="/"), "never enters a sandbox")
        assert granted(lab, templates).returncode == 0
    finally:
        process.terminate()
        process.communicate(timeout=120)
    # Nor when nobody serves it, from another environment, or somewhere else.
    for place in (state, state.parent, key):
        refused(granted(lab, place), "never enters a sandbox")
    lab.env.pop("XDG_STATE_HOME")
    refused(granted(lab, state.parent), "never enters a sandbox")
    moved = lab.top / "moved"
    state.rename(moved)
    refused(granted(lab, moved), "never enters a sandbox")
    refused(granted(lab, moved / "audit"), "never enters a sandbox")
    assert granted(lab, state.parent).returncode == 0


@needs_root
def test_nor_under_another_name(lab, templates):
    """A bind mount shows it in a second place."""
    state, alias = lab.top / "serve", lab.top / "alias"
    alias.mkdir()
    lab.own()
    assert serve(lab, templates).returncode == 0
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    run = lab.caller.outside(str(PUBLIC / "brig"), "run", "--ro", str(alias), "--", "true")
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(state), str(alias), *run], capture_output=True,
                          text=True, cwd="/", env=lab.env, check=False, stdin=subprocess.DEVNULL)
    refused(done, "never enters a sandbox")


def test_the_state_of_runs_is_never_granted(lab):
    review = lab.review("echo x > x")
    assert review
    for place in (lab.state, lab.state / "brig", lab.state / "brig" / "reviews" / review):
        refused(granted(lab, place), "never enters a sandbox")
