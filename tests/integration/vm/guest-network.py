"""The network from inside of a guest, with the rules of guest-machines.sh: prints "yes NAME" or "no NAME" for each question.

With the word "stay" it ends with a transfer that has no end, in the place of the dearest question."""
import errno
import hashlib
import os
import select
import socket
import struct
import sys
import urllib.request

QUESTION = struct.pack(">6H", 0x1234, 0x100, 1, 0, 0, 0) + b"\3www\4test\0" + struct.pack(">2H", 1, 1)
GET = b"GET /word HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"


def said(name, question):
    try:
        truth, why = question(), ""
    except Exception as error:  # every failure is an answer
        truth, why = False, repr(error)
    print("yes" if truth else "no", name, file=sys.stdout, flush=True)
    if not truth and why:
        print(name, why, file=sys.stderr, flush=True)


def refused(call, *codes):
    try:
        call()
    except OSError as error:
        return error.errno in codes
    return False


def everything(sock):
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


def ask(sock, question, end=False):
    with sock:
        sock.sendall(question)
        if end:
            sock.shutdown(socket.SHUT_WR)
        return everything(sock)


def dial(host, port, family=0):
    sock = socket.socket(family or socket.AF_INET)
    sock.settimeout(600)
    sock.connect((host, port) if host[0].isdigit() else socket.getaddrinfo(host, port, family or socket.AF_INET)[0][4])
    return sock


def by_udp(server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(300)
        sock.connect((server, 53))  # an answer from anybody else is not heard
        sock.send(QUESTION)
        answer = sock.recv(600)
        return answer[:2] == QUESTION[:2] and answer[-4:-2] == b"\xc6\x12"


def by_tcp():
    sock = dial("192.0.2.53", 53)
    sock.sendall(struct.pack(">H", len(QUESTION)) + QUESTION)
    with sock:
        return sock.recv(600)[2:4] == QUESTION[:2]


def total(size):
    data = bytes(i * 7 & 255 for i in range(4096)) * (size // 4096)
    return ask(dial("raw.test", 8098), b"sum.." + data, end=True) == hashlib.sha256(data).hexdigest().encode()


def many():
    """More than init carries at a time: the rest waits its turn, and loses nothing."""
    socks = [dial("raw.test", 8098)]
    address = socks[0].getpeername()[0]
    socks += [dial(address, 8098) for _ in range(129)]
    want = hashlib.sha256(b"!").hexdigest().encode()
    for sock in socks:
        sock.sendall(b"sum..!")
        sock.shutdown(socket.SHUT_WR)
    return all(everything(sock) == want and sock.close() is None for sock in socks)


def not_read():
    sock = dial("raw.test", 8098)
    sock.sendall(b"flood")
    flood.append(sock)
    select.select([sock], [], [], 20)
    return total(4096)


def secret():
    request = urllib.request.Request("https://api.test:8443/word", headers={"Authorization": "Bearer " + os.environ["API_KEY"]})
    return urllib.request.urlopen(request, timeout=600).read() == b"served\n" and "value" not in os.environ["API_KEY"]


def own():
    with socket.create_server(("127.0.0.1", 8765)) as server, socket.create_connection(server.getsockname(), 5) as client:
        peer = server.accept()[0]
        peer.sendall(b"own")
        return client.recv(3) == b"own"


flood = []
said("name by UDP", lambda: by_udp("127.0.0.1"))
said("name from any server", lambda: by_udp("192.0.2.54"))
said("name by TCP", by_tcp)
said("no other name", lambda: refused(lambda: socket.getaddrinfo("evil.test", 80), socket.EAI_NONAME))
said("direct, IPv4", lambda: ask(dial("www.test", 8099), GET % b"www.test:8099").endswith(b"served\n"))
said("direct, IPv6", lambda: ask(dial("www.test", 8099, socket.AF_INET6), GET % b"www.test:8099").endswith(b"served\n"))
said("by the proxy", lambda: urllib.request.urlopen("http://www.test:8099/word", timeout=600).read() == b"served\n")
said("half-close", lambda: ask(dial("www.test", 8099), GET % b"www.test:8099", end=True).endswith(b"served\n"))
said("no other host", lambda: ask(dial("www.test", 8099), GET % b"evil.test:8099").startswith(b"HTTP/1.1 4"))
said("no address", lambda: refused(lambda: ask(dial("192.0.2.7", 8098), b"sum..", end=True), errno.ECONNRESET))
said("no other port", lambda: refused(lambda: dial("192.0.2.7", 8100), errno.ECONNREFUSED))
said("upload", lambda: total(1 << 20))
if not sys.argv[1:]:
    said("many at once", many)
said("a line that is not read", not_read)
said("TLS", lambda: urllib.request.urlopen("https://api.test:8443/word", timeout=600).read() == b"served\n")
said("the secret stays outside", secret)
said("own servers", own)
print("done", flush=True)
while sys.argv[1:] == ["stay"] and flood[0].recv(65536):
    pass
