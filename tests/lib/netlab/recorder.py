"""An HTTP server, plain and TLS, that keeps every byte it was sent and answers with what it saw.

What the path says is done:
    /redirect/STATUS/BASE64URL   answer with that status and Location
    /raw/BASE64URL               answer with exactly these bytes and close
    /size/N                      N bytes
    /slow/SECONDS                answer after so long
    /headers/BASE64URL           200 with this block of headers added
    /ws                          become a WebSocket that repeats what it gets
    /ws-raw                      switch protocols, then repeat bytes whatever they are
    /reflect/HOW                 give the Authorization header back, as REFLECTIONS says
    anything else                JSON of the request: method, target, headers, body"""

import base64
import gzip
import hashlib
import json
import ssl
import threading
import time
import urllib.parse
import warnings
import zlib

from .conversations import Conversations

WS_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def b64(data):
    data = data.encode("latin-1") if isinstance(data, str) else data
    return base64.urlsafe_b64encode(data).decode()


def unb64(text):
    return base64.urlsafe_b64decode(text)


def _length(body, status=b"200 Lab", extra=b""):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), extra, body)


def _chunks(pieces, trailer=b""):
    body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces if p)
    return b"HTTP/1.1 200 Lab\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n" + trailer + b"\r\n"


def _pieces(data, size):
    return [data[i:i + size] for i in range(0, len(data), size)]


def _range(value, request):
    """One part of the body, as the client asks for it."""
    wanted = (request.get("range") or ["bytes=0-"])[0].partition("=")[2].split("-")
    first, last = int(wanted[0] or 0), int(wanted[1] or len(value) - 1) if len(wanted) > 1 else len(value) - 1
    part = value[first:last + 1]
    if not request.get("range"):
        return _length(value)
    return _length(part, b"206 Partial", b"Content-Range: bytes %d-%d/%d\r\n" % (first, last, len(value)))


# How a server may give a header's value back: bytes of the whole response, or a list with pauses in it.
REFLECTIONS = {
    "raw": lambda v, r: _length(b"you sent: " + v + b" thanks"),
    "error": lambda v, r: _length(b"bad key " + v, b"401 Unauthorized", b"WWW-Authenticate: Bearer error=" + v.split()[-1] + b"\r\n"),
    "base64": lambda v, r: _length(base64.b64encode(v)),
    "base64+1": lambda v, r: _length(base64.b64encode(b"x" + v + b"yz")),
    "base64+2": lambda v, r: _length(base64.b64encode(b"xy" + v + b"z")),
    "base64url": lambda v, r: _length(base64.urlsafe_b64encode(v)),
    "url": lambda v, r: _length(urllib.parse.quote(v, safe="").encode()),
    "url all": lambda v, r: _length(b"".join(b"%%%02x" % b for b in v)),
    "url some": lambda v, r: _length(b"".join(b"%%%02X" % b if i % 3 == 0 else bytes([b]) for i, b in enumerate(v))),
    "hex": lambda v, r: _length(v.hex().encode()),
    "HEX": lambda v, r: _length(v.hex().upper().encode()),
    "json": lambda v, r: _length(json.dumps({"key": v.decode("latin-1")}).encode()),
    "json slash": lambda v, r: _length(json.dumps(v.decode("latin-1")).replace("/", "\\/").encode()),
    "json unicode": lambda v, r: _length(b"".join(b"\\u%04x" % b for b in v)),
    "header": lambda v, r: _length(b"ok", extra=b"X-Reflect: " + v + b"\r\n"),
    "header base64": lambda v, r: _length(b"ok", extra=b"X-Reflect: " + base64.b64encode(v) + b"\r\n"),
    "cookie": lambda v, r: _length(b"ok", extra=b"Set-Cookie: a=" + urllib.parse.quote(v, safe="").encode() + b"\r\n"),
    "location": lambda v, r: _length(b"ok", b"302 Found", b"Location: https://api.lab.test/?k=" + urllib.parse.quote(v, safe="").encode() + b"\r\n"),
    "header name": lambda v, r: _length(b"ok", extra=b"X-" + v.hex().encode() + b": 1\r\n"),
    "reason": lambda v, r: _length(b"ok", b"200 " + v),
    "hint": lambda v, r: b"HTTP/1.1 103 Early Hints\r\nLink: <" + v + b">\r\n\r\n" + _length(b"ok"),
    "chunks of one": lambda v, r: _chunks(_pieces(v, 1)),
    "chunks of seven": lambda v, r: _chunks(_pieces(b"abc" + v, 7)),
    "base64 in chunks": lambda v, r: _chunks(_pieces(base64.b64encode(v), 5)),
    "trailer": lambda v, r: _chunks([b"ok"], b"X-Trailer: " + v + b"\r\n"),
    "until the end": lambda v, r: b"HTTP/1.1 200 Lab\r\nConnection: close\r\n\r\nyou: " + v,
    "in two parts": lambda v, r: [_length(v)[:-len(v) // 2], 0.05, _length(v)[-len(v) // 2:]] if v else [_length(v)],
    "byte by byte": lambda v, r: [x for b in _pieces(_length(v), 1) for x in (b, 0.001)],
    "after a megabyte": lambda v, r: _length(b"p" * (1 << 20) + v + b"q" * 70000),
    "at a border": lambda v, r: _length(b"p" * (65536 - len(v) // 2) + v + b"q" * 70000),
    "many times": lambda v, r: _length(v * 300),
    "gzip": lambda v, r: _length(gzip.compress(v), extra=b"Content-Encoding: gzip\r\n"),
    "deflate": lambda v, r: _length(zlib.compress(v), extra=b"Content-Encoding: deflate\r\n"),
    "unknown coding": lambda v, r: _length(bytes(b ^ 1 for b in v), extra=b"Content-Encoding: br\r\n"),
    "transfer gzip": lambda v, r: b"HTTP/1.1 200 Lab\r\nTransfer-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(v),
    "range": _range,
}


class Request:
    def __init__(self, connection, head):
        self.connection, self.head, self.body = connection, head, b""
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        self.method, self.target = parts[0], parts[1] if len(parts) > 1 else ""
        self.headers = [tuple(p.strip() for p in line.split(":", 1)) for line in lines[1:] if ":" in line]

    def get(self, name):
        return [v for n, v in self.headers if n.lower() == name.lower()]

    def __repr__(self):
        return f"{self.method} {self.target} at {self.connection.at}"


class Connection:
    """One accepted connection: where it came in, the name of the handshake, all bytes, the requests in them."""

    def __init__(self, at, peer, tls):
        self.at, self.peer, self.tls, self.sni = at, peer, tls, None
        self.bytes, self.requests, self.start, self.error = b"", [], time.monotonic(), None
        self.sent = 0  # of an answer to /size

    def __repr__(self):
        return f"<{self.at} sni={self.sni} {len(self.bytes)} bytes {self.requests}>"


class Recorder:
    def __init__(self):
        self.connections, self.lock, self.conversations = [], threading.Lock(), Conversations()

    def mark(self):
        with self.lock:
            return len(self.connections)

    def since(self, mark, host=None):
        """Connections since then, of one address or of all."""
        with self.lock:
            return [c for c in self.connections[mark:] if host is None or c.at[0] == host]

    def requests(self, mark, host=None):
        return [r for c in self.since(mark, host) for r in c.requests]

    def text(self, mark, host=None):
        return b"".join(c.bytes for c in self.since(mark, host))

    def serve(self, listener, context=None):
        at = listener.getsockname()[:2]

        def begin(sock, peer):
            connection = Connection(at, peer, context is not None)
            with self.lock:
                self.connections.append(connection)
            self.talk(sock, connection, context)

        self.conversations.accept(listener, begin)

    def talk(self, sock, connection, context):
        sock.settimeout(60)
        try:
            if context:
                sock = context.wrap_socket(sock, server_side=True)
                connection.sni = getattr(sock, "lab_name", None)
                connection.alpn = sock.selected_alpn_protocol()
            Talk(sock, connection).run()
        except (OSError, ValueError, IndexError) as error:
            connection.error = error
        finally:
            sock.close()


def server_context(cert, key, version=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["http/1.1"])
    if version:
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = context.maximum_version = version

    def note(sock, name, _):
        sock.lab_name = name

    context.sni_callback = note
    return context


class Talk:
    """One conversation."""

    def __init__(self, sock, connection):
        self.sock, self.connection, self.data = sock, connection, b""

    def more(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise EOFError
        # Bodies of tests are small; what is big is only counted.
        if len(self.connection.bytes) < 4 << 20:
            self.connection.bytes += piece
        self.data += piece

    def until(self, mark):
        while mark not in self.data:
            self.more()
        head, self.data = self.data.split(mark, 1)
        return head

    def exactly(self, count):
        while len(self.data) < count:
            self.more()
        out, self.data = self.data[:count], self.data[count:]
        return out

    def chunked(self):
        out = b""
        while size := int(self.until(b"\r\n").split(b";")[0], 16):
            out += self.exactly(size)
            self.exactly(2)
        while self.until(b"\r\n"):
            pass
        return out

    def run(self):
        try:
            while True:
                request = Request(self.connection, self.until(b"\r\n\r\n"))
                self.connection.requests.append(request)
                if [v for v in request.get("expect") if v.lower() == "100-continue"]:
                    self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                if request.get("transfer-encoding"):
                    request.body = self.chunked()
                elif request.get("content-length"):
                    request.body = self.exactly(int(request.get("content-length")[0]))
                if not self.reply(request):
                    return
        except EOFError:
            pass

    def send(self, status, body=b"", extra=b"", request=None):
        head = b"HTTP/1.1 %d Lab\r\nContent-Length: %d\r\n" % (status, len(body)) + extra + b"\r\n"
        self.sock.sendall(head + (b"" if request and request.method == "HEAD" else body))
        return True

    def reply(self, request):
        path = request.target.split("?")[0].split("/")
        what, rest = (path + ["", ""])[1:3]
        if what == "redirect":
            return self.send(int(rest), extra=b"Location: " + unb64(path[3]) + b"\r\n")
        if what == "raw":
            self.sock.sendall(unb64(rest))
            return False
        if what == "size":
            left = int(rest)
            self.sock.sendall(b"HTTP/1.1 200 Lab\r\nContent-Length: %d\r\n\r\n" % left)
            while left:
                count = self.sock.send(b"x" * min(left, 65536))
                left -= count
                self.connection.sent += count
            return True
        if what == "slow":
            time.sleep(float(rest))
        if what in ("ws", "ws-raw"):
            return self.websocket(request, what == "ws")
        if what == "reflect":
            return self.reflect(request, urllib.parse.unquote(rest))
        extra = unb64(rest) if what == "headers" else b""
        seen = {"method": request.method, "target": request.target, "headers": request.headers,
                "body": request.body[:4096].decode("latin-1"), "length": len(request.body), "at": self.connection.at[0],
                "port": self.connection.at[1], "tls": self.connection.tls, "sni": self.connection.sni}
        return self.send(200, json.dumps(seen).encode(), b"Content-Type: application/json\r\n" + extra, request)

    def reflect(self, request, how):
        value = (request.get("authorization") or request.get("x-key") or [""])[0].encode("latin-1")
        answer = REFLECTIONS[how](value, request)
        for piece in answer if isinstance(answer, list) else [answer]:
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                self.sock.sendall(piece)
        return how not in ("until the end", "transfer gzip")

    def websocket(self, request, framed):
        key = (request.get("sec-websocket-key") or [""])[0].encode()
        accept = base64.b64encode(hashlib.sha1(key + WS_GUID).digest())
        self.sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        key = (request.get("authorization") or [""])[0].encode("latin-1")
        if "reflect" in request.target and framed:
            for opcode, part in ((1, key[:len(key) // 2]), (0x80, key[len(key) // 2:]), (0x81, key), (0x82, base64.b64encode(key))):
                self.sock.sendall(bytes([opcode, len(part)]) + part)
        while not framed:
            if not self.data:
                self.more()
            self.sock.sendall(self.data)
            self.data = b""
        while True:
            first, second = self.exactly(2)
            length = second & 127
            if length > 125:
                length = int.from_bytes(self.exactly(2 if length == 126 else 8), "big")
            mask = self.exactly(4) if second & 128 else b"\0\0\0\0"
            payload = bytes(b ^ mask[i % 4] for i, b in enumerate(self.exactly(length)))
            size = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big")
            self.sock.sendall(bytes([first]) + size + payload)
            if first & 15 == 8:
                return False
