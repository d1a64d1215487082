"""A tenant of the daemon that makes it hold as much as it can: everything that a client can leave lying, at once.

Each attack is a method that does its work once and may be called again; what it opened is closed by close().

As a program: tenantlib.py PORT KEY SECONDS does all of it at once, again and again, and prints what it was told."""
import base64
import http.client
import json
import random
import socket
import struct
import sys
import threading
import time

import daemonlib

MIB = 1 << 20


def quantile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


class Tenant:
    def __init__(self, daemon, key):
        self.daemon, self.key = daemon, key
        self.lock = threading.Lock()
        self.sockets, self.boxes = [], []
        self.told = {}  # what the daemon said, by attack and status

    # ---- connections that are not read ----

    def note(self, attack, status):
        with self.lock:
            self.told[attack, status] = self.told.get((attack, status), 0) + 1

    def open(self, receive=None):
        s = socket.socket()
        if receive:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        s.settimeout(60)
        s.connect(("127.0.0.1", self.daemon.port))
        with self.lock:
            self.sockets.append(s)
        return s

    def head(self, method, path, headers=None, length=None):
        lines = {"Host": "localhost", **({"X-API-KEY": self.key} if headers is None else headers)}
        if length is not None:
            lines |= {"Content-Length": str(length), "Content-Type": "application/json"}
        return (f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode()

    def post(self, path, body, headers, receive=None):
        """Sent, and not read."""
        s = self.open(receive)
        try:
            s.sendall(self.head("POST", path, headers, len(body)) + body)
        except OSError:
            self.note(path, "cut")
        return s

    def status(self, attack, s):
        """Of an answer that may come."""
        try:
            first = s.recv(12, socket.MSG_PEEK)
            self.note(attack, first.split()[1].decode() if first.startswith(b"HTTP/1.1 ") else "gone")
        except TimeoutError:
            self.note(attack, "waits")
        except OSError:
            self.note(attack, "gone")

    def box(self, template="base"):
        box = self.daemon.create(template, key=self.key, timeout=600)
        with self.lock:
            self.boxes.append(box)
        return box

    def close(self):
        with self.lock:
            sockets, self.sockets = self.sockets, []
            boxes, self.boxes = self.boxes, []
        for s in sockets:
            s.close()
        for box in boxes:
            box.kill()

    # ---- attacks ----

    def send_input(self, box, size=8 * MIB, count=4):
        """To processes that do not read; every second client leaves."""
        data = base64.b64encode(bytes(size)).decode()
        for i in range(count):
            connection, response = box.begin("/bin/sleep", "1000", stdin=True)
            with self.lock:
                self.sockets.append(connection)
            first = json.loads(response.read(5 + struct.unpack(">BI", response.peek(5)[:5])[1])[5:])
            if "event" not in first:
                self.note("Start", first["error"]["code"])
                continue
            pid = first["event"]["start"]["pid"]
            body = json.dumps({"process": {"pid": pid}, "input": {"stdin": data}}).encode()
            s = self.post("/process.Process/SendInput", body, box.headers())
            s.settimeout(1)
            self.status("SendInput", s)
            if i % 2:
                s.close()

    def watchers(self, box, count=64, events=200):
        """Polled ones that nobody asks, over many changes."""
        for i in range(count):
            told = box.call("CreateWatcher", {"path": "/home/user", "includeEntry": i % 2 == 0, "recursive": True})
            self.note("CreateWatcher", told.status)
            if told.status != 200:
                break
        name = "n" * 200
        box.sh(f"cd /home/user; i=0; while [ $i -lt {events} ]; do : > {name}$i; rm {name}$i; i=$((i+1)); done", timeout=600)

    def bodies(self, count=4, size=15 * MIB):
        """Most of a large body, and no more."""
        piece = b'{"templateID":"' + b"x" * size
        for _ in range(count):
            s = self.open()
            try:
                s.sendall(self.head("POST", "/sandboxes", length=size + MIB) + piece)
            except OSError:
                pass
            s.settimeout(0.2)
            self.status("body", s)

    def listings(self, box, count=8, files=20000):
        """Long lists that nobody reads."""
        path = "/home/user/" + "d" * 200
        box.sh(f"mkdir -p {path} && cd {path} && [ -e {'f' * 200}1 ] || seq {files} | sed s/^/{'f' * 200}/ | xargs touch", timeout=600)
        body = json.dumps({"path": path}).encode()
        for _ in range(count):
            self.post("/filesystem.Filesystem/ListDir", body, box.headers(), receive=4096)

    def outputs(self, box, count=64):
        """Output without end that nobody reads."""
        body = box.start_body(["/usr/bin/yes", "x" * 1000])
        headers = {**box.headers(), "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
        for _ in range(count):
            s = self.open(4096)
            lines = {"Host": "localhost", **headers, "Content-Length": str(len(body))}
            s.sendall(("POST /process.Process/Start HTTP/1.1\r\n"
                       + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode() + body)

    def results(self, box, count=4):
        """Large results of executions that nobody reads, and code that waits."""
        code = "class R:\n def _repr_html_(self): return 'é' * 900000\n def __repr__(self): return 'x' * 900000\nR()"
        body = json.dumps({"code": code}).encode()
        long = json.dumps({"code": "#" + "c" * (4 * MIB)}).encode()
        for i in range(count):
            self.post("/execute", body if i % 2 == 0 else long, box.headers(49999), receive=4096)

    SERVER = ("import socket, threading, hashlib, base64\n"
              "s = socket.create_server(('0.0.0.0', 8000), backlog=512)\n"
              "kept = []\n"
              "while True:\n"
              " c = s.accept()[0]\n"
              " if b'websocket' not in c.recv(65536):\n"
              "  c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n'); c.close(); continue\n"
              " kept.append(c)\n"
              " c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n')\n")

    def tunnels(self, box, count=600):
        """WebSockets; the answers of the daemon are counted."""
        if not getattr(box, "serves", False):
            box.write("/home/user/server.py", self.SERVER.encode())
            box.begin("/usr/bin/python3", "/home/user/server.py")[0].close()
            box.serves = True
            end = time.monotonic() + 60
            while box.request("GET", "/", port=8000).status != 200 and time.monotonic() < end:
                time.sleep(0.05)
        headers = {**box.headers(8000), "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
        for _ in range(count):
            try:
                s = self.open()
                s.sendall(self.head("GET", "/", headers))
                s.settimeout(5)
                self.status("tunnel", s)
            except OSError:
                self.note("tunnel", "gone")

    def readers(self, count=80):
        """Of events."""
        for _ in range(count):
            s = self.open()
            s.sendall(self.head("GET", "/events"))
            self.status("events", s)

    def idle(self, count=900):
        """Connections without a request, and some in the middle of a head."""
        for i in range(count):
            try:
                s = self.open()
                if i % 3 == 0:
                    s.sendall(b"GET /version HTTP/1.1\r\nX-Long: " + b"x" * 30000)
            except OSError:
                self.note("idle", "gone")
                return

    def attacks(self):
        """Each by its name; sandboxes are made when they are first needed."""
        made = {}

        def of(template):
            if template not in made:
                made[template] = self.box(template)
            return made[template]

        return {"input": lambda: self.send_input(of("base"), random.choice([1, 4, 8]) * MIB),
                "watchers": lambda: self.watchers(of("base")),
                "bodies": lambda: self.bodies(size=random.choice([1, 5, 15]) * MIB),
                "listings": lambda: self.listings(of("base")),
                "outputs": lambda: self.outputs(of("base")),
                "results": lambda: self.results(of("python")),
                "tunnels": lambda: self.tunnels(of("base"), 300),
                "readers": self.readers,
                "idle": self.idle}


def run(name, daemon, key, end, told):
    """One attack until the end, now and then with new sandboxes and connections."""
    while time.monotonic() < end:
        tenant = Tenant(daemon, key)
        try:
            attack, fresh = tenant.attacks()[name], time.monotonic() + random.uniform(1, 5)
            while time.monotonic() < min(fresh, end):
                attack()
                time.sleep(random.uniform(0, 0.3))
        except (OSError, AssertionError, http.client.HTTPException, ValueError, struct.error) as e:
            tenant.note(name, type(e).__name__)
            time.sleep(0.2)
        finally:
            try:
                tenant.close()
            except (OSError, http.client.HTTPException):
                pass
            for (attack, status), count in tenant.told.items():
                told[f"{attack} {status}"] = told.get(f"{attack} {status}", 0) + count


def main(port, key, seconds):
    daemon = daemonlib.Remote(int(port), key)
    told, end = {}, time.monotonic() + float(seconds)
    threads = [threading.Thread(target=run, args=(name, daemon, key, end, told)) for name in Tenant(daemon, key).attacks()]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(json.dumps(told))


class Neighbour:
    """Another key's client: how long its requests take, and whether they succeed. It has an address of its own: of one
    address, who is too slow with his request gives way to the next."""

    def __init__(self, daemon, key):
        self.daemon, self.key = daemon.seen_from("127.0.0.2"), key
        self.box = self.daemon.create("base", key=key, timeout=3600)
        self.times, self.wrong = [], []

    def ask(self):
        began = time.monotonic()
        try:
            told = self.daemon.request("GET", f"/sandboxes/{self.box.id}", key=self.key, timeout=300)
            good = told.status == 200
            if good and len(self.times) % 10 == 0:
                good = self.box.sh("echo fine", timeout=300).out == b"fine\n"
                began = time.monotonic() if good else began
            if not good:
                self.wrong.append(told)
        except (OSError, http.client.HTTPException, AssertionError, struct.error) as e:
            self.wrong.append(repr(e))
        self.times.append(time.monotonic() - began)

    def measure(self, seconds):
        self.times = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ask()
            time.sleep(0.01)
        return quantile(self.times, 0.5), quantile(self.times, 0.99)


if __name__ == "__main__":
    main(*sys.argv[1:])
