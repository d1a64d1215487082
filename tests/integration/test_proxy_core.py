"""brig-proxy alone: ways in, names, addresses, tunnels, budgets, replacement, its own confinement. The test is the
supervisor. What needs addresses that count as public runs in a network namespace of its own, as root."""

import contextlib
import os
import queue
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

import pytest

import proxylib
from helpers import IS_ROOT, is_over, status_fields, wait_for
from netlab import in_namespace
from netlab.nameserver import NameServer
from proxylib import (AAAA, BINARY, DNS_UDP, PROXY, TRANSPARENT, Failed, Proxy, Server, client_hello, drain, encode,
                      question, read_answer, receive)

ALERT = bytes([0x15, 3, 3, 0, 2, 2, 49])
needs_root = pytest.mark.skipif(not IS_ROOT, reason="network namespaces with addresses of our own need root")


def pinned(server, name="origin.test", scheme=""):
    return f"{scheme}{name}:{server.port}=127.0.0.1"


@pytest.fixture
def server():
    with Server() as server:
        yield server


@pytest.fixture
def names():
    """A name server on loopback: zone to be filled in, and where it is."""
    dns = NameServer({})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        threading.Thread(target=dns.serve_udp, args=(sock,), daemon=True).start()
        dns.place = "127.0.0.1:%d" % sock.getsockname()[1]
        yield dns


def passes(client, data=b"hello"):
    client.sendall(data)
    return receive(client, len(data)) == data


# ---- its own confinement ----

def test_what_it_keeps_of_its_rights(server):
    with Proxy([pinned(server)]) as proxy:
        facts, status = proxy.ready["facts"], status_fields(proxy.pid)
        assert proxy.ready["ca"] is None
        assert facts["seccomp"] == "default-deny" and facts["no_new_privs"] and not facts["dumpable"]
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
        assert all(int(status[key], 16) == 0 for key in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
        uid = 65534 if IS_ROOT else os.geteuid()
        assert status["Uid"].split() == [str(uid)] * 4 and facts["uid"] == uid
        if IS_ROOT:
            assert int(status["CapBnd"], 16) == 0 and status["Gid"].split() == ["65534"] * 4
            assert status["Groups"] == ""
        assert passes(proxy.connect("origin.test", server.port)), "and it works"


@needs_root
def test_the_user_it_becomes_can_be_chosen(server):
    with Proxy([pinned(server)], uid=4321, gid=4322) as proxy:
        status = status_fields(proxy.pid)
        assert status["Uid"].split() == ["4321"] * 4 and status["Gid"].split() == ["4322"] * 4
        assert passes(proxy.connect("origin.test", server.port))


def test_another_process_of_its_user_cannot_look_into_it(server):
    """Not dumpable: its memory and descriptors belong to root alone. Control: a process that is."""
    uid = 65534 if IS_ROOT else os.geteuid()
    look = [sys.executable, "-c", "import sys; open(f'/proc/{sys.argv[1]}/mem', 'rb')"]
    as_user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if IS_ROOT else []
    with Proxy([pinned(server)]) as proxy, subprocess.Popen([*as_user, "sleep", "60"]) as sleeper:
        try:
            time.sleep(0.3)
            hidden = subprocess.run([*as_user, *look, str(proxy.pid)], capture_output=True, text=True)
            seen = subprocess.run([*as_user, *look, str(sleeper.pid)], capture_output=True, text=True)
        finally:
            sleeper.kill()
        assert "Permission" in hidden.stderr
        assert seen.returncode == 0, seen.stderr


@pytest.mark.skipif(not IS_ROOT, reason="strace of a process that is not dumpable needs root")
def test_it_opens_no_file_once_it_is_sealed(server, names, tmp_path):
    """Resolving, dialling and ending, seen by strace from the moment it is ready."""
    names.zone["asked.test"] = ["127.0.0.1"]
    log = tmp_path / "trace"
    with Proxy([pinned(server), "asked.test:1"], resolver=names.place) as proxy:
        tracer = subprocess.Popen(["strace", "-f", "-o", str(log), "-p", str(proxy.pid)], stderr=subprocess.PIPE)
        assert b"attached" in tracer.stderr.readline()
        assert passes(proxy.connect("origin.test", server.port))
        proxy.connect("asked.test", 1).sendall(b"\0x")
        proxy.event(host="asked.test", reason="address")
        proxy.end()
        tracer.wait(10)
    calls = log.read_text()
    assert "splice" in calls or "sendto" in calls, "the trace saw it work"
    assert not [line for line in calls.splitlines() if "open" in line.split("(")[0] or "exec" in line.split("(")[0]]
    refused = [line for line in calls.splitlines() if "EPERM" in line]
    assert not refused, "nothing that it needs is refused"


# ---- the channel ----

def test_it_ends_with_the_supervisor(server):
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("origin.test", server.port)
        assert passes(client), "control"
        proxy.control.close()
        assert proxy.process.wait(5) == 0
        assert drain(client) == b""


def test_it_dies_with_the_supervisor_even_when_it_was_stopped(server):
    script = """
import sys, os, signal, time
sys.path.insert(0, sys.argv[1])
from proxylib import Proxy
proxy = Proxy(["origin.test"])
os.kill(proxy.pid, signal.SIGSTOP)
print(proxy.pid, flush=True)
time.sleep(60)
"""
    supervisor = subprocess.Popen([sys.executable, "-c", script, os.path.dirname(proxylib.__file__)], stdout=subprocess.PIPE)
    pid = int(supervisor.stdout.readline())
    wait_for(lambda: status_fields(pid)["State"][0] == "T")
    supervisor.kill()
    supervisor.wait()
    wait_for(lambda: is_over(pid), what="its end")


def test_kill_9_ends_every_connection_and_frees_nothing_else(server):
    with Proxy([pinned(server)]) as proxy:
        client, port = proxy.connect("origin.test", server.port), proxy.listen(PROXY)
        assert passes(client), "control"
        proxy.process.kill()
        proxy.process.wait(5)
        assert drain(client) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)


def test_nonsense_from_the_supervisor_ends_it(server):
    for data in (b"x", encode("event") + b"more", b"\0" * 5000):
        with Proxy([pinned(server)]) as proxy:
            proxy.control.send(data)
            assert proxy.process.wait(5) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"egress": {}}', '{"egress": 1}', '{"resolver": "x"}'])
def test_a_configuration_that_is_none_is_refused(text):
    from proxylib import sealed
    with Proxy(start=False) as proxy:
        fd = sealed(text)
        proxy.send("config", fd=fd)
        os.close(fd)
        with pytest.raises(Failed):
            proxy.expect("ready")


def test_a_configuration_that_could_still_change_is_refused():
    with Proxy(start=False) as proxy:
        fd = os.memfd_create("config", os.MFD_ALLOW_SEALING)
        os.write(fd, b"{}")
        os.lseek(fd, 0, 0)
        proxy.send("config", fd=fd)
        os.close(fd)
        with pytest.raises(Failed, match="sealed"):
            proxy.expect("ready")


def test_events_that_nobody_reads_are_counted_and_do_not_stop_it(server):
    with Proxy([pinned(server)]) as proxy:
        port = proxy.listen(TRANSPARENT)
        asked = 0
        while asked < 3000:  # each a denied literal
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
            for client in clients:
                client.sendall(client_hello("x.test"))
            for client in clients:
                client.settimeout(10)
                assert drain(client) == ALERT
                client.close()
            asked += len(clients)
        client = socket.create_connection(("127.0.0.1", port), 10)
        client.sendall(client_hello("x.test"))
        assert drain(client) == ALERT, "still serves"
        client.close()
        lost = proxy.end()["lost_events"]
        assert lost > 0 and len(proxy.events) + lost == asked + 1


def test_a_burst_of_events_arrives_whole(server):
    with Proxy([pinned(server)]) as proxy:
        port = proxy.listen(TRANSPARENT)
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(400)]
        for client in clients:
            client.sendall(client_hello("x.test"))
        for client in clients:
            client.settimeout(10)
            assert drain(client) == ALERT
            client.close()
        assert proxy.end()["lost_events"] == 0 and len(proxy.events) == 400


def test_what_was_decided_is_told_before_a_sync_is_answered(server):
    """Also when the supervisor has not read for a while: what waits for it comes first, whole."""
    with Proxy([pinned(server)]) as proxy:
        port = proxy.listen(TRANSPARENT)
        for number, count in ((1, 1), (2, 400)):
            proxy.forget()
            for _ in range(count):  # one after the other: who says nothing for long is not waited for
                client = socket.create_connection(("127.0.0.1", port), 60)
                client.sendall(client_hello("x.test"))
                assert drain(client) == ALERT
                client.close()
            proxy.send("sync", number)
            assert proxy.expect("synced").value == number and len(proxy.events) == count
        assert proxy.end()["lost_events"] == 0


# ---- names inside ----

def test_allowed_names_have_stand_ins_and_others_do_not_exist(server, names):
    with Proxy([pinned(server), "**.wild.test:443"], egress={"blocked": ["no.wild.test"]}, resolver=names.place) as proxy:
        assert proxy.ask("origin.test") == proxy.ask("ORIGIN.test") != proxy.ask("a.wild.test")
        assert proxy.ask("origin.test").startswith("198.18.")
        assert proxy.ask("origin.test", AAAA).startswith("fd62:7269:6700::")
        assert proxy.ask("brig.proxy").startswith("198.18.")
        assert proxy.ask("origin.test", 16) == "", "no other kinds"
        for name in ("evil.test", "wild.test", "no.wild.test", "xorigin.test"):
            assert proxy.ask(name) is None
        event = proxy.event(host="evil.test")
        assert (event["entry"], event["verdict"], event["reason"]) == ("dns", "denied", "no-rule")
        assert "evil.test" in event["hint"]
        assert names.asked == [], "the outside hears nothing of it"


def test_dns_over_udp_answers_from_where_it_was_asked(server):
    with Proxy([pinned(server)]) as proxy:
        port = proxy.listen(DNS_UDP, "0.0.0.0")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.sendto(question("origin.test"), ("127.0.0.9", port))
            answer, source = sock.recvfrom(600)
        assert source == ("127.0.0.9", port) and read_answer(answer) == proxy.ask("origin.test")


def test_dns_over_udp_on_v6(server):
    with Proxy([pinned(server)]) as proxy:
        port = proxy.listen(DNS_UDP, "::")
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.settimeout(5)
            sock.sendto(question("origin.test", AAAA), ("::1", port))
            answer, source = sock.recvfrom(600)
        assert source[:2] == ("::1", port) and read_answer(answer) == proxy.ask("origin.test", AAAA)


def test_dns_over_udp_for_both_families_on_one_socket(server):
    with Proxy([pinned(server)]) as proxy:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.bind(("::", 0))
            port = sock.getsockname()[1]
            proxy.send("listener", DNS_UDP, port, fd=sock.fileno())
        for family, address in ((socket.AF_INET, "127.0.0.7"), (socket.AF_INET6, "::1")):
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.settimeout(5)
                sock.sendto(question("origin.test"), (address, port))
                answer, source = sock.recvfrom(600)
            assert source[:2] == (address, port) and read_answer(answer) == proxy.ask("origin.test")


def test_dns_survives_garbage_and_keeps_to_its_rate(server):
    with Proxy([pinned(server)]) as proxy:
        port = proxy.listen(DNS_UDP)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            for data in (b"", b"x", bytes(12), question("origin.test")[:-1], os.urandom(512), os.urandom(513), bytes(600)):
                sock.sendto(data, ("127.0.0.1", port))
            for i in range(1500):
                sock.sendto(question("origin.test", ident=i), ("127.0.0.1", port))
            sock.settimeout(1)
            answers = 0
            with contextlib.suppress(TimeoutError):
                while sock.recv(600):
                    answers += 1
        assert 100 <= answers < 1000
        wait_for(lambda: proxy.ask("origin.test"), what="an answer when it is quiet again")


def test_many_denied_names_are_few_events(server):
    with Proxy([pinned(server)]) as proxy:
        for i in range(100):
            assert proxy.ask(f"n{i}.evil.test") is None
        proxy.read(0.2)
        assert 1 <= len(proxy.events) < 60


# ---- transparent connections ----

def test_a_name_leads_to_its_pin_and_back(server):
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("origin.test", server.port)
        assert passes(client)
        client.shutdown(socket.SHUT_WR)
        assert drain(client) == b""
        event = proxy.event(host="origin.test")
        assert (event["verdict"], event["entry"], event["scheme"]) == ("allowed", "transparent", "tcp")
        assert (event["up"], event["down"]) == (5, 5) and event["port"] == server.port
        assert event["rule"] == pinned(server)


def test_another_port_of_an_allowed_name_is_refused(server):
    with Proxy([pinned(server)]) as proxy, Server() as other:
        client = proxy.connect("origin.test", other.port)
        client.sendall(b"\0hello")
        assert drain(client) == b"" and other.connections == 0
        assert proxy.event(port=other.port)["reason"] == "port"
        assert passes(proxy.connect("origin.test", server.port)), "control"


def test_literals_need_a_rule_of_their_own(server):
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("127.0.0.1", server.port)
        client.sendall(b"\0hello")
        assert drain(client) == b"" and server.connections == 0
        assert proxy.event(host="127.0.0.1")["reason"] == "literal"
    with Proxy([f"127.0.0.1:{server.port}=127.0.0.1"]) as proxy:
        assert passes(proxy.connect("127.0.0.1", server.port)), "control"
        assert passes(proxy.connect("::ffff:127.0.0.1", server.port)), "the same address, in the other family"


def test_the_listener_inside_knows_what_was_dialled(server):
    """A transparent listener takes the address from the connection itself, v4 on a v6 socket too."""
    with Proxy([f"127.0.0.1:{server.port}=127.0.0.1", pinned(server)]) as proxy:
        with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as sock:
            proxy.send("listener", TRANSPARENT, 0, fd=sock.fileno())
            port = sock.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 5) as client:
            client.sendall(b"\0")
            assert drain(client) == b""
        assert proxy.event(host="127.0.0.1", port=port)["reason"] == "port"


def test_servers_that_speak_first(server):
    with Server(lambda peer: (peer.sendall(b"220 ready\r\n"), peer.recv(10))) as shy, Proxy([pinned(shy)]) as proxy:
        assert proxy.connect("origin.test", shy.port).recv(20) == b"220 ready\r\n"


def test_each_direction_ends_on_its_own(server):
    def answer(peer):
        data = drain(peer)
        peer.sendall(b"got %d" % len(data))

    def speak(peer):
        peer.sendall(b"all that I say")
        peer.shutdown(socket.SHUT_WR)
        one_way.note(drain(peer))
    with Server(answer) as late, Server(speak) as one_way:
        with Proxy([pinned(late), pinned(one_way, "other.test", "tcp://")]) as proxy:
            client = proxy.connect("origin.test", late.port)
            client.sendall(b"\0" * 300000)
            client.shutdown(socket.SHUT_WR)
            assert drain(client) == b"got 300000"
            client = proxy.connect("other.test", one_way.port)
            assert drain(client) == b"all that I say"
            client.sendall(b"still heard")
            client.close()
            wait_for(lambda: one_way.received == b"still heard")


def test_a_large_transfer_arrives_whole(server):
    blob = os.urandom(1 << 20) * 48
    with Server(lambda peer: (peer.recv(1), peer.sendall(blob))) as big, Proxy([pinned(big)]) as proxy:
        client = proxy.connect("origin.test", big.port)
        client.sendall(b"\0")
        assert drain(client) == blob
        client.close()
        assert proxy.event(host="origin.test")["down"] == len(blob)


# ---- TLS that is passed on ----

@pytest.fixture(scope="module")
def tls_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-keyout", folder / "key", "-out", folder / "cert", "-subj", "/CN=origin.test",
                    "-addext", "subjectAltName=DNS:origin.test"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")

    def talk(peer):
        with context.wrap_socket(peer, server_side=True) as secure:
            while data := secure.recv(1000):
                secure.sendall(data)
    with Server(talk) as server:
        server.trust = ssl.create_default_context(cafile=str(folder / "cert"))
        yield server


def test_tls_with_the_right_name_is_passed_on_untouched(tls_server):
    """The client sees the server's own certificate: nothing was opened."""
    with Proxy([f"https://origin.test:{tls_server.port}=127.0.0.1"]) as proxy:
        with tls_server.trust.wrap_socket(proxy.connect("origin.test", tls_server.port), server_hostname="origin.test") as secure:
            assert passes(secure)
        event = proxy.event(host="origin.test")
        assert event["verdict"] == "allowed" and event["scheme"] == "https" and event["up"] > 200


HELLO = client_hello("origin.test")


@pytest.mark.parametrize("hello, why", [
    (client_hello("other.test"), "another"),
    (client_hello("origin.test.evil.test"), "another"),
    (client_hello(), "no server"),
    (client_hello("origin.test", ech=True), "encrypted"),
], ids=["another", "longer", "none", "encrypted"])
def test_tls_with_another_name_is_refused(server, hello, why):
    with Proxy([pinned(server, scheme="https://")]) as proxy:
        client = proxy.connect("origin.test", server.port)
        client.sendall(hello)
        assert drain(client) == ALERT and server.connections == 0
        event = proxy.event(host="origin.test")
        assert event["verdict"] == "denied" and event["reason"] == "sni" and why in event["note"]
        assert passes(proxy.connect("origin.test", server.port), HELLO), "control: arrives as it was sent"


def test_a_hello_that_cannot_be_read_never_becomes_plain_bytes(server):
    """Also under a rule for any protocol, where other bytes would pass."""
    bad = bytearray(HELLO)
    bad[8] += 1  # a length that does not fit
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("origin.test", server.port)
        client.sendall(bytes(bad))
        client.shutdown(socket.SHUT_WR)
        drain(client)
        assert server.connections == 0
        assert passes(proxy.connect("origin.test", server.port), HELLO), "control"


def test_a_hello_in_small_pieces(server):
    hello = client_hello("origin.test", extra=struct.pack("!HH", 21, 3000) + bytes(3000))
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("origin.test", server.port)
        for at in range(0, len(hello), 500):
            client.sendall(hello[at:at + 500])
            time.sleep(0.1)
        assert receive(client, len(hello)) == hello


def test_tls_without_a_name_to_a_rule_for_an_address(server):
    with Proxy([f"https://127.0.0.1:{server.port}=127.0.0.1"]) as proxy:
        assert passes(proxy.connect("127.0.0.1", server.port), client_hello())
        client = proxy.connect("127.0.0.1", server.port)
        client.sendall(HELLO)
        assert drain(client) == ALERT, "a name is another host"


def test_plain_bytes_under_a_rule_for_https_are_refused(server):
    with Proxy([pinned(server, scheme="https://")]) as proxy:
        client = proxy.connect("origin.test", server.port)
        client.sendall(b"\0\1\2\3")
        assert drain(client) == b"" and server.connections == 0
        assert proxy.event(host="origin.test")["reason"] == "scheme"


def test_a_rule_for_bytes_takes_tls_as_bytes(server):
    with Proxy([pinned(server, scheme="tcp://")]) as proxy:
        assert passes(proxy.connect("origin.test", server.port), client_hello("whatever.test"))


# ---- addresses ----

@pytest.mark.parametrize("records", [["127.0.0.1"], ["=alias.test"], ["93.184.216.10", "10.0.0.1"], ["::1"],
                                     ["169.254.169.254"], ["64:ff9b::7f00:1"], ["93.184.216.10", "::ffff:127.0.0.1"]])
def test_a_name_that_leads_inside_is_not_dialled(server, names, records):
    names.zone.update({"origin.test": records, "alias.test": ["127.0.0.1"]})
    with Proxy([f"origin.test:{server.port}"], resolver=names.place) as proxy:
        client = proxy.connect("origin.test", server.port)
        client.sendall(b"\0hello")
        assert drain(client) == b""
        event = proxy.event(host="origin.test", port=server.port)
        assert (event["verdict"], event["reason"]) == ("denied", "address")
        assert server.connections == 0 and names.asked, "it was asked for, and judged"
    with Proxy([pinned(server)], resolver=names.place) as proxy:
        mark = names.mark()
        assert passes(proxy.connect("origin.test", server.port)), "control: a pin leads there"
        assert names.names_since(mark) == [], "without asking anybody"


@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.77.5", "127.0.0.9", "100.64.3.4", "fd12:3456::9", "169.254.169.254"])
def test_no_answer_names_an_internal_address(names, address):
    names.zone["origin.test"] = [address]
    with Proxy(["http://origin.test:80"], resolver=names.place) as proxy:
        client = proxy.connect("origin.test", 80)
        client.sendall(b"GET / HTTP/1.1\r\nHost: origin.test\r\nConnection: close\r\n\r\n")
        said = drain(client).decode()
        assert said.startswith("HTTP/1.1 403") and '"reason":"address"' in said
        assert address not in said, said
        event = proxy.event(host="origin.test", reason="address")
        assert address not in (event["hint"] or "") and address in event["note"], "the operator is told"


def test_names_that_do_not_exist_are_errors_not_denials(server, names):
    with Proxy([f"origin.test:{server.port}"], resolver=names.place) as proxy:
        client = proxy.connect("origin.test", server.port)
        client.sendall(b"\0hello")
        assert drain(client) == b""
        event = proxy.event(host="origin.test", port=server.port)
        assert event["verdict"] == "error" and "does not exist" in event["note"]
        assert names.names_since(0) == ["origin.test"], "as it was decided on, without a search list"


def test_questions_that_nobody_waits_for_any_more_do_not_pile_up():
    """A name server that is silent, and a client that asks and breaks off: each question lives on for seconds."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with Proxy(["http://*.evil.test"], resolver="127.0.0.1:%d" % silent.getsockname()[1]) as proxy:
            for i in range(512):
                with proxy.explicit() as client:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.sendall(f"GET http://{i}.evil.test/ HTTP/1.1\r\nHost: {i}.evil.test\r\n\r\n".encode())
                    while b"%c%d\4evil" % (len(str(i)), i) not in silent.recv(512):
                        pass
            assert "went away" in proxy.event(host="511.evil.test")["note"]
            client = proxy.explicit()
            client.sendall(b"GET http://last.evil.test/ HTTP/1.1\r\nHost: last.evil.test\r\nConnection: close\r\n\r\n")
            assert drain(client).startswith(b"HTTP/1.1 502") and "too many" in proxy.event(host="last.evil.test")["note"]


@needs_root
class TestPublic:
    """A namespace whose loopback has addresses that count as public, and an interface with such addresses of its own."""

    @pytest.fixture(scope="class")
    def net(self):
        script = """ip link set lo up; ip addr add 93.184.216.10/32 dev lo; ip -6 addr add 2606:2800:220:1::10/128 dev lo nodad
            ip link add own0 type veth peer name own1; ip link set own0 up; ip link set own1 up
            ip addr add 93.184.216.50/32 dev own0; ip addr add 93.184.216.51/32 dev own0
            ip -6 addr add 2606:2800:220:1::50/128 dev own0 nodad"""
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", f"{script}; echo ready; exec sleep infinity"],
                                  stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"ready\n"
        yield f"/proc/{holder.pid}/ns/net"
        holder.kill()
        holder.wait()

    def inside(self, net, function):
        return in_namespace(net, function)

    @pytest.fixture(scope="class")
    def places(self, net):
        """Servers on a public v4, a loopback and a public v6 address; a name server."""
        servers = [Server(make=lambda a=a: self.inside(net, lambda: socket.create_server(
            (a, 8080), family=socket.AF_INET6 if ":" in a else socket.AF_INET)))
            for a in ("93.184.216.10", "127.0.0.1", "2606:2800:220:1::10")]
        udp = self.inside(net, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("93.184.216.10", 5353))
        names = NameServer({})
        threading.Thread(target=names.serve_udp, args=(udp,), daemon=True).start()
        yield servers, names
        for server in servers:
            server.close()

    @pytest.fixture
    def world(self, net, places):
        self.servers, self.names = places
        for server in self.servers:
            server.connections = 0
        return {"prefix": ["nsenter", f"--net={net}"], "resolver": "93.184.216.10:5353"}

    def test_a_public_name_is_dialled(self, world):
        public, private, _ = self.servers
        names = self.names
        names.zone["origin.test"] = ["=cdn.test"]
        names.zone["cdn.test"] = ["93.184.216.10"]
        with Proxy(["origin.test:8080"], **world) as proxy:
            assert passes(proxy.connect("origin.test", 8080))
            assert (public.connections, private.connections) == (1, 0)

    @pytest.mark.parametrize("address", ["93.184.216.50", "93.184.216.51", "2606:2800:220:1::50"])
    def test_an_address_of_the_machines_own(self, net, world, address):
        """Public by its number; but what listens there trusts the machine that it runs on."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.names.zone["own.test"] = [address]
        rules = ["own.test:8080", {"host": "pin.test", "port": 8080, "address": address}]
        with Server(make=lambda: self.inside(net, lambda: socket.create_server((address, 8080), family=family))) as server, \
                Proxy(rules, **world) as proxy:
            client = proxy.connect("own.test", 8080)
            client.sendall(b"\0")
            assert drain(client) == b""
            event = proxy.event(host="own.test")
            assert event["reason"] == "address" and event["note"].endswith("which is this machine's own")
            assert event["hint"] == "pin it: --allow own.test:8080=ADDRESS" and server.connections == 0
            assert passes(proxy.connect("pin.test", 8080)), "a pin leads there, as to any other place"

    def test_v6_and_the_other_family_where_one_does_not_answer(self, world):
        names = self.names
        names.zone["six.test"] = ["2606:2800:220:1::10"]
        names.zone["both.test"] = ["93.184.216.77", "2606:2800:220:1::10"]
        with Proxy(["six.test:8080", "both.test:8080"], **world) as proxy:
            assert passes(proxy.connect("six.test", 8080))
            assert passes(proxy.connect("both.test", 8080))
            assert self.servers[2].connections == 2

    def test_rebinding(self, world):
        """Public the first time, loopback after that: every connection is judged by its own answer."""
        public, private, _ = self.servers
        names = self.names
        names.zone["origin.test"] = lambda nth: ["93.184.216.10"] if nth == 0 else ["127.0.0.1"]
        mark = names.mark()
        with Proxy(["origin.test:8080"], **world) as proxy:
            assert passes(proxy.connect("origin.test", 8080)), "control"
            for _ in range(3):
                client = proxy.connect("origin.test", 8080)
                client.sendall(b"\0")
                assert drain(client) == b""
            assert proxy.event(reason="address")
            assert (public.connections, private.connections) == (1, 0)
            kinds = [q.kind for q in names.asked[mark:] if q.name == "origin.test"]
            assert kinds.count(1) == kinds.count(28) == 4, "asked once per connection"


# ---- CONNECT ----

def test_connect_is_judged_like_the_others(server, tls_server):
    rules = [pinned(server), f"https://secure.test:{tls_server.port}=127.0.0.1"]
    with Proxy(rules) as proxy:
        status, client, _ = proxy.tunnel("origin.test", server.port)
        assert status == 200 and passes(client, b"\0hello")
        client.close()
        assert proxy.event(host="origin.test")["entry"] == "connect"
        assert proxy.tunnel("evil.test", 443)[0] == 403
        assert proxy.event(host="evil.test")["reason"] == "no-rule"
        assert proxy.tunnel("127.0.0.1", server.port)[0] == 403
        status, client, _ = proxy.tunnel("secure.test", tls_server.port)
        client.sendall(client_hello("origin.test"))
        assert status == 200 and drain(client) == ALERT
        assert proxy.event(host="secure.test")["reason"] == "sni"


# ---- budgets ----

def test_uploads_are_cut_at_their_budget(server):
    rule = {"host": "origin.test", "port": server.port, "address": "127.0.0.1", "upload": "100K"}
    with Proxy([rule]) as proxy:
        client = proxy.connect("origin.test", server.port)
        assert passes(client, b"\0" * 1000), "control"
        with contextlib.suppress(OSError):
            for _ in range(100):
                client.sendall(b"\0" * 10000)
        event = proxy.event(host="origin.test")
        assert event["verdict"] == "denied" and event["reason"] == "upload" and event["up"] == 100 * 1024
        wait_for(lambda: len(server.received) <= 100 * 1024 and server.connections == 1)
        client = proxy.connect("origin.test", server.port)
        client.sendall(b"\0more")
        assert drain(client) == b"" and len(server.received) <= 100 * 1024


def test_names_that_the_code_chose_are_part_of_what_is_sent(names):
    """Below a star every question tells the outside a name: no way around the budget of bytes."""
    said = [f"{i}{'a' * 20}.evil.test" for i in range(6)]
    with Proxy([{"host": "*.evil.test", "port": 7, "upload": "100"}], resolver=names.place) as proxy:
        for name in said:
            client = proxy.connect(name, 7)
            client.sendall(b"\0")
            assert drain(client) == b""
        assert names.names_since(0) == said[:3], "of 31 bytes each"
        assert proxy.event(host=said[3])["reason"] == "upload"
        assert proxy.end()["uploaded"] == 93


def test_where_nothing_may_be_sent_any_more_nobody_is_asked(names, server):
    rule = {"host": "origin.test", "port": server.port, "address": "127.0.0.1", "upload": "1K"}
    with Proxy([rule, {"host": "asked.test", "port": 7}], {"upload": "10"}, resolver=names.place) as proxy:
        client = proxy.connect("origin.test", server.port)
        client.sendall(b"\0" * 11)
        assert drain(client) in (b"", b"\0" * 10) and proxy.event(host="origin.test")["reason"] == "upload"
        wait_for(lambda: server.connections == 1)
        for host, port in (("asked.test", 7), ("origin.test", server.port)):
            client = proxy.connect(host, port)
            client.sendall(b"\0")
            assert drain(client) == b""
        assert proxy.event(host="asked.test")["reason"] == "upload"
        assert names.names_since(0) == [] and server.connections == 1


def test_downloads_are_not_uploads(server):
    rule = {"host": "origin.test", "port": 0, "address": "127.0.0.1", "upload": "1K"}
    with Server(lambda peer: (peer.recv(1), peer.sendall(bytes(1 << 20)))) as big:
        rule["port"] = big.port
        with Proxy([rule]) as proxy:
            client = proxy.connect("origin.test", big.port)
            client.sendall(b"\0")
            assert len(drain(client)) == 1 << 20


def test_connections_at_one_time(server):
    rule = {"host": "origin.test", "port": server.port, "address": "127.0.0.1", "max_connections": "2"}
    with Proxy([rule]) as proxy:
        first, second = (proxy.connect("origin.test", server.port) for _ in range(2))
        assert passes(first) and passes(second)
        third = proxy.connect("origin.test", server.port)
        third.sendall(b"\0")
        assert drain(third) == b""
        assert proxy.event(reason="connections")["host"] == "origin.test"
        first.close()
        proxy.event(verdict="allowed")
        assert passes(proxy.connect("origin.test", server.port)), "one was given back"


def test_tunnels_count_as_requests(server):
    rule = {"host": "origin.test", "port": server.port, "address": "127.0.0.1", "requests": "3"}
    with Proxy([rule]) as proxy:
        for _ in range(3):
            assert passes(proxy.connect("origin.test", server.port))
        client = proxy.connect("origin.test", server.port)
        client.sendall(b"\0")
        assert drain(client) == b""
        assert proxy.event(reason="requests")


# ---- live replacement ----

def test_new_rules_end_what_they_do_not_allow_and_nothing_else(server):
    with Server() as other, Proxy([pinned(server), pinned(other, "other.test")]) as proxy:
        stays, goes = proxy.connect("origin.test", server.port), proxy.connect("other.test", other.port)
        assert passes(stays) and passes(goes)
        assert proxy.replace([pinned(other, "third.test"), pinned(server)]) == 1
        assert drain(goes) == b"" and passes(stays)
        assert proxy.event(host="other.test")["verdict"] == "denied"
        assert proxy.ask("other.test") is None
        assert passes(proxy.connect("third.test", other.port))
        stays.close()
        event = proxy.event(host="origin.test")
        assert event["verdict"] == "allowed" and event["rule"] == pinned(server)


def test_a_rule_that_leads_elsewhere_ends_its_connections(server):
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("origin.test", server.port)
        assert passes(client)
        assert proxy.replace([f"origin.test:{server.port}=127.0.0.2"]) == 1
        assert drain(client) == b""


@pytest.mark.parametrize("blocked", ["127.0.0.1", "127.0.0.0/8"])
def test_rules_that_block_an_address(server, blocked):
    """Blocked by its address, it is left at once and not dialled again, by whatever name it is allowed."""
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("origin.test", server.port)
        assert passes(client)
        assert proxy.replace(egress={"rules": [pinned(server)], "blocked": ["127.0.0.2", "128.0.0.0/8"]}) == 0
        assert passes(client), "control: others are blocked"
        assert proxy.replace(egress={"rules": [pinned(server)], "blocked": [blocked]}) == 1
        assert drain(client) == b""
        assert proxy.event(host="origin.test", reason="blocked")
        mark = server.connections
        again = proxy.connect("origin.test", server.port)
        again.sendall(b"\0hello")
        assert drain(again) == b"" and server.connections == mark
        event = proxy.event(host="origin.test", reason="blocked", verdict="denied")
        assert "127.0.0.1" not in (event["hint"] or "")
        proxy.replace([pinned(server)])
        assert passes(proxy.connect("origin.test", server.port)), "control: no longer blocked"


def test_a_blocked_address_in_another_address(server):
    """A translator of the network's would lead there: 64:ff9b::7f00:1 is 127.0.0.1 to it."""
    rule = {"host": "origin.test", "port": server.port, "address": "64:ff9b::7f00:1"}
    for blocked, held in (("127.0.0.0/8", True), ("128.0.0.0/8", False)):
        with Proxy([rule]) as proxy:
            proxy.replace(egress={"rules": [rule], "blocked": [blocked]})
            client = proxy.connect("origin.test", server.port)
            client.sendall(b"\0hello")
            assert drain(client) == b""
            assert (proxy.event(host="origin.test")["reason"] == "blocked") == held


def test_budgets_go_on_under_new_rules(server):
    rule = {"host": "origin.test", "port": server.port, "address": "127.0.0.1", "max_connections": "1"}
    with Proxy([rule]) as proxy:
        client = proxy.connect("origin.test", server.port)
        assert passes(client)
        assert proxy.replace(["unrelated.test", rule]) == 0
        second = proxy.connect("origin.test", server.port)
        second.sendall(b"\0")
        assert drain(second) == b"" and proxy.event(reason="connections")
        client.close()
        proxy.event(verdict="allowed")
        assert passes(proxy.connect("origin.test", server.port)), "and is given back to the right rule"


def test_a_rule_that_went_and_came_back_has_spent_its_budget(origin):
    rule = {"host": "origin.test", "scheme": "http", "port": origin.port, "address": "127.0.0.1", "upload": "400", "requests": 2}
    ask = b"GET /%s HTTP/1.1\r\nHost: origin.test:%d\r\n\r\n" % (b"a" * 100, origin.port)

    def status(proxy):
        client = proxy.connect("origin.test", origin.port)
        client.sendall(ask)
        return client.recv(1 << 16).split(b" ")[1]

    with Proxy([rule]) as proxy:
        assert [status(proxy), status(proxy), status(proxy)] == [b"200", b"200", b"429"]
        proxy.replace([])
        proxy.replace([rule])
        assert status(proxy) == b"429", "a new budget"
        assert proxy.event(reason="requests", verdict="denied")


def test_rules_made_of_one_share_its_budget(origin):
    rule = {"host": "origin.test", "scheme": "http", "port": origin.port, "address": "127.0.0.1", "requests": 2}
    parts = [{**rule, "paths": [path], "budget": "the operator's"} for path in ("/a", "/b", "/c")]

    def statuses(proxy):
        for path in ("/a", "/b", "/c"):
            client = proxy.connect("origin.test", origin.port)
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: origin.test:{origin.port}\r\n\r\n".encode())
            yield client.recv(1 << 16).split(b" ")[1]

    with Proxy([{**part, "budget": part["paths"][0]} for part in parts]) as proxy:
        assert [*statuses(proxy)] == [b"200"] * 3, "control: three budgets"
    with Proxy(parts) as proxy:
        assert [*statuses(proxy)] == [b"200", b"200", b"429"]


def test_rules_that_cannot_be_read_change_nothing(server):
    with Proxy([pinned(server)]) as proxy:
        client = proxy.connect("origin.test", server.port)
        assert passes(client)
        with pytest.raises(Failed):
            proxy.replace(["*"])
        proxy.messages.clear()
        assert passes(client) and passes(proxy.connect("origin.test", server.port))


# ---- secrets: fetched at the start, renewed, dropped ----

VALUE = "s3cr3t-value-of-this-test"


def http_echo(peer):
    """Answers each request with its Authorization header."""
    data = b""
    while piece := peer.recv(1 << 16):
        data += piece
        while b"\r\n\r\n" in data:
            head, data = data.split(b"\r\n\r\n", 1)
            seen.append(head.decode())
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


seen = []


@pytest.fixture
def origin():
    seen.clear()
    with Server(http_echo) as server:
        yield server


def bound(server, source, **more):
    return {"secrets": [{"name": "TOKEN", "source": source, "origin": f"http://origin.test:{server.port}",
                         "placeholder": "brig_placeholder_0123456789", **more}]}


def get(proxy, server):
    """The status of one request, and the Authorization header that arrived."""
    before = len(seen)
    client = proxy.connect("origin.test", server.port)
    client.sendall(f"GET / HTTP/1.1\r\nHost: origin.test:{server.port}\r\nConnection: close\r\n\r\n".encode())
    answer = drain(client)
    client.close()
    sent = [line for head in seen[before:] for line in head.split("\r\n") if line.lower().startswith("authorization:")]
    return int(answer.split()[1]), sent[0] if sent else None


def rule_for(server):
    return pinned(server, scheme="http://")


def test_a_secret_comes_from_the_environment_and_leaves_it(origin):
    with Proxy([rule_for(origin)], bound(origin, "env:TOKEN"), env={"TOKEN": VALUE}) as proxy:
        assert get(proxy, origin) == (200, f"Authorization: Bearer {VALUE}")
        if IS_ROOT:
            assert VALUE.encode() not in open(f"/proc/{proxy.pid}/environ", "rb").read()
        assert proxy.end()["not_revoked"] is None
        assert VALUE not in str(proxy.events)


@pytest.mark.parametrize("source", ["env:TOKEN", "file:/nonexistent/secret", "cmd:false", "vault:kv/x#y"])
def test_a_secret_that_is_not_to_be_had_stops_the_start(origin, source):
    with pytest.raises(Failed, match="secret TOKEN"):
        Proxy([rule_for(origin)], bound(origin, source))


def test_a_value_that_is_no_credential_stops_the_start_and_is_not_repeated(origin):
    with pytest.raises(Failed, match="secret TOKEN") as failure:
        Proxy([rule_for(origin)], bound(origin, "env:TOKEN"), env={"TOKEN": "line one of it\nX-Injected: 1"})
    assert "line one" not in str(failure.value)


def test_secrets_check_tells_of_each(origin, tmp_path):
    good = tmp_path / "secret"
    good.write_text(VALUE + "\n")
    good.chmod(0o600)
    secrets = bound(origin, f"file:{good}")["secrets"] + [
        {"name": "OTHER", "source": "env:NOT_THERE", "origin": "https://other.test", "placeholder": "brig_placeholder_9876543210"}]
    with Proxy([rule_for(origin), "https://other.test"], {"secrets": secrets}, check=True) as proxy:
        told = {}
        for _ in range(2):
            one = proxy.expect("checked")
            assert VALUE not in one.text
            one = __import__("json").loads(one.text)
            told[one["name"]] = one
        assert told["TOKEN"]["ok"] is True and told["TOKEN"]["error"] is None
        assert told["OTHER"]["ok"] is False and told["OTHER"]["error"]
        proxy.end()


def test_a_value_with_an_end_is_renewed_and_otherwise_ends(origin, tmp_path):
    file = tmp_path / "secret"
    file.write_text(VALUE)
    file.chmod(0o600)
    with Proxy([rule_for(origin)], bound(origin, f"file:{file}", ttl="1500ms")) as proxy:
        assert get(proxy, origin) == (200, f"Authorization: Bearer {VALUE}")
        file.write_text("the-second-value")
        wait_for(lambda: get(proxy, origin) == (200, "Authorization: Bearer the-second-value"), what="the new value")
        file.unlink()
        wait_for(lambda: get(proxy, origin)[0] == 502, what="the end of the value")
        arrived = len(seen)
        assert get(proxy, origin) == (502, None) and len(seen) == arrived, "nothing was sent"
        assert proxy.event(reason="credential")
        file.write_text("the-third-value!")
        file.chmod(0o600)
        wait_for(lambda: get(proxy, origin)[0] == 200, 15, "the value that came back")


def test_a_value_is_put_in_when_the_body_has_come(origin, tmp_path):
    """A body that is collected may take its time; the value that is sent is one of now."""
    file = tmp_path / "secret"
    file.write_text("the-first-value-")
    file.chmod(0o600)
    with Proxy([rule_for(origin)], bound(origin, f"file:{file}", ttl="600ms", swap=["header", "body"])) as proxy:
        slow = proxy.connect("origin.test", origin.port)
        slow.sendall(f"POST / HTTP/1.1\r\nHost: origin.test:{origin.port}\r\nContent-Length: 2\r\nConnection: close\r\n\r\na".encode())
        file.write_text("the-second-value")
        wait_for(lambda: get(proxy, origin) == (200, "Authorization: Bearer the-second-value"), what="the new value")
        slow.sendall(b"b")
        assert drain(slow).startswith(b"HTTP/1.1 200") and seen[-1].startswith("POST")
        assert "the-second-value" in seen[-1] and "first" not in seen[-1]


def test_a_renewed_value_does_not_come_back_on_an_answer_that_is_older(tmp_path):
    """A server that tells one client what another one sent: both are the same code's. Nor does one that was renewed since."""
    file, said, heads = tmp_path / "secret", queue.Queue(), []
    file.write_text("the-first-value-")
    file.chmod(0o600)

    def talk(peer):
        head = b""
        while b"\r\n\r\n" not in head:
            head += peer.recv(1 << 16)
        heads.append(head)
        if b"/stream" not in head:
            said.put(head)
            past = heads[0] if b"/past" in head else b""
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(past), past))
            return
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\nit begins")
        while b"second" not in head:
            head = said.get(timeout=60)
        peer.sendall(head)

    with Server(talk) as server, Proxy([rule_for(server)], bound(server, f"file:{file}", ttl="600ms")) as proxy:
        def ask(path):
            client = proxy.connect("origin.test", server.port)
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: origin.test:{server.port}\r\nConnection: close\r\n\r\n".encode())
            return client

        older, told = ask("/stream"), b""
        while b"it begins" not in told:
            told += older.recv(1 << 16)
        file.write_text("the-second-value")
        wait_for(lambda: [drain(ask("/")), select.select([older], [], [], 0)[0]][1], what="the second value")
        assert b"Authorization: Bearer ****************\r\n" in drain(older)
        file.write_text("the-third-value-")
        wait_for(lambda: [drain(ask("/")), b"third" in heads[-1]][1], what="the third value")
        assert b"Authorization: Bearer ****************\r\n" in drain(ask("/past")), "it may still be good"


@pytest.mark.skipif(not IS_ROOT, reason="whose child the keeper is, is not for everybody to see")
def test_without_its_keeper_there_are_no_values(origin):
    with Proxy([rule_for(origin)], bound(origin, "env:TOKEN"), env={"TOKEN": VALUE}) as proxy:
        assert get(proxy, origin)[0] == 200, "control"
        children = open(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read().split()
        assert len(children) == 1
        os.kill(int(children[0]), 9)
        wait_for(lambda: get(proxy, origin) == (502, None), what="the end of the value")


@pytest.mark.skipif(not IS_ROOT, reason="whose child the keeper is, is not for everybody to see")
def test_the_keeper_ends_with_the_proxy(origin):
    with Proxy([rule_for(origin)], bound(origin, "env:TOKEN"), env={"TOKEN": VALUE}) as proxy:
        keeper = int(open(f"/proc/{proxy.pid}/task/{proxy.pid}/children").read())
        assert os.path.exists(f"/proc/{keeper}"), "control"
        proxy.process.kill()
        proxy.process.wait()
        wait_for(lambda: not os.path.exists(f"/proc/{keeper}") or status_fields(keeper)["State"][0] == "Z")
        assert not proxy.read(1), "and holds nothing of the channel"


def test_new_rules_leave_the_secrets_as_they_are(origin):
    with Proxy([rule_for(origin)], bound(origin, "env:TOKEN"), env={"TOKEN": VALUE}) as proxy:
        proxy.replace(["unrelated.test", rule_for(origin)])
        assert get(proxy, origin) == (200, f"Authorization: Bearer {VALUE}")
        proxy.replace(["unrelated.test"])
        client = proxy.connect("origin.test", origin.port)
        client.sendall(b"GET / HTTP/1.1\r\nHost: origin.test:%d\r\n\r\n" % origin.port)
        assert b" 403 " in client.recv(1000)


# ---- HTTP that nobody announced ----

def test_transparent_http_goes_through_the_codec(origin):
    rule = {"host": "origin.test", "scheme": "http", "port": origin.port, "address": "127.0.0.1", "paths": ["/ok"]}
    with Proxy([rule]) as proxy:
        client = proxy.connect("origin.test", origin.port)
        for path, status in (("/ok", b"200"), ("/other", b"403")):
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: origin.test:{origin.port}\r\n\r\n".encode())
            assert client.recv(4096).split()[1] == status
        assert proxy.event(path="/other")["reason"] == "path" and len(seen) == 1


def test_denied_http_is_told_so_in_http(origin):
    with Proxy([rule_for(origin)]) as proxy:
        client = proxy.connect("127.0.0.1", origin.port)
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{origin.port}\r\n\r\n".encode())
        assert b" 403 " in client.recv(4096)
        assert proxy.event(host="127.0.0.1")["reason"] == "literal" and seen == []


def test_the_gateway_has_a_name_inside(origin):
    with Proxy([rule_for(origin)]) as proxy:
        client = proxy.connect("brig.proxy", 80)
        client.sendall(b"POST / HTTP/1.1\r\nHost: brig.proxy\r\nContent-Length: 0\r\n"
                       b"X-Forward-To: http://origin.test:%d/there\r\n\r\n" % origin.port)
        assert b" 200 " in client.recv(4096) and seen[0].startswith("POST /there ")
        assert proxy.event(path="/there")["entry"] == "gateway"


def test_a_password_for_clients_of_a_proxy_alone(origin):
    import base64
    with Proxy([rule_for(origin)], auth="a-token") as proxy:
        url = f"http://origin.test:{origin.port}/"
        for header, status in (("", b"407"), ("Basic " + base64.b64encode(b"brig:wrong").decode(), b"407"),
                               ("Basic " + base64.b64encode(b"brig:a-token").decode(), b"200")):
            client = proxy.explicit()
            lines = f"Proxy-Authorization: {header}\r\n" if header else ""
            client.sendall(f"GET {url} HTTP/1.1\r\nHost: origin.test:{origin.port}\r\n{lines}\r\n".encode())
            assert client.recv(4096).split()[1] == status
            if status == b"407":
                assert proxy.event(verdict="denied")["reason"] == "auth"
        assert len(seen) == 1 and "a-token" not in seen[0] and "Proxy-" not in seen[0]


# ---- many, slow, silent ----

def test_ten_thousand_idle_connections(server):
    """Memory is bounded, and who was there before is not disturbed."""
    with Proxy([f"tcp://origin.test:{server.port}=127.0.0.1"]) as proxy:
        port = proxy.listen(PROXY, backlog=4096)
        before_client = proxy.connect("origin.test", server.port)
        assert passes(before_client)
        before = proxy.rss()
        clients = []
        with contextlib.suppress(OSError):
            for _ in range(10000):
                clients.append(socket.create_connection(("127.0.0.1", port), 5))
        assert len(clients) > 5000
        time.sleep(0.5)
        grown = proxy.rss() - before
        assert grown < 64 * 1024, f"{grown} KiB for {len(clients)} connections"
        assert passes(before_client)
        for client in clients:
            client.close()
        wait_for(lambda: passes(proxy.connect("origin.test", server.port)), what="a place for a new one")


def test_an_idle_tunnel_costs_little(server):
    with Proxy([f"tcp://origin.test:{server.port}=127.0.0.1"]) as proxy:
        clients = [proxy.connect("origin.test", server.port) for _ in range(200)]
        before = proxy.rss()
        clients += [proxy.connect("origin.test", server.port) for _ in range(500)]
        assert all(passes(client) for client in clients)
        per_connection = (proxy.rss() - before) / 500
        assert per_connection < 32
        pipes = [fd for fd in os.listdir(f"/proc/{proxy.pid}/fd")
                 if os.readlink(f"/proc/{proxy.pid}/fd/{fd}").startswith("pipe")] if IS_ROOT else []
        assert len(pipes) <= 2 * 16, "idle tunnels hold no pipe"


def test_a_client_that_never_reads(server):
    with Server(lambda peer: [peer.sendall(bytes(1 << 20)) for _ in range(256)]) as endless:
        with Proxy([f"tcp://endless.test:{endless.port}=127.0.0.1", pinned(server)]) as proxy:
            before = proxy.rss()
            stuck = [proxy.connect("endless.test", endless.port) for _ in range(20)]
            time.sleep(1)
            assert proxy.rss() - before < 16 * 1024
            assert passes(proxy.connect("origin.test", server.port)), "others are served"
            assert all(client.recv(1) == b"\0" for client in stuck)


def test_a_hello_that_never_ends_is_given_up(tls_server):
    with Proxy([f"https://origin.test:{tls_server.port}=127.0.0.1"]) as proxy:
        client = proxy.connect("origin.test", tls_server.port, timeout=30)
        client.sendall(client_hello("origin.test")[:-1])
        drain(client)
        event = proxy.event(host="origin.test")
        assert event["reason"] == "malformed" and "in time" in event["note"]


def test_silence_is_no_denial(server):
    """A connection that is opened in advance and never used, under a rule for https."""
    with Proxy([pinned(server, scheme="https://")]) as proxy:
        client = proxy.connect("origin.test", server.port, timeout=30)
        assert drain(client) == b""
        other = proxy.connect("8.8.8.8", 443)
        assert drain(other) == b"", "control: where nothing is allowed silence is told of"
        proxy.event(host="8.8.8.8", scheme="https", verdict="denied")
        assert not [e for e in proxy.events if e["host"] == "origin.test"] and server.connections == 0


def test_without_a_channel_it_says_who_starts_it():
    result = subprocess.run([BINARY], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
    assert result.returncode == 2 and "started by brig" in result.stderr
