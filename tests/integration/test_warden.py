"""One sandbox of `brig serve`, through the messages of wire.h: processes, files, ports, rules, limits, ends."""
import contextlib
import http.server
import os
import signal
import socket
import stat
import struct
import threading
import time
from pathlib import Path

import pytest

from helpers import CALLERS, INSTALLERS, ROOT, below, wait_for
from servelib import Failed, Gone, Left, Serve, frame, read_all, read_frame, read_some, start_time

SMALL = {"policy": {"level": "high", "lifecycle": {"sampling": "accept", "memory": "64M", "cpu_time": "1s", "disk": "16M"}}}
ROOMY = {"policy": {"level": "high", "lifecycle": {"sampling": "accept", "memory": "64M"}}}
SAMPLED = {"policy": {"level": "high", "lifecycle": {"sampling": "accept", "memory": "64M", "cgroup": "off"}}}
FILES = {"policy": {"level": "high", "lifecycle": {"sampling": "accept", "memory": "64M", "disk": "256M"}}}
FEW = {"policy": {"level": "high", "lifecycle": {"sampling": "accept", "pids": 20}}}


TEMPLATES = {"small.json": SMALL, "few.json": FEW, "roomy.json": ROOMY, "sampled.json": SAMPLED, "files.json": FILES}


@pytest.fixture(scope="module", params=CALLERS, ids=lambda caller: caller.name)
def serve(request):
    with Serve(request.param, templates=TEMPLATES) as made:
        yield made


@pytest.fixture
def box(serve):
    made = serve.box()
    yield made
    made.close()


# ---- start ----

def test_ready_says_what_each_boundary_enforces(serve):
    box = serve.launch()
    told = box.ready().json
    assert set(told["boundaries"]) == {"kernel", "filesystem", "network", "credentials", "lifecycle"}
    assert told["boundaries"]["kernel"]["tier"] == "container" and told["boundaries"]["kernel"]["capabilities"] == 0
    assert told["boundaries"]["filesystem"]["landlock_probe_denied"] is True
    assert set(told["states_usec"]) == {"provisioning", "running"}
    again = box.claim().json["boundaries"]
    assert again == told["boundaries"]
    box.close()


def test_nothing_is_started_before_the_claim(serve):
    box = serve.launch()
    box.ready()
    for type, obj in [("spawn", {"argv": ["true"]}), ("file", {"op": "stat", "path": "/"}), ("connect", {"port": 1}),
                      ("network", {"allow": []})]:
        with pytest.raises(Failed, match="not claimed"):
            box.ask(type, obj)
    box.claim()
    assert box.run("true")[0] == 0
    with pytest.raises(Failed, match="claimed already"):
        box.claim()
    box.close()


def test_init_and_processes_have_no_rights(serve, box):
    sleeper = box.spawn("sleep", "30")
    init = box.told["init"]
    inside = [pid for pid, name in below(init).items() if name == "sleep"]
    assert inside
    for pid in (init, *inside):
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and "0" not in status["Uid"].split()
    for kind in ("mnt", "pid", "net", "ipc", "uts", "user", "cgroup"):
        assert os.readlink(f"/proc/{inside[0]}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    box.ask("signal", {"pid": sleeper.value, "signal": 9, "group": False})


def test_the_code_cannot_look_into_init(box):
    code = "import os\nfor p in ('fd', 'maps', 'environ', 'root'):\n" \
           " try: (os.listdir if p in ('fd', 'root') else open)(f'/proc/{pid}/' + p); print('open', p)\n" \
           " except OSError as e: print('closed', p)"
    assert box.python("pid = 1\n" + code)[1] == "closed fd\nclosed maps\nclosed environ\nclosed root\n"
    assert box.python("pid = 'self'\n" + code)[1] == "open fd\nopen maps\nopen environ\nopen root\n"


# ---- processes ----

def test_input_output_and_status(box):
    assert box.run("sh", "-c", "cat; echo oops >&2; exit 7", input=b"words") == (7, "words", "oops\n")
    assert box.run("true") == (0, "", "")
    assert box.run("sh", "-c", "kill -9 $$")[0] == 137
    assert box.run("cat") == (0, "", "")  # without stdin it is empty


def test_a_process_has_three_descriptors_and_its_own_session(box):
    code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:3], os.getsid(0) == os.getpid(), os.getppid())"
    assert box.python(code) == (0, "[0, 1, 2] True 1\n", "")
    # 3 is the listing itself
    assert box.python("import os; print(len(os.listdir('/proc/self/fd')))")[1] == "4\n"


def test_signals_are_as_a_shell_gives_them(box):
    status = box.run("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")[1].split()
    assert set(status[1::2]) == {"0" * 16}


def test_environment_is_layered(serve):
    box = serve.box(env={"A": "claim", "B": "claim", "PATH": "/usr/bin:/bin"})
    _, out, _ = box.run("env", env={"B": "spawn", "C": "ä=ö"})
    env = dict(line.split("=", 1) for line in out.splitlines())
    assert (env["A"], env["B"], env["C"], env["PATH"]) == ("claim", "spawn", "ä=ö", "/usr/bin:/bin")
    assert env["HOME"] == "/home/user" and set(env) == {"A", "B", "C", "PATH", "HOME", "USER", "LOGNAME", "LANG", *INSTALLERS}
    for bad in ({"": "x"}, {"a=b": "x"}, {"x": 1}):
        with pytest.raises(Failed, match="env"):
            box.ask("spawn", {"argv": ["true"], "env": bad})
    box.close()


def test_folder(box):
    assert box.run("pwd")[1] == "/home/user\n"
    assert box.run("pwd", cwd="/tmp")[1] == "/tmp\n"
    box.run("mkdir", "-p", "/home/user/sub")
    assert box.run("pwd", cwd="sub")[1] == "/home/user/sub\n"
    with pytest.raises(Failed) as failed:
        box.spawn("pwd", cwd="/nowhere")
    assert failed.value.told["code"] == "not_found" and "/nowhere" in failed.value.told["message"]


@pytest.mark.parametrize("argv,code", [(["nonesuch"], "not_found"), (["/etc/passwd"], "not_executable"),
                                       (["/nonesuch"], "not_found"), (["/tmp"], "not_executable")])
def test_what_cannot_be_executed_is_an_answer(box, argv, code):
    with pytest.raises(Failed) as failed:
        box.spawn(*argv)
    assert failed.value.told["code"] == code and argv[0] in failed.value.told["message"]
    assert box.run("true")[0] == 0
    assert not [m for m in box.kept if m.type == "exited"]


@pytest.mark.parametrize("order", [{}, {"argv": []}, {"argv": "ls"}, {"argv": [1]}, {"argv": ["ls"], "cwd": 5},
                                   {"argv": ["ls"], "env": []}, {"interpreter": "cobol"}])
def test_a_malformed_spawn_is_refused(box, order):
    with pytest.raises(Failed) as failed:
        box.ask("spawn", order)
    assert failed.value.told["code"] == "usage"


def test_many_arguments_and_long_ones(box):
    words = [str(i) for i in range(2000)]
    assert box.run("sh", "-c", 'echo $#', "sh", *words)[1] == "2000\n"
    assert len(box.run("printf", "%s", "x" * 100_000)[1]) == 100_000


def test_a_terminal(box):
    message = box.spawn("bash", "--norc", tty={"cols": 91, "rows": 22})
    out, to, sizes = message.fds
    os.write(to, b"tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo all; echo T=$TERM\n")
    seen = read_until(out, b"T=xterm")
    assert b"/dev/pts/" in seen and b"22 91" in seen and b"all" in seen
    os.write(sizes, struct.pack("HHHH", 33, 120, 0, 0))
    wait_for(lambda: os.write(to, b"stty size\n") and b"33 120" in read_until(out, b"stty size\r\n", b"\r\n"), what="its new size")
    os.write(to, b"sleep 100\n")
    wait_for(lambda: "sleep" in below(box.told["init"]).values(), what="the foreground job")
    os.write(to, b"\x03echo after\n")  # ^C reaches the foreground job
    read_until(out, b"after\r\n")
    os.write(to, b"exit 5\n")
    assert os.WEXITSTATUS(box.exited(message.value)) == 5
    message.close()


def read_until(fd, *words, seconds=60):
    """All of them, one after the other."""
    seen, at, end = b"", 0, time.monotonic() + seconds
    for word in words:
        while (found := seen.find(word, at)) < 0:
            assert time.monotonic() < end, seen
            seen += read_some(fd, 4096, end - time.monotonic())
        at = found + len(word)
    return seen


def open_files(pid):
    links = set()
    for n in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.add(os.readlink(f"/proc/{pid}/fd/{n}"))
    return links


def test_a_terminal_is_its_pumps_alone(box):
    """PU-5: what init made for it is neither here, in the place of the front, nor in the warden."""
    message = box.spawn("sh", "-c", "echo here; read line", tty={"cols": 80, "rows": 24})
    read_until(message.fds[0], b"here")
    assert [stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in message.fds] == [True] * 3
    holders = [name for pid, name in below(box.told["warden"]).items() if any("ptmx" in link for link in open_files(pid))]
    assert holders == ["brig-pump"] and not any("ptmx" in link for link in open_files(box.told["warden"]))
    os.write(message.fds[1], b"x\n")
    box.exited(message.value)
    message.close()
    wait_for(lambda: "brig-pump" not in below(box.told["warden"]).values(), what="the end of its pump")


def cpu_usec(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 // os.sysconf("SC_CLK_TCK")


def test_cpu_time_that_a_pump_takes_is_the_codes(box):
    """LC-11: of who carries the terminal, while it does and when it has ended. The control: the code alone has used less."""
    message = box.spawn("cat", "/dev/zero", tty={"cols": 80, "rows": 24})
    (pump,) = [pid for pid, name in below(box.told["warden"]).items() if name == "brig-pump"]
    before = cpu_usec(pump)
    while cpu_usec(pump) < before + 300_000:
        read_some(message.fds[0], 1 << 20)
    inside = sum(cpu_usec(pid) for pid in [box.told["init"], *below(box.told["init"])])
    carried, told = cpu_usec(pump), box.ask("stats").json["cpu_usec"]
    assert told >= inside + carried * 0.8, (told, inside, carried)
    box.ask("signal", {"pid": message.value, "signal": int(signal.SIGKILL), "group": True})
    message.close()
    wait_for(lambda: "brig-pump" not in below(box.told["warden"]).values(), what="the end of its pump")
    assert box.ask("stats").json["cpu_usec"] >= told


def test_signals_by_process_and_by_group(box):
    script = "trap 'echo caught; exit 3' TERM; echo on; (trap '' TERM; sleep 500) & wait"
    one = box.spawn("sh", "-c", script)
    assert read_some(one.fds[0], 10) == b"on\n"
    box.ask("signal", {"pid": one.value, "signal": int(signal.SIGTERM), "group": False})
    assert os.WEXITSTATUS(box.exited(one.value)) == 3
    two = box.spawn("sh", "-c", "echo on; sleep 500 & wait")
    assert read_some(two.fds[0], 10) == b"on\n"
    box.ask("signal", {"pid": two.value, "signal": int(signal.SIGKILL), "group": True})
    assert os.WTERMSIG(box.exited(two.value)) == signal.SIGKILL
    assert read_all(two.fds[0]) == b""  # the end of the pipe: the child of the group is dead as well
    for pid in (two.value, 1, 4000000):
        with pytest.raises(Failed):
            box.ask("signal", {"pid": pid, "signal": 15, "group": False})
    box.run("true")


@pytest.mark.meanwhile(seconds=60)
def test_what_was_started_too_late_does_not_run_on():
    """W-5: the front was told that there is no such process. A minute is what the warden waits, whoever the caller is."""
    with Serve(CALLERS[-1]) as serve:
        box = serve.box()
        init = box.told["init"]
        os.kill(init, signal.SIGSTOP)
        try:
            for number, tty in ((1, None), (2, {"cols": 80, "rows": 24})):
                box.wire.send("spawn", number, 0, {"argv": ["sleep", "1000"], "tty": tty}, ())
            told = [box.next("done", "fail", seconds=600) for _ in range(2)]
        finally:
            os.kill(init, signal.SIGCONT)
        assert {(m.type, m.request) for m in told} == {("fail", 1), ("fail", 2)} and all("does not answer" in m.json["message"] for m in told)
        assert box.run("true")[0] == 0  # asked for later, so that it was started later
        wait_for(lambda: "sleep" not in below(init).values())
        lives = box.spawn("sleep", "1000").value
        assert box.run("true")[0] == 0 and "sleep" in below(init).values(), "one that was started in time is left alone"
        box.ask("signal", {"pid": lives, "signal": 9, "group": False})
        box.close()


def test_orphans_are_reaped_and_not_reported(box):
    box.run("sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.01 &) ; done; sleep 0.2")
    assert not [m for m in box.kept if m.type == "exited"]
    code = "import glob, re; print(sum('State:\\tZ' in open(p).read() for p in glob.glob('/proc/[0-9]*/status')))"
    wait_for(lambda: box.python(code)[1] == "0\n", what="all are reaped")


def test_an_interpreter_has_a_channel(box):
    message = box.spawn(interpreter="python")
    requests, answers, out, err = message.fds
    assert all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in message.fds), "what the code holds could carry descriptors"
    os.set_blocking(answers, True)
    assert read_frame(answers)["type"] == "ready"
    os.write(requests, frame({"op": "execute", "id": 1, "code": "import os\nprint('seen')\nos.getpid()", "env": {}}))
    told = []
    while not told or told[-1]["type"] != "end":
        told.append(read_frame(answers))
    assert [t["data"]["text"] for t in told if t["type"] == "result"] == [str(message.value)]
    assert read_some(out, 100) == b"seen\n"
    os.close(requests)
    box.exited(message.value)
    for fd in (answers, out, err):
        os.close(fd)


def test_nothing_that_the_code_holds_is_a_socket(box):
    """Over one, descriptors could be sent to who reads it."""
    code = "import os; print([os.readlink('/proc/self/fd/' + n).split(':')[0] for n in ('0', '1', '2')], len(os.listdir('/proc/self/fd')))"
    for options in ({}, {"stdin": True}):
        message = box.spawn("python3", "-c", code, **options)
        out = read_all(message.fds.pop(1 if options.get("stdin") else 0))
        assert b"socket" not in out and b"] 4" in out, (options, out)
        box.exited(message.value)
        message.close()


def test_an_interpreter_waits_before_the_claim(serve):
    box = serve.launch("python")
    message = box.ready()
    assert message.json["interpreter"] == "python" and message.value == message.json["pid"] > 1
    requests, answers, out, err = message.fds
    os.set_blocking(answers, True)
    assert read_frame(answers)["pid"] == message.value
    box.claim()
    box.ask("signal", {"pid": message.value, "signal": 9, "group": False})
    assert os.WTERMSIG(box.exited(message.value)) == 9
    for fd in message.fds:
        os.close(fd)
    box.close()


def test_many_processes_at_one_time(box):
    started = [box.spawn("sh", "-c", f"read x; exit {i}", stdin=True) for i in range(40)]
    for message in started:
        for fd in message.fds:
            os.close(fd)
    assert [os.WEXITSTATUS(box.exited(m.value)) for m in started] == list(range(40))


# ---- files and ports ----

def read_frames(fd):
    data, frames = read_all(fd), []
    while data:
        kind, length = data[0], struct.unpack_from("<I", data, 4)[0]
        frames.append((kind, data[8:8 + length]))
        data = data[8 + length:]
    return frames


def test_files_go_through_a_worker(box):
    written = box.ask("file", {"op": "write", "path": "deep/er/name.txt"})
    out, into = written.fds
    os.set_blocking(out, True)
    os.write(into, b"content")
    os.close(into)
    frames = read_frames(out)
    assert frames[0][0] == 1 and struct.unpack("<iIQ", frames[0][1])[0::2] == (0, 7)
    assert box.run("cat", "/home/user/deep/er/name.txt")[1] == "content"
    message = box.ask("file", {"op": "read", "path": "/home/user/deep/er/name.txt"})
    os.set_blocking(message.fds[0], True)
    assert [data for kind, data in read_frames(message.fds[0]) if kind == 4] == [b"content"]
    with pytest.raises(Failed):
        box.ask("file", {"op": "fly", "path": "/"})


def test_a_connection_to_a_port_inside(box):
    server = ("import socket,sys\ns=socket.create_server((sys.argv[1], int(sys.argv[2])), family=int(sys.argv[3]))\n"
              "print('up', flush=True)\nwhile 1:\n c,_=s.accept()\n c.sendall(b'hello '+c.recv(10))\n c.close()")
    for address, port, family in (("127.0.0.1", 8000, socket.AF_INET), ("::1", 8001, socket.AF_INET6)):
        with pytest.raises(Failed) as failed:
            box.ask("connect", {"port": port})
        assert failed.value.told["errno"] == 111
        box.spawn("python3", "-uc", server, address, str(port), str(int(family)))
        wait_for(lambda port=port: connects(box, port), what="the server inside")
        message = box.ask("connect", {"port": port})
        sock = socket.socket(fileno=message.fds[0])
        sock.setblocking(True)
        sock.sendall(b"you")
        assert sock.recv(100) == b"hello you"
        sock.close()
    for port in (0, 65536, "80", None):
        with pytest.raises(Failed, match="port"):
            box.ask("connect", {"port": port})


def connects(box, port):
    try:
        box.ask("connect", {"port": port}).close()
        return True
    except Failed:
        return False


# ---- the network ----

@pytest.fixture(scope="module")
def web():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"from outside")

        def log_message(self, *_):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield httpd
    httpd.shutdown()


FETCH = ("import urllib.request,sys\ntry: print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())\n"
         "except Exception as e: print(type(e).__name__, e)")


def test_without_rules_everything_is_refused_at_once(box):
    code = ("import socket,time\nt=time.monotonic()\n"
            "for a in [('1.2.3.4', 443), ('1.2.3.4', 80), ('1.2.3.4', 5555), ('8.8.8.8', 53)]:\n"
            " try: socket.create_connection(a, 60); print('open')\n"
            " except OSError as e: print(type(e).__name__)\n"
            "try: socket.getaddrinfo('example.com', 80); print('open')\n"
            "except OSError as e: print(type(e).__name__)\n"
            "print(time.monotonic() - t < 30)")
    assert box.python(code)[1].split() == ["ConnectionRefusedError"] * 4 + ["gaierror", "True"]
    seen = box.next("event").json
    assert seen["boundary"] == "network" and seen["kind"] == "denied" and "1.2.3.4 port 443" in seen["what"]


def test_loopback_inside_works_without_rules(box):
    code = ("import socket\ns=socket.create_server(('127.0.0.1', 0))\nc=socket.create_connection(s.getsockname())\n"
            "c.sendall(b'x'); print(s.accept()[0].recv(1))")
    assert box.python(code)[1] == "b'x'\n"


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
def test_rules_of_the_template_and_live_ones(caller, web):
    host = f"http://web.test:{web.server_port}"
    rule = f"{host}=127.0.0.1"
    template = {"policy": {"level": "high", "network": {"allow": [rule]}}}
    with Serve(caller, templates={"web.json": template}) as serve:
        box = serve.box("web")
        fetch = lambda: box.run("python3", "-c", FETCH, host)[1].strip()  # noqa: E731
        assert fetch() == "from outside"
        seen = box.next("event").json
        assert (seen["boundary"], seen["kind"]) == ("network", "allowed") and "web.test" in seen["what"]
        box.ask("network", {"allow": [], "block": []})
        assert "from outside" not in fetch()
        # A name that the template pins keeps its address; the request may not pin one itself.
        box.ask("network", {"allow": [host], "block": []})
        assert fetch() == "from outside"
        box.ask("network", {"allow": [host], "block": ["web.test"]})
        assert "from outside" not in fetch()
        with pytest.raises(Failed, match="only the operator"):
            box.ask("network", {"allow": [f"http://other.test:{web.server_port}=127.0.0.1"], "beyond": True})
        with pytest.raises(Failed, match="only the operator"):
            box.ask("network", {"allow": [f"{host}=127.0.0.2"]})
        box.close()


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.name)
def test_rules_where_the_template_has_none(caller, web):
    with Serve(caller) as serve:
        box = serve.box()
        fetch = lambda: box.run("python3", "-c", FETCH, "http://127.0.0.1.nip.test/")[1]  # noqa: E731
        assert "URLError" in fetch()
        with pytest.raises(Failed, match="only the operator"):
            box.ask("network", {"allow": [f"http://web.test:{web.server_port}=127.0.0.1"], "beyond": True})
        with pytest.raises(Failed, match="allows no such host"):
            box.ask("network", {"allow": ["http://127.0.0.1.nip.test"], "block": []})
        box.ask("network", {"allow": ["http://127.0.0.1.nip.test"], "block": [], "beyond": True})
        # Now brig-proxy answers, and says what it knows; a private address is not reached by a name.
        assert "HTTPError" in fetch()
        env = box.run("env")[1]
        assert "HTTP_PROXY=http://127.0.0.1:3128" in env
        assert box.ask("network", {"allow": [], "block": []}).value >= 0
        box.close()
        claimed = serve.launch()
        claimed.ready()
        told = claimed.claim(network={"allow": ["example.org"], "block": [], "beyond": True}).json["boundaries"]["network"]
        assert told["mode"] == "allowlist" and told["proxy"]["seccomp"] == "filter"
        claimed.close()


@pytest.mark.parametrize("rules", [{"allow": "x"}, {"allow": [5]}, {"allow": ["http://"]}, {"block": [None]}])
def test_malformed_rules_change_nothing(box, rules):
    with pytest.raises(Failed):
        box.ask("network", rules)
    assert "HTTP_PROXY" not in box.run("env")[1]


# ---- pause, statistics, events ----

def test_pause_and_resume(box):
    counter = box.spawn("python3", "-uc", "import time\nwhile 1: print('x'); time.sleep(0.01)")
    read_some(counter.fds[0], 10)
    told = box.ask("freeze", value=1)
    assert told.value == 1 and told.json["by"] in ("cgroup", "signal")
    os.set_blocking(counter.fds[0], False)
    time.sleep(0.1)
    drain(counter.fds[0])
    time.sleep(0.3)
    assert drain(counter.fds[0]) == b""
    for type, obj in [("spawn", {"argv": ["true"]}), ("connect", {"port": 1})]:
        with pytest.raises(Failed, match="paused"):
            box.ask(type, obj)
    assert box.ask("freeze", value=0).value == 0
    wait_for(lambda: drain(counter.fds[0]), what="output after the pause")
    assert box.run("true")[0] == 0


# Its handler has nothing to do: what counts is that the signal is sent to a task that is stopped. SIGSTOP takes back one that
# waits to be delivered, so there are many, one after the other.
GOES_ON = '''
import ctypes, signal
signal.signal(signal.SIGCONT, lambda *_: None)
libc, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
for half in range(1, 200):
    once = (ctypes.c_long * 4)(0, 0, half // 2, half % 2 * 500_000_000)
    assert libc.timer_create(1, event, ctypes.byref(timer)) == 0 and libc.timer_settime(timer, 0, once, None) == 0
print("goes on", flush=True)
while True: pass
'''


@pytest.mark.parametrize("template", ["base", "sampled"])
def test_a_pause_is_not_slept_through_with_a_timer(serve, template):
    """LC-10: where tasks are only sent SIGSTOP, a timer's SIGCONT lets them go on, without a time limit."""
    box = serve.box(template)
    busy = box.spawn("python3", "-c", GOES_ON)
    assert read_some(busy.fds[0], 20) == b"goes on\n"
    if box.ask("freeze", value=1).json["by"] == "signal":
        assert box.next("ended").json["reason"] == "it went on while it was paused"
    else:
        before = box.ask("stats").json["cpu_usec"]
        time.sleep(0.5)
        assert box.ask("stats").json["cpu_usec"] - before < 100_000
        box.close()


def drain(fd):
    seen = b""
    try:
        while part := os.read(fd, 65536):
            seen += part
    except BlockingIOError:
        pass
    return seen


def test_a_paused_sandbox_can_be_ended(serve):
    box = serve.box()
    box.spawn("sleep", "100")
    box.ask("freeze", value=1)
    assert box.end("over").json["reason"] == "over"


def test_statistics_follow_use(box):
    before = box.ask("stats").json
    code = "x = bytearray(30 << 20); open('/tmp/f', 'wb').write(bytes(5 << 20))\nfor i in range(10**7): pass\nprint('on', flush=True); input()"
    busy = box.spawn("python3", "-c", code, stdin=True)
    assert read_some(busy.fds[1], 10) == b"on\n"
    after = box.ask("stats").json
    assert after["cpu_usec"] >= before["cpu_usec"] + 50_000
    assert after["memory"] >= before["memory"] + (30 << 20) and after["memory_peak"] >= after["memory"]
    assert after["disk"] >= before["disk"] + (5 << 20) and after["pids"] > before["pids"]


def test_refused_calls_are_events_counted_by_kind(box):
    assert box.run("python3", "-c", "import ctypes\nl=ctypes.CDLL(None)\nfor i in range(300): l.unshare(0x10000000)")[0] == 0
    first = box.next("event").json
    assert first["boundary"] == "kernel" and first["kind"] == "denied" and "unshare" in first["what"]
    count, events = first["count"], 1
    while count < 300:
        told = box.next("event").json
        assert told["what"] == first["what"]
        count, events = count + told["count"], events + 1
    assert count == 300 and events <= 5


# ---- limits ----

def limit_of(box):
    message = box.next("fail", seconds=90)
    assert message.request == 0 and message.json["code"] == "limit"
    ended = box.next("ended", seconds=90).json
    return message.json["message"], ended


# What it has it keeps: where memory is only sampled, what a process cannot have at all may come before the look.
HOG = "import time\nx = []\ntry:\n    while 1: x.append(b'x' * (1 << 20))\nexcept MemoryError: time.sleep(600)"


@pytest.mark.parametrize("template", ["roomy", "sampled"])
def test_out_of_memory_costs_one_process_and_is_told_with_its_end(serve, template):
    """With a cgroup, and where memory is only sampled."""
    box = serve.box(template)
    assert box.run("python3", "-c", "bytearray(8 << 20)")[0] == 0
    bystander = box.spawn("sh", "-c", "read line; echo heard $line", stdin=True)
    hog = box.spawn("python3", "-c", HOG)
    end = box.next("exited", seconds=90)
    assert end.json == {"pid": hog.value, "oom_killed": True} and os.WTERMSIG(end.value) == signal.SIGKILL
    told = box.next("event", seconds=90).json
    assert told["boundary"] == "lifecycle" and told["kind"] == "denied" and "oom_killed" in told["what"], told
    assert "64M" in told["rule"] and "lifecycle.memory" in told["hint"], told
    os.write(bystander.fds[0], b"you\n")
    assert read_all(bystander.fds[1]) == b"heard you\n", "a process that had its share lives on"
    assert box.next("exited").json == {"pid": bystander.value}
    # A shell whose command was killed ends by itself; a kill for other reasons is none for memory.
    shell = box.spawn("sh", "-c", f"python3 -c \"$1\"; exit $?", "sh", HOG)
    assert box.next("exited", seconds=90).json == {"pid": shell.value, "oom_killed": True}
    other = box.spawn("sh", "-c", "kill -9 $$")
    assert box.next("exited").json == {"pid": other.value}
    ended = box.end("the client is done").json
    assert ended["reason"] == "the client is done" and ended["limit_hit"] is None, ended
    receipt = ended["receipt"]
    assert receipt["usage"]["oom_kills"] == 2 and receipt["verdict"]["limit_hit"] is None, receipt["usage"]
    assert [d["count"] for d in receipt["decisions"]["denials"] if "oom_killed" in d["what"]] == [2]


def test_memory_that_no_end_gives_back(serve):
    """Files in memory: who writes them is killed and told. With a cgroup the sandbox waits for somebody who removes them; where
    memory is only sampled it is over its limit with nobody left to be killed, and ends with that verdict."""
    box = serve.box("files")
    writer = box.spawn("sh", "-c", "while :; do head -c 1000000 /dev/zero >> /tmp/big; done")
    told = box.next("exited", seconds=90)
    assert told.json == {"pid": writer.value, "oom_killed": True}
    if box.told["boundaries"]["lifecycle"]["cgroup"] == "none":
        message, ended = limit_of(box)
        assert "memory" in message and ended["reason"] == "limit: memory", ended
        assert ended["receipt"]["verdict"]["limit_hit"] == "memory"
        return
    read_all(box.ask("file", {"op": "remove", "path": "/tmp/big"}).fds[0])
    assert can_run(box), "it can be used again"
    box.close()


def test_cpu_time_ends_the_sandbox_and_is_named(serve):
    box = serve.box("small")
    box.spawn("sh", "-c", "(while :; do :; done) & while :; do :; done")
    message, ended = limit_of(box)
    assert "cpu_time" in message and ended["limit_hit"] == "cpu_time"


def test_processes_are_limited_and_the_sandbox_lives(serve):
    box = serve.box("few")
    code = "import os,time\nn=0\ntry:\n  for i in range(100):\n    if os.fork()==0: time.sleep(600); os._exit(0)\n    n+=1\nexcept OSError: print(n < 30)\nos.kill(0, 9)"
    assert box.python(code)[1] in ("True\n", "")
    assert wait_for(lambda: can_run(box), what="room for a process")
    box.close()


def can_run(box):
    try:
        return box.run("true")[0] == 0
    except Failed:
        return False


def test_the_disk_is_full_and_the_sandbox_lives(serve):
    box = serve.box("small")
    code = "import errno\ntry: open('/tmp/f', 'wb').write(bytes(64 << 20))\nexcept OSError as e: print(errno.errorcode[e.errno])"
    assert box.python(code)[1] == "ENOSPC\n"
    assert can_run(box)
    box.close()


# ---- ends ----

@pytest.fixture(params=CALLERS, ids=lambda caller: caller.name)
def fresh(request):
    """A daemon of its own, and what is left of its sandboxes."""
    left = Left()
    with Serve(request.param) as made:
        yield made, left
    left.none()


BUSY = "mkdir -p a/b; mkfifo a/p; (setsid sleep 300 &) ; sleep 300 & sleep 300"


def test_an_orderly_end_tells_what_was_used(fresh):
    serve, left = fresh
    box = serve.box()
    box.spawn("sh", "-c", BUSY)
    left.note(box)
    ended = box.end("the client is done").json
    assert ended["reason"] == "the client is done" and ended["usage"]["memory_peak"] > 0
    assert ended["receipt"]["sandbox_id"] == "brig-" + box.id and "teardown" in ended["receipt"]["states_usec"]
    assert serve.gone().json["id"] == box.id
    with pytest.raises(Gone):
        box.next("none")
    box.close()
    left.none()


def test_control_what_lives_is_seen(fresh):
    serve, left = fresh
    box = serve.box()
    box.spawn("sh", "-c", BUSY)
    left.note(box)
    with pytest.raises(AssertionError, match="inside"):
        left.none(0.5)
    if serve.caller is ROOT:
        assert [path for path in left.look() if "/sys/fs/cgroup" in path]


def test_the_end_of_the_front_socket_ends_the_sandbox(fresh):
    serve, left = fresh
    for claim in (False, True):
        box = serve.launch()
        if claim:
            box.ready()
            box.claim()
            box.spawn("sh", "-c", BUSY)
        left.note(box)
        box.close()
        assert serve.gone().json["id"] == box.id
        left.none()


def warden_parts(box):
    warden, init = box.told["warden"], box.told["init"]
    guardian = [pid for pid, name in below(warden).items() if name == "brig-warden"]
    return {"warden": warden, "init": init, "guardian": guardian[0] if guardian else None}


@pytest.mark.parametrize("part", ["warden", "init", "guardian"])
@pytest.mark.parametrize("when", ["ready", "claimed", "busy", "paused"])
def test_killing_a_part_leaves_nothing(fresh, part, when):
    serve, left = fresh
    box = serve.launch()
    box.ready()
    if when != "ready":
        box.claim()
    if when in ("busy", "paused"):
        box.spawn("sh", "-c", BUSY)
    if when == "paused":
        box.ask("freeze", value=1)
    left.note(box)
    pid = warden_parts(box)[part]
    if pid is None:
        pytest.skip("a container without cgroups has no guardian: the kernel cleans up")
    os.kill(pid, signal.SIGKILL)
    gone = serve.gone()
    assert gone.json["id"] == box.id
    if part == "warden":
        assert os.WTERMSIG(gone.value) == signal.SIGKILL
    else:
        assert box.next("fail").request == 0 and box.next("ended")
    left.none()
    assert serve.box().run("true")[0] == 0  # the others are not touched


def test_killing_the_warden_during_the_start_leaves_nothing(fresh):
    serve, left = fresh
    for delay in (0, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.015):
        box = serve.launch()
        time.sleep(delay)
        warden = [pid for pid, name in below(serve.pid).items() if name in ("brig-warden", "brig")]
        left.note(box)
        left.processes |= {(pid, start_time(pid)) for top in warden for pid in (top, *below(top))}
        if warden:
            os.kill(min(warden), signal.SIGKILL)
        serve.gone()
        box.close()
        left.none()


@pytest.mark.parametrize("victim", ["launcher", "front"])
def test_killing_the_daemon_leaves_nothing(victim):
    for caller in CALLERS:
        left = Left()
        serve = Serve(caller)
        boxes = [serve.box() for _ in range(3)]
        boxes.append(serve.launch())
        boxes[3].ready()
        for box in boxes[:3]:
            box.spawn("sh", "-c", BUSY)
        for box in boxes:
            left.note(box)
        if victim == "launcher":
            serve.process.kill()
        else:
            relay = [pid for pid, name in below(serve.pid).items() if name == "relay"]
            os.kill(relay[0], signal.SIGKILL)
        for box in boxes:
            box.close()  # as the kernel does when the front dies
        status, _, err = serve.stop()
        assert status == (-9 if victim == "launcher" else 1)
        left.none()


# ---- who is hostile ----

def test_nonsense_from_the_front_ends_the_sandbox(serve):
    box = serve.box()
    box.wire.sock.send(b"nonsense")
    with pytest.raises((Gone, ConnectionResetError)):
        box.next("none")
    box.close()


@pytest.mark.parametrize("type", ["launch", "hello", "ready", "record", "put"])
def test_a_message_for_somebody_else_is_refused(box, type):
    with pytest.raises(Failed):
        box.ask(type, {})
    assert box.run("true")[0] == 0


def test_text_that_is_no_object(box):
    for text in (b"", b"[]", b"{", b"null", b'{"a":1,"a":2}'):
        box.wire.send("spawn", 9, 0, text=text)
        assert box.next("fail").request == 9
    assert box.run("true")[0] == 0


def test_descriptors_of_the_front_are_not_kept(box):
    before = len(os.listdir(f"/proc/{box.told['warden']}/fd"))
    with open("/dev/null") as null:
        for _ in range(5):
            box.ask("stats", fds=[null.fileno()] * 3)
    assert len(os.listdir(f"/proc/{box.told['warden']}/fd")) == before


def test_a_warden_does_not_collect_descriptors(box):
    def count():
        return len(os.listdir(f"/proc/{box.told['warden']}/fd")), len(os.listdir(f"/proc/{box.told['init']}/fd"))

    box.run("true")
    before = count()
    for _ in range(30):
        box.run("true")
        with pytest.raises(Failed):
            box.spawn("nonesuch")
        with pytest.raises(Failed):
            box.ask("connect", {"port": 9})
        message = box.spawn("sh", "-c", "exit 0", tty={"cols": 80, "rows": 24})
        box.exited(message.value)
        message.close()
    # The one to who looks at calls goes when nobody has asked for anything for a while.
    wait_for(lambda: count() == before, what="as many descriptors as before")


def test_a_warden_holds_nothing_of_its_neighbours(serve):
    one, two = serve.box(), serve.box()
    for box in (one, two):
        links = {os.readlink(f"/proc/{box.told['warden']}/fd/{n}") for n in os.listdir(f"/proc/{box.told['warden']}/fd")}
        assert not [link for link in links if "lock" in link or str(serve.state) in link]
    if serve.caller is ROOT:
        assert one.told["boundaries"]["kernel"]["host_uid"] != two.told["boundaries"]["kernel"]["host_uid"]
    one.close()
    two.close()
