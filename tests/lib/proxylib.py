"""brig-proxy without brig: a test plays the supervisor. PROXY names the program under test, else build/brig-proxy.

    with Proxy(["origin.test:8080=127.0.0.1"]) as proxy:
        client = proxy.connect("origin.test", 8080)     # as if the code had dialled the name's stand-in
        port = proxy.listen(PROXY)                      # an explicit proxy on 127.0.0.1:port
        event = proxy.event(host="origin.test", verdict="denied")
"""

import collections
import contextlib
import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PROXY", str(TOP / "build" / "brig-proxy"))

TYPES = ["none", "config", "listener", "connection", "check", "end", "ready", "fail", "replaced", "event", "checked", "bye", "refused", "ask", "answer",
         "sync", "synced"]
PROXY, TRANSPARENT, DNS_UDP, DNS_TCP = range(4)
A, AAAA = 1, 28
HEAD = struct.Struct("=4I3i512s320s")
EVERYTHING = {"rules": [], "blocked": [], "secrets": [], "upload": "unlimited", "max_connections": "unlimited",
              "requests": "unlimited"}
SEALS = 0xF  # seal, shrink, grow, write

Message = collections.namedtuple("Message", "type value port text error hint")


def encode(kind, value=0, port=0, text=""):
    data = text.encode()
    return HEAD.pack(TYPES.index(kind), value, port, len(data), 0, 0, 0, b"", b"") + data


def decode(data):
    kind, value, port, length, _, _, _, message, hint = HEAD.unpack(data[:HEAD.size])
    text = data[HEAD.size:]
    assert len(text) == length
    return Message(TYPES[kind], value, port, text.decode(), message.split(b"\0")[0].decode(), hint.split(b"\0")[0].decode())


def sealed(text):
    fd = os.memfd_create("config", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.write(fd, text.encode())
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


class Failed(Exception):
    """The proxy said CH_FAIL, or is gone."""


class Proxy:
    """rules: specs or mappings. More members of the egress object: egress={…}; of the configuration: by name
    (auth, resolver, roots, uid, gid). env: for the sources of secrets. prefix: a command to run it with."""

    def __init__(self, rules=(), egress=None, env=None, prefix=(), start=True, check=False, **config):
        self.config = dict(config)
        self.messages, self.events, self.sockets, self.known = [], [], [], {}
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = theirs.fileno()
        # Descriptor 3 is the channel: nothing that subprocess itself uses may be there.
        placeholders = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(4)]
        self.process = subprocess.Popen([*map(str, prefix), BINARY], env={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ""), **(env or {})}, stdin=subprocess.DEVNULL, close_fds=False,
                                        stdout=subprocess.DEVNULL, preexec_fn=lambda: os.dup2(fd, 3))
        for spare in placeholders:
            os.close(spare)
        theirs.close()
        self.pid = self.process.pid
        if start:
            self.configure(rules, egress, kind="check" if check else "config")
        if start and not check:
            self.ready = json.loads(self.expect("ready", 120).text)

    # ---- the channel ----

    def send(self, kind, value=0, port=0, text="", fd=None):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))] if fd is not None else []
        self.control.sendmsg([encode(kind, value, port, text)], rights)

    def configure(self, rules=(), egress=None, kind="config"):
        fd = sealed(json.dumps({"egress": {**EVERYTHING, "rules": list(rules), **(egress or {})}, **self.config}))
        self.send(kind, fd=fd)
        os.close(fd)

    def replace(self, rules=(), egress=None):
        """Live change; returns how many connections it ended."""
        self.configure(rules, egress)
        return self.expect("replaced").value

    def read(self, seconds=0.0):
        """Takes in what there is; False at the end."""
        while select.select([self.control], [], [], seconds)[0]:
            try:
                data = self.control.recv(1 << 17)
            except ConnectionResetError:
                return False
            if not data:
                return False
            message = decode(data)
            if message.type == "event":
                self.events.append(json.loads(message.text))
            else:
                self.messages.append(message)
            seconds = 0
        return True

    def expect(self, kind, seconds=60):
        end = time.monotonic() + seconds
        while True:
            for i, message in enumerate(self.messages):
                if message.type == kind:
                    return self.messages.pop(i)
                if message.type == "fail":
                    raise Failed(message.error)
            assert time.monotonic() < end, f"no {kind} in {seconds} s"
            if not self.read(0.1) and not self.messages:
                raise Failed(f"the proxy is gone, status {self.process.wait(60)}")

    def event(self, seconds=60, **wanted):
        """The first event with these members, once it is there."""
        end = time.monotonic() + seconds
        while True:
            for event in self.events:
                if all(event.get(k) == v for k, v in wanted.items()):
                    return event
            alive = self.read(0.05)
            assert time.monotonic() < end and alive, f"no event {wanted} among {self.events}"

    def forget(self):
        """Events so far are of no interest."""
        self.read()
        self.events.clear()

    # ---- ways in ----

    def listen(self, kind, address="127.0.0.1", port=0, backlog=512):
        """Hands the proxy a listener; returns its port."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM if kind == DNS_UDP else socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            if kind != DNS_UDP:
                sock.listen(backlog)
            self.send("listener", kind, sock.getsockname()[1], fd=sock.fileno())
            return sock.getsockname()[1]

    def hand_over(self, kind, address, port, timeout=60):
        """A connection that the supervisor brokers: our end of it."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname())
            peer = server.accept()[0]
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(timeout)
        self.send("connection", kind, text=f"{address} {port}", fd=peer.fileno())
        peer.close()
        self.sockets.append(client)
        return client

    def connect(self, host, port, **more):
        """As the code inside would: asks for the name, then dials what it was told. An address is dialled as it is."""
        try:
            socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
            address = host
        except OSError:
            address = self.known.get(host) or self.ask(host)
            assert address, f"{host} does not exist inside"
            self.known[host] = address  # stand-ins last as long as the run
        return self.hand_over(TRANSPARENT, address, port, **more)

    def explicit(self, **more):
        return self.hand_over(PROXY, "127.0.0.1", 3128, **more)

    def tunnel(self, host, port, **more):
        """A CONNECT through the explicit proxy: (status, socket, what came after the head)."""
        client = self.explicit(**more)
        name = f"[{host}]" if ":" in host else host
        client.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(1)
            if not piece:
                break
            head += piece
        return int(head.split()[1]) if head else 0, client, head

    def ask(self, name, kind=A):
        """Over DNS on TCP; the address, "" where there is none of that kind, None where there is no such name."""
        with self.hand_over(DNS_TCP, "127.0.0.1", 53) as sock:
            message = question(name, kind)
            sock.sendall(struct.pack("!H", len(message)) + message)
            length = struct.unpack("!H", receive(sock, 2))[0]
            return read_answer(receive(sock, length))

    # ---- the end ----

    def end(self):
        """The polite way: returns the totals."""
        self.send("end")
        totals = json.loads(self.expect("bye").text)
        self.process.wait(60)
        return totals

    def rss(self):
        """Resident memory, in KiB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def close(self):
        for sock in self.sockets:
            sock.close()
        self.control.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


# ---- DNS, as a client ----

def question(name, kind=A, ident=0x1234):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    return struct.pack("!6H", ident, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!HH", kind, 1)


def read_answer(message):
    flags, _, answers = struct.unpack("!HHH", message[2:8])
    code = flags & 15
    if code == 3:
        return None
    assert code == 0, f"code {code}"
    if not answers:
        return ""
    size = struct.unpack("!H", message[-6:-4])[0] if message[-6:-4] == b"\0\4" else 16
    return socket.inet_ntop(socket.AF_INET if size == 4 else socket.AF_INET6, message[-size:])


def receive(sock, length):
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        if not piece:
            raise EOFError(f"{len(data)} of {length} bytes")
        data += piece
    return data


def drain(sock):
    """Everything up to the end; a reset counts as one."""
    data = bytearray()  # which grows where it is: some of it is large
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(1 << 16):
            data += piece
    return bytes(data)


# ---- servers of the test ----

class Server:
    """TCP on loopback; `talk(sock)` per connection, each in a thread. Keeps count and every byte it got."""

    def __init__(self, talk=None, address="127.0.0.1", make=None):
        self.talk, self.connections, self.received = talk or self.echo, 0, b""
        self.lock = threading.Lock()
        self.sock = make() if make else socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=512)
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer = self.sock.accept()[0]
            except OSError:
                return
            with self.lock:
                self.connections += 1
            threading.Thread(target=self.run, args=(peer,), daemon=True).start()

    def run(self, peer):
        with peer, contextlib.suppress(OSError):
            self.talk(peer)

    def note(self, data):
        with self.lock:
            self.received += data
        return data

    def echo(self, peer):
        while data := peer.recv(1 << 16):
            peer.sendall(self.note(data))

    def close(self):
        # accept() in another thread does not end by close() alone
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def client_hello(name=None, ech=False, extra=b""):
    """A ClientHello as bytes, with or without a server name."""
    extensions = extra
    if name is not None:
        raw = name.encode()
        entry = b"\0" + struct.pack("!H", len(raw)) + raw
        body = struct.pack("!H", len(entry)) + entry
        extensions += struct.pack("!HH", 0, len(body)) + body
    if ech:
        extensions += struct.pack("!HH", 0xFE0D, 8) + b"\0\0\1\0\1\7\0\0"
    body = b"\3\3" + bytes(32) + b"\0" + struct.pack("!HH", 2, 0x1301) + b"\1\0" + struct.pack("!H", len(extensions)) + extensions
    handshake = b"\1" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack("!H", len(handshake)) + handshake
