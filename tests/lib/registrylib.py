"""A registry on loopback: just enough of the distribution protocol to be pulled from and pushed to, and a list of what was asked for."""
import base64
import collections
import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from imagelib import digest


class Registry:
    def __init__(self, address="127.0.0.1", login=None, elsewhere=None):
        """`login`: "USER:PASSWORD" that is asked for. `elsewhere`: the registry to which blobs are redirected."""
        self.blobs, self.tags, self.asked, self.credentials = {}, {}, [], []
        self.uploads, self.closed = {}, False  # `closed`: nobody may push
        self.gates = {}  # {digest: Event}: who asks for it waits until it is set
        # Blobs that do not end (before `most`), and how fast they come.
        self.endless, self.sent, self.most, self.piece, self.pause = set(), 0, 400 << 20, 1 << 20, 0
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, data, kind="application/octet-stream", status=200):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                if status == 200:
                    self.send_header("Docker-Content-Digest", digest(data))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            def flood(self):
                """Zeros until nobody wants more, whatever the descriptor said."""
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                with contextlib.suppress(OSError):
                    while registry.sent < registry.most:
                        self.wfile.write(bytes(registry.piece))
                        registry.sent += registry.piece
                        time.sleep(registry.pause)

            def do_GET(self):
                registry.asked.append(self.path)
                registry.credentials += [value for key, value in self.headers.items() if key.lower() in ("authorization", "cookie")]
                if login and self.headers.get("Authorization") != "Basic " + base64.b64encode(login.encode()).decode():
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="registry"')
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                if elsewhere and "/blobs/" in self.path:
                    self.send_response(307)
                    self.send_header("Location", f"http://{elsewhere.host}{self.path}")
                    self.send_header("Set-Cookie", "session=canary-cookie; Domain=127.0.0.2")
                    self.send_header("Content-Length", "0")
                    return self.end_headers()
                parts = self.path.split("/")
                if self.path == "/v2/":
                    return self.answer(b"{}", "application/json")
                name, kind, what = "/".join(parts[2:-2]), parts[-2], parts[-1]
                if kind == "manifests":
                    what = registry.tags.get((name, what), what)
                data = registry.blobs.get(what)
                if what in registry.gates:
                    registry.gates[what].wait(120)
                if what in registry.endless and self.command == "GET":
                    return self.flood()
                if data is None:
                    return self.answer(b'{"errors":[{"code":"NAME_UNKNOWN"}]}', "application/json", 404)
                form = json.loads(data).get("mediaType") if kind == "manifests" else None
                return self.answer(data, form or "application/octet-stream")

            do_HEAD = do_GET

            def body(self):
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                data = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return data

            def taken(self, status, **headers):
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key.replace("_", "-"), value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self):
                registry.asked.append("POST " + self.path)
                self.body()
                if registry.closed:
                    return self.taken(403)
                self.taken(202, Location=self.path.split("?")[0] + "one")

            def do_PATCH(self):
                registry.uploads[self.path] = registry.uploads.get(self.path, b"") + self.body()
                self.taken(202, Location=self.path, Range=f"0-{len(registry.uploads[self.path]) - 1}")

            def do_PUT(self):
                registry.asked.append("PUT " + self.path)
                data = self.body()
                path, _, query = self.path.partition("?")
                parts = path.split("/")
                if parts[-2] == "manifests":
                    registry.tags[("/".join(parts[2:-2]), parts[-1])] = digest(data)
                else:
                    data = registry.uploads.pop(path, b"") + data
                    if "digest=" + digest(data) != query.replace("%3A", ":"):
                        return self.taken(400)
                registry.blobs[digest(data)] = data
                self.taken(201, Location=path, Docker_Content_Digest=digest(data))

        self.server = ThreadingHTTPServer((address, 0), Handler)
        self.host = f"{address}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def put(self, document, name, tag):
        """A manifest or an index; its digest."""
        text = json.dumps(document).encode()
        self.blobs[digest(text)] = text
        self.tags[(name, tag)] = digest(text)
        return digest(text)

    def push(self, image, name, tag):
        """The digest of its manifest."""
        blobs, at = image.documents()
        self.blobs.update(blobs)
        self.tags[(name, tag)] = at["digest"]
        return at["digest"]

    def blobs_asked(self):
        """How often each was asked for."""
        return collections.Counter(path.rsplit("/", 1)[1] for path in self.asked if "/blobs/" in path)
