"""A file system of this process's own (FUSE) that stops answering where it is asked to: what a broken network file system
looks like from outside. Only root can mount one."""
import contextlib
import ctypes
import os
import select
import struct
import threading

FORGET, BATCH_FORGET, INTERRUPT = 2, 42, 36
LOOKUP, GETATTR, OPEN, READ, STATFS, INIT, OPENDIR, READDIR = 1, 3, 14, 15, 17, 26, 27, 28
ENOENT, ENOSYS = 2, 38
LIBC = ctypes.CDLL(None, use_errno=True)


def _attr(node):
    folder = node == 1
    return struct.pack("<QQQQQQIIIIIIIIII", node, 0 if folder else 4096, 8, 0, 0, 0, 0, 0, 0,
                       (0o40777 if folder else 0o100666), 1, 0, 0, 0, 4096, 0)


class HangFS:
    """Holds one file, "file". Reading it is never answered, nor is any question about the name "hang"."""

    def __init__(self, place):
        self.place, self.asked = str(place), threading.Event()
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if LIBC.mount(b"hangfs", self.place.encode(), b"fuse", 6, options) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        self.over = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _reply(self, unique, body=b"", error=0):
        os.write(self.fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def _answer(self, opcode, unique, node, body):
        if opcode == INIT:
            self._reply(unique, struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 8, 6, 4096, 1, 1, 0, 0))
        elif opcode == LOOKUP:
            name = body.rstrip(b"\0")
            if name == b"hang":
                self.asked.set()
            elif name == b"file":
                self._reply(unique, struct.pack("<QQQQII", 2, 0, 3600, 3600, 0, 0) + _attr(2))
            else:
                self._reply(unique, error=ENOENT)
        elif opcode == GETATTR:
            self._reply(unique, struct.pack("<QII", 3600, 0, 0) + _attr(node))
        elif opcode in (OPEN, OPENDIR):
            self._reply(unique, struct.pack("<QII", 1, 0, 0))
        elif opcode == READ:
            self.asked.set()
        elif opcode == READDIR:
            self._reply(unique)
        elif opcode == STATFS:
            self._reply(unique, bytes(80))
        elif opcode not in (FORGET, BATCH_FORGET, INTERRUPT):
            self._reply(unique, error=ENOSYS)

    def _serve(self):
        while not self.over:
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(self.fd, 1 << 17)
            except OSError:
                return
            _, opcode, unique, node = struct.unpack_from("<IIQQ", data)
            with contextlib.suppress(OSError):
                self._answer(opcode, unique, node, data[40:])

    def close(self):
        """Everybody who waits is let go."""
        self.over = True
        self.thread.join()
        LIBC.umount2(self.place.encode(), 2)
        os.close(self.fd)


@contextlib.contextmanager
def hang(place):
    made = HangFS(place)
    try:
        yield made
    finally:
        made.close()
