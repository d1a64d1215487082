"""A stand-in for HashiCorp Vault, which Debian does not carry: the parts of its HTTP API that brig uses, with their rules.
Tokens and AppRole logins, KV version 2, dynamic secrets with leases that run out, renewal up to a longest time, revocation
(of a lease, and of a token with everything that hangs on it), policies, namespaces.

    vault = Vault()                    # http; Vault(tls=(certificate, key)) for https
    vault.env                          # VAULT_ADDR and VAULT_TOKEN; vault.approle_env() for a login
    vault.source                       # "vault:database/creds/reader#password"
    vault.leases, vault.revoked        # ids, in the order in which it happened
"""
import http.server
import json
import secrets
import ssl
import threading
import time


class Lease:
    def __init__(self, path, token, ttl, longest, data):
        self.id = f"{path}/{secrets.token_hex(12)}"
        self.token, self.ttl, self.data = token, ttl, data
        self.born = time.monotonic()
        self.longest = self.born + longest
        self.end = self.born + ttl

    def renew(self, increment):
        """Counts from now, and never goes past the longest time."""
        self.end = min(time.monotonic() + (increment or self.ttl), self.longest)


class Token:
    def __init__(self, text, ttl=0, renewable=False, refused=()):
        self.text, self.ttl, self.renewable, self.refused = text, ttl, renewable, tuple(refused)
        self.end = time.monotonic() + ttl if ttl else None

    def alive(self):
        return self.end is None or time.monotonic() < self.end


class Denied(Exception):
    def __init__(self, status, *errors):
        self.status, self.errors = status, errors


class Vault:
    def __init__(self, tls=None, address="127.0.0.1", namespace=None, ttl=60, longest=3600, renewable=True):
        self.lock = threading.RLock()
        self.namespace, self.ttl, self.longest, self.renewable = namespace, ttl, longest, renewable
        self.sealed = False
        self.token_ttl, self.token_renewable = 600, True
        self.refused = []       # paths that new tokens have no right to
        self.log = []           # (method, path), in order
        self.bodies = []
        self.held = {}          # id: Lease
        self.leases, self.revoked, self.renewed = [], [], []
        self.passwords = []     # of every dynamic secret that was made
        root = Token("hvs." + secrets.token_urlsafe(24))
        self.root = root.text
        self.tokens = {root.text: root}
        self.token_revoked = []
        self.role_id, self.secret_id = secrets.token_hex(16), secrets.token_hex(16)
        self.kv = {"ci": {"token": "kv-" + secrets.token_urlsafe(20), "number": 1234567890}}
        self.deleted = set()
        self.server = http.server.ThreadingHTTPServer((address, 0), self.handler())
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*map(str, tls))
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.address = f"{'https' if tls else 'http'}://{address}:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    source = "vault:database/creds/reader#password"

    @property
    def env(self):
        more = {"VAULT_NAMESPACE": self.namespace} if self.namespace else {}
        return {"VAULT_ADDR": self.address, "VAULT_TOKEN": self.root, **more}

    def approle_env(self):
        return {"VAULT_ADDR": self.address, "VAULT_ROLE_ID": self.role_id, "VAULT_SECRET_ID": self.secret_id}

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # ---- what a request means ----

    def call(self, method, path, headers, body):
        with self.lock:
            self.log.append((method, path))
            self.bodies.append(body)
            if self.sealed:
                raise Denied(503, "Vault is sealed")
            if headers.get("X-Vault-Namespace") != self.namespace:
                raise Denied(404, "no handler for route")
            self.expire()
            if path == "auth/approle/login" and method in ("POST", "PUT"):
                return self.login(body)
            token = self.tokens.get(headers.get("X-Vault-Token"))
            if token is None:
                raise Denied(403, "permission denied")
            if any(path.startswith(prefix) for prefix in token.refused):
                raise Denied(403, "1 error occurred:\n\t* permission denied\n\n")
            return self.authorised(method, path, token, body)

    def authorised(self, method, path, token, body):
        write = method in ("POST", "PUT")
        if path == "auth/token/lookup-self" and method == "GET":
            return self.answer(data={"id": token.text, "ttl": token.ttl, "renewable": token.renewable, "policies": ["default"]})
        if path == "auth/token/renew-self" and write:
            return self.renew_token(token)
        if path == "auth/token/revoke-self" and write:
            return self.revoke_token(token)
        if path == "sys/leases/renew" and write:
            return self.renew(body)
        if path == "sys/leases/revoke" and write:
            return self.revoke(body)
        if path.startswith("secret/data/") and method == "GET":
            return self.read_kv(path.removeprefix("secret/data/"))
        if path.startswith("database/creds/") and method == "GET":
            return self.make_credentials(path, token)
        raise Denied(404)

    def expire(self):
        for token in [each for each in self.tokens.values() if not each.alive()]:
            self.revoke_token(token)
        for lease in [each for each in self.held.values() if each.end <= time.monotonic()]:
            del self.held[lease.id]

    def answer(self, **more):
        return {"request_id": secrets.token_hex(8), "lease_id": "", "renewable": False, "lease_duration": 0, "data": None,
                "wrap_info": None, "warnings": None, "auth": None, **more}

    def auth(self, token):
        return self.answer(auth={"client_token": token.text, "accessor": secrets.token_hex(8), "policies": ["default"],
                                 "lease_duration": token.ttl, "renewable": token.renewable, "token_type": "service"})

    def login(self, body):
        if (body.get("role_id"), body.get("secret_id")) != (self.role_id, self.secret_id):
            raise Denied(400, "invalid role or secret ID")
        token = Token("hvs." + secrets.token_urlsafe(24), self.token_ttl, True, self.refused)
        self.tokens[token.text] = token
        return self.auth(token)

    def renew_token(self, token):
        if not token.renewable or not self.token_renewable:
            raise Denied(400, "lease is not renewable")
        token.end = time.monotonic() + token.ttl
        return self.auth(token)

    def revoke_token(self, token):
        del self.tokens[token.text]
        self.token_revoked.append(token.text)
        for lease in [each for each in self.held.values() if each.token is token]:
            self.end_lease(lease)

    def end_lease(self, lease):
        del self.held[lease.id]
        self.revoked.append(lease.id)

    def read_kv(self, name):
        if name not in self.kv:
            raise Denied(404)
        metadata = {"created_time": "2024-01-01T00:00:00Z", "deletion_time": "", "destroyed": False, "version": 1,
                    "custom_metadata": None}
        if name in self.deleted:
            raise Denied(404, {"data": None, "metadata": metadata})
        return self.answer(data={"data": self.kv[name], "metadata": metadata})

    def make_credentials(self, path, token):
        data = {"username": f"v-{secrets.token_hex(6)}", "password": "dyn-" + secrets.token_urlsafe(20)}
        lease = Lease(path, token, self.ttl, self.longest, data)
        self.held[lease.id] = lease
        self.leases.append(lease.id)
        self.passwords.append(data["password"])
        return self.answer(lease_id=lease.id, lease_duration=int(lease.ttl), renewable=self.renewable, data=data)

    def renew(self, body):
        lease = self.held.get(body.get("lease_id"))
        if lease is None:
            raise Denied(400, "lease not found")
        if not self.renewable:
            raise Denied(400, "lease is not renewable")
        lease.renew(body.get("increment"))
        self.renewed.append(lease.id)
        return self.answer(lease_id=lease.id, renewable=True, lease_duration=int(lease.end - time.monotonic() + 0.5))

    def revoke(self, body):
        lease = self.held.get(body.get("lease_id"))
        if lease is not None:  # Vault does not mind one that is gone
            self.end_lease(lease)

    # ---- HTTP ----

    def handler(vault):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                length = int(self.headers.get("Content-Length") or 0)
                text = self.rfile.read(length)
                try:
                    if not self.path.startswith("/v1/"):
                        raise Denied(404)
                    result = vault.call(self.command, self.path.removeprefix("/v1/"), self.headers, json.loads(text or b"{}"))
                    self.reply(200 if result is not None else 204, result)
                except Denied as denied:
                    self.reply(denied.status, {"errors": list(denied.errors)})

            do_GET = do_POST = do_PUT = serve

            def reply(self, status, result):
                data = json.dumps(result).encode() if result is not None else b""
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Cache-Control", "no-store")
                if status != 204:
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass
        return Handler
