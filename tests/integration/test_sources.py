"""Where the values of secrets come from, through brig-proxy itself: what is refused and how it is said, what Vault sees, and
what is left after each death. Vault is a stand-in (vaultlib.py)."""
import json
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

import vaultlib
from proxylib import Failed, Proxy, Server
from waiting import wait_for

PLACEHOLDER = "brig_placeholder_" + secrets.token_hex(20)


@pytest.fixture
def value():
    return "value-" + secrets.token_urlsafe(24)


class Echo(Server):
    """Answers each request with nothing, and remembers it."""

    def __init__(self):
        super().__init__(self.talk_http)

    def talk_http(self, peer):
        data = b""
        while piece := peer.recv(65536):
            data += self.note(piece)
            while b"\r\n\r\n" in data:
                data = data.split(b"\r\n\r\n", 1)[1]
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def tokens(self):
        return [line.split(b" ")[-1].decode() for line in self.received.split(b"\r\n") if line.startswith(b"Authorization:")]


@pytest.fixture
def origin():
    with Echo() as server:
        yield server


def secret(source, origin, **more):
    return {"name": "TOKEN", "source": source, "origin": f"http://origin.test:{origin.port}", "placeholder": PLACEHOLDER, **more}


def proxy_for(source, origin, env=None, **more):
    return Proxy([f"http://origin.test:{origin.port}=127.0.0.1"], {"secrets": [secret(source, origin, **more)]}, env=env)


def request(proxy, origin):
    """The status of one request."""
    with proxy.explicit() as client:
        client.sendall(f"GET http://origin.test:{origin.port}/ HTTP/1.1\r\nHost: origin.test:{origin.port}\r\n\r\n".encode())
        return int(client.recv(65536).split()[1])


def check(source, origin, env=None):
    """What `brig secrets check` is told: (ok, error)."""
    with Proxy([], {"secrets": [secret(source, origin)]}, env=env, check=True) as proxy:
        told = json.loads(proxy.expect("checked", 120).text)
        return told["ok"], told["error"]


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


# ---- variables, files, programs ----

def test_a_variable(origin, value):
    assert check("env:SOURCE", origin, {"SOURCE": value}) == (True, None)
    ok, error = check("env:SOURCE", origin, {})
    assert not ok and "SOURCE is not set" in error
    ok, error = check("env:SOURCE", origin, {"SOURCE": value + "\r\nX: y"})
    assert not ok and "line break" in error and value not in error


@pytest.mark.skipif(os.geteuid() != 0, reason="the memory of brig-proxy is root's alone to read")
def test_C11_a_variable_is_wiped_from_proxy_and_keeper(origin, value):
    with proxy_for("env:SOURCE", origin, {"SOURCE": value, "PATH": "/usr/bin"}) as proxy:
        assert request(proxy, origin) == 200 and origin.tokens() == [value], "control: the value is in use"
        pids = [proxy.pid, *children(proxy.pid)]
        assert len(pids) == 2
        for pid in pids:
            assert value.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
            assert value.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert b"/usr/bin" in Path(f"/proc/{proxy.pid}/environ").read_bytes(), "control: the environment is there to be read"


def test_C11_files(origin, value, tmp_path):
    path = tmp_path / "key"

    def fails(with_words, place=path):
        ok, error = check(f"file:{place}", origin)
        assert not ok and with_words in error and value not in error, error

    fails("does not exist")
    path.write_text(value + "\n")
    path.chmod(0o644)
    fails("open to others")
    path.chmod(0o600)
    assert check(f"file:{path}", origin) == (True, None)
    (tmp_path / "link").symlink_to(path)
    fails("is a link", tmp_path / "link")
    os.mkfifo(tmp_path / "fifo", 0o600)
    fails("is a FIFO", tmp_path / "fifo")
    path.write_text("x" * 100000)
    fails("larger than")


def test_a_program(origin, value, tmp_path):
    assert check(f"cmd:echo {value}", origin, {"PATH": "/usr/bin:/bin"}) == (True, None)
    ok, error = check(f"cmd:sh -c 'echo {value}; exit 4'", origin, {"PATH": "/usr/bin:/bin"})
    assert not ok and "status 4" in error and value not in error


def test_a_program_that_hangs_is_killed_with_its_children(origin, tmp_path):
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! $$ >{pids}; wait"
    ok, error = check(f'cmd:sh -c "{script}"', origin, {"PATH": "/usr/bin:/bin"})
    assert not ok and "10 seconds" in error
    wait_for(lambda: all(gone(int(pid)) for pid in pids.read_text().split()), what="the end of both")


def test_a_start_without_its_value_fails(origin):
    with pytest.raises(Failed, match="SOURCE is not set"):
        proxy_for("env:SOURCE", origin)


def test_C10_a_value_is_not_used_after_its_time(origin, value, tmp_path):
    path = tmp_path / "key"
    path.write_text(value)
    path.chmod(0o600)
    with proxy_for(f"file:{path}", origin, ttl="1s") as proxy:
        assert request(proxy, origin) == 200 and origin.tokens() == [value], "control"
        other = "other-" + value
        path.write_text(other)
        wait_for(lambda: request(proxy, origin) == 200 and origin.tokens()[-1] == other, what="the new value comes in time")
        path.unlink()
        wait_for(lambda: request(proxy, origin) != 200, what="a value that cannot be renewed ends")
        sent = len(origin.tokens())
        assert request(proxy, origin) != 200 and len(origin.tokens()) == sent
        proxy.event(reason="credential")


# ---- deaths ----

def test_a_keeper_that_is_killed_takes_the_values_along(origin, value):
    with proxy_for("env:SOURCE", origin, {"SOURCE": value}) as proxy:
        assert request(proxy, origin) == 200, "control"
        keeper, = children(proxy.pid)
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: request(proxy, origin) != 200, what="the values are dropped")
        sent = len(origin.tokens())
        assert request(proxy, origin) != 200 and len(origin.tokens()) == sent


@pytest.mark.parametrize("how", ["polite", "closed", "killed"])
def test_the_keeper_ends_with_the_proxy(origin, value, how):
    with proxy_for("env:SOURCE", origin, {"SOURCE": value}) as proxy:
        keeper, = children(proxy.pid)
        if how == "polite":
            proxy.end()
        elif how == "closed":
            proxy.control.close()
        else:
            os.kill(proxy.pid, signal.SIGKILL)
        wait_for(lambda: gone(keeper), what="the keeper ends")


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_of_a_terminal_do_not_end_the_keeper(origin, value, sig, tmp_path):
    path = tmp_path / "key"
    path.write_text(value)
    path.chmod(0o600)
    with proxy_for(f"file:{path}", origin, ttl="1s") as proxy:
        keeper, = children(proxy.pid)
        os.kill(keeper, sig)
        # What it does after that shows that it has lived through it.
        path.write_text("other-" + value)
        wait_for(lambda: request(proxy, origin) == 200 and origin.tokens()[-1] == "other-" + value, what="it goes on")
        assert children(proxy.pid) == [keeper] and os.getpgid(keeper) != os.getpgid(proxy.pid)


# ---- Vault ----

@pytest.fixture
def vault():
    with vaultlib.Vault() as server:
        yield server


def test_kv(origin, vault):
    with proxy_for("vault:secret/data/ci#token", origin, vault.env) as proxy:
        assert request(proxy, origin) == 200 and origin.tokens() == [vault.kv["ci"]["token"]]
    assert check("vault:secret/data/ci#number", origin, vault.env) == (True, None)
    assert not vault.leases


@pytest.mark.parametrize("source, words", [
    ("vault:secret/data/nothing#token", "nothing at"),
    ("vault:secret/data/ci#other", "no such field"),
])
def test_what_is_not_there(origin, vault, source, words):
    ok, error = check(source, origin, vault.env)
    assert not ok and words in error


def test_what_vault_refuses(origin, vault):
    ok, error = check(vault.source, origin, {**vault.env, "VAULT_TOKEN": "hvs.wrong-token-value"})
    assert not ok and "no right" in error and "wrong-token" not in error
    ok, error = check(vault.source, origin, {"VAULT_ADDR": vault.address})
    assert not ok and "log in" in error
    ok, error = check(vault.source, origin, {"VAULT_TOKEN": vault.root})
    assert not ok and "VAULT_ADDR" in error
    ok, error = check(vault.source, origin, {**vault.approle_env(), "VAULT_SECRET_ID": "wrong-secret-id"})
    assert not ok and "log in" in error and "wrong-secret" not in error
    vault.sealed = True
    ok, error = check(vault.source, origin, vault.env)
    assert not ok and "sealed" in error
    assert not vault.leases


def test_vault_that_is_not_there_or_does_not_answer(origin, vault):
    with Server(lambda peer: time.sleep(600)) as silent:
        ok, error = check(vault.source, origin, {**vault.env, "VAULT_ADDR": f"http://127.0.0.1:{silent.port}"})
        assert not ok and "in time" in error
        port = silent.port
    ok, error = check(vault.source, origin, {**vault.env, "VAULT_ADDR": f"http://127.0.0.1:{port}"})
    assert not ok and "connect to Vault" in error


@pytest.mark.parametrize("reply", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot json!",
                                   b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
                                   b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
                                   b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n{}",
                                   b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", b""])
def test_nonsense_from_vault(origin, vault, reply):
    def talk(peer):
        peer.recv(65536)
        peer.sendall(reply)
    with Server(talk) as server:
        ok, error = check(vault.source, origin, {**vault.env, "VAULT_ADDR": f"http://127.0.0.1:{server.port}"})
        assert not ok and error


def test_a_chunked_answer(origin, vault):
    def talk(peer):
        peer.recv(65536)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = b'{"data": {"password": "chunked-value-1234"}}'
        for piece in (head, b"5\r\n" + body[:5], b"\r\n%x\r\n" % len(body[5:]), body[5:] + b"\r\n0\r\n\r\n"):
            peer.sendall(piece)
            time.sleep(0.02)
    with Server(talk) as server:
        env = {**vault.env, "VAULT_ADDR": f"http://127.0.0.1:{server.port}"}
        with proxy_for(vault.source, origin, env) as proxy:
            assert request(proxy, origin) == 200 and origin.tokens() == ["chunked-value-1234"]


def with_longer_times(check):
    """A third of its time is left when a lease or a token is renewed. Where a busy machine let that pass, a longer one is tried;
    the last one counts."""
    for seconds in (2, 8):
        try:
            return check(seconds)
        except AssertionError as late:
            print(f"with {seconds} s: {late}")
    return check(40)


def test_a_lease_lives_as_long_as_the_run():
    def check(ttl):
        with vaultlib.Vault(ttl=ttl) as vault, Echo() as origin:
            with proxy_for(vault.source, origin, vault.env) as proxy:
                assert request(proxy, origin) == 200 and origin.tokens() == vault.passwords[:1]
                wait_for(lambda: len(vault.renewed) >= 3, 300, "it is renewed again and again")
                assert len(vault.leases) == 1 and not vault.revoked
                assert request(proxy, origin) == 200 and set(origin.tokens()) == set(vault.passwords)
                proxy.end()
            wait_for(lambda: vault.revoked == vault.leases, what="it is revoked at the end")
            assert not vault.held

    with_longer_times(check)


def test_near_its_longest_time_a_lease_is_replaced(origin):
    with vaultlib.Vault(ttl=2, longest=3) as vault:
        with proxy_for(vault.source, origin, vault.env) as proxy:
            wait_for(lambda: len(vault.leases) >= 2, what="a new secret comes before the old one ends")
            wait_for(lambda: request(proxy, origin) == 200 and origin.tokens()[-1] == vault.passwords[-1], what="and is used")
        wait_for(lambda: not vault.held, what="none stays")


def test_a_lease_that_cannot_be_renewed_is_replaced(origin):
    with vaultlib.Vault(ttl=2, renewable=False) as vault:
        with proxy_for(vault.source, origin, vault.env) as proxy:
            wait_for(lambda: len(vault.leases) >= 2, what="a new secret comes")
            wait_for(lambda: request(proxy, origin) == 200 and origin.tokens()[-1] == vault.passwords[-1], what="and is used")
        wait_for(lambda: not vault.held, what="none stays")


def test_C10_a_lease_that_is_lost_ends_the_use(origin):
    with vaultlib.Vault(ttl=2) as vault:
        with proxy_for(vault.source, origin, vault.env) as proxy:
            wait_for(lambda: request(proxy, origin) == 200, what="control")
            vault.sealed = True
            wait_for(lambda: request(proxy, origin) != 200, what="no use after the end of the lease")
            sent = len(origin.tokens())
            assert request(proxy, origin) != 200 and len(origin.tokens()) == sent
            vault.sealed = False
            wait_for(lambda: request(proxy, origin) == 200, what="it comes back with Vault")


@pytest.mark.parametrize("how", ["polite", "closed", "killed"])
@pytest.mark.parametrize("login", [False, True], ids=["token", "approle"])
def test_C09_the_lease_is_revoked_whoever_dies(origin, vault, how, login):
    env = vault.approle_env() if login else vault.env
    with proxy_for(vault.source, origin, env) as proxy:
        assert len(vault.held) == 1, "control: it is held"
        if how == "polite":
            proxy.end()
        elif how == "closed":
            proxy.control.close()
        else:
            os.kill(proxy.pid, signal.SIGKILL)
        wait_for(lambda: vault.revoked == vault.leases, what="the lease is revoked")
        assert not vault.held
        if login:
            wait_for(lambda: len(vault.token_revoked) == 1, what="the token of the login as well")
            assert set(vault.tokens) == {vault.root}


def test_a_login_without_the_right_to_revoke_takes_its_leases_along(origin, vault):
    vault.refused = ["sys/leases/revoke"]
    with proxy_for(vault.source, origin, vault.approle_env()):
        assert len(vault.held) == 1
    wait_for(lambda: not vault.held and vault.revoked == vault.leases, what="revoked with its token")


def test_the_token_of_a_login_is_renewed(origin):
    def check(ttl):
        with vaultlib.Vault() as vault:
            vault.token_ttl = ttl
            with proxy_for("vault:secret/data/ci#token", origin, vault.approle_env(), ttl="1s"):
                wait_for(lambda: vault.log.count(("POST", "auth/token/renew-self")) >= 2, 300, "renewed")
            assert vault.log.count(("POST", "auth/approle/login")) == 1

    with_longer_times(check)


def test_a_token_that_cannot_be_renewed_is_replaced_with_its_leases(origin, vault):
    vault.token_ttl, vault.token_renewable = 2, False
    with proxy_for(vault.source, origin, vault.approle_env()) as proxy:
        wait_for(lambda: len(vault.leases) >= 3, what="each login fetches anew")
        wait_for(lambda: request(proxy, origin) == 200 and origin.tokens()[-1] == vault.passwords[-1], what="and that is used")
        assert len(vault.held) <= 2, "what hung on the old token is gone"
    wait_for(lambda: not vault.held and set(vault.tokens) == {vault.root}, what="nothing stays")


def test_a_login_that_vault_has_forgotten_is_made_again(origin, vault):
    with proxy_for("vault:secret/data/ci#token", origin, vault.approle_env(), ttl="1s") as proxy:
        vault.kv["ci"]["token"] = "after-the-second-login"
        vault.tokens = {vault.root: vault.tokens[vault.root]}
        wait_for(lambda: request(proxy, origin) == 200 and origin.tokens()[-1] == "after-the-second-login", what="a new login")


def test_user_and_password_come_from_one_lease(origin, vault):
    both = [secret(f"vault:database/creds/reader#{field}", origin, header=f"X-{field}: {{}}") for field in ("username", "password")]
    for each, name in zip(both, ("USERNAME", "PASSWORD")):
        each["name"], each["placeholder"] = name, PLACEHOLDER[:-1] + str(len(name) % 10)
    with Proxy([f"http://origin.test:{origin.port}=127.0.0.1"], {"secrets": both}, env=vault.env) as proxy:
        assert request(proxy, origin) == 200 and len(vault.leases) == 1
        data = vault.held[vault.leases[0]].data
        assert f"X-username: {data['username']}".encode() in origin.received
        assert f"X-password: {data['password']}".encode() in origin.received


def test_a_namespace(origin):
    with vaultlib.Vault(namespace="team/a") as vault:
        assert check(vault.source, origin, vault.env) == (True, None)
        ok, _ = check(vault.source, origin, {k: v for k, v in vault.env.items() if k != "VAULT_NAMESPACE"})
        assert not ok, "control"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vault")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=vault.test", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_https(origin, certificate):
    with vaultlib.Vault(tls=certificate) as vault:
        env = {**vault.env, "VAULT_CACERT": str(certificate[0])}
        with proxy_for(vault.source, origin, env) as proxy:
            assert request(proxy, origin) == 200 and origin.tokens() == vault.passwords
        wait_for(lambda: vault.revoked == vault.leases, what="revoked over TLS as well")
        by_name = {**env, "VAULT_ADDR": f"https://localhost:{vault.port}"}
        assert check(vault.source, origin, by_name) == (True, None)


def test_https_that_is_not_trusted(origin, certificate, tmp_path):
    with vaultlib.Vault(tls=certificate) as vault:
        before = len(vault.log)
        ok, error = check(vault.source, origin, vault.env)
        assert not ok and "certificate" in error
        other = {**vault.env, "VAULT_CACERT": str(certificate[0]), "VAULT_ADDR": f"https://127.0.0.2:{vault.port}"}
        ok, error = check(vault.source, origin, other)
        assert not ok
        ok, error = check(vault.source, origin, {**vault.env, "VAULT_CACERT": str(tmp_path / "none.pem")})
        assert not ok and "VAULT_CACERT" in error
        assert len(vault.log) == before, "nothing was sent"


# ---- nowhere to be read ----

@pytest.mark.skipif(os.geteuid() != 0, reason="the memory of brig-proxy is root's alone to read")
def test_C07_no_credential_in_environment_arguments_events_or_errors(origin, vault):
    env = vault.approle_env()
    with proxy_for(vault.source, origin, env) as proxy:
        assert request(proxy, origin) == 200, "control: it is in use"
        wanted = [vault.passwords[0], vault.role_id, vault.secret_id, *(t for t in vault.tokens if t != vault.root)]
        for pid in (proxy.pid, *children(proxy.pid)):
            seen = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
            assert not [each for each in wanted if each.encode() in seen]
        event = proxy.event(host="origin.test", verdict="allowed")
        assert not [each for each in wanted if each in str(event) or each in str(proxy.ready)]
