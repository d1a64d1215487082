"""Cells of TypeScript, R and Java: what is installed is tried; what is not says what to install."""
import os
import shutil
import tarfile

import npmlib
import pytest

from driverlib import COMMANDS, Driver


def driver_of(language, **options):
    if not shutil.which(COMMANDS[language][0]):
        pytest.skip(f"{COMMANDS[language][0]} is not installed: {PACKAGES[language]}")
    return Driver(language, **options)


PACKAGES = {"typescript": "nodejs", "r": "r-base-core", "java": "openjdk-17-jdk-headless"}

# ---- Java ----


@pytest.fixture(scope="module")
def java():
    with driver_of("java") as made:
        yield made


@pytest.mark.parametrize("code, text", [
    ("1 + 2", "3"), ("int x = 20;", None), ("x + 1", "21"), ('"text"', "text"), ("List.of(1, 2)", "[1, 2]"), ("// nothing", None),
    ("class P { int v = 3; }\nnew P().v", "3"), ("int twice(int n) {\n    return 2 * n;\n}\ntwice(4)", "8"), ("", None),
    ('"ä€😀"', "ä€😀"), ("int y = 5", None), ("Object nothing = null;\nnothing", None), ("var a = 1; var b = 2; a + b", "3"),
    ("import java.time.Year;\nYear.of(2024).isLeap()", "true"), ("record R(int v) {}\nnew R(7)", "R[v=7]"),
])
def test_java_values(java, code, text):
    java.run("int x = 20;")
    done = java.run(code)
    assert done.error is None, done.error
    assert done.text == text


def test_java_prints(java):
    done = java.run('for (int i = 0; i < 2; i++) System.out.println(i);\nSystem.err.println("oops"); System.out.print("no newline");')
    assert (done.out, done.err, done.error) == ("0\n1\nno newline", "oops\n", None)


@pytest.mark.parametrize("code, name, word", [
    ("int f(int n) { return n / 0; }\nf(1)", "ArithmeticException", "/ by zero"), ("int = ;", "CompilationError", "expression"),
    ("nope()", "CompilationError", "cannot find symbol"), ("void g() { h(); }\ng()", "UnresolvedReference", "method h()"),
    ("throw new IllegalStateException(\"why\")", "IllegalStateException", "why"), ("if (", "CompilationError", ""),
])
def test_java_errors(java, code, name, word):
    error = java.run(code).error
    assert error["name"] == name and word in error["value"]
    assert java.run("1").text == "1"


def test_java_environment_is_of_one_execution(java):
    assert java.run('System.getProperty("Q")', {"Q": "v"}).text == "v"
    assert java.run('System.getProperty("Q")').text is None


@pytest.mark.parametrize("code", ["while (true) ;", "Thread.sleep(1000000);"])
def test_java_interrupts(java, code):
    java.run("int kept = 5;")
    done = java.interrupted('System.out.println("go"); ' + code, again=True)
    assert done.error["name"] == "Interrupted"
    assert java.run("kept").text == "5"


# ---- TypeScript ----

def test_typescript_that_is_missing_says_what_to_install(tmp_path):
    with driver_of("typescript", cwd=tmp_path) as driver:
        assert driver.ready["language"] == "typescript"
        done = driver.run("const x: number = 5\nx")
        if done.error is None:
            pytest.skip("a compiler of TypeScript is installed here")
        assert done.error["name"] == "LanguageNotInstalled"
        assert "node-typescript" in done.error["value"] and "npm install typescript" in done.error["value"]


@pytest.mark.parametrize("compiler", ["typescript", "esbuild"])
def test_typescript_uses_the_compiler_of_the_folder(tmp_path, compiler):
    """The published ones. It appears after the first cell, as one does that a cell installs."""
    packages = npmlib.install("compilers") / "node_modules"
    with driver_of("typescript", cwd=tmp_path) as driver:
        driver.run("1")
        folder = tmp_path / "node_modules"
        folder.mkdir()
        (folder / compiler).symlink_to(packages / compiler)
        assert driver.run("const x: number = 5\nx * 2").text == "10"
        assert driver.run("x").text == "5"
        assert driver.run("await Promise.resolve<number>(x + 1)").text == "6"
        cell = """import { join } from 'node:path'
            import type { PathLike } from 'node:fs'
            interface Point { x: number; y?: string }
            enum Colour { Red = 3, Green }
            class Box<T> { constructor(private readonly item: T) {} get(): T { return this.item } }
            const point = { x: Colour.Green } satisfies Point
            new Box<Point>(point as Point).get().x"""
        assert driver.run(cell).text == "4"
        assert driver.run("[join('a', 'b'), Colour[3], new Box(point!).get().x].join()").text == "a/b,Red,4", "an import that a later cell uses"
        assert driver.run("const y: = 3").error["name"] == "SyntaxError"
        assert driver.run("x").text == "5"


# ---- R ----

def test_r(tmp_path):
    with driver_of("r", env={**os.environ, "HOME": str(tmp_path)}) as driver:
        assert driver.run("1 + 2").text == "[1] 3"
        done = driver.run("x <- 20\ncat('out\\n')\nmessage('err')\nx + 1")
        assert (done.text, done.out, done.err, done.error) == ("[1] 21", "out\n", "err\n", None)
        assert driver.run("1\n2").out == "[1] 1\n" and driver.run("invisible(1)").text is None
        assert driver.run("data.frame(a = 1:2, b = c('u', NA))").data["data"] == {"a": [1, 2], "b": ["u", None]}
        error = driver.run("stop('no')").error
        assert (error["name"], error["value"]) == ("Error", "no")
        assert driver.run("1 +").error and driver.run("'ä€😀 \"\\\\'").text == '[1] "ä€😀 \\"\\\\"'
        assert driver.run("Sys.getenv('Q')", {"Q": "two \"words\""}).text == '[1] "two \\"words\\""'
        assert driver.run("Sys.getenv('Q')").text == '[1] ""'
        assert driver.run("plot(1:3)").shown[0]["png"]
        assert driver.interrupted("cat('go\\n'); repeat {}", again=True).error["name"] == "Interrupted"
        assert driver.run("x").text == "[1] 20"
        assert driver.run("startsWith(.libPaths()[1], Sys.getenv('HOME')) && file.access(.libPaths()[1], 2) == 0").text == "[1] TRUE"
        assert driver.run("getOption('repos')[['CRAN']]").text == '[1] "https://cloud.r-project.org"'
        driver.send({"op": "exit"})
        assert driver.ends() == 0


def test_r_installs_for_the_user(tmp_path):
    """From a repository of files, by nothing but a name."""
    source = tmp_path / "brigtiny"
    (source / "R").mkdir(parents=True)
    (source / "DESCRIPTION").write_text("Package: brigtiny\nVersion: 1.0\nTitle: T\nDescription: D.\nLicense: MIT\nAuthor: a\nMaintainer: a <a@b.test>\n")
    (source / "NAMESPACE").write_text("export(word)\n")
    (source / "R" / "a.R").write_text("word <- function() 'tiny works'\n")
    place = tmp_path / "repository" / "src" / "contrib"
    place.mkdir(parents=True)
    with tarfile.open(place / "brigtiny_1.0.tar.gz", "w:gz") as packed:
        packed.add(source, "brigtiny")
    (place / "PACKAGES").write_text("Package: brigtiny\nVersion: 1.0\n")
    with driver_of("r", env={**os.environ, "HOME": str(tmp_path)}) as driver:
        driver.run(f"options(repos = c(CRAN = 'file://{tmp_path}/repository'))")
        done = driver.run("install.packages('brigtiny', quiet = TRUE)\nlibrary(brigtiny)\nword()")
        assert done.error is None and done.text == '[1] "tiny works"', (done.error, done.out, done.err)
