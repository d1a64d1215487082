"""Ordinary programs do their ordinary work behind the walls, on both tiers, as root and as a user."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from helpers import CALLERS, WATCHED

BIG = ["--sampling", "accept", "-m", "2G", "--pids", "512", "--timeout", "20m", "--disk", "256M"]


def need(*programs):
    for program in programs:
        if not any(os.access(f"{folder}/{program}", os.X_OK) for folder in ("/usr/local/bin", "/usr/bin", "/bin")):
            pytest.skip(f"{program} is not installed")


def says(box, script, expected, **kwargs):
    """The script runs in its private folder without a denial and prints what is expected."""
    told = box.json(*BIG, "--", "bash", "-c", 'cd "${TMPDIR:-/tmp}" && ' + script, timeout=1300, **kwargs)
    assert (told["exit_code"], told["stdout"]) == (0, expected), told
    assert told["limit_hit"] is None
    return told


PROGRAMS = {
    "python3": ("python3 -c 'import json, sys, zlib, decimal; print(json.dumps([6 * 7]))'", "[42]\n"),
    "python-sqlite": (
        """python3 -c "
import sqlite3
db = sqlite3.connect('x.db')
db.execute('create table t(a)'); db.executemany('insert into t values(?)', [(i,) for i in range(1000)]); db.commit()
print(db.execute('select sum(a) from t').fetchone()[0])" """,
        "499500\n",
    ),
    "python-threads": (
        """python3 -c "
import threading, concurrent.futures as f
with f.ThreadPoolExecutor(16) as pool: print(sum(pool.map(lambda n: n * n, range(100))))" """,
        "328350\n",
    ),
    "python-processes": (
        """python3 -c "
import subprocess, os
print(sum(int(subprocess.check_output(['sh', '-c', 'expr %d + 1' % i])) for i in range(20)))
r, w = os.pipe()
if os.fork() == 0: os.write(w, b'child'); os._exit(0)
os.wait(); print(os.read(r, 9).decode())" """,
        "210\nchild\n",
    ),
    "node": (
        """node -e "
const fs = require('fs'); fs.writeFileSync('f', 'x'.repeat(1000));
Promise.all([1, 2, 3].map(n => new Promise(r => setTimeout(() => r(n), 5)))).then(v => console.log(v.join(), fs.readFileSync('f').length))" """,
        "1,2,3 1000\n",
    ),
    "node-workers": (
        """node -e "
const { Worker } = require('worker_threads');
new Worker('require(\\\"worker_threads\\\").parentPort.postMessage(21 * 2)', { eval: true }).on('message', m => console.log(m))" """,
        "42\n",
    ),
    "node-child": ("""node -e "console.log(require('child_process').execSync('echo from child').toString().trim())" """, "from child\n"),
    "gcc": (
        r"""printf '#include <stdio.h>\nint main(void){printf("%%d\\n", 6*7);}' > a.c && gcc -O2 -o a a.c && ./a""",
        "42\n",
    ),
    "make": (r"""printf 'all: a b\n\t@cat a b\na b:\n\t@echo $@ > $@\n' > Makefile && make -s -j4""", "a\nb\n"),
    "git": (
        """git init -q r && cd r && git config user.email a@b && git config user.name n && echo x > f &&
git add f && git commit -qm first && git log --format=%s && git branch -q side && git gc -q && git status --porcelain""",
        "first\n",
    ),
    "bash": ("seq 1 1000 | grep 7 | sort -rn | head -n 1 | tee >(cat > out) ; cat <(echo sub); wc -l <<< here", "997\nsub\n1\n"),
    "busybox": ("busybox seq 3 | busybox awk '{s += $1} END {print s}'", "6\n"),
    "perl": ("""perl -MFile::Temp=tempfile -e '($h, $n) = tempfile(); print $h "x"; close $h; print -s $n, "\n"; print `echo sub`'""", "1\nsub\n"),
    "ruby": ("""ruby -e 'puts (1..10).sum; puts [3, 1].map { |n| Thread.new { n * 2 } }.map(&:value).inspect'""", "55\n[6, 2]\n"),
    "javac": (
        """echo 'public class A { public static void main(String[] a) { System.out.println(java.util.stream.IntStream.range(0, 10).parallel().sum()); } }' > A.java && javac A.java && java A""",
        "45\n",
    ),
    "tar": ("mkdir d && echo x > d/f && ln -s f d/l && tar cz d | tar tz | sort", "d/\nd/f\nd/l\n"),
    "find": ("mkdir -p a/b/c && touch a/b/c/f && find a -type f -exec stat -c %s {} +", "0\n"),
}  # fmt: skip
PROGRAM_OF = {"python-sqlite": "python3", "python-threads": "python3", "python-processes": "python3", "node-workers": "node", "node-child": "node"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(box, name):
    need(PROGRAM_OF.get(name, name))
    script, expected = PROGRAMS[name]
    told = says(box, script, expected)
    # The JVM looks what kinds of sockets there are, before any is asked for.
    expected_denials = {"network"} if name == "javac" and "process" in box.options else set()
    assert {denial["boundary"] for denial in told["denials"]} == expected_denials, told["denials"]


def test_numpy(box):
    code = "import numpy as n; print(round(float(n.linalg.det(n.eye(200) * 1.01)), 4), n.random.default_rng(1).random(10 ** 6).size)"
    if os.system("/usr/bin/python3 -c 'import numpy' 2>/dev/null"):
        pytest.skip("numpy is not installed")
    says(box, f"python3 -c '{code}'", "7.316 1000000\n")


def test_tempfiles_go_where_they_may(box):
    says(box, "python3 -c 'import tempfile; print(tempfile.NamedTemporaryFile().read())' && mktemp -u | wc -l", "b''\n1\n")


def test_multiprocessing(caller):
    code = "import multiprocessing as m\nif __name__ == '__main__':\n  with m.Pool(4) as p: print(sum(p.map(abs, range(-9, 1))))"
    says(caller.with_options("-q"), f'python3 -c "{code}"', "45\n")


SHARED = """
import errno, multiprocessing as m, os, sys
from multiprocessing import shared_memory as s
def double(x):
    return 2 * x
if __name__ == "__main__":
    with m.Pool(2) as pool:
        print(pool.map(double, range(3)))
    print(m.Value("i", 3).value, m.Array("d", 2)[:])
    one = s.SharedMemory(create=True, size=64, name="brig-test"); one.buf[0] = 7
    two = s.SharedMemory(name="brig-test"); print(two.buf[0])
    two.close(); one.close(); one.unlink()
    for name in ("../x", ".", "", "a/b"):
        try:
            os.close(os.open("/dev/shm/" + name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            print("made", name)
        except OSError:
            pass
    os.mkfifo(os.environ["TMPDIR"] + "/.shm/fifo")
    os.symlink("/etc/passwd", os.environ["TMPDIR"] + "/.shm/link")
    for name in ("fifo", "link", sys.argv[1]):
        try:
            print("opened", os.read(os.open("/dev/shm/" + name, os.O_RDONLY | os.O_NOFOLLOW), 9))
        except OSError as error:
            print(error.errno != errno.EBADF)
"""


def test_shared_memory_of_the_process_tier_is_its_own(caller):
    """In the place of the host's /dev/shm, of which it sees nothing and where it leaves nothing."""
    canary = Path(f"/dev/shm/canary-{os.getpid()}")
    canary.write_text("secret")
    try:
        canary.chmod(0o666)
        before = set(os.listdir("/dev/shm"))
        done = caller.with_options("--tier", "process").run("-q", "--", "python3", "-c", SHARED, canary.name)
        assert done.stdout == "[0, 2, 4]\n3 [0.0, 0.0]\n7\nTrue\nTrue\nTrue\n", done
        assert canary.read_text() == "secret" and not {n for n in set(os.listdir("/dev/shm")) - before if "brig-test" in n}
        control = subprocess.run(["python3", "-c", f"import os; print(os.read(os.open('{canary}', os.O_NOFOLLOW), 9))"],
                                 capture_output=True, text=True, check=False)
        assert control.stdout == "b'secret'\n", "the control"
    finally:
        canary.unlink()


SEMAPHORES = r"""
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int fd = shm_open("/page", O_RDWR | O_CREAT, 0600);
    int *page = ftruncate(fd, 4096) ? 0 : mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sem_t *full = sem_open("/full", O_CREAT | O_EXCL, 0600, 0);
    if (fd < 0 || page == MAP_FAILED || full == SEM_FAILED)
        return perror("make"), 1;
    if (fork() == 0) { /* by its name, not by what it inherited */
        sem_t *same = sem_open("/full", O_CREAT, 0600, 5);
        int *there = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shm_open("/page", O_RDWR, 0), 0);
        *there = 42;
        return sem_post(same);
    }
    sem_wait(full);
    wait(0);
    printf("%d %d", *page, sem_trywait(full));
    printf(" %d", sem_unlink("/full"));
    printf(" %d", shm_unlink("/page"));
    printf(" %d\n", shm_unlink("/page"));
    return shm_open("/page", O_RDONLY, 0) >= 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_semaphores_and_shared_memory_of_a_c_program(caller, compiler):
    need(compiler)
    with tempfile.TemporaryDirectory(prefix="test-brig-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        source, program = Path(place, "s.c"), f"{place}/s"
        source.write_text(SEMAPHORES)
        subprocess.run([compiler, "-static", "-pthread", "-o", program, source], check=True)
        for tier in "container", "process":
            done = caller.with_options("--tier", tier).run("-q", "--ro", place, "--", program)
            assert (done.returncode, done.stdout) == (0, "42 -1 0 0 -1\n"), (tier, done)


def test_shared_memory_counts_as_disk_on_the_process_tier(caller):
    """Also what has no name any more."""
    code = ("import time; from multiprocessing import shared_memory as s\n"
            "kept = [s.SharedMemory(create=True, size=6 << 20) for _ in range(8)]\n"
            "for m in kept: m.unlink(); m.buf[:] = b'x' * m.size\n"
            "time.sleep(1000)")
    told = caller.with_options("--tier", "process", *WATCHED).json("--disk", "16M", "--", "python3", "-c", code, timeout=300)
    assert told["limit_hit"] == "disk", told


def test_what_is_not_shared_memory_is_not_held_up(caller):
    """A program that nobody may look into removes and links its own files all the same."""
    code = ("import ctypes, os; os.chdir(os.environ['TMPDIR']); ctypes.CDLL(None).prctl(4, 0)\n"
            "os.close(os.open('a', os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)); os.link('a', 'b'); os.unlink('a')\n"
            "print(os.listdir('.'))")
    done = caller.with_options("--tier", "process").run("-q", "--", "python3", "-c", code)
    assert done.stdout == "['b']\n", done


def test_unix_sockets_among_themselves(caller):
    code = "import socket, os; a, b = socket.socketpair(); a.send(b'hi'); print(b.recv(2).decode())\ns = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen(); c = socket.socket(socket.AF_UNIX); c.connect('/tmp/s'); print('connected')"
    says(caller.with_options("-q"), f'python3 -c "{code}"', "hi\nconnected\n")


def test_a_server_on_the_loopback(caller):
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); print('connected')"
    says(caller.with_options("-q"), f'python3 -c "{code}"', "connected\n")


def test_control_the_programs_work_outside():
    missing = [name for name in ("python3", "gcc", "git", "bash", "perl", "make") if not shutil.which(name)]
    assert missing == [] and CALLERS
