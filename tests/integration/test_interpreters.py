"""The drivers as programs, and each of them inside brig."""
import os
import re
import shutil
from pathlib import Path

import pytest

from driverlib import COMMANDS, DRIVERS, Driver, smoke

LIB = Path(__file__).resolve().parents[1] / "lib"
LANGUAGES = ["python", "node", "bash"]  # the others: test_interpreter_languages.py


@pytest.fixture(params=LANGUAGES)
def language(request):
    return request.param


@pytest.fixture
def driver(language):
    with Driver(language) as made:
        yield made


PRINT = {"python": "print('{}')", "node": "console.log('{}')", "bash": "echo '{}'"}
NAMES = {"python": "python", "node": "javascript", "bash": "bash"}


def test_greets_once(driver, language):
    assert driver.ready["language"] == NAMES[language]
    assert driver.ready["pid"] == driver.process.pid
    assert driver.ready["version"][0].isdigit()


def test_counts(driver, language):
    assert [driver.run(PRINT[language].format(i)).count for i in range(3)] == [1, 2, 3]


def test_output_is_there_before_the_end(driver, language):
    for i in range(20):
        assert driver.run(PRINT[language].format(i)).out == f"{i}\n"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_any_text_in_code(driver, language, ascii_only):
    text = "ä € 😀 \u2028\u202e\x7f \\\\ \\t \" tab\there"
    quoted = {"python": repr(text), "node": "'" + text.replace("\\", "\\\\").replace("\u2028", "\\u2028") + "'",
              "bash": f"'{text}'"}[language]
    line = {"python": f"print({quoted})", "node": f"console.log({quoted})", "bash": f"echo {quoted}"}[language]
    assert driver.run(line, ascii_only=ascii_only).out == text + "\n"


def test_environment_is_of_one_execution(language):
    show = {"python": "import os\nprint(os.environ.get('A'), os.environ.get('B'), os.environ.get('C'))",
            "node": "console.log(process.env.A, process.env.B, process.env.C)",
            "bash": "echo ${A-None} ${B-None} ${C-None}"}[language]
    with Driver(language, env={**os.environ, "A": "before"}) as driver:
        nothing = driver.run(show).out.split()
        assert nothing[0] == "before" and nothing[1] == nothing[2]
        during = driver.run(show, {"A": "1", "B": "two\n\"words\"", "no name": "x", "": "y"})
        assert during.out.split() == ["1", "two", '"words"', nothing[2]]
        assert driver.run(show).out.split() == nothing


def test_environment_is_restored_after_an_error(driver, language):
    fail = {"python": "1/0", "node": "throw 1", "bash": "false"}[language]
    show = {"python": "import os; os.environ.get('Q')", "node": "process.env.Q", "bash": "echo $Q"}[language]
    assert driver.run(fail, {"Q": "secret"}).error
    done = driver.run(show)
    assert done.text is None and done.out.strip() == ""


def test_interrupt_keeps_the_context(driver, language):
    keep = {"python": "kept = 5", "node": "const kept = 5", "bash": "kept=5"}[language]
    busy = {"python": "print('go', flush=True)\nwhile True: pass", "node": "console.log('go'); for (;;) ;",
            "bash": "echo go; while :; do :; done"}[language]
    name = {"python": "KeyboardInterrupt", "node": "Interrupted", "bash": "Interrupted"}[language]
    driver.run(keep)
    for group in (True, False, True):
        assert driver.interrupted(busy, group).error["name"] == name
    done = driver.run("echo $kept" if language == "bash" else "kept")
    assert (done.text or done.out.strip()) == "5"


def test_interrupt_between_cells_is_nothing(driver, language):
    for group in (True, False):
        driver.run(PRINT[language].format("x"))
        for _ in range(5):
            driver.interrupt(group)
        done = driver.run(PRINT[language].format("still here"))
        # One that comes late may still meet the cell; never more than that.
        if done.error:
            done = driver.run(PRINT[language].format("still here"))
        assert done.out == "still here\n"


def test_exit_request(driver):
    driver.send({"op": "exit"})
    assert driver.ends() == 0


def test_end_of_the_channel(driver):
    driver.end_requests()
    assert driver.ends() == 0


def test_no_descriptor_for_children(driver, language):
    line = "ls /proc/self/fd"
    code = {"python": f"!{line}", "node": f"console.log(require('child_process').execSync('{line}').toString())",
            "bash": line}[language]
    seen = {int(word) for word in driver.run(code).out.split()}
    assert {0, 1, 2} <= seen and max(seen) <= 4  # one more is ls's own


def test_a_background_child_does_not_hold_the_end(driver, language):
    line = "sleep 1000 & echo started"
    code = {"python": f"!{line}", "node": "require('child_process').spawn('sleep', ['1000'], {stdio: 'inherit'}); 1",
            "bash": line}[language]
    driver.run(code)
    assert driver.run(PRINT[language].format("next")).out == "next\n"


def test_large_code(driver, language):
    text = "y" * 200_000
    code = {"python": f"len('{text}')", "node": f"'{text}'.length", "bash": f"x='{text}'; echo ${{#x}}"}[language]
    done = driver.run(code)
    assert (done.text or done.out.strip()) == "200000"


def test_much_output(driver, language):
    code = {"python": "print('x' * 3_000_000)", "node": "console.log('x'.repeat(3000000))",
            "bash": "head -c 3000000 /dev/zero | tr '\\0' x; echo"}[language]
    assert driver.run(code).out == "x" * 3_000_000 + "\n"


def test_inside_brig(box, language):
    """Drivers and their checks inside the sandbox, as a driver inside meets its limits and filters."""
    if not shutil.which(COMMANDS[language][0]):
        pytest.skip("not installed")
    done = box.run("--ro", str(LIB), "--ro", str(DRIVERS), "-e", f"DRIVERS={DRIVERS}", "-e",
                   "PYTHONDONTWRITEBYTECODE=1", "--", "/usr/bin/python3", str(LIB / "driverlib.py"), language)
    assert done.stdout == f"{language} works\n", done


def test_outside_brig(language):
    smoke(language)


# Every version that is installed for all users; Debian has one, who has more sees each of them tried.
VERSIONS = sorted(p for p in Path("/usr/bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", p.name))


@pytest.mark.parametrize("python", VERSIONS, ids=lambda p: p.name)
def test_versions_of_python(python):
    with Driver("python", [str(python), str(DRIVERS / "python.py")]) as driver:
        assert driver.run("import asyncio\nawait asyncio.sleep(0)\n[i async for i in aiter()] if 0 else 1").text == "1"
        assert driver.run("x = !echo a\nx").text == "['a']"
        assert driver.run("1 +").error["name"] == "SyntaxError"
        assert "----> 1 1/0" in driver.run("1/0").error["traceback"]
        assert driver.interrupted("import time\nprint('go')\ntime.sleep(1000)", asleep=True).error["name"] == "KeyboardInterrupt"
        code = "print('go', flush=True)\nawait asyncio.sleep(1000)"
        assert driver.interrupted(code, asleep=True).error["name"] == "KeyboardInterrupt"
        assert driver.run("1").text == "1"
