"""The command line from outside: help that teaches, mistakes that are refused with a sentence that helps.

BRIG names the program under test; without it, build/brig.
"""
import contextlib
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BRIG = os.environ.get("BRIG", str(TOP / "build" / "brig"))
MAN = TOP / "docs" / "man"
RAN = ["--", "sh", "-c", "echo RAN"]


def brig(*args, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    if "input" in kwargs:
        del kwargs["stdin"]
    return subprocess.run([BRIG, *map(str, args)], capture_output=True, text=True, timeout=60, **kwargs)


def refused(result, *parts):
    assert result.returncode == 125, result
    assert "RAN" not in result.stdout
    assert result.stderr.startswith("brig: "), result.stderr
    for part in parts:
        assert part in result.stderr, result.stderr


def test_control_the_command_of_the_refusals_runs():
    result = brig("run", *RAN)
    assert (result.returncode, result.stdout) == (0, "RAN\n"), result


# ---- help ----

VERBS = [
    [],
    ["run"],
    ["diff"],
    ["apply"],
    ["discard"],
    ["audit"],
    ["audit", "tail"],
    ["audit", "show"],
    ["audit", "summary"],
    ["audit", "verify"],
    ["audit", "export"],
    ["keys"],
    ["keys", "add"],
    ["keys", "list"],
    ["keys", "revoke"],
    ["net"],
    ["oci"],
    *(["oci", verb] for verb in ("create", "start", "state", "kill", "delete", "run", "exec", "ps", "pause", "resume", "update", "events",
                                 "list", "features", "spec")),
    ["proxy"],
    ["secrets"],
    ["secrets", "check"],
    ["init"],
    ["doctor"],
    ["verify"],
    ["policy"],
    ["policy", "show"],
    ["policy", "check"],
    ["policy", "explain"],
    ["policy", "choose"],
    ["policy", "presets"],
    ["completion"],
    ["help"],
]
IDS = [" ".join(v) or "brig" for v in VERBS]


@pytest.mark.parametrize("verb", VERBS, ids=IDS)
def test_every_verb_has_help_that_fits_a_terminal(verb):
    result = brig(*verb, "--help")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "Usage:" in result.stdout and "Examples:" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "\033" not in result.stdout


@pytest.mark.parametrize("verb", VERBS, ids=IDS)
def test_help_verb_says_the_same_as_the_option(verb):
    assert brig("help", *verb).stdout == brig(*verb, "--help").stdout
    assert brig(*verb, "-h").stdout == brig(*verb, "--help").stdout


def test_help_runs_nothing():
    result = brig("run", "--help", *RAN)
    assert result.returncode == 0 and "RAN" not in result.stdout


def test_help_for_run_tells_the_exit_statuses():
    text = brig("run", "--help").stdout
    for status in ("124", "125", "126", "127", "128+N"):
        assert status in text


def test_help_finds_commands_and_options_by_a_word():
    found = brig("help", "MEMORY").stdout
    assert "brig run --memory" in found and found.count("--memory ") == 1, "each option once"
    assert "brig net" in brig("help", "network").stdout
    assert "brig keys add" in brig("help", "api", "key").stdout
    assert "brig policy presets" in brig("help", "preset").stdout
    assert "brig run --uid" in brig("help", "root").stdout
    assert "brig run --allow" in brig("help", "network").stdout
    for asked, said in (("internet", "run --allow"), ("dns", "run --resolver"), ("apt", "run --writable-root"), ("ubuntu", "image pull"),
                        ("websocket", "serve"), ("mount", "run --ro"), ("password", "run --secret"), ("kubernetes", "oci create")):
        assert f"brig {said}" in brig("help", asked).stdout, asked
    assert max(len(line) for line in found.splitlines()) <= 80
    nothing = brig("help", "nonesuch-word")
    assert nothing.returncode == 125 and nothing.stdout == "" and "nonesuch-word" in nothing.stderr and "brig --help" in nothing.stderr
    assert "brig help frobnicate" in brig("frobnicate").stderr


@pytest.mark.parametrize("files, presets", [
    ([], []), (["requirements.txt", "setup.py", "poetry.lock", ".git"], ["@pypi"]), (["pnpm-lock.yaml"], ["@npm"]), (["package.json", "yarn.lock"], ["@npm", "@yarn"]),
    (["Cargo.toml", "go.mod", "build.gradle", "pom.xml"], ["@crates", "@go", "@maven", "@gradle"]), (["composer.json", ".git"], ["@packagist", "@github"]),
])
def test_init_writes_a_policy_for_the_project(tmp_path, files, presets):
    for name in files:
        (tmp_path / name).write_text("")
    def init(*args):
        return subprocess.run([BRIG, "init", *args], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    made = init()
    path = tmp_path / "brig-policy.yaml"
    assert made.returncode == 0 and made.stdout == "" and "brig run --policy brig-policy.yaml" in made.stderr
    assert all(name in made.stderr for name in files if name != ".git")
    assert path.read_text() == init("-").stdout and sum(line.startswith("#") for line in path.read_text().splitlines()) > 8
    assert brig("policy", "check", path).returncode == 0
    shown = brig("policy", "explain", "--policy", path).stdout
    assert set(re.findall(r"\(of (@\w+)\)", shown)) == set(presets)
    text = path.read_text()
    again = init()
    assert again.returncode == 125 and "is there already" in again.stderr and "brig init FILE" in again.stderr and path.read_text() == text
    assert init("other.yaml").returncode == 0 and brig("policy", "check", tmp_path / "other.yaml").returncode == 0
    (tmp_path / "link.yaml").symlink_to(tmp_path / "elsewhere")
    assert init("link.yaml").returncode == 125 and not (tmp_path / "elsewhere").exists()
    assert init("a", "b").returncode == 125 and not (tmp_path / "a").exists()


def test_no_arguments_is_a_mistake_with_help():
    result = brig()
    assert result.returncode == 125
    assert result.stdout == "" and "Usage:" in result.stderr


def test_version():
    for option in ("--version", "-V"):
        result = brig(option)
        assert result.returncode == 0
        assert re.fullmatch(r"brig \d+\.\d+\.\d+\n", result.stdout)


def all_of(leader):
    """What was written to a terminal that nobody writes to any more; it comes in pieces."""
    text = b""
    with open(leader, "rb", buffering=0) as terminal:
        with contextlib.suppress(OSError):  # the end
            while piece := terminal.read(65536):
                text += piece
    return text.decode()


def test_colour_only_on_a_terminal_that_wants_it():
    def on_terminal(**env):
        leader, follower = pty.openpty()
        subprocess.run([BRIG, "--help"], stdout=follower, env={"TERM": "xterm", **env}, check=True)
        os.close(follower)
        return all_of(leader)

    assert "\033[1m" in on_terminal()
    assert "\033" not in on_terminal(NO_COLOR="1")
    assert "\033" not in on_terminal(TERM="dumb")


def test_serve_tells_a_person_which_names_are_not_found(tmp_path):
    """Only in a terminal, and only where the machine has nothing that would find them."""
    hosts = [line for line in Path("/etc/nsswitch.conf").read_text().splitlines() if line.startswith("hosts:")]
    missing = not any(word in line for line in hosts for word in ("myhostname", "resolve"))
    for more, said in (([], missing), (["--domain", "sandboxes.test"], False)):
        leader, follower = pty.openpty()
        state = tmp_path / f"state{len(more)}"
        serve = subprocess.Popen([BRIG, "serve", "--state", state, "--socket", tmp_path / "s", "--listen", "127.0.0.1:0", *more],
                                 stdout=subprocess.PIPE, stderr=follower, text=True)
        os.close(follower)
        try:
            assert "ready on" in serve.stdout.readline()
        finally:
            serve.terminate()
            serve.communicate(timeout=300)
        text = all_of(leader)
        assert "API key" in text and ("libnss-myhostname" in text) == said, text


# ---- mistakes ----

@pytest.mark.parametrize(
    "options, parts",
    [
        (["--bogus"], ["unknown option --bogus", "brig run --help"]),
        (["--memroy", "1G"], ["unknown option --memroy", "did you mean --memory?"]),
        (["-memory", "1G"], ["--memory"]),
        (["-Z"], ["unknown option -Z"]),
        (["--user", "root"], ["unknown option --user", "one user", "--uid 0"]),
        (["-u", "0"], ["unknown option -u", "--uid 0"]),
        (["--volume", "/tmp:/x"], ["--rw DIR:PLACE"]),
        (["--network=host"], ["--allow HOST", "brig policy presets"]),
        (["-it"], ["-t gives it a terminal"]),
        (["--privileged"], ["brig policy explain"]),
        (["--json=yes"], ["--json takes no value"]),
        (["-m", "12q"], ["--memory", "12q", "256M"]),
        (["-m", "-1"], ["--memory"]),
        (["-m", "0"], ["--memory"]),
        (["-m="], ["--memory"]),
        (["-m", ""], ["--memory needs a value"]),
        (["--timeout", "soon"], ["--timeout", "30s"]),
        (["--timeout", "1e400s"], ["--timeout"]),
        (["--cpus", "many"], ["--cpus"]),
        (["--pids", "1.5"], ["--pids"]),
        (["--pids", "99999999999999999999999999"], ["--pids"]),
        (["--disk", "1Q"], ["--disk"]),
        (["--inodes", "x"], ["--inodes"]),
        (["--output", "x"], ["--output"]),
        (["--open-files", "x"], ["--open-files"]),
        (["--cpu-time", "x"], ["--cpu-time"]),
        (["--uid", "root"], ["--uid"]),
        (["--cwd", "relative"], ["--cwd", "absolute"]),
        (["--level", "hihg"], ["low, medium, high or critical", "did you mean --level high?"]),
        (["--tier", "moon"], ["process, wasm-process, container, wasm, gvisor or vm"]),
        (["--unix-sockets", "maybe"], ["off, auto or require"]),
        (["--ro", "/no/such/folder"], ["/no/such/folder", "No such file"]),
        (["--rw", "no-such-folder"], ["no-such-folder", "No such file"]),
        (["--ro", "/dev/null"], ["/dev/null", "not a folder or file"]),
        (["--ro", ":/x"], ["DIR"]),
        (["--ro", "/usr:relative"], ["relative"]),
        (["--root", "/no/such/root"], ["--root", "No such file"]),
        (["--root", "/etc/passwd"], ["--root", "not a folder"]),
        (["-e", "BRIG_TEST_NOT_SET"], ["BRIG_TEST_NOT_SET", "not set"]),
        (["-e", "1A=x"], ["--env", "1A"]),
        (["-e", "=x"], ["--env"]),
        (["--policy", "/no/such/policy"], ["/no/such/policy", "No such file", "`brig init`"]),
        (["--policy", "/"], ["not a regular file"]),
        (["--policy", "/dev/zero"], ["not a regular file"]),
        (["--lang", "pyton"], ["did you mean --lang python?"]),
        (["--project", "."], ["--project", "--level medium"]),
        (["--level", "medium", "--project", "/no/such"], ["/no/such"]),
        (["--level", "medium", "--project", "/etc/passwd"], ["not a folder"]),
        (["--allow", ""], ["--allow needs a value"]),
        (["--allow", "*"], ["--allow", "a star stands only for whole parts"]),
        (["--allow", "x.org:0"], ["--allow", "x.org:0", "1 to 65535"]),
        (["--allow", "ftp://x.org"], ["--allow", "http, https, tcp or any"]),
        (["--allow", "x.org=localhost"], ["--allow", "not an address"]),
        (["--block", "x.org:443"], ["--block", "x.org:443"]),
        (["--upload", "0"], ["--upload"]),
        (["--max-connections", "unlimited"], ["--max-connections"]),
        (["--requests", "x"], ["--requests"]),
        (["--resolver", "dns.example.org"], ["--resolver", "9.9.9.9"]),
        (["--secret", "TOKEN=env:TOKEN"], ["--secret", "NAME=SOURCE@https://HOST"]),
        (["--secret", "TOKEN=x@https://x.org"], ["--secret", "env:NAME, file:/PATH"]),
        # what contradicts
        (["--allow", "x.org:22", "--allow", "x.org:22=10.0.0.1"], ["--allow", "without an address"]),
        (["--secret", "A=env:A@https://x.org", "--secret", "A=env:B@https://x.org"], ["--secret", "given before"]),
        (["-e", "A=1", "--secret", "A=env:A@https://x.org"], ["A is both in credentials.env"]),
        (["-m", "1G", "--memory=2G"], ["--memory", "contradict", "1G", "2G"]),
        (["--level", "high", "--level", "low"], ["contradict"]),
        (["--json", "-t"], ["--json", "--tty", "contradict"]),
        (["-q", "-v"], ["contradict"]),
        (["-e", "A=1", "-e", "A=2"], ["A"]),
        (["--ro", "/usr:/x", "--rw", "/etc:/x"], ["/x"]),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else None,
)
def test_bad_input_is_refused_and_nothing_is_run(options, parts):
    refused(brig("run", *options, *RAN), *parts)


@pytest.mark.parametrize("option", ["--memory", "-m", "--timeout", "--level", "--ro", "-e", "--policy"])
def test_a_missing_value_is_refused(option):
    refused(brig("run", option), "needs a value")
    refused(brig("run", option, *RAN), "needs a value")


def test_a_template_as_first_word_is_told_how():
    """As E2B's clients name it. It needs no daemon to be told."""
    told = brig("create", "--host", "http://127.0.0.1:9", "python", env={**os.environ, "BRIG_API_KEY": "e2b_00"})
    assert told.returncode == 125 and "'python'" in told.stderr.replace('"', "'") and "brig create --template" in told.stderr, told


@pytest.mark.parametrize("line", [["create", "--user", "root"], ["create", "-u", "root"]])
def test_another_user_is_refused_in_words(line):
    told = brig(*line)
    assert told.returncode == 125 and "one user" in told.stderr and "kernel: {uid: 0}" in told.stderr, told


def test_no_command_is_refused():
    refused(brig("run"), "no command given")
    refused(brig("run", "--"), "no command given")
    refused(brig("run", "--", ""), "empty")


def test_unknown_commands_are_refused_with_the_nearest():
    refused(brig("rnu"), "brig run")
    refused(brig("frobnicate"), "brig --help")
    refused(brig("policy", "chekc", "x"), "brig policy check")
    refused(brig("help", "frobnicate"), "frobnicate")
    refused(brig("--frobnicate"), "--frobnicate")
    refused(brig("completion", "tcsh"), "bash, zsh or fish")
    refused(brig("completion"), "bash, zsh or fish")
    refused(brig("doctor", "now"), "now")


def test_the_same_value_twice_does_not_contradict():
    assert brig("run", "--level", "high", "--level=high", *RAN).returncode == 0


def test_options_after_the_command_belong_to_it():
    assert brig("run", "echo", "--json", "--bogus").stdout == "--json --bogus\n"
    assert brig("run", "--", "echo", "--", "-m").stdout == "-- -m\n"


def test_tty_needs_a_terminal():
    refused(brig("run", "-t", *RAN), "not a terminal")


def test_messages_cannot_command_the_terminal():
    result = brig("run", "--policy", "\033]0;x\007", *RAN)
    refused(result)
    assert "\033" not in result.stderr and "\007" not in result.stderr


def test_critical_is_refused_with_the_reason():
    refused(brig("run", "--level", "critical", *RAN), "vm")


def test_a_colon_in_the_current_folder_grants_nothing_else(tmp_path):
    """src: taken for a folder, /etc for the place of the grant: half a name is another folder."""
    (tmp_path / "src" / "data").mkdir(parents=True)
    folder = tmp_path / "src:" / "etc"
    (folder / "data").mkdir(parents=True)
    refused(brig("run", "--ro", "data", *RAN, cwd=folder), "colon")
    refused(brig("run", "--rw", ".", *RAN, cwd=folder), "colon")


# ---- errors for programs ----

@pytest.mark.parametrize(
    "args",
    [
        ["run", "--json", "--bogus", *RAN],
        ["run", "--bogus", "--json", *RAN],
        ["run", "--json", "-m", "12q", *RAN],
        ["run", "--pretty", "--ro", "/no/such", *RAN],
        ["doctor", "--json", "now"],
        ["policy", "check", "--json", "/no/such"],
        ["policy", "show", "--json", "-m", "x"],
        ["net", "--json", "brig-0"],
        ["net", "--json", "--allow", "x.org"],
        ["proxy", "--json"],
        ["secrets", "check", "--json"],
    ],
    ids=" ".join,
)
def test_who_asked_for_json_gets_errors_as_json(args):
    result = brig(*args)
    assert result.returncode == 125
    error = json.loads(result.stdout)["error"]
    assert set(error) == {"code", "boundary", "message", "hint"}
    assert error["message"] in result.stderr
    assert result.stdout.count("\n") == 1


def test_an_option_of_the_command_is_not_ours():
    result = brig("run", "--", "/no/such/program", "--json")
    assert result.returncode == 127
    assert result.stdout == ""


# ---- policy files ----

def policy_file(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text, place",
    [
        ("lifecycle:\n  memory: 12q\n", ":2:"),
        ("lifecycle:\n  memroy: 1G\n", ":2:"),
        ("lifecycle:\n  memory: 1G\n  memory: 2G\n", ":3:"),
        ("level: 7\n", ":1:"),
        ('{"level": "high", "level": "low"}', ":1:"),
        ('{"level": "high"', ":1:"),
        ("level: [high]\n", ":1:"),
        ("a: &x 1\n", ":1:"),
        ("\x00", ":1:"),
        ("network:\n  allow:\n", ":2:"),
        ("network:\n  allow: x.org\n", ":2:"),
        ("network:\n  allow:\n    - host: x.org\n      methods: []\n", ":4:"),
        ("network:\n  allwo: [x.org]\n", ":2:"),
        ("credentials:\n  secrets:\n    - name: T\n", ":3:"),
    ],
)
def test_a_bad_policy_is_refused_with_its_place(tmp_path, text, place):
    path = policy_file(tmp_path, text)
    for args in (["run", "--policy", path, *RAN], ["policy", "check", path]):
        result = brig(*args)
        refused(result, f"{path}{place}")
        assert re.search(r":\d+:\d+: ", result.stderr)


def test_a_policy_larger_than_a_mebibyte_is_refused(tmp_path):
    path = policy_file(tmp_path, "#" * (1024 * 1024 + 1))
    refused(brig("run", "--policy", path, *RAN), "1 MiB")


def test_a_fifo_is_no_policy(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    refused(brig("run", "--policy", tmp_path / "fifo", *RAN), "not a regular file")


def test_policy_check_tells_level_and_hash(tmp_path):
    path = policy_file(tmp_path, "level: medium\n")
    result = brig("policy", "check", path)
    assert result.returncode == 0
    assert re.fullmatch(rf"{re.escape(str(path))}: ok \(level medium, sha256:[0-9a-f]{{64}}\)\n", result.stdout)
    report = json.loads(brig("policy", "check", "--json", path).stdout)
    assert report["ok"] is True and report["level"] == "medium"


def field(report, path):
    for name in path.split("."):
        report = report[name]
    return report


def test_options_count_more_than_the_file_and_the_file_more_than_the_level(tmp_path):
    path = policy_file(tmp_path, "level: medium\nlifecycle:\n  memory: 64M\n  pids: 7\n")
    show = json.loads(brig("policy", "show", "--json", "--policy", path, "--pids", "9").stdout)
    assert show["level"] == "medium"
    assert field(show, "lifecycle.pids") in (9, "9")
    assert field(show, "lifecycle.memory") in ("64M", 64 << 20)
    assert json.loads(brig("policy", "show", "--json", "--policy", path, "--level", "high").stdout)["level"] == "high"


def test_policy_show_prints_a_policy_file(tmp_path):
    for extra in ([], ["--json"]):
        text = brig("policy", "show", "--level", "medium", "-m", "64M", *extra).stdout
        path = policy_file(tmp_path, text)
        assert brig("policy", "check", path).returncode == 0
        assert brig("policy", "show", "--policy", path, *extra).stdout == text


def test_presets_are_short_names_for_rules(tmp_path):
    """On the command line and in a file; what is in force are the rules, and explain says whose they are."""
    listed = {p["name"]: p for p in json.loads(brig("policy", "presets", "--json").stdout)["presets"]}
    assert {"@pypi", "@npm", "@debian", "@github", "@crates", "@go"} <= set(listed)
    text = brig("policy", "presets").stdout
    for preset in listed.values():
        assert preset["name"] in text and preset["for"] in text
        shown = brig("policy", "explain", "--allow", preset["name"])
        assert shown.returncode == 0, shown
        for rule in preset["allow"]:
            assert rule.split("://")[-1] in shown.stdout
        assert f"(of {preset['name']})" in shown.stdout
    path = tmp_path / "p.yaml"
    path.write_text('network:\n  allow:\n    - "@pypi"\n    - "@npm"\n    - "@yarn"\n    - {host: pypi.org, scheme: https, methods: [GET]}\n')
    rules = [line for line in brig("policy", "explain", "--policy", path).stdout.splitlines() if "pypi.org" in line]
    assert len(rules) == 1 and "GET https://pypi.org:443" in rules[0] and "@pypi" not in rules[0], "one's own rule stands"
    shown = brig("policy", "show", "--policy", path).stdout
    assert "@" not in shown and "files.pythonhosted.org" in shown
    wrong = brig("run", "--allow", "@nonesuch", "--", "true")
    assert wrong.returncode == 125 and "@nonesuch" in wrong.stderr and "@pypi" in wrong.stderr and "brig policy presets" in wrong.stderr
    for spec in ("@", "@pypi:443", "@PYPI", "@pypi=127.0.0.1"):
        assert brig("policy", "show", "--allow", spec).returncode == 125, spec


def test_policy_explain_names_where_values_came_from(tmp_path):
    path = policy_file(tmp_path, "lifecycle:\n  memory: 64M\n")
    text = brig("policy", "explain", "--policy", path, "--pids", "9").stdout
    assert re.search(r"lifecycle\.memory\s+64M\s.*p\.yaml.*2", text)
    assert re.search(r"lifecycle\.pids\s+9\s.*--pids", text)
    json.loads(brig("policy", "explain", "--json").stdout)


def test_policy_show_takes_no_operand():
    refused(brig("policy", "show", "x.yaml"), "--policy x.yaml")


# ---- the project folder ----

def test_a_home_folder_is_never_the_project(tmp_path):
    home = tmp_path / "home" / "me"
    project = home / "project"
    project.mkdir(parents=True)
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    for folder in (home, home.parent, Path("/")):
        refused(brig("run", "--level", "medium", *RAN, cwd=folder, env=env), "--project")
        refused(brig("run", "--level", "medium", "--project", folder, *RAN, cwd=project, env=env))
    refused(brig("run", "--level", "medium", "--project", "..", *RAN, cwd=project, env=env))
    (tmp_path / "link").symlink_to(home)
    refused(brig("run", "--level", "medium", "--project", tmp_path / "link", *RAN, cwd=project, env=env))
    control = brig("run", "--level", "medium", "--plan", *RAN, cwd=project, env=env)
    assert control.returncode == 0, control


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc", "/tmp", "/home", "/root"])
def test_a_system_folder_is_never_the_project(folder):
    env = {"PATH": os.environ["PATH"]}
    refused(brig("run", "--level", "medium", "--project", folder, *RAN, env=env))


# ---- code by stdin ----

PROGRAMS = {
    "python": ("python3", "import sys; print(6*7, *sys.argv[1:])"),
    "bash": ("bash", 'echo $((6*7)) "$@"'),
    "sh": ("sh", 'echo $((6*7)) "$@"'),
    "node": ("node", "console.log(6*7, ...process.argv.slice(2))"),
    "perl": ("perl", 'print join(" ", 6*7, @ARGV), "\\n"'),
    "ruby": ("ruby", 'puts [6*7, *ARGV].join(" ")'),
    "lua": ("lua", 'print(6*7 .. " " .. table.concat(arg, " "))'),
    "php": ("php", '<?php echo implode(" ", [6*7, ...array_slice($argv, 1)]), "\\n";'),
    "tcl": ("tclsh", 'puts "[expr {6*7}] [lrange $argv 1 end]"'),
}


def installed(program):
    return any(os.access(f"{folder}/{program}", os.X_OK) for folder in ("/usr/local/bin", "/usr/bin", "/bin"))


@pytest.mark.parametrize("lang", PROGRAMS)
def test_code_runs_from_stdin_and_from_a_file(lang, tmp_path):
    program, code = PROGRAMS[lang]
    if not installed(program):
        pytest.skip(f"{program} is not installed")
    result = brig("run", "--lang", lang, "-", "--", "a", "-b", input=code)
    assert (result.returncode, result.stdout) == (0, "42 a -b\n"), result
    (tmp_path / "code").write_text(code)
    result = brig("run", "--lang", lang, tmp_path / "code", "--", "a")
    assert (result.returncode, result.stdout) == (0, "42 a\n"), result


def test_code_may_come_through_a_fifo():
    script = f"'{BRIG}' run --lang sh <(echo 'echo 42')"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout == "42\n", result


def test_lang_alone_reads_stdin():
    assert brig("run", "--lang", "sh", input="echo 42").stdout == "42\n"


def test_lang_and_options_in_any_order_before_the_dashes():
    result = brig("run", "--lang", "sh", "-", "--json", "--", "x", input="echo $1")
    assert json.loads(result.stdout)["stdout"] == "x\n"


def test_lang_contradicts_a_command_and_a_terminal():
    refused(brig("run", "--lang", "python", *RAN), "--lang", "contradict")
    refused(brig("run", "--lang", "python", "-t"), "--lang", "contradict")
    refused(brig("run", "--lang", "sh", "-", "extra", input="echo RAN"), "extra", "after --")
    refused(brig("run", "--lang", "sh", "/no/such/file"), "/no/such/file")
    refused(brig("run", "--lang", "sh", "/usr"), "/usr")


# ---- descriptors ----

@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors_are_filled_first(closed, tmp_path):
    """What would land on a missing number must not become the program's stdin, stdout or stderr."""
    secret = tmp_path / "p.yaml"
    secret.write_text("level: high\n")
    before = secret.read_bytes()
    script = f"'{BRIG}' run --policy '{secret}' -- sh -c 'echo out; echo err >&2; cat' {closed}"
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result
    assert "level" not in result.stdout + result.stderr
    assert secret.read_bytes() == before


def test_a_reader_that_goes_away_is_survived():
    result = subprocess.run(
        ["bash", "-c", f"'{BRIG}' run -- seq 100000 | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, timeout=60,
    )
    assert result.stdout == "1\n"


# ---- doctor ----

def test_doctor_says_what_this_host_can_do():
    result = brig("doctor", "--json")
    report = json.loads(result.stdout)
    levels = {entry["level"]: entry for entry in report["levels"]}
    assert set(levels) == {"low", "medium", "high", "critical"}
    assert {entry["tier"] for entry in report["tiers"]} == {"process", "wasm-process", "container", "wasm", "gvisor", "vm"}
    assert result.returncode == (0 if levels["high"]["available"] else 1)
    assert not levels["critical"]["available"]
    for entry in [*report["facts"], *report["tiers"], *report["levels"]]:
        if not entry.get("present", entry.get("available")):
            assert entry["why"], entry
    text = brig("doctor")
    assert text.returncode == result.returncode
    assert "\033" not in text.stdout and "✓" not in text.stdout
    for name in levels:
        assert re.search(rf"^  (ok|no)  {name}\b", text.stdout, re.M)


# In a user namespace whose own limit of user namespaces is 0, brig lacks what a setting forbids, and root of that namespace can set it.
FORBIDDEN = """
mount -t tmpfs none /etc/sysctl.d
echo 0 >/proc/sys/user/max_user_namespaces
"""


def forbidden(script):
    result = subprocess.run(["unshare", "-Urm", "--propagation", "private", "sh", "-c", FORBIDDEN + script.replace("BRIG", f"'{BRIG}'")],
                            capture_output=True, text=True, timeout=120)
    if "unshare" in result.stderr or "mount:" in result.stderr:
        pytest.skip("no user namespace to try it in: " + result.stderr)
    return result


def test_doctor_prints_what_helps_and_runs_nothing():
    result = forbidden("BRIG doctor --fix; echo status $?; cat /proc/sys/user/max_user_namespaces; ls /etc/sysctl.d")
    assert "\n# user namespaces: user namespaces are switched off\n" in "\n" + result.stdout, result
    command = "echo 'user.max_user_namespaces = 15000' >>/etc/sysctl.d/60-brig.conf && sysctl -q -w user.max_user_namespaces=15000"
    assert command in result.stdout.splitlines(), result
    assert result.stdout.endswith("status 1\n0\n"), "nothing was changed, and nothing was written"
    # A shell can read it: what is no command is a comment.
    assert all(line == "" or line.startswith(("#", "echo ", "status", "0", "sudo ", "mount ", "mkdir ")) for line in result.stdout.splitlines()), result


def test_doctor_runs_it_when_told_to():
    result = forbidden("BRIG doctor --fix --yes --json >/etc/sysctl.d/said; cat /proc/sys/user/max_user_namespaces; "
                       "cat /etc/sysctl.d/60-brig.conf; cat /etc/sysctl.d/said")
    limit, kept, said = result.stdout.split("\n", 2)
    assert limit == "15000" and kept == "user.max_user_namespaces = 15000", result
    fix = next(f for f in json.loads(said)["fixes"] if f["name"] == "user namespaces")
    assert fix["tried"] and fix["status"] == 0 and fix["root"], fix
    assert "brig: echo 'user.max_user_namespaces" in result.stderr, "it is shown before it is run"


def test_doctor_never_calls_sudo():
    """An ordinary user is told what root would have to do."""
    result = subprocess.run(["unshare", "-U", "--map-user=1234", "sh", "-c", f"'{BRIG}' doctor --fix --yes --json"],
                            capture_output=True, text=True, timeout=120)
    if not result.stdout:
        pytest.skip("no user namespace to try it in: " + result.stderr)
    for fix in json.loads(result.stdout)["fixes"]:
        assert not (fix["root"] and fix["tried"]), fix


def test_doctor_every_fact_that_is_missing_has_a_remedy():
    result = brig("doctor", "--fix", "--json")
    report = json.loads(result.stdout)
    fixes = {f["name"]: f for f in report["fixes"]}
    for fact in report["facts"]:
        if not fact["present"]:
            assert fixes[fact["name"]]["command"] or fixes[fact["name"]]["words"], fact
    assert result.returncode == (1 if fixes else 0)
    assert not any(f["tried"] for f in fixes.values())
    text = brig("doctor", "--fix")
    assert text.returncode == result.returncode and (fixes or text.stdout == "nothing is missing here\n")


def test_doctor_yes_alone_is_refused():
    refused(brig("doctor", "--yes"), "--fix")


# ---- completion ----

def complete_lines(*words):
    script = f"""
        source <('{BRIG}' completion bash)
        COMP_WORDS=({" ".join(f"'{w}'" for w in words)}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _brig; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return result.stdout.splitlines()


def complete(*words):
    return [word for word in complete_lines(*words) if word]


def test_bash_completes_from_the_tables():
    assert {"run", "doctor", "policy"} <= set(complete("brig", ""))
    assert complete("brig", "run", "--mem") == ["--memory"]
    assert complete("brig", "run", "--level", "") == ["low", "medium", "high", "critical"]
    assert complete("brig", "run", "--level", "=", "cr") == ["critical"]
    assert complete("brig", "run", "-m", "1G", "--ti") == ["--tier", "--timeout"]
    assert complete("brig", "policy", "") == ["show", "check", "explain", "presets", "choose"]
    assert complete("brig", "policy", "show", "--pol") == ["--policy"]
    assert complete("brig", "run", "--al") == ["--allow"]
    assert complete("brig", "secrets", "") == ["check"]
    assert complete("brig", "secrets", "check", "--se") == ["--secret"]
    assert complete("brig", "net", "--no") == ["--none"]
    assert complete("brig", "proxy", "--li") == ["--listen"]
    assert "/usr" in complete("brig", "run", "--ro", "/us")
    assert "zsh" in complete("brig", "completion", "")
    assert complete("brig", "run", "ls", "--js") == []


def test_bash_completes_names_with_spaces(tmp_path):
    (tmp_path / "two words.yaml").touch()
    lines = complete_lines("brig", "run", "--policy", f"{tmp_path}/two")
    assert lines == [f"{tmp_path}/two words.yaml"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_option(shell):
    script = brig("completion", shell).stdout
    for verb in (["run"], ["net"], ["proxy"], ["secrets", "check"]):
        for name in re.findall(r"--([a-z][a-z-]+)", options_part(*verb)):
            assert re.search(rf"(--|-l ){name}\b", script), name


# ---- manual pages ----

def options_part(*verb):
    """The option lines of a help text, without examples and prose."""
    lines = brig(*verb, "--help").stdout.splitlines()
    return "\n".join(line for line in lines if re.match(r"  (-\w, |    )--", line))


@pytest.mark.parametrize(
    "verb, page",
    [
        (["run"], "brig-run.1"),
        (["init"], "brig-init.1"),
        (["doctor"], "brig-doctor.1"),
        (["verify"], "brig-verify.1"),
        (["policy", "show"], "brig-policy.1"),
        (["policy", "check"], "brig-policy.1"),
        (["policy", "explain"], "brig-policy.1"),
        (["policy", "choose"], "brig-policy.1"),
        (["policy", "presets"], "brig-policy.1"),
        (["net"], "brig-net.1"),
        *((["oci", verb], "brig-oci.1") for verb in ("create", "start", "state", "kill", "delete", "run", "exec", "ps", "pause", "resume",
                                                     "update", "events", "list", "features", "spec")),
        *(([verb], f"brig-{verb}.1") for verb in ("diff", "apply", "discard")),
        (["proxy"], "brig-proxy.1"),
        (["mcp"], "brig-mcp.1"),
        (["mcp", "--wrap"], "brig-mcp.1"),
        (["secrets", "check"], "brig-secrets.1"),
        *((["image", verb], "brig-image.1") for verb in ("load", "pull", "from-host", "list", "show", "rm", "gc", "verify")),
        *((["%s" % verb], "brig-%s.1" % verb) for verb in ("serve", "mcp", "ps", "create", "exec", "cp", "logs", "kill", "rm", "pause",
                                                           "resume", "stats", "pool", "approvals", "approve", "deny")),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else v,
)
def test_every_option_is_in_the_manual(verb, page):
    text = (MAN / f"{page}.scd").read_text()
    options = re.findall(r"--([a-z][a-z-]+)", options_part(*verb))
    assert options
    for name in options:
        assert re.search(rf"\*--{name}\*", text), f"--{name} is not in {page}"


def test_the_manual_of_run_has_no_option_that_does_not_exist():
    text = (MAN / "brig-run.1.scd").read_text()
    known = set(re.findall(r"--([a-z][a-z-]+)", options_part("run")))
    assert set(re.findall(r"\*--([a-z][a-z-]+)\*", text)) <= known


@pytest.mark.parametrize("page", sorted(MAN.glob("*.scd")), ids=lambda p: p.name)
def test_manual_pages_compile(page):
    try:
        result = subprocess.run(["scdoc"], stdin=page.open(), capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("scdoc is not installed")
    assert result.returncode == 0, result.stderr


def flat(report, prefix=""):
    for name, value in report.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, str(value).lower() if isinstance(value, bool) else str(value)


def test_the_manual_knows_every_key_of_a_policy():
    """Its table of levels: tests/unit/policy."""
    text = (MAN / "brig-policy.5.scd").read_text()
    for key, _ in flat(json.loads(brig("policy", "show", "--json", "--level", "high").stdout)):
        assert f"*{key}*" in text, key


def test_the_example_of_the_manual_is_a_valid_policy(tmp_path):
    example = re.search(r"# EXAMPLE\n\n```\n(.*?)```", (MAN / "brig-policy.5.scd").read_text(), re.S)[1]
    result = brig("policy", "check", policy_file(tmp_path, example))
    assert result.returncode == 0, result.stderr
