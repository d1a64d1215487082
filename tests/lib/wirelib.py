"""The messages of src/wire/wire.h, as a program in place of brig-daemon speaks them."""
import array
import json
import os
import re
import socket
import struct
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "src" / "wire" / "wire.h"
NAMES = ["none"] + re.findall(r"\bX\((?!ID)[A-Z]+,[\s\\]+\"([a-z]+)\"\)", HEADER.read_text())
HEAD = struct.Struct("=IIqII")


class Gone(Exception):
    """The other side closed its end."""


class Message:
    def __init__(self, type, request, value, text, fds):
        self.type, self.request, self.value, self.text, self.fds = type, request, value, text, fds

    @property
    def json(self):
        return json.loads(self.text) if self.text else {}

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def __repr__(self):
        return f"<{self.type} request={self.request} value={self.value} {self.text!r} fds={self.fds}>"


class Wire:
    def __init__(self, fd):
        self.sock = socket.socket(fileno=fd)

    def send(self, type, request=0, value=0, obj=None, fds=(), text=None):
        data = text if text is not None else (b"" if obj is None else json.dumps(obj).encode())
        head = HEAD.pack(NAMES.index(type), request, value, len(data), 0)
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([head + data], control)

    def recv(self, timeout=60):
        self.sock.settimeout(timeout)
        data, control, _, _ = self.sock.recvmsg(256 * 1024, socket.CMSG_SPACE(64), socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, payload in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
        if not data:
            raise Gone
        type, request, value, length, _ = HEAD.unpack_from(data)
        return Message(NAMES[type], request, value, data[HEAD.size:HEAD.size + length], list(fds))

    def close(self):
        self.sock.close()
