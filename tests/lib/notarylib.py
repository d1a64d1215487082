"""A supervisor of one's own for the notary: speaks src/wire/wire.h to `brig-daemon sign` over a socket pair."""
import fcntl
import json
import os
import socket
import subprocess

from auditlib import DAEMON, HEAD, MAX, NAME, TYPE


class Notary:
    def __init__(self, folder, caller, prefix=()):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

        def place():
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (theirs.fileno(), there)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            os.closerange(5, 200)

        self.process = subprocess.Popen([*prefix, *caller.outside(DAEMON, "sign")], preexec_fn=place, close_fds=False,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        theirs.close()
        os.close(there)
        self.ours.settimeout(60)

    def hear(self):
        """(type, text), or (None, None) when it is gone."""
        try:
            packet = self.ours.recv(MAX)
        except ConnectionResetError:
            packet = b""
        if not packet:
            return None, None
        return NAME[HEAD.unpack(packet[:HEAD.size])[0]], packet[HEAD.size:].decode()

    def sign(self, body):
        """The signature, or None."""
        kind, _ = self.hear()
        if kind != "READY":
            return None
        fd = os.memfd_create("receipt")
        os.write(fd, body if isinstance(body, bytes) else json.dumps(body).encode())
        try:
            socket.send_fds(self.ours, [HEAD.pack(TYPE["RECEIPT"], 0, 0, 0, 0)], [fd])
        except (BrokenPipeError, ConnectionResetError):
            return None
        finally:
            os.close(fd)
        kind, text = self.hear()
        return json.loads(text) if kind == "DONE" else None

    def end(self):
        self.ours.close()
        return self.process.wait(60)
