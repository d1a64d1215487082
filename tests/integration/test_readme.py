"""Every command that README.md or a page of docs shows is run, and what it shows as output is compared.

A `console` block is one shell session: `$ ` starts a command, `> ` goes on with it, other lines are the output (stdout
and stderr together). `…` stands for any text within a line; a line that is only `…` stands for any lines. A comment
`<!-- test: cgroup -->` before a block says what the host must have, `<!-- test: no vm -->` which tier it must not have. The session runs in an empty folder that
has brig as build/brig and brig-proxy beside it; as root it runs a second time as an ordinary user.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from users import USER_ID

pytestmark = pytest.mark.everyone

TOP = Path(__file__).resolve().parents[2]
BRIG = Path(os.environ.get("BRIG", TOP / "build" / "brig"))
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
MARK = "--- end of command ---"


def blocks():
    """(needs, text) of each console block, by page and line."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"(?:<!-- test: ([\w ]+) -->\n)?```console\n(.*?)```", text, re.S):
            line = text[: match.start()].count("\n") + 1
            found.append(pytest.param(match.group(1), match.group(2), id=f"{page.stem}-{line}"))
    return found


def commands(block):
    """[(command, [expected lines])]"""
    out = []
    for line in block.splitlines():
        if line.startswith("$ "):
            out.append((line[2:], []))
        elif line.startswith("> ") and not out[-1][1]:
            out[-1] = (out[-1][0] + "\n" + line[2:], [])
        else:
            out[-1][1].append(line)
    return out


def pattern(expected):
    parts = []
    for line in expected:
        if line == "…":
            parts.append(r"(?:.*\n)*")
        else:
            # Columns may be padded differently; how far a line is indented is as it is shown.
            indent = line[:len(line) - len(line.lstrip())]
            parts.append(re.escape(indent) + r"[^\n]*".join(re.escape(p.strip() if "…" in line else p) for p in line[len(indent):].split("…")) + r"\n")
    return "".join(parts)


def as_users():
    if os.getuid() != 0:
        return [pytest.param([], id="self")]
    user = ["setpriv", "--reuid", str(USER_ID), "--regid", str(USER_ID), "--clear-groups", "--"]
    return [pytest.param([], id="root"), pytest.param(user, id="user")]


@pytest.fixture(params=as_users())
def session(request):
    """A folder that has build/brig, and how to start a command as this user."""
    place = Path(tempfile.mkdtemp(prefix="brig-readme-", dir="/var/tmp"))
    place.chmod(0o755)
    (place / "build").mkdir()
    shutil.copy2(BRIG, place / "build" / "brig")
    (place / "build" / "brig").chmod(0o755)
    for name in ("brig-proxy", "brig-daemon", "brig-tls", "brig-unpack", "brig-template.so"):
        shutil.copy2(BRIG.parent / name, place / "build" / name)
        (place / "build" / name).chmod(0o755)
    if request.param:
        os.chown(place, USER_ID, USER_ID)
    yield place, request.param
    shutil.rmtree(place)


def start(session, argv):
    place, prefix = session
    process = subprocess.Popen([*prefix, *argv], cwd=place, env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent",
                                                                         "XDG_STATE_HOME": str(place)},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        raise AssertionError(f"still running after 60 s: {argv}\n{process.communicate(timeout=10)[0]}")


def host_has(session, what):
    report = json.loads(start(session, ["build/brig", "doctor", "--json"]))
    if what.startswith("no "):
        return any(tier["tier"] == what.removeprefix("no ") and not tier["available"] for tier in report["tiers"])
    return any(fact["present"] for fact in report["facts"] if fact["name"].startswith(what))


@pytest.mark.parametrize("needs, block", blocks())
def test_a_page_shows_what_happens(session, needs, block):
    if needs and not host_has(session, needs):
        pytest.skip(f"the page shows a host that has {needs}, for this user")
    steps = commands(block)
    assert steps, "a console block without a command"
    script = "".join(f"{command}\nstatus=$?; echo '{MARK}'; (exit $status)\n" for command, _ in steps)
    text = start(session, ["bash", "-c", script])
    outputs = text.split(MARK + "\n")
    assert len(outputs) == len(steps) + 1, text
    for (command, expected), output in zip(steps, outputs):
        # Said on each run of a user who has no cgroup; the pages show a machine where everybody has one.
        output = re.sub(r"^brig: not held by the kernel, .*\n", "", output, flags=re.MULTILINE)
        assert re.fullmatch(pattern(expected), output), f"$ {command}\n{output}\nthe page says:\n" + "\n".join(expected)


def test_control_a_wrong_output_is_noticed():
    assert not re.fullmatch(pattern(["42"]), "43\n")
    assert not re.fullmatch(pattern(["42"]), "42\n43\n")
    assert re.fullmatch(pattern(["a … c", "…", "end"]), "a b c\nx\ny\nend\n")
    assert commands("$ one\n> two\nout\n$ three\n") == [("one\ntwo", ["out"]), ("three", [])]


def test_there_is_something_to_test():
    pages = [block.id.rsplit("-", 1)[0] for block in blocks()]
    assert pages.count("README") >= 4 and {"tour", "tiers", "faq"} <= set(pages)


@pytest.mark.parametrize("document", sorted(p.relative_to(TOP).as_posix() for p in
                                            [*TOP.glob("*.md"), *TOP.glob("docs/**/*.md")]))
def test_links_lead_somewhere(document):
    path = TOP / document
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        if not (path.parent / target.split("#")[0]).exists():
            broken.append(target)
    assert not broken
