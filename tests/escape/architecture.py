"""What the machine's architecture decides: the numbers of its system calls, and the attacks that it has no place for."""

import functools
import os
import re
import subprocess

MACHINE = {"x86_64": "x86-64", "aarch64": "aarch64"}[os.uname().machine]


@functools.cache
def _numbers():
    """From the kernel's headers, not from brig's own table."""
    text = subprocess.run([os.environ.get("CC", "gcc"), "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
                          check=True, capture_output=True, text=True).stdout
    said = dict(re.findall(r"^#define (__NR\w*) (\w+)$", text, re.M))

    def number(word):
        return int(word) if word.isdigit() else number(said[word])
    return {name.removeprefix("__NR_"): number(name) for name, value in said.items()
            if name.startswith("__NR_") and (value.isdigit() or value in said)}


def number(name):
    """Of a system call that every architecture has."""
    return _numbers()[name]


def numbers(names, only_x86_64=()):
    """{name: number}; `only_x86_64` are those of the names that no other architecture has."""
    return {name: number(name) for name in names if MACHINE == "x86-64" or name not in only_x86_64}


def absent(names, owner="x86-64"):
    """What `attack` must say of probes that only the owner has: nothing there, by name elsewhere."""
    return {} if MACHINE == owner else {name: f"ONLY {owner}" for name in names}
