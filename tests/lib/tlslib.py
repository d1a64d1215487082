"""Certificates of an authority of our own, made by the openssl command, and a `brig serve --tls` that uses them."""
import http.client
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

from daemonlib import IS_ROOT, USER_ID, Daemon

DOMAIN = "sandboxes.test"
NAMES = f"DNS:{DOMAIN},DNS:*.{DOMAIN},IP:127.0.0.1"
# Opens the port itself and hands it over as systemd does, so that its number can stand in the options: @PORT@.
ACTIVATE = """
import os, socket, sys
s = socket.create_server(("127.0.0.1", 0), backlog=1024)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
port = str(s.getsockname()[1])
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
words = [w.replace("@PORT@", port).replace("127.0.0.1:0", "127.0.0.1:" + port) for w in sys.argv[1:]]
os.execvp(words[0], words)
"""


def openssl(*words, **kwargs):
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, **kwargs).stdout


class Authority:
    """In a folder that goes with the test."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="test-brig-ca-"))
        self.folder.chmod(0o755)
        self.path = self.folder / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=test authority",
                "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign",
                "-keyout", self.folder / "ca.key", "-out", self.path)
        (self.folder / "index").write_text("")
        (self.folder / "index.attr").write_text("unique_subject = no\n")
        (self.folder / "ca.cnf").write_text(f"[ca]\ndefault_ca = own\n[own]\ndatabase = {self.folder}/index\nnew_certs_dir = {self.folder}\n"
                                            "rand_serial = yes\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = optional\n")
        self.count = 0

    def make(self, names=NAMES, kind="ec", dates=None, passphrase=None):
        """(certificate, key) in PEM form. dates: from and until, as ASN.1 has them."""
        self.count += 1
        at = self.folder / str(self.count)
        make = {"ec": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"], "weak": ["rsa:1024"]}[kind]
        openssl("req", "-newkey", *make, "-nodes", "-subj", "/CN=brig", "-keyout", f"{at}.key", "-out", f"{at}.csr")
        Path(f"{at}.ext").write_text(f"subjectAltName={names}\n")
        when = ["-startdate", dates[0], "-enddate", dates[1]] if dates else ["-days", "30"]
        openssl("ca", "-batch", "-notext", "-config", self.folder / "ca.cnf", "-cert", self.path, "-keyfile", self.folder / "ca.key", "-in", f"{at}.csr",
                *when, "-extfile", f"{at}.ext", "-out", f"{at}.pem")
        if passphrase:
            openssl("pkey", "-in", f"{at}.key", "-aes256", "-passout", f"pass:{passphrase}", "-out", f"{at}.key2")
            os.replace(f"{at}.key2", f"{at}.key")
        return Path(f"{at}.pem").read_bytes(), Path(f"{at}.key").read_bytes()

    def context(self, **more):
        made = ssl.create_default_context(cafile=str(self.path))
        for name, value in more.items():
            setattr(made, name, value)
        return made

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class TlsDaemon(Daemon):
    """`domain` None: no --domain; with @PORT@ in it the port is opened for it. `at`: where the pair lies."""

    def __init__(self, user, ca, *options, domain=DOMAIN, at=None):
        self.ca = ca
        self.home = Path(tempfile.mkdtemp(prefix="test-brig-tls-"))
        self.certificate, self.certificate_key = (at or self.home) / "cert.pem", (at or self.home) / "key.pem"
        self.owner = USER_ID if IS_ROOT and user == "user" else os.geteuid()
        os.chown(self.home, self.owner, self.owner)
        try:
            self.put(*ca.make())
            named = ["--domain", domain] if domain else []
            wrapper = ["/usr/bin/python3", "-c", ACTIVATE] if domain and "@PORT@" in domain else []
            super().__init__(user, "--tls", f"{self.certificate},{self.certificate_key}", *named, *options, folder=self.home, wrapper=wrapper)
        except BaseException:
            shutil.rmtree(self.home, ignore_errors=True)
            raise

    def put(self, certificate, key, mode=0o600):
        """In place of those that are there."""
        for path, data, bits in ((self.certificate, certificate, 0o644), (self.certificate_key, key, mode)):
            path.write_bytes(data)
            path.chmod(bits)
            os.chown(path, self.owner, self.owner)

    def close(self):
        try:
            super().close()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def what_it_said(self):
        return (self.folder / "said").read_text()

    def gate(self):
        """The pid of brig-tls; 0: there is none now."""
        return next((pid for pid, name in self.children().items() if name == "brig-tls"), 0)

    def plain(self, source="127.0.0.1"):
        """A TCP connection, before a word of TLS."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(source, 0))

    def connect(self, context=None, name=f"api.{DOMAIN}", source="127.0.0.1"):
        plain = self.plain(source)
        try:
            return (context or self.ca.context()).wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise

    def connection(self, timeout=60):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.ca.context())

    def serial(self):
        with self.connect() as s:
            return int(s.getpeercert()["serialNumber"], 16)


def ask(s, path="/health", host=f"api.{DOMAIN}", **headers):
    """A request on a connection that stays open; (status, body)."""
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode())
    response = http.client.HTTPResponse(s)
    response.begin()
    return response.status, response.read()
