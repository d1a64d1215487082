"""What stands in the place of a program of a virtual machine (`brig-vmm join`), with a test in the place of the monitor."""
import os
import socket
import struct
import subprocess
from pathlib import Path

import pytest

from helpers import BRIG, SANITIZED

PROGRAM = Path(BRIG).parent / "brig-vmm"
pytestmark = [pytest.mark.skipif(not PROGRAM.exists(), reason="it is beside brig"),
              pytest.mark.skipif(SANITIZED, reason="the sanitizers need calls that it gives up")]
STATUS, ORDER = 5, struct.Struct("<IIIIHHI")


def receive(link, length):
    data = b""
    while len(data) < length:
        piece = link.recv(length - len(data))
        assert piece, "it has gone"
        data += piece
    return data


def order(env, *argv):
    """What it asks the guest for: (order, plan), and what it says when the guest has gone then."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("")
        server.listen()
        server.settimeout(60)
        read, write = os.pipe()
        name = server.getsockname()[1:].decode()
        process = subprocess.Popen([PROGRAM, "join", name, "3", "-", "/", "--", *argv], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, close_fds=False, preexec_fn=lambda: os.dup2(write, STATUS))
        os.close(write)
        link, _ = server.accept()
        with link:
            link.settimeout(60)
            head = ORDER.unpack(receive(link, ORDER.size))
            plan = receive(link, head[1])
        assert process.wait(60) == 125 and process.communicate() == (b"", b"")
        with os.fdopen(read, "rb") as told:
            assert b"the virtual machine ended before the process began" in told.read()
        return head, plan


def test_a_programs_variables_reach_the_program_alone():
    """What a client calls LD_PRELOAD is for the guest. It comes behind a mark that no loader and no library looks behind; what
    comes without is not the program's."""
    head, plan = order({"brig:LD_PRELOAD": "/workspace/own.so", "brig:PLAIN": "1", "OF_INIT": "2"}, "program", "argument")
    assert head[2:] == (3, 0, 0, 0, 0)
    assert b"LD_PRELOAD=/workspace/own.so\0" in plan and b"PLAIN=1\0" in plan and b"program\0" in plan and b"argument\0" in plan
    assert b"brig:" not in plan and b"OF_INIT" not in plan
