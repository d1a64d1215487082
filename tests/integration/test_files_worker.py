"""The file worker under the filter, the Landlock rules, the mounts and the quota of a real sandbox: what it needs is
there, and it gets no further than the code. The answers are taken apart by a second reader, in Python."""
import errno
import os
import struct
import subprocess

import pytest

from helpers import CALLERS, PUBLIC, TOP, WATCHED

SOURCES = [TOP / "tests/integration/files/worker.c", *sorted((TOP / "src/files").glob("*_child.c")),
           TOP / "src/files/decode_parse.c", TOP / "src/plan/decode_parse.c", TOP / "src/base/err.c"]
WORKER = PUBLIC / "files" / "worker"


@pytest.fixture(scope="module", autouse=True)
def worker():
    WORKER.parent.mkdir(exist_ok=True)
    WORKER.parent.chmod(0o755)
    subprocess.run(["gcc", "-static", "-O1", "-std=gnu17", "-D_GNU_SOURCE", f"-I{TOP}/src", "-o", WORKER, *SOURCES],
                   check=True)
    WORKER.chmod(0o755)


class Answer:
    """One answer; takes its frames off the front of `data`."""

    def __init__(self, data):
        self.entries, self.events, self.data, self.error, self.end = {}, [], b"", None, None
        while self.end is None:
            kind, zero, length = struct.unpack_from("<BxHI", data)
            assert zero == 0 and len(data) >= 8 + length, "cut short"
            self.frame(kind, data[8 : 8 + length])
            data = data[8 + length :]
        self.rest = data

    def frame(self, kind, body):
        if kind == 1:
            self.error, self.size = struct.unpack("<ixxxxQ", body)
            self.end = self.error or None
        elif kind == 2:
            what, mode, _, _, size, _, _, path, target, meta, _, _ = struct.unpack_from("<IIIIQqIIIIII", body)
            text = body[56:]
            assert len(text) == path + target + meta
            pairs = text[path + target :].split(b"\0")[:-1]
            self.entries[text[:path].decode()] = {
                "kind": what, "mode": mode, "size": size, "target": text[path : path + target].decode(),
                "meta": dict(zip(pairs[::2], pairs[1::2]))}
        elif kind == 3:
            self.events.append((struct.unpack_from("<I", body)[0], body[8:].decode()))
        elif kind == 4:
            self.data += body
        else:
            assert kind == 5
            self.end = struct.unpack("<ixxxxQ", body)[0] if body else 0


def answers(result):
    data, found = result.stdout, []
    while data:
        found.append(Answer(data))
        data = found[-1].rest
    return found


def work(caller, script, *options):
    """The answers of the workers of one sandbox; W is the worker."""
    result = caller.run("--tier", "container", "--timeout", "5m", "--quiet", "--ro", WORKER.parent, *options, "--", "sh", "-c",
                        f"W={WORKER}; {script}", text=False)
    return answers(result)


@pytest.fixture(params=["alone", "granted"])
def options(request, caller):
    """With a writable folder of the host the filter hides openat2."""
    if request.param == "alone":
        return []
    folder = PUBLIC / f"granted-{caller.name}"
    folder.mkdir(exist_ok=True)
    os.chown(folder, caller.uid, caller.uid if caller.uid != os.geteuid() else -1)
    return ["--rw", f"{folder}:/granted"]


def test_the_two_ways_to_open(caller, options):
    result = caller.run("--tier", "container", "--quiet", "--ro", WORKER.parent, *options, "--", WORKER, "openat2")
    assert result.stdout.strip() == ("ENOSYS" if options else "there")


def test_every_operation_works_inside(caller, options):
    write, read, stat, ls, made, moved, gone, again = work(caller, """
        printf hello | $W write a/b/file meta=who:me; $W read a/b/file; $W stat /home/user/a/b/file; $W list a depth=5
        $W mkdir /workspace/x/y; $W move a/b/file to=c/d; $W remove a; $W read a/b/file""", *options)
    assert (write.error, write.size) == (0, 5)
    assert (read.data, read.end) == (b"hello", 0)
    entry = stat.entries["/home/user/a/b/file"]
    assert (entry["kind"], entry["mode"], entry["size"]) == (1, 0o644, 5)
    assert entry["meta"] == {b"who": b"me"}
    assert set(ls.entries) == {"/home/user/a/b", "/home/user/a/b/file"}
    assert made.entries["/workspace/x/y"]["kind"] == 2
    assert list(moved.entries) == ["/home/user/c/d"]
    assert gone.error == 0 and again.error == errno.ENOENT


def test_moving_to_another_file_system(caller, options):
    """rename() alone answers EXDEV there (the folder, which is refused, is the control)."""
    write, moved, read, gone, over, link, fifo, folder, onto, stays, there = work(caller, """
        cd; printf hello | $W write /tmp/part meta=who:me; chmod 750 /tmp/part; touch -d @1000000000 /tmp/part
        $W move /tmp/part to=sub/whole; $W read sub/whole; $W stat /tmp/part
        printf 2 >/tmp/two; printf old >old; ln old other; $W move /tmp/two to=old
        ln -s /nowhere /tmp/link; $W move /tmp/link to=link
        mkfifo /tmp/fifo; $W move /tmp/fifo to=fifo
        mkdir -p /tmp/folder; touch /tmp/folder/f; $W move /tmp/folder to=folder
        printf 3 >/tmp/three; mkdir d; $W move /tmp/three to=d; $W read /tmp/three
        stat -c %Y sub/whole >when; cat other >>when; ls -A /tmp sub . >>when; $W read when""", *options)
    entry = moved.entries["/home/user/sub/whole"]
    assert (moved.end, entry["mode"], entry["meta"], entry["size"]) == (0, 0o750, {b"who": b"me"}, 5), vars(moved)
    assert read.data == b"hello" and gone.error == errno.ENOENT
    assert over.end == 0 and list(over.entries) == ["/home/user/old"]
    assert link.entries["/home/user/link"]["target"] == "/nowhere"
    assert (fifo.error, folder.error, onto.error, stays.data) == (errno.EXDEV, errno.EXDEV, errno.EISDIR, b"3")
    assert there.data.startswith(b"1000000000\nold"), there.data
    left = there.data.decode()
    assert ".brig" not in left and "folder" in left and "part" not in left and "two" not in left, left


def test_it_gets_no_further_than_the_code(caller, options):
    denied = work(caller, """
        $W read /etc/shadow; $W read /proc/self/environ; $W read /proc/1/root/etc/passwd; $W list /proc
        $W read /dev/zero; $W list /dev/pts; $W read /dev/stdin; echo x | $W write /usr/bin/x; echo x | $W write /etc/passwd
        $W remove /usr/bin; $W remove /workspace; $W move /etc/passwd to=/workspace/p; $W mkdir /new""", *options)
    assert len(denied) == 13 and all(answer.error for answer in denied), [answer.error for answer in denied]
    assert denied[3].error == errno.EACCES and denied[4].error == errno.EINVAL
    allowed, = work(caller, "$W read /etc/passwd", *options)
    assert b"user" in allowed.data


@pytest.mark.parametrize("options", ["granted"], indirect=True)
def test_a_granted_folder(caller, options):
    folder = PUBLIC / f"granted-{caller.name}"
    write, read, inside = work(caller, "printf 1 | $W write /granted/f; $W read /granted/f; $W remove /granted", *options)
    assert (write.error, read.data) == (0, b"1")
    assert inside.error in (errno.EBUSY, errno.EROFS)
    assert (folder / "f").read_text() == "1" and (folder / "f").stat().st_mode & 0o7777 == 0o644
    assert [p.name for p in folder.iterdir()] == ["f"]


def test_uploads_count(caller, options):
    full, after, fits = work(caller, """
        head -c 4000000 /dev/zero | $W write big; $W list .; head -c 500000 /dev/zero | $W write small""",
                             *options, "--disk", "1M", *WATCHED)
    assert full.error == errno.ENOSPC
    assert after.entries == {} and fits.error == 0


# Does each thing when the worker has told of the one before: an event has a frame of 16 bytes and its path.
WATCHING = """
import os, shutil, subprocess, sys
worker = subprocess.Popen([sys.argv[1], "watch", "d", "recursive"], stdout=subprocess.PIPE)
told = b""
def until(path):
    global told
    while path not in told:
        piece = os.read(worker.stdout.fileno(), 65536)
        assert piece, told
        told += piece
until(b"\\1")
os.mkdir("d/sub")
until(b"sub")
open("d/sub/f", "w").write("x")
until(b"sub/f")
shutil.rmtree("d")
sys.stdout.buffer.write(told + worker.stdout.read())
"""


def test_watching(caller, options):
    seen, = work(caller, f"cd; mkdir d; python3 -c '{WATCHING}' $W", *options)
    assert (1, "sub") in seen.events and (1, "sub/f") in seen.events and (3, "sub/f") in seen.events
    assert seen.end == errno.ENOENT


def test_links_of_the_code_lead_the_worker_nowhere_else():
    """F-04, F-06: what the code plants is followed only as far as the code itself could go."""
    read, magic, replaced, kept = work(CALLERS[0], """
        cd; ln -s /proc/self/fd/0 fd; ln -s /etc link; echo old >file; ln -s file alias
        $W read link/passwd; $W read fd </etc/passwd; printf new | $W write alias; $W read file""")
    assert b"user" in read.data and magic.error == errno.ELOOP
    assert replaced.error == 0 and kept.data == b"old\n"
