"""Registries on loopback with one tiny package each, made here: a PEP 503 index for pip, a registry for npm and an archive for apt."""
import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
import zipfile

NAME = "brig-tiny"
MODULE = "brig_tiny"


def wheel(name=NAME, version="1.0"):
    """(file name, bytes) of a package with one module that knows its version, and one script."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}.py": f"version = {version!r}\n\ndef word():\n    return 'tiny works'\n\ndef main():\n    print(word())\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}\n")
    files[f"{info}/RECORD"] = "".join(rows) + f"{info}/RECORD,,\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{module}-{version}-py3-none-any.whl", out.getvalue()


def tarball(name=NAME, version="1.0.0"):
    """An npm package with one module and one script."""
    files = {"package.json": json.dumps({"name": name, "version": version, "main": "index.js", "bin": {f"{name}-js": "cli.js"}}),
             "index.js": "module.exports = () => 'tiny works'\n",
             "cli.js": "#!/usr/bin/env node\nconsole.log(require('./index.js')())\n"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo("package/" + path)
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def tar_of(files):
    """files: path: (bytes, mode, group)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        folders = sorted({"/".join(path.split("/")[:n]) for path in files for n in range(2, path.count("/") + 1)})
        for folder in folders:
            member = tarfile.TarInfo(folder)
            member.type, member.mode, member.uname, member.gname = tarfile.DIRTYPE, 0o755, "root", "root"
            archive.addfile(member)
        for path, (data, mode, group) in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode, member.gid = len(data), mode, group
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def deb(name=NAME, version="1.0"):
    """A Debian package with a program, a file of another group's and a script that runs at the end, gives a folder away and
    makes one at the top."""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: tiny\n"
    post = f"#!/bin/sh\nset -e\nchown nobody:nogroup /var/lib/{name}\nmkdir -p /opt/{name}\nldconfig\n"
    parts = {"debian-binary": b"2.0\n",
             "control.tar.gz": tar_of({"./control": (control.encode(), 0o644, 0), "./postinst": (post.encode(), 0o755, 0)}),
             "data.tar.gz": tar_of({f"./usr/bin/{name}-deb": (b"#!/bin/sh\necho tiny works\n", 0o755, 0),
                                    f"./usr/share/{name}/data": (b"x", 0o640, 43), f"./var/lib/{name}/data": (b"y", 0o644, 8)})}
    out = b"!<arch>\n"
    for part, data in parts.items():
        out += f"{part:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return control, out


class Registry:
    """Usable in a with statement. Inside it has the names pypi.test, npm.test and deb.test, which rules pin to loopback."""

    def __init__(self):
        self.files = {}
        self.seen = []
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.partition("?")[0]
                registry.seen.append(path)
                kind, body = registry.files.get(path, ("text/plain", None))
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.put_wheel()
        self.put_tarball()
        self.put_deb()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def put_wheel(self, name=NAME, version="1.0"):
        file, data = wheel(name, version)
        self.files[f"/files/{file}"] = "application/zip", data
        link = f'<a href="/files/{file}#sha256={hashlib.sha256(data).hexdigest()}">{file}</a>'
        self.files[f"/simple/{name}/"] = "text/html", f"<!DOCTYPE html><html><body>{link}</body></html>".encode()

    def put_tarball(self):
        data = tarball()
        dist = {"tarball": f"http://npm.test:{self.port}/files/{NAME}-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest(),
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}
        document = {"name": NAME, "dist-tags": {"latest": "1.0.0"},
                    "versions": {"1.0.0": {"name": NAME, "version": "1.0.0", "dist": dist, "main": "index.js",
                                           "bin": {f"{NAME}-js": "cli.js"}}}}
        self.files[f"/{NAME}"] = "application/json", json.dumps(document).encode()
        self.files[f"/files/{NAME}-1.0.0.tgz"] = "application/octet-stream", data

    def put_deb(self):
        control, data = deb()
        self.files[f"/deb/./{NAME}_1.0_all.deb"] = "application/octet-stream", data
        index = f"{control}Filename: ./{NAME}_1.0_all.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"
        self.files["/deb/./Packages"] = "text/plain", index.encode()

    @property
    def source(self):
        """A line of sources.list."""
        return f"deb [trusted=yes] http://deb.test:{self.port}/deb/ ./"

    @property
    def rules(self):
        """As --allow and as a policy's network.allow has them."""
        return [f"http://{host}.test:{self.port}=127.0.0.1" for host in ("pypi", "npm", "deb")]

    @property
    def variables(self):
        """Where pip and npm look, as the file of somebody who has a mirror would say."""
        return {"PIP_INDEX_URL": f"http://pypi.test:{self.port}/simple/", "PIP_TRUSTED_HOST": "pypi.test",
                "npm_config_registry": f"http://npm.test:{self.port}/"}

    def options(self):
        """Of brig run."""
        allow = [word for rule in self.rules for word in ("--allow", rule)]
        return allow + [word for name, value in self.variables.items() for word in ("-e", f"{name}={value}")]

    def template(self, more=""):
        """A template's file."""
        lines = "".join(f"      - {json.dumps(rule)}\n" for rule in self.rules)
        env = "".join(f"      {name}: {json.dumps(value)}\n" for name, value in self.variables.items())
        return f"{more}policy:\n  lifecycle: {{sampling: accept}}\n  network:\n    allow:\n{lines}  credentials:\n    env:\n{env}"
