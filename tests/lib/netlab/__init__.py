"""A closed internet for tests: one network namespace in which "public", private and metadata addresses all are
addresses of its loopback, with a name server, recording web servers, sinks on everything private, and a look at
every packet. The machine's real network cannot be reached from it.

brig, the controls and the servers run inside it; the servers that record are threads of the test itself, on sockets
that were made in there. A mount namespace of its own gives it its own resolver file and its own trust store. Needs root."""

import ctypes
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from . import pki, sites
from .nameserver import NameServer
from .recorder import Recorder, server_context
from .sinks import Packets, Sinks

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

RESOLVER = "93.184.0.53"
API, API6 = "93.184.216.10", "2606:2800:220:1::10"
NGINX, NGINX6 = "93.184.216.20", "2606:2800:220:1::20"
OTHER = "93.184.216.30"
REDIS = "93.184.216.40"
DATABASE = "10.0.0.5"  # private, to be reached by a pin only
EVIL, EVIL6 = "93.184.216.66", "2606:2800:220:1::66"
BAD_TLS = {"expired": "93.184.216.70", "selfsigned": "93.184.216.71", "wrongname": "93.184.216.72",
           "unknownca": "93.184.216.73", "oldtls": "93.184.216.74"}
METADATA = ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "169.254.170.2",
            "169.254.169.253", "fd20:ce::254"]
PRIVATE = ["10.13.13.13", "172.16.9.9", "192.168.77.1", "100.64.0.7", "169.254.7.7", "fd00:77::7", "fec0::7",
           "127.0.0.1", "127.8.8.8", "::1", "198.51.100.7", "240.0.0.7", "64:ff9b::a0d:d0d", "2002:a0d:d0d::1"]
PUBLIC_SINKS = ["93.184.216.99", "2606:2800:220:1::99", "8.8.8.8", "1.1.1.1", "2001:4860:4860::8888"]
SINK_PORTS_TCP = [22, 25, 53, 80, 443, 853, 2375, 6379, 8080, 8443]
SINK_PORTS_UDP = [53, 123, 443, 4500, 5353]
WEB_PORTS = [80, 8080, 2375]
TLS_PORTS = [443, 8443]

ZONE = {
    "api.lab.test": [API, API6], "www.lab.test": [API], "v6.lab.test": [API6], "lab.test": [API],
    "other.lab.test": [OTHER], "a.deep.lab.test": [API], "alias.lab.test": ["=api.lab.test"],
    "files.lab.test": [NGINX, NGINX6], "registry.lab.test": [NGINX], "pypi.lab.test": [NGINX], "git.lab.test": [NGINX],
    "ws.lab.test": [NGINX], "redis.lab.test": [REDIS],
    "evil.test": [EVIL, EVIL6], "*.evil.test": [EVIL, EVIL6], "evillab.test": [EVIL], "*.evillab.test": [EVIL],
    **{f"{name}.lab.test": [address] for name, address in BAD_TLS.items()},
}


def in_namespace(path, function):
    """The result of a function that is run by a thread in another network namespace. Sockets stay in it."""
    out = {}

    def run():
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if LIBC.setns(fd, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            out["value"] = function()
        except BaseException as error:  # handed on below
            out["error"] = error
        finally:
            os.close(fd)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in out:
        raise out["error"]
    return out["value"]


class Lab:
    """Usable between start() and stop()."""

    def __init__(self):
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="netlab-", dir="/srv" if os.access("/srv", os.W_OK) else "/var/tmp"))
        self.base.chmod(0o755)
        self.processes, self.sockets, self.started = [], [], False
        self.marked = set()
        self.dns, self.web, self.sinks = NameServer(ZONE), Recorder(), Sinks()

    # ---- start and stop ----

    def start(self):
        self.ca = pki.Authority(self.base / "ca")
        self.trust = pki.trust_folder(self.base / "trust", self.ca.pem)
        (self.base / "resolv.conf").write_text(f"nameserver {RESOLVER}\noptions timeout:10 attempts:3\n")
        (self.base / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        for name in ("resolv.conf", "hosts"):
            (self.base / name).chmod(0o644)
        self.hold()
        self.packets = in_namespace(self.net, Packets)
        self.thread(self.packets.run)
        self.serve()
        self.sites = sites.Sites(self)
        self.sites.start()
        self.started = True
        return self

    def addresses(self):
        fixed = [RESOLVER, API, API6, NGINX, NGINX6, OTHER, REDIS, DATABASE, EVIL, EVIL6, *BAD_TLS.values()]
        return [a for a in [*fixed, *METADATA, *PRIVATE, *PUBLIC_SINKS] if a not in ("127.0.0.1", "127.8.8.8", "::1")]

    def hold(self):
        """A process that keeps the two namespaces alive."""
        ip = "\n".join(f"ip addr add {a}/{'128 nodad' if ':' in a else '32'} dev lo" for a in self.addresses())
        script = f"""set -e
ip link set lo up
{ip}
mount --bind {self.base}/resolv.conf "$(readlink -f /etc/resolv.conf)"
mount --bind {self.base}/hosts /etc/hosts
mount --bind {self.trust} /etc/ssl/certs
echo ready
exec sleep infinity"""
        holder = self.spawn(["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script],
                            stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"ready\n", "the lab's namespaces cannot be made"
        self.pid, self.net = holder.pid, f"/proc/{holder.pid}/ns/net"

    def serve(self):
        for kind, serve in ((socket.SOCK_DGRAM, self.dns.serve_udp), (socket.SOCK_STREAM, self.dns.serve_tcp)):
            self.thread(serve, self.socket(RESOLVER, 53, kind))
        cert = self.ca.issue("good", [*pki.NAMES, API, API6, OTHER])
        self.cert, good = cert, server_context(*cert)
        for address in (API, API6, OTHER, EVIL, EVIL6):
            for port in WEB_PORTS:
                self.thread(self.web.serve, self.socket(address, port))
            for port in TLS_PORTS:
                self.thread(self.web.serve, self.socket(address, port), good)
        self.serve_bad_tls()
        for address in [*METADATA, *PRIVATE, *PUBLIC_SINKS]:
            for port in SINK_PORTS_TCP:
                self.sinks.add(self.socket(address, port), "tcp")
            for port in SINK_PORTS_UDP:
                self.sinks.add(self.socket(address, port, socket.SOCK_DGRAM), "udp")
        self.thread(self.sinks.run)

    def serve_bad_tls(self):
        stranger = pki.Authority(self.base / "stranger", "nobody knows me")
        contexts = {
            "expired": server_context(*self.ca.issue("expired", ["expired.lab.test"], end="20210101000000Z")),
            "selfsigned": server_context(*pki.self_signed(self.base / "ca", "selfsigned.lab.test")),
            "wrongname": server_context(*self.ca.issue("wrongname", ["something-else.test"])),
            "unknownca": server_context(*stranger.issue("unknownca", ["unknownca.lab.test"])),
            "oldtls": server_context(*self.ca.issue("oldtls", ["oldtls.lab.test"]), ssl.TLSVersion.TLSv1_1),
        }
        for name, address in BAD_TLS.items():
            self.thread(self.web.serve, self.socket(address, 443), contexts[name])

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for sock in self.sockets:
            sock.close()
        shutil.rmtree(self.base, ignore_errors=True)

    # ---- parts ----

    def thread(self, function, *args):
        threading.Thread(target=function, args=args, daemon=True).start()

    def socket(self, address, port, kind=socket.SOCK_STREAM):
        """A server's socket in the lab."""
        def make():
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if ":" in address:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address, port))
            if kind == socket.SOCK_STREAM:
                sock.listen(512)
            return sock
        sock = in_namespace(self.net, make)
        self.sockets.append(sock)
        return sock

    def catch_up(self):
        """Waits until the look at the packets has come to one that is sent now. Returns the ports of all such packets."""
        def send():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind(("127.0.0.1", 0))
                self.marked.add(sock.getsockname()[1])
                sock.sendto(b"", sock.getsockname())
                return sock.getsockname()[1]
        mark, port, end = self.packets.mark(), in_namespace(self.net, send), time.monotonic() + 60
        while not any(f.protocol == "udp" and f.port == f.source_port == port for f in self.packets.since(mark)):
            assert time.monotonic() < end, "the look at the packets has stopped"
            time.sleep(0.002)
        return self.marked

    def connect(self, address, port, timeout=30):
        """A connection of the test itself, from inside the lab."""
        return in_namespace(self.net, lambda: socket.create_connection((address, port), timeout))

    def spawn(self, command, **popen):
        popen.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([str(c) for c in command], **popen)
        self.processes.append(process)
        return process

    def enter(self, folder="/"):
        """Put this in front of a command to run it in the lab."""
        return ["nsenter", f"--net={self.net}", f"--mount=/proc/{self.pid}/ns/mnt", f"--wd={folder}", "--"]

    def run(self, *command, user=None, timeout=300, folder="/", **more):
        """A control: a program in the lab without brig."""
        prefix = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--"] if user else []
        more.setdefault("env", {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", "LANG": "C.UTF-8"})
        return subprocess.run([*self.enter(folder), *prefix, *map(str, command)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=timeout, **more)

    # ---- the oracle ----

    def watch(self):
        return Watch(self)


LOOPBACK = ("127.0.0.1", "::1")


class Watch:
    """What happened in the lab since it was made. Each look first waits until what has arrived by now is noted."""

    def __init__(self, lab):
        self.lab = lab
        self.again()

    def again(self):
        lab = self.lab
        self.catch_up()
        self.marks = lab.sinks.mark(), lab.packets.mark(), lab.web.mark(), lab.dns.mark()
        return self

    def catch_up(self):
        lab = self.lab
        lab.sinks.catch_up()
        lab.catch_up()
        lab.web.conversations.catch_up()
        in_namespace(lab.net, lambda: lab.dns.catch_up(RESOLVER))

    def sink(self):
        self.lab.sinks.catch_up()
        return self.lab.sinks.since(self.marks[0])

    def flows(self):
        """Packets that began something, without the name server's answers and the loopback of a broker."""
        own = self.lab.catch_up()
        return [f for f in self.lab.packets.since(self.marks[1])
                if not (f.protocol == "udp" and (f.source, f.source_port) == (RESOLVER, 53))
                and not (f.protocol == "udp" and f.port in own and f.port == f.source_port)
                and not (f.protocol == "tcp" and f.to in LOOPBACK and f.source in LOOPBACK)]

    def reached(self):
        """{(protocol, address, port)}, without the questions to the name server."""
        return {(f.protocol, f.to, f.port) for f in self.flows() if (f.to, f.port) != (RESOLVER, 53)}

    def names(self):
        in_namespace(self.lab.net, lambda: self.lab.dns.catch_up(RESOLVER))
        return self.lab.dns.names_since(self.marks[3])

    def connections(self, host=None):
        self.lab.web.conversations.catch_up()
        return self.lab.web.since(self.marks[2], host)

    def requests(self, host=None):
        self.lab.web.conversations.catch_up()
        return self.lab.web.requests(self.marks[2], host)

    def bytes(self, host=None):
        self.lab.web.conversations.catch_up()
        return self.lab.web.text(self.marks[2], host)

    def only(self, *addresses):
        """Nothing went anywhere but to these, no sink heard anything."""
        assert not self.sink(), f"a sink was reached: {self.sink()[:5]}"
        strangers = {r for r in self.reached() if r[1] not in addresses}
        assert not strangers, f"packets to {sorted(strangers)[:10]}"

    def nothing(self):
        self.only()
        assert not self.names(), f"asked the name server for {self.names()}"
