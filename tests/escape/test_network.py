"""N and C rows that hold without a proxy: no network at all, no secret that the caller had."""

import os
import secrets
import socket

from escapelib import ABSENT, NO_SOCKET, PLACE, USER_ID, assert_denied, cells, control, end_tree, probes, sections, told

UNREACHED = ABSENT | NO_SOCKET | {"ENETUNREACH", "EHOSTUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "ETIMEDOUT"}


def own_addresses():
    """Addresses of this machine, without asking any library."""
    out = ["127.0.0.1", "::1"]
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect(("192.0.2.1", 9))
        out.append(probe.getsockname()[0])
    except OSError:
        pass
    probe.close()
    return out


class Sink:
    """Listens on every address of the host, TCP and UDP, and remembers who came."""

    def __enter__(self):
        self.tcp, self.udp, self.targets = [], [], []
        for address in own_addresses():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for kind, store, word in ((socket.SOCK_STREAM, self.tcp, "tcp"), (socket.SOCK_DGRAM, self.udp, "udp")):
                s = socket.socket(family, kind)
                s.bind((address, 0))
                if kind == socket.SOCK_STREAM:
                    s.listen()
                s.setblocking(False)
                store.append(s)
                self.targets.append(f"{word}:{address}:{s.getsockname()[1]}")
        return self

    def heard(self):
        count = 0
        for s in self.tcp:
            try:
                while True:
                    s.accept()[0].close()
                    count += 1
            except BlockingIOError:
                pass
        for s in self.udp:
            try:
                while True:
                    s.recv(100)
                    count += 1
            except BlockingIOError:
                pass
        return count

    def __exit__(self, *_):
        for s in self.tcp + self.udp:
            s.close()


# Nothing here leaves the machine: documentation, private and link-local ranges.
ELSEWHERE = ["tcp:192.0.2.77:80", "udp:192.0.2.77:53", "tcp:10.0.0.1:80", "tcp:169.254.169.254:80",
             "udp:224.0.0.251:5353", "udp:255.255.255.255:9", "icmp:192.0.2.1:0", "tcp:fd00::1:80",
             "udp:ff02::1:5353", "icmp:::1:0"]


@cells()
def test_N01_N19_no_network(cell):
    """TCP, UDP, ICMP, both families: host loopback, host address, private, link-local, multicast."""
    with Sink() as sink:
        # Loopback hands over what is sent before the call that sends it returns.
        shown = probes(control("reach", *sink.targets, user=cell.user))["reach"]
        assert sink.heard() >= len(sink.targets) - 1, f"control: the sink is reachable outside: {shown}"
        inside = probes(cell.attack("reach", *sink.targets, *ELSEWHERE))["reach"]
        assert sink.heard() == 0, "bytes from inside arrived at the host"
        if cell.container:
            # An own loopback may exist: a datagram to it is sent and lost. The sink is the judge there.
            loop = {t for t in sink.targets if t.startswith("udp:127.") or t.startswith("udp:::1")}
            shown = {t: o for t, o in shown.items() if t not in loop}
        assert_denied(shown, inside, UNREACHED)
        through = {t: inside[t] for t in ELSEWHERE if inside[t] == "OK" and not t.startswith("icmp:::1")}
        assert not through, through


@cells()
def test_N18_not_reachable_from_the_host(cell):
    """A listener inside cannot be connected to from the host."""
    port = 20000 + secrets.randbelow(20000)
    process = cell.start([PLACE.attack, "listen", str(port), "280"], json_out=False)
    try:
        listens = "OK" in told(process, "\n")
        assert listens or not cell.container, "nothing listens, the row proves nothing"
        for address in own_addresses():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            s = socket.socket(family)
            s.settimeout(2)
            reached = s.connect_ex((address, port)) == 0
            s.close()
            assert not reached, f"reached at {address}"
        assert process.poll() is None or not listens, "it was reached, and ended"
    finally:
        end_tree(process)


@cells()
def test_C01_no_secret_in_environment_or_arguments(cell):
    """What the caller has in its environment does not come in, and no task inside shows it."""
    token = "SECRET" + secrets.token_hex(8)
    env = {"AWS_SECRET_ACCESS_KEY": token, "GITHUB_TOKEN": token, "SSH_AUTH_SOCK": f"/tmp/{token}",
           "my_private_thing": token, "DATABASE_URL": f"postgres://u:{token}@h/d", "KUBECONFIG": f"/x/{token}"}
    shown = sections(cell.attack("batch", "environ", "--", "search", token[::-1], env=env))
    assert token not in shown["environ"], shown["environ"]
    text = cell.run(["/bin/sh", "-c", "cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ 2>/dev/null; env; "
                     "cat /etc/* 2>/dev/null"], env=env).json["stdout"]
    assert token not in text
    given = cell.run(["/usr/bin/env"], ["-e", "GIVEN=yes"], env=env).json["stdout"]
    assert "GIVEN=yes" in given, "control: what is handed over on purpose arrives"


@cells()
def test_C13_no_credential_stores(cell):
    """Key and token files in the caller's home are not visible."""
    token = "STORE" + secrets.token_hex(8)
    home = PLACE.folder("home", cell.user)
    for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".git-credentials", ".docker/config.json",
                 ".kube/config", ".config/gcloud/credentials.db", ".gnupg/secring.gpg", ".npmrc", ".pypirc"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(token)
    if os.getuid() == 0 and cell.user == "user":
        for path in home.rglob("*"):
            os.chown(path, USER_ID, USER_ID)
    files = [str(p) for p in home.rglob("*") if p.is_file()]
    found = control("direct", token, files[0], user=cell.user)
    assert f"direct\t{files[0]}" in found, "control"
    shown = cell.attack("search", token, *files, env={"HOME": str(home)},
                        options=["--output", "4M", "--timeout", "280s"])
    hits = [x for x in shown.splitlines() if x.startswith("FOUND") and "/proc/" not in x]
    assert not hits, hits
    listed = cell.run(["/bin/sh", "-c", 'echo "$HOME"; ls -A ~ 2>/dev/null; ls -A "$0"', home], env={"HOME": str(home)})
    assert ".ssh" not in listed.json["stdout"], listed.json["stdout"]
