"""What the code inside uses to attack the network: raw bytes by every way in. Runs outside as well, as the control.

A script says `from netprobe import *`, puts what it learns into `out`, and ends; `out` is printed as JSON."""

import atexit
import base64
import ctypes
import errno
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time

PROXY = ("127.0.0.1", 3128)
out = {}
# An answer that is due is waited for so long: it costs nothing when it comes, and a busy machine may take its time.
WAIT = 30.0
# Where none is due. What was sent arrives all the same, and the lab sees it, whether or not somebody waits for an answer.
BRIEF = 0.4


@atexit.register
def _tell():
    try:
        sys.stdout.write(json.dumps(out))
        sys.stdout.flush()
    except OSError:
        pass


def name_of(error):
    if isinstance(error, TimeoutError) or isinstance(error, socket.timeout):
        return "!TIMEOUT"
    if isinstance(error, socket.gaierror):
        return "!NONAME"
    if isinstance(error, ssl.SSLError):
        return "!TLS " + (error.reason or str(error))
    return "!" + errno.errorcode.get(error.errno or 0, str(error))


def as_bytes(data):
    return data.encode("latin-1") if isinstance(data, str) else data


def wrap(sock, name, verify=False, alpn=("http/1.1",)):
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context.wrap_socket(sock, server_hostname=name)


def read_all(sock, wait=WAIT, enough=None, limit=1 << 22):
    """Until the end, until nothing came for `wait` seconds, or until enough(bytes)."""
    data = b""
    sock.settimeout(wait)
    try:
        while len(data) < limit and not (enough and enough(data)):
            piece = sock.recv(65536)
            if not piece:
                break
            data += piece
    except (TimeoutError, socket.timeout):
        pass
    except OSError as error:
        if not data:
            return name_of(error)
    return data.decode("latin-1")


def one_response(data):
    """Has this one complete response (with a length, or none at all)?"""
    head, mark, body = data.partition(b"\r\n\r\n")
    if not mark:
        return False
    status = int(head[9:12]) if head[9:12].isdigit() else 0
    if status // 100 == 1 and status != 101:
        return one_response(body)
    if status in (101, 204, 304):
        return True
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return len(body) >= int(line.split(b":")[1])
    return body.endswith(b"0\r\n\r\n") if b"chunked" in head.lower() else False


def two_responses(data):
    """Has this two complete responses, each with a length?"""
    head, mark, rest = data.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return bool(mark and lengths) and one_response(rest[lengths[0]:])


def dial(to, timeout=WAIT):
    """A connection to ADDRESS, PORT or to NAME, PORT."""
    return socket.create_connection(tuple(to), timeout)


def talk(to, data, tls=None, verify=False, wait=WAIT, enough=one_response, alpn=("http/1.1",)):
    """Connect, perhaps shake hands as `tls`, send, and give what came back, or "!ERROR"."""
    try:
        with dial(to, wait) as plain:
            sock = wrap(plain, tls or None, verify, alpn) if tls is not None else plain
            for piece in data if isinstance(data, (list, tuple)) else [data]:
                if isinstance(piece, (int, float)):
                    time.sleep(piece)
                else:
                    sock.sendall(as_bytes(piece))
            return read_all(sock, wait, enough)
    except OSError as error:
        return name_of(error)


def status(text):
    """The status of the first response, or the text of the failure."""
    if text.startswith("HTTP/1.") and text[9:12].isdigit():
        return int(text[9:12])
    return text[:60] if text else "!CLOSED"


def denied(text):
    for line in text.split("\r\n\r\n")[0].split("\r\n"):
        if line.lower().startswith("x-brig-denied:"):
            return line.split(":", 1)[1].strip()
    return None


def body(text):
    return text.partition("\r\n\r\n")[2]


def request(target, host, method="GET", headers=(), content=""):
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers]
    if content:
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "Connection: close", "", content])


# ---- the ways in ----

def by_proxy(url, host, **more):
    """Absolute form to the proxy."""
    return talk(PROXY, request(url, host, **more))


def tunnel(authority, host=None, timeout=WAIT):
    """(socket or None, answer) of a CONNECT."""
    sock = dial(PROXY, timeout)
    sock.sendall(as_bytes(f"CONNECT {authority} HTTP/1.1\r\nHost: {host or authority}\r\n\r\n"))
    answer = read_all(sock, WAIT, lambda d: b"\r\n\r\n" in d)
    if status(answer) == 200:
        return sock, answer
    sock.close()
    return None, answer


def by_connect(authority, data, tls=None, host=None, verify=False, wait=WAIT, alpn=("http/1.1",)):
    try:
        sock, answer = tunnel(authority, host)
        if not sock:
            return answer
        with sock:
            inner = wrap(sock, tls or None, verify, alpn) if tls is not None else sock
            for piece in data if isinstance(data, (list, tuple)) else [data]:
                inner.sendall(as_bytes(piece))
            return read_all(inner, wait, one_response)
    except OSError as error:
        return name_of(error)


def by_gateway(url, method="POST", headers=(), content=""):
    return talk(PROXY, request("http://brig.proxy/", "brig.proxy", method, [f"X-Forward-To: {url}", *headers], content))


def by_gateway_direct(url, method="POST", headers=(), content=""):
    """The gateway as a program without proxy settings finds it."""
    return talk(("brig.proxy", 80), request("/", "brig.proxy", method, [f"X-Forward-To: {url}", *headers], content))


def by_name(host, port, target="/", tls=False, **more):
    """As a program that knows no proxy: look the name up, connect."""
    verify = more.pop("verify", False)
    return talk((host, port), request(target, host if port in (80, 443) else f"{host}:{port}", **more),
                tls=host if tls else None, verify=verify)


def lookup(name, family=0):
    try:
        return sorted({a[4][0] for a in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)})
    except (OSError, UnicodeError) as error:
        return name_of(error) if isinstance(error, OSError) else "!NONAME"


# ---- names, by hand ----

def question(name, kind=1, ident=0x1234, klass=1, flags=0x0100):
    labels = b"".join(bytes([len(p)]) + p for p in as_bytes(name).split(b".") if p) + b"\0"
    return struct.pack("!HHHHHH", ident, flags, 1, 0, 0, 0) + labels + struct.pack("!HH", kind, klass)


def ask(server, message, way="udp", port=53, wait=WAIT):
    """The answer's code, number of answers and bytes in hex, or "!ERROR"."""
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM if way == "udp" else socket.SOCK_STREAM) as s:
            s.settimeout(wait)
            s.connect((server, port))
            if way == "udp":
                s.send(message)
                data = s.recv(4096)
            else:
                s.sendall(struct.pack("!H", len(message)) + message)
                data = s.recv(4096)[2:]
            if len(data) < 12:
                return "!SHORT"
            return {"code": data[3] & 15, "answers": struct.unpack("!H", data[6:8])[0], "hex": data.hex()}
    except OSError as error:
        return name_of(error)


# ---- sockets of other kinds ----

def attempt(function):
    try:
        return function() or "OK"
    except OSError as error:
        return name_of(error)


def send_udp(address, port, data=b"escape"):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(data, (address, port))


def send_icmp(address):
    six = ":" in address
    with socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM, 58 if six else 1) as s:
        s.sendto(struct.pack("!BBHHH", 128 if six else 8, 0, 0xf7ff, 0, 0), (address, 0))


def send_raw(address, protocol):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_RAW, protocol) as s:
        s.sendto(b"escape-raw", (address, 0))


def fast_open(address, port, data=b"GET /tfo HTTP/1.0\r\n\r\n"):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(WAIT)
        s.sendto(data, 0x20000000, (address, port))
        return s.recv(100).decode("latin-1")[:20]


def connect_as(family, kind, protocol, address, port):
    with socket.socket(family, kind, protocol) as s:
        s.settimeout(WAIT)
        s.connect((address, port))
        s.sendall(b"GET /kind HTTP/1.0\r\n\r\n")
        return s.recv(100).decode("latin-1")[:20]


_libc = ctypes.CDLL(None, use_errno=True)


def blocking(family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
    """A socket that blocks in the kernel, but not for ever."""
    s = socket.socket(family, kind, protocol)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        s.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(WAIT), 0))
    return s


def raw_connect(fd, sockaddr):
    if _libc.connect(fd, sockaddr, len(sockaddr)):
        raise OSError(ctypes.get_errno(), "connect")


def sockaddr4(address, port, family=socket.AF_INET):
    return struct.pack("=H", family) + struct.pack("!H", port) + socket.inet_aton(address) + bytes(8)


def sockaddr6(address, port, scope=0):
    return (struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, address)
            + struct.pack("=I", scope))
