"""A name server that answers what a test scripts and remembers every question."""

import ipaddress
import socket
import struct
import threading
import time

from .conversations import Conversations

A, CNAME, TXT, AAAA, ANY = 1, 5, 16, 28, 255


class Question:
    def __init__(self, name, kind, way):
        self.name, self.kind, self.way, self.time = name, kind, way, time.monotonic()

    def __repr__(self):
        return f"{self.name}/{self.kind}/{self.way}"


def encode_name(name):
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.split(".") if label) + b"\0"


def read_name(message, at):
    labels = []
    while message[at]:
        length = message[at]
        if length > 63:
            raise ValueError("compressed question")
        labels.append(message[at + 1:at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels), at + 1


# What catch_up() asks: no question of a test.
MARK = struct.pack("!HHHHHH", 0x4d4b, 0, 1, 0, 0, 0) + encode_name("mark") + struct.pack("!HH", A, 1)


class NameServer:
    """Zone: {name: [records]} or {name: callable(nth question) -> [records]}. A record is an address, or
    "=other.name" for an alias. "*.x" serves everything below x. Times to live are zero."""

    def __init__(self, zone):
        self.zone, self.asked, self.counts = dict(zone), [], {}
        self.lock, self.conversations = threading.Lock(), Conversations()

    def records(self, name):
        entry = self.zone.get(name)
        while entry is None and "." in name:
            name = name.split(".", 1)[1]
            entry = self.zone.get(f"*.{name}")
        if callable(entry):
            return entry
        return entry

    def chain(self, name, kind):
        """Answer records for a question, aliases followed; None: there is no such name."""
        out, seen = [], 0
        while seen < 8:
            entry = self.records(name)
            if entry is None:
                return out or None
            if callable(entry):
                with self.lock:
                    nth = self.counts[name, kind] = self.counts.get((name, kind), -1) + 1
                entry = entry(nth)
            alias = [r[1:] for r in entry if r.startswith("=")]
            if not alias:
                for text in entry:
                    address = ipaddress.ip_address(text)
                    if kind == (A if address.version == 4 else AAAA):
                        out.append((name, kind, address.packed))
                return out
            out.append((name, CNAME, encode_name(alias[0])))
            name, seen = alias[0], seen + 1
        return out

    def answer(self, message, way):
        ident, flags, questions = struct.unpack("!HHH", message[:6])
        name, at = read_name(message, 12)
        kind = struct.unpack("!H", message[at:at + 2])[0]
        if message != MARK:
            with self.lock:
                self.asked.append(Question(name.lower(), kind, way))
        found = self.chain(name.lower(), kind)
        code = 3 if found is None else 0
        head = struct.pack("!HHHHHH", ident, 0x8180 | code, 1, len(found or ()), 0, 0)
        body = b"".join(encode_name(n) + struct.pack("!HHIH", k, 1, 0, len(d)) + d for n, k, d in found or ())
        return head + message[12:at + 4] + body

    def serve_udp(self, sock):
        while True:
            try:
                message, peer = sock.recvfrom(4096)
            except OSError:
                return
            try:
                sock.sendto(self.answer(message, "udp"), peer)
            except (ValueError, IndexError, struct.error):
                with self.lock:
                    self.asked.append(Question(message.hex(), 0, "garbage"))

    def serve_tcp(self, sock):
        self.conversations.accept(sock, lambda peer, _: self.talk(peer))

    def talk(self, peer):
        try:
            peer.settimeout(60)
            while len(head := peer.recv(2)) == 2:
                reply = self.answer(peer.recv(struct.unpack("!H", head)[0]), "tcp")
                peer.sendall(struct.pack("!H", len(reply)) + reply)
        except (OSError, ValueError, IndexError, struct.error):
            pass

    def catch_up(self, address):
        """Waits until all that was asked before is noted. To be called where the server can be reached."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((address, 53))
            sock.settimeout(1)
            end, answer = time.monotonic() + 60, b""
            while answer[:2] != MARK[:2]:  # questions are answered in turn, and a datagram can be lost
                assert time.monotonic() < end, "the lab's name server has stopped"
                try:
                    sock.send(MARK)
                    answer = sock.recv(4096)
                except TimeoutError:
                    pass
        self.conversations.catch_up()

    def names_since(self, mark):
        with self.lock:
            return sorted({q.name for q in self.asked[mark:]})

    def mark(self):
        with self.lock:
            return len(self.asked)
