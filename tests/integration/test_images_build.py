"""`brig run --commit` and `brig image build`: what they make, and rows I-12 to I-16 of hostile contexts, files, bases and changes. By root and by an
ordinary user. Controls do the same with what follows links and believes names: there the attack works."""
import json
import os
import signal
import subprocess
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from helpers import ANY, WATCHED
from imagelib import Image, Store, base, entry, layer, symlink

pytestmark = pytest.mark.skipif(not os.path.exists("/bin/busybox"), reason="images are made from busybox-static")


@pytest.fixture
def store(caller):
    with Store(caller) as made:
        made.loaded(Image(User="app", WorkingDir="/app"))
        yield made


@pytest.fixture
def one():
    with Store(ANY) as made:
        made.loaded(Image())
        yield made


def commit(store, script, *options, image="test/box"):
    return store.run("--image", image, "--commit", "test/new", *WATCHED, *options, "--", "sh", "-c", script)


def context(store, dockerfile, **files):
    folder = store.new()
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "Dockerfile").write_text(dockerfile)
    return folder


def build(store, dockerfile, *options, folder=None, **files):
    folder = folder or context(store, dockerfile, **files)
    (folder / "Dockerfile").write_text(dockerfile)
    return store.image("build", "-t", "test/new", *WATCHED, *options, folder)


def built(store, *args, **kwargs):
    told = build(store, *args, **kwargs)
    assert told.returncode == 0, told
    return told


def inside(store, script, image="test/new"):
    return store.run("--image", image, *WATCHED, "--", "sh", "-c", script).stdout


def names(store):
    return [each["name"] for each in store.json("list")["images"]]


def config_of(store, image="test/new"):
    digest = store.json("show", image)["config"].removeprefix("sha256:")
    return json.loads((store.images / "blobs" / digest).read_text())


# ---- commit

def test_a_run_becomes_an_image(store):
    script = "mkdir -p /data/d && echo hi > /data/d/x && rm /bin/wc && ln -s /data/d /etc/l && echo more >> /etc/passwd && rm -r /app/../etc/none; true"
    told = commit(store, script, "--uid", "0", "--change", "ENV GREETING='good day'", "--change", "WORKDIR /data", "--change", "USER 7", "--change",
                  'CMD ["cat", "d/x"]', "--change", "LABEL a=b")
    assert told.returncode == 0, told
    assert store.run("--image", "test/new", *WATCHED).stdout == "hi\n", "its command, in its folder"
    assert inside(store, "id -u; pwd; echo $GREETING; ls /bin/wc; readlink /etc/l; tail -n1 /etc/passwd") == "7\n/data\ngood day\n/data/d\nmore\n"
    assert inside(store, "ls /bin/wc; id -u", "test/box") == "/bin/wc\n1234\n", "the base is as it was"
    config = config_of(store)
    assert config["config"]["Labels"] == {"a": "b"} and len(config["rootfs"]["diff_ids"]) == 2
    assert [each.get("empty_layer", False) for each in config["history"]] == [False] + [True] * 5
    store.clean()


def test_a_folder_that_was_made_anew_hides_what_it_had(store):
    store.loaded(Image(base(), layer(entry("opt"), entry("opt/d"), entry("opt/d/old", b"1"), entry("opt/keep", b"2"))), "test/box")
    told = commit(store, "rm -r /opt/d && mkdir /opt/d && touch /opt/d/new")
    assert told.returncode == 0, told
    assert inside(store, "ls /opt /opt/d").split() == ["/opt:", "d", "keep", "/opt/d:", "new"]
    store.clean()


def test_only_what_went_well_is_kept(store):
    told = commit(store, "echo x > /etc/x; exit 3")
    assert told.returncode == 3 and "not kept" in told.stderr and names(store) == ["test/box:latest"], told
    told = commit(store, "sleep 600", "--timeout", "1s")
    assert told.returncode == 124 and "status 124 (limit timeout), so there is no image test/new" in told.stderr, told
    for options in (["--change", "RUN x"], ["--change", "ENV"], ["--change", "FROM a"], ["--commit", "a b"]):
        told = commit(store, "true", *options)
        assert told.returncode == 125 and names(store) == ["test/box:latest"], told
    for words in (["--commit", "a/b", "--", "true"], ["--change", "ENV A=b", "--", "true"]):
        assert store.run(*WATCHED, *words).returncode == 125, words
    store.clean()


def test_I16_what_the_code_leaves_behind_is_hostile(store):
    """Links out, FIFOs, sockets, set-id, modes without any right, names of whiteouts, deep folders. The control: a walk that follows links finds the flag."""
    flag = store.home / "flag"
    flag.write_text("untouched")
    script = f"""cd /etc; ln -s {flag} link; ln -s {flag.parent} dir; ln -s / root; busybox mkfifo fifo; mkdir shut; echo s > shut/s; echo z > zero
        busybox chmod 0 shut zero; echo p > setid; busybox chmod 6755 setid; echo one > one; busybox ln one two; touch 'a
b'; mkdir /data; ln -s ../../../../../../../../{flag} /data/up"""
    told = commit(store, script, "--uid", "0")
    assert told.returncode == 0, told
    assert flag.read_text() == "untouched"
    tree = next(p / "tree" for p in (store.images / "roots").iterdir() if (p / "tree/etc/setid").exists())
    assert os.readlink(tree / "etc/link") == str(flag) and (tree / "etc/link").read_text() == "untouched", "control: followed from the host, it leads there"
    assert not (tree / "etc/fifo").exists() and store.json("show", "test/new")["left_out"] == 1
    assert (tree / "etc/setid").stat().st_mode & 0o7777 == 0o755 and (tree / "etc/shut/s").read_text() == "s\n" and (tree / "etc/zero").read_text() == "z\n"
    assert (tree / "etc/one").stat().st_ino == (tree / "etc/two").stat().st_ino and (tree / "etc/a\nb").exists()
    assert inside(store, "cat /etc/link /etc/dir/flag; ls /etc/root | head -n1", "test/new").strip() in ("", ".brig", "app"), "inside they lead nowhere"
    told = commit(store, "touch /etc/.wh.passwd", "--uid", "0")
    assert told.returncode == 125 and "means something else in a layer" in told.stderr, told
    store.clean()


def test_I16_too_much_is_not_kept(one):
    told = commit(one, "i=0; d=/etc; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done", "--cwd", "/etc")
    assert told.returncode == 125 and "too deep" in told.stderr, told
    assert names(one) == ["test/box:latest"]
    one.clean()


def test_I16_holes_and_grants(store):
    """A file that is larger than all that the run may write is not kept; what was granted is the host's and stays there. The control: without the hole it is kept."""
    given = store.home / "given"
    given.mkdir(mode=0o755)
    (given / "hosts").write_text("canary")
    grants = ["--ro", f"{given}:/data/given", "--ro", f"{given}:/etc/given", "--uid", "0", "--disk", "32M"]
    told = commit(store, "busybox truncate -s 15G /etc/hole", *grants)
    assert told.returncode == 125 and "too much was changed" in told.stderr, told
    told = commit(store, "cat /data/given/hosts /etc/given/hosts && busybox truncate -s 1M /etc/hole", *grants)
    assert told.returncode == 0 and told.stdout == "canarycanary", told
    assert inside(store, "ls /data/given /etc/given; wc -c < /etc/hole").split() == ["/data/given:", "/etc/given:", "1048576"]
    assert subprocess.run(["grep", "-rl", "canary", store.images], capture_output=True).stdout == b""
    store.clean()


@pytest.mark.parametrize("verb", ["commit", "build"])
def test_I16_killed_at_some_step(one, verb):
    """Whenever it is killed, the store is good, and what is left goes with the next one."""
    folder = context(one, "FROM test/box\nCOPY big /a\nRUN echo x > /etc/x\nCOPY big /b\n")
    (folder / "big").write_bytes(os.urandom(3_000_000))
    words = {"build": one.command("build", "-q", "-t", "test/new", folder),
             "commit": [one.command("x")[0], "run", "-q", "--image", "test/box", "--commit", "test/new", "--disk", "64M", "--", "sh", "-c", "cat /bin/busybox > /etc/b"]}[verb]
    for at in (0.03, 0.08, 0.15, 0.3):
        process = subprocess.Popen(words, env=one.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd="/")
        time.sleep(at)
        process.send_signal(signal.SIGKILL)
        process.wait()
        one.verify()
    assert one.image("gc").returncode == 0
    assert subprocess.run(words, env=one.env, stdin=subprocess.DEVNULL, cwd="/").returncode == 0
    assert "test/new:latest" in names(one)
    one.clean()


# ---- build

def test_a_build(store):
    folder = context(store, "", **{"main.txt": "main", "skip.log": "no", ".dockerignore": "*.log\n"})
    (folder / "sub/deep").mkdir(parents=True)
    (folder / "sub/deep/x").write_text("x")
    (folder / "sub/link").symlink_to("deep/x")
    (folder / "t.tar").write_bytes(layer(entry("from-tar", b"tar", mode=0o644)))
    told = built(store, """# syntax=docker/dockerfile:1
ARG BASE=test/nothing
FROM $BASE AS first
ARG VERSION=1
USER root
ENV NAME="two words" PLACE=/opt/p
RUN echo $VERSION-$NAME > /etc/version && \\
    # a comment
    mkdir /srv
WORKDIR $PLACE
WORKDIR in
COPY . .
COPY --chown=app:app --chmod=640 main.txt /srv/
COPY ["m*.txt", "sub/", "/srv/all/"]
ADD t.tar /un
EXPOSE 80
VOLUME /data
HEALTHCHECK CMD true
FROM scratch
COPY --from=first /bin /bin
COPY --from=first /srv/main.txt /etc/passw* /etc/
ENV PATH=/bin
RUN ["/bin/sh", "-c", "cat /etc/main.txt > /etc/made"]
USER app
ENTRYPOINT ["cat"]
CMD ["/etc/made"]
""", "--build-arg", "BASE=test/box", "--build-arg", "VERSION=7", folder=folder)
    assert b"STEP 2/23: FROM $BASE AS first\n" in told.stderr and b"--chown has no meaning here" in told.stderr and b"HEALTHCHECK" in told.stderr, told
    assert store.run("--image", "test/new", *WATCHED).stdout == "main"
    told = built(store, (folder / "Dockerfile").read_text(), "--build-arg", "BASE=test/box", "--target", "first", folder=folder)
    out = inside(store, "cat /etc/version; pwd; find . | busybox sort; readlink sub/link; find /srv /un | busybox sort; stat -c %a /srv/main.txt; id -u")
    assert out.split("\n") == ["1-two words", "/opt/p/in", ".", "./.dockerignore", "./Dockerfile", "./main.txt", "./sub", "./sub/deep", "./sub/deep/x", "./sub/link", "./t.tar",
                               "deep/x", "/srv", "/srv/all", "/srv/all/deep", "/srv/all/deep/x", "/srv/all/link", "/srv/all/main.txt", "/srv/main.txt", "/un", "/un/from-tar",
                               "640", "0", ""], out
    config = config_of(store)["config"]
    assert config["ExposedPorts"] == {"80": {}} and config["Volumes"] == {"/data": {}} and config["WorkingDir"] == "/opt/p/in"
    store.clean()


def test_a_stage_that_goes_on(one):
    """FROM a stage: its files, its config and its layers; the stage itself, and the image that it is from, are as they were."""
    built(one, """FROM test/box AS first
ENV A=1 B=2
WORKDIR /one
RUN echo first > x && rm /bin/wc
FROM first AS second
ENV B=3
RUN echo $A$B >> x
FROM first
COPY --from=second /one/x y
COPY --from=test/box /bin/w* /bin/
CMD cat x y
""")
    assert one.run("--image", "test/new").stdout == "first\nfirst\n13\n"
    config = config_of(one)
    assert "B=2" in config["config"]["Env"] and len(config["rootfs"]["diff_ids"]) == 5, config
    assert inside(one, "ls /bin/wc; echo $B") == "/bin/wc\n2\n"
    one.clean()


WRONG = {
    "RUN exit 3": "line 2: the command ended with status 3", "RUN --mount=type=secret,id=x true": "--mount: type \"secret\"", "RUN --network=host true": "--network=host",
    "RUN --security=insecure true": "--security=insecure", "COPY none /x": "there is no", "COPY x": "expected SOURCE", "COPY --parents a b": "--parents", "ONBUILD RUN true": "ONBUILD",
    "FROM test/none": "there is no image", "FROM --platform=plan9/mips test/box": "plan9/mips", "ADD https://example.com/x /x": "only files of the context", "ADD git@h:x /x": "only files",
    "USER nobody-knows\nRUN true": "does not know it", "ENV A": "line 2", "COPY --from=0 /a /b": "this stage itself", "COPY --from=test/none /a /b": "there is no image",
    "RUN <<E\nrm x\nE": "line 2", "COPY a b /c": "must end in /", "COPY --chmod=9 a /b": "octal",
}


def test_what_is_wrong_is_said_by_its_line_and_nothing_is_left(one):
    folder = context(one, "", a="1", b="2")
    for text, says in WRONG.items():
        told = build(one, "FROM test/box\n" + text + "\n", folder=folder)
        assert told.returncode == 125 and b"line 2" in told.stderr + b"line 2" * ("USER" in text) and says in told.stderr.decode(), (text, told)
    for options, says in ((["--build-arg", "X=1"], "no ARG names"), (["--target", "none"], "no stage none"), (["--max-entries", "3"], "more entries than are left"), (["--allow", "a b"], "a b")):
        told = build(one, "FROM test/box\nCOPY a /a\n", *options, folder=folder)
        assert told.returncode == 125 and says in told.stderr.decode(), (options, told)
    assert names(one) == ["test/box:latest"]
    one.clean()


# ---- hostile builds

def test_I12_only_the_context_is_read(store):
    """Climbs, links on the way, links as sources, the ignore file and the Dockerfile as links, FIFOs. The control: cp, which follows them, gets the flag."""
    flag = store.home / "flag"
    flag.write_text("secret")
    folder = context(store, "", good="1")
    (folder / "link").symlink_to(flag)
    (folder / "dir").symlink_to(store.home)
    (folder / "in").mkdir()
    (folder / "in/out").symlink_to(flag)
    assert subprocess.run(["cp", "-L", folder / "link", folder / "dir/flag", store.work], capture_output=True).returncode in (0, 1) and (store.work / "link").read_text() == "secret", "control"
    for source, says in {"../../flag": "climbs", "in/../../../flag": "climbs", str(flag): "there is no", "link": "is a link", "dir/flag": "a link is on the way", "dir": "is a link",
                         "d*/flag": "nothing in the context fits", "/../flag": "climbs"}.items():
        for word in ("COPY", "ADD"):
            told = build(store, f"FROM test/box\n{word} {source} /x\n", folder=folder)
            assert told.returncode == 125 and says in told.stderr.decode() and b"secret" not in told.stderr, (source, told)
    built(store, "FROM test/box\nUSER 0\nCOPY in /in\nCOPY . /all/\nRUN cat /in/out /all/link /all/dir/flag > /got 2>/dev/null; true\n", folder=folder)
    assert inside(store, "readlink /in/out; cat /got") == f"{flag}\n", "a link stays one, and leads nowhere"
    os.mkfifo(folder / "in/fifo")
    told = build(store, "FROM test/box\nCOPY in /in\n", folder=folder)
    assert told.returncode == 125 and b"is a device, a FIFO or a socket" in told.stderr, told
    (folder / ".dockerignore").symlink_to(flag)
    assert build(store, "FROM test/box\n", folder=folder).returncode == 125
    (folder / ".dockerignore").unlink()
    os.mkfifo(folder / ".dockerignore")
    told = build(store, "FROM test/box\n", folder=folder)
    assert told.returncode == 125 and b"is no plain file" in told.stderr, told
    (folder / ".dockerignore").unlink()
    (folder / "Dockerfile").rename(folder / "D")
    (folder / "Dockerfile").symlink_to("D")
    told = store.image("build", "-t", "test/new", folder)
    assert told.returncode == 125 and b"is a link" in told.stderr, told
    store.clean()


def test_I12_a_context_that_changes_while_it_is_read(one):
    """A file is exchanged for a link to the flag, over and over. The control: open(), which follows it, reads the flag."""
    flag = one.home / "flag"
    flag.write_text("canary-of-the-flag" * 300)
    folder = context(one, "FROM test/box\nCOPY d /d\nCOPY d/x /x\n")
    (folder / "d").mkdir()
    (folder / "d/x").write_text("plain" * 1000)
    swap = ["sh", "-c", f"cd {folder}/d; while :; do ln -s {flag} l; mv -T l x; echo plain > f; mv -T f x; done"]
    with subprocess.Popen(swap, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as swapper:
        try:
            seen = set()
            for _ in range(8):
                told = build(one, "FROM test/box\nCOPY d /d\nCOPY d/x /x\n", folder=folder)
                assert told.returncode in (0, 125), told
            for _ in range(20000):
                try:
                    seen.add((folder / "d/x").read_text()[:6])
                except OSError:
                    pass
                if "canary" in seen:
                    break
            assert "canary" in seen, "control"
        finally:
            swapper.kill()
    assert subprocess.run(["grep", "-rl", "canary-of-the-flag", one.images], capture_output=True).stdout == b""
    one.clean()


def test_I12_only_the_image_is_written(store):
    """Targets below links of the base. The control: the same links, followed from the host, lead to the flag's folder."""
    out = store.home / "out"
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    store.loaded(Image(base(), layer(symlink("away", str(out)), symlink("up", "../" * 9 + str(out)), symlink("sbin", "bin"), symlink("file", str(out / "file")))), "test/box")
    tree = next(p / "tree" for p in (store.images / "roots").iterdir() if (p / "tree/sbin").is_symlink())
    (tree / "away/control").write_text("x")
    assert os.listdir(out) == ["control"], "control: they lead there"
    built(store, "FROM test/box\nCOPY a /away/a\nCOPY a /up/b\nCOPY a /file\nCOPY d /sbin\nADD t.tar /away/\nWORKDIR /up/w\n",
          folder=_with_archive(context(store, "", a="A")))
    assert os.listdir(out) == ["control"]
    made = next(p / "tree" for p in (store.images / "roots").iterdir() if (p / "tree/bin/x").exists())
    within = Path(str(made) + str(out))
    assert sorted(os.listdir(within)) == ["a", "b", "e", "w"] and (made / "file").read_text() == "A" and not (made / "file").is_symlink()
    assert os.readlink(made / "sbin") == "bin" and (made / "bin/busybox").exists() and os.readlink(made / "away") == str(out), "links to folders stay"
    store.clean()


def _with_archive(folder):
    (folder / "d").mkdir()
    (folder / "d/x").write_text("X")
    (folder / "t.tar").write_bytes(layer(entry("e", b"E", mode=0o644)))
    return folder


def test_I12_an_archive_that_climbs(store):
    """ADD unpacks in the sandbox of layers. The control: tarfile, which believes names, writes outside."""
    folder = context(store, "")
    (folder / "t.tar").write_bytes(layer(entry("../../../../../../tmp/test-brig-added", b"1")))
    with tarfile.open(folder / "t.tar") as tar:
        assert tar.getmembers()[0].name.startswith("../"), "control"
    told = build(store, "FROM test/box\nADD t.tar /x/\n", folder=folder)
    assert told.returncode == 125 and b"climbs out" in told.stderr and not os.path.exists("/tmp/test-brig-added"), told
    (folder / "t.tar").write_bytes(layer(symlink("a", "/tmp"), entry("a/test-brig-added", b"1")))
    built(store, "FROM test/box\nUSER 0\nADD t.tar /x/\n", folder=folder)
    assert not os.path.exists("/tmp/test-brig-added")
    store.clean()


def test_I13_mounts_and_other_readers(one):
    """What a mount cannot be is refused by its name; a line that names another reader is a comment; nothing runs outside of a sandbox."""
    for kind, why in (("secret,id=x", b"is not known here"), ("ssh", b"is not known here"), ("tmpfs,target=/x,size=1,dev", b"is not known here"),
                      ("bind,source=/etc/passwd,target=/x", b"there is no"), ("bind,source=../..,target=/x", b"climb"), ("bind,from=nosuch,target=/x", b"there is no image"),
                      ("bind", b"expected target"), ("bind,target=/", b"the root itself"), ("cache,target=/x/..", b"the root itself"), ("bind,target=/run/x", b"the sandbox's own"),
                      ("cache,target=/x,from=test/box", b"begin empty"), ("rbind,target=/x", b"is not known here")):
        told = build(one, f"FROM test/box\nRUN --mount=type={kind} true\n")
        assert told.returncode == 125 and why in told.stderr.lower() + told.stderr, (kind, told)
    for flag in ("--network=host", "--security=insecure"):
        assert b"is not known here" in build(one, f"FROM test/box\nRUN {flag} true\n").stderr
    told = built(one, "#syntax=evil/frontend\nFROM test/box\nRUN echo fine\n")
    assert b"fine" in told.stderr
    one.clean()


MOUNTED = """FROM test/box AS made
RUN echo compiled >/result
FROM test/box
WORKDIR /src
ENV PLACE=/deep/er
RUN mkdir -p /cache && echo old >/cache/old
RUN --mount=type=bind,target=. --mount=type=bind,from=made,source=/result,dst=$PLACE/result --mount=type=cache,id=../../x,target=/cache,sharing=locked \\
    --mount=type=tmpfs,target=/deep/empty --mount=type=cache,target=/tmp/c \\
    cat a.txt $PLACE/result >/kept && ls -A /cache /deep/empty >/seen && echo new | tee /cache/new /deep/empty/x /src/b.txt /deep/er/y /elsewhere
"""


def test_I13_mounts_show_and_are_not_kept(store):
    """Files of the context and of a stage, empty caches; what is written there is in no layer, what is written beside them is."""
    built(store, MOUNTED, **{"a.txt": "of the context\n"})
    assert inside(store, "cat /kept") == "of the context\ncompiled\n"
    assert inside(store, "cat /seen; echo -; ls -A /src /cache; cat /cache/old") == "/cache:\n\n/deep/empty:\n-\n/cache:\nold\n\n/src:\nold\n"
    assert inside(store, "cat /elsewhere /deep/er/y; ls -A /deep/er /deep") == "new\nnew\n/deep:\ner\n\n/deep/er:\ny\n"
    kept = b"".join(path.read_bytes() for path in (store.images / "steps").iterdir())
    assert b"of the context" in kept and b"b.txt" not in kept, "the control: /kept has it"
    assert store.image("verify").returncode == 0


def test_I13_a_mount_of_a_context_that_changed_is_another_step(one):
    text = "FROM test/box\nRUN --mount=type=bind,source=a.txt,target=/a cat /a >/kept\n"
    again = b"done by an earlier build"
    folder = context(one, text, **{"a.txt": "one\n"})
    assert again not in built(one, text, folder=folder).stderr
    assert again in built(one, text, folder=folder).stderr and inside(one, "cat /kept") == "one\n"
    (folder / "a.txt").write_text("two\n")
    assert again not in built(one, text, folder=folder).stderr and inside(one, "cat /kept") == "two\n"
    # The same files and the same command, where they are kept: not the same step.
    assert again not in built(one, "FROM test/box\nCOPY a.txt /a\nRUN cat /a >/kept\n", folder=folder).stderr
    assert inside(one, "cat /a") == "two\n"


def test_I13_a_mount_leads_nowhere_else(store):
    """Links of the context and of the image on the way to a source or a target; a command that puts others in the place of a mount."""
    secret = store.new()
    secret.write_text("of the host")
    os.chmod(secret, 0o644)
    folder = context(store, "")
    (folder / "link").symlink_to(secret)
    told = build(store, "FROM test/box\nRUN --mount=type=bind,source=link,target=/x cat /x\n", folder=folder)
    assert told.returncode == 125 and b"is a link" in told.stderr, told
    built(store, f"FROM test/box\nRUN ln -s {secret.parent} /out && ln -s /real /in && mkdir /real\n"
          "RUN --mount=type=cache,target=/in/c echo x >/in/c/x; echo y >/real/y\n"
          "RUN --mount=type=cache,target=/gone mv /gone /moved 2>&1; ln -sfn /etc /gone; echo z >/gone/z; true\n", folder=folder)
    assert inside(store, "ls -A /real; ls -d /gone 2>&1; cat /etc/z").splitlines()[0] == "y"
    told = build(store, f"FROM test/box\nRUN ln -s {secret.parent} /out\nRUN --mount=type=cache,target=/out/c echo x >/out/c/x\n", folder=folder)
    assert not (secret.parent / "c").exists() and secret.read_text() == "of the host"
    assert store.image("verify").returncode == 0


def test_I13_variables_that_grow(one):
    """Each is made of two of the one before; then many of the longest. What is held is bounded: the control has fewer of them."""
    grow = "ENV A0=0123456789abcdef\n" + "".join(f"ENV A{n}=$A{n - 1}$A{n - 1}\n" for n in range(1, 13))
    many = lambda kind, count: f"FROM test/box\n{grow}" + "".join(f"{kind} B{n}=$A12\n" for n in range(count))
    for kind in ("ENV", "LABEL", "ARG"):
        told = build(one, many(kind, 600))
        assert told.returncode == 125 and b"bytes in all" in told.stderr, told
    built(one, many("LABEL", 8))
    # Again and again the same name: what was there before does not count.
    built(one, f"FROM test/box\n{grow}" + "LABEL B=$A12\n" * 100)
    one.clean()


def test_I12_brigs_own_state_is_no_context(store):
    """Neither the state, nor what lies in it, nor what holds it. The control: a folder beside it."""
    state = store.images.parent
    for folder in (state, store.images, store.images / "blobs", state.parent):
        (folder / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
        os.chown(folder / "Dockerfile", store.caller.uid, -1)
        told = store.image("build", "-t", "test/new", folder)
        (folder / "Dockerfile").unlink()
        assert told.returncode == 125 and b"holds keys and records of brig" in told.stderr, (folder, told)
    built(store, "FROM test/box\nCOPY f /\n", f="beside")
    assert inside(store, "cat /f") == "beside"
    store.clean()


def test_I14_what_was_told_in_confidence_is_not_in_the_image(store):
    """The values of arguments and secrets, over the whole store. The control: a value that an instruction writes down is found."""
    store.env["TOKEN"] = "canary-of-the-secret"
    told = built(store, "FROM test/box\nUSER 0\nARG KEY\nARG WRITTEN\nRUN test ${#KEY} = 21 && test -n \"$TOKEN\" && echo $TOKEN > /etc/token\nENV W=$WRITTEN\n",
                 "--build-arg", "KEY=canary-of-an-argument", "--build-arg", "WRITTEN=canary-control", "--secret", "TOKEN=env:TOKEN@https://api.example.com")
    found = {word: subprocess.run(["grep", "-r", "-l", word, store.images], capture_output=True, text=True).stdout for word in
             ("canary-of-an-argument", "canary-of-the-secret", "canary-control")}
    assert not found["canary-of-an-argument"] and not found["canary-of-the-secret"] and found["canary-control"], found
    assert b"canary-of" not in told.stderr + told.stdout
    store.clean()


def test_I15_a_run_has_the_walls_of_a_run(store):
    """No network, no host, no rights, no device; and a base's own instructions are not carried out. The control: outside, the same commands see what they look for."""
    flag = store.home / "flag"
    flag.write_text("secret")
    flag.chmod(0o644)
    script = f"cat {flag}; ls /sys/class/net; mount -t tmpfs x /etc; mknod /etc/n c 1 3; grep CapEff /proc/self/status; ls {store.home}; env"
    control = subprocess.run(["sh", "-c", f"cat {flag}; ls /sys/class/net; env"], capture_output=True, text=True, env=store.env).stdout
    assert "secret" in control and "lo" in control and str(store.state) in control, "control"
    told = built(store, f"FROM test/box\nUSER 0\nRUN ({script}) 2>&1; busybox wget -T 2 -O- http://127.0.0.1:1/ 2>&1; echo end; true\n")
    out = told.stderr.decode().split("\n", 4)[-1]
    assert "end" in out and "secret" not in out and str(store.state) not in out and "CapEff:\t0000000000000000" in told.stderr.decode(), told
    assert inside(store, "ls /etc/n 2>/dev/null; ls /etc/passwd") == "/etc/passwd\n"
    trigger = Image()
    trigger.config["config"]["OnBuild"] = ["RUN touch /triggered"]
    store.loaded(trigger, "test/trigger")
    told = build(store, "FROM test/trigger\n")
    assert told.returncode == 125 and b"ONBUILD" in told.stderr, told
    store.clean()


def test_I15_the_network_of_a_run_is_the_callers(store):
    """A server on loopback: with a rule it is reached and what it gave is in the image; without one the same line fails, whatever the file says."""
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "7")
            self.end_headers()
            self.wfile.write(b"fetched")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    text = f"FROM test/box\nUSER 0\nRUN busybox wget -q -O /etc/f http://files.test:{port}/x\n"
    try:
        built(store, text, "--allow", f"files.test:{port}=127.0.0.1")
        assert inside(store, "cat /etc/f; env | busybox grep -ci proxy") == "fetched0\n", "and nothing of the proxy's stays"
        told = build(store, text.replace("USER 0", f'USER 0\nLABEL brig.allow="files.test:{port}=127.0.0.1"'))
        assert told.returncode == 125 and b"line 4: the command ended with status" in told.stderr and b"files.test" in told.stderr, told
    finally:
        server.shutdown()
        server.server_close()
    store.clean()


def test_I15_two_builds_at_once(store):
    folders = [context(store, f"FROM test/box\nUSER 0\nCOPY a /a\nRUN echo {n} > /n\n", a=str(n)) for n in range(3)]
    builds = [subprocess.Popen(store.command("build", "-q", *WATCHED, "-t", f"test/n{n}", folder), env=store.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/")
              for n, folder in enumerate(folders)]
    ends = [(each.communicate(timeout=300), each.returncode) for each in builds]
    assert [code for _, code in ends] == [0] * 3, ends
    assert [inside(store, "cat /a /n", f"test/n{n}") for n in range(3)] == [f"{n}{n}\n" for n in range(3)]
    store.clean()


# ---- steps that were done before

RANDOM = "head -c 99 /dev/urandom | md5sum > /etc/random"


def chance(store, *lines, options=(), **files):
    """What a command that writes something else each time wrote: the same twice only if it was not run again."""
    told = built(store, "\n".join(["FROM test/box", "USER 0", *(lines or [f"RUN {RANDOM}"])]), *options, **files)
    text = inside(store, "cat /etc/random")
    assert len(text) > 30
    return text, told.stderr.decode()


def test_a_step_that_was_done_is_used_again(store):
    text, said = chance(store)
    assert "used again" not in said
    again, said = chance(store)
    assert again == text and "line 3: done by an earlier build, used again" in said
    assert chance(store, f"RUN {RANDOM}", "RUN echo 2 >> /etc/random")[0] == text + "2\n", "and what comes after it is done on top"
    other, said = chance(store, options=["--no-cache"])
    assert other != text and "used again" not in said
    assert chance(store)[0] == other, "the last one is kept"
    told = store.json("gc")
    assert told["steps"] == 2 and told["bytes"] > 0
    assert chance(store)[0] != other
    assert store.json("gc")["steps"] == 1
    store.clean()


def test_a_step_is_done_again_if_anything_is_another(one):
    """IM-17. The control is the first line: with nothing changed it is used again."""
    first = chance(one)[0]
    run = f"RUN {RANDOM}"
    same = [[], ["LABEL a=b", run]]
    others = {"a variable": ["ENV A=b", run], "an argument": ["ARG A=b", run], "the folder": ["WORKDIR /tmp", run], "the user": ["RUN chmod 777 /etc", "USER 7", run],
              "the shell": ['SHELL ["/bin/sh", "-ec"]', run], "the command": [run + "; true"], "a step before": ["RUN touch /x", run],
              "a file": ["COPY file /x", run]}
    for lines in same:
        assert chance(one, *lines, file="1")[0] == first, lines
    seen = {what: chance(one, *lines, file="1")[0] for what, lines in others.items()}
    seen["another file"] = chance(one, *others["a file"], file="2")[0]
    for options in (["--allow", "example.test"], ["-m", "300M"], ["--timeout", "77s"], ["--pids", "99"]):
        seen[options[0]] = chance(one, options=options)[0]
    seen["the argument's value"] = chance(one, *others["an argument"], options=["--build-arg", "A=c"])[0]
    for byte in (b"\xfe", b"\xff"):
        folder = context(one, "")
        (folder / "Dockerfile").write_bytes(b"FROM test/box\nUSER 0\nRUN : " + byte + b"; " + RANDOM.encode())
        assert one.image("build", "-t", "test/new", *WATCHED, folder).returncode == 0
        seen[f"what is no UTF-8: {byte}"] = inside(one, "cat /etc/random")
    one.loaded(Image(base(), layer(entry("more", b"1"))), "test/box")
    seen["the base"] = chance(one)[0]
    assert first not in seen.values() and len(set(seen.values())) == len(seen), seen


def test_what_reads_a_folder_of_the_hosts_is_run_each_time(one):
    folder = one.new()
    folder.mkdir(mode=0o755)
    policy = one.new()
    policy.write_text(f"filesystem: {{ro: [{folder}:/given]}}\n")
    for text in ("1", "2"):
        (folder / "x").write_text(text)
        assert "used again" not in built(one, "FROM test/box\nUSER 0\nRUN cat /given/x > /etc/x", "--policy", policy).stderr.decode()
        assert inside(one, "cat /etc/x") == text


def test_a_command_that_failed_or_changed_nothing(one):
    for _ in range(2):
        told = build(one, "FROM test/box\nUSER 0\nRUN touch /x; exit 3")
        assert told.returncode == 125 and b"status 3" in told.stderr, told
    for said in (b"", b"used again"):
        assert said in built(one, "FROM test/box\nRUN true").stderr
    assert config_of(one)["history"][-1]["empty_layer"]
    assert one.json("gc")["steps"] == 1


def test_a_kept_step_that_was_changed_is_done_again(one):
    """Damaged, cut, a link to something else: it is never laid over the files."""
    text = chance(one)[0]
    step = next(iter((one.images / "steps").iterdir()))
    whole = step.read_bytes()
    assert text.encode() in whole
    for spoil in (lambda: step.write_bytes(whole.replace(text.encode(), b"x" * len(text))), lambda: step.write_bytes(whole[:512]),
                  lambda: (step.unlink(), step.symlink_to("/etc/passwd")), lambda: (step.unlink(), step.mkdir())):
        spoil()
        other = chance(one)[0]
        assert other != text and "x" not in other
        if step.is_dir() and not step.is_symlink():
            step.rmdir()
        for each in (one.images / "steps").iterdir():
            each.unlink()
        step.write_bytes(whole)
        assert chance(one)[0] == text, "the control: as it was it is used"
