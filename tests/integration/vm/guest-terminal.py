"""The vm tier on a terminal, as a person sits at it: guest-terminal.py OPTION...; prints "yes WHAT" or "no WHAT"."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time


class Terminal:
    def __init__(self, *command):
        self.leader, self.follower = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.follower)
        self.seen, self.all = b"", b""
        self.process = subprocess.Popen(
            ["brig", "run", "--tier", "vm", *sys.argv[1:], "-t", "-m", "192M", "--", *command], env={**os.environ, "TERM": "xterm"},
            stdin=self.follower, stdout=self.follower, stderr=self.follower, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.leader, text.encode())

    def read(self, seconds):
        if select.select([self.leader], [], [], seconds)[0]:
            got = os.read(self.leader, 65536)
            self.seen += got
            self.all += got
            return True
        return False

    def until(self, pattern):
        while not (match := re.search(pattern.encode(), self.seen)):
            if self.process.poll() is not None and not self.read(1):
                raise SystemExit(f"no {pattern!r} in {self.seen!r}")
            self.read(5)
        self.seen = self.seen[match.end():]

    def wait(self):
        while self.process.poll() is None or self.read(0.2):
            self.read(0.2)
        return self.process.returncode


def said(name, truth):
    print(("yes " if truth else "no ") + name, flush=True)


booting = Terminal("true")
while termios.tcgetattr(booting.follower)[3] & termios.ECHO:
    time.sleep(0.05)
booting.type("\x03")
said("^C ends a boot", booting.wait() == 130)

t = Terminal("sh")
t.type("stty size; tty; echo TERM=$TERM\n")  # before there is anybody to read it
t.until(r"24 80\r\n/dev/pts/0\r\nTERM=xterm\r\n.*\$ ")
said("its size, its name, its kind", True)
t.type("echo a''b\n")
t.until(r"\nab\r\n")
said("what is typed shows once", t.all.count(b"echo a''b") == 1)
t.resize(30, 100)
for _ in range(100):
    t.type("stty size; echo the''end\n")
    t.until(r"theend\r\n")
    if b"30 100" in t.all:
        break
said("a change of the size", b"30 100" in t.all)
t.type("sh -c \"echo star''ted; exec sleep 1000\"\n")  # a key before it is there is for the shell that makes it
t.until("started\r\n")
t.type("\x03")
t.type("echo status $?\n")
t.until(r"status 130\r\n")
said("^C ends a command and not the shell", True)
t.type("echo re''ady; cat\n")
t.until("ready\r\n")
t.type("a''word\n")
t.until(r"a''word\r\na''word\r\n")
t.type("\x1a")
t.until("Stopped")
t.type("kill %1; true </dev/tty && echo op''ened\n")
t.until("opened\r\n")
said("jobs, and the terminal's own name", True)
t.type('python3 -c "x = bytearray(400 << 20)"; echo python: $?; kill -USR1 $$\n')
said("a signal that ends the code ends the run", t.wait() == 138)
said("memory", re.search(rb"python: [1-9]", t.all) and re.search(rb"out of memory|MemoryError", t.all))
said("lines end at the left", not re.search(rb"[^\r]\nbrig: ", t.all))
said("left as it was", termios.tcgetattr(t.follower) == t.before)
