"""The completion scripts in the shells that they are for: verbs, verbs of verbs, options and the words of options."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from helpers import BRIG

WAIT = 60
# What is typed, and what must be among the completions. The last of them is the only one there is.
CASES = [
    ("brig doc", "doctor"),
    ("brig policy expl", "explain"),
    ("brig audit veri", "verify"),
    ("brig keys rev", "revoke"),
    ("brig run --mem", "--memory"),
    ("brig run -m 1G --lev", "--level"),
    ("brig run --level crit", "critical"),
    ("brig policy show --pol", "--policy"),
    ("brig mcp --deny-t", "--deny-tool"),
    ("brig completion fi", "fish"),
    ("brig help serv", "serve"),
]


def script(shell, tmp_path):
    said = subprocess.run([BRIG, "completion", shell], capture_output=True, text=True, timeout=WAIT, check=True)
    path = tmp_path / f"brig.{shell}"
    path.write_text(said.stdout)
    return path


def verbs():
    said = subprocess.run([BRIG, "--help"], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    found = re.findall(r"^  ([a-z]+)  +\S", said, re.M)
    assert {"run", "serve", "mcp", "help"} <= set(found)
    return set(found)


# ---- bash ----

def bash(path, typed):
    words = typed.split(" ")
    code = f"""source {path}
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words) - 1}
        _brig; printf '%s\\n' "${{COMPREPLY[@]}}" """
    said = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, timeout=WAIT)
    assert said.stderr == ""
    return said.stdout.split()


# ---- fish: says itself what it would offer ----

def fish(path, typed):
    said = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C '{typed}'"], capture_output=True, text=True, timeout=WAIT,
                          env={**os.environ, "HOME": str(path.parent)})
    assert said.stderr == ""
    return [line.split("\t")[0] for line in said.stdout.splitlines() if line]


@pytest.mark.parametrize("shell, offers", [("bash", bash), ("fish", fish)])
def test_completes(shell, offers, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    path = script(shell, tmp_path)
    for typed, expected in CASES:
        assert offers(path, typed) == [expected], typed
    assert verbs() <= set(offers(path, "brig "))
    assert {"low", "medium", "high", "critical"} == set(offers(path, "brig run --level "))
    assert not [word for word in offers(path, "brig run --nonesuch") if "nonesuch" in word]


# ---- zsh: completes only for somebody who types ----

class Typist:
    """An interactive zsh on a terminal. `brig` is a function there that prints what it was given."""

    def __init__(self, path):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "TERM": "vt100", "HOME": str(path.parent), "LC_ALL": "C.UTF-8"})
        self.seen = ""
        self.say("PS1=; unsetopt zle_bracketed_paste prompt_sp; autoload -Uz compinit && compinit -u -D; zstyle ':completion:*' menu no")
        self.say(f"source {path}; brig() {{ print -r -- \"<got:$*>\" }}; setopt no_beep no_auto_menu no_list_ambiguous; print rea''dy")
        self.until("ready")

    def write(self, text):
        os.write(self.fd, text.encode())

    def say(self, line):
        self.write(line + "\n")

    def until(self, pattern):
        """What stands before the first match of what has not been looked at yet."""
        end = time.monotonic() + WAIT
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"{pattern} did not come: {self.seen[-2000:]!r}"
            if select.select([self.fd], [], [], 0.2)[0]:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def completed(self, typed):
        """The words that the command has after the key for completion."""
        self.write(typed + "\t")
        self.say("")
        return self.until(r"<got:([^>]*)>")[1]

    def end(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def typist(tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    made = Typist(script("zsh", tmp_path))
    yield made
    made.end()


def test_zsh_completes(typist):
    for typed, expected in CASES:
        before = typed.removeprefix("brig ").rpartition(" ")[0]
        assert typist.completed(typed).rstrip("= ") == f"{before} {expected}".strip(), typed
    # Control: what there is not is left as it was.
    assert typist.completed("brig run --nonesuch") == "run --nonesuch"
