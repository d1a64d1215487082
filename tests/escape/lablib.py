"""The escape tests that need a network: brig inside the lab, scripts inside brig, and the search for secrets."""

import base64
import json
import os
import secrets
import urllib.parse

import pytest

from escapelib import PLACE, TIERS, USER_ID, Cell

NO_LAB = "the lab's namespaces need root" if os.getuid() != 0 else None
needs_lab = pytest.mark.skipif(NO_LAB is not None, reason=str(NO_LAB))


class _Current:
    lab = None


def set_lab(lab):
    _Current.lab = lab


def current():
    return _Current.lab


class Answer:
    """What a script inside put into `out`, and what brig says of the run."""

    def __init__(self, result):
        self.result, self.rc = result, result.rc
        self.brig = result.json
        assert "stdout" in self.brig, f"did not run: rc={result.rc} {result.out[:1000]} {result.err[:1000]}"
        try:
            self.out = json.loads(self.brig["stdout"])
        except ValueError:
            raise AssertionError(f"the script gave no answer: rc={result.rc} {self.brig['stdout'][-500:]!r} "
                                 f"{self.brig['stderr'][-1500:]!r} {result.err[-500:]!r}")
        assert self.brig["exit_code"] == 0, f"the script failed: {self.brig['stderr'][-1500:]}"

    def __getitem__(self, key):
        return self.out[key]

    @property
    def denials(self):
        return [d for d in self.brig["denials"] if d["boundary"] in ("network", "credentials")]

    def audited(self, *words):
        """Is there a denial that mentions all of these?"""
        return any(all(w in json.dumps(d) for w in words) for d in self.denials)


class LabCell(Cell):
    """A cell of the matrix whose brig runs in the lab."""

    def prefix(self):
        return [*current().enter(PLACE.base), *super().prefix()]

    def script(self, code, options=(), arguments=(), **more):
        """Run a Python script inside that uses netprobe."""
        return Answer(self.run(self.script_command(code, arguments), [*options], **more))

    def script_command(self, code, arguments=()):
        return ["/usr/bin/python3", "-c", script_text(code), *arguments]


def script_text(code):
    return f"import sys\nsys.path.insert(0, {str(PLACE.attacks)!r})\nsys.dont_write_bytecode = True\nfrom netprobe import *\n{code}"


def control_script(code, arguments=(), user=None, **more):
    """The same script in the lab without brig."""
    done = current().run("/usr/bin/python3", "-c", script_text(code), *arguments,
                         user=USER_ID if user == "user" else None, **more)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"the control gave no answer: {done.stdout[-500:]!r} {done.stderr[-1500:]!r}")


LAB_TIERS = [LabCell(c.user, c.tier) for c in TIERS]
LAB_CONTAINERS = [c for c in LAB_TIERS if c.container]
LAB_ONE_EACH = [LabCell("user", "container"), LabCell("root", "process")]


def lab_cells(which=None):
    mark = pytest.mark.parametrize("cell", which or LAB_TIERS, ids=lambda c: c.id)
    return lambda function: needs_lab(mark(function))


def policy(text):
    """A policy file that every caller can read."""
    path = PLACE.folder("policy") / "policy.yaml"
    path.write_text(text)
    path.chmod(0o644)
    return ["--policy", str(path)]


def secret_file(value, user="root", mode=0o600):
    """A file that holds a secret, owned by the caller."""
    folder = PLACE.folder("keys", mode=0o755)
    path = folder / "value"
    path.write_bytes(value if isinstance(value, bytes) else value.encode())
    path.chmod(mode)
    if user == "user":
        os.chown(path, USER_ID, USER_ID)
    return path


# ---- SECRET ----

def new_secret(prefix="s3cr"):
    """Long, unique, and with bytes that every encoding changes."""
    return f"{prefix}-{secrets.token_hex(8)}/+&=\"{secrets.token_hex(8)}"


def shapes(secret):
    """{name: bytes}: every form of it that the oracle looks for."""
    raw = secret.encode()
    out = {"raw": raw, "reversed": raw[::-1], "hex": raw.hex().encode(), "HEX": raw.hex().upper().encode(),
           "url": urllib.parse.quote(secret, safe="").encode(), "url-plus": urllib.parse.quote_plus(secret).encode(),
           "url-lower": urllib.parse.quote(secret, safe="").replace("%2F", "%2f").replace("%2B", "%2b").encode(),
           "json": json.dumps(secret)[1:-1].encode(), "json-slash": json.dumps(secret)[1:-1].replace("/", "\\/").encode(),
           "utf-16": secret.encode("utf-16-le"),
           "first half": raw[:len(raw) // 2], "second half": raw[len(raw) // 2:]}
    for shift in range(3):
        # The part of the base64 text that does not depend on the neighbours.
        text = base64.b64encode(b"\0" * shift + raw)
        inner = text[4 if shift else 0:len(text) - 4]
        out[f"base64+{shift}"] = inner
        out[f"base64url+{shift}"] = inner.replace(b"+", b"-").replace(b"/", b"_")
    return out


def find_secret(data, secret):
    """The names of the forms in which the secret stands in these bytes."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    elif not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return sorted({name for name, shape in shapes(secret).items() if shape in data})


def memory_of(pid, limit=256 << 20):
    """Everything that can be read of a task's memory, with its environment and arguments."""
    pieces = []
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as f:
                pieces.append(f.read())
        except OSError:
            pass
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                span, mode = line.split()[:2]
                first, last = (int(x, 16) for x in span.split("-"))
                if "r" not in mode or last - first > limit or "[vvar" in line or "[vsyscall" in line:
                    continue
                try:
                    mem.seek(first)
                    pieces.append(mem.read(last - first))
                except (OSError, ValueError, OverflowError):
                    pass
    except OSError:
        pass
    return b"\0".join(pieces)
