"""Real servers of the lab: nginx with files, a package registry, a package index and a repository; Redis; a
WebSocket server."""

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import time
import zipfile

NGINX_CONF = """
daemon off; master_process off; worker_processes 1; pid {base}/nginx.pid; error_log {base}/nginx.error warn;
user root;
events {{ worker_connections 512; }}
http {{
    types {{ application/json json; text/html html; application/octet-stream bin tgz whl; }}
    default_type application/octet-stream;
    access_log {base}/nginx.access; client_body_temp_path {base}/t1; proxy_temp_path {base}/t2;
    fastcgi_temp_path {base}/t3; uwsgi_temp_path {base}/t4; scgi_temp_path {base}/t5;
    client_max_body_size 64m; keepalive_timeout 30;
    ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    server {{
        listen {v4}:80; listen {v4}:443 ssl http2; listen [{v6}]:80; listen [{v6}]:443 ssl http2;
        server_name _;
        root {base}/www;
        location / {{ index index.html; }}
        location = /pkg/lab-package {{ default_type application/json; alias {base}/www/npm/lab-package.json; }}
        location /simple/ {{ default_type text/html; index index.html; }}
        location /ws {{ proxy_pass http://{v4}:9001; proxy_http_version 1.1; proxy_set_header Host $host;
                        proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; }}
    }}
}}
"""

WEBSOCKET = """
import asyncio, sys, websockets
async def repeat(ws, path):
    async for message in ws:
        await ws.send(message)
async def main():
    async with websockets.serve(repeat, sys.argv[1], 9001, max_size=1 << 22):
        await asyncio.Future()
asyncio.run(main())
"""


class Sites:
    def __init__(self, lab):
        import netlab
        self.lab, self.base, self.places = lab, lab.base / "sites", netlab
        self.www = self.base / "www"

    def start(self):
        self.www.mkdir(parents=True)
        self.base.chmod(0o755)
        (self.www / "index.html").write_text("hello from nginx\n")
        (self.www / "big.bin").write_bytes(os.urandom(1 << 20) * 16)
        self.npm()
        self.pip()
        self.git()
        cert, key = self.lab.ca.issue("nginx", ["*.lab.test", "lab.test", self.places.NGINX, self.places.NGINX6])
        conf = self.base / "nginx.conf"
        conf.write_text(NGINX_CONF.format(base=self.base, cert=cert, key=key, v4=self.places.NGINX, v6=self.places.NGINX6))
        enter = self.lab.enter()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": open(self.base / "servers.log", "ab")}
        self.lab.spawn([*enter, "/usr/sbin/nginx", "-c", conf, "-p", self.base], **quiet)
        self.lab.spawn([*enter, "/usr/bin/redis-server", "--bind", self.places.REDIS, self.places.DATABASE, "--port", "6379",
                        "--save", "", "--appendonly", "no", "--protected-mode", "no", "--dir", self.base], **quiet)
        self.lab.spawn([*enter, "/usr/bin/python3", "-c", WEBSOCKET, self.places.NGINX], **quiet)
        for port in ((self.places.NGINX, 443), (self.places.REDIS, 6379), (self.places.NGINX, 9001)):
            self.wait(*port)
        return self

    def wait(self, address, port):
        end = time.monotonic() + 60
        while True:
            try:
                self.lab.connect(address, port).close()
                return
            except OSError:
                assert time.monotonic() < end, (self.base / "servers.log").read_text()
                time.sleep(0.05)

    def npm(self):
        """What a registry answers for one package, and the package."""
        folder = self.www / "npm"
        folder.mkdir()
        files = {"package/package.json": json.dumps({"name": "lab-package", "version": "1.2.3", "main": "index.js"}),
                 "package/index.js": "module.exports = () => 'lab-package works';\n"}
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for name, text in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
        data = out.getvalue()
        (folder / "lab-package-1.2.3.tgz").write_bytes(data)
        dist = {"tarball": "https://registry.lab.test/npm/lab-package-1.2.3.tgz",
                "shasum": hashlib.sha1(data).hexdigest(),
                "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}
        (folder / "lab-package.json").write_text(json.dumps({
            "name": "lab-package", "dist-tags": {"latest": "1.2.3"},
            "versions": {"1.2.3": {"name": "lab-package", "version": "1.2.3", "main": "index.js", "dist": dist}}}))

    def pip(self):
        """A simple index with one wheel."""
        folder = self.www / "simple" / "lab-wheel"
        folder.mkdir(parents=True)
        name = "lab_wheel-1.0-py3-none-any.whl"
        info = "lab_wheel-1.0.dist-info"
        files = {"lab_wheel.py": "def word():\n    return 'lab-wheel works'\n",
                 f"{info}/METADATA": "Metadata-Version: 2.1\nName: lab-wheel\nVersion: 1.0\n",
                 f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
        record = "".join(f"{n},sha256={_digest(t)},{len(t)}\n" for n, t in files.items()) + f"{info}/RECORD,,\n"
        with zipfile.ZipFile(folder / name, "w") as wheel:
            for path, text in {**files, f"{info}/RECORD": record}.items():
                wheel.writestr(path, text)
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{name}#sha256={digest}">{name}</a></body></html>')

    def git(self):
        """A repository as plain files, which git reads over HTTP."""
        work, bare = self.base / "work", self.www / "repo.git"
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.base), "GIT_CONFIG_NOSYSTEM": "1",
               **{f"GIT_{who}_{what}": "lab@lab.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}

        def git(*args):
            subprocess.run(["git", *map(str, args)], check=True, capture_output=True, env=env)
        git("init", "-q", "-b", "main", work)
        (work / "file").write_text("from the repository\n")
        git("-C", work, "add", "file")
        git("-C", work, "commit", "-q", "-m", "one")
        git("clone", "-q", "--bare", work, bare)
        git("-C", bare, "update-server-info")


def _digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
