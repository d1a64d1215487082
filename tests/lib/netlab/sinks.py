"""Where nothing may ever arrive: listeners that keep what they get, and a look at every packet of the lab."""

import collections
import ctypes
import ipaddress
import os
import selectors
import socket
import struct
import threading

SO_ATTACH_FILTER = 26
ETH_P_ALL = 3
PACKET_OUTGOING = 4


class Sinks:
    """TCP and UDP on many addresses; one thread; keeps (way, address, port, bytes)."""

    def __init__(self):
        self.heard, self.lock, self.selector = [], threading.Lock(), selectors.DefaultSelector()
        self.places = []
        self.quiet, (self.woken, self.waker) = threading.Event(), os.pipe()
        self.selector.register(self.woken, selectors.EVENT_READ, "wake")

    def add(self, sock, way):
        sock.setblocking(False)
        self.places.append((way, *sock.getsockname()[:2]))
        self.selector.register(sock, selectors.EVENT_READ, way)

    def note(self, way, sock, data):
        with self.lock:
            self.heard.append((way, *sock.getsockname()[:2], data))

    def run(self):
        while True:
            ready = [key for key, _ in self.selector.select()]
            if [key.data for key in ready] == ["wake"]:
                os.read(self.woken, 4096)
                self.quiet.set()
            for key in ready:
                if key.data == "wake":  # somebody waits until it is the only one
                    continue
                try:
                    self.ready(key.data, key.fileobj)
                except OSError:
                    if key.data == "stream":
                        self.selector.unregister(key.fileobj)
                        key.fileobj.close()

    def ready(self, way, sock):
        if way == "tcp":
            peer = sock.accept()[0]
            peer.setblocking(False)
            self.note("tcp", peer, b"")
            self.selector.register(peer, selectors.EVENT_READ, "stream")
        elif way == "udp":
            self.note("udp", sock, sock.recv(65536))
        else:
            data = sock.recv(65536)
            if data:
                self.note("bytes", sock, data)
                if b"\r\n\r\n" in data:
                    sock.send(b"HTTP/1.1 200 SINK\r\nContent-Length: 4\r\n\r\nSINK")
            else:
                self.selector.unregister(sock)
                sock.close()

    def catch_up(self):
        """Waits until all that has arrived is noted."""
        self.quiet.clear()
        os.write(self.waker, b"x")
        assert self.quiet.wait(60), "the sinks have stopped"

    def mark(self):
        with self.lock:
            return len(self.heard)

    def since(self, mark):
        with self.lock:
            return list(self.heard[mark:])


# Keep what starts a connection and everything that is no TCP; the rest of TCP is seen by the servers.
_STATEMENTS = [
    (0x28, 0, 0, 12),       # 0  ldh [12]
    (0x15, 0, 5, 0x0800),   # 1  IPv4? else 7
    (0x30, 0, 0, 23),       # 2  ldb protocol
    (0x15, 0, 9, 6),        # 3  TCP? else keep
    (0xb1, 0, 0, 14),       # 4  ldxb 4*([14]&15)
    (0x50, 0, 0, 27),       # 5  ldb [x+14+13]
    (0x45, 6, 7, 2),        # 6  SYN: keep, else drop
    (0x15, 0, 5, 0x86dd),   # 7  IPv6? else keep
    (0x30, 0, 0, 20),       # 8  ldb next header
    (0x15, 0, 3, 6),        # 9  TCP? else keep
    (0x30, 0, 0, 67),       # 10 flags
    (0x45, 1, 2, 2),        # 11 SYN: keep, else drop
    (0x06, 0, 0, 0),        # 12 (never reached)
    (0x06, 0, 0, 65535),    # 13 keep
    (0x06, 0, 0, 0),        # 14 drop
]


Flow = collections.namedtuple("Flow", "protocol to port source source_port")


class Packets:
    """Every packet that begins something on the lab's loopback."""

    def __init__(self, interface="lo"):
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        code = b"".join(struct.pack("HBBI", *s) for s in _STATEMENTS)
        buffer = ctypes.create_string_buffer(code)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                             struct.pack("HL", len(_STATEMENTS), ctypes.addressof(buffer)))
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.sock.bind((interface, 0))
        self.seen, self.lock = [], threading.Lock()

    def run(self):
        while True:
            data, origin = self.sock.recvfrom(65536)
            if origin[2] == PACKET_OUTGOING:
                continue
            flow = self.read(data)
            if flow:
                with self.lock:
                    self.seen.append(flow)

    @staticmethod
    def read(data):
        kind = struct.unpack("!H", data[12:14])[0]
        if kind == 0x0800:
            protocol, source, to = data[23], data[26:30], data[30:34]
            rest = data[14 + 4 * (data[14] & 15):]
        elif kind == 0x86dd:
            protocol, source, to = data[20], data[22:38], data[38:54]
            rest = data[54:]
        else:
            return Flow(f"ether {kind:#x}", "", 0, "", 0)
        if protocol == 6 and len(rest) > 13 and rest[13] & 0x10:
            return None  # the answer to a SYN
        ports = struct.unpack("!HH", rest[:4]) if protocol in (6, 17) and len(rest) >= 4 else (0, 0)
        name = {6: "tcp", 17: "udp", 1: "icmp", 58: "icmp6"}.get(protocol, f"ip{protocol}")
        return Flow(name, str(ipaddress.ip_address(to)), ports[1], str(ipaddress.ip_address(source)), ports[0])

    def mark(self):
        with self.lock:
            return len(self.seen)

    def since(self, mark):
        with self.lock:
            return list(self.seen[mark:])
