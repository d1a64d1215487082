"""Cells of bash."""
import re
import subprocess

import pytest

from driverlib import DRIVERS, Driver, Ended


@pytest.fixture
def driver():
    with Driver("bash") as made:
        yield made


def test_state_stays(driver, tmp_path):
    driver.run(f"x=5; cd {tmp_path}; f() {{ echo \"f$x\"; }}; declare -A m=([k]=v); alias hi='echo hello'; shopt -s nullglob")
    driver.run("set -- one two; export E=e")
    done = driver.run("f; pwd; echo ${m[k]} $2; hi; bash -c 'echo $E'; echo *.none end")
    assert done.out == f"f5\n{tmp_path}\nv two\nhello\ne\nend\n"
    assert done.data is None and done.error is None


def test_status(driver):
    done = driver.run("echo one; echo two >&2; (exit 7)")
    assert (done.out, done.err) == ("one\n", "two\n")
    assert (done.error["name"], done.error["value"], done.error["traceback"]) == ("ExitStatus", "7", "exit status 7")
    assert driver.run("echo $?").out == "7\n"
    assert driver.run("false; true").error is None
    assert driver.run("kill -9 $BASHPID & wait $!").error["value"] == "137"
    assert driver.run("no_such_command").error["value"] == "127"


@pytest.mark.parametrize("code, word", [
    ("if then", "syntax error"), ("echo 'open", "unexpected EOF"), ("set -u; echo $nope; echo not", "unbound"),
    ("${bad-}${x:?it}", "it"), ("exec no_such_program", "not found"), ("cd /no/such", "No such file"), ("(", "syntax error"),
    ("readonly R=1; R=2; echo not", "readonly"), (": $((1 / 0)); echo not", "division by 0"),
])
def test_errors_leave_the_shell_alive(driver, code, word):
    done = driver.run(code)
    assert done.error["name"] == "ExitStatus" and word in done.err and "not" not in done.out
    assert driver.run("set +u; echo alive").out == "alive\n"


@pytest.mark.parametrize("code", ["exit 3", "set -e; (exit 3)", "exec bash -c 'exit 3'", "trap 'exit 3' EXIT; exit 1",
                                  "{ sleep 1000; echo; } & exit 3"])
def test_the_shell_may_end(driver, code):
    done = driver.run(code)
    assert done.error["value"] == "3" and "exit\n" not in done.err
    assert driver.ends() == 0


def test_the_last_words_of_a_shell_are_heard():
    """The shell may be gone before the driver has read what it said."""
    for _ in range(30):
        with Driver("bash") as driver:
            done = driver.run("exit 3")
            assert done.error["value"] == "3" and done.err == ""


def test_killed(driver):
    assert driver.run("kill -9 $$").error["value"] == "137"
    assert driver.ends() == 0


def test_no_input(driver):
    assert driver.run("cat; read x; echo \"[$x]\"").out == "[]\n"


def test_streams_of_a_cell_are_its_own(driver):
    assert driver.run("exec >/dev/null 2>&1; echo lost").out == ""
    assert driver.run("echo found").out == "found\n"
    assert driver.run("exec 3>&1; echo three >&3").out == "three\n"


@pytest.mark.parametrize("code", [
    "echo go; sleep 1000", "echo go; while :; do :; done", "f() { while true; do sleep 0.01; done; }; echo go; f; echo not",
    "echo go; for i in 1 2 3; do sleep 1000; done; echo not", "echo go; sleep 1000 | cat", "echo go; (sleep 1000; echo not)",
    "echo go; x=$(sleep 1000); echo not",
    "echo go; sleep 1000 & wait; echo not", "eval 'eval \"echo go; sleep 1000\"; echo not'; echo not",
    "set -x; echo go; sleep 1000; echo not",
])
@pytest.mark.parametrize("group", [True, False], ids=["group", "process"])
def test_interrupts(driver, code, group):
    driver.run("kept=5")
    for _ in range(3):
        done = driver.interrupted(code, group)
        assert done.error["name"] == "Interrupted" and done.error["value"] == "130"
        assert "not" not in done.out
    assert driver.run("set +x; echo $kept").out == "5\n"


def test_a_program_that_ignores_the_interrupt(driver):
    # Who says "go" ends by the interrupt whenever it comes; who ignores it goes on then.
    driver.start("bash -c 'trap : INT; (echo go; exec sleep 1000); echo rest'")
    driver.wait_output("go")
    driver.interrupt()
    done = driver.finish()
    # A cell that takes longer than a moment to end gets the signal once more, which may meet the shell between two commands.
    assert "rest" in done.out and (done.error is None or done.error["name"] == "Interrupted")


def test_interrupts_without_end(driver):
    for i in range(60):
        driver.start(f"y={i}; true")
        for _ in range(i % 5):
            driver.interrupt(i % 2 == 0)
        done = driver.finish()
        assert done.error is None or done.error["name"] == "Interrupted"
    done = driver.run("echo alive")
    assert (done if done.error is None else driver.run("echo alive")).out == "alive\n"


def test_who_is_asked_again_says_the_same():
    """An interrupt can tear a report: the driver asks for it anew, and must not hear how the telling went."""
    prelude = re.search(r"<<'END'\n(.*?)\nEND\n", (DRIVERS / "bash.sh").read_text(), re.S)[1]
    script = [prelude]
    for cell, code in enumerate(("(exit 130)", "true", "false"), 1):
        script += [f"__brig_begin '{code}'; builtin eval \"$__brig_code\""] + 3 * [f"__brig_said {cell}"]
    done = subprocess.run(["bash", "-c", "exec bash --noprofile --norc --noediting -i 253>&1 >/dev/null 2>&1"], input="\n".join(script) + "\n",
                          stdout=subprocess.PIPE, text=True, check=False, start_new_session=True)
    assert done.stdout.splitlines()[1:] == 3 * ["1 130"] + 3 * ["2 0"] + 3 * ["3 1"], done


def test_the_shell_of_the_driver_is_not_the_cells(driver):
    """What a cell overrides is its own."""
    driver.run("IFS=abc; printf() { :; }; trap 'echo debug' DEBUG; PS1=prompt; LC_ALL=POSIX; set -f -C; alias eval=false")
    done = driver.run("trap - DEBUG; unset -f printf; echo 'ä b'")
    assert "ä b" in done.out and "prompt" not in done.err and done.error is None


def test_background_jobs(driver, tmp_path):
    done = driver.run("sleep 0.05 & echo started; wait; echo over")
    assert done.out == "started\nover\n"
    driver.run(f"{{ until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo late; }} &")
    done = driver.run(f"touch {tmp_path}/go; wait; echo after")
    assert done.out == "late\nafter\n"


def test_variables_are_restored(driver):
    driver.run("V=mine; declare -a L=(1 2); export X=x")
    done = driver.run("echo $V $X $N; bash -c 'echo $V $N'; V=changed", {"V": "theirs", "X": "y", "N": "new", "L": "l"})
    assert done.out == "theirs y new\ntheirs new\n"
    assert driver.run("echo $V $X ${N-none} ${L[1]}; bash -c 'echo ${V-none} $X'").out == "mine x none 2\nnone x\n"
    assert driver.interrupted("echo go; sleep 1000").error
    driver.start("echo go $N; sleep 1000", {"N": "n"})
    driver.wait_output("go n")
    driver.interrupt()
    driver.finish()
    assert driver.run("echo ${N-none}").out == "none\n"
    assert driver.run("echo $BASHPID", {"BASHPID": "1", "UID": "0", "a b": "c", "$(echo x)": "d"}).error is None


def test_nonsense_on_the_channel(driver):
    """Cells do not have the channel; only somebody who looks for it among the processes finds it."""
    assert driver.run("echo x >&4").error["value"] == "1"
    driver.start("printf '\\xff\\xff\\xff\\xff\\xff' >/proc/$PPID/fd/4 || kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)")
    with pytest.raises((AssertionError, Ended)):
        driver.finish()
        driver.run("true")
