"""Review mode: nothing reaches the project until it is applied, and then all of it or nothing (RV-1 to RV-6)."""
import fcntl
import json
import os
import pty
import shutil
import signal
import subprocess
import time

import pytest
from helpers import IS_ROOT, PUBLIC, WATCHED, Caller, wait_for
from reviewlib import Lab, tree
from verifylib import weak_programs

CALLERS = [Caller("root"), Caller("user")] if IS_ROOT else [Caller("user")]
ALL = [(caller, tier) for caller in CALLERS for tier in ("container", "process")]

# Every kind of change, in words that also work outside.
SCRIPT = r"""
set -e
echo more >> text
printf 'no end' > unended
printf '\0\1binary' > binary
rm gone
rm -r folder
mkdir folder
echo other > folder/other
mv moved renamed
mkdir -p new/deep
echo new > new/deep/file
chmod 755 tool
chmod 700 kept
ln -s text link
rm turned; mkdir turned; echo in > turned/in
rm -r back; echo file > back
echo same > same
"""


def fill(lab):
    lab.write("text", "".join(f"line {i}\n" for i in range(40)))
    for name in ("unended", "gone", "turned", "tool", "same", "kept/in", "back/one", "back/two"):
        lab.write(name, f"{name}\n" if name != "same" else "same\n")
    lab.write("binary", b"\0old")
    lab.write("moved", "something to be found again\n" * 3)
    for name in ("a", "b", "sub/c"):
        lab.write(f"folder/{name}", name)
    lab.write("untouched/file", "untouched")
    lab.own()


@pytest.fixture(params=ALL, ids=lambda p: f"{p[0].name}-{p[1]}")
def lab(request):
    lab = Lab(*request.param)
    yield lab
    lab.close()


@pytest.fixture
def container_lab():
    lab = Lab(CALLERS[-1], "container")
    yield lab
    lab.close()


def test_all_kinds_of_changes(lab):
    fill(lab)
    before = tree(lab.project)
    native = lab.top / "native"
    shutil.copytree(lab.project, native, symlinks=True)
    subprocess.run(["sh", "-c", SCRIPT], cwd=native, check=True)
    review = lab.review(SCRIPT)
    assert review and lab.told["exit_code"] == 0, lab.told
    assert tree(lab.project) == before
    told = lab.changes(review)
    assert told["text"]["change"] == "modified" and "+more" in told["text"]["diff"]
    assert told["renamed"]["change"] == "renamed" and told["renamed"]["old_path"] == "moved"
    assert told["tool"]["change"] == "mode" and told["tool"]["new_mode"] == "0755"
    assert told["binary"]["binary"] and told["binary"]["diff"] is None
    assert told["gone"]["change"] == told["folder/sub/c"]["change"] == "deleted"
    assert told["link"]["new_type"] == "link" and told["turned"]["new_type"] == "folder"
    assert "same" not in told and "untouched" not in told and "untouched/file" not in told
    assert not any(c["conflict"] or c["refused"] or c["trust"] for c in told.values())
    done = lab.apply(review)
    assert done.returncode == 0, done.stderr
    assert tree(lab.project) == tree(native)
    owners = {(p.lstat().st_uid, p.lstat().st_gid) for p in lab.project.rglob("*")}
    assert owners == {(lab.caller.uid, lab.caller.uid)}
    assert lab.reviews() == []


def test_nothing_changed_leaves_nothing(lab):
    fill(lab)
    assert lab.review("cat text; pwd") is None
    assert lab.reviews() == [] and list((lab.state / "brig" / "reviews").iterdir()) == []
    # The same place as the project where there is one, and never the project itself.
    place = lab.told["stdout"].splitlines()[-1]
    assert (place == str(lab.project)) == (lab.tier == "container")


def test_discard(lab):
    fill(lab)
    before = tree(lab.project)
    review = lab.review("echo x > x; mkdir d; chmod 0 d")
    assert lab.reviews() == [review]
    assert lab.brig("discard", review).returncode == 0
    assert lab.reviews() == [] and tree(lab.project) == before
    assert list((lab.state / "brig" / "reviews").iterdir()) == []
    for verb in ("diff", "apply", "discard"):
        done = lab.brig(verb, review)
        assert done.returncode == 125 and "no review" in done.stderr


def test_a_review_that_cannot_be_read_is_told(lab):
    """The others are listed; nothing that waits for a decision is left out without a word."""
    fill(lab)
    good, bad = lab.review("echo good > good"), lab.review("echo bad > bad")
    place = lab.state / "brig" / "reviews" / bad
    record = (place / "meta.json").read_text()
    assert lab.brig("diff").returncode == 0, "the control"
    (place / "meta.json").write_text(record[:20])
    done = lab.brig("diff")
    assert done.returncode == 125 and good in done.stdout and bad not in done.stdout, done
    assert f"the review {bad} cannot be read" in done.stderr and f"brig discard {bad}" in done.stderr, done
    done = lab.brig("diff", "--json")
    assert done.returncode == 125 and bad in json.loads(done.stdout)["error"]["message"], done
    # One that is being written is of a run that begins, which has its folder locked.
    held = os.open(place, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    done = lab.brig("diff")
    assert done.returncode == 0 and good in done.stdout and bad not in done.stdout, done
    os.close(held)
    # One whose record is still to come is of a run that begins.
    (place / "meta.json").unlink()
    assert lab.brig("diff").returncode == 0 and lab.reviews() == [good]
    (place / "meta.json").mkdir()
    assert "cannot be read" in lab.brig("diff").stderr
    (place / "meta.json").rmdir()
    assert lab.brig("discard", bad).returncode == 0 and not place.exists()


def test_some_files_only(lab):
    fill(lab)
    review = lab.review(SCRIPT)
    assert lab.apply(review, "nothing").returncode == 125
    done = lab.apply(review, "new/deep/file", "gone", "--json")
    assert done.returncode == 0 and '"applied":["gone","new","new/deep","new/deep/file"]' in done.stdout, done
    assert not (lab.project / "gone").exists() and (lab.project / "moved").exists()
    assert "gone" not in lab.changes(review)
    # Either name stands for a renamed file.
    assert lab.apply(review, "moved").returncode == 0
    assert (lab.project / "renamed").exists() and not (lab.project / "moved").exists()
    assert lab.apply(review, "--dry-run").returncode == 0 and (lab.project / "back").is_dir()
    assert lab.apply(review).returncode == 0 and (lab.project / "back").is_file()
    assert lab.reviews() == []


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_other_tools_read_the_diff(container_lab, tool):
    lab = container_lab
    fill(lab)
    copy = lab.top / "copy"
    shutil.copytree(lab.project, copy, symlinks=True)
    review = lab.review(r"""sed -i '3d;20s/.*/changed/' text; echo last >> text; rm gone; printf 'no end' > unended
        mkdir -p new; echo new > new/file; mv moved renamed; printf 'x\n' > "$(printf 'a\tb"c')"; : > empty""")
    patch = lab.brig("diff", review).stdout
    command = ["git", "apply", "-"] if tool == "git" else ["patch", "-p1", "-s", "-E"]
    done = subprocess.run(command, cwd=copy, input=patch, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr + patch
    assert lab.apply(review).returncode == 0
    got, want = tree(copy), tree(lab.project)
    if tool == "patch":
        got.pop("empty", None), want.pop("empty")
    assert got == want


CHANGES_ON_THE_HOST = {
    "changed": ("echo theirs >> text", "text"),
    "removed": ("rm text", "text"),
    "made": ("echo theirs > fresh", "fresh"),
    "replaced by a link": ("rm text; ln -s /etc/passwd text", "text"),
    "mode": ("chmod 600 text", "text"),
    "new in a deleted folder": ("echo theirs > folder/fresh", "folder"),
    "changed in a deleted folder": ("echo theirs > folder/a", "folder/a"),
}


@pytest.mark.parametrize("what", CHANGES_ON_THE_HOST)
def test_conflicts_are_refused(lab, what):
    command, name = CHANGES_ON_THE_HOST[what]
    script = "echo mine >> text; echo mine > fresh; echo mine > free; rm -r folder"
    fill(lab)
    review = lab.review(script)
    assert lab.apply(review, "--dry-run").returncode == 0, "the control"
    lab.outside("sh", "-c", command)
    theirs = tree(lab.project)
    done = lab.apply(review)
    assert done.returncode == 125 and "host" in done.stderr, done
    assert tree(lab.project) == theirs
    assert any(c["conflict"] and p.startswith(name) for p, c in lab.changes(review).items())
    # What nobody touched is still there.
    assert lab.apply(review, "free").returncode == 0
    assert (lab.project / "free").read_text() == "mine\n"


TRUSTED = [".git/hooks/post-commit", ".git/config", ".envrc", "package.json", "Makefile", ".github/workflows/x.yml",
           ".vscode/settings.json", "sub/.GIT/config", ".bashrc", "out"]


def test_what_the_host_trusts_must_be_named(lab):
    fill(lab)
    lab.write("Makefile", "all:\n")
    lab.own()
    before = tree(lab.project)
    review = lab.review(r"""for f in .git/hooks/post-commit .git/config .envrc package.json Makefile .github/workflows/x.yml \
        .vscode/settings.json sub/.GIT/config .bashrc; do mkdir -p "$(dirname "$f")"; echo evil > "$f"; done
        ln -s ../../outside out; echo plain > plain""")
    marked = sorted(p for p, c in lab.changes(review).items() if c["trust"])
    assert marked == sorted(TRUSTED)
    text = lab.brig("diff", review).stdout
    assert all(f"# TRUST {name}: " in text for name in TRUSTED)
    done = lab.apply(review)
    assert done.returncode == 125 and "--trust" in done.stderr and tree(lab.project) == before
    most = [word for name in TRUSTED[1:] for word in ("--trust", name)]
    assert lab.apply(review, *most).returncode == 125 and tree(lab.project) == before
    assert lab.apply(review, "--trust", "Makefile", "--trust", "absent").returncode == 125
    assert lab.apply(review, "plain").returncode == 0
    done = lab.apply(review, *most, "--trust", TRUSTED[0])
    assert done.returncode == 0, done.stderr
    assert (lab.project / ".git/hooks/post-commit").read_text() == "evil\n" and lab.reviews() == []


def test_a_link_through_a_link_that_leads_out_is_marked(lab):
    """Each part stays in the project by its words, and both together do not."""
    fill(lab)
    review = lab.review("mkdir q; ln -s .. q/up; ln -s up/../outside q/out; ln -s ../text q/in")
    assert {p for p, c in lab.changes(review).items() if c["trust"]} == {"q/out"}
    done = lab.apply(review)
    assert done.returncode == 125 and "q/out" in done.stderr and not (lab.project / "q").exists()


def test_holes_and_names_of_one_file_count(lab):
    """Files that take nothing of the disk inside would take it outside, and time to look at."""
    fill(lab)
    review = lab.review("for i in 1 2 3; do truncate -s 20M hole$i; done; echo small > small", "--disk", "32M", *WATCHED)
    changes = lab.changes(review)
    refused = [name for name in ("hole1", "hole2", "hole3") if changes[name]["refused"]]
    assert refused == ["hole2", "hole3"] and "limit for the disk" in changes["hole3"]["refused"]
    done = lab.apply(review)
    assert done.returncode == 125 and not (lab.project / "hole1").exists()
    assert lab.apply(review, "hole1", "small").returncode == 0
    assert (lab.project / "hole1").stat().st_size == 20 << 20 and (lab.project / "small").exists()


def test_special_files_and_bits(lab):
    fill(lab)
    review = lab.review(r"""import os
os.mkfifo("fifo")
open("plain", "w").write("x")
os.link("plain", "twin")
for mode in (0o4755, 0o2755, 0o6755, 0o1644):
    try: os.chmod("plain", mode)
    except OSError: pass
os.makedirs("deep/" * 110)
os.mkdir(".brig-apply-00")
""", shell=("python3", "-c"))
    told = lab.changes(review)
    assert told["fifo"]["refused"] and told[".brig-apply-00"]["refused"]
    assert any(c["refused"] == "it lies too deep" for c in told.values())
    assert lab.apply(review).returncode == 125 and not (lab.project / "plain").exists()
    for name in ("fifo", "deep", ".brig-apply-00"):
        assert lab.apply(review, name).returncode == 125
    assert lab.apply(review, "plain", "twin").returncode == 0
    info = (lab.project / "plain").stat()
    assert info.st_mode & 0o7000 == 0 and info.st_nlink == 1
    assert lab.brig("discard", review).returncode == 0


def test_names_of_any_bytes(lab):
    fill(lab)
    names = [b"new\nline", b"-rf", b"tab\there", b"\xff\xfe", b"...", b" ", b"\x1b[31m", "é".encode(), b'q"\\']
    code = f"names = {names!r}\nfor n in names: open(n, 'wb').write(b'x' + n)"
    review = lab.review(code, shell=("python3", "-c"))
    done = lab.apply(review)
    assert done.returncode == 0, done.stderr
    for name in names:
        with open(os.fsencode(lab.project) + b"/" + name, "rb") as file:
            assert file.read() == b"x" + name


def test_a_folder_swapped_for_a_link_leads_nowhere(lab):
    """F-04: between the run and the apply, or planted by the code itself."""
    fill(lab)
    outside = lab.top / "outside"
    outside.mkdir()
    (outside / "file").write_text("canary")
    lab.write("dir/file", "in the project")
    lab.own()
    review = lab.review("echo mine > dir/file; echo mine > dir/more; rm -r folder; ln -s ../outside folder; ls folder/ || true")
    assert lab.apply(review, "dir", "--dry-run").returncode == 0, "the control"
    lab.outside("sh", "-c", "mv dir aside; ln -s ../outside dir")
    done = lab.apply(review, "dir")
    assert done.returncode == 125, done.stderr
    assert tree(outside) == {"file": ("file", 0o644, b"canary")}
    assert (lab.project / "aside" / "file").read_text() == "in the project"
    lab.outside("sh", "-c", "rm dir; mv aside dir")
    # The code's own link is a link and nothing more; it must be named.
    assert lab.apply(review, "folder").returncode == 125
    assert lab.apply(review, "folder", "--trust", "folder").returncode == 0
    assert os.readlink(lab.project / "folder") == "../outside" and len(tree(outside)) == 1


def test_a_shared_inode_is_not_written(lab):
    """F-05: a file of the project that has a second name outside."""
    fill(lab)
    other = lab.top / "other"
    os.link(lab.project / "text", other)
    lab.own()
    content = other.read_text()
    review = lab.review("echo mine > text; chmod 700 text")
    assert lab.apply(review).returncode == 0
    assert (lab.project / "text").read_text() == "mine\n" and other.read_text() == content
    assert other.stat().st_mode & 0o777 == 0o644


def test_only_what_was_looked_at(container_lab):
    lab = container_lab
    fill(lab)
    review = lab.review("echo mine > text")
    digest = lab.diff(review)["digest"]
    assert lab.apply(review, "--digest", "0" * 64).returncode == 125
    assert lab.diff(review, "--stat")["digest"] == digest
    assert lab.apply(review, "--digest", digest).returncode == 0


# ---- repositories that are not called .git ----

BARE = r"""
set -e
mkdir -p sub/objects sub/refs
printf 'ref: refs/heads/main\n' > sub/HEAD
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "touch %s; false"\n' "$1" > sub/config
"""


def runs_on_the_host(lab, folder, canary):
    """Does git, started in this folder, run what the code has written?"""
    lab.outside("git", "-c", "safe.bareRepository=all", "status", cwd=folder)
    return canary.exists()


def test_a_bare_repository_is_marked(container_lab):
    lab = container_lab
    fill(lab)
    canary = lab.top / "canary"
    native = lab.top / "native"
    native.mkdir()
    lab.own()
    lab.outside("sh", "-c", BARE, "sh", canary, cwd=native)
    assert runs_on_the_host(lab, native / "sub", canary), "the control: git did not obey the folder"
    canary.unlink()
    review = lab.review(BARE.replace('"$1"', f'"{canary}"'))
    told = lab.changes(review)
    for name in ("sub/HEAD", "sub/config", "sub/objects", "sub/refs"):
        assert "git" in (told[name]["trust"] or ""), (name, told[name])
    assert lab.brig("diff", review).stdout.count("# TRUST") >= 4
    for files in ([], ["sub/HEAD"], ["sub/config"], ["sub"], ["sub/objects", "sub/refs"]):
        done = lab.apply(review, *files)
        assert done.returncode == 125 and "repository" in done.stderr, (files, done)
    assert not (lab.project / "sub").exists()
    names = ["sub/HEAD", "sub/config", "sub/objects", "sub/refs"]
    assert lab.apply(review, *(word for name in names for word in ("--trust", name))).returncode == 0


@pytest.mark.parametrize("steps", [("mkdir -p x/objects x/refs; echo [core] > x/config", "echo ref: refs/heads/a > x/HEAD"),
                                   ("mkdir x; echo ref: refs/heads/a > x/HEAD; echo [core] > x/config", "mkdir x/objects x/refs"),
                                   ("mkdir x; echo ref: refs/heads/a > x/HEAD", "echo ../objects > x/commondir"),
                                   ("mkdir -p x/Objects x/REFS; echo hello > x/read", "echo ref: refs/heads/a > x/Head")])
def test_however_the_parts_of_a_repository_come(container_lab, steps):
    lab = container_lab
    fill(lab)
    first = lab.review(steps[0])
    assert not any(c["trust"] for c in lab.changes(first).values())
    assert lab.apply(first).returncode == 0
    second = lab.review(steps[1])
    # On a file system that knows large and small letters, names in other letters are no repository; by the changes alone they
    # would be marked.
    told = {name: c["trust"] for name, c in lab.changes(second).items()}
    assert all(told.values()) or "x/Head" in told, told


LINKS = {"CLAUDE.md": "docs/notes.md", ".claude": "tools/agents", "Makefile": "first", "first": "tools/rules", ".git/hooks": "../tools/hooks",
         "justfile": "{project}/tools/just", "AGENTS.md": "not/there/yet", "readme": "docs/plain.md"}
LED_TO = ["docs/notes.md", "tools/agents/settings.json", "tools/rules", "tools/hooks/pre-commit", "tools/just", "not/there/yet", "new/target"]


def test_what_a_trusted_link_leads_to_is_marked(container_lab):
    lab = container_lab
    fill(lab)
    for name in ("docs/notes.md", "docs/plain.md", "tools/agents/a", "tools/rules", "tools/hooks/x", "tools/just", ".git/config"):
        (lab.project / name).parent.mkdir(parents=True, exist_ok=True)
        (lab.project / name).write_text("before\n")
    for name, target in LINKS.items():
        (lab.project / name).symlink_to(target.format(project=lab.project))
    lab.own()
    changed = [*LED_TO, "docs/plain.md"]
    review = lab.review("mkdir -p not/there new; ln -s new/target GEMINI.md; " + "; ".join(f"echo changed > {name}" for name in changed))
    told = lab.changes(review)
    for name in LED_TO:
        assert "link" in (told[name]["trust"] or ""), (name, told[name])
    assert told["docs/plain.md"]["trust"] is None, "the control: behind a link that nobody trusts nothing is marked"
    done = lab.apply(review)
    assert done.returncode == 125 and (lab.project / "docs/notes.md").read_text() == "before\n", done
    assert lab.apply(review, "docs/plain.md").returncode == 0
    again = lab.review("rm tools/rules; ln -s ../docs/plain.md tools/rules; rm -r tools/agents; ln -s ../docs tools/agents")
    told = lab.changes(again)
    assert told["tools/rules"]["trust"] and told["tools/agents"]["trust"], told
    names = [word for name in told for word in ("--trust", name)]
    assert lab.apply(again, *names).returncode == 0 and (lab.project / "Makefile").read_text() == "changed\n"


# Each link, what the code does to a link on the way, and what is marked then.
WAYS = {
    "a file in the place of a link": ({"CLAUDE.md": "NOTES.md", "NOTES.md": "docs/notes.md"}, "rm NOTES.md; echo new > NOTES.md", {"NOTES.md"}),
    "another link in its place": ({"Makefile": "cur/rules", "cur": "mk/v1"}, "ln -sfn mk/v2 cur; echo new > mk/v2/rules", {"cur", "mk/v2/rules"}),
    "links that lead on": ({"Makefile": "cur/rules", "cur": "mk/v1"},
                           "ln -sfn via/v2 cur; ln -s mk via; ln -s ../../docs/deep mk/v2/rules; echo new > docs/deep",
                           {"cur", "via", "mk/v2/rules", "docs/deep"}),
    "a link for a folder": ({"Makefile": "cur/rules", "cur": "mk/v1"}, "rm -r mk; mkdir -p was/v1; ln -s was mk; echo new > was/v1/rules", {"mk", "was/v1/rules"}),
    "a link for a folder that is left again": ({"Makefile": "sub/../mk/v1/rules"}, "rm -r sub; mkdir -p x/y x/mk/v1; ln -s x/y sub", {"sub"}),
    "a way that leads out": ({"Makefile": "cur/rules", "cur": "/nowhere"}, "ln -sfn mk/v2 cur; echo new > mk/v2/rules", {"cur", "mk/v2/rules"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_link_on_the_way_is_marked(container_lab, way):
    lab = container_lab
    links, script, marked = WAYS[way]
    for name in ("docs/notes.md", "docs/plain.md", "mk/v1/rules", "mk/v2/other", "sub/in"):
        lab.write(name, "before\n")
    for name, target in (links | {"readme": "hop", "hop": "docs/plain.md"}).items():
        (lab.project / name).symlink_to(target)
    lab.own()
    before = tree(lab.project)
    plain = "rm hop; echo new > hop; echo new > docs/plain.md; echo new > fresh"
    review = lab.review(f"set -e; {script}; {plain}")
    told = lab.changes(review)
    assert marked <= {name for name, c in told.items() if c["trust"]}, told
    assert not any(told[name]["trust"] for name in ("hop", "docs/plain.md", "fresh")), "the control: a link that nobody trusts"
    done = lab.apply(review)
    assert done.returncode == 125 and "--trust" in done.stderr and tree(lab.project) == before, done
    assert lab.apply(review, "fresh", "hop", "docs/plain.md").returncode == 0
    names = [word for name in lab.changes(review) for word in ("--trust", name)]
    assert lab.apply(review, *names).returncode == 0


def test_more_links_than_can_be_looked_at(container_lab):
    """Then nobody knows what is led to, and all of it is marked."""
    lab = container_lab
    fill(lab)
    few, many = ("mkdir .vscode; i=0; while [ $i -lt %d ]; do ln -s to/$i .vscode/$i; i=$((i+1)); done; echo x > zz" % n for n in (20, 1100))
    review = lab.review(few)
    assert lab.changes(review)["zz"]["trust"] is None, "the control"
    assert lab.brig("discard", review).returncode == 0
    assert "more than can be looked at" in lab.changes(lab.review(many))["zz"]["trust"]


def test_an_existing_repository_is_not_changed_unnamed(container_lab):
    lab = container_lab
    fill(lab)
    lab.outside("git", "init", "-q", "--bare", "fixture.git")
    review = lab.review("echo '[core] fsmonitor = evil' >> fixture.git/config; echo x > fixture.git/hooks/post-checkout; echo y > config; echo z > index")
    told = lab.changes(review)
    assert told["fixture.git/config"]["trust"] and told["fixture.git/hooks/post-checkout"]["trust"]
    assert not told["config"]["trust"] and not told["index"]["trust"], "only in a repository"


def test_a_terminal_is_not_given_orders(container_lab):
    lab = container_lab
    fill(lab)
    review = lab.review(r"printf '\033]0;evil\007\033[2Jx\302\233y\342\200\256z\n' > text; echo x > $(printf 'na\033me')")
    controller, terminal = pty.openpty()
    command = lab.caller.outside(str(PUBLIC / "brig"), "diff", review)
    done = subprocess.run(command, stdout=terminal, env=lab.env | {"TERM": "xterm"}, timeout=60, check=False)
    os.close(terminal)
    shown = b""
    while chunk := _read(controller):
        shown += chunk
    assert done.returncode == 0 and b"\x1b[32m" in shown, "coloured"
    assert b"\\x1b]0;evil\\x07" in shown and b"\\u202e" in shown and b"\\x9b" in shown
    for order in (b"\x1b]", b"\x1b[2J", b"\x07", b"\xc2\x9b", b"\xe2\x80\xae", b"na\x1b"):
        assert order not in shown
    # The control: into a pipe the bytes go as they are.
    assert "\x1b[2J" in lab.brig("diff", review).stdout


def _read(fd):
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


def test_what_fills_the_disk_is_ended(lab):
    fill(lab)
    assert lab.review("head -c 100000 /dev/zero > small", "--disk", "2M", *WATCHED), lab.told
    assert lab.told["exit_code"] == 0, "the control"
    lab.brig("discard", lab.told["review"])
    lab.review("i=0; while :; do i=$((i+1)); head -c 100000 /dev/zero > f$i; sync f$i; done", "--disk", "2M", *WATCHED)
    assert lab.told["limit_hit"] == "disk", lab.told
    one = lab.review("head -c 9000000 /dev/zero > one", "--disk", "2M", *WATCHED)
    assert lab.told["exit_code"] != 0 and lab.diff(one)["changes"][0]["new_size"] <= 2 << 20


def test_contradictions(container_lab):
    lab = container_lab
    fill(lab)
    for wrong in (["--review", "absent"], ["--review", "text"], ["--review", "/"], ["--review", ".", "--project", "."],
                  ["--review", ".:relative"], ["--review", ".", "--rw", "."]):
        done = lab.brig("run", *wrong, "--", "true")
        assert done.returncode == 125, wrong
    done = lab.brig("run", "--review", ".:/elsewhere", "--", "pwd")
    assert done.stdout == "/elsewhere\n", done.stderr
    inside = lab.project / "state"
    inside.mkdir()
    lab.own()
    done = lab.brig("run", "--review", ".", "--", "true", env={"XDG_STATE_HOME": str(inside)})
    assert done.returncode == 125 and "outside" in done.stderr
    # Level medium would grant the folder itself: the review takes its place.
    review = lab.brig("run", "--level", "medium", "--review", ".", "--", "sh", "-c", "echo mine > text")
    assert review.returncode == 0 and (lab.project / "text").read_text() != "mine\n"


def test_while_it_runs(container_lab):
    lab = container_lab
    fill(lab)
    command = [str(PUBLIC / "brig"), "run", "--review", str(lab.project), "--", "sh", "-c", "echo mine > text; echo ready; cat"]
    run = subprocess.Popen(lab.caller.outside(*command), env=lab.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)
    try:
        assert run.stdout.readline() == "ready\n"
        (review,) = lab.reviews()
        assert "text" in lab.changes(review)
        for verb in ("apply", "discard"):
            done = lab.brig(verb, review)
            assert done.returncode == 125 and "runs" in done.stderr
        # Killed: what was changed is still there to be looked at, and applied.
        run.send_signal(signal.SIGKILL)
        run.wait(60)
    finally:
        run.kill()
        run.stdin.close()
        run.stdout.close()
    # It counts as running until the last process of the run has ended, a moment after the first.
    done = wait_for(lambda: "runs" not in (tried := lab.apply(review)).stderr and tried, what="the end of the run")
    assert done.returncode == 0, done
    assert (lab.project / "text").read_text() == "mine\n" and lab.reviews() == []


@pytest.mark.parametrize("lab", [(CALLERS[0], "container"), (CALLERS[-1], "process")], ids=["container", "process"], indirect=True)
def test_killed_at_every_step(lab):
    """RV-5: whatever happens, the project is as before or as after, once somebody looks."""
    fill(lab)
    weak = weak_programs() / "brig"
    before = tree(lab.project)
    review = lab.review(SCRIPT)
    verbs = [("diff", "--stat"), ("apply", "--dry-run"), ("diff", "--json")]
    killed = 0
    for step in range(1, 400):
        done = lab.apply(review, program=weak, env={"BRIG_REVIEW_FAULT": str(step)})
        if done.returncode == 0:
            break
        assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), done
        killed += 1
        # Killed once more while it is undone, at another place each time.
        lab.brig("diff", review, program=weak, env={"BRIG_REVIEW_FAULT": str(1 + step % 7)})
        verb, option = verbs[step % 3]
        found = lab.brig(verb, review, option)
        assert found.returncode == 0, (step, found.stderr)
        now = tree(lab.project)
        if now != before:
            break
    assert killed > 30, "the steps were counted"
    native = lab.top / "native"
    native.mkdir()
    fill_native(native, before)
    subprocess.run(["sh", "-c", SCRIPT], cwd=native, check=True)
    assert tree(lab.project) == tree(native)
    assert not [p for p in os.listdir(lab.project) if p.startswith(".brig")]


def older(journal):
    """As a brig wrote it that did not say how the new files lie there."""
    head, *ops, end, rest = journal.split(b"\0")
    old = [b" ".join([*(words := op.split(b" ", 9))[:7], words[9]]) for op in ops]
    return b"\0".join([head.replace(b"brig-journal-2", b"brig-journal-1"), *old, end, rest])


# What the owner does once all is in place, and of which file that says something.
EDITS = {"nothing": ("true", None), "content": ("echo owner >> text", "text"), "mode": ("chmod 600 text", "text"), "removed": ("rm text", "text"),
         "removed below": ("rm kept/in", "kept/in"), "an old journal": ("echo owner >> text", "text")}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("lab", [(CALLERS[-1], "container"), (CALLERS[-1], "process")], ids=["container", "process"], indirect=True)
def test_an_edit_after_a_killed_apply_is_a_conflict(lab, edit):
    """RV-4: whoever finishes the apply does not take the owner's work since for the apply's own."""
    fill(lab)
    weak = weak_programs() / "brig"
    command, name = EDITS[edit]
    review = lab.review("echo mine >> text; echo mine >> kept/in; mv moved elsewhere; echo more >> elsewhere")
    done = lab.state / "brig" / "reviews" / review / "done"
    for step in range(1, 100):
        killed = lab.apply(review, program=weak, env={"BRIG_REVIEW_FAULT": str(step)})
        assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed
        if done.exists():
            break
        assert lab.brig("diff", review).returncode == 0
    if edit == "an old journal":
        done.write_bytes(older(done.read_bytes()))
    time.sleep(0.05)  # the clock of a file system goes in steps
    lab.outside("sh", "-c", command)
    theirs = tree(lab.project / "kept"), (lab.project / "text").exists() and (lab.project / "text").read_bytes()
    told = lab.changes(review)
    assert not done.exists() and [p for p, c in told.items() if c["conflict"]] == ([name] if name else []), told
    applied = lab.apply(review)
    if not name:
        assert told == {} and applied.returncode == 0, (told, applied)
        return
    assert applied.returncode == 125 and "host" in applied.stderr, applied
    assert theirs == (tree(lab.project / "kept"), (lab.project / "text").exists() and (lab.project / "text").read_bytes())


def fill_native(folder, what):
    for name, entry in what.items():
        path = folder / name
        if entry[0] == "folder":
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry[2])
        path.chmod(entry[1])


def test_what_an_apply_left_and_cannot_be_removed_is_not_forgotten():
    """A project that nobody may change stands for a disk that fails."""
    lab = Lab(CALLERS[-1], "container")
    lab.write("text", "a\n")
    lab.own()
    review = lab.review("echo b >> text")
    name = ".brig-apply-0123456789abcdef"
    staged = lab.write(f"{name}/0", "staged").parent
    staged.chmod(0o700)
    journal = next(lab.state.rglob(review)) / "staging"
    journal.write_bytes(b"brig-journal-2 " + name.encode() + b"\0end\0")
    for each in (journal, staged, staged / "0"):
        shutil.chown(each, lab.caller.uid, lab.caller.uid) if IS_ROOT else None
    lab.project.chmod(0o500)
    for verb in ("diff", "apply"):
        done = lab.brig(verb, review)
        assert done.returncode != 0 and f"remove {name}" in done.stderr and "by hand" in done.stderr, done
        assert journal.exists() and (lab.project / name).exists()
    lab.project.chmod(0o755)
    assert lab.apply(review).returncode == 0 and not (lab.project / name).exists() and not journal.exists(), "the control"
    assert (lab.project / "text").read_text() == "a\nb\n"
    lab.close()
